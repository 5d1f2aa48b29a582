/* SPDX-License-Identifier: MIT
 *
 * From rows of a checkpoint to resident matrices. Rows are read some megabytes at a time and their pages given back, so
 * that the checkpoint and its copy are never both in memory.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"

#define AT_ONCE (1u << 20)              /* bytes of checkpoint between two times of giving pages back */

struct packing {
        const struct engine *engine;
        const struct checkpoint *checkpoint;
        const struct source *source;
        struct matrix *matrix;
        void *plain;                    /* rows × columns for an NPU, else NULL */
        size_t first, last;             /* panels of this step */
        atomic_size_t next;
        atomic_bool no_memory;
};

static size_t round_up(size_t value, size_t unit)
{
        return (value + unit - 1) / unit * unit;
}

static size_t int8_padded_group(size_t group)
{
        return round_up(group, BLOCK_INT8);
}

static size_t groups_of(size_t columns, size_t group)
{
        return (columns + group - 1) / group;
}

size_t padded_columns(const struct engine *engine, size_t columns)
{
        (void)engine;
        return round_up(columns, BLOCK);
}

size_t matrix_bytes(const struct engine *engine, size_t rows, size_t columns)
{
        size_t panels = (rows + PANEL - 1) / PANEL, groups;

        if (engine->npu)
                return 0;
        if (engine->weights != WEIGHTS_INT8)
                return round_up(panels * PANEL * round_up(columns, BLOCK) * (engine->weights == WEIGHTS_FP32 ? 4 : 2),
                                64);
        groups = groups_of(columns, engine->group);
        return round_up(panels * PANEL * groups * int8_padded_group(engine->group), 64) +
               round_up(panels * PANEL * groups * 4, 64);
}

static void find_row(const struct packing *p, size_t row, enum tensor *tensor, size_t *inside)
{
        size_t rows, columns;

        for (size_t i = 0;; i++) {
                *tensor = p->source->tensors[i];
                checkpoint_extent(p->checkpoint, *tensor, &rows, &columns);
                if (row < rows)
                        break;
                row -= rows;
        }
        *inside = row;
}

/* `group` values to int8 and their scale, as export.py: quantize_q80. */
static float to_int8(const struct kernels *k, int8_t *to, const float *x, size_t count)
{
        float scale = k->largest(x, count) / 127.0f;

        k->quantize(to, x, scale > 0 ? 1.0f / scale : 0.0f, count);
        return scale;
}

static void pack_row_int8(const struct packing *p, size_t row, const float *x, enum tensor tensor, size_t inside,
                          int8_t *q, float *scales)
{
        const struct matrix *m = p->matrix;
        size_t group = p->engine->group, groups = groups_of(m->columns, group), r = row % PANEL;
        int8_t *panel = (int8_t *)m->weights + row / PANEL * PANEL * m->padded;
        float *panel_scales = m->scales + row / PANEL * PANEL * groups;

        if (p->checkpoint->version == 2 && p->checkpoint->group == group) {
                checkpoint_row_int8(p->checkpoint, tensor, p->source->layer, inside, q, scales);
        } else {
                for (size_t g = 0; g < groups; g++) {
                        size_t at = g * group, count = m->columns - at < group ? m->columns - at : group;

                        scales[g] = to_int8(p->engine->kernels, q + at, x + at, count);
                }
        }
        for (size_t g = 0; g < groups; g++)
                panel_scales[g * PANEL + r] = scales[g];
        for (size_t i = 0; i < m->columns; i++) {
                size_t at = i / group * m->group + i % group;

                /* export.py keeps to [-127, 127], and the kernels count on it. */
                panel[at / BLOCK_INT8 * PANEL * BLOCK_INT8 + r * BLOCK_INT8 + at % BLOCK_INT8] =
                        q[i] < -127 ? -127 : q[i];
        }
}

static void pack_row(struct packing *p, size_t row, float *x, int8_t *q, float *scales)
{
        const struct engine *e = p->engine;
        struct matrix *m = p->matrix;
        size_t inside, padded = round_up(m->columns, BLOCK);
        enum tensor tensor;

        find_row(p, row, &tensor, &inside);
        checkpoint_row(p->checkpoint, tensor, p->source->layer, inside, x);
        if (p->plain) {
                if (e->weights == WEIGHTS_INT8)
                        m->row_scales[row] = to_int8(e->kernels, (int8_t *)p->plain + row * m->columns, x, m->columns);
                else
                        nm_half_from_float((uint16_t *)p->plain + row * m->columns, x, m->columns);
                return;
        }
        if (e->weights == WEIGHTS_INT8) {
                pack_row_int8(p, row, x, tensor, inside, q, scales);
                return;
        }
        for (size_t k = 0; k < padded; k += BLOCK) {
                size_t at = row / PANEL * PANEL * padded + k * PANEL + row % PANEL * BLOCK;

                if (e->weights == WEIGHTS_FP16)
                        nm_half_from_float((uint16_t *)(void *)m->weights + at, x + k, BLOCK);
                else
                        memcpy((float *)(void *)m->weights + at, x + k, BLOCK * sizeof(float));
        }
}

