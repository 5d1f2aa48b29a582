/* SPDX-License-Identifier: MIT
 *
 * The command line: llama2.c's one-letter options, and ours.
 */
#ifndef LLAMA_OPTIONS_H
#define LLAMA_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault.h"

struct options {
        const char *checkpoint, *tokenizer, *prompt, *system_prompt, *backend, *json, *logits;
        int weights;            /* enum weights, or -1: by the back end and the file */
        float temperature, top_p;
        uint64_t seed;
        size_t steps, context;  /* 0: the model's */
        unsigned threads;       /* 0: one a processor */
        bool chat, help;
};

int options_read(int argc, char **argv, struct options *options, struct fault *fault);
void options_usage(void);

#endif
