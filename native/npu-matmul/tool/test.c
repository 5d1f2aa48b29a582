/* SPDX-License-Identifier: MIT
 *
 * Products of known shapes. Operands are small integers, so that every result is one exact number; a result is right
 * when C·r = A·(Bᵀ·r) modulo 2^64 for 64-bit random r (Freivalds 1977: a wrong row passes once in 2^32 or less often),
 * which takes no multiplication of matrices. Of a wrong row the first wrong element is looked up. Fractions are
 * compared with binary64.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "stop.h"
#include "tool.h"

struct test_case {
        const char *set;
        enum nm_type type;
        struct tool_shape shape;
        bool fractions;
};

static const struct test_case cases[] = {
        /* The shapes that public programs for this NPU are tested with. */
        {"reference", NM_FP16_FP32, {4, 36, 16}, false}, {"reference", NM_FP16_FP32, {1, 32, 16}, false},
        {"reference", NM_FP16_FP32, {4, 32, 16}, false}, {"reference", NM_FP16_FP32, {1, 64, 64}, false},
        {"reference", NM_FP16_FP32, {1, 1024, 1024}, false}, {"reference", NM_FP16_FP32, {1, 4096, 4096}, false},
        {"reference", NM_FP16_FP32, {384, 384, 4096}, false},
        {"reference", NM_INT8_INT32, {1, 32, 32}, false}, {"reference", NM_INT8_INT32, {1, 64, 64}, false},
        {"reference", NM_INT8_INT32, {1, 1024, 1024}, false}, {"reference", NM_INT8_INT32, {1, 4096, 4096}, false},
        {"reference", NM_INT8_INT32, {544, 544, 4096}, false},
        {"reference", NM_FP16_FP16, {1, 32, 16}, false}, {"reference", NM_FP16_FP16, {1, 768, 768}, false},
        {"reference", NM_FP16_FP16, {1, 768, 2048}, false}, {"reference", NM_FP16_FP16, {1, 8192, 8192}, false},
        /* Rows of every remainder, several groups of N and K, ragged sizes, slices of N, chunks of K. */
        {"stronger", NM_FP16_FP32, {1, 96, 80}, false}, {"stronger", NM_FP16_FP32, {2, 96, 80}, false},
        {"stronger", NM_FP16_FP32, {3, 96, 80}, false}, {"stronger", NM_FP16_FP32, {5, 96, 80}, false},
        {"stronger", NM_FP16_FP32, {8, 96, 80}, false}, {"stronger", NM_FP16_FP32, {12, 96, 80}, false},
        {"stronger", NM_FP16_FP32, {33, 100, 101}, false}, {"stronger", NM_FP16_FP32, {1, 768, 8000}, false},
        {"stronger", NM_FP16_FP32, {1, 288, 32000}, false}, {"stronger", NM_FP16_FP32, {2, 20000, 64}, false},
        {"stronger", NM_FP16_FP16, {4, 96, 80}, false}, {"stronger", NM_FP16_FP16, {7, 300, 50}, false},
        {"stronger", NM_FP16_FP16, {2, 20000, 64}, false},
        {"stronger", NM_INT8_INT32, {3, 96, 96}, false}, {"stronger", NM_INT8_INT32, {12, 100, 50}, false},
        {"stronger", NM_INT8_INT32, {64, 512, 64}, false}, {"stronger", NM_INT8_INT32, {2, 40000, 64}, false},
        {"fractions", NM_FP16_FP32, {1, 768, 768}, true}, {"fractions", NM_FP16_FP32, {8, 768, 256}, true},
        {"fractions", NM_FP16_FP16, {4, 768, 256}, true},
};

struct operands {
        void *a, *b, *c;
        int64_t *r, *br;
};

static void fill(const struct test_case *t, void *to, size_t count, uint64_t *seed)
{
        uint16_t table[10];
        float values[10];
        unsigned different = t->type == NM_FP16_FP16 ? 3 : 10;

        for (unsigned i = 0; i < different; i++)        /* 0 to 9; -1 to 1, whose sums fp16 can hold */
                values[i] = (float)i - (t->type == NM_FP16_FP16 ? 1 : 0);
        nm_half_from_float(table, values, different);
        for (size_t i = 0; i < count; i++) {
                uint64_t random = tool_random(seed) >> 32;
                float fraction = (float)(random & 0xFFFF) / 32768.0f - 1;

                if (t->type == NM_INT8_INT32)
                        ((int8_t *)to)[i] = (int8_t)random;
                else if (t->fractions)
                        nm_half_from_float((uint16_t *)to + i, &fraction, 1);
                else
                        ((uint16_t *)to)[i] = table[random % different];
        }
}

