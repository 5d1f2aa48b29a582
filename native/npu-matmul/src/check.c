/* SPDX-License-Identifier: MIT */
#include "check.h"

#include <string.h>

#include "registers.h"

/* The order: runs of neighbouring registers. Those of RDMA are there in the 126-word form only. */
static const struct run {
        uint16_t target, first, last;
} order[] = {
        {TARGET_DPU, 0x4004, 0x4004},  {TARGET_RDMA, 0x5004, 0x5004}, {TARGET_CNA, 0x100C, 0x1014},
        {TARGET_CNA, 0x1020, 0x1038},  {TARGET_CNA, 0x1040, 0x1044},  {TARGET_CNA, 0x104C, 0x1068},
        {TARGET_CNA, 0x1070, 0x1088},  {TARGET_CNA, 0x1100, 0x1104},  {TARGET_CNA, 0x1110, 0x1110},
        {TARGET_CNA, 0x1140, 0x117C},  {TARGET_CNA, 0x1180, 0x1184},  {TARGET_CORE, 0x3010, 0x301C},
        {TARGET_CORE, 0x3030, 0x3030}, {TARGET_DPU, 0x400C, 0x4014},  {TARGET_DPU, 0x4020, 0x4024},
        {TARGET_DPU, 0x4030, 0x406C},  {TARGET_DPU, 0x4070, 0x4088},  {TARGET_DPU, 0x4090, 0x40AC},
        {TARGET_DPU, 0x40C0, 0x40C4},  {TARGET_DPU, 0x4100, 0x412C},  {TARGET_RDMA, 0x500C, 0x5020},
        {TARGET_RDMA, 0x5028, 0x502C}, {TARGET_RDMA, 0x5034, 0x5038}, {TARGET_RDMA, 0x5040, 0x504C},
        {TARGET_RDMA, 0x5064, 0x506C},
};

struct values {                         /* by block and offset / 4 */
        uint32_t of[6][0x80];
};

static uint32_t get(const struct values *v, uint32_t offset)
{
        return v->of[offset >> 12][(offset & 0xFFF) / 4];
}

static uint32_t target_of(uint64_t word)
{
        return (uint32_t)(word >> 48);
}

static uint32_t value_of(uint64_t word)
{
        return (uint32_t)(word >> 16);
}

static int read_order(const uint64_t *words, size_t count, struct values *v, struct nm_error *why)
{
        bool rdma = count == NM_WORDS_RDMA;
        size_t i = 0;

        if (count != NM_WORDS_PLAIN && !rdma)
                return nm_fail(why, NM_INVALID, "the list has %zu words: expected 108 or 126", count);
        for (size_t r = 0; r < sizeof(order) / sizeof(order[0]); r++) {
                if (order[r].target == TARGET_RDMA && !rdma)
                        continue;
                for (uint32_t offset = order[r].first; offset <= order[r].last; offset += 4, i++) {
                        if (target_of(words[i]) != order[r].target || (words[i] & 0xFFFF) != offset)
                                return nm_fail(
                                        why, NM_INVALID, "word %zu writes 0x%x of target 0x%x: expected 0x%x of 0x%x",
                                        i, (unsigned)(words[i] & 0xFFFF), target_of(words[i]), offset, order[r].target);
                        v->of[offset >> 12][(offset & 0xFFF) / 4] = value_of(words[i]);
                }
        }
        return NM_OK;
}

