/* SPDX-License-Identifier: MIT */
#include "matrix.h"

#include <stdlib.h>

#include "layout.h"

static int check(const struct nm_device *device, enum nm_type type, size_t n, size_t k, const void *b, size_t ldb,
                 struct nm_error *why)
{
        if (!device)
                return nm_fail(why, NM_INVALID, "device is NULL");
        if ((unsigned)type > NM_INT8_INT32)
                return nm_fail(why, NM_INVALID, "type is %u: expected NM_FP16_FP32, NM_FP16_FP16 or NM_INT8_INT32",
                               (unsigned)type);
        if (n < 1 || n > NM_MOST_SIZE)
                return nm_fail(why, NM_INVALID, "n is %zu: expected 1 to 16777216", n);
        if (k < 1 || k > NM_MOST_SIZE)
                return nm_fail(why, NM_INVALID, "k is %zu: expected 1 to 16777216", k);
        if (!b)
                return nm_fail(why, NM_INVALID, "b is NULL");
        if (ldb < k)
                return nm_fail(why, NM_INVALID, "ldb is %zu: expected at least k, which is %zu", ldb, k);
        return NM_OK;
}

static void pack(struct nm_matrix *matrix, const void *b, size_t ldb)
{
        const struct nm_plan *plan = &matrix->plan;
        size_t bytes = nm_input_bytes(plan->type);

        for (uint32_t chunk = 0; chunk < plan->k_cut.pieces; chunk++)
                for (uint32_t slice = 0; slice < plan->n_cut.pieces; slice++) {
                        size_t n0 = (size_t)slice * plan->n_cut.size, k0 = (size_t)chunk * plan->k_cut.size;
                        uint32_t n = nm_piece(plan->n_cut, plan->padded_n, slice),
                                 k = nm_piece(plan->k_cut, plan->padded_k, chunk);
                        size_t real_n = plan->n - n0 < n ? plan->n - n0 : n,
                               real_k = plan->k - k0 < k ? plan->k - k0 : k;

                        nm_pack_kernels((char *)matrix->weights.cpu + nm_plan_weight_offset(plan, chunk, slice),
                                        (const char *)b + (n0 * ldb + k0) * bytes, real_n, real_k, ldb, n, k, bytes,
                                        nm_kernel_group(plan->type));
                }
}

static int make_resident(struct nm_matrix *matrix, const void *b, size_t ldb, struct nm_error *why)
{
        struct nm_device *device = matrix->device;
        const struct nm_list_ops *lists = device->backend->lists;
        int status;

        matrix->bytes = nm_plan_weight_bytes(&matrix->plan);
        if (matrix->bytes > UINT32_MAX)
                return nm_fail(why, NM_ADDRESS, "a matrix of %zu bytes does not fit into 32 bits of address",
                               matrix->bytes);
        status = lists->create(device->state, matrix->bytes, NM_USE_WEIGHTS, &matrix->weights, why);
        if (status)
                return status;
        pack(matrix, b, ldb);
        status = lists->to_device(device->state, &matrix->weights, matrix->bytes, why);
        if (status)
                lists->destroy(device->state, &matrix->weights);
        else
                device->counters.bytes_synced += matrix->bytes;
        return status;
}

int nm_matrix_create(struct nm_device *device, enum nm_type type, size_t n, size_t k,
                     const void *b, size_t ldb, struct nm_matrix **matrix, struct nm_error *why)
{
        struct nm_matrix *made;
        int status;

        if (!matrix)
                return nm_fail(why, NM_INVALID, "matrix is NULL");
        *matrix = NULL;
        status = check(device, type, n, k, b, ldb, why);
        if (status)
                return status;
        made = calloc(1, sizeof(*made));
        if (!made)
                return nm_fail(why, NM_NO_MEMORY, "no memory for a matrix");
        made->device = device;
        made->plan = nm_plan_matrix(type, n, k);
        if (device->backend->whole)
                status = device->backend->whole->create(device->state, type, n, k, b, ldb, &made->whole, &made->bytes,
                                                        why);
        else
                status = make_resident(made, b, ldb, why);
        if (status) {
                free(made);
                return status;
        }
        *matrix = made;
        return NM_OK;
}

void nm_matrix_destroy(struct nm_matrix *matrix)
{
        if (!matrix)
                return;
        if (matrix->device->backend->whole)
                matrix->device->backend->whole->destroy(matrix->device->state, matrix->whole);
        else
                matrix->device->backend->lists->destroy(matrix->device->state, &matrix->weights);
        free(matrix);
}

size_t nm_matrix_bytes(const struct nm_matrix *matrix)
{
        return matrix->bytes;
}
