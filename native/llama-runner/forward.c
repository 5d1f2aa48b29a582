/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "model.h"

#define WORTH_SHARING 16384             /* elements of keys read */

static float *cache_of(const struct model *m, size_t layer, int value, size_t head)
{
        size_t rows = m->context + 3;

        return m->cache + ((layer * 2 + (size_t)value) * m->shape.kv_heads + head) * rows * m->head_padded;
}

/* Cosine and sine of each pair at a position, in the order and precision of run.c. */
static void turns(const struct model *m, size_t position, float *to)
{
        for (size_t i = 0; i < m->shape.head; i += 2) {
                float frequency = 1.0f / powf(10000.0f, (float)i / (float)m->shape.head);
                float angle = (float)position * frequency;

                to[i] = cosf(angle);
                to[i + 1] = sinf(angle);
        }
}

static void turn(float *x, const float *by, size_t head)
{
        for (size_t i = 0; i < head; i += 2) {
                float a = x[i], b = x[i + 1];

                x[i] = a * by[i] - b * by[i + 1];
                x[i + 1] = a * by[i + 1] + b * by[i];
        }
}

static void remember(const struct model *m, size_t layer, size_t count, size_t position, size_t ld)
{
        const struct shape *s = &m->shape;

        for (size_t t = 0; t < count; t++) {
                float *q = m->wide + t * ld, *k = q + s->dim, *v = k + s->kv;
                const float *by = m->turn + t * s->head;

                for (size_t h = 0; h < s->heads; h++)
                        turn(q + h * s->head, by, s->head);
                for (size_t h = 0; h < s->kv_heads; h++) {
                        size_t at = (position + t) * m->head_padded;

                        turn(k + h * s->head, by, s->head);
                        memcpy(cache_of(m, layer, 0, h) + at, k + h * s->head, s->head * sizeof(float));
                        memcpy(cache_of(m, layer, 1, h) + at, v + h * s->head, s->head * sizeof(float));
                }
        }
}

struct attending {
        const struct model *m;
        size_t layer, count, position, ld;
        atomic_size_t next;
};

/* One piece of work: one token and one key/value head, with the query heads that share it. */
static void attend(void *arg, unsigned index, unsigned threads)
{
        struct attending *a = arg;
        const struct model *m = a->m;
        const struct shape *s = &m->shape;
        size_t queries = s->heads / s->kv_heads, piece;

        (void)threads;
        while ((piece = atomic_fetch_add_explicit(&a->next, 1, memory_order_relaxed)) < a->count * s->kv_heads) {
                size_t t = piece / s->kv_heads, head = piece % s->kv_heads, at = head * queries * s->head;

                m->engine->kernels->attend(&(struct attention){
                        .q = m->wide + t * a->ld + at,
                        .keys = cache_of(m, a->layer, 0, head),
                        .values = cache_of(m, a->layer, 1, head),
                        .out = m->branch + t * padded_columns(m->engine, s->dim) + at,
                        .scratch = m->scratch + index * m->scratch_each,
                        .queries = queries,
                        .length = a->position + t + 1,
                        .head = s->head,
                        .head_padded = m->head_padded,
                });
        }
}

static void attention(const struct model *m, size_t layer, size_t count, size_t position, size_t ld)
{
        struct attending a = {.m = m, .layer = layer, .count = count, .position = position, .ld = ld};

        atomic_init(&a.next, 0);
        if (count * (position + count) * m->shape.kv < WORTH_SHARING)
                attend(&a, 0, 1);
        else
                pool_run(m->engine->pool, attend, &a);
}

static void norms(const struct model *m, const float *weights, size_t count)
{
        size_t dim = m->shape.dim, ld = padded_columns(m->engine, dim);

        for (size_t t = 0; t < count; t++)
                m->engine->kernels->norm(m->branch + t * ld, m->x + t * dim, weights, dim);
}

static void add(const struct model *m, size_t count, size_t ld)
{
        size_t dim = m->shape.dim;

        for (size_t t = 0; t < count; t++) {
                float *x = m->x + t * dim;
                const float *y = m->wide + t * ld;

                for (size_t i = 0; i < dim; i++)
                        x[i] += y[i];
        }
}

static int run_layer(struct model *m, size_t index, size_t count, size_t position, struct fault *fault)
{
        const struct shape *s = &m->shape;
        const struct layer *layer = &m->layers[index];
        struct engine *e = m->engine;
        size_t qkv = s->dim + 2 * s->kv + PANEL, out = s->dim + PANEL, up = 2 * s->hidden + PANEL;
        size_t hidden = padded_columns(e, s->hidden);
        int status;

        norms(m, layer->norm_attention, count);
        status = matrix_multiply(e, &layer->qkv, count, m->branch, m->wide, qkv, fault);
        if (status)
                return status;
        remember(m, index, count, position, qkv);
        attention(m, index, count, position, qkv);
        status = matrix_multiply(e, &layer->wo, count, m->branch, m->wide, out, fault);
        if (status)
                return status;
        add(m, count, out);

        norms(m, layer->norm_ffn, count);
        status = matrix_multiply(e, &layer->w13, count, m->branch, m->wide, up, fault);
        if (status)
                return status;
        for (size_t t = 0; t < count; t++) {
                memcpy(m->gated + t * hidden, m->wide + t * up, s->hidden * sizeof(float));
                e->kernels->gate(m->gated + t * hidden, m->wide + t * up + s->hidden, s->hidden);
        }
        status = matrix_multiply(e, &layer->w2, count, m->gated, m->wide, out, fault);
        if (status)
                return status;
        add(m, count, out);
        return 0;
}

int model_forward(struct model *m, const int *tokens, size_t count, size_t position, int want_logits,
                  struct fault *fault)
{
        const struct shape *s = &m->shape;

        for (size_t t = 0; t < count; t++) {
                checkpoint_row(m->checkpoint, TENSOR_EMBEDDING, 0, (size_t)tokens[t], m->x + t * s->dim);
                turns(m, position + t, m->turn + t * s->head);
        }
        checkpoint_forget(m->checkpoint); /* a fault maps the pages around it too: soon it would be the whole table */
        for (size_t l = 0; l < s->layers; l++) {
                int status = run_layer(m, l, count, position, fault);

                if (status)
                        return status;
        }
        if (!want_logits)
                return 0;
        m->engine->kernels->norm(m->branch, m->x + (count - 1) * s->dim, m->norm_final, s->dim);
        return matrix_multiply(m->engine, &m->classifier, 1, m->branch, m->logits, s->vocab, fault);
}
