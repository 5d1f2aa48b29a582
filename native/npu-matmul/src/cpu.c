/* SPDX-License-Identifier: MIT
 *
 * The back end `cpu`: threads that each take a share of C's columns. fp16 operands are summed in binary32, int8 exactly
 * and saturated to int32.
 *
 * A product of many rows goes over blocks of A, (NM_ROWS interleaved) floats that stay in the cache, and turns each
 * panel of B into floats once a block. A product of one row reads B as it lies, once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "half.h"
#include "kernels.h"
#include "pool.h"

enum {
        BLOCK_M = 384,          /* rows of A at a time, a multiple of NM_ROWS */
        BLOCK_K = 512,          /* channels at a time: a panel of floats, 32 KiB, fits the first cache */
        BLOCK_K_INT8 = 65536,   /* 2^16 · 2^14 = 2^30 fits int32 */
        INT8_ROWS = 4,
};

struct cpu {
        struct pool *pool;
        const struct nm_kernels *kernels;
};

struct operand {                /* resident B */
        enum nm_type type;
        size_t n, k, padded_k, panels;
        void *data;
};

static size_t up(size_t value, size_t multiple)
{
        return (value + multiple - 1) / multiple * multiple;
}

static size_t in_bytes(enum nm_type type)
{
        return type == NM_INT8_INT32 ? 1 : 2;
}

/* The share of `index` among `count` threads. */
static void share(size_t total, unsigned index, unsigned count, size_t *first, size_t *last)
{
        *first = total * index / count;
        *last = total * (index + 1) / count;
}

static int cpu_open(const struct nm_options *options, void **state, struct nm_info *info, struct nm_error *why)
{
        struct cpu *cpu = calloc(1, sizeof(*cpu));

        if (cpu)
                cpu->pool = pool_open(options->threads);
        if (!cpu || !cpu->pool) {
                free(cpu);
                return nm_fail(why, NM_NO_MEMORY, "no memory for the cpu back end");
        }
        cpu->kernels = nm_kernels();
        snprintf(info->device, sizeof(info->device), "%s, %u thread%s", cpu->kernels->name, pool_threads(cpu->pool),
                 pool_threads(cpu->pool) == 1 ? "" : "s");
        snprintf(info->driver, sizeof(info->driver), "libnpu-matmul %s", nm_version());
        info->evidence = "host";
        info->computes_on_npu = false;
        *state = cpu;
        return NM_OK;
}

static void cpu_close(void *state)
{
        struct cpu *cpu = state;

        pool_close(cpu->pool);
        free(cpu);
}

struct packing {
        const struct operand *to;
        const void *b;
        size_t ldb;
        unsigned step;
};

static void pack_panels(void *arg, unsigned index, unsigned count)
{
        const struct packing *p = arg;
        const struct operand *o = p->to;
        size_t first, last;

        share(o->panels, index, count, &first, &last);
        for (size_t panel = first; panel < last; panel++)
                for (size_t x = 0; x < NM_PANEL; x++) {
                        size_t column = panel * NM_PANEL + x, start = panel * NM_PANEL * o->padded_k;
                        size_t real = column < o->n ? o->k : 0;

                        if (o->type != NM_INT8_INT32) {
                                const uint16_t *from = (const uint16_t *)p->b + column * p->ldb;
                                uint16_t *to = (uint16_t *)o->data + start + x;

                                for (size_t i = 0; i < o->padded_k; i++)
                                        to[i * NM_PANEL] = i < real ? from[i] : 0;
                        } else {
                                const int8_t *from = (const int8_t *)p->b + column * p->ldb;
                                int8_t *to = (int8_t *)o->data + start + x * p->step;

                                for (size_t i = 0; i < o->padded_k; i++)
                                        to[i / p->step * p->step * NM_PANEL + i % p->step] = i < real ? from[i] : 0;
                        }
                }
}

