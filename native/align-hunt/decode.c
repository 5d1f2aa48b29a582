/* SPDX-License-Identifier: MIT */
#include "decode.h"

#include <string.h>

static uint32_t bits(uint32_t word, unsigned low, unsigned count)
{
	return (word >> low) & ((1u << count) - 1u);
}

static int64_t signed_bits(uint32_t word, unsigned low, unsigned count)
{
	uint32_t sign = 1u << (count - 1u);
	return (int64_t)(bits(word, low, count) ^ sign) - (int64_t)sign;
}

enum { PLAIN, UNSCALED, UNPRIVILEGED, NON_TEMPORAL };
enum { EXCLUSIVE, ORDERED, COMPARE, ATOMIC, TAGS };

static bool atomic(struct access *a, uint32_t word, uint8_t variant, bool load)
{
	a->form = FORM_ATOMIC;
	a->variant = variant;
	a->load = load;
	a->element = a->bytes = (uint8_t)(1u << bits(word, 30, 2));
	return true;
}

static bool exclusive(struct access *a, uint32_t word)
{
	bool o2 = bits(word, 23, 1), load = bits(word, 22, 1), o1 = bits(word, 21, 1);
	return atomic(a, word, !o2 ? EXCLUSIVE : o1 ? COMPARE : ORDERED, load);
}

/* LD1..LD4 and ST1..ST4 of whole registers. */
static bool structures(struct access *a, uint32_t word)
{
	static const struct { uint8_t registers, interleave; } shapes[16] = {
		[0x0] = {1, 4}, [0x2] = {4, 1}, [0x4] = {1, 3}, [0x6] = {3, 1},
		[0x7] = {1, 1}, [0x8] = {1, 2}, [0xa] = {2, 1},
	};
	unsigned opcode = bits(word, 12, 4), width = bits(word, 30, 1) ? 16 : 8;
	if (shapes[opcode].registers == 0)
		return false;
	a->registers = shapes[opcode].registers;
	a->interleave = shapes[opcode].interleave;
	a->element = (uint8_t)(1u << bits(word, 10, 2));
	a->lanes = (uint8_t)(width / a->element);
	a->bytes = (uint8_t)(a->registers * a->interleave * width);
	return true;
}

/* One element of each register, or one for all lanes of it. */
static bool one_structure(struct access *a, uint32_t word)
{
	unsigned opcode = bits(word, 13, 3), size = bits(word, 10, 2), scale = opcode >> 1;
	unsigned position = bits(word, 30, 1) << 3 | bits(word, 12, 1) << 2 | size; /* Q:S:size */
	a->single = true;
	a->registers = 1;
	a->interleave = (uint8_t)(((opcode & 1) << 1 | bits(word, 21, 1)) + 1);
	if (scale == 3) {
		if (!a->load || bits(word, 12, 1))
			return false;
		a->replicate = true;
		scale = size;
		a->lanes = (uint8_t)((bits(word, 30, 1) ? 16 : 8) >> scale);
	} else if (scale == 2 && size == 1) {
		scale = 3;
	}
	a->index = (uint8_t)(position >> scale);
	a->element = (uint8_t)(1u << scale);
	a->bytes = (uint8_t)(a->element * a->interleave);
	return true;
}

static bool simd_structures(struct access *a, uint32_t word)
{
	bool post = bits(word, 23, 1);
	if (bits(word, 31, 1) || bits(word, 25, 1) || (!post && bits(word, 16, 5)))
		return false;
	a->form = FORM_STRUCTURE;
	a->simd = true;
	a->load = bits(word, 22, 1);
	a->mode = post ? MODE_POST : MODE_OFFSET;
	if (bits(word, 24, 1) ? !one_structure(a, word) : !structures(a, word))
		return false;
	a->rm = post ? (uint8_t)bits(word, 16, 5) : 31;
	a->offset = post && a->rm == 31 ? a->bytes : 0;
	return true;
}

static bool literal(struct access *a, uint32_t word)
{
	unsigned opc = bits(word, 30, 2);
	a->simd = bits(word, 26, 1);
	if (opc == 3)
		return false; /* prefetch: never faults */
	a->form = FORM_SINGLE;
	a->mode = MODE_LITERAL;
	a->load = true;
	a->sign = !a->simd && opc == 2;
	a->element = a->simd ? (uint8_t)(4u << opc) : opc == 1 ? 8 : 4;
	a->bytes = a->element;
	a->offset = signed_bits(word, 5, 19) * 4;
	return true;
}

static bool pair(struct access *a, uint32_t word)
{
	static const enum mode modes[] = {MODE_OFFSET, MODE_POST, MODE_OFFSET, MODE_PRE};
	unsigned opc = bits(word, 30, 2), mode = bits(word, 23, 2);
	a->simd = bits(word, 26, 1);
	a->load = bits(word, 22, 1);
	if (opc == 3)
		return false;
	if (!a->simd && opc == 1 && !a->load)
		return atomic(a, word, TAGS, false); /* STGP */
	a->form = FORM_PAIR;
	a->mode = modes[mode];
	a->variant = mode == 0 ? NON_TEMPORAL : PLAIN;
	a->sign = !a->simd && opc == 1;
	a->element = a->simd ? (uint8_t)(4u << opc) : opc == 2 ? 8 : 4;
	a->bytes = (uint8_t)(2 * a->element);
	a->rt2 = (uint8_t)bits(word, 10, 5);
	a->offset = signed_bits(word, 15, 7) * a->element;
	return true;
}

