/* SPDX-License-Identifier: MIT */
#include "half.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

uint16_t half_from_float(float value)
{
        uint32_t bits, sign, magnitude, kept, rest, half;
        unsigned shift = 13;

        memcpy(&bits, &value, sizeof(bits));
        sign = bits >> 16 & 0x8000;
        magnitude = bits & 0x7FFFFFFF;
        if (magnitude > 0x7F800000)
                return (uint16_t)(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
        if (magnitude >= 0x47800000)            /* 65536; what rounds up to it below carries into infinity by itself */
                return (uint16_t)(sign | 0x7C00);
        if (magnitude < 0x33000000)             /* below half of the smallest subnormal */
                return (uint16_t)sign;
        if (magnitude < 0x38800000) {           /* below the smallest normal, 2^-14 */
                shift = 126 - (magnitude >> 23);
                kept = (magnitude & 0x7FFFFF) | 0x800000;
        } else {
                kept = magnitude - (112u << 23);
        }
        half = kept >> shift;
        rest = kept & ((1u << shift) - 1);
        if (rest > 1u << (shift - 1) || (rest == 1u << (shift - 1) && (half & 1)))
                half++;
        return (uint16_t)(sign | half);
}

#if defined(__x86_64__)

__attribute__((target("avx,f16c")))
static size_t halves_f16c(uint16_t *restrict to, const float *restrict from, size_t count)
{
        size_t i;

        for (i = 0; i + 8 <= count; i += 8)
                _mm_storeu_si128((__m128i *)(void *)(to + i),
                                 _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
        return i;
}

__attribute__((target("avx,f16c")))
static size_t floats_f16c(float *restrict to, const uint16_t *restrict from, size_t count)
{
        size_t i;

        for (i = 0; i + 8 <= count; i += 8)
                _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
        return i;
}

static size_t halves_vector(uint16_t *restrict to, const float *restrict from, size_t count)
{
        return __builtin_cpu_supports("f16c") ? halves_f16c(to, from, count) : 0;
}

static size_t floats_vector(float *restrict to, const uint16_t *restrict from, size_t count)
{
        return __builtin_cpu_supports("f16c") ? floats_f16c(to, from, count) : 0;
}

#elif defined(__aarch64__)                      /* the conversions are in every AArch64 */

static size_t halves_vector(uint16_t *restrict to, const float *restrict from, size_t count)
{
        size_t i;

        for (i = 0; i + 4 <= count; i += 4)
                vst1_u16(to + i, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(from + i))));
        return i;
}

static size_t floats_vector(float *restrict to, const uint16_t *restrict from, size_t count)
{
        size_t i;

        for (i = 0; i + 4 <= count; i += 4)
                vst1q_f32(to + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from + i))));
        return i;
}

#else

static size_t halves_vector(uint16_t *restrict to, const float *restrict from, size_t count)
{
        (void)to, (void)from, (void)count;
        return 0;
}

static size_t floats_vector(float *restrict to, const uint16_t *restrict from, size_t count)
{
        (void)to, (void)from, (void)count;
        return 0;
}

#endif

void halves_from_floats(uint16_t *restrict to, const float *restrict from, size_t count)
{
        for (size_t i = halves_vector(to, from, count); i < count; i++)
                to[i] = half_from_float(from[i]);
}

void floats_from_halves(float *restrict to, const uint16_t *restrict from, size_t count)
{
        for (size_t i = floats_vector(to, from, count); i < count; i++)
                to[i] = float_from_half(from[i]);
}
