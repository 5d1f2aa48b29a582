/* SPDX-License-Identifier: MIT
 *
 * What is refused, by which status and with which words; and what is left afterwards.
 */
#include "expect.h"
#include "npu-matmul.h"

#include <string.h>

static struct nm_error why;

#define REFUSED(call, wanted, words) \
        do { \
                int status_ = (call); \
                EXPECT(status_ == (wanted) && strstr(why.text, words), "%s: '%s'", nm_status_name(status_), why.text); \
                why.text[0] = 0; \
        } while (0)

static void opening(void)
{
        struct nm_device *device = (void *)1;
        struct nm_options options = {.backend = "gpu"};

        REFUSED(nm_open(&options, &device, &why), NM_INVALID, "no back end is called 'gpu'");
        EXPECT(!device, "device is set");
        REFUSED(nm_open(&options, NULL, &why), NM_INVALID, "device is NULL");
        EXPECT(nm_open(&options, &device, NULL) == NM_INVALID, "without an error");
        options = (struct nm_options){.backend = "model", .switches.grains = 1024};
        REFUSED(nm_open(&options, &device, &why), NM_INVALID, "grains is 1024");
        options = (struct nm_options){.backend = "cpu", .threads = 100000};
        REFUSED(nm_open(&options, &device, &why), NM_INVALID, "threads is 100000");
        options = (struct nm_options){.backend = "rocket", .node = "/dev/null"};
        REFUSED(nm_open(&options, &device, &why), NM_NO_DEVICE, "/dev/null");
        options = (struct nm_options){.backend = "rknpu", .node = "/nonexistent"};
        REFUSED(nm_open(&options, &device, &why), NM_NO_DEVICE, "/nonexistent");
        setenv("NPU_MATMUL_BACKEND", "model", 1);
        EXPECT(!nm_open(NULL, &device, &why) && !strcmp(nm_info(device)->backend, "model"), "%s", why.text);
        nm_close(device);
        setenv("NPU_MATMUL_BACKEND", "abacus", 1);
        REFUSED(nm_open(NULL, &device, &why), NM_INVALID, "'abacus'");
        unsetenv("NPU_MATMUL_BACKEND");
        EXPECT(!nm_open(NULL, &device, &why) && strcmp(nm_info(device)->backend, "model"), "the model unasked");
        nm_close(device);
        nm_close(NULL);
}

