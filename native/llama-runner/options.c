/* SPDX-License-Identifier: MIT */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "matrix.h"

static int bad(struct fault *fault, const char *name, const char *value, const char *expected)
{
        return fault_set(fault, FAULT_REQUEST, "option %s: '%s', expected %s", name, value, expected);
}

static int number(const char *name, const char *value, double least, double most, double *to, struct fault *fault)
{
        char expected[64], *end;

        *to = strtod(value, &end);
        if (end != value && !*end && *to >= least && *to <= most)
                return 0;
        snprintf(expected, sizeof(expected), "a number from %g to %g", least, most);
        return bad(fault, name, value, expected);
}

static int whole(const char *name, const char *value, uint64_t most, uint64_t *to, struct fault *fault)
{
        char expected[64], *end;

        errno = 0;
        *to = strtoull(value, &end, 10);
        if (end != value && !*end && !errno && *to <= most && value[0] >= '0' && value[0] <= '9')
                return 0;
        snprintf(expected, sizeof(expected), "a whole number from 0 to %llu", (unsigned long long)most);
        return bad(fault, name, value, expected);
}

static int one_of(const char *name, const char *value, const char *const *words, int *to, struct fault *fault)
{
        char expected[96] = "";

        for (int i = 0; words[i]; i++) {
                if (!strcmp(words[i], value)) {
                        *to = i;
                        return 0;
                }
                strncat(expected, i ? ", " : "", sizeof(expected) - strlen(expected) - 1);
                strncat(expected, words[i], sizeof(expected) - strlen(expected) - 1);
        }
        return bad(fault, name, value, expected);
}

static int take(struct options *o, const char *name, const char *value, struct fault *fault)
{
        static const char *const backends[] = {"auto", "cpu", "rocket", "rknpu", "axengine", "model", NULL};
        static const char *const weights[] = {"fp32", "fp16", "int8", NULL}, *const modes[] = {"generate", "chat",
                                                                                               NULL};
        double real = 0;
        uint64_t count = 0;
        int status = 0, which = 0;

        if (!strcmp(name, "-t")) {
                status = number(name, value, 0, 1e6, &real, fault);
                o->temperature = (float)real;
        } else if (!strcmp(name, "-p")) {
                status = number(name, value, 0, 1, &real, fault);
                o->top_p = (float)real;
        } else if (!strcmp(name, "-s")) {
                status = whole(name, value, UINT64_MAX, &o->seed, fault);
        } else if (!strcmp(name, "-n")) {
                status = whole(name, value, 1u << 24, &count, fault);
                o->steps = (size_t)count;
        } else if (!strcmp(name, "--context")) {
                status = whole(name, value, 1u << 24, &count, fault);
                o->context = (size_t)count;
        } else if (!strcmp(name, "--threads")) {
                status = whole(name, value, 1024, &count, fault);
                o->threads = (unsigned)count;
        } else if (!strcmp(name, "-i")) {
                o->prompt = value;
        } else if (!strcmp(name, "-z")) {
                o->tokenizer = value;
        } else if (!strcmp(name, "-y")) {
                o->system_prompt = value;
        } else if (!strcmp(name, "-m")) {
                status = one_of(name, value, modes, &which, fault);
                o->chat = which == 1;
        } else if (!strcmp(name, "--backend")) {
                status = one_of(name, value, backends, &which, fault);
                o->backend = value;
        } else if (!strcmp(name, "--weights")) {
                status = one_of(name, value, weights, &o->weights, fault);
        } else if (!strcmp(name, "--json")) {
                o->json = value;
        } else if (!strcmp(name, "--logits")) {
                o->logits = value;
        } else {
                status = fault_set(fault, FAULT_REQUEST, "option %s: there is no such option: --help lists them", name);
        }
        return status;
}

int options_read(int argc, char **argv, struct options *o, struct fault *fault)
{
        *o = (struct options){.tokenizer = "tokenizer.bin",
                              .backend = "auto",
                              .weights = -1,
                              .temperature = 1.0f,
                              .top_p = 0.9f,
                              .steps = 256};
        for (int i = 1; i < argc; i++) {
                const char *name = argv[i];
                int status;

                if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
                        o->help = true;
                        return 0;
                }
                if (name[0] != '-' || !name[1]) {
                        if (o->checkpoint)
                                return fault_set(fault, FAULT_REQUEST, "'%s': a second checkpoint, expected an option",
                                                 name);
                        o->checkpoint = name;
                        continue;
                }
                if (i + 1 >= argc)
                        return fault_set(fault, FAULT_REQUEST,
                                         "option %s: no value, expected one after it: --help lists them", name);
                status = take(o, name, argv[++i], fault);
                if (status)
                        return status;
        }
        if (!o->checkpoint)
                return fault_set(fault, FAULT_REQUEST,
                                 "no checkpoint, expected the path of a llama2.c .bin file: --help");
        if (!o->seed)
                o->seed = (uint64_t)time(NULL);
        return 0;
}

void options_usage(void)
{
        fputs("llama-run CHECKPOINT [OPTION VALUE]...\n"
              "  -t  temperature, 0 for the likeliest token (1.0)\n"
              "  -p  top-p, 1 or 0 for all tokens (0.9)\n"
              "  -s  seed, 0 for the time (0)\n"
              "  -n  steps, 0 for the model's length (256)\n"
              "  -i  prompt\n"
              "  -z  tokenizer (tokenizer.bin)\n"
              "  -m  generate or chat (generate)\n"
              "  -y  system prompt of chat\n"
              "  --backend  auto, cpu, rocket, rknpu, axengine, model (auto: an NPU if there is one)\n"
              "  --weights  fp32, fp16, int8 (fp16 on an NPU, else as in the file)\n"
              "  --threads  0 for one a processor (0)\n"
              "  --context  positions of the key/value cache, 0 for what the steps need (0)\n"
              "  --json     file for the measurements, - for standard output in place of the text\n"
              "  --logits   file for the logits of each sampled token, raw fp32\n"
              "Exit status: 0 done, 1 the computation failed, 2 the request is wrong, 3 the host lacks something, 130 "
              "interrupted.\n",
              stdout);
}
