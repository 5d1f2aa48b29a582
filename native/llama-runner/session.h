/* SPDX-License-Identifier: MIT
 *
 * Tokens in and out, with their times.
 */
#ifndef LLAMA_SESSION_H
#define LLAMA_SESSION_H

#include <signal.h>
#include <stdio.h>

#include "model.h"
#include "sampler.h"
#include "tokenizer.h"

struct session {
        struct model *model;
        const struct tokenizer *tokenizer;
        struct sampler *sampler;
        FILE *text;             /* NULL: nothing is written */
        FILE *logits;           /* NULL likewise */
        volatile sig_atomic_t *stop;
        size_t steps;
        int *tokens;            /* all of them, the prompt's first; room for steps + 1 */
        size_t count;
        size_t prompt_tokens, generated_tokens; /* that have gone through the model; that were sampled */
        double load_seconds, prompt_seconds, generation_seconds, first_token_seconds;
        size_t timed_tokens;    /* llama2.c's own rate: after the first pass */
        double timed_seconds;
};

double seconds_now(void);

int session_generate(struct session *session, const char *prompt, struct fault *fault);

/* Turns of a conversation; asks on standard input for what is not given. */
int session_chat(struct session *session, const char *prompt, const char *system_prompt, struct fault *fault);

#endif