static int cpu_create(void *state, enum nm_type type, size_t n, size_t k, const void *b, size_t ldb,
                      void **matrix, size_t *bytes, struct nm_error *why)
{
        struct cpu *cpu = state;
        struct operand *o = calloc(1, sizeof(*o));
        struct packing packing = {o, b, ldb, cpu->kernels->step};

        if (!o)
                return nm_fail(why, NM_NO_MEMORY, "no memory for a matrix");
        *o = (struct operand){.type = type,
                              .n = n,
                              .k = k,
                              .padded_k = up(k, cpu->kernels->step),
                              .panels = up(n, NM_PANEL) / NM_PANEL};
        if (type != NM_INT8_INT32)
                o->padded_k = k;
        *bytes = o->panels * NM_PANEL * o->padded_k * in_bytes(type);
        o->data = aligned_alloc(64, up(*bytes, 64));
        if (!o->data) {
                free(o);
                return nm_fail(why, NM_NO_MEMORY, "no memory for a matrix of %zu bytes", *bytes);
        }
        pool_run(cpu->pool, pack_panels, &packing);
        *matrix = o;
        return NM_OK;
}

static void cpu_destroy(void *state, void *matrix)
{
        (void)state;
        free(((struct operand *)matrix)->data);
        free(matrix);
}

struct work {
        const struct nm_kernels *kernels;
        const struct operand *b;
        size_t m, k0, k;                /* of this block */
        const void *a;                  /* row and channel 0 of this block, as given */
        size_t lda, ldc;
        void *packed;
        void *c;                        /* row 0 of this block: float, int32_t, or int64_t sums */
        bool add;
        float *panels;
};

static void pack_float_rows(void *arg, unsigned index, unsigned count)
{
        const struct work *w = arg;
        size_t first, last;

        share(up(w->m, NM_ROWS) / NM_ROWS, index, count, &first, &last);
        for (size_t strip = first; strip < last; strip++) {
                float *to = (float *)w->packed + strip * NM_ROWS * w->k, row[BLOCK_K];

                for (size_t y = 0; y < NM_ROWS; y++) {
                        if (strip * NM_ROWS + y < w->m)
                                floats_from_halves(row, (const uint16_t *)w->a + (strip * NM_ROWS + y) * w->lda, w->k);
                        else
                                memset(row, 0, sizeof(row));
                        for (size_t i = 0; i < w->k; i++)
                                to[i * NM_ROWS + y] = row[i];
                }
        }
}

static void multiply_panels(void *arg, unsigned index, unsigned count)
{
        const struct work *w = arg;
        float *panel = w->panels + (size_t)index * BLOCK_K * NM_PANEL;
        size_t first, last;

        share(w->b->panels, index, count, &first, &last);
        for (size_t p = first; p < last; p++) {
                size_t columns = w->b->n - p * NM_PANEL < NM_PANEL ? w->b->n - p * NM_PANEL : NM_PANEL;

                floats_from_halves(panel, (const uint16_t *)w->b->data + (p * w->b->padded_k + w->k0) * NM_PANEL,
                                   w->k * NM_PANEL);
                for (size_t y = 0; y < w->m; y += NM_ROWS) {
                        unsigned rows = (unsigned)(w->m - y < NM_ROWS ? w->m - y : NM_ROWS);
                        float *c = (float *)w->c + y * w->ldc + p * NM_PANEL, tile[NM_ROWS * NM_PANEL];
                        const float *a = (const float *)w->packed + y * w->k;

                        if (columns == NM_PANEL) {
                                w->kernels->float_rows(w->k, a, panel, c, w->ldc, rows, w->add);
                                continue;
                        }
                        w->kernels->float_rows(w->k, a, panel, tile, NM_PANEL, rows, false);
                        for (unsigned r = 0; r < rows; r++)
                                for (size_t x = 0; x < columns; x++)
                                        c[r * w->ldc + x] = tile[r * NM_PANEL + x] + (w->add ? c[r * w->ldc + x] : 0);
                }
        }
}

static void multiply_row(void *arg, unsigned index, unsigned count)
{
        const struct work *w = arg;
        size_t first, last;
        float sums[NM_PANEL];

        share(w->b->panels, index, count, &first, &last);
        for (size_t p = first; p < last; p++) {
                size_t columns = w->b->n - p * NM_PANEL < NM_PANEL ? w->b->n - p * NM_PANEL : NM_PANEL;

                w->kernels->fp16_row(w->k, w->packed, (const uint16_t *)w->b->data + p * w->b->padded_k * NM_PANEL,
                                     sums);
                memcpy((float *)w->c + p * NM_PANEL, sums, columns * sizeof(float));
        }
}

