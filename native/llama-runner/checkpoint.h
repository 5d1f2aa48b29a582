/* SPDX-License-Identifier: MIT
 *
 * llama2.c's checkpoints, mapped: the legacy form (version 0, fp32; llama2.c run.c) and the int8 form (version 2,
 * groups with one scale each; llama2.c runq.c). Little-endian files, read on little-endian machines.
 */
#ifndef LLAMA_CHECKPOINT_H
#define LLAMA_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fault.h"

enum tensor {
        TENSOR_EMBEDDING,       /* vocab × dim */
        TENSOR_WQ,              /* each of the following: rows × columns, in every layer */
        TENSOR_WK,
        TENSOR_WV,
        TENSOR_WO,
        TENSOR_W1,
        TENSOR_W2,
        TENSOR_W3,
        TENSOR_CLASSIFIER,      /* the embedding when it is shared */
        TENSORS
};

struct shape {                  /* all in elements; checked to fit the file */
        size_t dim, hidden, layers, heads, kv_heads, vocab, sequence;
        size_t head, kv;        /* dim / heads, head × kv_heads */
        bool shared_classifier;
};

struct checkpoint {
        struct shape shape;
        int version;            /* 0 or 2 */
        size_t group;           /* of version 2: elements a scale; 0 otherwise */
        const uint8_t *bytes;
        size_t size;
        bool mapped;            /* by checkpoint_open */
        size_t norm_attention, norm_ffn, norm_final;    /* offsets in bytes */
        size_t tensors[TENSORS];
};

/* 0, or the status of `fault`, which names the field, its value and what was expected. */
int checkpoint_open(const char *path, struct checkpoint *checkpoint, struct fault *fault);
void checkpoint_close(struct checkpoint *checkpoint);

/* The same from memory that outlives the checkpoint; for tests and fuzzers. `name` is for the error. */
int checkpoint_parse(const void *bytes, size_t size, const char *name, struct checkpoint *checkpoint,
                     struct fault *fault);

void checkpoint_extent(const struct checkpoint *checkpoint, enum tensor tensor, size_t *rows, size_t *columns);

/* One row in fp32, dequantised if need be. */
void checkpoint_row(const struct checkpoint *checkpoint, enum tensor tensor, size_t layer, size_t row, float *to);

/* One row of version 2 as it is: `columns` bytes and columns / group scales. */
void checkpoint_row_int8(const struct checkpoint *checkpoint, enum tensor tensor, size_t layer, size_t row, int8_t *to,
                         float *scales);

/* Gives the pages read so far back: they count as this process's memory while they are mapped. */
void checkpoint_forget(const struct checkpoint *checkpoint);

/* `which`: norm_attention, norm_ffn or norm_final of the checkpoint. */
void checkpoint_norm(const struct checkpoint *checkpoint, size_t which, size_t layer, float *to);

#endif
