/* SPDX-License-Identifier: MIT
 *
 * The register list of one product: a 1×1 convolution whose input is M high, 1 wide and K channels deep, with N
 * kernels.
 */
#ifndef NM_LISTS_H
#define NM_LISTS_H

#include <stddef.h>

#include "backend.h"

struct nm_shape {               /* as the NPU sees it, padding included */
        enum nm_type type;
        uint32_t m;             /* 1 .. 1022 */
        uint32_t k;             /* 32 .. 16384, a multiple of 32 */
        uint32_t n;             /* 16 .. 8192, a multiple of nm_kernel_group() */
};

struct nm_place {               /* addresses as the NPU sees them, 16-byte aligned */
        uint32_t input, weights, output;
        bool rows_in, rows_out; /* A, C row-major rather than in the native layout (section 3.7 of the model, untried on
                                   boards) */
};

enum { NM_WORDS_PLAIN = 108, NM_WORDS_RDMA = 126, NM_TAIL = 4 };
#define NM_LIST_STRIDE 1024u    /* bytes from one list to the next: 126 words, aligned to 64 */

static inline uint32_t nm_input_bytes(enum nm_type type)        /* of an element of A or B */
{
        return type == NM_INT8_INT32 ? 1 : 2;
}

static inline uint32_t nm_output_bytes(enum nm_type type)
{
        return type == NM_FP16_FP16 ? 2 : 4;
}

static inline uint32_t nm_kernel_group(enum nm_type type)       /* kernels the NPU takes at a time */
{
        return type == NM_INT8_INT32 ? 32 : 16;
}

/* Banks of CBUF that hold the input; more than 11 means that M is too many rows for this K. */
uint32_t nm_data_banks(const struct nm_shape *shape, const struct nm_switches *switches);

/* Writes 126 words (rdma) or 108 and returns how many. The shape has been checked by the plan. */
size_t nm_list_build(uint64_t *words, const struct nm_shape *shape, const struct nm_place *place,
                     const struct nm_switches *switches, bool rdma);

/* Lets the list of `count` words go on to the one of `next_count` words at `next`, in one kick. */
void nm_list_chain(uint64_t *words, size_t count, uint32_t next, size_t next_count);

#endif
