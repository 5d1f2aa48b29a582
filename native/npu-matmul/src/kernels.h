/* SPDX-License-Identifier: MIT
 *
 * Inner loops of the cpu back end, one set a kind of processor. B lies in panels of 16 columns of C: fp16 as
 * (K, 16); int8 as (K/step, 16, step), K padded with zeros to a multiple of `step`.
 */
#ifndef NM_KERNELS_H
#define NM_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NM_PANEL = 16, NM_ROWS = 6 };

struct nm_kernels {
        const char *name;
        unsigned step;                  /* of int8: products summed at a time */
        bool wide_int8;                 /* the rows of A are int16_t rather than int8_t */
        /* c[16] = a[k] · panel of fp16 */
        void (*fp16_row)(size_t k, const float *a, const uint16_t *b, float *c);
        /* c[rows][16] (+)= a (K, NM_ROWS) · panel of floats (K, 16); rows up to NM_ROWS */
        void (*float_rows)(size_t k, const float *a, const float *b, float *c, size_t ldc, unsigned rows, bool add);
        /* c[rows][16] = a (rows, lda) · panel of int8; k a multiple of step, at most 65536; rows up to 4 */
        void (*int8_rows)(size_t k, const void *a, size_t lda, const int8_t *b, int32_t *c, unsigned rows);
};

/* The fastest this processor runs. */
const struct nm_kernels *nm_kernels(void);
extern const struct nm_kernels nm_kernels_portable;

#endif
