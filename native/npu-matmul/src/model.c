/* SPDX-License-Identifier: MIT
 *
 * Fetch and set registers (PC), then feature and weights (CNA), sums (CORE), conversion and write (DPU). Address
 * formulas count atoms of 16 bytes; both the native and the row-major layout are cases of them.
 */
#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"
#include "registers.h"

#define POISON 0xA5A5A5A5u

void nm_core_reset(struct nm_core *core, uint32_t poison)
{
        for (size_t i = 0; i < 0x80; i++)
                core->cna[i] = core->core[i] = core->dpu[i] = core->rdma[i] = poison;
        core->sum = NM_SUM_WIDE;
}

uint32_t *nm_core_register(struct nm_core *core, uint32_t target, uint32_t offset)
{
        size_t index = (offset & 0xFFF) / 4;

        if (offset & 3 || index >= 0x80)
                return NULL;
        switch (target) {
        case TARGET_CNA: return offset >> 12 == 1 ? &core->cna[index] : NULL;
        case TARGET_CORE: return offset >> 12 == 3 ? &core->core[index] : NULL;
        case TARGET_DPU: return offset >> 12 == 4 ? &core->dpu[index] : NULL;
        case TARGET_RDMA: return offset >> 12 == 5 ? &core->rdma[index] : NULL;
        }
        return NULL;
}

static uint32_t cna(const struct nm_core *core, uint32_t offset)
{
        return core->cna[(offset & 0xFFF) / 4];
}

static uint32_t dpu(const struct nm_core *core, uint32_t offset)
{
        return core->dpu[(offset & 0xFFF) / 4];
}

static int hang(struct nm_error *why, const char *reason, uint32_t value)
{
        return nm_fail(why, NM_TIMEOUT, "the NPU would hang: %s (0x%x)", reason, (unsigned)value);
}

/* One product, as the registers describe it. */
struct product {
        bool fp16;
        uint32_t m, n, k, bytes, group;         /* bytes of an input element; kernels a group */
        uint32_t input, weights, output;
        uint32_t lines;                         /* G of the address formula: 4 or, rows as they are, 1 */
        int32_t line_stride, surface_stride;    /* atoms */
        uint32_t out_bytes, out_surface, out_notch;
        bool to_half;
};

#define REFUSE_UNLESS(condition, reason, value) \
        do { \
                if (!(condition)) \
                        return hang(why, reason, value); \
        } while (0)

static int32_t signed28(uint32_t value)
{
        value &= STRIDE_28;
        return value & 0x08000000u ? (int32_t)value - 0x10000000 : (int32_t)value;
}

