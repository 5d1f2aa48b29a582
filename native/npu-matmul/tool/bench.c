/* SPDX-License-Identifier: MIT
 *
 * Latency by shape: GFLOPS are 2·M·K·N, GB/s the resident weights, over the median. What the functional model needs
 * says nothing about an NPU, so of it only the lists are shown.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "json.h"
#include "stop.h"
#include "tool.h"

enum { MOST_RUNS = 2000, LEAST_RUNS = 3 };

static const struct {
        const char *what;
        struct tool_shape shape;
} shapes[] = {
        {"stories15M attention", {1, 288, 288}},
        {"stories15M w1, w3", {1, 288, 768}},
        {"stories15M w2", {1, 768, 288}},
        {"stories15M classifier", {1, 288, 32000}},
        {"stories110M attention", {1, 768, 768}},
        {"stories110M w1, w3", {1, 768, 2048}},
        {"stories110M w2", {1, 2048, 768}},
        {"stories110M classifier", {1, 768, 32000}},
        {"square", {128, 128, 128}},
        {"square", {256, 256, 256}},
        {"square", {512, 512, 512}},
        {"square", {1024, 1024, 1024}},
};

struct measured {
        double minimum, median, maximum;        /* s */
        size_t runs, bytes;
        uint64_t lists;                         /* of one product */
};

