/* SPDX-License-Identifier: MIT
 *
 * AArch64: fp16 is widened by instructions every such processor has; int8 by SDOT where it is there.
 */
#include "kernels.h"

/* Before the arrays of sums are looked at, or they live in memory. */
#define UNROLL _Pragma("GCC unroll 6")

#if defined(__aarch64__)
#include <arm_neon.h>
#include <string.h>

static inline void halves(const uint16_t *from, float32x4_t to[2])
{
        float16x8_t value = vreinterpretq_f16_u16(vld1q_u16(from));

        to[0] = vcvt_f32_f16(vget_low_f16(value));
        to[1] = vcvt_high_f32_f16(value);
}

static void fp16_row(size_t k, const float *a, const uint16_t *b, float *c)
{
        float32x4_t sum[4][4];
        size_t i;

        UNROLL for (int s = 0; s < 4; s++)
                UNROLL for (int x = 0; x < 4; x++)
                        sum[s][x] = vdupq_n_f32(0);
        for (i = 0; i + 4 <= k; i += 4)
                UNROLL for (size_t s = 0; s < 4; s++) {
                        float32x4_t row[4];

                        halves(b + (i + s) * NM_PANEL, row);
                        halves(b + (i + s) * NM_PANEL + 8, row + 2);
                        UNROLL for (int x = 0; x < 4; x++)
                                sum[s][x] = vfmaq_n_f32(sum[s][x], row[x], a[i + s]);
                }
        for (; i < k; i++) {
                float32x4_t row[4];

                halves(b + i * NM_PANEL, row);
                halves(b + i * NM_PANEL + 8, row + 2);
                UNROLL for (int x = 0; x < 4; x++)
                        sum[0][x] = vfmaq_n_f32(sum[0][x], row[x], a[i]);
        }
        UNROLL for (int x = 0; x < 4; x++)
                vst1q_f32(c + 4 * x, vaddq_f32(vaddq_f32(sum[0][x], sum[1][x]), vaddq_f32(sum[2][x], sum[3][x])));
}

static inline __attribute__((always_inline))
void rows_of(size_t k, const float *a, const float *b, float *c, size_t ldc, const unsigned rows, bool add)
{
        float32x4_t sum[NM_ROWS][4];

        UNROLL for (unsigned y = 0; y < rows; y++)
                UNROLL for (int x = 0; x < 4; x++)
                        sum[y][x] = vdupq_n_f32(0);
        for (size_t i = 0; i < k; i++, a += NM_ROWS, b += NM_PANEL) {
                float32x4_t row[4];

                UNROLL for (int x = 0; x < 4; x++)
                        row[x] = vld1q_f32(b + 4 * x);
                UNROLL for (unsigned y = 0; y < rows; y++)
                        UNROLL for (int x = 0; x < 4; x++)
                                sum[y][x] = vfmaq_n_f32(sum[y][x], row[x], a[y]);
        }
        UNROLL for (unsigned y = 0; y < rows; y++, c += ldc)
                UNROLL for (int x = 0; x < 4; x++)
                        vst1q_f32(c + 4 * x, add ? vaddq_f32(vld1q_f32(c + 4 * x), sum[y][x]) : sum[y][x]);
}

static void float_rows(size_t k, const float *a, const float *b, float *c, size_t ldc, unsigned rows, bool add)
{
        switch (rows) {
        case 1: rows_of(k, a, b, c, ldc, 1, add); break;
        case 2: rows_of(k, a, b, c, ldc, 2, add); break;
        case 3: rows_of(k, a, b, c, ldc, 3, add); break;
        case 4: rows_of(k, a, b, c, ldc, 4, add); break;
        case 5: rows_of(k, a, b, c, ldc, 5, add); break;
        default: rows_of(k, a, b, c, ldc, 6, add); break;
        }
}

static void int8_wide(size_t k, const void *a, size_t lda, const int8_t *b, int32_t *c, unsigned rows)
{
        UNROLL for (unsigned y = 0; y < rows; y++) {
                const int16_t *row = (const int16_t *)a + y * lda;
                int32x4_t sum[4];

                UNROLL for (int x = 0; x < 4; x++)
                        sum[x] = vdupq_n_s32(0);
                for (size_t i = 0; i < k; i++) {
                        int8x16_t value = vld1q_s8(b + i * NM_PANEL);
                        int16x8_t left = vmovl_s8(vget_low_s8(value)), right = vmovl_high_s8(value);

                        sum[0] = vmlal_n_s16(sum[0], vget_low_s16(left), row[i]);
                        sum[1] = vmlal_high_n_s16(sum[1], left, row[i]);
                        sum[2] = vmlal_n_s16(sum[2], vget_low_s16(right), row[i]);
                        sum[3] = vmlal_high_n_s16(sum[3], right, row[i]);
                }
                UNROLL for (int x = 0; x < 4; x++)
                        vst1q_s32(c + y * NM_PANEL + 4 * (size_t)x, sum[x]);
        }
}

static inline __attribute__((always_inline, target("arch=armv8.2-a+dotprod")))
void sdot_of(size_t k, const int8_t *a, size_t lda, const int8_t *b, int32_t *c, const unsigned rows)
{
        int32x4_t sum[4][4];

        UNROLL for (unsigned y = 0; y < rows; y++)
                UNROLL for (int x = 0; x < 4; x++)
                        sum[y][x] = vdupq_n_s32(0);
        for (size_t i = 0; i < k; i += 4, b += 4 * NM_PANEL)
                UNROLL for (unsigned y = 0; y < rows; y++) {
                        int32_t four;
                        int8x16_t value;

                        memcpy(&four, a + y * lda + i, sizeof(four));
                        value = vreinterpretq_s8_s32(vdupq_n_s32(four));
                        UNROLL for (int x = 0; x < 4; x++)
                                sum[y][x] = vdotq_s32(sum[y][x], vld1q_s8(b + 16 * x), value);
                }
        UNROLL for (unsigned y = 0; y < rows; y++)
                UNROLL for (int x = 0; x < 4; x++)
                        vst1q_s32(c + y * NM_PANEL + 4 * (size_t)x, sum[y][x]);
}

__attribute__((target("arch=armv8.2-a+dotprod")))
static void int8_sdot(size_t k, const void *a, size_t lda, const int8_t *b, int32_t *c, unsigned rows)
{
        switch (rows) {
        case 1: sdot_of(k, a, lda, b, c, 1); break;
        case 2: sdot_of(k, a, lda, b, c, 2); break;
        case 3: sdot_of(k, a, lda, b, c, 3); break;
        default: sdot_of(k, a, lda, b, c, 4); break;
        }
}

extern const struct nm_kernels nm_kernels_neon, nm_kernels_sdot;
const struct nm_kernels nm_kernels_neon = {
        .name = "NEON", .step = 1, .wide_int8 = true,
        .fp16_row = fp16_row, .float_rows = float_rows, .int8_rows = int8_wide,
};
const struct nm_kernels nm_kernels_sdot = {
        .name = "NEON and SDOT", .step = 4,
        .fp16_row = fp16_row, .float_rows = float_rows, .int8_rows = int8_sdot,
};
#else
typedef int nm_kernels_neon_of_another_machine;
#endif
