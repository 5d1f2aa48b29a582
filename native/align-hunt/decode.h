/* SPDX-License-Identifier: MIT */
/* A64 loads and stores as data: what an instruction word reads or writes, and where its address comes from.
 *
 * Encodings: Arm ARM (DDI 0487), C4.1 "A64 instruction set encoding", group "Loads and Stores". */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum form {
	FORM_NONE,      /* no access to memory that can be misaligned */
	FORM_SINGLE,    /* one register */
	FORM_PAIR,      /* two registers */
	FORM_STRUCTURE, /* LD1..LD4, ST1..ST4, LD1R..LD4R */
	FORM_ZVA,       /* DC ZVA: a block of zeros */
	FORM_ATOMIC,    /* exclusive, ordered or atomic: smaller pieces would not be the same thing */
};

enum mode { MODE_OFFSET, MODE_PRE, MODE_POST, MODE_REGISTER, MODE_LITERAL };

struct access {
	enum form form;
	enum mode mode;
	bool load;
	bool simd;        /* the registers are V0..V31 */
	bool sign;        /* a load that extends the sign ... */
	bool narrow;      /* ... to 32 bits only */
	uint8_t element;  /* bytes that the architecture wants aligned as one; 0 for DC ZVA: ask DCZID_EL0 */
	uint8_t bytes;    /* bytes of the whole access, at most 64 */
	uint8_t rt, rt2, rn, rm;
	uint8_t extend;   /* MODE_REGISTER: the option field */
	uint8_t shift;
	int64_t offset;
	/* Structures: `registers` runs of `interleave` registers, `lanes` elements each; one lane if `single`. */
	uint8_t registers, interleave, lanes, index;
	bool single, replicate;
	uint8_t variant;  /* which spelling of several with the same effect */
};

/* What `word` accesses; false when it is no load or store, or none that is known. */
bool decode(uint32_t word, struct access *access);

/* The mnemonic with the kind of its register, such as "stp q" or "ldrsh w"; always terminated. */
void spell(const struct access *access, char *out, size_t size);
