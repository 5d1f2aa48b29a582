/* SPDX-License-Identifier: MIT */
#include "emulate.h"

#include <asm/sigcontext.h>
#include <string.h>

#define PSTATE_BTYPE (3ull << 10)
#define INSTRUCTION 4

struct machine machine_of(ucontext_t *context)
{
	mcontext_t *m = &context->uc_mcontext;
	struct machine machine = {m->regs, &m->sp, &m->pc, &m->pstate, NULL};
	unsigned char *end = m->__reserved + sizeof m->__reserved;
	for (unsigned char *at = m->__reserved; at + sizeof(struct _aarch64_ctx) <= end;) {
		struct _aarch64_ctx *head = (struct _aarch64_ctx *)at;
		if (head->magic == FPSIMD_MAGIC)
			machine.v = ((struct fpsimd_context *)at)->vregs;
		if (head->magic == 0 || head->size == 0)
			break;
		at += head->size;
	}
	return machine;
}

unsigned zva_block(void)
{
	uint64_t id;
	__asm__("mrs %0, dczid_el0" : "=r"(id));
	return 4u << (id & 15);
}

static uint64_t base_of(const struct access *a, const struct machine *m)
{
	if (a->mode == MODE_LITERAL)
		return *m->pc;
	return a->rn == 31 ? *m->sp : m->x[a->rn];
}

static uint64_t general(const struct machine *m, unsigned number)
{
	return number == 31 ? 0 : m->x[number];
}

/* The index of a register offset: UXTW, LSL (UXTX), SXTW or SXTX, then shifted. */
static uint64_t extended(const struct access *a, const struct machine *m)
{
	uint64_t value = general(m, a->rm);
	if (!(a->extend & 1))
		value = a->extend & 4 ? (uint64_t)(int64_t)(int32_t)(uint32_t)value : (uint32_t)value;
	return value << a->shift;
}

uint64_t address_of(const struct access *a, const struct machine *m)
{
	if (a->form == FORM_ZVA)
		return general(m, a->rt) & ~(uint64_t)(zva_block() - 1);
	if (a->form == FORM_ATOMIC)
		return base_of(a, m);
	switch (a->mode) {
	case MODE_REGISTER:
		return base_of(a, m) + extended(a, m);
	case MODE_POST:
		return base_of(a, m);
	case MODE_OFFSET:
	case MODE_PRE:
	case MODE_LITERAL:
		break;
	}
	return base_of(a, m) + (uint64_t)a->offset;
}

static void write_back(const struct access *a, struct machine *m)
{
	if (a->mode != MODE_PRE && a->mode != MODE_POST)
		return;
	unsigned long long *base = a->rn == 31 ? m->sp : &m->x[a->rn];
	*base += a->mode == MODE_POST && a->rm != 31 ? m->x[a->rm] : (uint64_t)a->offset;
}

/* The largest piece that is aligned at `address` and fits into `left` bytes. */
static unsigned piece(uint64_t address, unsigned left)
{
	unsigned size = 8;
	while (size > left || address % size != 0)
		size /= 2;
	return size;
}

static void read_pieces(uint64_t address, unsigned char *to, unsigned left)
{
	while (left) {
		unsigned size = piece(address, left);
		uint64_t value;
		switch (size) {
		case 8: value = *(const volatile uint64_t *)address; break;
		case 4: value = *(const volatile uint32_t *)address; break;
		case 2: value = *(const volatile uint16_t *)address; break;
		default: value = *(const volatile uint8_t *)address; break;
		}
		memcpy(to, &value, size);
		address += size, to += size, left -= size;
	}
}

static void write_pieces(uint64_t address, const unsigned char *from, unsigned left)
{
	while (left) {
		unsigned size = piece(address, left);
		uint64_t value = 0;
		memcpy(&value, from, size);
		switch (size) {
		case 8: *(volatile uint64_t *)address = value; break;
		case 4: *(volatile uint32_t *)address = (uint32_t)value; break;
		case 2: *(volatile uint16_t *)address = (uint16_t)value; break;
		default: *(volatile uint8_t *)address = (uint8_t)value; break;
		}
		address += size, from += size, left -= size;
	}
}

static void clear_block(uint64_t address)
{
	for (unsigned done = 0; done < zva_block(); done += 4)
		*(volatile uint32_t *)(address + done) = 0;
}

/* One general or V register between the frame and memory order. */
static void load_register(const struct access *a, struct machine *m, unsigned number, const unsigned char *from)
{
	if (a->simd) {
		__uint128_t value = 0;
		memcpy(&value, from, a->element);
		m->v[number] = value;
		return;
	}
	uint64_t value = 0;
	memcpy(&value, from, a->element);
	if (a->sign) {
		uint64_t top = 1ull << (8 * a->element - 1);
		value = (value ^ top) - top;
	}
	if (number != 31)
		m->x[number] = a->narrow ? (uint32_t)value : value;
}

static void store_register(const struct access *a, const struct machine *m, unsigned number, unsigned char *to)
{
	if (a->simd) {
		memcpy(to, &m->v[number], a->element);
	} else {
		uint64_t value = general(m, number);
		memcpy(to, &value, a->element);
	}
}

/* Structures: element by element, as the pseudocode of LD1 and ST1 has it. */
static void move_structure(const struct access *a, struct machine *m, unsigned char *memory)
{
	unsigned lanes = a->single ? 1 : a->lanes;
	if (a->load && !a->single)
		for (unsigned r = 0; r < (unsigned)a->registers * a->interleave; r++)
			m->v[(a->rt + r) % 32] = 0; /* the upper half of a 64-bit arrangement */
	for (unsigned r = 0; r < a->registers; r++)
		for (unsigned lane = 0; lane < lanes; lane++)
			for (unsigned s = 0; s < a->interleave; s++, memory += a->element) {
				unsigned char *v = (unsigned char *)&m->v[(a->rt + r + s) % 32];
				unsigned char *at = v + (a->single ? a->index : lane) * a->element;
				if (a->replicate) {
					memset(v, 0, 16);
					for (unsigned copy = 0; copy < a->lanes; copy++)
						memcpy(v + copy * a->element, memory, a->element);
				} else if (a->load) {
					memcpy(at, memory, a->element);
				} else {
					memcpy(memory, at, a->element);
				}
			}
}

static void move_registers(const struct access *a, struct machine *m, unsigned char *memory)
{
	if (a->form == FORM_STRUCTURE) {
		move_structure(a, m, memory);
		return;
	}
	const unsigned numbers[2] = {a->rt, a->rt2};
	for (unsigned i = 0; i < (a->form == FORM_PAIR ? 2 : 1); i++) {
		unsigned char *part = memory + i * a->element;
		if (a->load)
			load_register(a, m, numbers[i], part);
		else
			store_register(a, m, numbers[i], part);
	}
}

bool emulate(const struct access *a, struct machine *m)
{
	if (a->form == FORM_NONE || a->form == FORM_ATOMIC || (a->simd && !m->v))
		return false;
	uint64_t address = address_of(a, m);
	if (a->form == FORM_ZVA) {
		clear_block(address);
	} else {
		unsigned char memory[64];
		if (a->load) {
			read_pieces(address, memory, a->bytes);
			move_registers(a, m, memory);
		} else {
			move_registers(a, m, memory);
			write_pieces(address, memory, a->bytes);
		}
		write_back(a, m);
	}
	*m->pc += INSTRUCTION;
	*m->pstate &= ~PSTATE_BTYPE; /* as after any instruction but an indirect branch */
	return true;
}
