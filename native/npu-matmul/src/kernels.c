/* SPDX-License-Identifier: MIT
 *
 * Kernels in plain C, which every processor runs, and the choice of better ones.
 */
#include "kernels.h"

#include <string.h>

#include "half.h"

#if defined(__x86_64__)
extern const struct nm_kernels nm_kernels_avx2;
#elif defined(__aarch64__)
#include <sys/auxv.h>
extern const struct nm_kernels nm_kernels_neon, nm_kernels_sdot;
#endif

static void fp16_row(size_t k, const float *a, const uint16_t *b, float *c)
{
        float sum[NM_PANEL] = {0}, row[NM_PANEL];

        for (size_t i = 0; i < k; i++) {
                floats_from_halves(row, b + i * NM_PANEL, NM_PANEL);
                for (int x = 0; x < NM_PANEL; x++)
                        sum[x] += a[i] * row[x];
        }
        memcpy(c, sum, sizeof(sum));
}

static void float_rows(size_t k, const float *a, const float *b, float *c, size_t ldc, unsigned rows, bool add)
{
        for (unsigned y = 0; y < rows; y++) {
                float sum[NM_PANEL] = {0};

                for (size_t i = 0; i < k; i++)
                        for (int x = 0; x < NM_PANEL; x++)
                                sum[x] += a[i * NM_ROWS + y] * b[i * NM_PANEL + (size_t)x];
                for (int x = 0; x < NM_PANEL; x++)
                        c[y * ldc + (size_t)x] = add ? c[y * ldc + (size_t)x] + sum[x] : sum[x];
        }
}

static void int8_rows(size_t k, const void *a, size_t lda, const int8_t *b, int32_t *c, unsigned rows)
{
        for (unsigned y = 0; y < rows; y++) {
                const int8_t *row = (const int8_t *)a + y * lda;
                int32_t sum[NM_PANEL] = {0};

                for (size_t i = 0; i < k; i++)
                        for (int x = 0; x < NM_PANEL; x++)
                                sum[x] += row[i] * b[i * NM_PANEL + (size_t)x];
                memcpy(c + y * NM_PANEL, sum, sizeof(sum));
        }
}

const struct nm_kernels nm_kernels_portable = {
        .name = "plain C", .step = 1, .fp16_row = fp16_row, .float_rows = float_rows, .int8_rows = int8_rows,
};

const struct nm_kernels *nm_kernels(void)
{
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"))
                return &nm_kernels_avx2;
#elif defined(__aarch64__)
        return getauxval(AT_HWCAP) & 1u << 20 /* HWCAP_ASIMDDP */ ? &nm_kernels_sdot : &nm_kernels_neon;
#endif
        return &nm_kernels_portable;
}