static int read_cna(const struct nm_core *core, struct product *p, struct nm_error *why)
{
        uint32_t con1 = cna(core, CNA_CONV_CON1), size0 = cna(core, CNA_DATA_SIZE0), size1 = cna(core, CNA_DATA_SIZE1);
        uint32_t size2 = cna(core, CNA_WEIGHT_SIZE2), cbuf = cna(core, CNA_CBUF_CON0), banks = cbuf & 0xF;

        REFUSE_UNLESS((con1 & ~(0x3F0u | CONV_GROUP_LINE_OFF)) == 0, "mode of CONV_CON1", con1);
        p->fp16 = (con1 >> 4 & 7) == PRECISION_FP16;
        REFUSE_UNLESS((con1 >> 7 & 7) == (con1 >> 4 & 7) && (p->fp16 || (con1 >> 4 & 7) == PRECISION_INT8),
                      "precision of CONV_CON1", con1);
        p->bytes = p->fp16 ? 2 : 1;
        p->group = p->fp16 ? 16 : 32;
        REFUSE_UNLESS(cna(core, CNA_CONV_CON3) == 9, "strides of CONV_CON3", cna(core, CNA_CONV_CON3));
        p->m = size0 & 0x7FF;
        p->k = size1 & 0xFFFF;
        p->n = size2 & 0x3FFF;
        REFUSE_UNLESS(size0 >> 16 == 1 && !(size0 & 0xF800) && p->m >= 1, "DATA_SIZE0", size0);
        REFUSE_UNLESS(p->k >= 32 && p->k <= MOST_K && p->k % 32 == 0 && size1 >> 16 == p->k - 1, "DATA_SIZE1", size1);
        REFUSE_UNLESS(size2 >> 16 == 0x101 && p->n && p->n <= MOST_N && p->n % p->group == 0, "WEIGHT_SIZE2", size2);
        REFUSE_UNLESS(cna(core, CNA_DATA_SIZE2) == 1, "DATA_SIZE2", cna(core, CNA_DATA_SIZE2));
        REFUSE_UNLESS(cna(core, CNA_DATA_SIZE3) == p->m, "DATA_SIZE3", cna(core, CNA_DATA_SIZE3));
        REFUSE_UNLESS(cna(core, CNA_WEIGHT_SIZE0) == p->n * p->k * p->bytes, "WEIGHT_SIZE0",
                      cna(core, CNA_WEIGHT_SIZE0));
        REFUSE_UNLESS(cna(core, CNA_WEIGHT_SIZE1) == p->k * p->bytes, "WEIGHT_SIZE1", cna(core, CNA_WEIGHT_SIZE1));
        REFUSE_UNLESS(!(cbuf & ~0xFFu) && banks >= 1 && (cbuf >> 4) >= 1 && banks + (cbuf >> 4) <= CBUF_BANKS &&
                              (uint64_t)p->m * p->k * p->bytes <= (uint64_t)banks * CBUF_BANK_BYTES,
                      "banks of CBUF_CON0", cbuf);
        REFUSE_UNLESS(cna(core, CNA_CBUF_CON1) == (p->k * p->bytes + 63) / 64, "entries of CBUF_CON1",
                      cna(core, CNA_CBUF_CON1));
        REFUSE_UNLESS(cna(core, CNA_CVT_CON0) == CVT_BYPASSED, "conversion of the input", cna(core, CNA_CVT_CON0));
        REFUSE_UNLESS(cna(core, CNA_PAD_CON0) == 0 && cna(core, CNA_PAD_CON1) == 0, "padding of the input",
                      cna(core, CNA_PAD_CON0));
        REFUSE_UNLESS(cna(core, CNA_DCOMP_CTRL) == 0, "compressed weights", cna(core, CNA_DCOMP_CTRL));
        p->input = cna(core, CNA_FEATURE_DATA_ADDR);
        p->weights = cna(core, CNA_DCOMP_ADDR0);
        REFUSE_UNLESS(p->input % 16 == 0, "address of the input", p->input);
        REFUSE_UNLESS(p->weights % 16 == 0, "address of the weights", p->weights);
        p->lines = con1 & CONV_GROUP_LINE_OFF ? 1 : 4;
        p->line_stride = signed28(cna(core, CNA_DMA_CON1));
        p->surface_stride = signed28(cna(core, CNA_DMA_CON2));
        return NM_OK;
}

static int read_core(const struct nm_core *core, const struct product *p, struct nm_error *why)
{
        uint32_t misc = core->core[(CORE_MISC_CFG & 0xFFF) / 4];
        uint32_t height = core->core[(CORE_DATAOUT_SIZE_0 & 0xFFF) / 4],
                 channels = core->core[(CORE_DATAOUT_SIZE_1 & 0xFFF) / 4];

        REFUSE_UNLESS(misc >> 8 == (p->fp16 ? PRECISION_FP16 : PRECISION_INT8) && !(misc & 0xFE) &&
                              (!p->fp16 || misc & 1),
                      "MISC_CFG", misc);
        REFUSE_UNLESS(height == (p->m - 1) << 16, "DATAOUT_SIZE_0", height);
        REFUSE_UNLESS(channels == p->n - 1, "DATAOUT_SIZE_1", channels);
        REFUSE_UNLESS(core->core[(CORE_CLIP_TRUNCATE & 0xFFF) / 4] == 0, "CLIP_TRUNCATE",
                      core->core[(CORE_CLIP_TRUNCATE & 0xFFF) / 4]);
        return NM_OK;
}