static int one_row(struct cpu *cpu, struct work *w, const void *a, struct nm_error *why)
{
        w->k = w->b->k;
        w->packed = malloc(w->k * sizeof(float));
        if (!w->packed)
                return nm_fail(why, NM_NO_MEMORY, "no memory for a row of %zu", w->k);
        floats_from_halves(w->packed, a, w->k);
        pool_run(cpu->pool, multiply_row, w);
        free(w->packed);
        return NM_OK;
}

/* `c`: floats, `ldc` apart. */
static int multiply_fp16(struct cpu *cpu, const struct operand *o, size_t m, const uint16_t *a, size_t lda, float *c,
                         size_t ldc, struct nm_error *why)
{
        struct work w = {.kernels = cpu->kernels, .b = o, .lda = lda, .ldc = ldc, .c = c};
        size_t strips = up(m < BLOCK_M ? m : BLOCK_M, NM_ROWS) * BLOCK_K;

        if (m == 1)
                return one_row(cpu, &w, a, why);
        w.packed = malloc((strips + pool_threads(cpu->pool) * BLOCK_K * (size_t)NM_PANEL) * sizeof(float));
        if (!w.packed)
                return nm_fail(why, NM_NO_MEMORY, "no memory for blocks");
        w.panels = (float *)w.packed + strips;
        for (size_t y = 0; y < m; y += BLOCK_M)
                for (w.k0 = 0; w.k0 < o->k; w.k0 += BLOCK_K) {
                        w.m = m - y < BLOCK_M ? m - y : BLOCK_M;
                        w.k = o->k - w.k0 < BLOCK_K ? o->k - w.k0 : BLOCK_K;
                        w.a = a + y * lda + w.k0;
                        w.c = c + y * ldc;
                        w.add = w.k0 > 0;
                        pool_run(cpu->pool, pack_float_rows, &w);
                        pool_run(cpu->pool, multiply_panels, &w);
                }
        free(w.packed);
        return NM_OK;
}

static int multiply_to_half(struct cpu *cpu, const struct operand *o, size_t m, const uint16_t *a, size_t lda,
                            uint16_t *c, size_t ldc, struct nm_error *why)
{
        size_t most = m < BLOCK_M ? m : BLOCK_M;
        float *floats = o->n <= SIZE_MAX / most / sizeof(float) ? malloc(most * o->n * sizeof(float)) : NULL;
        int status = floats ? NM_OK : nm_fail(why, NM_NO_MEMORY, "no memory for %zu x %zu results", most, o->n);

        for (size_t y = 0; y < m && !status; y += most) {
                size_t rows = m - y < most ? m - y : most;

                status = multiply_fp16(cpu, o, rows, a + y * lda, lda, floats, o->n, why);
                for (size_t r = 0; r < rows && !status; r++)
                        halves_from_floats(c + (y + r) * ldc, floats + r * o->n, o->n);
        }
        free(floats);
        return status;
}

/* Rows of A as the kernel wants them, K padded with zeros. */
static void pack_int8_rows(void *arg, unsigned index, unsigned count)
{
        const struct work *w = arg;
        size_t first, last, padded = up(w->k, w->kernels->step);

        share(w->m, index, count, &first, &last);
        for (size_t y = first; y < last; y++) {
                const int8_t *from = (const int8_t *)w->a + y * w->lda;

                for (size_t i = 0; i < padded; i++)
                        if (w->kernels->wide_int8)
                                ((int16_t *)w->packed)[y * padded + i] = i < w->k ? from[i] : 0;
                        else
                                ((int8_t *)w->packed)[y * padded + i] = i < w->k ? from[i] : 0;
        }
}

