/* SPDX-License-Identifier: MIT
 *
 * IEEE 754 binary16 from and to binary32: nearest even, overflow to infinity, subnormals kept, NaN quiet with the upper
 * bits of its payload. All ways (F16C, AArch64, plain C) give the same bits.
 */
#ifndef BOARDWRIGHT_HALF_H
#define BOARDWRIGHT_HALF_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

uint16_t half_from_float(float value);

/* Inline, for loops over weights. */
static inline float float_from_half(uint16_t value)
{
        uint32_t sign = (uint32_t)(value & 0x8000) << 16, magnitude = value & 0x7FFF, bits;
        float result;

        if (magnitude >= 0x7C00) {
                bits = sign | 0x7F800000 | (magnitude & 0x3FF) << 13;
                if (magnitude > 0x7C00)
                        bits |= 0x400000;
        } else if (magnitude >= 0x400) {
                bits = sign | ((magnitude << 13) + (112u << 23));
        } else {
                result = (float)magnitude * 0x1p-24f;
                memcpy(&bits, &result, sizeof(bits));
                bits |= sign;
        }
        memcpy(&result, &bits, sizeof(result));
        return result;
}

/* Arrays, vectorised where the processor can; `to` and `from` do not overlap. */
void halves_from_floats(uint16_t *restrict to, const float *restrict from, size_t count);
void floats_from_halves(float *restrict to, const uint16_t *restrict from, size_t count);

#endif
