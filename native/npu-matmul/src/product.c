/* SPDX-License-Identifier: MIT
 *
 * Products: cut into lists, gathered into jobs. Sums over chunks of K are taken here: fp16 operands in binary32, int8
 * in 64 bits, at the end saturated to int32.
 */
#include <stdlib.h>

#include "batch.h"
#include "half.h"

static int check(const struct nm_request *r, struct nm_error *why)
{
        if (!r->matrix)
                return nm_fail(why, NM_INVALID, "matrix is NULL");
        if (r->m < 1 || r->m > NM_MOST_SIZE)
                return nm_fail(why, NM_INVALID, "m is %zu: expected 1 to 16777216", r->m);
        if (!r->a || !r->c)
                return nm_fail(why, NM_INVALID, "%s is NULL", r->a ? "c" : "a");
        if (r->lda < r->matrix->plan.k)
                return nm_fail(why, NM_INVALID, "lda is %zu: expected at least k, which is %zu", r->lda,
                               r->matrix->plan.k);
        if (r->ldc < r->matrix->plan.n)
                return nm_fail(why, NM_INVALID, "ldc is %zu: expected at least n, which is %zu", r->ldc,
                               r->matrix->plan.n);
        return NM_OK;
}

/* Where sums over chunks are kept when C's own type cannot hold them: float or int64_t, (M, N). */
static int make_sums(const struct nm_request *r, void **sums, struct nm_error *why)
{
        const struct nm_plan *plan = &r->matrix->plan;
        size_t bytes = plan->type == NM_INT8_INT32 ? sizeof(int64_t) : sizeof(float);

        *sums = NULL;
        if (plan->k_cut.pieces == 1 || plan->type == NM_FP16_FP32)
                return NM_OK;
        *sums = r->m <= SIZE_MAX / bytes / plan->n ? malloc(r->m * plan->n * bytes) : NULL;
        return *sums ? NM_OK : nm_fail(why, NM_NO_MEMORY, "no memory for the sums of %zu x %zu", r->m, plan->n);
}

static void deliver_sums(const struct nm_request *r, const void *sums)
{
        const struct nm_plan *plan = &r->matrix->plan;

        for (size_t y = 0; sums && y < r->m; y++) {
                if (plan->type == NM_FP16_FP16) {
                        halves_from_floats((uint16_t *)r->c + y * r->ldc, (const float *)sums + y * plan->n, plan->n);
                        continue;
                }
                for (size_t x = 0; x < plan->n; x++) {
                        int64_t sum = ((const int64_t *)sums)[y * plan->n + x];

                        ((int32_t *)r->c)[y * r->ldc + x] = (int32_t)(sum > INT32_MAX   ? INT32_MAX
                                                                      : sum < INT32_MIN ? INT32_MIN
                                                                                        : sum);
                }
        }
}

static int add(struct nm_batch *batch, const struct nm_piece *piece, const struct nm_input *input, struct nm_error *why)
{
        int status = nm_batch_takes(batch, piece, input) ? NM_OK : nm_batch_run(batch, why);

        if (!status)
                nm_batch_add(batch, piece, input);
        return status;
}

