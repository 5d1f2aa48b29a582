/* SPDX-License-Identifier: MIT
 *
 * Order and values follow what is known to run under the maker's driver; the tests hold golden digests of them. Every
 * register is written, zeros too: the register file keeps what an earlier job left.
 */
#include "lists.h"

#include "registers.h"

struct writer {
        uint64_t *next;
        uint32_t target;
};

static void put(struct writer *w, uint32_t offset, uint32_t value)
{
        *w->next++ = nm_word(w->target, offset, value);
}

static void zeros(struct writer *w, uint32_t first, uint32_t last)
{
        for (uint32_t offset = first; offset <= last; offset += 4)
                put(w, offset, 0);
}

uint32_t nm_data_banks(const struct nm_shape *shape, const struct nm_switches *switches)
{
        uint64_t bytes = (uint64_t)shape->m * shape->k * nm_input_bytes(shape->type);
        uint32_t banks = (uint32_t)((bytes + CBUF_BANK_BYTES - 1) / CBUF_BANK_BYTES);

        if (shape->type == NM_INT8_INT32 && switches->int8_banks == NM_BANKS_SPARE)
                banks++;
        return banks;
}

static void put_cna(struct writer *w, const struct nm_shape *s, const struct nm_place *at,
                    const struct nm_switches *switches)
{
        uint32_t bytes = nm_input_bytes(s->type), fp16 = s->type != NM_INT8_INT32;
        uint32_t precision = fp16 ? PRECISION_FP16 : PRECISION_INT8;
        uint32_t banks = nm_data_banks(s, switches);
        uint32_t grains = switches->grains ? switches->grains : s->m + 1;

        w->target = TARGET_CNA;
        put(w, CNA_CONV_CON1, precision << 7 | precision << 4 | (at->rows_in ? CONV_GROUP_LINE_OFF : 0));
        put(w, CNA_CONV_CON2, grains << 4);
        put(w, CNA_CONV_CON3, 1 << 3 | 1);
        put(w, CNA_DATA_SIZE0, 1u << 16 | s->m);
        put(w, CNA_DATA_SIZE1, (s->k - 1) << 16 | s->k);
        put(w, CNA_DATA_SIZE2, 1);
        put(w, CNA_DATA_SIZE3, s->m);
        put(w, CNA_WEIGHT_SIZE0, s->n * s->k * bytes);
        put(w, CNA_WEIGHT_SIZE1, s->k * bytes);
        put(w, CNA_WEIGHT_SIZE2, 1u << 24 | 1u << 16 | s->n);
        put(w, CNA_CBUF_CON0, (CBUF_BANKS - banks) << 4 | banks);
        put(w, CNA_CBUF_CON1, (s->k * bytes + 63) / 64);
        put(w, CNA_CVT_CON0, CVT_BYPASSED);
        for (uint32_t offset = CNA_CVT_CON1; offset <= CNA_CVT_CON4; offset += 4)
                put(w, offset, 1u << 16);
        zeros(w, CNA_FC_CON0, CNA_PAD_CON0);
        put(w, CNA_FEATURE_DATA_ADDR, at->input);
        put(w, CNA_FC_CON2, 0);
        put(w, CNA_DMA_CON0, 0x000F000F);
        put(w, CNA_DMA_CON1, at->rows_in ? s->k * bytes / 16 : 4);
        put(w, CNA_DMA_CON2, at->rows_in ? 0 : (s->m - 4) & STRIDE_28);
        put(w, CNA_FC_DATA_SIZE0, 1u << 16 | s->m);
        put(w, CNA_FC_DATA_SIZE1, s->k);
        zeros(w, CNA_DCOMP_CTRL, CNA_DCOMP_REGNUM);
        put(w, CNA_DCOMP_ADDR0, at->weights);
        zeros(w, CNA_DCOMP_AMOUNT0, CNA_DCOMP_AMOUNT0 + 15 * 4);
        zeros(w, CNA_CVT_CON5, CNA_PAD_CON1);
}

static void put_core(struct writer *w, const struct nm_shape *s, const struct nm_switches *switches)
{
        w->target = TARGET_CORE;
        if (s->type == NM_INT8_INT32)
                put(w, CORE_MISC_CFG, PRECISION_INT8 << 8 | switches->int8_qd);
        else
                put(w, CORE_MISC_CFG, PRECISION_FP16 << 8 | 1);
        put(w, CORE_DATAOUT_SIZE_0, (s->m - 1) << 16);
        put(w, CORE_DATAOUT_SIZE_1, s->n - 1);
        put(w, CORE_CLIP_TRUNCATE, 0);
        put(w, CORE_3030, 0);
}

static uint32_t data_format(enum nm_type type)
{
        switch (type) {
        case NM_FP16_FP32: return (uint32_t)PRECISION_FP32 << 29 | PRECISION_FP16 << 26 | PRECISION_FP16;
        case NM_FP16_FP16: return (uint32_t)PRECISION_FP16 << 29 | PRECISION_FP16 << 26 | PRECISION_FP16;
        case NM_INT8_INT32: break;
        }
        return (uint32_t)PRECISION_INT32 << 29 | PRECISION_INT8 << 26 | PRECISION_INT8;
}

