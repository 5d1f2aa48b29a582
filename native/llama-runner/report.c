/* SPDX-License-Identifier: MIT */
#include "report.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

static const char *const weight_names[] = {"fp32", "fp16", "int8"};

static double rate(size_t count, double seconds)
{
        return seconds > 0 ? (double)count / seconds : 0;
}

/* VmHWM: the most memory that was resident, pages of mapped files among it. */
static size_t peak_bytes(void)
{
        FILE *file = fopen("/proc/self/status", "r");
        char line[128];
        size_t kilobytes = 0;
        struct rusage usage;

        while (file && fgets(line, sizeof(line), file))
                if (sscanf(line, "VmHWM: %zu kB", &kilobytes) == 1)
                        break;
        if (file)
                fclose(file);
        if (!kilobytes && !getrusage(RUSAGE_SELF, &usage))
                kilobytes = (size_t)usage.ru_maxrss;
        return kilobytes * 1024;
}

void report_rates(const struct report *r, FILE *to)
{
        const struct session *s = r->session;

        if (s->timed_tokens && s->timed_seconds > 0)
                fprintf(to, "achieved tok/s: %f\n", rate(s->timed_tokens, s->timed_seconds));   /* run.c: generate */
        fprintf(to,
                "%s, %s weights, %u threads: prompt %zu tokens at %.1f tok/s, then %zu at %.1f tok/s, first after %.1f "
                "ms\n",
                r->npu ? r->npu->backend : r->engine->kernels->name, weight_names[r->engine->weights],
                pool_threads(r->engine->pool), s->prompt_tokens, rate(s->prompt_tokens, s->prompt_seconds),
                s->generated_tokens, rate(s->generated_tokens ? s->generated_tokens - 1 : 0, s->generation_seconds),
                s->first_token_seconds * 1e3);
}

static void quoted(FILE *to, const char *text, size_t length)
{
        fputc('"', to);
        for (size_t i = 0; i < length; i++) {
                unsigned char c = (unsigned char)text[i];

                if (c == '"' || c == '\\')
                        fprintf(to, "\\%c", c);
                else if (c < 0x20 || c >= 0x7F)
                        fprintf(to, "\\u%04x", c);              /* bytes as Latin-1: always valid, never guessed */
                else
                        fputc(c, to);
        }
        fputc('"', to);
}

static void write_npu(const struct report *r, FILE *to)
{
        struct nm_counters c;

        nm_counters(r->engine->npu, &c);
        fprintf(to, "  \"npu\": {\"device\": ");
        quoted(to, r->npu->device, strlen(r->npu->device));
        fprintf(to, ", \"driver\": ");
        quoted(to, r->npu->driver, strlen(r->npu->driver));
        fprintf(to, ", \"submissions\": %llu, \"lists\": %llu, \"bytes_synced\": %llu, \"busy_seconds\": %.6f},\n",
                (unsigned long long)c.submissions, (unsigned long long)c.lists, (unsigned long long)c.bytes_synced,
                c.busy_seconds);
}

static void write_json(const struct report *r, FILE *to)
{
        const struct session *s = r->session;
        const struct model *m = s->model;
        const struct shape *shape = &m->shape;

        fprintf(to, "{\n  \"checkpoint\": ");
        quoted(to, r->options->checkpoint, strlen(r->options->checkpoint));
        fprintf(to,
                ",\n  \"version\": %d,\n  \"shape\": {\"dim\": %zu, \"hidden_dim\": %zu, \"n_layers\": %zu, "
                "\"n_heads\": %zu, "
                "\"n_kv_heads\": %zu, \"vocab_size\": %zu, \"seq_len\": %zu, \"shared_classifier\": %s},\n",
                r->checkpoint->version, shape->dim, shape->hidden, shape->layers, shape->heads, shape->kv_heads,
                shape->vocab, shape->sequence, shape->shared_classifier ? "true" : "false");
        fprintf(to,
                "  \"backend\": \"%s\",\n  \"evidence\": \"%s\",\n  \"kernels\": \"%s\",\n  \"weights\": \"%s\",\n  "
                "\"threads\": %u,\n",
                r->npu ? r->npu->backend : "cpu", r->npu ? r->npu->evidence : "host", r->engine->kernels->name,
                weight_names[r->engine->weights], pool_threads(r->engine->pool));
        if (r->npu)
                write_npu(r, to);
        fprintf(to, "  \"outcome\": \"%s\",\n  \"seed\": %llu,\n  \"load_seconds\": %.6f,\n", r->outcome,
                (unsigned long long)r->options->seed, s->load_seconds);
        fprintf(to, "  \"prompt\": {\"tokens\": %zu, \"seconds\": %.6f, \"tokens_per_second\": %.3f},\n",
                s->prompt_tokens, s->prompt_seconds, rate(s->prompt_tokens, s->prompt_seconds));
        fprintf(to, "  \"generation\": {\"tokens\": %zu, \"seconds\": %.6f, \"tokens_per_second\": %.3f},\n",
                s->generated_tokens, s->generation_seconds,
                rate(s->generated_tokens ? s->generated_tokens - 1 : 0, s->generation_seconds));
        fprintf(to, "  \"first_token_seconds\": %.6f,\n  \"achieved_tokens_per_second\": %.3f,\n",
                s->first_token_seconds, rate(s->timed_tokens, s->timed_seconds));
        fprintf(to,
                "  \"memory\": {\"peak_bytes\": %zu, \"weight_bytes\": %zu, \"cache_bytes\": %zu, \"context\": %zu},\n "
                " \"tokens\": [",
                peak_bytes(), m->weight_bytes, m->cache_bytes, m->context);
        for (size_t i = 0; i < s->count; i++)
                fprintf(to, "%s%d", i ? ", " : "", s->tokens[i]);
        fprintf(to, "]\n}\n");
}

int report_json(const struct report *r, const char *path, struct fault *fault)
{
        FILE *to = strcmp(path, "-") ? fopen(path, "w") : stdout;
        int failed;

        if (!to)
                return fault_set(fault, FAULT_REQUEST, "%s: %s, expected a place for the JSON", path, strerror(errno));
        write_json(r, to);
        failed = fflush(to) || ferror(to);
        if (to != stdout)
                failed |= fclose(to) != 0;
        return failed ? fault_set(fault, FAULT_HOST, "%s: the JSON cannot be written: %s", path, strerror(errno)) : 0;
}
