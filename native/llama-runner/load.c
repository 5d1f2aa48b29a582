/* SPDX-License-Identifier: MIT
 *
 * Memory of a model, and its weights.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "model.h"

#define HUGE_PAGE (2u << 20)

static size_t round_up(size_t value, size_t unit)
{
        return (value + unit - 1) / unit * unit;
}

static void *map(size_t size)
{
        void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        return at == MAP_FAILED ? NULL : at;
}

/* Aligned to huge pages: weights are read once a token, and the TLB would miss on every small page. */
static int open_arena(struct engine *e, size_t size)
{
        e->mapped_size = size + HUGE_PAGE;
        e->mapped = size ? map(e->mapped_size) : NULL;
        e->arena_used = 0;
        if (!e->mapped)
                return size ? -1 : 0;
        e->arena = e->mapped + (HUGE_PAGE - (uintptr_t)e->mapped % HUGE_PAGE) % HUGE_PAGE;
        if (size >= 16 * (size_t)HUGE_PAGE)
                madvise(e->arena, size, MADV_HUGEPAGE);
        return 0;
}

static size_t arena_bytes(const struct engine *e, const struct shape *s)
{
        return s->layers * (matrix_bytes(e, s->dim + 2 * s->kv, s->dim) + matrix_bytes(e, s->dim, s->dim) +
                            matrix_bytes(e, 2 * s->hidden, s->dim) + matrix_bytes(e, s->dim, s->hidden)) +
               matrix_bytes(e, s->vocab, s->dim);
}

static float *part(float **at, size_t count)
{
        float *here = *at;

        *at += round_up(count, 16);
        return here;
}

/* Two passes: the first measures. */
static size_t activations(struct model *m, float *base)
{
        const struct shape *s = &m->shape;
        size_t dim = padded_columns(m->engine, s->dim), hidden = padded_columns(m->engine, s->hidden);
        size_t longest = hidden > dim ? hidden : dim, widest = 2 * s->hidden + PANEL;
        struct engine *e = m->engine;
        float *at = base;

        if (s->dim + 2 * s->kv + PANEL > widest)
                widest = s->dim + 2 * s->kv + PANEL;
        m->x = part(&at, BATCH * s->dim);
        m->branch = part(&at, BATCH * dim);
        m->wide = part(&at, BATCH * widest);
        m->gated = part(&at, BATCH * hidden);
        m->turn = part(&at, BATCH * s->head);
        m->logits = part(&at, s->vocab + PANEL);
        m->scratch_each = round_up(m->context + 4 + 2 * m->head_padded, 16);
        m->scratch = part(&at, m->scratch_each * pool_threads(e->pool));
        e->x_float = part(&at, BATCH * longest);
        e->x_half = (uint16_t *)part(&at, BATCH * longest / 2 + 1);
        e->x_scales = part(&at, BATCH * longest);
        /* Each group begins a block, however few elements it has. */
        e->x_int8 =
                (int8_t *)part(&at, e->weights == WEIGHTS_INT8 ? BATCH * (longest / e->group + 1) *
                                                                         round_up(e->group, BLOCK_INT8) / sizeof(float)
                                                               : 0);
        e->y_int32 = (int32_t *)(void *)part(&at, e->npu && e->weights == WEIGHTS_INT8 ? BATCH * widest + s->vocab : 0);
        return (size_t)(at - base) * sizeof(float);
}

static int load_norms(struct model *m, const struct checkpoint *c)
{
        size_t dim = m->shape.dim;
        float *at = malloc((2 * m->shape.layers + 1) * dim * sizeof(float));

        m->norms = at;
        if (!at)
                return -1;
        for (size_t l = 0; l < m->shape.layers; l++, at += 2 * dim) {
                m->layers[l].norm_attention = at;
                m->layers[l].norm_ffn = at + dim;
                checkpoint_norm(c, c->norm_attention, l, at);
                checkpoint_norm(c, c->norm_ffn, l, at + dim);
        }
        m->norm_final = at;
        checkpoint_norm(c, c->norm_final, 0, at);
        return 0;
}

