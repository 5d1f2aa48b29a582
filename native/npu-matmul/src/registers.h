/* SPDX-License-Identifier: MIT
 *
 * Registers of one RK3588 NPU core, and the words of its register lists. Names and offsets: kernel 6.18
 * drivers/accel/rocket/rocket_registers.h (MIT option) and Mesa's src/gallium/drivers/rocket/registers.xml (MIT).
 */
#ifndef NM_REGISTERS_H
#define NM_REGISTERS_H

#include <stdint.h>

/* A word: target << 48 | value << 16 | offset. */
enum {
        TARGET_PC = 0x0101, TARGET_CNA = 0x0201, TARGET_CORE = 0x0801, TARGET_DPU = 0x1001, TARGET_RDMA = 0x2001,
        TARGET_MARK = 0x0041,           /* comes right before the enable word */
        TARGET_ENABLE = 0x0081,
};

static inline uint64_t nm_word(uint32_t target, uint32_t offset, uint32_t value)
{
        return (uint64_t)target << 48 | (uint64_t)value << 16 | offset;
}

enum {
        PC_OPERATION_ENABLE = 0x0008,
        PC_BASE_ADDRESS = 0x0010,
        PC_REGISTER_AMOUNTS = 0x0014,

        CNA_CONV_CON1 = 0x100C,
        CNA_CONV_CON2 = 0x1010,
        CNA_CONV_CON3 = 0x1014,
        CNA_DATA_SIZE0 = 0x1020,
        CNA_DATA_SIZE1 = 0x1024,
        CNA_DATA_SIZE2 = 0x1028,
        CNA_DATA_SIZE3 = 0x102C,
        CNA_WEIGHT_SIZE0 = 0x1030,
        CNA_WEIGHT_SIZE1 = 0x1034,
        CNA_WEIGHT_SIZE2 = 0x1038,
        CNA_CBUF_CON0 = 0x1040,
        CNA_CBUF_CON1 = 0x1044,
        CNA_CVT_CON0 = 0x104C,
        CNA_CVT_CON1 = 0x1050,
        CNA_CVT_CON2 = 0x1054,
        CNA_CVT_CON3 = 0x1058,
        CNA_CVT_CON4 = 0x105C,
        CNA_FC_CON0 = 0x1060,
        CNA_FC_CON1 = 0x1064,
        CNA_PAD_CON0 = 0x1068,
        CNA_FEATURE_DATA_ADDR = 0x1070,
        CNA_FC_CON2 = 0x1074,
        CNA_DMA_CON0 = 0x1078,
        CNA_DMA_CON1 = 0x107C,
        CNA_DMA_CON2 = 0x1080,
        CNA_FC_DATA_SIZE0 = 0x1084,
        CNA_FC_DATA_SIZE1 = 0x1088,
        CNA_DCOMP_CTRL = 0x1100,
        CNA_DCOMP_REGNUM = 0x1104,
        CNA_DCOMP_ADDR0 = 0x1110,
        CNA_DCOMP_AMOUNT0 = 0x1140,
        CNA_CVT_CON5 = 0x1180,
        CNA_PAD_CON1 = 0x1184,

        CORE_MISC_CFG = 0x3010,
        CORE_DATAOUT_SIZE_0 = 0x3014,
        CORE_DATAOUT_SIZE_1 = 0x3018,
        CORE_CLIP_TRUNCATE = 0x301C,
        CORE_3030 = 0x3030, /* without a name; always 0 */