static int read_tail(const uint64_t *words, size_t count, struct nm_checked *c, struct nm_error *why)
{
        const uint64_t *tail = words + count - NM_TAIL;
        uint32_t enable = ENABLE_PLAIN | (count == NM_WORDS_RDMA ? ENABLE_RDMA : 0);

        c->enable = value_of(tail[3]);
        if (tail[2] != nm_word(TARGET_MARK, 0, 0))
                return nm_fail(why, NM_INVALID, "word %zu is not the mark that comes before the enable word",
                               count - 2);
        if (tail[3] != nm_word(TARGET_ENABLE, PC_OPERATION_ENABLE, enable))
                return nm_fail(why, NM_INVALID, "word %zu enables 0x%x: expected 0x%x of a list of %zu words",
                               count - 1, c->enable, enable, count);
        c->chained = tail[0] != 0;
        c->next = value_of(tail[0]);
        c->next_amount = value_of(tail[1]);
        if (target_of(tail[1]) != TARGET_PC || (tail[1] & 0xFFFF) != PC_REGISTER_AMOUNTS ||
            (!c->chained && c->next_amount))
                return nm_fail(why, NM_INVALID, "word %zu is not the amount of the next list, or 0", count - 3);
        if (c->chained && (tail[0] != nm_word(TARGET_PC, PC_BASE_ADDRESS, c->next & ~0xFu) ||
                           (c->next_amount != NM_WORDS_PLAIN / 2 + 1 && c->next_amount != NM_WORDS_RDMA / 2 + 1)))
                return nm_fail(why, NM_INVALID,
                               "word %zu does not name a next list of 108 or 126 words at a multiple of 16", count - 4);
        return NM_OK;
}

static int read_shape(const struct values *v, struct nm_checked *c, struct nm_error *why)
{
        uint32_t con1 = get(v, CNA_CONV_CON1) & ~CONV_GROUP_LINE_OFF, format = get(v, DPU_DATA_FORMAT);
        uint32_t misc = get(v, CORE_MISC_CFG);
        struct nm_shape *s = &c->shape;

        s->m = get(v, CNA_DATA_SIZE0) & 0xFFFF;
        s->k = get(v, CNA_DATA_SIZE1) & 0xFFFF;
        s->n = get(v, CNA_WEIGHT_SIZE2) & 0xFFFF;
        if (con1 == 0x120 && format == 0xA8000002 && misc == 0x201)
                s->type = NM_FP16_FP32;
        else if (con1 == 0x120 && format == 0x48000002 && misc == 0x201)
                s->type = NM_FP16_FP16;
        else if (con1 == 0 && format == 0x80000000 && misc <= 1)
                s->type = NM_INT8_INT32;
        else
                return nm_fail(why, NM_INVALID, "CONV_CON1 0x%x, MISC_CFG 0x%x and DATA_FORMAT 0x%x are not one type",
                               con1, misc, format);
        if (s->m < 1 || s->m > MOST_M)
                return nm_fail(why, NM_INVALID, "DATA_SIZE0 has %u rows: expected 1 to %u", s->m, MOST_M);
        if (s->k < 32 || s->k > MOST_K || s->k % 32)
                return nm_fail(why, NM_INVALID, "DATA_SIZE1 has %u channels: expected 32 to %u, a multiple of 32", s->k,
                               MOST_K);
        if (s->n < 1 || s->n > MOST_N || s->n % nm_kernel_group(s->type))
                return nm_fail(why, NM_INVALID, "WEIGHT_SIZE2 has %u kernels: expected up to %u, a multiple of %u",
                               s->n, MOST_N, nm_kernel_group(s->type));
        c->place.rows_in = get(v, CNA_CONV_CON1) & CONV_GROUP_LINE_OFF;
        c->place.rows_out = get(v, DPU_DATA_CUBE_NOTCH) != 0;
        c->place.input = get(v, CNA_FEATURE_DATA_ADDR);
        c->place.weights = get(v, CNA_DCOMP_ADDR0);
        c->place.output = get(v, DPU_DST_BASE_ADDR);
        return NM_OK;
}

