/* SPDX-License-Identifier: MIT
 *
 * How a matrix and a product are cut into lists: arithmetic only.
 */
#ifndef NM_PLAN_H
#define NM_PLAN_H

#include "lists.h"

#define NM_MOST_SIZE ((size_t)1 << 24)  /* of M, N and K */

struct nm_cut {                 /* equal pieces, the last one may be smaller */
        uint32_t pieces, size;
};

struct nm_plan {
        enum nm_type type, list_type;   /* fp16 results of a K that is cut are summed from fp32 lists */
        size_t n, k;                    /* as asked for */
        uint32_t padded_n, padded_k;    /* multiples of nm_kernel_group() and of 32 */
        struct nm_cut n_cut, k_cut;     /* slices of at most 8192, chunks of at most 16384 */
};

struct nm_plan nm_plan_matrix(enum nm_type type, size_t n, size_t k);

static inline uint32_t nm_piece(struct nm_cut cut, uint32_t total, uint32_t index)
{
        return index + 1 < cut.pieces ? cut.size : total - cut.size * (cut.pieces - 1);
}

/* Bytes of B's chunk-and-slice pieces, and where one begins: chunks outermost, slices within. */
size_t nm_plan_weight_bytes(const struct nm_plan *plan);
size_t nm_plan_weight_offset(const struct nm_plan *plan, uint32_t chunk, uint32_t slice);

/* Rows of A that one list takes, and rows as the NPU sees `m` of them (padded to 4 by the switch). */
struct nm_cut nm_plan_rows(const struct nm_plan *plan, size_t m, const struct nm_switches *switches);
uint32_t nm_plan_list_rows(uint32_t m, const struct nm_switches *switches);

#endif