        DPU_S_POINTER = 0x4004,
        DPU_FEATURE_MODE_CFG = 0x400C,
        DPU_DATA_FORMAT = 0x4010,
        DPU_OFFSET_PEND = 0x4014,
        DPU_DST_BASE_ADDR = 0x4020,
        DPU_DST_SURF_STRIDE = 0x4024,
        DPU_DATA_CUBE_WIDTH = 0x4030,
        DPU_DATA_CUBE_HEIGHT = 0x4034,
        DPU_DATA_CUBE_NOTCH = 0x4038,
        DPU_DATA_CUBE_CHANNEL = 0x403C,
        DPU_BS_CFG = 0x4040,
        DPU_BS_ALU_CFG = 0x4044,
        DPU_BS_MUL_CFG = 0x4048,
        DPU_BS_RELUX_CMP = 0x404C,
        DPU_BS_OW_CFG = 0x4050,
        DPU_BS_OW_OP = 0x4054,
        DPU_WDMA_SIZE_0 = 0x4058,
        DPU_WDMA_SIZE_1 = 0x405C,
        DPU_BN_CFG = 0x4060,
        DPU_BN_ALU_CFG = 0x4064,
        DPU_BN_MUL_CFG = 0x4068,
        DPU_BN_RELUX_CMP = 0x406C,
        DPU_EW_CFG = 0x4070,
        DPU_EW_CVT_OFFSET = 0x4074,
        DPU_EW_CVT_SCALE = 0x4078,
        DPU_EW_RELUX_CMP = 0x407C,
        DPU_OUT_CVT_OFFSET = 0x4080,
        DPU_OUT_CVT_SCALE = 0x4084,
        DPU_OUT_CVT_SHIFT = 0x4088,
        DPU_EW_OP_VALUE_0 = 0x4090,
        DPU_SURFACE_ADD = 0x40C0,
        DPU_40C4 = 0x40C4,
        DPU_LUT_ACCESS_CFG = 0x4100,

        RDMA_S_POINTER = 0x5004,
        RDMA_CUBE_WIDTH = 0x500C,
        RDMA_CUBE_HEIGHT = 0x5010,
        RDMA_CUBE_CHANNEL = 0x5014,
        RDMA_SRC_BASE_ADDR = 0x5018,
        RDMA_BRDMA_CFG = 0x501C,
        RDMA_BS_BASE_ADDR = 0x5020,
        RDMA_NRDMA_CFG = 0x5028,
        RDMA_BN_BASE_ADDR = 0x502C,
        RDMA_ERDMA_CFG = 0x5034,
        RDMA_EW_BASE_ADDR = 0x5038,
        RDMA_EW_SURF_STRIDE = 0x5040,
        RDMA_FEATURE_MODE_CFG = 0x5044,
        RDMA_SRC_DMA_CFG = 0x5048,
        RDMA_SURF_NOTCH = 0x504C,
        RDMA_PAD_CFG = 0x5064,
        RDMA_WEIGHT = 0x5068,
        RDMA_EW_SURF_NOTCH = 0x506C,
};

enum {                                  /* precision codes of CONV_CON1, MISC_CFG and DATA_FORMAT */
        PRECISION_INT8 = 0, PRECISION_FP16 = 2, PRECISION_INT32 = 4, PRECISION_FP32 = 5,
};

#define S_POINTER_PING_PONG     0x0000000Eu     /* pointer_pp_en, executer_pp_en, pp_mode */
#define CONV_GROUP_LINE_OFF     0x20000000u
#define CVT_BYPASSED            0x0000000Bu     /* signed, type 1, bypass */
#define BS_BYPASSED             0x00000053u     /* also BN */
#define EW_BYPASSED             0x00000383u
#define OUT_FP32_TO_FP16        0x00010000u
#define RDMA_BURST              0x00007800u     /* 15 << 11 */
#define RDMA_FP16               0x00000008u
#define RDMA_MRDMA_DISABLED     0x00000010u
#define STRIDE_28               0x0FFFFFFFu

#define ENABLE_CNA      0x01u
#define ENABLE_CORE     0x04u
#define ENABLE_DPU      0x08u
#define ENABLE_RDMA     0x10u
#define ENABLE_PLAIN    (ENABLE_CNA | ENABLE_CORE | ENABLE_DPU)

#define CBUF_BANKS      12u
#define CBUF_BANK_BYTES 32768u
#define MOST_M          1022u           /* feature grains, M + 1, have 10 bits */
#define MOST_K          16384u          /* real channels - 1 have 14 bits; 32 KiB a kernel of fp16 */
#define MOST_N          8192u           /* cube channel - 1 has 13 bits */

#endif