static int read_dpu(const struct nm_core *core, struct product *p, struct nm_error *why)
{
        uint32_t format = dpu(core, DPU_DATA_FORMAT), proc = p->fp16 ? PRECISION_FP16 : PRECISION_INT8;
        uint32_t out = format >> 29, scale = dpu(core, DPU_OUT_CVT_SCALE), ow = dpu(core, DPU_BS_OW_CFG);
        uint32_t notch = dpu(core, DPU_DATA_CUBE_NOTCH), channel = dpu(core, DPU_DATA_CUBE_CHANNEL), s;

        REFUSE_UNLESS((format & 0x1FFFFFFF) == (proc << 26 | proc), "DATA_FORMAT", format);
        REFUSE_UNLESS(out == (p->fp16 ? PRECISION_FP32 : PRECISION_INT32) || (p->fp16 && out == PRECISION_FP16),
                      "output precision of DATA_FORMAT", format);
        p->to_half = out == PRECISION_FP16;
        p->out_bytes = p->to_half ? 2 : 4;
        REFUSE_UNLESS(scale == (p->to_half ? OUT_FP32_TO_FP16 | 1 : 1), "OUT_CVT_SCALE", scale);
        REFUSE_UNLESS(dpu(core, DPU_OUT_CVT_OFFSET) == 0 && dpu(core, DPU_OUT_CVT_SHIFT) == 0,
                      "conversion of the output", dpu(core, DPU_OUT_CVT_SHIFT));
        REFUSE_UNLESS(dpu(core, DPU_BS_CFG) == BS_BYPASSED, "BS stage", dpu(core, DPU_BS_CFG));
        REFUSE_UNLESS(dpu(core, DPU_BN_CFG) == BS_BYPASSED, "BN stage", dpu(core, DPU_BN_CFG));
        REFUSE_UNLESS(dpu(core, DPU_EW_CFG) == EW_BYPASSED, "EW stage", dpu(core, DPU_EW_CFG));
        REFUSE_UNLESS(dpu(core, DPU_FEATURE_MODE_CFG) == 0x1E4, "FEATURE_MODE_CFG", dpu(core, DPU_FEATURE_MODE_CFG));
        REFUSE_UNLESS(dpu(core, DPU_OFFSET_PEND) == 0, "OFFSET_PEND", dpu(core, DPU_OFFSET_PEND));
        REFUSE_UNLESS(dpu(core, DPU_DATA_CUBE_WIDTH) == 0, "DATA_CUBE_WIDTH", dpu(core, DPU_DATA_CUBE_WIDTH));
        REFUSE_UNLESS(dpu(core, DPU_DATA_CUBE_HEIGHT) == p->m - 1, "DATA_CUBE_HEIGHT", dpu(core, DPU_DATA_CUBE_HEIGHT));
        REFUSE_UNLESS(channel == ((p->n - 1) << 16 | (p->n - 1)), "DATA_CUBE_CHANNEL", channel);
        REFUSE_UNLESS(dpu(core, DPU_WDMA_SIZE_0) == p->n - 1, "WDMA_SIZE_0", dpu(core, DPU_WDMA_SIZE_0));
        REFUSE_UNLESS(dpu(core, DPU_WDMA_SIZE_1) == (p->m - 1) << 16, "WDMA_SIZE_1", dpu(core, DPU_WDMA_SIZE_1));
        p->output = dpu(core, DPU_DST_BASE_ADDR);
        REFUSE_UNLESS(p->output % 16 == 0, "address of the output", p->output);
        p->out_surface = dpu(core, DPU_DST_SURF_STRIDE) >> 4;
        p->out_notch = notch & 0x1FFF;
        REFUSE_UNLESS(notch == (p->out_notch << 16 | p->out_notch), "DATA_CUBE_NOTCH", notch);
        s = p->group * p->out_bytes / 16;
        REFUSE_UNLESS(ow == ((s - 1) << 8 | (s - 1) << 5 | (s - 1) << 2 | 2), "size_e of BS_OW_CFG", ow);
        REFUSE_UNLESS(dpu(core, DPU_SURFACE_ADD) == (p->out_surface * s) << 4, "SURFACE_ADD",
                      dpu(core, DPU_SURFACE_ADD));
        return NM_OK;
}

