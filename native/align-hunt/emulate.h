/* SPDX-License-Identifier: MIT */
/* Loads and stores done again in pieces that are aligned, as Device memory wants them. */
#pragma once

#include <stdint.h>
#include <ucontext.h>

#include "decode.h"

/* The registers of a stopped thread, in its signal frame; `v` is null when the frame holds no V registers. */
struct machine {
	unsigned long long *x, *sp, *pc, *pstate;
	__uint128_t *v;
};

struct machine machine_of(ucontext_t *context);

/* The address of the first byte of an access, before it is made. */
uint64_t address_of(const struct access *access, const struct machine *machine);

/* Bytes of the block that DC ZVA clears (DCZID_EL0). */
unsigned zva_block(void);

/* Make the access, write its results into the frame, and step over the instruction.
 *
 * False, with nothing changed, for what cannot be done in pieces. The pieces are 1, 2, 4 or 8 bytes, each
 * aligned to its size, in ascending order. Safe in a signal handler; a piece may fault as any access may. */
bool emulate(const struct access *access, struct machine *machine);