static int load_matrices(struct model *m, const struct checkpoint *c, struct fault *fault)
{
        int status = 0;

        for (size_t l = 0; l < m->shape.layers && !status; l++) {
                struct layer *layer = &m->layers[l];
                const struct {
                        struct source source;
                        struct matrix *matrix;
                } loads[] = {
                        {{{TENSOR_WQ, TENSOR_WK, TENSOR_WV}, 3, l}, &layer->qkv},
                        {{{TENSOR_WO}, 1, l}, &layer->wo},
                        {{{TENSOR_W1, TENSOR_W3}, 2, l}, &layer->w13},
                        {{{TENSOR_W2}, 1, l}, &layer->w2},
                };

                for (size_t i = 0; i < 4 && !status; i++) {
                        status = matrix_load(m->engine, c, &loads[i].source, loads[i].matrix, fault);
                        m->weight_bytes += loads[i].matrix->bytes;
                }
        }
        if (!status) {
                status = matrix_load(m->engine, c, &(struct source){{TENSOR_CLASSIFIER}, 1, 0}, &m->classifier, fault);
                m->weight_bytes += m->classifier.bytes;
        }
        return status;
}

int model_open(struct model *m, struct engine *e, const struct checkpoint *c, size_t context, struct fault *fault)
{
        const struct shape *s = &c->shape;
        size_t each;
        int status;

        memset(m, 0, sizeof(*m));
        m->engine = e;
        m->checkpoint = c;
        m->shape = *s;
        m->context = context;
        m->head_padded = round_up(s->head, BLOCK);
        e->group = c->version == 2 ? c->group : INT8_GROUP;
        each = s->kv_heads * (context + 3) * m->head_padded * sizeof(float);
        /* The file's own size bounds every weight; only the context can ask for more than there can be. */
        if (__builtin_mul_overflow(each, 2 * s->layers, &m->cache_bytes) || m->cache_bytes > SIZE_MAX / 4)
                return fault_set(fault, FAULT_REQUEST,
                                 "a cache of %zu positions is more than can be addressed: give less with --context",
                                 context);
        m->layers = calloc(s->layers, sizeof(*m->layers));
        m->cache = map(m->cache_bytes);
        m->activation_bytes = activations(m, NULL);
        m->activations = map(m->activation_bytes);
        if (!m->layers || !m->cache || !m->activations || load_norms(m, c) || open_arena(e, arena_bytes(e, s))) {
                model_close(m);
                return fault_set(
                        fault, FAULT_HOST,
                        "no memory for weights of %zu MB and a cache of %zu MB: give less with --weights and --context",
                        arena_bytes(e, s) >> 20, m->cache_bytes >> 20);
        }
        madvise(m->cache, m->cache_bytes, MADV_NOHUGEPAGE);     /* positions never reached shall take no memory */
        activations(m, m->activations);
        status = load_matrices(m, c, fault);
        if (status)
                model_close(m);
        return status;
}

void model_close(struct model *m)
{
        struct engine *e = m->engine;

        if (!e)
                return;
        for (size_t l = 0; m->layers && l < m->shape.layers; l++) {
                matrix_close(&m->layers[l].qkv);
                matrix_close(&m->layers[l].wo);
                matrix_close(&m->layers[l].w13);
                matrix_close(&m->layers[l].w2);
        }
        matrix_close(&m->classifier);
        if (e->mapped)
                munmap(e->mapped, e->mapped_size);
        e->mapped = e->arena = NULL;
        if (m->cache)
                munmap(m->cache, m->cache_bytes);
        if (m->activations)
                munmap(m->activations, m->activation_bytes);
        free(m->norms);
        free(m->layers);
        memset(m, 0, sizeof(*m));
}