static double element(enum nm_type type, const void *data, size_t index)
{
        float value;

        if (type == NM_INT8_INT32)
                return ((const int8_t *)data)[index];
        nm_float_from_half(&value, (const uint16_t *)data + index, 1);
        return value;
}

static double result(enum nm_type type, const void *c, size_t index)
{
        float value;

        if (type == NM_INT8_INT32)
                return ((const int32_t *)c)[index];
        if (type == NM_FP16_FP32)
                return ((const float *)c)[index];
        nm_float_from_half(&value, (const uint16_t *)c + index, 1);
        return value;
}

/* The sum of products, and of their magnitudes. */
static double sum(const struct test_case *t, const struct operands *o, size_t y, size_t x, double *magnitude)
{
        double total = 0;

        *magnitude = 0;
        for (size_t i = 0; i < t->shape.k; i++) {
                double product =
                        element(t->type, o->a, y * t->shape.k + i) * element(t->type, o->b, x * t->shape.k + i);

                total += product;
                *magnitude += fabs(product);
        }
        return total;
}

static void say(char *text, size_t size, const struct test_case *t, const struct operands *o, size_t y, size_t x)
{
        double magnitude, expected = sum(t, o, y, x, &magnitude);

        snprintf(text, size, "row %zu column %zu is %.9g, expected %.9g", y, x,
                 result(t->type, o->c, y * t->shape.n + x), expected);
}

static bool row_right(const struct test_case *t, const struct operands *o, size_t y)
{
        uint64_t left = 0, right = 0;

        for (size_t x = 0; x < t->shape.n; x++) {
                double value = result(t->type, o->c, y * t->shape.n + x);

                if (!(fabs(value) < 0x1p53) || value != floor(value))
                        return false;
                left += (uint64_t)(int64_t)value * (uint64_t)o->r[x];
        }
        for (size_t i = 0; i < t->shape.k; i++)
                right += (uint64_t)(int64_t)element(t->type, o->a, y * t->shape.k + i) * (uint64_t)o->br[i];
        return left == right;
}

static bool integers_right(const struct test_case *t, const struct operands *o, uint64_t *seed, char *text, size_t size)
{
        double magnitude;

        memset(o->br, 0, t->shape.k * sizeof(*o->br));
        for (size_t x = 0; x < t->shape.n; x++) {
                o->r[x] = (int64_t)tool_random(seed);
                for (size_t i = 0; i < t->shape.k; i++)
                        o->br[i] = (int64_t)((uint64_t)o->br[i] +
                                             (uint64_t)(int64_t)element(t->type, o->b, x * t->shape.k + i) *
                                                     (uint64_t)o->r[x]);
        }
        for (size_t y = 0; y < t->shape.m; y++) {
                if (row_right(t, o, y))
                        continue;
                for (size_t x = 0; x < t->shape.n; x++)
                        if (sum(t, o, y, x, &magnitude) != result(t->type, o->c, y * t->shape.n + x)) {
                                say(text, size, t, o, y, x);
                                return false;
                        }
        }
        return true;
}

/* What binary32 sums in any order may differ: K roundings of 2^-24 each; fp16 output rounds once more, by 2^-11. */
static bool fractions_right(const struct test_case *t, const struct operands *o, char *text, size_t size)
{
        double worst = 0;

        for (size_t y = 0; y < t->shape.m; y++)
                for (size_t x = 0; x < t->shape.n; x++) {
                        double magnitude, expected = sum(t, o, y, x, &magnitude);
                        double error = fabs(result(t->type, o->c, y * t->shape.n + x) - expected);
                        double limit = magnitude * (double)t->shape.k * 0x1p-24;

                        if (t->type == NM_FP16_FP16)
                                limit += fabs(expected) * 0x1p-11 + 0x1p-25;
                        if (!(error <= limit)) {
                                say(text, size, t, o, y, x);
                                return false;
                        }
                        worst = error > worst * magnitude ? error / magnitude : worst;
                }
        snprintf(text, size, "error %.1e of magnitudes", worst);
        return true;
}

static int multiply(const struct test_case *t, struct nm_device *device, const struct operands *o, struct nm_error *why)
{
        const struct tool_shape *s = &t->shape;
        struct nm_matrix *matrix;
        int status = nm_matrix_create(device, t->type, s->n, s->k, o->b, s->k, &matrix, why);

        if (status)
                return status;
        memset(o->c, 0xAA, s->m * s->n * tool_out_bytes(t->type));
        status = nm_multiply(matrix, s->m, o->a, s->k, o->c, s->n, why);
        nm_matrix_destroy(matrix);
        return status;
}

