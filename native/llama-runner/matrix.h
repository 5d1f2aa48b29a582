/* SPDX-License-Identifier: MIT
 *
 * Weight matrices, resident on the processor in panels or on an NPU as the matmul library packs them.
 */
#ifndef LLAMA_MATRIX_H
#define LLAMA_MATRIX_H

#include <stddef.h>
#include <stdint.h>

#include "../common/pool.h"
#include "checkpoint.h"
#include "kernels.h"
#include "npu-matmul.h"

enum weights { WEIGHTS_FP32, WEIGHTS_FP16, WEIGHTS_INT8 };

enum { MOST_SEGMENTS = 3, INT8_GROUP = 64 };

struct engine {
        const struct kernels *kernels;
        struct pool *pool;
        enum weights weights;
        struct nm_device *npu;          /* NULL: the kernels multiply */
        size_t group;                   /* of int8 on the processor: elements a scale */
        char *arena; /* where the processor's weights lie, in huge pages where the kernel has them */
        size_t arena_used;
        char *mapped; /* what the arena was aligned in */
        size_t mapped_size;
        float *x_float; /* activations as the weights want them: rounded to fp16 … */
        uint16_t *x_half;
        int8_t *x_int8;
        float *x_scales;
        int32_t *y_int32;
};

struct matrix { /* rows × columns; y = matrix · x */
        size_t rows, columns;
        size_t padded; /* columns in memory: the distance of the vectors x of fp32 weights */
        size_t panels, group; /* group: padded */
        char *weights;
        float *scales;
        float *row_scales; /* int8 on an NPU */
        struct nm_matrix *npu;
        size_t bytes; /* of weights and scales */
};

struct source { /* tensors one below the other */
        enum tensor tensors[MOST_SEGMENTS];
        size_t count, layer;
};

size_t padded_columns(const struct engine *engine, size_t columns);

/* Bytes of the arena that a matrix takes; 0 on an NPU. */
size_t matrix_bytes(const struct engine *engine, size_t rows, size_t columns);

int matrix_load(struct engine *engine, const struct checkpoint *checkpoint, const struct source *source,
                struct matrix *matrix, struct fault *fault);
void matrix_close(struct matrix *matrix);

/* `count` vectors at a distance of padded_columns(), zeros past `columns`; results at a distance of `ldy`, which has
 * room for rows rounded up to PANEL. */
int matrix_multiply(struct engine *engine, const struct matrix *matrix, size_t count, const float *x, float *y,
                    size_t ldy, struct fault *fault);

#endif