/* The lists of `rows` rows from `row` on, over one chunk of K. */
static int add_chunk(struct nm_batch *batch, const struct nm_request *r, void *sums, size_t row, uint32_t rows,
                     uint32_t chunk, struct nm_error *why)
{
        const struct nm_plan *plan = &r->matrix->plan;
        size_t k0 = (size_t)chunk * plan->k_cut.size, bytes = nm_input_bytes(plan->type);
        size_t out = !sums                         ? nm_output_bytes(plan->type)
                     : plan->type == NM_INT8_INT32 ? sizeof(int64_t)
                                                   : sizeof(float);
        uint32_t k = nm_piece(plan->k_cut, plan->padded_k, chunk);
        struct nm_input input = {
                .from = (const char *)r->a + (row * r->lda + k0) * bytes, .ld = r->lda, .rows = rows,
                .list_rows = nm_plan_list_rows(rows, &batch->device->options.switches),
                .columns = (uint32_t)(plan->k - k0 < k ? plan->k - k0 : k), .list_columns = k, .bytes = (uint32_t)bytes,
        };
        int status = NM_OK;

        for (uint32_t slice = 0; slice < plan->n_cut.pieces && !status; slice++) {
                size_t n0 = (size_t)slice * plan->n_cut.size, ld = sums ? plan->n : r->ldc;
                uint32_t n = nm_piece(plan->n_cut, plan->padded_n, slice);
                struct nm_piece piece = {
                        .matrix = r->matrix, .shape = {plan->list_type, input.list_rows, k, n},
                        .weights = nm_plan_weight_offset(plan, chunk, slice), .rows = rows,
                        .columns = (uint32_t)(plan->n - n0 < n ? plan->n - n0 : n),
                        .to = (char *)(sums ? sums : r->c) + (row * ld + n0) * out, .to_ld = ld,
                        .add = chunk > 0, .accumulator = sums != NULL,
                };

                status = add(batch, &piece, &input, why);
        }
        return status;
}

static int add_request(struct nm_batch *batch, const struct nm_request *r, void *sums, struct nm_error *why)
{
        const struct nm_plan *plan = &r->matrix->plan;
        struct nm_cut cut = nm_plan_rows(plan, r->m, &batch->device->options.switches);
        int status = NM_OK;

        for (uint32_t tile = 0; tile < cut.pieces; tile++)
                for (uint32_t chunk = 0; chunk < plan->k_cut.pieces && !status; chunk++)
                        status = add_chunk(batch, r, sums, (size_t)tile * cut.size, nm_piece(cut, (uint32_t)r->m, tile),
                                           chunk, why);
        return status;
}

static int run_lists(struct nm_device *device, const struct nm_request *requests, size_t count, struct nm_error *why)
{
        struct nm_batch *batch = calloc(1, sizeof(*batch));
        void **sums = calloc(count, sizeof(*sums));
        int status = batch && sums ? NM_OK : nm_fail(why, NM_NO_MEMORY, "no memory for %zu products", count);

        if (!status)
                batch->device = device;
        for (size_t i = 0; i < count && !status; i++) {
                status = make_sums(&requests[i], &sums[i], why);
                status = status ? status : add_request(batch, &requests[i], sums[i], why);
        }
        if (!status)
                status = nm_batch_run(batch, why);
        for (size_t i = 0; sums && i < count; i++) {
                if (!status)
                        deliver_sums(&requests[i], sums[i]);
                free(sums[i]);
        }
        free(sums);
        free(batch);
        return status;
}

static int run_whole(struct nm_device *device, const struct nm_request *requests, size_t count, struct nm_error *why)
{
        int status = NM_OK;

        for (size_t i = 0; i < count && !status; i++) {
                const struct nm_request *r = &requests[i];

                status = device->backend->whole->multiply(device->state, r->matrix->whole, r->m, r->a, r->lda, r->c,
                                                          r->ldc, why);
                device->counters.submissions++;
        }
        return status;
}

int nm_multiply_all(const struct nm_request *requests, size_t count, struct nm_error *why)
{
        struct nm_device *device;

        if (!count)
                return NM_OK;
        if (!requests)
                return nm_fail(why, NM_INVALID, "requests is NULL");
        for (size_t i = 0; i < count; i++) {
                int status = check(&requests[i], why);

                if (status)
                        return status;
                if (requests[i].matrix->device != requests[0].matrix->device)
                        return nm_fail(why, NM_INVALID, "request %zu is for another device than the first", i);
        }
        device = requests[0].matrix->device;
        return device->backend->whole ? run_whole(device, requests, count, why)
                                      : run_lists(device, requests, count, why);
}

int nm_multiply(struct nm_matrix *matrix, size_t m, const void *a, size_t lda, void *c, size_t ldc,
                struct nm_error *why)
{
        struct nm_request request = {matrix, m, a, lda, c, ldc};

        return nm_multiply_all(&request, 1, why);
}