/* Each register whose value follows from the shape; all that are not named here must be 0. */
static int check_values(const struct values *v, const struct nm_checked *c, bool rdma, struct nm_error *why)
{
        const struct nm_shape *s = &c->shape;
        uint32_t in = nm_input_bytes(s->type), out = nm_output_bytes(s->type), row = s->n * out / 16;
        uint32_t atoms = nm_kernel_group(s->type) * out / 16, e = atoms - 1, surface = c->place.rows_out ? 1 : s->m;
        uint32_t notch = c->place.rows_out ? (row - 1) << 16 | (row - 1) : 0, mode = get(v, RDMA_FEATURE_MODE_CFG);
        const struct {
                uint32_t offset, value;
        } known[] = {
                {DPU_S_POINTER, 0xE},
                {CNA_CONV_CON1, get(v, CNA_CONV_CON1)},
                {CNA_CONV_CON2, get(v, CNA_CONV_CON2)},
                {CNA_CONV_CON3, 9},
                {CNA_DATA_SIZE0, 1u << 16 | s->m},
                {CNA_DATA_SIZE1, (s->k - 1) << 16 | s->k},
                {CNA_DATA_SIZE2, 1},
                {CNA_DATA_SIZE3, s->m},
                {CNA_WEIGHT_SIZE0, s->n * s->k * in},
                {CNA_WEIGHT_SIZE1, s->k * in},
                {CNA_WEIGHT_SIZE2, 0x01010000 | s->n},
                {CNA_CBUF_CON0, get(v, CNA_CBUF_CON0)},
                {CNA_CBUF_CON1, (s->k * in + 63) / 64},
                {CNA_CVT_CON0, 0xB},
                {CNA_CVT_CON1, 0x10000},
                {CNA_CVT_CON2, 0x10000},
                {CNA_CVT_CON3, 0x10000},
                {CNA_CVT_CON4, 0x10000},
                {CNA_FEATURE_DATA_ADDR, c->place.input},
                {CNA_DMA_CON0, 0x000F000F},
                {CNA_DMA_CON1, c->place.rows_in ? s->k * in / 16 : 4},
                {CNA_DMA_CON2, c->place.rows_in ? 0 : (s->m + 0x0FFFFFFC) & 0x0FFFFFFF},
                {CNA_FC_DATA_SIZE0, 1u << 16 | s->m},
                {CNA_FC_DATA_SIZE1, s->k},
                {CNA_DCOMP_ADDR0, c->place.weights},
                {CORE_MISC_CFG, get(v, CORE_MISC_CFG)},
                {CORE_DATAOUT_SIZE_0, (s->m - 1) << 16},
                {CORE_DATAOUT_SIZE_1, s->n - 1},
                {DPU_FEATURE_MODE_CFG, 0x1E4},
                {DPU_DATA_FORMAT, get(v, DPU_DATA_FORMAT)},
                {DPU_DST_BASE_ADDR, c->place.output},
                {DPU_DST_SURF_STRIDE, surface << 4},
                {DPU_DATA_CUBE_HEIGHT, s->m - 1},
                {DPU_DATA_CUBE_NOTCH, notch},
                {DPU_DATA_CUBE_CHANNEL, (s->n - 1) << 16 | (s->n - 1)},
                {DPU_BS_CFG, 0x53},
                {DPU_BS_OW_CFG, e << 8 | e << 5 | e << 2 | 2},
                {DPU_WDMA_SIZE_0, s->n - 1},
                {DPU_WDMA_SIZE_1, (s->m - 1) << 16},
                {DPU_BN_CFG, 0x53},
                {DPU_EW_CFG, 0x383},
                {DPU_EW_CVT_SCALE, 1},
                {DPU_OUT_CVT_SCALE, s->type == NM_FP16_FP16 ? 0x10001 : 1},
                {DPU_SURFACE_ADD, (surface * atoms) << 4},
                {RDMA_S_POINTER, 0xE},
                {RDMA_CUBE_HEIGHT, s->m - 1},
                {RDMA_CUBE_CHANNEL, s->n - 1},
                {RDMA_ERDMA_CFG, 1},
                {RDMA_FEATURE_MODE_CFG, mode ? 0x7810u | (s->type == NM_FP16_FP16 ? 8 : 0) : 0},
                {RDMA_WEIGHT, 0x01010101},
        };

        for (size_t r = 0; r < sizeof(order) / sizeof(order[0]); r++)
                for (uint32_t offset = order[r].first; offset <= order[r].last; offset += 4) {
                        uint32_t expected = 0;

                        if (order[r].target == TARGET_RDMA && !rdma)
                                continue;
                        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
                                if (known[i].offset == offset)
                                        expected = known[i].value;
                        if (get(v, offset) != expected)
                                return nm_fail(why, NM_INVALID, "register 0x%x is 0x%x: expected 0x%x for %ux%ux%u",
                                               offset, get(v, offset), expected, s->m, s->k, s->n);
                }
        return NM_OK;
}