static double now(void)
{
        struct timespec time;

        clock_gettime(CLOCK_MONOTONIC, &time);
        return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static int run(const struct tool *tool, struct nm_device *device, struct nm_matrix *matrix, const struct tool_shape *s,
               const void *a, void *c, struct measured *m, struct nm_error *why)
{
        static double times[MOST_RUNS];
        struct nm_counters before, after;
        double began;
        bool model = !strcmp(nm_info(device)->backend, "model");
        int status;

        nm_counters(device, &before);
        status = nm_multiply(matrix, s->m, a, s->k, c, s->n, why);      /* buffers are made, clocks rise */
        nm_counters(device, &after);
        m->lists = after.lists - before.lists;
        began = now();
        for (m->runs = 0; !status && !model && !stop_asked && m->runs < MOST_RUNS; m->runs++) {
                double start = now();

                if (m->runs >= LEAST_RUNS && start - began > tool->seconds)
                        break;
                status = nm_multiply(matrix, s->m, a, s->k, c, s->n, why);
                times[m->runs] = now() - start;
        }
        if (status || !m->runs)
                return status;
        qsort(times, m->runs, sizeof(times[0]), by_value);
        m->minimum = times[0];
        m->median = times[m->runs / 2];
        m->maximum = times[m->runs - 1];
        return NM_OK;
}

static int measure(const struct tool *tool, struct nm_device *device, enum nm_type type, const struct tool_shape *s,
                   struct measured *m, struct nm_error *why)
{
        void *a = calloc(s->m * s->k, tool_in_bytes(type)), *b = calloc(s->n * s->k, tool_in_bytes(type));
        void *c = malloc(s->m * s->n * tool_out_bytes(type));
        struct nm_matrix *matrix = NULL;
        int status = NM_NO_MEMORY;

        snprintf(why->text, sizeof(why->text), "no memory for operands of %zux%zux%zu", s->m, s->k, s->n);
        if (a && b && c) {
                for (size_t i = 0; i < s->m * s->k * tool_in_bytes(type);
                     i++) /* small, never NaN: 0x3131 and the like */
                        ((uint8_t *)a)[i] = (uint8_t)(0x30 + i % 7);
                for (size_t i = 0; i < s->n * s->k * tool_in_bytes(type); i++)
                        ((uint8_t *)b)[i] = (uint8_t)(0x30 + i % 5);
                status = nm_matrix_create(device, type, s->n, s->k, b, s->k, &matrix, why);
        }
        if (!status) {
                m->bytes = nm_matrix_bytes(matrix);
                status = run(tool, device, matrix, s, a, c, m, why);
        }
        nm_matrix_destroy(matrix);
        free(a);
        free(b);
        free(c);
        return status;
}

static void report(const struct tool *tool, struct json *json, const char *what, enum nm_type type,
                   const struct tool_shape *s, const struct measured *m)
{
        double flops = 2.0 * (double)s->m * (double)s->k * (double)s->n;
        char shape[40];

        snprintf(shape, sizeof(shape), "%zux%zux%zu", s->m, s->k, s->n);
        if (!tool->json && m->runs)
                printf("%-14s %-11s %9.3f %9.3f %9.3f %8.2f %6.2f\n", shape, tool_type_name(type), m->minimum * 1e3,
                       m->median * 1e3, m->maximum * 1e3, flops / m->median * 1e-9,
                       (double)m->bytes / m->median * 1e-9);
        else if (!tool->json)
                printf("%-14s %-11s %9s %9s %9s %8s %6s  %llu lists\n", shape, tool_type_name(type), "-", "-", "-", "-",
                       "-", (unsigned long long)m->lists);
        fflush(stdout);
        if (!tool->json)
                return;
        json_object(json, NULL);
        json_string(json, "what", what);
        json_string(json, "type", tool_type_name(type));
        json_unsigned(json, "m", s->m);
        json_unsigned(json, "k", s->k);
        json_unsigned(json, "n", s->n);
        json_unsigned(json, "lists", m->lists);
        json_unsigned(json, "weight_bytes", m->bytes);
        json_unsigned(json, "runs", m->runs);
        if (m->runs) {
                json_number(json, "minimum_seconds", m->minimum);
                json_number(json, "median_seconds", m->median);
                json_number(json, "maximum_seconds", m->maximum);
                json_number(json, "gflops", flops / m->median * 1e-9);
                json_number(json, "gigabytes_per_second", (double)m->bytes / m->median * 1e-9);
        }
        json_end(json);
}

static int run_all(const struct tool *tool, struct nm_device *device, struct json *json)
{
        static const enum nm_type types[] = {NM_FP16_FP32, NM_INT8_INT32};
        size_t count = tool->shape.m ? 1 : sizeof(shapes) / sizeof(shapes[0]);

        for (size_t t = 0; t < (tool->shape.m ? 1 : 2); t++)
                for (size_t i = 0; i < count; i++) {
                        const struct tool_shape *s = tool->shape.m ? &tool->shape : &shapes[i].shape;
                        enum nm_type type = tool->shape.m ? tool->type : types[t];
                        struct measured measured = {0};
                        struct nm_error why = {""};
                        int status;

                        if (tool->quick && !tool->shape.m && s->m * s->k * s->n > 2000000)
                                continue;
                        status = measure(tool, device, type, s, &measured, &why);
                        if (status == NM_UNSUPPORTED && !tool->shape.m)
                                continue;
                        if (status)
                                return tool_failed(status, &why);
                        if (stop_asked)
                                return STOP_STATUS;
                        report(tool, json, tool->shape.m ? "given" : shapes[i].what, type, s, &measured);
                }
        return TOOL_DONE;
}

int tool_bench(const struct tool *tool)
{
        struct json json = {.file = stdout};
        struct nm_device *device;
        struct nm_error why = {""};
        int status = nm_open(&tool->options, &device, &why);

        if (status)
                return tool_failed(status, &why);
        if (tool->json) {
                tool_begin(&json, nm_info(device), "shapes");
        } else {
                tool_describe(nm_info(device));
                if (!strcmp(nm_info(device)->backend, "model"))
                        puts("A model has no speed: lists are counted, nothing is timed.");
                printf("%-14s %-11s %9s %9s %9s %8s %6s\n", "MxKxN", "type", "min ms", "median ms", "max ms", "GFLOPS",
                       "GB/s");
        }
        status = run_all(tool, device, &json);
        if (tool->json) {
                json_end(&json);
                json_end(&json);
        }
        nm_close(device);
        return status;
}
