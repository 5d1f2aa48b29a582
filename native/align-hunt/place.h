/* SPDX-License-Identifier: MIT */
/* Code addresses as people and tools name them: object file, offset, build id, nearest symbol.
 *
 * Reads /proc/self/maps and the object file itself, by system calls only: safe in a signal handler, and blind
 * to what other preloaded libraries make of open() and mmap(). Not for two threads at once. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct place {
	char object[512];      /* path; "" for code in no file, such as a JIT's */
	uint64_t offset;       /* in the file, or from the mapping's start when there is none */
	uint64_t address;      /* as the object's symbols count, for addr2line; equal to offset without a file */
	char build_id[48];     /* hexadecimal, "" when there is none */
	char symbol[256];      /* the nearest one before, "" when there is none */
	uint64_t into;         /* bytes behind the symbol */
	bool exact;            /* within the symbol's size; else the function is one without a symbol */
	bool copies;           /* in one of libc's memory functions, whose caller is the one to look at */
};

/* Note where libc's memory functions are: stripped, it has no symbols for the variant chosen at run time. */
void place_prepare(void);

void place_find(uintptr_t pc, struct place *place);