static int check_buffer(const struct values *v, struct nm_checked *c, struct nm_error *why)
{
        uint32_t cbuf = get(v, CNA_CBUF_CON0), con2 = get(v, CNA_CONV_CON2);
        uint64_t bytes = (uint64_t)c->shape.m * c->shape.k * nm_input_bytes(c->shape.type);
        uint32_t least = (uint32_t)((bytes + CBUF_BANK_BYTES - 1) / CBUF_BANK_BYTES);

        c->data_banks = cbuf & 0xF;
        c->grains = con2 >> 4;
        if (cbuf >> 8 || (cbuf & 0xF) + (cbuf >> 4) != CBUF_BANKS || c->data_banks > CBUF_BANKS - 1)
                return nm_fail(why, NM_INVALID,
                               "CBUF_CON0 is 0x%x: expected data and weight banks, 12 in all, one of weights at least",
                               cbuf);
        if (c->data_banks < least || c->data_banks > least + 1)
                return nm_fail(why, NM_INVALID, "CBUF_CON0 has %u banks of data: %u rows of %u channels need %u",
                               c->data_banks, c->shape.m, c->shape.k, least);
        if (con2 & 0xF || c->grains < 1 || c->grains > 1023)
                return nm_fail(why, NM_INVALID, "CONV_CON2 is 0x%x: expected grains of 10 bits from bit 4 on", con2);
        return NM_OK;
}

static int check_address(const char *what, uint32_t address, uint64_t bytes, const struct nm_range *memory,
                         size_t ranges, struct nm_error *why)
{
        if (address % 16)
                return nm_fail(why, NM_INVALID, "the %s at 0x%x is not at a multiple of 16", what, address);
        for (size_t i = 0; i < ranges; i++)
                if (address >= memory[i].address &&
                    (uint64_t)address + bytes <= (uint64_t)memory[i].address + memory[i].size)
                        return NM_OK;
        return nm_fail(why, NM_INVALID, "the %s, %llu bytes at 0x%x, is not within one buffer", what,
                       (unsigned long long)bytes, address);
}

int nm_list_check(const uint64_t *words, size_t count, const struct nm_range *memory, size_t ranges,
                  struct nm_checked *found, struct nm_error *why)
{
        struct values v;
        const struct nm_shape *s = &found->shape;
        uint64_t in, out;
        int status;

        memset(&v, 0, sizeof(v));
        memset(found, 0, sizeof(*found));
        status = read_order(words, count, &v, why);
        status = status ? status : read_tail(words, count, found, why);
        status = status ? status : read_shape(&v, found, why);
        status = status ? status : check_buffer(&v, found, why);
        status = status ? status : check_values(&v, found, count == NM_WORDS_RDMA, why);
        if (status)
                return status;
        in = nm_input_bytes(s->type);
        out = nm_output_bytes(s->type);
        status = check_address("input", found->place.input, in * s->m * s->k, memory, ranges, why);
        status =
                status ? status : check_address("weights", found->place.weights, in * s->n * s->k, memory, ranges, why);
        return status ? status : check_address("output", found->place.output, out * s->m * s->n, memory, ranges, why);
}
