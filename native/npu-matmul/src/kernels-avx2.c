/* SPDX-License-Identifier: MIT
 *
 * AVX2, FMA and F16C. int8 goes through int16 pairs (vpmaddwd), which is exact; vpmaddubsw saturates.
 */
#include "kernels.h"

/* Before the arrays of sums are looked at, or they live in memory. */
#define UNROLL _Pragma("GCC unroll 6")

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2,fma,f16c")))

static inline AVX2 __m256 halves(const uint16_t *from)
{
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

/* Four sums side by side hide the latency of the additions. */
static AVX2 void fp16_row(size_t k, const float *a, const uint16_t *b, float *c)
{
        __m256 sum[4][2];
        size_t i;

        UNROLL for (int s = 0; s < 4; s++)
                sum[s][0] = sum[s][1] = _mm256_setzero_ps();
        for (i = 0; i + 4 <= k; i += 4) {
                _mm_prefetch((const char *)(b + i * NM_PANEL) + 1024, _MM_HINT_T0);
                _mm_prefetch((const char *)(b + i * NM_PANEL) + 1088, _MM_HINT_T0);
                UNROLL for (size_t s = 0; s < 4; s++) {
                        __m256 value = _mm256_broadcast_ss(a + i + s);

                        sum[s][0] = _mm256_fmadd_ps(value, halves(b + (i + s) * NM_PANEL), sum[s][0]);
                        sum[s][1] = _mm256_fmadd_ps(value, halves(b + (i + s) * NM_PANEL + 8), sum[s][1]);
                }
        }
        for (; i < k; i++) {
                __m256 value = _mm256_broadcast_ss(a + i);

                sum[0][0] = _mm256_fmadd_ps(value, halves(b + i * NM_PANEL), sum[0][0]);
                sum[0][1] = _mm256_fmadd_ps(value, halves(b + i * NM_PANEL + 8), sum[0][1]);
        }
        for (int half = 0; half < 2; half++)
                _mm256_storeu_ps(c + 8 * half, _mm256_add_ps(_mm256_add_ps(sum[0][half], sum[1][half]),
                                                             _mm256_add_ps(sum[2][half], sum[3][half])));
}

static inline __attribute__((always_inline)) AVX2
void rows_of(size_t k, const float *a, const float *b, float *c, size_t ldc, const unsigned rows, bool add)
{
        __m256 sum[NM_ROWS][2];

        UNROLL for (unsigned y = 0; y < rows; y++)
                sum[y][0] = sum[y][1] = _mm256_setzero_ps();
        for (size_t i = 0; i < k; i++, a += NM_ROWS, b += NM_PANEL) {
                __m256 left = _mm256_loadu_ps(b), right = _mm256_loadu_ps(b + 8);

                UNROLL for (unsigned y = 0; y < rows; y++) {
                        __m256 value = _mm256_broadcast_ss(a + y);

                        sum[y][0] = _mm256_fmadd_ps(value, left, sum[y][0]);
                        sum[y][1] = _mm256_fmadd_ps(value, right, sum[y][1]);
                }
        }
        UNROLL for (unsigned y = 0; y < rows; y++, c += ldc) {
                if (add) {
                        sum[y][0] = _mm256_add_ps(_mm256_loadu_ps(c), sum[y][0]);
                        sum[y][1] = _mm256_add_ps(_mm256_loadu_ps(c + 8), sum[y][1]);
                }
                _mm256_storeu_ps(c, sum[y][0]);
                _mm256_storeu_ps(c + 8, sum[y][1]);
        }
}

static AVX2 void float_rows(size_t k, const float *a, const float *b, float *c, size_t ldc, unsigned rows, bool add)
{
        switch (rows) {                 /* constants, so that the sums are registers */
        case 1: rows_of(k, a, b, c, ldc, 1, add); break;
        case 2: rows_of(k, a, b, c, ldc, 2, add); break;
        case 3: rows_of(k, a, b, c, ldc, 3, add); break;
        case 4: rows_of(k, a, b, c, ldc, 4, add); break;
        case 5: rows_of(k, a, b, c, ldc, 5, add); break;
        default: rows_of(k, a, b, c, ldc, 6, add); break;
        }
}

static inline __attribute__((always_inline)) AVX2
void int8_of(size_t k, const int16_t *a, size_t lda, const int8_t *b, int32_t *c, const unsigned rows)
{
        __m256i sum[4][2];

        UNROLL for (unsigned y = 0; y < rows; y++)
                sum[y][0] = sum[y][1] = _mm256_setzero_si256();
        for (size_t i = 0; i < k; i += 2, b += 2 * NM_PANEL) {
                __m256i left = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)b));
                __m256i right = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(b + 16)));

                UNROLL for (unsigned y = 0; y < rows; y++) {
                        int32_t pair;
                        __m256i value;

                        memcpy(&pair, a + y * lda + i, sizeof(pair));
                        value = _mm256_set1_epi32(pair);
                        sum[y][0] = _mm256_add_epi32(sum[y][0], _mm256_madd_epi16(value, left));
                        sum[y][1] = _mm256_add_epi32(sum[y][1], _mm256_madd_epi16(value, right));
                }
        }
        UNROLL for (unsigned y = 0; y < rows; y++) {
                _mm256_storeu_si256((__m256i *)(void *)(c + y * NM_PANEL), sum[y][0]);
                _mm256_storeu_si256((__m256i *)(void *)(c + y * NM_PANEL + 8), sum[y][1]);
        }
}

static AVX2 void int8_rows(size_t k, const void *a, size_t lda, const int8_t *b, int32_t *c, unsigned rows)
{
        switch (rows) {
        case 1: int8_of(k, a, lda, b, c, 1); break;
        case 2: int8_of(k, a, lda, b, c, 2); break;
        case 3: int8_of(k, a, lda, b, c, 3); break;
        default: int8_of(k, a, lda, b, c, 4); break;
        }
}

extern const struct nm_kernels nm_kernels_avx2;
const struct nm_kernels nm_kernels_avx2 = {
        .name = "AVX2", .step = 2, .wide_int8 = true,
        .fp16_row = fp16_row, .float_rows = float_rows, .int8_rows = int8_rows,
};
#else
typedef int nm_kernels_avx2_of_another_machine;
#endif