static int read_rdma(const struct nm_core *core, const struct product *p, struct nm_error *why)
{
        const uint32_t *r = core->rdma;
        uint32_t mode = r[(RDMA_FEATURE_MODE_CFG & 0xFFF) / 4];

        REFUSE_UNLESS(r[(RDMA_S_POINTER & 0xFFF) / 4] == S_POINTER_PING_PONG, "RDMA S_POINTER", r[1]);
        REFUSE_UNLESS(mode & RDMA_MRDMA_DISABLED, "RDMA runs and its MRDMA is not disabled", mode);
        REFUSE_UNLESS(r[(RDMA_ERDMA_CFG & 0xFFF) / 4] & 1, "RDMA runs and its ERDMA is not disabled",
                      r[(RDMA_ERDMA_CFG & 0xFFF) / 4]);
        REFUSE_UNLESS(r[(RDMA_BRDMA_CFG & 0xFFF) / 4] == 0 && r[(RDMA_NRDMA_CFG & 0xFFF) / 4] == 0, "RDMA operands",
                      r[(RDMA_BRDMA_CFG & 0xFFF) / 4]);
        REFUSE_UNLESS(r[(RDMA_CUBE_HEIGHT & 0xFFF) / 4] == p->m - 1 && r[(RDMA_CUBE_CHANNEL & 0xFFF) / 4] == p->n - 1 &&
                      r[(RDMA_CUBE_WIDTH & 0xFFF) / 4] == 0, "RDMA cube", r[(RDMA_CUBE_HEIGHT & 0xFFF) / 4]);
        return NM_OK;
}

/* `atoms` from `base`, as a 32-bit address; false past either end of the address space. */
static bool atom_address(uint32_t base, int64_t atoms, uint32_t *address)
{
        int64_t where = (int64_t)base + atoms * 16;

        *address = (uint32_t)where;
        return where >= 0 && where <= INT64_C(0xFFFFFFF0);
}

static int read_feature(const struct product *p, const struct nm_model_memory *memory, uint8_t *rows,
                        struct nm_error *why)
{
        uint32_t atoms = p->k * p->bytes / 16, address;

        for (uint32_t y = 0; y < p->m; y++)
                for (uint32_t s = 0; s < atoms; s++) {
                        int64_t atom = (int64_t)(y / p->lines) * p->line_stride + y % p->lines +
                                       (int64_t)s * ((int64_t)p->lines + p->surface_stride);
                        const void *data = NULL;

                        if (atom_address(p->input, atom, &address))
                                data = memory->at(memory->context, address, 16, false);
                        if (!data)
                                return hang(why, "the input is not in memory", address);
                        memcpy(rows + ((size_t)y * atoms + s) * 16, data, 16);
                }
        return NM_OK;
}

/* Row `n` of B out of (N/group, K/32, group, 32). */
static const uint8_t *kernel_block(const struct product *p, const uint8_t *weights, uint32_t n, uint32_t block)
{
        size_t group_start = (size_t)(n / p->group) * p->group * p->k;

        return weights + (group_start + (size_t)block * p->group * 32 + (size_t)(n % p->group) * 32) * p->bytes;
}

/* Eight sums side by side, so that the order stays the same whatever the compiler makes of it. */
static float sum_wide(const float *a, const float *b, uint32_t k)
{
        double part[8] = {0};

        for (uint32_t i = 0; i < k; i += 8)
                for (int lane = 0; lane < 8; lane++)
                        part[lane] += (double)a[i + (uint32_t)lane] * (double)b[i + (uint32_t)lane];
        return (float)(((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7])));
}

static float sum_single(const float *a, const float *b, uint32_t k)
{
        float sum = 0;

        for (uint32_t i = 0; i < k; i++)
                sum += a[i] * b[i];
        return sum;
}