static int run(const struct test_case *t, struct nm_device *device, uint64_t seed, bool *right, char *text, size_t size,
               struct nm_error *why)
{
        const struct tool_shape *s = &t->shape;
        struct operands o = {
                malloc(s->m * s->k * tool_in_bytes(t->type)),
                malloc(s->n * s->k * tool_in_bytes(t->type)),
                malloc(s->m * s->n * tool_out_bytes(t->type)),
                malloc(s->n * sizeof(int64_t)),
                malloc(s->k * sizeof(int64_t)),
        };
        int status = NM_NO_MEMORY;

        snprintf(why->text, sizeof(why->text), "no memory for operands of %zux%zux%zu", s->m, s->k, s->n);
        seed = (seed + s->m * 1000003 + s->k * 10007 + s->n) * UINT64_C(0x9E3779B97F4A7C15) | 1;
        if (o.a && o.b && o.c && o.r && o.br) {
                fill(t, o.a, s->m * s->k, &seed);
                fill(t, o.b, s->n * s->k, &seed);
                status = multiply(t, device, &o, why);
        }
        *text = 0;
        if (!status)
                *right = t->fractions ? fractions_right(t, &o, text, size) : integers_right(t, &o, &seed, text, size);
        free(o.a);
        free(o.b);
        free(o.c);
        free(o.r);
        free(o.br);
        return status;
}

static void report(const struct tool *tool, struct json *json, const struct test_case *t, bool right, const char *text)
{
        char shape[40];

        snprintf(shape, sizeof(shape), "%zux%zux%zu", t->shape.m, t->shape.k, t->shape.n);
        if (!tool->json) {
                printf("%-9s  %-11s  %-14s  %s%s%s\n", t->set, tool_type_name(t->type), shape,
                       right ? "right" : "WRONG", *text ? (t->fractions && right ? ", " : "\n           ") : "", text);
                fflush(stdout);
                return;
        }
        json_object(json, NULL);
        json_string(json, "set", t->set);
        json_string(json, "type", tool_type_name(t->type));
        json_unsigned(json, "m", t->shape.m);
        json_unsigned(json, "k", t->shape.k);
        json_unsigned(json, "n", t->shape.n);
        json_bool(json, "right", right);
        json_string(json, "text", *text ? text : NULL);
        json_end(json);
}

static int run_all(const struct tool *tool, struct nm_device *device, struct json *json, size_t *good, size_t *all)
{
        struct test_case given = {"given", tool->type, tool->shape, false};
        size_t count = tool->shape.m ? 1 : sizeof(cases) / sizeof(cases[0]);
        struct nm_error refused = {""};

        for (size_t i = 0; i < count; i++) {
                const struct test_case *t = tool->shape.m ? &given : &cases[i];
                struct nm_error why = {""};
                bool right = false;
                char text[160];
                int status;

                if (tool->quick && !tool->shape.m && t->shape.m * t->shape.k * t->shape.n > 2000000)
                        continue;
                status = run(t, device, tool->seed, &right, text, sizeof(text), &why);
                /* axengine multiplies int8 only: of the list, what it can do; of a request, the refusal. */
                if (status == NM_UNSUPPORTED && !tool->shape.m) {
                        refused = why;
                        continue;
                }
                if (status)
                        return tool_failed(status, &why);
                if (stop_asked)
                        return STOP_STATUS;
                report(tool, json, t, right, text);
                *good += right;
                ++*all;
        }
        if (!*all)
                return tool_failed(NM_UNSUPPORTED, &refused);
        return *good == *all ? TOOL_DONE : TOOL_WRONG;
}

int tool_test(const struct tool *tool)
{
        struct json json = {.file = stdout};
        struct nm_device *device;
        struct nm_error why = {""};
        size_t good = 0, all = 0;
        int status = nm_open(&tool->options, &device, &why);

        if (status)
                return tool_failed(status, &why);
        if (tool->json) {
                tool_begin(&json, nm_info(device), "products");
        } else {
                tool_describe(nm_info(device));
        }
        status = run_all(tool, device, &json, &good, &all);
        if (tool->json) {
                json_end(&json);
                json_unsigned(&json, "right", good);
                json_unsigned(&json, "count", all);
                json_end(&json);
        } else {
                printf("npu-matmul: %zu of %zu products right on %s\n", good, all, nm_info(device)->backend);
        }
        nm_close(device);
        return status;
}