static void pack_panels(void *arg, unsigned index, unsigned count)
{
        struct packing *p = arg;
        size_t columns = p->matrix->columns, panel;
        float *x = calloc(2 * round_up(columns, BLOCK), sizeof(float));
        int8_t *q = malloc(columns);

        (void)index;
        (void)count;
        if (!x || !q)
                atomic_store(&p->no_memory, true);
        else
                while ((panel = atomic_fetch_add(&p->next, 1)) < p->last)
                        for (size_t row = panel * PANEL; row < (panel + 1) * PANEL && row < p->matrix->rows; row++)
                                pack_row(p, row, x, q, x + round_up(columns, BLOCK));
        free(x);
        free(q);
}

static void *take(struct engine *e, size_t bytes)
{
        void *at = e->arena + e->arena_used;

        e->arena_used += round_up(bytes, 64);
        return at;
}

static int to_npu(struct engine *e, struct matrix *m, void *plain, struct fault *fault)
{
        struct nm_error why;
        int status = nm_matrix_create(e->npu, e->weights == WEIGHTS_INT8 ? NM_INT8_INT32 : NM_FP16_FP32, m->rows,
                                      m->columns, plain, m->columns, &m->npu, &why);

        if (status)
                return fault_set(fault, status == NM_NO_MEMORY ? FAULT_HOST : FAULT_PRODUCT,
                                 "weights of %zu x %zu: %s (%s)", m->rows, m->columns, why.text,
                                 nm_status_name(status));
        m->bytes = nm_matrix_bytes(m->npu);
        return 0;
}

int matrix_load(struct engine *e, const struct checkpoint *c, const struct source *source, struct matrix *m,
                struct fault *fault)
{
        struct packing p = {.engine = e, .checkpoint = c, .source = source, .matrix = m};
        size_t step, element = e->weights == WEIGHTS_INT8 ? 1 : 2;
        int status = 0;

        memset(m, 0, sizeof(*m));
        for (size_t i = 0; i < source->count; i++) {
                size_t rows;

                checkpoint_extent(c, source->tensors[i], &rows, &m->columns);
                m->rows += rows;
        }
        m->panels = (m->rows + PANEL - 1) / PANEL;
        m->padded = round_up(m->columns, BLOCK);
        if (e->npu) {
                p.plain = malloc(m->rows * m->columns * element);
                m->row_scales = malloc(m->rows * sizeof(float));
                if (!p.plain || !m->row_scales) {
                        free(p.plain);
                        return fault_set(fault, FAULT_HOST, "no memory to convert weights of %zu x %zu", m->rows,
                                         m->columns);
                }
        } else if (e->weights == WEIGHTS_INT8) {
                size_t groups = groups_of(m->columns, e->group);

                m->group = int8_padded_group(e->group);
                m->padded = groups * m->group;
                m->weights = take(e, m->panels * PANEL * m->padded);
                m->scales = take(e, m->panels * PANEL * groups * sizeof(float));
        } else {
                m->weights = take(e, m->panels * PANEL * m->padded * (e->weights == WEIGHTS_FP32 ? 4 : 2));
        }
        m->bytes = matrix_bytes(e, m->rows, m->columns);

        step = AT_ONCE / (PANEL * m->columns * (c->version ? 1 : 4)) + 1;
        for (p.first = 0; p.first < m->panels; p.first = p.last) {
                p.last = p.first + step < m->panels ? p.first + step : m->panels;
                atomic_init(&p.next, p.first);
                pool_run(e->pool, pack_panels, &p);
                checkpoint_forget(c);
        }
        if (atomic_load(&p.no_memory))
                status = fault_set(fault, FAULT_HOST, "no memory to convert weights of %zu x %zu", m->rows, m->columns);
        if (!status && e->npu)
                status = to_npu(e, m, p.plain, fault);
        free(p.plain);
        return status;
}

void matrix_close(struct matrix *m)
{
        if (m->npu)
                nm_matrix_destroy(m->npu);
        free(m->row_scales);
        memset(m, 0, sizeof(*m));
}
