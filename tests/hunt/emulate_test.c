/* SPDX-License-Identifier: MIT */
/* Every instruction of forms.S at every misalignment: run by the processor on RAM, then by emulate() on the
 * same RAM and registers; all registers and all bytes must be the same. Exit status 0, or 1 with the first
 * differences on stdout. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <asm/sigcontext.h>

#include "emulate.h"

struct state {
	unsigned long long x[16], sp, unused;
	__uint128_t v[32];
};

struct sample {
	const uint32_t *code;
	const char *mnemonic, *text;
};

extern const struct sample forms[], forms_end[], refused[], refused_end[];
void run(struct state *state, const void *code);

enum { SPAN = 1024, MIDDLE = 384 };

static _Alignas(256) unsigned char memory[SPAN], native[SPAN];
static unsigned failures, comparisons;

static void fill(unsigned seed)
{
	for (unsigned i = 0; i < SPAN; i++)
		memory[i] = (unsigned char)((i * 167u + seed * 29u) ^ (i >> 3));
}

static void prepare(struct state *state, unsigned offset)
{
	unsigned char *bytes = (unsigned char *)state;
	for (unsigned i = 0; i < sizeof *state; i++)
		bytes[i] = (unsigned char)(i * 73u + 11u);
	state->x[1] = (uintptr_t)memory + MIDDLE + offset;
	state->x[2] = 7;                    /* an index, and the step of ", x2" */
	state->x[5] = 0xffffffff00000000ull | (uint32_t)-5; /* negative as a word */
	state->sp = (uintptr_t)memory + MIDDLE;
}

/* A signal frame as the kernel makes it: another record first, then the V registers. */
static void frame(ucontext_t *context, const struct state *state, const void *code)
{
	memset(context, 0, sizeof *context);
	mcontext_t *m = &context->uc_mcontext;
	memcpy(m->regs, state->x, sizeof state->x);
	m->sp = state->sp;
	m->pc = (uintptr_t)code;
	m->pstate = 0x60000c00;
	struct _aarch64_ctx *other = (struct _aarch64_ctx *)m->__reserved;
	*other = (struct _aarch64_ctx){ESR_MAGIC, sizeof(struct esr_context)};
	struct fpsimd_context *fp = (struct fpsimd_context *)(m->__reserved + sizeof(struct esr_context));
	fp->head = (struct _aarch64_ctx){FPSIMD_MAGIC, sizeof *fp};
	memcpy(fp->vregs, state->v, sizeof state->v);
}

static void thaw(struct state *state, const ucontext_t *context)
{
	const mcontext_t *m = &context->uc_mcontext;
	memcpy(state->x, m->regs, sizeof state->x);
	state->sp = m->sp;
	memcpy(state->v, ((const struct fpsimd_context *)(m->__reserved + sizeof(struct esr_context)))->vregs,
	       sizeof state->v);
}

static void fail(const struct sample *form, unsigned offset, const char *what)
{
	if (failures++ < 20)
		printf("%s (%08x) at +%u: %s\n", form->text, *form->code, offset, what);
}

static void compare(const struct sample *form, unsigned offset)
{
	struct state before, expected;
	prepare(&before, offset);
	fill(offset);
	expected = before;
	run(&expected, form->code);
	memcpy(native, memory, SPAN);

	fill(offset);
	ucontext_t context;
	frame(&context, &before, form->code);
	struct machine machine = machine_of(&context);
	struct access access;
	struct state found = before;
	comparisons++;
	if (!decode(*form->code, &access)) {
		fail(form, offset, "not decoded");
		return;
	}
	if (!emulate(&access, &machine)) {
		fail(form, offset, "not emulated");
		return;
	}
	thaw(&found, &context);
	if (memcmp(found.x, expected.x, sizeof found.x) || found.sp != expected.sp)
		fail(form, offset, "general registers differ");
	if (memcmp(found.v, expected.v, sizeof found.v))
		fail(form, offset, "V registers differ");
	if (memcmp(memory, native, SPAN))
		fail(form, offset, "memory differs");
	if (context.uc_mcontext.pc != (uintptr_t)form->code + 4)
		fail(form, offset, "pc is not at the next instruction");
	if (context.uc_mcontext.pstate != 0x60000000)
		fail(form, offset, "BTYPE is not cleared, or another flag is");
}

static void mnemonic(const struct sample *form)
{
	struct access access;
	char name[24];
	decode(*form->code, &access);
	spell(&access, name, sizeof name);
	if (strcmp(name, form->mnemonic))
		fail(form, 0, name);
}

static void refuse(const struct sample *form)
{
	struct state state;
	prepare(&state, 8);
	ucontext_t before, after;
	frame(&before, &state, form->code);
	after = before;
	struct machine machine = machine_of(&after);
	struct access access;
	decode(*form->code, &access);
	if (emulate(&access, &machine) || memcmp(&before, &after, sizeof before))
		fail(form, 0, "emulated, or the frame changed");
	mnemonic(form);
}

int main(void)
{
	for (const struct sample *form = forms; form < forms_end; form++) {
		mnemonic(form);
		for (unsigned offset = 0; offset < 17; offset++)
			compare(form, offset);
	}
	for (const struct sample *form = refused; form < refused_end; form++)
		refuse(form);
	printf("%td forms, %u comparisons, %td refused, %u failures\n", forms_end - forms, comparisons,
	       refused_end - refused, failures);
	return failures != 0;
}
