/* SPDX-License-Identifier: MIT
 *
 * Whole products through the public interface, on the back end named by the first argument, against sums taken element
 * by element. Operands are small integers, so that every sum is exact in fp32 and a result is right or wrong.
 */
#include <string.h>

#include "expect.h"
#include "half.h"
#include "npu-matmul.h"

struct operands {
        enum nm_type type;
        size_t m, n, k, lda, ldb, ldc;
        void *a, *b, *c;
};

static size_t in_bytes(enum nm_type type)
{
        return type == NM_INT8_INT32 ? 1 : 2;
}

static size_t out_bytes(enum nm_type type)
{
        return type == NM_FP16_FP16 ? 2 : 4;
}

static int value(enum nm_type type, const void *data, size_t index)
{
        return type == NM_INT8_INT32 ? ((const int8_t *)data)[index]
                                     : (int)float_from_half(((const uint16_t *)data)[index]);
}

static void *random_operand(enum nm_type type, size_t count, uint64_t *seed)
{
        void *data = malloc(count * in_bytes(type));
        unsigned spread = type == NM_FP16_FP16 ? 3 : 15;

        for (size_t i = 0; i < count; i++)
                if (type == NM_INT8_INT32)
                        ((int8_t *)data)[i] = (int8_t)expect_random(seed);
                else
                        ((uint16_t *)data)[i] =
                                half_from_float((float)(int)(expect_random(seed) % spread) - (float)(spread / 2));
        return data;
}

static struct operands make(enum nm_type type, size_t m, size_t n, size_t k, uint64_t *seed)
{
        struct operands o = {
                type, m, n, k, k + expect_random(seed) % 5, k + expect_random(seed) % 5, n + expect_random(seed) % 5,
                0,    0, 0};

        o.a = random_operand(type, m * o.lda, seed);
        o.b = random_operand(type, n * o.ldb, seed);
        o.c = malloc(m * o.ldc * out_bytes(type));
        memset(o.c, 0x5A, m * o.ldc * out_bytes(type));
        return o;
}

static void drop(struct operands *o)
{
        free(o->a);
        free(o->b);
        free(o->c);
}

static int64_t sum(const struct operands *o, size_t y, size_t x)
{
        int64_t total = 0;

        for (size_t i = 0; i < o->k; i++)
                total += (int64_t)value(o->type, o->a, y * o->lda + i) * value(o->type, o->b, x * o->ldb + i);
        return total;
}

static size_t wrong(const struct operands *o)
{
        size_t bad = 0;

        for (size_t y = 0; y < o->m; y++)
                for (size_t x = 0; x < o->ldc; x++) {
                        size_t at = y * o->ldc + x;
                        int64_t right = x < o->n ? sum(o, y, x) : 0;

                        if (x >= o->n && out_bytes(o->type) == 2)
                                bad += ((uint16_t *)o->c)[at] != 0x5A5A;
                        else if (x >= o->n)
                                bad += ((uint32_t *)o->c)[at] != 0x5A5A5A5A;
                        else if (o->type == NM_INT8_INT32)
                                bad += ((int32_t *)o->c)[at] != right;
                        else if (o->type == NM_FP16_FP32)
                                bad += ((float *)o->c)[at] != (float)right;
                        else
                                bad += ((uint16_t *)o->c)[at] != half_from_float((float)right);
                }
        return bad;
}

static void one(struct nm_device *device, enum nm_type type, size_t m, size_t n, size_t k, uint64_t *seed)
{
        struct operands o = make(type, m, n, k, seed);
        struct nm_matrix *matrix = NULL;
        struct nm_error why = {""};
        int status = nm_matrix_create(device, type, n, k, o.b, o.ldb, &matrix, &why);

        if (!status)
                status = nm_multiply(matrix, m, o.a, o.lda, o.c, o.ldc, &why);
        EXPECT(status == NM_OK, "type %d %zux%zux%zu: %s: %s", type, m, k, n, nm_status_name(status), why.text);
        EXPECT(status || !wrong(&o), "type %d %zux%zux%zu: %zu elements", type, m, k, n, wrong(&o));
        nm_matrix_destroy(matrix);
        drop(&o);
}