static int64_t sum_int8(const int8_t *a, const int8_t *b, uint32_t k)
{
        int32_t sum = 0;                        /* 16384 · 2^14 = 2^28 at most */

        for (uint32_t i = 0; i < k; i++)
                sum += a[i] * b[i];
        return sum;
}

struct output {
        const struct product *p;
        const struct nm_model_memory *memory;
        uint32_t n;                             /* the first channel of the group */
        uint8_t *atoms;                         /* (M, group) elements of out_bytes */
};

static int write_group(const struct output *o, struct nm_error *why)
{
        const struct product *p = o->p;
        uint32_t per_atom = 16 / p->out_bytes, atoms = p->group / per_atom, address;

        for (uint32_t y = 0; y < p->m; y++)
                for (uint32_t i = 0; i < atoms; i++) {
                        int64_t atom =
                                (int64_t)y * (1 + p->out_notch) + (int64_t)(o->n / per_atom + i) * p->out_surface;
                        void *data = NULL;

                        if (atom_address(p->output, atom, &address))
                                data = o->memory->at(o->memory->context, address, 16, true);
                        if (!data)
                                return hang(why, "the output is not in memory", address);
                        memcpy(data, o->atoms + ((size_t)y * atoms + i) * 16, 16);
                }
        return NM_OK;
}

static void store(const struct product *p, uint8_t *atoms, size_t index, float sum)
{
        uint16_t half = half_from_float(sum);

        if (p->to_half)
                memcpy(atoms + index * 2, &half, 2);
        else
                memcpy(atoms + index * 4, &sum, 4);
}

static int multiply_fp16(const struct nm_core *core, const struct product *p, const uint8_t *rows,
                         const uint8_t *weights, struct output *out, struct nm_error *why)
{
        float *a = malloc(((size_t)p->m + 1) * p->k * sizeof(float)), *b = a ? a + (size_t)p->m * p->k : NULL;
        int status = a ? NM_OK : nm_fail(why, NM_NO_MEMORY, "no memory for the model");

        if (a)
                floats_from_halves(a, (const uint16_t *)(const void *)rows, (size_t)p->m * p->k);
        for (out->n = 0; out->n < p->n && !status; out->n += p->group) {
                for (uint32_t i = 0; i < p->group; i++) {
                        for (uint32_t block = 0; block < p->k / 32; block++) {
                                uint16_t halves[32];

                                memcpy(halves, kernel_block(p, weights, out->n + i, block), sizeof(halves));
                                floats_from_halves(b + block * 32, halves, 32);
                        }
                        for (uint32_t y = 0; y < p->m; y++) {
                                const float *row = a + (size_t)y * p->k;

                                store(p, out->atoms, (size_t)y * p->group + i,
                                      core->sum == NM_SUM_WIDE ? sum_wide(row, b, p->k) : sum_single(row, b, p->k));
                        }
                }
                status = write_group(out, why);
        }
        free(a);
        return status;
}

static int multiply_int8(const struct product *p, const uint8_t *rows, const uint8_t *weights, struct output *out,
                         struct nm_error *why)
{
        int8_t *b = malloc(p->k);
        int status = b ? NM_OK : nm_fail(why, NM_NO_MEMORY, "no memory for the model");

        for (out->n = 0; out->n < p->n && !status; out->n += p->group) {
                for (uint32_t i = 0; i < p->group; i++) {
                        for (uint32_t block = 0; block < p->k / 32; block++)
                                memcpy(b + block * 32, kernel_block(p, weights, out->n + i, block), 32);
                        for (uint32_t y = 0; y < p->m; y++) {
                                int64_t sum = sum_int8((const int8_t *)rows + (size_t)y * p->k, b, p->k);
                                int32_t stored = (int32_t)(sum > INT32_MAX   ? INT32_MAX
                                                           : sum < INT32_MIN ? INT32_MIN
                                                                             : sum);

                                if (sum >= INT64_C(1) << 33 || sum < -(INT64_C(1) << 33)) {
                                        free(b);
                                        return hang(why, "a sum needs more than 34 bits", out->n + i);
                                }
                                memcpy(out->atoms + ((size_t)y * p->group + i) * 4, &stored, 4);
                        }
                }
                status = write_group(out, why);
        }
        free(b);
        return status;
}

