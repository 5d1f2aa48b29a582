/* SPDX-License-Identifier: MIT
 *
 * A Llama 2 transformer: weights resident, one key/value cache, tokens in batches (llama2.c run.c: forward).
 */
#ifndef LLAMA_MODEL_H
#define LLAMA_MODEL_H

#include "matrix.h"

enum { BATCH = 32 };                    /* tokens of a prompt at once */

struct layer {
        struct matrix qkv, wo, w13, w2; /* wq above wk above wv, w1 above w3: 4 products a layer instead of 7 */
        float *norm_attention, *norm_ffn;
};

struct model {
        struct engine *engine;
        const struct checkpoint *checkpoint;    /* for rows of the embedding */
        struct shape shape;
        size_t context;                 /* positions in the cache */
        struct layer *layers;
        struct matrix classifier;
        float *norms;                   /* all of them */
        float *norm_final;
        float *cache;                   /* layer, key or value, head, position (+ 3), head_padded */
        size_t cache_bytes, head_padded;
        float *activations;             /* what the following point into */
        float *x, *branch, *wide, *gated, *turn, *logits, *scratch;
        size_t scratch_each, weight_bytes, activation_bytes;
};

/* `engine`: kernels, pool, weights, npu set; the rest is filled here. The checkpoint stays open. */
int model_open(struct model *model, struct engine *engine, const struct checkpoint *checkpoint, size_t context,
               struct fault *fault);
void model_close(struct model *model);

/* `count` tokens (1 to BATCH) at positions `position` and on. `model->logits` are those after the last one, if wanted.
 */
int model_forward(struct model *model, const int *tokens, size_t count, size_t position, int want_logits,
                  struct fault *fault);

#endif
