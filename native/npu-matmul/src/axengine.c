/* SPDX-License-Identifier: MIT
 *
 * The AX650N by its vendor's run-time: products of int8 with ready-made matmul models (152 of them come with the
 * vendor's SDK; tools/matmul-onnx makes more). N is sliced and K is split over the models there are.
 *
 * The models give float32. A sum of K products of int8 is exact in it below 2^24, that is for K up to 1023, so no
 * longer model is used and the parts of a longer K are added here as integers.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ax-runtime.h"
#include "backend.h"

enum { K_EXACT = (1 << 24) / (128 * 128) - 1 };

/* B in pieces of `rows` by `k`, padded with zeros, as either operand of a model takes them. */
struct weights {
        size_t n, k_total;
        uint32_t rows, k;               /* of a piece */
        size_t slices, parts;           /* along N, along K */
        struct ax_memory *pieces;       /* [slice][part] */
};

static size_t ceil_div(size_t a, size_t b)
{
        return (a + b - 1) / b;
}

static int axengine_open(const struct nm_options *options, void **state, struct nm_info *info, struct nm_error *why)
{
        struct ax_runtime *runtime = malloc(sizeof(*runtime));
        int status;

        if (!runtime)
                return nm_fail(why, NM_NO_MEMORY, "no memory for a device");
        status = ax_runtime_open(options->node, runtime, why);
        if (status) {
                free(runtime);
                return status;
        }
        info->backend = "axengine";
        /* The tests' run-time says what it is. */
        info->evidence = strncmp(runtime->calls.AX_ENGINE_GetVersion(), "fake", 4) ? "hardware" : "emulated";
        info->computes_on_npu = true;
        snprintf(info->device, sizeof(info->device), "AX650N, %zu models", runtime->count);
        snprintf(info->driver, sizeof(info->driver), "libax_engine %s", runtime->calls.AX_ENGINE_GetVersion());
        *state = runtime;
        return NM_OK;
}

static void axengine_close(void *state)
{
        ax_runtime_close(state);
        free(state);
}

static void destroy(void *state, void *matrix)
{
        struct weights *weights = matrix;

        for (size_t i = 0; weights->pieces && i < weights->slices * weights->parts; i++)
                ax_free(state, &weights->pieces[i]);
        free(weights->pieces);
        free(weights);
}

/* Pieces cost estimated cycles each; of two equal ways the one with less memory. */
static bool choose(const struct ax_runtime *runtime, struct weights *weights)
{
        double least = INFINITY;

        for (size_t i = 0; i < runtime->count; i++) {
                const struct ax_model *model = &runtime->models[i];

                for (int role = 0; role < 2 && model->k <= K_EXACT; role++) {
                        const uint32_t rows = role ? model->d1 : model->d2;
                        const double pieces =
                                (double)ceil_div(weights->n, rows) * (double)ceil_div(weights->k_total, model->k);
                        const double cost = pieces * ((double)model->cycles + 1e-6 * rows * model->k);

                        if (cost >= least)
                                continue;
                        least = cost;
                        weights->rows = rows;
                        weights->k = model->k;
                }
        }
        return least < INFINITY;
}

static int fill(const struct ax_runtime *runtime, struct weights *weights, const int8_t *b, size_t ldb,
                struct nm_error *why)
{
        int status = NM_OK;

        for (size_t i = 0; i < weights->slices * weights->parts && status == NM_OK; i++) {
                struct ax_memory *piece = &weights->pieces[i];
                const size_t first = i / weights->parts * weights->rows, start = i % weights->parts * weights->k;
                const size_t width = weights->k_total - start < weights->k ? weights->k_total - start : weights->k;

                status = ax_allocate(runtime, (size_t)weights->rows * weights->k, piece, why);
                if (status)
                        break;
                memset(piece->cpu, 0, piece->size);
                for (size_t row = 0; row < weights->rows && first + row < weights->n; row++)
                        memcpy((int8_t *)piece->cpu + row * weights->k, b + (first + row) * ldb + start, width);
                status = ax_flush(runtime, piece, 0, piece->size, why);
        }
        return status;
}