static void arguments(const char *backend)
{
        struct nm_options options = {.backend = backend};
        struct nm_device *device, *other;
        struct nm_matrix *matrix = (void *)1, *second;
        static uint16_t a[64], b[64 * 64];
        static float c[64];

        EXPECT(!nm_open(&options, &device, &why) && !nm_open(&options, &other, &why), "%s", why.text);
        REFUSED(nm_matrix_create(device, NM_FP16_FP32, 0, 64, b, 64, &matrix, &why), NM_INVALID, "n is 0");
        EXPECT(!matrix, "matrix is set");
        REFUSED(nm_matrix_create(device, NM_FP16_FP32, 64, 16777217, b, 64, &matrix, &why), NM_INVALID,
                "k is 16777217");
        REFUSED(nm_matrix_create(device, NM_FP16_FP32, 64, 64, b, 63, &matrix, &why), NM_INVALID, "ldb is 63");
        REFUSED(nm_matrix_create(device, NM_FP16_FP32, 64, 64, NULL, 64, &matrix, &why), NM_INVALID, "b is NULL");
        REFUSED(nm_matrix_create(device, (enum nm_type)7, 64, 64, b, 64, &matrix, &why), NM_INVALID, "type is 7");
        REFUSED(nm_matrix_create(NULL, NM_FP16_FP32, 64, 64, b, 64, &matrix, &why), NM_INVALID, "device is NULL");
        EXPECT(!nm_matrix_create(device, NM_FP16_FP32, 64, 64, b, 64, &matrix, &why), "%s", why.text);
        EXPECT(!nm_matrix_create(other, NM_FP16_FP32, 64, 64, b, 64, &second, &why), "%s", why.text);
        EXPECT(nm_matrix_bytes(matrix) == 64 * 64 * 2, "%zu bytes", nm_matrix_bytes(matrix));
        REFUSED(nm_multiply(matrix, 0, a, 64, c, 64, &why), NM_INVALID, "m is 0");
        REFUSED(nm_multiply(matrix, 1, a, 63, c, 64, &why), NM_INVALID, "lda is 63");
        REFUSED(nm_multiply(matrix, 1, a, 64, c, 63, &why), NM_INVALID, "ldc is 63");
        REFUSED(nm_multiply(matrix, 1, NULL, 64, c, 64, &why), NM_INVALID, "a is NULL");
        REFUSED(nm_multiply(matrix, 1, a, 64, NULL, 64, &why), NM_INVALID, "c is NULL");
        REFUSED(nm_multiply(NULL, 1, a, 64, c, 64, &why), NM_INVALID, "matrix is NULL");
        REFUSED(nm_multiply_all((struct nm_request[]){{matrix, 1, a, 64, c, 64}, {second, 1, a, 64, c, 64}}, 2, &why),
                NM_INVALID, "another device");
        EXPECT(!nm_multiply_all(NULL, 0, &why), "none is not an error");
        EXPECT(!nm_multiply(matrix, 1, a, 64, c, 64, &why), "still usable: %s", why.text);
        nm_matrix_destroy(matrix);
        nm_matrix_destroy(second);
        nm_matrix_destroy(NULL);
        nm_close(device);
        nm_close(other);
}

/* A board whose RDMA hangs when its MRDMA is left on: the model does, and says so. */
static void a_hang_is_a_timeout(void)
{
        struct nm_options options = {.backend = "model", .switches = {.rdma = NM_RDMA_ON, .mrdma = NM_MRDMA_ZERO}};
        struct nm_device *device;
        struct nm_matrix *matrix;
        static uint16_t a[32], b[32 * 16];
        static float c[16];

        EXPECT(!nm_open(&options, &device, &why), "%s", why.text);
        EXPECT(!nm_matrix_create(device, NM_FP16_FP32, 16, 32, b, 32, &matrix, &why), "%s", why.text);
        REFUSED(nm_multiply(matrix, 1, a, 32, c, 16, &why), NM_TIMEOUT, "MRDMA");
        nm_matrix_destroy(matrix);
        nm_close(device);
}

static void counts(void)
{
        struct nm_options options = {.backend = "model", .switches.rows = NM_ROWS_PADDED};
        struct nm_device *device;
        struct nm_matrix *matrix[2];
        struct nm_counters n;
        static uint16_t a[64], b[64 * 64];
        static float c[2][64];

        EXPECT(!nm_open(&options, &device, &why), "%s", why.text);
        for (int i = 0; i < 2; i++)
                EXPECT(!nm_matrix_create(device, NM_FP16_FP32, 64, 64, b, 64, &matrix[i], &why), "%s", why.text);
        EXPECT(!nm_multiply_all((struct nm_request[]){{matrix[0], 1, a, 64, c[0], 64}, {matrix[1], 1, a, 64, c[1], 64}},
                                2, &why),
               "%s", why.text);
        nm_counters(device, &n);
        EXPECT(n.submissions == 1 && n.lists == 2, "%llu submissions, %llu lists", (unsigned long long)n.submissions,
               (unsigned long long)n.lists);
        EXPECT(n.padded_rows == 3, "%llu rows of padding: the input of both is one", (unsigned long long)n.padded_rows);
        for (int i = 0; i < 2; i++)
                nm_matrix_destroy(matrix[i]);
        nm_close(device);
}

int main(void)
{
        opening();
        arguments("cpu");
        arguments("model");
        a_hang_is_a_timeout();
        counts();
        return expect_done();
}
