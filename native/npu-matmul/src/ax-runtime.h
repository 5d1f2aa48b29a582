/* SPDX-License-Identifier: MIT
 *
 * The vendor's run-time of the AX650N, loaded when it is there; its memory (CMM); and the matmul models, whose two
 * operands are inputs: r[d1, d2] = x[d1, K] · y[d2, K]ᵀ.
 */
#ifndef NM_AX_RUNTIME_H
#define NM_AX_RUNTIME_H

#include "ax-types.h"
#include "backend.h"

struct ax_memory {
        uint64_t physical;
        void *cpu;
        uint32_t size;
};

struct ax_model {
        char file[128];                 /* name in the directory: v1_matmul_npu3_s8_256_16_10000_548411.axmodel */
        uint32_t k, d1, d2;
        uint64_t cycles;                /* the compiler's estimate, from the name */
        void *handle;                   /* NULL until it is used */
        struct ax_memory operand, result;
        bool operand_is_x;              /* what `operand` was made for */
};

struct ax_runtime {
        struct ax_calls calls;
        void *engine, *sys;             /* of dlopen */
        char directory[256];
        struct ax_model *models;
        size_t count;
};

/* Loads, initialises (once a process, counted) and reads the directory. */
int ax_runtime_open(const char *directory, struct ax_runtime *runtime, struct nm_error *why);
void ax_runtime_close(struct ax_runtime *runtime);

int ax_allocate(const struct ax_runtime *runtime, size_t size, struct ax_memory *memory, struct nm_error *why);
void ax_free(const struct ax_runtime *runtime, struct ax_memory *memory);       /* all zero is let be */
int ax_flush(const struct ax_runtime *runtime, const struct ax_memory *memory, size_t offset, size_t bytes,
             struct nm_error *why);
int ax_invalidate(const struct ax_runtime *runtime, const struct ax_memory *memory, size_t bytes, struct nm_error *why);

/* Creates the handle of a model if it has none, and compares its tensors with its name. */
int ax_model_load(const struct ax_runtime *runtime, struct ax_model *model, struct nm_error *why);
/* r = x · yᵀ. Signals wait until it is over: a process that dies within a run leaves its CMM behind. */
int ax_model_run(const struct ax_runtime *runtime, const struct ax_model *model, const struct ax_memory *x,
                 const struct ax_memory *y, struct nm_error *why);

#endif
