/* SPDX-License-Identifier: MIT
 *
 * The whole library over the fake nodes: products of every type against sums computed here, and each kind of fault at
 * every occasion there is, after which nothing may be left and no wrong result may have been called right.
 */
#define _GNU_SOURCE 1
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

static const char *kind = "rocket", *faults = "";

#define CHECK(condition)                                                                                               \
        do {                                                                                                           \
                if (!(condition)) {                                                                                    \
                        fprintf(stderr, "%s, faults '%s': %s:%d: %s does not hold; violation '%s'\n", kind, faults,    \
                                __FILE__, __LINE__, #condition, fake_counts()->first);                                 \
                        exit(1);                                                                                       \
                }                                                                                                      \
        } while (0)

static const char *backend(void)
{
        return strncmp(kind, "rknpu", 5) ? "rocket" : "rknpu";
}

static int draw(unsigned *seed, enum nm_type type)
{
        *seed = *seed * 1664525u + 1013904223u;
        return type == NM_INT8_INT32 ? (int)(*seed >> 24) - 128 : type == NM_FP16_FP32 ? (int)(*seed >> 24) % 10
                                                                                     : (int)(*seed >> 28) % 3;
}

static size_t element(enum nm_type type)
{
        return type == NM_INT8_INT32 ? 1 : 2;
}

struct operands {
        enum nm_type type;
        size_t m, k, n;
        void *a, *b, *c;
        int *wide_a, *wide_b;
};

static void fill(void *data, int *wide, size_t count, enum nm_type type, unsigned seed)
{
        for (size_t i = 0; i < count; i++) {
                const float number = (float)(wide[i] = draw(&seed, type));

                if (type == NM_INT8_INT32)
                        ((int8_t *)data)[i] = (int8_t)wide[i];
                else
                        nm_half_from_float((uint16_t *)data + i, &number, 1);
        }
}

static struct operands make(enum nm_type type, size_t m, size_t k, size_t n)
{
        struct operands o = { type, m, k, n, malloc(m * k * 2), malloc(n * k * 2), malloc(m * n * 4),
                              malloc(m * k * sizeof(int)), malloc(n * k * sizeof(int)) };

        fill(o.a, o.wide_a, m * k, type, 1);
        fill(o.b, o.wide_b, n * k, type, 2);
        memset(o.c, 0x7F, m * n * 4);
        return o;
}

static void drop(struct operands *o)
{
        free(o->a);
        free(o->b);
        free(o->c);
        free(o->wide_a);
        free(o->wide_b);
}

static bool right(const struct operands *o)
{
        for (size_t i = 0; i < o->m; i++) {
                for (size_t j = 0; j < o->n; j++) {
                        const size_t at = i * o->n + j;
                        float found = 0;
                        int sum = 0;

                        for (size_t k = 0; k < o->k; k++)
                                sum += o->wide_a[i * o->k + k] * o->wide_b[j * o->k + k];
                        if (o->type == NM_FP16_FP16)
                                nm_float_from_half(&found, (const uint16_t *)o->c + at, 1);
                        else if (o->type == NM_FP16_FP32)
                                found = ((const float *)o->c)[at];
                        if (o->type == NM_INT8_INT32 ? ((const int32_t *)o->c)[at] != sum : found != (float)sum) {
                                fprintf(stderr, "%zux%zux%zu: C[%zu][%zu] is %g or %d, expected %d\n", o->m, o->k, o->n,
                                        i, j, (double)found, ((const int32_t *)o->c)[at / (3 - element(o->type))], sum);
                                return false;
                        }
                }
        }
        return true;
}

/* Two matrices, each multiplied twice, the second time together. Stops at the first failure. */
static int session(struct operands *one, struct operands *other, struct nm_counters *counters, struct nm_error *why)
{
        const struct nm_options options = { .backend = backend(), .timeout_ms = 500 };
        struct nm_matrix *first = NULL, *second = NULL;
        struct nm_device *device;
        int status = nm_open(&options, &device, why);

        if (status)
                return status;
        status = nm_matrix_create(device, one->type, one->n, one->k, one->b, one->k, &first, why);
        if (status == NM_OK)
                status = nm_matrix_create(device, other->type, other->n, other->k, other->b, other->k, &second, why);
        if (status == NM_OK)
                status = nm_multiply(first, one->m, one->a, one->k, one->c, one->n, why);
        if (status == NM_OK) {
                const struct nm_request both[] = { { first, one->m, one->a, one->k, one->c, one->n },
                                                   { second, other->m, other->a, other->k, other->c, other->n } };

                CHECK(right(one));
                memset(one->c, 0x7F, one->m * one->n * 4);
                status = nm_multiply_all(both, 2, why);
        }
        if (counters)
                nm_counters(device, counters);
        nm_matrix_destroy(first);
        nm_matrix_destroy(second);
        nm_close(device);
        return status;
}

static void nothing_left(void)
{
        CHECK(fake_counts()->files == 0 && fake_counts()->buffers == 0 && fake_counts()->mappings == 0);
        CHECK(fake_counts()->violations == 0);
}

static void products(void)
{
        static const struct {
                enum nm_type type;
                size_t m, k, n;
        } cases[] = {
                { NM_FP16_FP32, 1, 32, 16 },   { NM_FP16_FP32, 4, 36, 16 },   { NM_FP16_FP32, 1, 172, 172 },
                { NM_FP16_FP32, 3, 65, 47 },   { NM_FP16_FP32, 9, 256, 8200 }, { NM_FP16_FP16, 1, 64, 64 },
                { NM_FP16_FP16, 5, 96, 40 },   { NM_INT8_INT32, 1, 64, 64 },  { NM_INT8_INT32, 7, 100, 33 },
                { NM_INT8_INT32, 130, 256, 48 }, { NM_FP16_FP32, 70, 4096, 16 }, { NM_INT8_INT32, 2, 20000, 32 },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                struct operands one = make(cases[i].type, cases[i].m, cases[i].k, cases[i].n);
                struct operands other = make(NM_INT8_INT32, 3, 64, 32);
                struct nm_counters counters;
                struct nm_error why = { "" };
                int status;

                fake_configure(kind, faults);
                status = session(&one, &other, &counters, &why);
                if (status)
                        fprintf(stderr, "%zux%zux%zu: %s: %s\n", one.m, one.k, one.n, nm_status_name(status), why.text);
                CHECK(status == NM_OK && right(&one) && right(&other));
                CHECK(counters.lists >= 3 && counters.submissions <= counters.lists && counters.bytes_synced > 0);
                nothing_left();
                drop(&one);
                drop(&other);
        }
}

/* The fault at its first occasion, its second, and so on until the session gets through without. */
static void at_every_occasion(const char *fault, int expected)
{
        char words[64];

        for (int n = 1; n < 200; n++) {
                struct operands one = make(NM_FP16_FP32, 2, 96, 64), other = make(NM_INT8_INT32, 3, 64, 32);
                struct nm_error why = { "" };
                int status;

                snprintf(words, sizeof(words), "%s=%d", fault, n);
                faults = words;
                fake_configure(kind, faults);
                status = session(&one, &other, NULL, &why);
                if (status == NM_OK)
                        CHECK(right(&one) && right(&other));
                else if (status != expected)
                        fprintf(stderr, "%s: %s, expected %s\n", nm_status_name(status), why.text,
                                nm_status_name(expected));
                CHECK(status == NM_OK || (status == expected && why.text[0]));
                nothing_left();
                drop(&one);
                drop(&other);
                if (status == NM_OK) {
                        CHECK(n > 1);
                        return;
                }
        }
        CHECK(!"the fault never ceases");
}

int main(void)
{
        static const char *const kinds[] = { "rocket", "rknpu-0.9.8", "rknpu-0.9.2", "rknpu-misc" };

        for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
                const bool rocket = i == 0;

                kind = kinds[i];
                faults = "";
                products();
                faults = "eintr";
                products();
                at_every_occasion("alloc", NM_NO_MEMORY);
                at_every_occasion("high", NM_ADDRESS);
                at_every_occasion("sync", NM_DRIVER);
                at_every_occasion("timeout", NM_TIMEOUT);
                at_every_occasion("vanish", NM_NOT_RUN);
                at_every_occasion("hang", rocket ? NM_NOT_RUN : NM_TIMEOUT);
                if (strcmp(kind, "rknpu-misc"))
                        at_every_occasion("map", NM_NO_MEMORY);
        }
        setenv("NPU_MATMUL_RKNPU_CHAIN", "1", 1);
        kind = "rknpu-0.9.8";
        faults = "";
        products();
        return 0;
}
