/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

const char *probe_outcome_name(enum probe_outcome outcome)
{
        static const char *const names[] = { "not tried", "right", "wrong", "timed out", "refused", "died" };

        return names[outcome];
}

static double now(void)
{
        struct timespec time;

        clock_gettime(CLOCK_MONOTONIC, &time);
        return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Operands: small integers for fp16, so that every sum is exact in fp32; the full range for int8. */
static int value(enum nm_type type, unsigned *seed)
{
        *seed = *seed * 1664525u + 1013904223u;
        return type == NM_INT8_INT32 ? (int)(*seed >> 24) - 128 : (int)(*seed >> 24) % 10;
}

static int at(const void *data, enum nm_type type, size_t index)
{
        float number;

        if (type == NM_INT8_INT32)
                return ((const int8_t *)data)[index];
        nm_float_from_half(&number, (const uint16_t *)data + index, 1);
        return (int)number;
}

static void *operand(enum nm_type type, size_t count, unsigned seed)
{
        int8_t *data = malloc(count * 2);

        for (size_t i = 0; data && i < count; i++) {
                const int one = value(type, &seed);
                const float number = (float)one;

                if (type == NM_INT8_INT32)
                        data[i] = (int8_t)one;
                else
                        nm_half_from_float((uint16_t *)(void *)data + i, &number, 1);
        }
        return data;
}

/* Counts elements of C that are not the sums; the first goes into the text. */
static size_t compare(const struct probe_shape *shape, const int32_t *a, const int32_t *b, const void *c,
                      char text[200])
{
        size_t wrong = 0;

        for (size_t i = 0; i < shape->m; i++) {
                for (size_t j = 0; j < shape->n; j++) {
                        const size_t index = i * shape->n + j;
                        const double found = shape->type == NM_INT8_INT32 ? ((const int32_t *)c)[index]
                                                                          : (double)((const float *)c)[index];
                        int64_t sum = 0;

                        for (size_t k = 0; k < shape->k; k++)
                                sum += (int64_t)a[i * shape->k + k] * b[j * shape->k + k];
                        if (found == (double)sum)
                                continue;
                        if (wrong++ == 0)
                                snprintf(text, 200, "%zux%zux%zu: C[%zu][%zu] is %.9g, expected %lld", shape->m,
                                         shape->k, shape->n, i, j, found, (long long)sum);
                }
        }
        return wrong;
}

static int32_t *widen(const void *data, enum nm_type type, size_t count)
{
        int32_t *wide = malloc(count * sizeof(*wide));

        for (size_t i = 0; wide && i < count; i++)
                wide[i] = at(data, type, i);
        return wide;
}

static void judge(int status, const struct nm_error *why, struct probe_result *result)
{
        result->outcome = status == NM_TIMEOUT || status == NM_NOT_RUN ? PROBE_TIMED_OUT : PROBE_REFUSED;
        snprintf(result->text, sizeof(result->text), "%s: %.160s", nm_status_name(status), why->text);
}

static void one_shape(struct nm_device *device, const struct probe_experiment *experiment,
                      const struct probe_shape *shape, struct probe_result *result)
{
        const size_t of_a = shape->m * shape->k, of_b = shape->n * shape->k, of_c = shape->m * shape->n;
        void *a = operand(shape->type, of_a, 1), *b = operand(shape->type, of_b, 2), *c = malloc(of_c * 4);
        int32_t *wide_a = a ? widen(a, shape->type, of_a) : NULL, *wide_b = b ? widen(b, shape->type, of_b) : NULL;
        struct nm_matrix *matrix = NULL;
        struct nm_error why = { "no memory" };
        int status = NM_NO_MEMORY;

        if (a && b && c && wide_a && wide_b)
                status = nm_matrix_create(device, shape->type, shape->n, shape->k, b, shape->k, &matrix, &why);
        for (unsigned i = 0; i < experiment->rounds && status == NM_OK && result->outcome == PROBE_RIGHT; i++) {
                const double start = now();
                size_t wrong;

                memset(c, 0x7F, of_c * 4);      /* a NaN, and an integer no sum reaches */
                status = nm_multiply(matrix, shape->m, a, shape->k, c, shape->n, &why);
                result->seconds += now() - start;
                /* Comparing costs more than multiplying: of many rounds the first and the last. */
                if (status || (i && i + 1 < experiment->rounds))
                        continue;
                wrong = compare(shape, wide_a, wide_b, c, result->text);
                if (wrong) {
                        const size_t used = strlen(result->text);

                        result->outcome = PROBE_WRONG;
                        snprintf(result->text + used, sizeof(result->text) - used, "; %zu of %zu elements, round %u",
                                 wrong, of_c, i + 1);
                }
        }
        if (status)
                judge(status, &why, result);
        nm_matrix_destroy(matrix);
        free(a);
        free(b);
        free(c);
        free(wide_a);
        free(wide_b);
}

static void in_child(const struct nm_options *base, const struct probe_experiment *experiment,
                     struct probe_result *result)
{
        struct nm_options options = *base;
        struct nm_device *device;
        struct nm_error why;
        int status;

        options.switches = experiment->switches;
        if (experiment->chain)
                setenv("NPU_MATMUL_RKNPU_CHAIN", "1", 1);
        status = nm_open(&options, &device, &why);
        if (status) {
                judge(status, &why, result);
                return;
        }
        result->outcome = PROBE_RIGHT;
        for (size_t i = 0; i < experiment->shape_count && result->outcome == PROBE_RIGHT; i++)
                one_shape(device, experiment, &experiment->shapes[i], result);
        if (result->outcome == PROBE_RIGHT)
                snprintf(result->text, sizeof(result->text), "%zu shapes, %u times, every element",
                         experiment->shape_count, experiment->rounds);
        nm_close(device);
}

/* The result of the child, or what became of it. */
static bool collect(pid_t child, int from, unsigned deadline, struct probe_result *result)
{
        struct pollfd waits = { .fd = from, .events = POLLIN };
        const double end = now() + deadline;
        int status, ready;

        do
                ready = poll(&waits, 1, (int)((end - now()) * 1000) > 0 ? (int)((end - now()) * 1000) : 0);
        while (ready < 0 && errno == EINTR);
        if (ready == 0) {
                result->outcome = PROBE_TIMED_OUT;
                snprintf(result->text, sizeof(result->text), "no answer in %u s: the process was ended", deadline);
                kill(child, SIGKILL);
                /* The pipe closes when the child is gone; one that sits in the kernel stays. */
                if (poll(&waits, 1, 5000) == 0) {
                        snprintf(result->text, sizeof(result->text),
                                 "no answer in %u s, and the process cannot be ended: it "
                                 "hangs in the kernel; start the board anew",
                                 deadline);
                        return false;
                }
        } else if (read(from, result, sizeof(*result)) != sizeof(*result)) {
                *result = (struct probe_result){ .outcome = PROBE_DIED };
                waitpid(child, &status, 0);
                snprintf(result->text, sizeof(result->text), "the process ended by %s",
                         WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "itself");
                return true;
        }
        waitpid(child, &status, 0);
        return true;
}

bool probe_run(const struct nm_options *options, struct probe_experiment *experiment, unsigned deadline)
{
        int pipes[2];
        pid_t child;
        bool alive;

        experiment->result = (struct probe_result){ .outcome = PROBE_DIED, .text = "no process could be made" };
        fflush(NULL);
        if (pipe(pipes))
                return true;
        child = fork();
        if (child == 0) {
                struct probe_result result = { .outcome = PROBE_DIED };

                close(pipes[0]);
                in_child(options, experiment, &result);
                _exit(write(pipes[1], &result, sizeof(result)) != sizeof(result));
        }
        close(pipes[1]);
        alive = child < 0 || collect(child, pipes[0], deadline, &experiment->result);
        close(pipes[0]);
        return alive;
}
