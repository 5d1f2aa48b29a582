/* SPDX-License-Identifier: MIT
 *
 * The axengine back end over the fake run-time: test-axengine FAKE-LIBRARY. Each case is a child process, so that the
 * library is unloaded and reports what was left.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend.h"

#define CHECK(condition)                                                                                               \
        do {                                                                                                           \
                if (!(condition)) {                                                                                    \
                        fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                  \
                        _exit(1);                                                                                      \
                }                                                                                                      \
        } while (0)

static char directory[64], report[96];

static void write_model(unsigned k, unsigned d1, unsigned d2, unsigned cycles)
{
        char path[256];
        FILE *file;

        snprintf(path, sizeof(path), "%s/v1_matmul_npu3_s8_%u_%u_%u_%u.axmodel", directory, k, d1, d2, cycles);
        file = fopen(path, "we");
        CHECK(file);
        fprintf(file, "{\"matmul\": \"s8\", \"k\": %u, \"d1\": %u, \"d2\": %u}", k, d1, d2);
        fclose(file);
}

static int8_t *random_bytes(size_t count, unsigned seed)
{
        int8_t *bytes = malloc(count);

        for (size_t i = 0; i < count; i++) {
                seed = seed * 1664525u + 1013904223u;
                bytes[i] = (int8_t)(seed >> 24);
        }
        return bytes;
}

/* One product, compared element by element; returns the library's status. */
static int product(size_t m, size_t k, size_t n, int fill, struct nm_error *why)
{
        const struct nm_options options = { .node = directory };
        const size_t lda = k + 3, ldb = k + 1, ldc = n + 5;
        int8_t *a = random_bytes(m * lda, 1), *b = random_bytes(n * ldb, 2);
        int32_t *c = malloc(m * ldc * sizeof(*c));
        struct nm_info info = { .backend = NULL };
        void *state, *matrix;
        size_t bytes = 0;
        int status;

        if (fill) {
                memset(a, fill, m * lda);
                memset(b, fill, n * ldb);
        }
        memset(c, 0x55, m * ldc * sizeof(*c));
        status = nm_axengine.open(&options, &state, &info, why);
        if (status == NM_OK) {
                CHECK(!strcmp(info.driver, "libax_engine fake 1.45") && !strcmp(info.evidence, "emulated"));
                status = nm_axengine.whole->create(state, NM_INT8_INT32, n, k, b, ldb, &matrix, &bytes, why);
                if (status == NM_OK) {
                        CHECK(bytes >= n * k);
                        status = nm_axengine.whole->multiply(state, matrix, m, a, lda, c, ldc, why);
                        nm_axengine.whole->destroy(state, matrix);
                }
                nm_axengine.close(state);
        }
        for (size_t i = 0; i < m && status == NM_OK; i++) {
                for (size_t j = 0; j < ldc; j++) {
                        int32_t sum = 0;

                        for (size_t x = 0; x < k; x++)
                                sum += a[i * lda + x] * b[j % n * ldb + x];
                        CHECK(c[i * ldc + j] == (j < n ? sum : 0x55555555));
                }
        }
        free(a);
        free(b);
        free(c);
        return status;
}

static void in_child(const char *faults, size_t m, size_t k, size_t n, int fill, int expected, const char *text)
{
        const pid_t child = fork();
        char line[128] = "";
        int status;
        FILE *file;

        if (child == 0) {
                struct nm_error why = { "" };

                setenv("FAKE_AX_FAULTS", faults, 1);
                status = product(m, k, n, fill, &why);
                if (status != expected || (text && !strstr(why.text, text))) {
                        fprintf(stderr, "%s %zux%zux%zu: status %d, '%s'; expected %d, '%s'\n", faults, m, k, n, status,
                                why.text, expected, text ? text : "");
                        exit(1);
                }
                exit(0);
        }
        waitpid(child, &status, 0);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        file = fopen(report, "re");
        CHECK(file && fgets(line, sizeof(line), file));
        fclose(file);
        if (!strstr(line, "sys 0 engine 0 handles 0 blocks 0 violations 0")) {
                fprintf(stderr, "%s %zux%zux%zu left: %s", faults, m, k, n, line);
                _exit(1);
        }
}

static void remove_directory(void)
{
        DIR *models = opendir(directory);
        const struct dirent *entry;

        while (models && (entry = readdir(models)))
                unlinkat(dirfd(models), entry->d_name, 0);
        if (models)
                closedir(models);
        rmdir(directory);
}

int main(int argc, char **argv)
{
        struct nm_error why;
        struct nm_info info;
        const struct nm_options options = { .node = directory };
        void *state;

        CHECK(argc == 2);
        snprintf(directory, sizeof(directory), "/tmp/test-axengine.XXXXXX");
        CHECK(mkdtemp(directory));
        snprintf(report, sizeof(report), "%s/report", directory);
        setenv("NPU_MATMUL_AX_SYS", argv[1], 1);
        setenv("NPU_MATMUL_AX_ENGINE", argv[1], 1);
        setenv("FAKE_AX_REPORT", report, 1);

        /* No model yet: said before anything is initialised. */
        CHECK(nm_axengine.open(&options, &state, &info, &why) == NM_NO_DEVICE && strstr(why.text, "holds no"));
        write_model(64, 4, 100, 900);           /* A in x */
        write_model(64, 100, 1, 500);           /* A in y: a product comes out transposed */
        write_model(256, 16, 100, 5000);
        write_model(2048, 16, 4000, 1);         /* cheap, and not exact in float32 */

        in_child("", 1, 64, 100, 0, NM_OK, NULL);
        in_child("", 1, 50, 33, 0, NM_OK, NULL);
        in_child("", 3, 64, 250, 0, NM_OK, NULL);
        in_child("", 37, 300, 101, 0, NM_OK, NULL);
        in_child("", 2, 1030, 7, -128, NM_OK, NULL);    /* every product 16384: the sum passes 2^24 */
        in_child("alloc=1", 1, 64, 100, 0, NM_NO_MEMORY, "CMM is short");
        in_child("alloc=2", 1, 64, 250, 0, NM_NO_MEMORY, "CMM is short");
        in_child("alloc=4", 1, 64, 250, 0, NM_NO_MEMORY, "CMM is short");
        in_child("handle", 1, 64, 100, 0, NM_DRIVER, "CreateHandle");
        in_child("context", 1, 64, 100, 0, NM_DRIVER, "0x80060008");
        in_child("shape", 1, 64, 100, 0, NM_UNSUPPORTED, "tensors are others");
        in_child("run", 1, 64, 100, 0, NM_DRIVER, "RunSync");
        in_child("vanish", 1, 64, 100, 0, NM_NOT_RUN, "untouched");
        in_child("scale", 2, 64, 100, 1, NM_UNSUPPORTED, "scaled");
        in_child("init", 1, 64, 100, 0, NM_DRIVER, "AX_SYS_Init");

        setenv("NPU_MATMUL_AX_SYS", "/nonexistent/libax_sys.so", 1);
        CHECK(nm_axengine.open(&options, &state, &info, &why) == NM_NO_DEVICE && strstr(why.text, "NPU_MATMUL_AX_SYS"));
        remove_directory();
        return 0;
}
