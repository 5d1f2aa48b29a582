/* SPDX-License-Identifier: MIT
 *
 * The few operations in which processor kinds differ. V floats in a vector; everything else is GCC's vector extension.
 */
#ifndef LLAMA_VECTOR_H
#define LLAMA_VECTOR_H

#include <stdint.h>

#include "half.h"

#if defined(__AVX2__)
#include <immintrin.h>
#define V 8
#define KERNELS kernels_avx2
#define KERNELS_NAME "AVX2"
#elif defined(__aarch64__)
#include <arm_neon.h>
#define V 4
#ifdef __ARM_FEATURE_DOTPROD
#define KERNELS kernels_neon_dot
#define KERNELS_NAME "NEON with dot product"
#else
#define KERNELS kernels_neon
#define KERNELS_NAME "NEON"
#endif
#else
#define V 4
#define KERNELS kernels_portable
#define KERNELS_NAME "portable"
#endif

#define INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(4 * V), may_alias));
typedef int32_t vi __attribute__((vector_size(4 * V), may_alias));
typedef float vf_any __attribute__((vector_size(4 * V), aligned(4), may_alias));

static inline vf load(const float *from)
{
        return *(const vf_any *)from;
}

static inline void store(float *to, vf value)
{
        *(vf_any *)to = value;
}

static inline vf all(float value)
{
        return value - (vf){0};
}

static inline float sum(vf v)
{
#if V == 8
        __m128 s = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));

        s = _mm_add_ps(s, _mm_movehl_ps(s, s));
        return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
#elif defined(__aarch64__)
        return vaddvq_f32((float32x4_t)v);
#else
        return (v[0] + v[2]) + (v[1] + v[3]);
#endif
}

static inline vf bigger(vf a, vf b)
{
#if V == 8
        return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined(__aarch64__)
        return (vf)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
#else
        vi mask = a > b;

        return (vf)(((vi)a & mask) | ((vi)b & ~mask));
#endif
}

/* V halves as floats. */
static inline vf load_half(const uint16_t *from)
{
#if V == 8
        return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i_u *)from));
#elif defined(__aarch64__)
        return (vf)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from)));
#else
        return (vf){float_from_half(from[0]), float_from_half(from[1]), float_from_half(from[2]),
                    float_from_half(from[3])};
#endif
}

/* acc + the products of 32 int8, spread over V lanes. Neither side holds -128. */
static inline vi dot_int8(vi acc, const int8_t *w, const int8_t *x)
{
#if V == 8
        __m256i a = _mm256_loadu_si256((const __m256i_u *)w), b = _mm256_loadu_si256((const __m256i_u *)x);
        /* unsigned × signed is what there is: |x| · (w with the sign of x); pairs stay below 2 · 127² < 2^15. */
        __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(b), _mm256_sign_epi8(a, b));

        return acc + (vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#elif defined(__ARM_FEATURE_DOTPROD)
        return (vi)vdotq_s32(vdotq_s32((int32x4_t)acc, vld1q_s8(w), vld1q_s8(x)), vld1q_s8(w + 16), vld1q_s8(x + 16));
#elif defined(__aarch64__)
        int8x16_t a = vld1q_s8(w), b = vld1q_s8(x), c = vld1q_s8(w + 16), d = vld1q_s8(x + 16);
        int16x8_t low = vmlal_s8(vmull_s8(vget_low_s8(a), vget_low_s8(b)), vget_high_s8(a), vget_high_s8(b));
        int16x8_t high = vmlal_s8(vmull_s8(vget_low_s8(c), vget_low_s8(d)), vget_high_s8(c), vget_high_s8(d));

        return (vi)vpadalq_s16(vpadalq_s16((int32x4_t)acc, low), high);
#else
        for (int i = 0; i < 32; i++)
                acc[i % V] += w[i] * x[i];
        return acc;
#endif
}

#endif
