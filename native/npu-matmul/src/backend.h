/* SPDX-License-Identifier: MIT
 *
 * What a back end is. Two families: those that run register lists over memory the NPU sees (rocket, rknpu and the
 * functional model), and those that multiply by themselves (cpu, axengine). Everything above a list back end — layouts,
 * lists, slices, padding, poisoned outputs, batching — is written once, in matrix.c and product.c.
 */
#ifndef NM_BACKEND_H
#define NM_BACKEND_H

#include "npu-matmul.h"

/* Memory that both the processor and the NPU see. */
struct nm_buffer {
        void *cpu;              /* mapped; page aligned */
        uint32_t address;       /* as the NPU sees it; 0 is an address like any other */
        size_t size;            /* as asked for, in bytes */
        uint32_t handle;        /* the driver's name for it */
        uint64_t token;         /* rknpu: obj_addr */
        size_t mapped;          /* bytes mapped: size rounded up to pages */
};

enum nm_use {                   /* what a buffer is for decides how it is cached */
        NM_USE_WEIGHTS,         /* written once, read by the NPU */
        NM_USE_INPUT,           /* written for each product */
        NM_USE_OUTPUT,          /* read for each product */
        NM_USE_LISTS,           /* register lists */
};

struct nm_list {                /* one kick of the NPU */
        uint32_t address;       /* of its words, 16-byte aligned (64 preferred) */
        uint32_t words;         /* 64-bit words, the four of the tail included */
        uint32_t enable;        /* the operation-enable value of the tail: 0xD or 0x1D */
};

/* Lists that run one after another on one core; blocking. `reads` and `writes` together name each buffer once. */
struct nm_job {
        const struct nm_list *lists;
        size_t count;
        struct nm_buffer *const *reads;
        size_t read_count;
        struct nm_buffer *const *writes;
        size_t write_count;
        unsigned timeout_ms;
};

struct nm_list_ops {
        int (*create)(void *state, size_t size, enum nm_use use, struct nm_buffer *buffer, struct nm_error *why);
        void (*destroy)(void *state, struct nm_buffer *buffer);
        /* Ownership of what the processor wrote passes to the NPU, and back. `bytes` from the start are enough where the driver takes a range. */
        int (*to_device)(void *state, struct nm_buffer *buffer, size_t bytes, struct nm_error *why);
        int (*to_cpu)(void *state, struct nm_buffer *buffer, size_t bytes, unsigned timeout_ms, struct nm_error *why);
        int (*submit)(void *state, const struct nm_job *job, struct nm_error *why);
        size_t lists_per_job;   /* at most; rknpu 4095 */
        bool rdma_by_default;   /* what NM_RDMA_AUTO means */
};

struct nm_whole_ops {
        int (*create)(void *state, enum nm_type type, size_t n, size_t k, const void *b, size_t ldb,
                      void **matrix, size_t *bytes, struct nm_error *why);
        void (*destroy)(void *state, void *matrix);
        int (*multiply)(void *state, void *matrix, size_t m, const void *a, size_t lda, void *c, size_t ldc,
                        struct nm_error *why);
};

struct nm_backend {
        const char *name;
        int (*open)(const struct nm_options *options, void **state, struct nm_info *info, struct nm_error *why);
        void (*close)(void *state);
        const struct nm_list_ops *lists;        /* one of the two */
        const struct nm_whole_ops *whole;
};

extern const struct nm_backend nm_rocket, nm_rknpu, nm_axengine, nm_cpu, nm_model;

/* Fills `why` and returns `status`. */
int nm_fail(struct nm_error *why, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The functional model: runs one list over memory that `memory` translates, as the NPU would; used by the `model` back end and by the fake devices of the tests.
 * Returns 0, or NM_TIMEOUT when the NPU would hang on such a list, with the reason. */
struct nm_model_memory {
        void *(*at)(void *context, uint32_t address, size_t bytes, bool write); /* NULL: a fault */
        void *context;
};
int nm_model_run(const struct nm_model_memory *memory, const struct nm_list *list, struct nm_error *why);

#endif