static int create(void *state, enum nm_type type, size_t n, size_t k, const void *b, size_t ldb, void **matrix,
                  size_t *bytes, struct nm_error *why)
{
        struct weights *weights;
        int status;

        if (type != NM_INT8_INT32)
                return nm_fail(why, NM_UNSUPPORTED, "axengine multiplies int8 only; its matmul models know no fp16");
        weights = calloc(1, sizeof(*weights));
        if (!weights)
                return nm_fail(why, NM_NO_MEMORY, "no memory for a matrix");
        weights->n = n;
        weights->k_total = k;
        if (!choose(state, weights)) {
                free(weights);
                return nm_fail(why, NM_UNSUPPORTED, "no int8 model with K up to %d, beyond which float32 is not exact",
                               K_EXACT);
        }
        weights->slices = ceil_div(n, weights->rows);
        weights->parts = ceil_div(k, weights->k);
        weights->pieces = calloc(weights->slices * weights->parts, sizeof(*weights->pieces));
        status = weights->pieces ? fill(state, weights, b, ldb, why)
                                 : nm_fail(why, NM_NO_MEMORY, "no memory for a matrix");
        if (status) {
                destroy(state, weights);
                return status;
        }
        *matrix = weights;
        *bytes = weights->slices * weights->parts * weights->rows * weights->k;
        return NM_OK;
}

/* The model that takes `m` rows of A beside these pieces in the fewest cycles. */
static struct ax_model *model_for(const struct ax_runtime *runtime, const struct weights *weights, size_t m,
                                  bool *a_is_x)
{
        struct ax_model *best = NULL;
        double least = INFINITY;

        for (size_t i = 0; i < runtime->count; i++) {
                struct ax_model *model = &runtime->models[i];

                for (int role = 0; role < 2 && model->k == weights->k; role++) {
                        const uint32_t of_b = role ? model->d1 : model->d2, of_a = role ? model->d2 : model->d1;
                        const double cost = (double)ceil_div(m, of_a) * (double)model->cycles;

                        if (of_b != weights->rows || cost >= least)
                                continue;
                        least = cost;
                        best = model;
                        *a_is_x = role == 0;
                }
        }
        return best;
}

/* Memory for A's rows, made anew when the model served with A in the other place before. */
static int ensure_operand(const struct ax_runtime *runtime, struct ax_model *model, bool a_is_x, struct nm_error *why)
{
        if (model->operand.cpu && model->operand_is_x == a_is_x)
                return NM_OK;
        ax_free(runtime, &model->operand);
        model->operand_is_x = a_is_x;
        return ax_allocate(runtime, (size_t)(a_is_x ? model->d1 : model->d2) * model->k, &model->operand, why);
}

struct rows {                           /* of A and C that one run covers */
        size_t count;
        const int8_t *a;
        size_t lda;
        int32_t *c;
        size_t ldc;
        bool a_is_x;
};

static const uint32_t poison = 0xFFFFFFFF;      /* no sum: a NaN */

/* Adds r to C, as integers. What is no integer is not a sum of products: the model scales its result. */
static int add(const struct ax_model *model, const struct rows *rows, size_t columns, size_t n0, struct nm_error *why)
{
        const float *r = model->result.cpu;

        for (size_t i = 0; i < rows->count; i++) {
                for (size_t j = 0; j < columns; j++) {
                        const float value = rows->a_is_x ? r[i * model->d2 + j] : r[j * model->d2 + i];

                        if (!(fabsf(value) <= 16777216.0f) || value != rintf(value))
                                return nm_fail(why, NM_UNSUPPORTED,
                                               "%s gives %g where an integer below 2^24 is due: its result "
                                               "is scaled or not exact",
                                               model->file, (double)value);
                        rows->c[i * rows->ldc + n0 + j] += (int32_t)value;
                }
        }
        return NM_OK;
}

