/* SPDX-License-Identifier: MIT */
/* Where faults happened and how often: a fixed table, written by signal handlers of any thread. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { SITES = 16384 };

/* One instruction, reached from one caller. A site is read only after `state` says READY. */
struct site {
	_Atomic uint32_t state;
	uint32_t word;
	uintptr_t pc, caller;
	_Atomic uint64_t count;
	_Atomic uint32_t offsets; /* bit n: an address of n modulo 16 was seen */
	_Atomic bool refused;     /* not emulated: the program got its signal */
};

enum { FREE, CLAIMED, READY };

extern struct site sites[SITES];
extern _Atomic uint64_t sites_lost; /* faults for which there was no room */

/* Count a fault; null when the table is full. Safe in a signal handler that blocks all signals. */
struct site *sites_note(uintptr_t pc, uintptr_t caller, uint32_t word, uint64_t address);

void sites_clear(void);
