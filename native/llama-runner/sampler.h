/* SPDX-License-Identifier: MIT
 *
 * The next token from logits, as llama2.c samples (run.c: sample): the same seed and logits give the same token.
 */
#ifndef LLAMA_SAMPLER_H
#define LLAMA_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

struct candidate {
        float probability;
        int token;
};

struct sampler {
        size_t count;
        float temperature;      /* 0: the largest logit */
        float top_p;            /* out of (0, 1): all tokens are candidates */
        uint64_t state;         /* xorshift*; not 0 */
        struct candidate *candidates;
        float (*softmax)(float *values, size_t count);
};

int sampler_open(struct sampler *sampler, size_t count, float temperature, float top_p, uint64_t seed,
                 float (*softmax)(float *values, size_t count));      /* -1: no memory */
void sampler_close(struct sampler *sampler);

/* Overwrites the logits when the temperature is not 0. */
int sampler_next(struct sampler *sampler, float *logits);

#endif
