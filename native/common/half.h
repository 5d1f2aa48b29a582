/* SPDX-License-Identifier: MIT
 *
 * IEEE 754 binary16 from and to binary32: nearest even, overflow to infinity, subnormals kept, NaN quiet with the upper
 * bits of its payload. All ways (F16C, AArch64, plain C) give the same bits.
 */
#ifndef BOARDWRIGHT_HALF_H
#define BOARDWRIGHT_HALF_H

#include <stddef.h>
#include <stdint.h>

uint16_t half_from_float(float value);
float float_from_half(uint16_t value);

/* Arrays, vectorised where the processor can; `to` and `from` do not overlap. */
void halves_from_floats(uint16_t *restrict to, const float *restrict from, size_t count);
void floats_from_halves(float *restrict to, const uint16_t *restrict from, size_t count);

#endif
