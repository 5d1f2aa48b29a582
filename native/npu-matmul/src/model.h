/* SPDX-License-Identifier: MIT
 *
 * A functional model of one RK3588 NPU core: what CNA, CORE and DPU do with the registers that a list sets, for 1×1
 * convolutions of fp16 and int8. It knows no time. It is made from what is known of the hardware, so that it agrees
 * with a list proves the list consistent, not the silicon.
 *
 * - int8: sums are exact; a sum that 34 bits cannot hold is a hang, one that 32 bits cannot hold saturates.
 * - fp16: products are exact, sums are kept in binary64 and rounded once to binary32 (NM_SUM_WIDE, as the wide
 *   accumulator is described), or kept in binary32 in the order of K (NM_SUM_SINGLE). Board results lie near both.
 *   fp16 output rounds the binary32 sum once more, to nearest even.
 * - Registers keep their values from list to list. They begin as poison: a list that leaves one to chance hangs.
 */
#ifndef NM_MODEL_H
#define NM_MODEL_H

#include <stddef.h>

#include "backend.h"

enum nm_sum { NM_SUM_WIDE, NM_SUM_SINGLE };

struct nm_core {
        uint32_t cna[0x80], core[0x80], dpu[0x80], rdma[0x80];  /* by offset / 4 */
        enum nm_sum sum;
};

void nm_core_reset(struct nm_core *core, uint32_t poison);

/* The register of a decoded offset, or NULL where the model has none. */
uint32_t *nm_core_register(struct nm_core *core, uint32_t target, uint32_t offset);

/* As nm_model_run, with registers that outlive the list. */
int nm_core_run(struct nm_core *core, const struct nm_model_memory *memory, const struct nm_list *list,
                struct nm_error *why);

#endif