static int run_piece(const struct ax_runtime *runtime, struct ax_model *model, const struct ax_memory *piece,
                     const struct rows *rows, size_t columns, size_t n0, struct nm_error *why)
{
        const size_t last = rows->a_is_x ? (rows->count - 1) * model->d2 + columns - 1
                                         : (columns - 1) * model->d2 + rows->count - 1;
        float *r = model->result.cpu;
        int status;

        memcpy(&r[0], &poison, sizeof(poison));
        memcpy(&r[last], &poison, sizeof(poison));
        /* Flushed as a whole, so that no dirty line of the processor's falls on the result later. */
        status = ax_flush(runtime, &model->result, 0, model->result.size, why);
        if (status == NM_OK)
                status = rows->a_is_x ? ax_model_run(runtime, model, &model->operand, piece, why)
                                      : ax_model_run(runtime, model, piece, &model->operand, why);
        if (status == NM_OK)
                status = ax_invalidate(runtime, &model->result, model->result.size, why);
        if (status)
                return status;
        if (!memcmp(&r[0], &poison, sizeof(poison)) || !memcmp(&r[last], &poison, sizeof(poison)))
                return nm_fail(why, NM_NOT_RUN, "%s reported success and left its result untouched", model->file);
        return add(model, rows, columns, n0, why);
}

static int run_rows(const struct ax_runtime *runtime, const struct weights *weights, struct ax_model *model,
                    const struct rows *rows, struct nm_error *why)
{
        int status = NM_OK;

        for (size_t part = 0; part < weights->parts && status == NM_OK; part++) {
                const size_t start = part * weights->k;
                const size_t width = weights->k_total - start < weights->k ? weights->k_total - start : weights->k;
                int8_t *operand = model->operand.cpu;

                memset(operand, 0, model->operand.size);
                for (size_t i = 0; i < rows->count; i++)
                        memcpy(operand + i * weights->k, rows->a + i * rows->lda + start, width);
                status = ax_flush(runtime, &model->operand, 0, model->operand.size, why);
                for (size_t slice = 0; slice < weights->slices && status == NM_OK; slice++) {
                        const size_t n0 = slice * weights->rows;
                        const size_t columns = weights->n - n0 < weights->rows ? weights->n - n0 : weights->rows;

                        status = run_piece(runtime, model, &weights->pieces[slice * weights->parts + part], rows,
                                           columns, n0, why);
                }
        }
        return status;
}

static int multiply(void *state, void *matrix, size_t m, const void *a, size_t lda, void *c, size_t ldc,
                    struct nm_error *why)
{
        const struct ax_runtime *runtime = state;
        const struct weights *weights = matrix;
        bool a_is_x = true;
        struct ax_model *model = model_for(runtime, weights, m, &a_is_x);
        const size_t at_once = a_is_x ? model->d1 : model->d2;
        int status = ax_model_load(runtime, model, why);

        if (status == NM_OK)
                status = ensure_operand(runtime, model, a_is_x, why);
        for (size_t i = 0; i < m && status == NM_OK; i++)
                memset((int32_t *)c + i * ldc, 0, weights->n * sizeof(int32_t));
        for (size_t i = 0; i < m && status == NM_OK; i += at_once) {
                const struct rows rows = { m - i < at_once ? m - i : at_once, (const int8_t *)a + i * lda, lda,
                                           (int32_t *)c + i * ldc, ldc, a_is_x };

                status = run_rows(runtime, weights, model, &rows, why);
        }
        return status;
}

static const struct nm_whole_ops ops = { .create = create, .destroy = destroy, .multiply = multiply };

const struct nm_backend nm_axengine = {
        .name = "axengine", .open = axengine_open, .close = axengine_close, .whole = &ops
};
