/* SPDX-License-Identifier: MIT
 *
 * The products of kernels.c, which alone includes this: it is compiled once a processor kind.
 */
#ifndef LLAMA_PRODUCTS_H
#define LLAMA_PRODUCTS_H

#include <string.h>

#include "kernels.h"
#include "vector.h"

#define PARTS (BLOCK / V)       /* vectors a block */
#define STREAMS 4               /* places that one vector's product reads in turn */
#define STREAM_COLUMNS (8 * BLOCK)
#define TILE 3                  /* vectors of activations at once: PANEL × TILE sums stay in 16 registers */

INLINE vf weight(const void *w, size_t at, int half)
{
        return half ? load_half((const uint16_t *)w + at) : load((const float *)w + at);
}

/* A panel's rows in one block of columns, whose weights begin at `at`. */
INLINE void add_block(vf sums[PANEL][PARTS], const void *weights, size_t at, const float *x, int half)
{
        for (int part = 0; part < PARTS; part++) {
                vf xs = load(x + part * V);

                for (int r = 0; r < PANEL; r++)
                        sums[r][part] += weight(weights, at + (size_t)(r * BLOCK + part * V), half) * xs;
        }
}

INLINE void keep_sums(float *y, vf sums[PANEL][PARTS])
{
        for (int r = 0; r < PANEL; r++) {
                vf total = sums[r][0];

                for (int part = 1; part < PARTS; part++)
                        total += sums[r][part];
                y[r] = sum(total);
        }
}

/* One panel against `tile` vectors; both constants where it is inlined. */
INLINE void panel_float(const struct product *p, size_t panel, size_t first, int tile, int half)
{
        const char *w = (const char *)p->weights + panel * PANEL * p->columns * (half ? 2 : 4);
        const float *x = (const float *)p->x + first * p->columns;
        vf acc[TILE][PANEL][PARTS] = {0};

        for (size_t k = 0; k < p->columns; k += BLOCK)
                for (int t = 0; t < tile; t++)
                        add_block(acc[t], w, k * PANEL, x + (size_t)t * p->columns + k, half);
        for (int t = 0; t < tile; t++)
                keep_sums(p->y + (first + (size_t)t) * p->ldy + panel * PANEL, acc[t]);
}

INLINE void panel_int8(const struct product *p, size_t panel, size_t first, int tile)
{
        const size_t groups = p->columns / p->group;
        const int8_t *w = (const int8_t *)p->weights + panel * PANEL * p->columns;
        const int8_t *x = (const int8_t *)p->x + first * p->columns;
        const float *scales = p->scales + panel * PANEL * groups, *x_scales = p->x_scales + first * groups;
        vf acc[TILE][PANEL] = {0};

        for (size_t g = 0; g < groups; g++) {
                vi part[TILE][PANEL] = {0};

                for (size_t k = g * p->group; k < (g + 1) * p->group; k += BLOCK_INT8, w += PANEL * BLOCK_INT8)
                        for (int t = 0; t < tile; t++)
                                for (int r = 0; r < PANEL; r++)
                                        part[t][r] = dot_int8(part[t][r], w + r * BLOCK_INT8,
                                                              x + (size_t)t * p->columns + k);
                for (int t = 0; t < tile; t++)
                        for (int r = 0; r < PANEL; r++)
                                acc[t][r] += __builtin_convertvector(part[t][r], vf) *
                                             all(scales[g * PANEL + (size_t)r] * x_scales[(size_t)t * groups + g]);
        }
        for (int t = 0; t < tile; t++)
                for (int r = 0; r < PANEL; r++)
                        p->y[(first + (size_t)t) * p->ldy + panel * PANEL + (size_t)r] = sum(acc[t][r]);
}

/* One vector against STREAMS panels that lie `apart` panels from one another, a bit of each in turn: the processor
 * fetches ahead in each place, so a core reads memory faster. The sums are those of panel_float(). */
INLINE void streams_float(const struct product *p, size_t panel, size_t apart, int half)
{
        const size_t bytes = PANEL * p->columns * (half ? 2 : 4);
        const char *w = (const char *)p->weights + panel * bytes;
        const float *x = (const float *)p->x;
        vf acc[STREAMS][PANEL][PARTS] = {0};

        for (size_t k = 0; k < p->columns; k += STREAM_COLUMNS) {
                size_t end = p->columns < k + STREAM_COLUMNS ? p->columns : k + STREAM_COLUMNS;

                for (int s = 0; s < STREAMS; s++) {
                        const char *from = w + (size_t)s * apart * bytes;
                        vf sums[PANEL][PARTS];

                        memcpy(sums, acc[s], sizeof(sums));
                        for (size_t c = k; c < end; c += BLOCK)
                                add_block(sums, from, c * PANEL, x + c, half);
                        memcpy(acc[s], sums, sizeof(sums));
                }
        }
        for (int s = 0; s < STREAMS; s++)
                keep_sums(p->y + (panel + (size_t)s * apart) * PANEL, acc[s]);
}

INLINE void streams_int8(const struct product *p, size_t panel, size_t apart)
{
        const size_t groups = p->columns / p->group, bytes = PANEL * p->columns;
        const int8_t *w = (const int8_t *)p->weights + panel * bytes;
        const int8_t *x = (const int8_t *)p->x;
        const float *scales = p->scales + panel * PANEL * groups;
        vf acc[STREAMS][PANEL] = {0};

        for (size_t g = 0; g < groups; g++)
                for (int s = 0; s < STREAMS; s++) {
                        const int8_t *from = w + (size_t)s * apart * bytes + g * p->group * PANEL;
                        const float *scale = scales + ((size_t)s * apart * groups + g) * PANEL;
                        vi part[PANEL] = {0};

                        for (size_t k = 0; k < p->group; k += BLOCK_INT8, from += PANEL * BLOCK_INT8)
                                for (int r = 0; r < PANEL; r++)
                                        part[r] = dot_int8(part[r], from + r * BLOCK_INT8, x + g * p->group + k);
                        for (int r = 0; r < PANEL; r++)
                                acc[s][r] += __builtin_convertvector(part[r], vf) * all(scale[r] * p->x_scales[g]);
                }
        for (int s = 0; s < STREAMS; s++)
                for (int r = 0; r < PANEL; r++)
                        p->y[(panel + (size_t)s * apart) * PANEL + (size_t)r] = sum(acc[s][r]);
}

/* One vector is a matter of memory: in streams. Several go panel by panel, so that each comes from memory once. */
#define PRODUCT(name, call, streams) \
        static void name(const struct product *p) \
        { \
                size_t apart = p->count == 1 ? p->panels / STREAMS : 0; \
                for (size_t panel = 0; panel < apart; panel++) \
                        streams; \
                for (size_t panel = apart * STREAMS; panel < p->panels; panel++) { \
                        size_t first = 0; \
                        for (; first + 3 <= p->count; first += 3) \
                                call(3); \
                        if (first + 2 == p->count) \
                                call(2); \
                        else if (first + 1 == p->count) \
                                call(1); \
                } \
        }
#define FP32(tile) panel_float(p, panel, first, tile, 0)
#define FP16(tile) panel_float(p, panel, first, tile, 1)
#define INT8(tile) panel_int8(p, panel, first, tile)
PRODUCT(product_fp32, FP32, streams_float(p, panel, apart, 0))
PRODUCT(product_fp16, FP16, streams_float(p, panel, apart, 1))
PRODUCT(product_int8, INT8, streams_int8(p, panel, apart))

#endif