static void put_dpu(struct writer *w, const struct nm_shape *s, const struct nm_place *at)
{
        uint32_t atoms =
                nm_kernel_group(s->type) * nm_output_bytes(s->type) / 16; /* 16-byte atoms a kernel group makes */
        uint32_t e = atoms - 1, surface = at->rows_out ? 1 : s->m;
        uint32_t notch = at->rows_out ? s->n * nm_output_bytes(s->type) / 16 - 1 : 0;

        w->target = TARGET_DPU;
        put(w, DPU_FEATURE_MODE_CFG, 15u << 5 | 2u << 1);
        put(w, DPU_DATA_FORMAT, data_format(s->type));
        put(w, DPU_OFFSET_PEND, 0);
        put(w, DPU_DST_BASE_ADDR, at->output);
        put(w, DPU_DST_SURF_STRIDE, surface << 4);
        put(w, DPU_DATA_CUBE_WIDTH, 0);
        put(w, DPU_DATA_CUBE_HEIGHT, s->m - 1);
        put(w, DPU_DATA_CUBE_NOTCH, notch << 16 | notch);
        put(w, DPU_DATA_CUBE_CHANNEL, (s->n - 1) << 16 | (s->n - 1));
        put(w, DPU_BS_CFG, BS_BYPASSED);
        zeros(w, DPU_BS_ALU_CFG, DPU_BS_RELUX_CMP);
        put(w, DPU_BS_OW_CFG, e << 8 | e << 5 | e << 2 | 2);
        put(w, DPU_BS_OW_OP, 0);
        put(w, DPU_WDMA_SIZE_0, s->n - 1);
        put(w, DPU_WDMA_SIZE_1, (s->m - 1) << 16);
        put(w, DPU_BN_CFG, BS_BYPASSED);
        zeros(w, DPU_BN_ALU_CFG, DPU_BN_RELUX_CMP);
        put(w, DPU_EW_CFG, EW_BYPASSED);
        put(w, DPU_EW_CVT_OFFSET, 0);
        put(w, DPU_EW_CVT_SCALE, 1);
        put(w, DPU_EW_RELUX_CMP, 0);
        put(w, DPU_OUT_CVT_OFFSET, 0);
        put(w, DPU_OUT_CVT_SCALE, s->type == NM_FP16_FP16 ? OUT_FP32_TO_FP16 | 1 : 1);
        put(w, DPU_OUT_CVT_SHIFT, 0);
        zeros(w, DPU_EW_OP_VALUE_0, DPU_EW_OP_VALUE_0 + 7 * 4);
        put(w, DPU_SURFACE_ADD, (surface * atoms) << 4);
        put(w, DPU_40C4, 0);
        zeros(w, DPU_LUT_ACCESS_CFG, DPU_LUT_ACCESS_CFG + 11 * 4);
}

/* The DPU's read side, switched off: what Mesa's driver programs too. */
static void put_rdma(struct writer *w, const struct nm_shape *s, const struct nm_switches *switches)
{
        static const uint16_t unused[] = {RDMA_SRC_BASE_ADDR, RDMA_BRDMA_CFG, RDMA_BS_BASE_ADDR, RDMA_NRDMA_CFG,
                                          RDMA_BN_BASE_ADDR};
        uint32_t mode = RDMA_BURST | RDMA_MRDMA_DISABLED | (s->type == NM_FP16_FP16 ? RDMA_FP16 : 0);

        w->target = TARGET_RDMA;
        put(w, RDMA_CUBE_WIDTH, 0);
        put(w, RDMA_CUBE_HEIGHT, s->m - 1);
        put(w, RDMA_CUBE_CHANNEL, s->n - 1);
        for (size_t i = 0; i < sizeof(unused) / sizeof(unused[0]); i++)
                put(w, unused[i], 0);
        put(w, RDMA_ERDMA_CFG, 1);              /* disabled */
        put(w, RDMA_EW_BASE_ADDR, 0);
        put(w, RDMA_EW_SURF_STRIDE, 0);
        put(w, RDMA_FEATURE_MODE_CFG, switches->mrdma == NM_MRDMA_ZERO ? 0 : mode);
        put(w, RDMA_SRC_DMA_CFG, 0);
        put(w, RDMA_SURF_NOTCH, 0);
        put(w, RDMA_PAD_CFG, 0);
        put(w, RDMA_WEIGHT, 0x01010101);
        put(w, RDMA_EW_SURF_NOTCH, 0);
}

size_t nm_list_build(uint64_t *words, const struct nm_shape *shape, const struct nm_place *place,
                     const struct nm_switches *switches, bool rdma)
{
        struct writer w = {words, TARGET_DPU};

        put(&w, DPU_S_POINTER, S_POINTER_PING_PONG);
        if (rdma) {
                w.target = TARGET_RDMA;
                put(&w, RDMA_S_POINTER, S_POINTER_PING_PONG);
        }
        put_cna(&w, shape, place, switches);
        put_core(&w, shape, switches);
        put_dpu(&w, shape, place);
        if (rdma)
                put_rdma(&w, shape, switches);
        *w.next++ = 0;
        *w.next++ = nm_word(TARGET_PC, PC_REGISTER_AMOUNTS, 0);
        *w.next++ = nm_word(TARGET_MARK, 0, 0);
        *w.next++ = nm_word(TARGET_ENABLE, PC_OPERATION_ENABLE, ENABLE_PLAIN | (rdma ? ENABLE_RDMA : 0));
        return (size_t)(w.next - words);
}

void nm_list_chain(uint64_t *words, size_t count, uint32_t next, size_t next_count)
{
        words[count - 4] = nm_word(TARGET_PC, PC_BASE_ADDRESS, next & ~0xFu);
        words[count - 3] = nm_word(TARGET_PC, PC_REGISTER_AMOUNTS, (uint32_t)((next_count + 1) / 2 + 1));
}
