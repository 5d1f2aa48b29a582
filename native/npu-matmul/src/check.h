/* SPDX-License-Identifier: MIT
 *
 * Looks a register list through without running it: order, tail, widths of fields, sizes that must agree, banks,
 * addresses. Stricter than the model: it knows only the lists of lists.c, with any setting of the switches.
 */
#ifndef NM_CHECK_H
#define NM_CHECK_H

#include "lists.h"

struct nm_range {
        uint32_t address;
        size_t size;
};

struct nm_checked {             /* what the list says */
        struct nm_shape shape;
        struct nm_place place;
        uint32_t data_banks, grains, enable;
        bool chained;
        uint32_t next, next_amount;
};

/* `memory` holds what input, weights and output must lie within, each in one range. NM_INVALID with the word that is
 * wrong. */
int nm_list_check(const uint64_t *words, size_t count, const struct nm_range *memory, size_t ranges,
                  struct nm_checked *found, struct nm_error *why);

#endif
