/* SPDX-License-Identifier: MIT
 *
 * The lists that go into one job, with the rows they read and where their results go.
 */
#ifndef NM_BATCH_H
#define NM_BATCH_H

#include "matrix.h"

enum { NM_BATCH_LISTS = 256 };

struct nm_input {               /* packed rows; shared by all lists that read the same */
        const char *from;
        size_t ld, offset;      /* elements; bytes into the input buffer */
        uint32_t rows, list_rows, columns, list_columns, bytes;
};

struct nm_piece {               /* one list and what becomes of its result */
        struct nm_matrix *matrix;
        struct nm_shape shape;
        size_t weights, output; /* offsets in bytes */
        size_t input;           /* index into inputs */
        uint32_t rows, columns; /* that are delivered */
        void *to;               /* element 0 of them, in C or in the accumulator */
        size_t to_ld;
        bool add, accumulator;  /* added to what is there; `to` is float or int64_t and not of C's type */
};

struct nm_batch {
        struct nm_device *device;
        size_t pieces, inputs;
        size_t input_bytes, output_bytes, weight_bytes;
        uint64_t products;      /* multiplications */
        struct nm_piece piece[NM_BATCH_LISTS];
        struct nm_input input[NM_BATCH_LISTS];
};

/* Whether one more piece still belongs into this job. */
bool nm_batch_takes(const struct nm_batch *batch, const struct nm_piece *piece, const struct nm_input *input);
void nm_batch_add(struct nm_batch *batch, const struct nm_piece *piece, const struct nm_input *input);

/* Runs it, delivers the results and empties it. */
int nm_batch_run(struct nm_batch *batch, struct nm_error *why);

#endif
