/* SPDX-License-Identifier: MIT
 *
 * The arithmetic of one processor kind. The source is one (kernels.c); it is compiled once a kind, and the best that
 * this processor can run is chosen when the program starts.
 *
 * Weights lie in panels of PANEL rows, so that a product reads memory as one stream: for fp32 and fp16 blocks of BLOCK
 * columns, for int8 of BLOCK_INT8, and in each block the rows one after another. Rows and columns are filled up with
 * zeros. A sum is taken in the same order however many vectors are multiplied at once, so batches and threads change no
 * bit.
 */
#ifndef LLAMA_KERNELS_H
#define LLAMA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum { PANEL = 4, BLOCK = 8, BLOCK_INT8 = 32 };

/* y[t][4 p + r] = Σ w[4 p + r][k] x[t][k], for `panels` panels of `columns` columns (padded) and `count` vectors. */
struct product {
        const void *weights;    /* of the first panel */
        size_t panels, columns;
        const void *x;          /* float, or int8_t for int8; rows at a distance of `columns` */
        float *y;
        size_t ldy;
        size_t count;
        /* int8 only: */
        const float *scales;    /* PANEL for each group of each panel */
        const float *x_scales;  /* groups for each vector */
        size_t group;           /* columns a scale, padded: a multiple of BLOCK_INT8 */
};

struct attention {
        const float *q;         /* `queries` heads of `head` elements, one after another */
        const float *keys, *values;     /* of one key/value head: `length` rows of `head_padded` */
        float *out;             /* as q */
        float *scratch;         /* length + 3 + 2 × head_padded */
        size_t queries, length, head, head_padded;
};

struct kernels {
        const char *name;       /* "AVX2" */
        void (*fp32)(const struct product *product);
        void (*fp16)(const struct product *product);
        void (*int8)(const struct product *product);
        void (*attend)(const struct attention *attention);
        void (*norm)(float *to, const float *x, const float *weight, size_t count);     /* RMSNorm, epsilon 1e-5 */
        void (*gate)(float *to, const float *up, size_t count);        /* to = silu(to) · up */
        float (*softmax)(float *values, size_t count);                  /* returns the sum it divided by */
        float (*largest)(const float *values, size_t count);            /* max |x| */
        void (*quantize)(int8_t *to, const float *x, float inverse, size_t count);     /* round(x · inverse) */
};

extern const struct kernels kernels_portable, kernels_avx2, kernels_neon, kernels_neon_dot;

/* The best this processor runs; LLAMA_KERNELS in the environment names another, for tests. NULL: it names none that
 * runs here. */
const struct kernels *kernels_choose(void);

#endif
