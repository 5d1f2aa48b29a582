/* SPDX-License-Identifier: MIT */
#include "matrix.h"

#include <stdatomic.h>
#include <string.h>

#define WORTH_SHARING 65536 /* elements times vectors: a smaller product is done before others have woken */
#define SHARES 8 /* pieces a thread: slower cores (and busy ones) take fewer */

struct sharing {
        const struct engine *engine;
        const struct matrix *matrix;
        struct product product;
        size_t piece; /* panels */
        atomic_size_t next;
};

static void multiply_panels(const struct sharing *s, size_t first, size_t count)
{
        const struct kernels *k = s->engine->kernels;
        const struct matrix *m = s->matrix;
        struct product p = s->product;

        p.panels = count;
        p.y += first * PANEL;
        switch (s->engine->weights) {
        case WEIGHTS_FP32:
                p.weights = m->weights + first * PANEL * m->padded * 4;
                k->fp32(&p);
                break;
        case WEIGHTS_FP16:
                p.weights = m->weights + first * PANEL * m->padded * 2;
                k->fp16(&p);
                break;
        default:
                p.weights = m->weights + first * PANEL * m->padded;
                p.scales = m->scales + first * PANEL * (m->padded / m->group);
                k->int8(&p);
        }
}

static void share(void *arg, unsigned index, unsigned count)
{
        struct sharing *s = arg;
        size_t first, panels = s->matrix->panels;

        (void)index;
        (void)count;
        while ((first = atomic_fetch_add_explicit(&s->next, s->piece, memory_order_relaxed)) < panels)
                multiply_panels(s, first, panels - first < s->piece ? panels - first : s->piece);
}

static void to_int8_groups(const struct engine *e, const struct matrix *m, size_t count, const float *x, size_t ldx)
{
        const struct kernels *k = e->kernels;
        size_t groups = m->padded / m->group;

        memset(e->x_int8, 0, count * m->padded);
        for (size_t t = 0; t < count; t++)
                for (size_t g = 0; g < groups; g++) {
                        const float *from = x + t * ldx + g * e->group;
                        size_t left = m->columns - g * e->group, n = left < e->group ? left : e->group;
                        float scale = k->largest(from, n) / 127.0f;

                        e->x_scales[t * groups + g] = scale;
                        k->quantize(e->x_int8 + t * m->padded + g * m->group, from, scale > 0 ? 1.0f / scale : 0.0f, n);
                }
}

static int npu_fails(struct fault *fault, int status, const struct nm_error *why)
{
        return fault_set(fault, FAULT_PRODUCT, "the NPU failed: %s (%s): see the kernel's log, or take --backend cpu",
                         why->text, nm_status_name(status));
}

static int on_npu(struct engine *e, const struct matrix *m, size_t count, const float *x, size_t ldx, float *y,
                  size_t ldy, struct fault *fault)
{
        const struct kernels *k = e->kernels;
        struct nm_error why;
        int status;

        if (e->weights != WEIGHTS_INT8) {
                for (size_t t = 0; t < count; t++)
                        nm_half_from_float(e->x_half + t * m->columns, x + t * ldx, m->columns);
                status = nm_multiply(m->npu, count, e->x_half, m->columns, y, ldy, &why);
                return status ? npu_fails(fault, status, &why) : 0;
        }
        for (size_t t = 0; t < count; t++) {
                float scale = k->largest(x + t * ldx, m->columns) / 127.0f;

                e->x_scales[t] = scale;
                k->quantize(e->x_int8 + t * m->columns, x + t * ldx, scale > 0 ? 1.0f / scale : 0.0f, m->columns);
        }
        status = nm_multiply(m->npu, count, e->x_int8, m->columns, e->y_int32, m->rows, &why);
        if (status)
                return npu_fails(fault, status, &why);
        for (size_t t = 0; t < count; t++)
                for (size_t r = 0; r < m->rows; r++)
                        y[t * ldy + r] = (float)e->y_int32[t * m->rows + r] * (m->row_scales[r] * e->x_scales[t]);
        return 0;
}

int matrix_multiply(struct engine *e, const struct matrix *m, size_t count, const float *x, float *y, size_t ldy,
                    struct fault *fault)
{
        size_t ldx = padded_columns(e, m->columns), threads = pool_threads(e->pool);
        struct sharing s = {.engine = e, .matrix = m};

        if (e->npu)
                return on_npu(e, m, count, x, ldx, y, ldy, fault);
        s.product = (struct product){.columns = m->padded,
                                     .x = x,
                                     .y = y,
                                     .ldy = ldy,
                                     .count = count,
                                     .x_scales = e->x_scales,
                                     .group = m->group};
        if (e->weights == WEIGHTS_FP16) { /* what an NPU gets, so that both compute the same */
                nm_half_from_float(e->x_half, x, count * ldx);
                nm_float_from_half(e->x_float, e->x_half, count * ldx);
                s.product.x = e->x_float;
        } else if (e->weights == WEIGHTS_INT8) {
                to_int8_groups(e, m, count, x, ldx);
                s.product.x = e->x_int8;
        }
        s.piece = m->panels / (threads * SHARES) + 1;
        atomic_init(&s.next, 0);
        if (threads == 1 || m->rows * m->columns * count < WORTH_SHARING)
                multiply_panels(&s, 0, m->panels);
        else
                pool_run(e->pool, share, &s);
        return 0;
}