static int32_t saturated(int64_t sum)
{
        return (int32_t)(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
}

static void multiply_int8_panels(void *arg, unsigned index, unsigned count)
{
        const struct work *w = arg;
        size_t first, last, padded = up(w->k, w->kernels->step), element = w->kernels->wide_int8 ? 2 : 1;
        bool sums = w->b->k > BLOCK_K_INT8;

        share(w->b->panels, index, count, &first, &last);
        for (size_t p = first; p < last; p++) {
                size_t columns = w->b->n - p * NM_PANEL < NM_PANEL ? w->b->n - p * NM_PANEL : NM_PANEL;
                const int8_t *panel = (const int8_t *)w->b->data + (p * w->b->padded_k + w->k0) * NM_PANEL;

                for (size_t y = 0; y < w->m; y += INT8_ROWS) {
                        unsigned rows = (unsigned)(w->m - y < INT8_ROWS ? w->m - y : INT8_ROWS);
                        int32_t tile[INT8_ROWS * NM_PANEL];

                        w->kernels->int8_rows(padded, (const char *)w->packed + y * padded * element, padded, panel,
                                              tile, rows);
                        for (unsigned r = 0; r < rows; r++) {
                                size_t at = (y + r) * w->ldc + p * NM_PANEL;

                                if (!sums)
                                        memcpy((int32_t *)w->c + at, tile + r * NM_PANEL, columns * sizeof(int32_t));
                                for (size_t x = 0; sums && x < columns; x++)
                                        ((int64_t *)w->c)[at + x] =
                                                tile[r * NM_PANEL + x] + (w->add ? ((int64_t *)w->c)[at + x] : 0);
                        }
                }
        }
}

static int multiply_int8(struct cpu *cpu, const struct operand *o, size_t m, const int8_t *a, size_t lda, int32_t *c,
                         size_t ldc, struct nm_error *why)
{
        struct work w = {.kernels = cpu->kernels, .b = o, .lda = lda, .ldc = ldc};
        size_t block = o->k <= BLOCK_K_INT8 / 4 ? 128 : 32,
               rows = m < block ? m : block; /* about 4 MiB of A at a time */
        size_t most = o->k < BLOCK_K_INT8 ? up(o->k, cpu->kernels->step) : BLOCK_K_INT8;
        int64_t *sums = o->k > BLOCK_K_INT8 ? malloc(rows * o->n * sizeof(*sums)) : NULL;

        w.packed = malloc(rows * most * (cpu->kernels->wide_int8 ? 2 : 1));
        if (!w.packed || (o->k > BLOCK_K_INT8 && !sums)) {
                free(w.packed);
                free(sums);
                return nm_fail(why, NM_NO_MEMORY, "no memory for blocks");
        }
        for (size_t y = 0; y < m; y += rows) {
                w.m = m - y < rows ? m - y : rows;
                for (w.k0 = 0; w.k0 < o->k; w.k0 += BLOCK_K_INT8) {
                        w.k = o->k - w.k0 < BLOCK_K_INT8 ? o->k - w.k0 : BLOCK_K_INT8;
                        w.a = a + y * lda + w.k0;
                        w.c = sums ? (void *)sums : c + y * ldc;
                        w.ldc = sums ? o->n : ldc;
                        w.add = w.k0 > 0;
                        pool_run(cpu->pool, pack_int8_rows, &w);
                        pool_run(cpu->pool, multiply_int8_panels, &w);
                }
                for (size_t r = 0; sums && r < w.m; r++)
                        for (size_t x = 0; x < o->n; x++)
                                c[(y + r) * ldc + x] = saturated(sums[r * o->n + x]);
        }
        free(w.packed);
        free(sums);
        return NM_OK;
}

static int cpu_multiply(void *state, void *matrix, size_t m, const void *a, size_t lda, void *c, size_t ldc,
                        struct nm_error *why)
{
        const struct operand *o = matrix;

        switch (o->type) {
        case NM_FP16_FP32: return multiply_fp16(state, o, m, a, lda, c, ldc, why);
        case NM_FP16_FP16: return multiply_to_half(state, o, m, a, lda, c, ldc, why);
        case NM_INT8_INT32: break;
        }
        return multiply_int8(state, o, m, a, lda, c, ldc, why);
}

static const struct nm_whole_ops cpu_whole = {.create = cpu_create, .destroy = cpu_destroy, .multiply = cpu_multiply};

const struct nm_backend nm_cpu = {.name = "cpu", .open = cpu_open, .close = cpu_close, .whole = &cpu_whole};