static bool single(struct access *a, uint32_t word)
{
	unsigned size = bits(word, 30, 2), opc = bits(word, 22, 2), scale = size;
	bool indexed = !bits(word, 24, 1) && bits(word, 21, 1);
	if (indexed && bits(word, 10, 2) == 0)
		return atomic(a, word, ATOMIC, true);
	a->simd = bits(word, 26, 1);
	if (a->simd) {
		scale = (opc & 2) << 1 | size;
		a->load = opc & 1;
	} else {
		a->load = opc != 0;
		a->sign = opc >= 2;
		a->narrow = opc == 3;
	}
	if (scale > 4 || (a->sign && size == 3) || (a->narrow && size > 1))
		return false; /* unallocated, or a prefetch */
	a->form = FORM_SINGLE;
	a->element = a->bytes = (uint8_t)(1u << scale);
	if (bits(word, 24, 1)) {
		a->offset = (int64_t)bits(word, 10, 12) << scale;
		return true;
	}
	if (indexed) {
		if (bits(word, 10, 2) != 2)
			return false; /* LDRAA, LDRAB */
		a->mode = MODE_REGISTER;
		a->rm = (uint8_t)bits(word, 16, 5);
		a->extend = (uint8_t)bits(word, 13, 3);
		a->shift = (uint8_t)(bits(word, 12, 1) ? scale : 0);
		return a->extend & 2;
	}
	static const enum mode modes[] = {MODE_OFFSET, MODE_POST, MODE_OFFSET, MODE_PRE};
	static const uint8_t variants[] = {UNSCALED, PLAIN, UNPRIVILEGED, PLAIN};
	a->mode = modes[bits(word, 10, 2)];
	a->variant = variants[bits(word, 10, 2)];
	a->offset = signed_bits(word, 12, 9);
	return !(a->simd && a->variant == UNPRIVILEGED);
}

bool decode(uint32_t word, struct access *a)
{
	memset(a, 0, sizeof *a);
	a->rt = (uint8_t)bits(word, 0, 5);
	a->rn = (uint8_t)bits(word, 5, 5);
	a->rm = 31;
	bool known = false;
	if ((word & 0xffffffe0u) == 0xd50b7420u) {
		a->form = FORM_ZVA;
		return true;
	}
	if ((word & 0x0a000000u) != 0x08000000u)
		return false;
	switch (bits(word, 28, 2)) {
	case 0:
		known = bits(word, 26, 1) ? simd_structures(a, word) : exclusive(a, word);
		break;
	case 1: /* beside literals: LDAPUR and its kin, memory tags, memory copies */
		known = bits(word, 24, 1) ? atomic(a, word, ORDERED, bits(word, 22, 2)) : literal(a, word);
		break;
	case 2:
		known = pair(a, word);
		break;
	case 3:
		known = single(a, word);
		break;
	}
	if (!known)
		a->form = FORM_NONE;
	return known;
}

static void append(char *out, size_t size, const char *text)
{
	size_t used = strlen(out), room = size - 1 - used, length = strlen(text);
	memcpy(out + used, text, length < room ? length : room);
}

static const char *by_size(unsigned bytes, const char *const names[5])
{
	unsigned index = 0;
	while (1u << index < bytes && index < 4)
		index++;
	return names[index];
}

static void spell_single(const struct access *a, char *out, size_t size)
{
	static const char *const verbs[] = {
		[PLAIN] = "r", [UNSCALED] = "ur", [UNPRIVILEGED] = "tr", [NON_TEMPORAL] = "np",
	};
	static const char *const widths[] = {"b", "h", "w", "", ""};
	append(out, size, a->load ? "ld" : "st");
	append(out, size, a->form == FORM_PAIR && a->variant == PLAIN ? "p" : verbs[a->variant]);
	append(out, size, a->sign ? "s" : "");
	if (!a->simd && (a->element < 4 || a->sign))
		append(out, size, by_size(a->element, widths));
}

void spell(const struct access *a, char *out, size_t size)
{
	static const char *const vectors[] = {" b", " h", " s", " d", " q"};
	static const char *const atomics[] = {
		[EXCLUSIVE] = "exclusive", [ORDERED] = "ordered", [COMPARE] = "cas", [ATOMIC] = "atomic", [TAGS] = "stgp",
	};
	memset(out, 0, size);
	switch (a->form) {
	case FORM_NONE:
		append(out, size, "?");
		break;
	case FORM_ZVA:
		append(out, size, "dc zva");
		break;
	case FORM_ATOMIC:
		append(out, size, atomics[a->variant]);
		append(out, size, a->load ? " load" : " store");
		break;
	case FORM_STRUCTURE: {
		const char digit[2] = {(char)('0' + a->interleave), 0};
		append(out, size, a->load ? "ld" : "st");
		append(out, size, digit);
		append(out, size, a->replicate ? "r" : "");
		append(out, size, by_size(a->element, vectors));
		break;
	}
	case FORM_SINGLE:
	case FORM_PAIR:
		spell_single(a, out, size);
		if (a->simd)
			append(out, size, by_size(a->element, vectors));
		else
			append(out, size, a->element == 8 || (a->sign && !a->narrow) ? " x" : " w");
		break;
	}
}
