/* SPDX-License-Identifier: MIT */
/* One function an instruction, and a table of them: what test_emulate.c runs natively and emulates.
 *
 * x1 is the base, x2 and x5 indices, x3, x4 and v4.. data. The mnemonic is the one spell() must give. */

	.text
	.arch armv8.2-a

	.macro form mnemonic, instruction:vararg
	.text
	.balign 4
7771:	\instruction
	ret
	.section .rodata.names, "aMS", @progbits, 1
7772:	.string "\mnemonic"
	.section .rodata.texts, "aMS", @progbits, 1
7773:	.string "\instruction"
	.section .data.rel.ro.forms, "aw"
	.quad 7771b, 7772b, 7773b
	.endm

	.section .data.rel.ro.forms, "aw"
	.balign 8
	.globl forms
forms:

	/* general registers, every size, every addressing mode */
	form "ldrb w", ldrb w3, [x1, #5]
	form "ldrh w", ldrh w3, [x1, #6]
	form "ldr w", ldr w3, [x1, #8]
	form "ldr x", ldr x3, [x1, #16]
	form "strb w", strb w3, [x1, #5]
	form "strh w", strh w3, [x1, #6]
	form "str w", str w3, [x1, #8]
	form "str x", str x3, [x1, #16]
	form "str x", str xzr, [x1]
	form "str w", str wzr, [x1]
	form "ldr x", ldr xzr, [x1]
	form "ldrsb w", ldrsb w3, [x1, #3]
	form "ldrsb x", ldrsb x3, [x1, #3]
	form "ldrsh w", ldrsh w3, [x1, #2]
	form "ldrsh x", ldrsh x3, [x1, #2]
	form "ldrsw x", ldrsw x3, [x1, #4]
	form "ldurh w", ldurh w3, [x1, #-7]
	form "ldur w", ldur w3, [x1, #-7]
	form "ldur x", ldur x3, [x1, #-7]
	form "sturb w", sturb w3, [x1, #-7]
	form "sturh w", sturh w3, [x1, #-7]
	form "stur w", stur w3, [x1, #-7]
	form "stur x", stur x3, [x1, #-7]
	form "ldursb w", ldursb w3, [x1, #-7]
	form "ldursh x", ldursh x3, [x1, #-7]
	form "ldursw x", ldursw x3, [x1, #-7]
	form "ldtr x", ldtr x3, [x1, #9]
	form "ldtrsw x", ldtrsw x3, [x1, #9]
	form "sttr w", sttr w3, [x1, #9]
	form "sttrh w", sttrh w3, [x1, #9]
	form "ldr x", ldr x3, [x1, #24]!
	form "ldr w", ldr w3, [x1], #-12
	form "ldrh w", ldrh w3, [x1], #7
	form "ldrsb x", ldrsb x3, [x1, #-3]!
	form "str x", str x3, [x1, #-24]!
	form "str w", str w3, [x1], #12
	form "strb w", strb w3, [x1], #1
	form "ldr x", ldr x3, [x1, x2]
	form "ldr x", ldr x3, [x1, x2, lsl #3]
	form "ldr w", ldr w3, [x1, w5, sxtw]
	form "ldr w", ldr w3, [x1, w5, sxtw #2]
	form "ldr x", ldr x3, [x1, w2, uxtw #3]
	form "ldrh w", ldrh w3, [x1, w2, uxtw #1]
	form "ldrsw x", ldrsw x3, [x1, x2, sxtx #2]
	form "str x", str x3, [x1, x2, lsl #3]
	form "str w", str w3, [x1, w5, sxtw]
	form "strh w", strh w3, [x1, x2, lsl #1]
	form "strb w", strb w3, [x1, x2]
	form "ldr x", ldr x3, [sp, #16]
	form "str x", str x3, [sp, #16]
	form "ldr x", ldr x3, [sp], #16
	form "stp x", stp x3, x4, [sp, #-16]!

	/* pairs */
	form "ldp x", ldp x3, x4, [x1, #16]
	form "ldp w", ldp w3, w4, [x1, #-8]
	form "ldpsw x", ldpsw x3, x4, [x1, #8]
	form "stp x", stp x3, x4, [x1, #16]
	form "stp x", stp x3, xzr, [x1]
	form "stp w", stp w3, w4, [x1, #-8]
	form "ldp x", ldp x3, x4, [x1], #32
	form "ldp w", ldp w3, w4, [x1, #8]!
	form "stp x", stp x3, x4, [x1, #-32]!
	form "stp x", stp xzr, xzr, [x1], #16
	form "ldnp x", ldnp x3, x4, [x1, #16]
	form "stnp w", stnp w3, w4, [x1, #8]
	form "ldp s", ldp s4, s5, [x1, #8]
	form "ldp d", ldp d4, d5, [x1, #16]
	form "ldp q", ldp q4, q5, [x1, #32]
	form "stp s", stp s4, s5, [x1, #8]
	form "stp d", stp d4, d5, [x1, #-16]
	form "stp q", stp q4, q5, [x1, #32]
	form "ldp q", ldp q4, q5, [x1], #32
	form "stp q", stp q4, q5, [x1, #-32]!
	form "ldnp q", ldnp q4, q5, [x1]
	form "stnp q", stnp q4, q5, [x1]

	/* V registers */
	form "ldr b", ldr b4, [x1, #3]
	form "ldr h", ldr h4, [x1, #4]
	form "ldr s", ldr s4, [x1, #4]
	form "ldr d", ldr d4, [x1, #8]
	form "ldr q", ldr q4, [x1, #16]
	form "str b", str b4, [x1, #3]
	form "str h", str h4, [x1, #4]
	form "str s", str s4, [x1, #4]
	form "str d", str d4, [x1, #8]
	form "str q", str q4, [x1, #16]
	form "ldur q", ldur q4, [x1, #-9]
	form "stur q", stur q4, [x1, #-9]
	form "stur s", stur s4, [x1, #-9]
	form "ldr q", ldr q4, [x1], #16
	form "str q", str q4, [x1, #-16]!
	form "ldr q", ldr q4, [x1, x2]
	form "ldr q", ldr q4, [x1, x2, lsl #4]
	form "str q", str q4, [x1, w5, sxtw]
	form "str d", str d4, [x1, x2, lsl #3]

	/* structures */
	form "ld1 b", ld1 {v4.16b}, [x1]
	form "ld1 b", ld1 {v4.8b}, [x1], #8
	form "ld1 h", ld1 {v4.8h, v5.8h}, [x1]
	form "ld1 s", ld1 {v4.4s, v5.4s, v6.4s}, [x1], #48
	form "ld1 d", ld1 {v4.2d, v5.2d, v6.2d, v7.2d}, [x1], x2
	form "ld1 d", ld1 {v31.1d, v0.1d}, [x1]
	form "ld2 b", ld2 {v4.16b, v5.16b}, [x1]
	form "ld2 s", ld2 {v4.2s, v5.2s}, [x1], #16
	form "ld3 b", ld3 {v4.8b, v5.8b, v6.8b}, [x1]
	form "ld3 h", ld3 {v4.8h, v5.8h, v6.8h}, [x1], x2
	form "ld4 s", ld4 {v4.4s, v5.4s, v6.4s, v7.4s}, [x1]
	form "ld4 b", ld4 {v30.8b, v31.8b, v0.8b, v1.8b}, [x1]
	form "st1 b", st1 {v4.16b}, [x1]
	form "st1 h", st1 {v4.4h, v5.4h}, [x1], #16
	form "st1 s", st1 {v4.4s, v5.4s, v6.4s}, [x1]
	form "st1 d", st1 {v4.2d, v5.2d, v6.2d, v7.2d}, [x1], #64
	form "st2 b", st2 {v4.16b, v5.16b}, [x1], x2
	form "st3 h", st3 {v4.8h, v5.8h, v6.8h}, [x1]
	form "st4 s", st4 {v4.4s, v5.4s, v6.4s, v7.4s}, [x1]
	form "st4 b", st4 {v4.8b, v5.8b, v6.8b, v7.8b}, [x1], #32
	form "ld1 b", ld1 {v4.b}[13], [x1]
	form "ld1 h", ld1 {v4.h}[6], [x1], #2
	form "ld1 s", ld1 {v4.s}[3], [x1]
	form "ld1 d", ld1 {v4.d}[1], [x1], x2
	form "ld2 s", ld2 {v4.s, v5.s}[2], [x1]
	form "ld3 h", ld3 {v4.h, v5.h, v6.h}[7], [x1]
	form "ld4 d", ld4 {v4.d, v5.d, v6.d, v7.d}[1], [x1], #32
	form "st1 b", st1 {v4.b}[9], [x1]
	form "st1 h", st1 {v4.h}[5], [x1]
	form "st1 s", st1 {v4.s}[1], [x1], #4
	form "st1 d", st1 {v4.d}[1], [x1]
	form "st2 b", st2 {v4.b, v5.b}[15], [x1], #2
	form "st3 s", st3 {v4.s, v5.s, v6.s}[2], [x1]
	form "st4 d", st4 {v4.d, v5.d, v6.d, v7.d}[0], [x1]
	form "ld1r b", ld1r {v4.16b}, [x1]
	form "ld1r s", ld1r {v4.2s}, [x1], #4
	form "ld1r d", ld1r {v4.2d}, [x1]
	form "ld2r h", ld2r {v4.8h, v5.8h}, [x1], x2
	form "ld3r s", ld3r {v4.4s, v5.4s, v6.4s}, [x1]
	form "ld4r b", ld4r {v4.8b, v5.8b, v6.8b, v7.8b}, [x1]

	/* a block of zeros: x1 is no multiple of the block */
	form "dc zva", dc zva, x1

	/* from beside the code */
	form "ldr x", ldr x3, forms_literal
	form "ldr w", ldr w3, forms_literal
	form "ldrsw x", ldrsw x3, forms_literal
	form "ldr q", ldr q4, forms_literal

	.globl forms_end
forms_end:

	/* what cannot be done in pieces, and what touches no memory or cannot fault */
	.globl refused
refused:
	form "exclusive load", ldxr x3, [x1]
	form "exclusive store", stxr w4, x3, [x1]
	form "exclusive load", ldaxp x3, x4, [x1]
	form "ordered load", ldar x3, [x1]
	form "ordered store", stlr w3, [x1]
	form "cas store", cas x3, x4, [x1]
	form "cas load", casal w3, w4, [x1]
	form "atomic load", ldadd x3, x4, [x1]
	form "atomic load", swpal w3, w4, [x1]
	.arch armv8.5-a+rcpc+memtag
	form "atomic load", ldapr x3, [x1]
	form "ordered load", ldapur x3, [x1, #8]
	form "ordered store", stlur w3, [x1, #8]
	form "stgp store", stgp x3, x4, [x1]
	form "?", add x3, x4, x1
	form "?", prfm pldl1keep, [x1]
	form "?", prfm pldl1keep, [x1, x2]
	form "?", ldraa x3, [x1]
	form "?", dc cvac, x1
	form "?", fmov d4, x3
	form "?", b forms_literal
	.globl refused_end
refused_end:

	.text
	.balign 16
	.quad 0x1122334455667788
forms_literal:
	.quad 0x8877665544332211, 0x99aabbccddeeff00

/* void run(struct state *state, const void *code): all registers from `state`, the instruction, and back.
 * State: x0..x15, sp, v0..v31. */
	.globl run
	.type run, %function
run:
	stp x29, x30, [sp, #-176]!
	stp x19, x20, [sp, #16]
	stp x21, x22, [sp, #32]
	stp x23, x24, [sp, #48]
	stp x25, x26, [sp, #64]
	stp x27, x28, [sp, #80]
	stp d8, d9, [sp, #96]
	stp d10, d11, [sp, #112]
	stp d12, d13, [sp, #128]
	stp d14, d15, [sp, #144]
	mov x28, x0
	mov x16, x1
	mov x27, sp
	add x17, x28, #144
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	ldr q\n, [x17], #16
	.endr
	ldr x0, [x28, #128]
	mov sp, x0
	ldp x0, x1, [x28, #0]
	ldp x2, x3, [x28, #16]
	ldp x4, x5, [x28, #32]
	ldp x6, x7, [x28, #48]
	ldp x8, x9, [x28, #64]
	ldp x10, x11, [x28, #80]
	ldp x12, x13, [x28, #96]
	ldp x14, x15, [x28, #112]
	blr x16
	stp x0, x1, [x28, #0]
	stp x2, x3, [x28, #16]
	stp x4, x5, [x28, #32]
	stp x6, x7, [x28, #48]
	stp x8, x9, [x28, #64]
	stp x10, x11, [x28, #80]
	stp x12, x13, [x28, #96]
	stp x14, x15, [x28, #112]
	mov x0, sp
	str x0, [x28, #128]
	mov sp, x27
	add x17, x28, #144
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	str q\n, [x17], #16
	.endr
	ldp d8, d9, [sp, #96]
	ldp d10, d11, [sp, #112]
	ldp d12, d13, [sp, #128]
	ldp d14, d15, [sp, #144]
	ldp x19, x20, [sp, #16]
	ldp x21, x22, [sp, #32]
	ldp x23, x24, [sp, #48]
	ldp x25, x26, [sp, #64]
	ldp x27, x28, [sp, #80]
	ldp x29, x30, [sp], #176
	ret
	.size run, . - run
	.section .note.GNU-stack, "", @progbits
