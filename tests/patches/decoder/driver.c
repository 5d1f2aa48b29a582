/* SPDX-License-Identifier: MIT */
/*
 * Runs the decoder of patches/kernel/alignment-fixup on words from standard
 * input (hexadecimal, one a line); prints what it found, or "-".
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef uint8_t u8;
typedef int16_t s16;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint64_t u64;
typedef int64_t s64;

#include "alignment_decode.c"

static void print_offset(const struct a64_access *a)
{
	if (a->by_register)
		printf(" reg %u ext %u shift %u", a->rm, a->extend, a->shift);
	else
		printf(" imm %d", a->imm);
	printf(" base %u%s%s\n", a->rn, a->post ? " post" : "",
	       a->writeback ? " wb" : "");
}

static void print_access(const struct a64_access *a)
{
	unsigned int i, reg, lane, copies = a->copies ? a->copies : 1;

	if (a->kind == A64_ZERO_BLOCK) {
		printf("zva %u\n", a->rn);
		return;
	}
	printf("%s %s %u", a->load ? "load" : "store",
	       a->kind == A64_VECTOR ? "v" : "r", a->esize);
	if (a->sign_to)
		printf(" sign %u", a->sign_to);
	if (a->merge)
		printf(" merge");
	for (i = 0; i < a->count; i++) {
		if (a->kind == A64_VECTOR) {
			a64_place(a, i, &reg, &lane);
			printf(" %u.%u", a->reg[reg], lane);
			if (copies > 1)
				printf("x%u", copies);
		} else {
			printf(" %u", a->reg[i]);
		}
	}
	print_offset(a);
}

int main(void)
{
	struct a64_access a;
	unsigned int word;

	while (scanf("%x", &word) == 1) {
		if (a64_decode(word, &a))
			print_access(&a);
		else
			puts("-");
	}
	return 0;
}