static int execute(const struct nm_core *core, const struct nm_model_memory *memory, uint32_t enable,
                   struct nm_error *why)
{
        struct product p = {0};
        struct output out = {.p = &p, .memory = memory};
        const uint8_t *weights;
        uint8_t *rows;
        int status;

        REFUSE_UNLESS(dpu(core, DPU_S_POINTER) == S_POINTER_PING_PONG, "DPU S_POINTER", dpu(core, DPU_S_POINTER));
        status = read_cna(core, &p, why);
        status = status ? status : read_core(core, &p, why);
        status = status ? status : read_dpu(core, &p, why);
        if (!status && enable & ENABLE_RDMA)
                status = read_rdma(core, &p, why);
        if (status)
                return status;
        weights = memory->at(memory->context, p.weights, (size_t)p.n * p.k * p.bytes, false);
        if (!weights)
                return hang(why, "the weights are not in memory", p.weights);
        rows = malloc((size_t)p.m * p.k * p.bytes);
        out.atoms = malloc((size_t)p.m * p.group * p.out_bytes);
        status = rows && out.atoms ? read_feature(&p, memory, rows, why)
                                   : nm_fail(why, NM_NO_MEMORY, "no memory for the model");
        if (!status && p.fp16)
                status = multiply_fp16(core, &p, rows, weights, &out, why);
        else if (!status)
                status = multiply_int8(&p, rows, weights, &out, why);
        free(rows);
        free(out.atoms);
        return status;
}

static int read_words(struct nm_core *core, const uint8_t *words, const struct nm_list *list, struct nm_error *why)
{
        for (uint32_t i = 0; i < list->words; i++) {
                uint32_t target, offset, value, *place, tail = list->words - i;
                uint64_t word;

                memcpy(&word, words + (size_t)i * 8, 8);
                target = (uint32_t)(word >> 48);
                value = (uint32_t)(word >> 16);
                offset = (uint32_t)word & 0xFFFF;
                if (tail == 2) {
                        REFUSE_UNLESS(target == TARGET_MARK && !value && !offset, "no mark before the enable word",
                                      target);
                } else if (tail == 1) {
                        REFUSE_UNLESS(target == TARGET_ENABLE && offset == PC_OPERATION_ENABLE && value == list->enable,
                                      "the last word does not enable what the list says", value);
                } else if (word && target != TARGET_PC) {
                        place = nm_core_register(core, target, offset);
                        REFUSE_UNLESS(place, "a word names no register", offset);
                        *place = value;
                } else if (word) {      /* the chain; each list of a job is kicked by itself here */
                        REFUSE_UNLESS(tail <= 4 && (offset == PC_BASE_ADDRESS || offset == PC_REGISTER_AMOUNTS),
                                      "a PC register within the list", offset);
                }
        }
        return NM_OK;
}

int nm_core_run(struct nm_core *core, const struct nm_model_memory *memory, const struct nm_list *list,
                struct nm_error *why)
{
        const uint8_t *words;
        int status;

        REFUSE_UNLESS(list->address % 16 == 0, "address of the list", list->address);
        REFUSE_UNLESS(list->words >= 4 && list->words % 2 == 0 && list->words <= 4096, "words of the list",
                      list->words);
        REFUSE_UNLESS(list->enable == ENABLE_PLAIN || list->enable == (ENABLE_PLAIN | ENABLE_RDMA),
                      "operations enabled", list->enable);
        words = memory->at(memory->context, list->address, (size_t)list->words * 8, false);
        REFUSE_UNLESS(words, "the list is not in memory", list->address);
        status = read_words(core, words, list, why);
        return status ? status : execute(core, memory, list->enable, why);
}

int nm_model_run(const struct nm_model_memory *memory, const struct nm_list *list, struct nm_error *why)
{
        struct nm_core core;

        nm_core_reset(&core, POISON);
        return nm_core_run(&core, memory, list, why);
}