static void shapes(struct nm_device *device, bool large, uint64_t *seed)
{
        static const size_t given[][3] = {
                /* m, n, k */
                {1, 1, 1},     {1, 16, 32},    {4, 16, 36},   {1, 64, 64},   {3, 33, 65},     {384, 40, 96},
                {1, 8209, 40}, {5, 17, 16390}, {2, 3, 50000}, {1030, 7, 33}, {100, 12, 4096},
        };

        for (int type = 0; type < 3; type++) {
                for (size_t i = 0; i < (large ? sizeof(given) / sizeof(given[0]) : 5); i++)
                        one(device, (enum nm_type)type, given[i][0], given[i][1], given[i][2], seed);
                for (size_t m = 1; m <= 9; m++)
                        one(device, (enum nm_type)type, m, expect_between(seed, 1, 130), expect_between(seed, 1, 300),
                            seed);
        }
}

static void several_at_once(struct nm_device *device, uint64_t *seed)
{
        enum { COUNT = 7 };
        struct operands o[COUNT];
        struct nm_request requests[COUNT];
        struct nm_matrix *matrix[COUNT];
        struct nm_error why = {""};
        int status = NM_OK;

        for (size_t i = 0; i < COUNT; i++) {
                o[i] = make((enum nm_type)(i % 3), 1 + i % 5, 20 + i, 70, seed);
                status |= nm_matrix_create(device, o[i].type, o[i].n, o[i].k, o[i].b, o[i].ldb, &matrix[i], &why);
                requests[i] = (struct nm_request){matrix[i], o[i].m, o[i].a, o[i].lda, o[i].c, o[i].ldc};
        }
        requests[3].matrix = matrix[0];         /* one matrix twice */
        free(o[3].b);
        o[3].b = malloc(o[0].n * o[0].ldb * 2);
        memcpy(o[3].b, o[0].b, o[0].n * o[0].ldb * 2);
        o[3].n = o[0].n;
        o[3].ldb = o[0].ldb;
        status |= nm_multiply_all(requests, COUNT, &why);
        EXPECT(status == NM_OK, "%s", why.text);
        for (size_t i = 0; i < COUNT; i++) {
                EXPECT(!wrong(&o[i]), "request %zu: %zu elements", i, wrong(&o[i]));
                nm_matrix_destroy(matrix[i]);
                drop(&o[i]);
        }
}

/* 140000 products of -128 by -128 are beyond int32: the result is its largest number. */
static void saturates(struct nm_device *device)
{
        enum { K = 140000 };
        int8_t *a = malloc(K), *b = malloc(2 * K);
        int32_t c[2] = {0};
        struct nm_matrix *matrix = NULL;
        struct nm_error why = {""};

        memset(a, -128, K);
        memset(b, -128, K);
        memset(b + K, 127, K);
        EXPECT(!nm_matrix_create(device, NM_INT8_INT32, 2, K, b, K, &matrix, &why), "%s", why.text);
        EXPECT(!nm_multiply(matrix, 1, a, K, c, 2, &why), "%s", why.text);
        EXPECT(c[0] == INT32_MAX && c[1] == INT32_MIN, "%d %d", c[0], c[1]);
        nm_matrix_destroy(matrix);
        free(a);
        free(b);
}

int main(int argc, char **argv)
{
        static const struct nm_switches settings[] = {
                {0},
                {.rows = NM_ROWS_PADDED},
                {.rdma = NM_RDMA_ON},
                {.int8_banks = NM_BANKS_EXACT, .int8_qd = true, .grains = 40},
        };
        uint64_t seed = 20261202;
        bool lists = argc > 1 && strcmp(argv[1], "cpu");

        for (size_t i = 0; i < (lists ? 4 : 1); i++) {
                struct nm_options options = {
                        .backend = argc > 1 ? argv[1] : NULL, .threads = 2, .switches = settings[i]};
                struct nm_device *device;
                struct nm_error why = {""};
                int status = nm_open(&options, &device, &why);

                if (status) {
                        printf("cannot open: %s\n", why.text);
                        return EXIT_FAILURE;
                }
                shapes(device, i == 0, &seed);
                several_at_once(device, &seed);
                if (i == 0)
                        saturates(device);
                nm_close(device);
        }
        return expect_done();
}
