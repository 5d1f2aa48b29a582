/* SPDX-License-Identifier: MIT */
/*
 * fixup-lab: does the kernel's alignment fixup do what the CPU does on RAM?
 *
 * Every load and store that the fixup knows is executed at every misalignment
 * on a PCI BAR mapped as Device memory and, with the same registers, on RAM.
 * All registers and the memory around the operand must come out alike, and
 * the kernel's counter must move by the number of faults that the same
 * accesses raise with the fixup off.
 *
 * Needs: a kernel with ARM64_ALIGNMENT_FIXUP, debugfs, root, and a PCI device
 * whose BAR is plain memory (QEMU: ivshmem-plain, -smp 2 or more; see
 * docs/patches/alignment-fixup.md). Runs as a program or as PID 1.
 *
 * Build: aarch64-linux-gnu-gcc -std=gnu11 -O2 -Wall -Wextra -Wconversion -static -pthread
 * Usage: fixup-lab [FILE]     FILE: a sysfs resourceN, else ivshmem's resource2
 * Prints TAP. Exit status: 0 all passed, 1 something failed, 2 cannot run.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <elf.h>

#define SWITCH   "/proc/sys/abi/alignment_fixup"
#define COUNTERS "/sys/kernel/debug/alignment_fixup/"
#define PAGE     4096u
#define AREA     1024u /* bytes around an operand that are compared */
#define CENTRE   512u  /* where x1 points in them, plus the misalignment */
#define ASPECTS  16u   /* misalignments: 0 to 15 */

/* ---- the instructions: text for the assembler and name in one ---- */

/* x1 base, x2 = 3, w5 = 3 and w6 = -3 with rubbish above, x3 x4 v0.. data */
#define OFFSETS(F, op, reg, big, shift)                                                        \
    F(op " " reg ", [x1]")                                                                     \
    F(op " " reg ", [x1, #" big "]")                                                           \
    F(op " " reg ", [x1, #-5]!")                                                               \
    F(op " " reg ", [x1], #7")                                                                 \
    F(op " " reg ", [x1, x2]")                                                                 \
    F(op " " reg ", [x1, x2, lsl #" shift "]")                                                 \
    F(op " " reg ", [x1, x2, sxtx #" shift "]")                                                \
    F(op " " reg ", [x1, w5, uxtw]")                                                           \
    F(op " " reg ", [x1, w5, uxtw #" shift "]")                                                \
    F(op " " reg ", [x1, w6, sxtw]")                                                           \
    F(op " " reg ", [x1, w6, sxtw #" shift "]")

#define GENERAL(F, verb, kind, reg, big, shift)                                                \
    OFFSETS(F, verb "r" kind, reg, big, shift)                                                 \
    F(verb "ur" kind " " reg ", [x1, #-1]")                                                    \
    F(verb "tr" kind " " reg ", [x1, #9]")

#define SCALAR(F, reg, big, shift)                                                             \
    OFFSETS(F, "ldr", reg, big, shift)                                                         \
    OFFSETS(F, "str", reg, big, shift)                                                         \
    F("ldur " reg ", [x1, #-3]")                                                               \
    F("stur " reg ", [x1, #-3]")

#define PAIR(F, verb, a, b, step)                                                              \
    F(verb "p " a ", " b ", [x1]")                                                             \
    F(verb "p " a ", " b ", [x1, #" step "]")                                                  \
    F(verb "p " a ", " b ", [x1, #-" step "]!")                                                \
    F(verb "p " a ", " b ", [x1], #" step)

#define PAIRS(F, a, b, step)                                                                   \
    PAIR(F, "ld", a, b, step)                                                                  \
    PAIR(F, "st", a, b, step)                                                                  \
    F("ldnp " a ", " b ", [x1, #" step "]")                                                    \
    F("stnp " a ", " b ", [x1, #-" step "]")

#define THREE_WAYS(F, text, bytes)                                                             \
    F(text ", [x1]")                                                                           \
    F(text ", [x1], #" bytes)                                                                  \
    F(text ", [x1], x2")

#define LISTS(F, v, k, b1, b2, b3, b4)                                                         \
    THREE_WAYS(F, v "1 {v0." k "}", b1)                                                        \
    THREE_WAYS(F, v "1 {v1." k ", v2." k "}", b2)                                              \
    THREE_WAYS(F, v "1 {v5." k ", v6." k ", v7." k "}", b3)                                    \
    THREE_WAYS(F, v "1 {v30." k ", v31." k ", v0." k ", v1." k "}", b4)

#define INTERLEAVED(F, v, k, b2, b3, b4)                                                       \
    THREE_WAYS(F, v "2 {v31." k ", v0." k "}", b2)                                             \
    THREE_WAYS(F, v "3 {v9." k ", v10." k ", v11." k "}", b3)                                  \
    THREE_WAYS(F, v "4 {v20." k ", v21." k ", v22." k ", v23." k "}", b4)

#define ARRANGEMENT(F, v)                                                                      \
    LISTS(F, v, "8b", "8", "16", "24", "32")                                                   \
    LISTS(F, v, "16b", "16", "32", "48", "64")                                                 \
    LISTS(F, v, "4h", "8", "16", "24", "32")                                                   \
    LISTS(F, v, "8h", "16", "32", "48", "64")                                                  \
    LISTS(F, v, "2s", "8", "16", "24", "32")                                                   \
    LISTS(F, v, "4s", "16", "32", "48", "64")                                                  \
    LISTS(F, v, "1d", "8", "16", "24", "32")                                                   \
    LISTS(F, v, "2d", "16", "32", "48", "64")                                                  \
    INTERLEAVED(F, v, "8b", "16", "24", "32")                                                  \
    INTERLEAVED(F, v, "16b", "32", "48", "64")                                                 \
    INTERLEAVED(F, v, "4h", "16", "24", "32")                                                  \
    INTERLEAVED(F, v, "8h", "32", "48", "64")                                                  \
    INTERLEAVED(F, v, "2s", "16", "24", "32")                                                  \
    INTERLEAVED(F, v, "4s", "32", "48", "64")                                                  \
    INTERLEAVED(F, v, "2d", "32", "48", "64")

#define LANE(F, v, e, i, b1, b2, b3, b4)                                                       \
    THREE_WAYS(F, v "1 {v0." e "}[" i "]", b1)                                                 \
    THREE_WAYS(F, v "2 {v31." e ", v0." e "}[" i "]", b2)                                      \
    THREE_WAYS(F, v "3 {v1." e ", v2." e ", v3." e "}[" i "]", b3)                             \
    THREE_WAYS(F, v "4 {v7." e ", v8." e ", v9." e ", v10." e "}[" i "]", b4)

#define LANES(F, v)                                                                            \
    LANE(F, v, "b", "0", "1", "2", "3", "4")                                                   \
    LANE(F, v, "b", "13", "1", "2", "3", "4")                                                  \
    LANE(F, v, "h", "1", "2", "4", "6", "8")                                                   \
    LANE(F, v, "h", "6", "2", "4", "6", "8")                                                   \
    LANE(F, v, "s", "0", "4", "8", "12", "16")                                                 \
    LANE(F, v, "s", "3", "4", "8", "12", "16")                                                 \
    LANE(F, v, "d", "0", "8", "16", "24", "32")                                                \
    LANE(F, v, "d", "1", "8", "16", "24", "32")

#define COPIES(F, k, b1, b2, b3, b4)                                                           \
    THREE_WAYS(F, "ld1r {v3." k "}", b1)                                                       \
    THREE_WAYS(F, "ld2r {v3." k ", v4." k "}", b2)                                             \
    THREE_WAYS(F, "ld3r {v3." k ", v4." k ", v5." k "}", b3)                                   \
    THREE_WAYS(F, "ld4r {v30." k ", v31." k ", v0." k ", v1." k "}", b4)

#define FORMS(F)                                                                               \
    GENERAL(F, "ld", "b", "w3", "77", "0")                                                     \
    GENERAL(F, "ld", "h", "w3", "78", "1")                                                     \
    GENERAL(F, "ld", "", "w3", "80", "2")                                                      \
    GENERAL(F, "ld", "", "x3", "80", "3")                                                      \
    GENERAL(F, "ld", "sb", "w3", "77", "0")                                                    \
    GENERAL(F, "ld", "sb", "x3", "77", "0")                                                    \
    GENERAL(F, "ld", "sh", "w3", "78", "1")                                                    \
    GENERAL(F, "ld", "sh", "x3", "78", "1")                                                    \
    GENERAL(F, "ld", "sw", "x3", "80", "2")                                                    \
    GENERAL(F, "st", "b", "w3", "77", "0")                                                     \
    GENERAL(F, "st", "h", "w3", "78", "1")                                                     \
    GENERAL(F, "st", "", "w3", "80", "2")                                                      \
    GENERAL(F, "st", "", "x3", "80", "3")                                                      \
    GENERAL(F, "st", "", "xzr", "80", "3")                                                     \
    GENERAL(F, "ld", "", "xzr", "80", "3")                                                     \
    SCALAR(F, "b0", "77", "0")                                                                 \
    SCALAR(F, "h1", "78", "1")                                                                 \
    SCALAR(F, "s2", "80", "2")                                                                 \
    SCALAR(F, "d31", "80", "3")                                                                \
    SCALAR(F, "q17", "80", "4")                                                                \
    PAIRS(F, "w3", "w4", "20")                                                                 \
    PAIRS(F, "x3", "x4", "24")                                                                 \
    PAIRS(F, "x3", "xzr", "24")                                                                \
    PAIR(F, "ld", "x27", "x28", "-40")                                                         \
    F("ldpsw x3, x4, [x1]")                                                                    \
    F("ldpsw x3, x4, [x1, #12]")                                                               \
    F("ldpsw x3, x4, [x1, #-12]!")                                                             \
    F("ldpsw x3, x4, [x1], #12")                                                               \
    PAIRS(F, "s0", "s5", "12")                                                                 \
    PAIRS(F, "d30", "d1", "24")                                                                \
    PAIRS(F, "q29", "q8", "48")                                                                \
    ARRANGEMENT(F, "ld")                                                                       \
    ARRANGEMENT(F, "st")                                                                       \
    LANES(F, "ld")                                                                             \
    LANES(F, "st")                                                                             \
    COPIES(F, "8b", "1", "2", "3", "4")                                                        \
    COPIES(F, "16b", "1", "2", "3", "4")                                                       \
    COPIES(F, "4h", "2", "4", "6", "8")                                                        \
    COPIES(F, "8h", "2", "4", "6", "8")                                                        \
    COPIES(F, "2s", "4", "8", "12", "16")                                                      \
    COPIES(F, "4s", "4", "8", "12", "16")                                                      \
    COPIES(F, "1d", "8", "16", "24", "32")                                                     \
    COPIES(F, "2d", "8", "16", "24", "32")

/* sp as base: it has to be aligned itself, only the offset may not be */
#define STACK_FORMS(F)                                                                         \
    F("ldur x3, [sp, #3]")                                                                     \
    F("stur x3, [sp, #-9]")                                                                    \
    F("ldr q0, [sp, w6, sxtw]")                                                                \
    F("str w3, [sp, x2]")                                                                      \
    F("ldr x3, [sp, #-9]!")

/* Left alone by the fixup. Across 16 bytes they fault on every memory type, with FEAT_LSE2 too */
#define REFUSED_FORMS(F)                                                                       \
    F("ldxr x3, [x1]")                                                                         \
    F("ldaxr x3, [x1]")                                                                        \
    F("ldar x3, [x1]")                                                                         \
    F("stlr x3, [x1]")                                                                         \
    F("ldadd x3, x4, [x1]")                                                                    \
    F("swp x3, x4, [x1]")                                                                      \
    F("cas x3, x4, [x1]")

#define SLOT(text)       text "\n\tret\n\t"
#define STACK_SLOT(text) "mov x17, sp\n\tmov sp, x1\n\t" text "\n\tmov x1, sp\n\tmov sp, x17\n\tret\n\t"
#define NAME(text)       text,

__asm__(".pushsection .text\n\t.arch armv8.2-a\n\t.balign 16\n\t"
        ".global form_slots, stack_slots, refused_slots, zero_block_slot\n"
        "form_slots:\n\t" FORMS(SLOT) "\n"
        "stack_slots:\n\t" STACK_FORMS(STACK_SLOT) "\n"
        "refused_slots:\n\t" REFUSED_FORMS(SLOT) "\n"
        "zero_block_slot:\n\tdc zva, x1\n\tret\n"
        ".popsection");

static const char *const form_names[] = {FORMS(NAME)};
static const char *const stack_names[] = {STACK_FORMS(NAME)};
static const char *const refused_names[] = {REFUSED_FORMS(NAME)};
extern const uint32_t form_slots[][2], stack_slots[][6], refused_slots[][2], zero_block_slot[];

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- running one instruction with all registers given ---- */

struct cpu {
    uint64_t x[32]; /* x16 to x18, x29 and x30 are not set */
    uint8_t v[32][16];
};

#define ALL_VECTORS(op)                                                                        \
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n\t" \
    op " q\\n, [x17, #(16 * \\n)]\n\t.endr\n\t"

void run_slot(struct cpu *cpu, const void *slot);
__asm__(".pushsection .text\n\t.balign 16\n\t.global run_slot\n\t.type run_slot, %function\n"
        "run_slot:\n\t"
        "stp x29, x30, [sp, #-192]!\n\t"
        "stp x19, x20, [sp, #16]\n\tstp x21, x22, [sp, #32]\n\tstp x23, x24, [sp, #48]\n\t"
        "stp x25, x26, [sp, #64]\n\tstp x27, x28, [sp, #80]\n\t"
        "stp d8, d9, [sp, #96]\n\tstp d10, d11, [sp, #112]\n\tstp d12, d13, [sp, #128]\n\t"
        "stp d14, d15, [sp, #144]\n\tstr x0, [sp, #160]\n\tmov x16, x1\n\t"
        "add x17, x0, #256\n\t"
        ALL_VECTORS("ldr")
        "ldp x2, x3, [x0, #16]\n\tldp x4, x5, [x0, #32]\n\tldp x6, x7, [x0, #48]\n\t"
        "ldp x8, x9, [x0, #64]\n\tldp x10, x11, [x0, #80]\n\tldp x12, x13, [x0, #96]\n\t"
        "ldp x14, x15, [x0, #112]\n\tldr x19, [x0, #152]\n\tldp x20, x21, [x0, #160]\n\t"
        "ldp x22, x23, [x0, #176]\n\tldp x24, x25, [x0, #192]\n\tldp x26, x27, [x0, #208]\n\t"
        "ldr x28, [x0, #224]\n\tldp x0, x1, [x0]\n\t"
        "blr x16\n\t"
        "str x0, [sp, #168]\n\tldr x0, [sp, #160]\n\t"
        "stp x2, x3, [x0, #16]\n\tstp x4, x5, [x0, #32]\n\tstp x6, x7, [x0, #48]\n\t"
        "stp x8, x9, [x0, #64]\n\tstp x10, x11, [x0, #80]\n\tstp x12, x13, [x0, #96]\n\t"
        "stp x14, x15, [x0, #112]\n\tstr x19, [x0, #152]\n\tstp x20, x21, [x0, #160]\n\t"
        "stp x22, x23, [x0, #176]\n\tstp x24, x25, [x0, #192]\n\tstp x26, x27, [x0, #208]\n\t"
        "str x28, [x0, #224]\n\tldr x2, [sp, #168]\n\tstp x2, x1, [x0]\n\t"
        "add x17, x0, #256\n\t"
        ALL_VECTORS("str")
        "ldp x19, x20, [sp, #16]\n\tldp x21, x22, [sp, #32]\n\tldp x23, x24, [sp, #48]\n\t"
        "ldp x25, x26, [sp, #64]\n\tldp x27, x28, [sp, #80]\n\t"
        "ldp d8, d9, [sp, #96]\n\tldp d10, d11, [sp, #112]\n\tldp d12, d13, [sp, #128]\n\t"
        "ldp d14, d15, [sp, #144]\n\tldp x29, x30, [sp], #192\n\tret\n"
        ".popsection");

struct caught {
    int signal, code;
    uintptr_t address;
    uint64_t x[31];
    uint64_t pc;
};

static __thread sigjmp_buf escape;
static __thread volatile bool escaping;
static __thread struct caught caught;

static void on_signal(int number, siginfo_t *info, void *context) {
    const ucontext_t *u = context;

    if (!escaping) {
        signal(number, SIG_DFL);
        return;
    }
    caught.signal = number;
    caught.code = info->si_code;
    caught.address = (uintptr_t)info->si_addr;
    caught.pc = u->uc_mcontext.pc;
    memcpy(caught.x, u->uc_mcontext.regs, sizeof(caught.x));
    siglongjmp(escape, 1);
}

/* The number of the signal that ended it, or 0. With a signal cpu is as it was. */
static int run(struct cpu *cpu, const void *slot) {
    if (sigsetjmp(escape, 0)) {
        escaping = false;
        return caught.signal;
    }
    escaping = true;
    run_slot(cpu, slot);
    escaping = false;
    return 0;
}

static void signals_on_own_stack(void) {
    struct sigaction action = {.sa_sigaction = on_signal,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};

    sigaltstack(&stack, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
}

/* ---- memory, registers, comparison ---- */

static uint64_t next(uint64_t *state) { /* xorshift64 */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Both areas with the same bytes; aligned accesses only, one may be Device */
static void fill(volatile uint64_t *a, volatile uint64_t *b, uint64_t seed) {
    for (unsigned i = 0; i < AREA / 8; i++)
        a[i] = b[i] = next(&seed);
}

static int first_difference(const volatile uint64_t *a, const volatile uint64_t *b) {
    for (unsigned i = 0; i < AREA / 8; i++)
        if (a[i] != b[i])
            return (int)(i * 8);
    return -1;
}

static void set_up(struct cpu *cpu, uintptr_t base, uint64_t seed) {
    for (unsigned i = 0; i < COUNT(cpu->x); i++)
        cpu->x[i] = next(&seed);
    for (unsigned i = 0; i < sizeof(cpu->v); i += 8) {
        uint64_t bits = next(&seed);
        memcpy((uint8_t *)cpu->v + i, &bits, 8);
    }
    cpu->x[1] = base;
    cpu->x[2] = 3;
    cpu->x[5] = 0xdeadbeef00000003;
    cpu->x[6] = 0x12345678fffffffd;
}

struct areas {
    uint8_t *device, *ram;
};

static bool alike(struct cpu *device, struct cpu *ram, struct areas at, char *why, size_t room) {
    int where = first_difference((uint64_t *)at.device, (uint64_t *)at.ram);

    device->x[1] -= (uintptr_t)at.device;
    ram->x[1] -= (uintptr_t)at.ram;
    for (unsigned i = 0; i < 29; i++)
        if ((i < 16 || i > 18) && device->x[i] != ram->x[i]) {
            snprintf(why, room, "x%u is %" PRIx64 ", on RAM %" PRIx64, i, device->x[i], ram->x[i]);
            return false;
        }
    for (unsigned i = 0; i < 32; i++)
        if (memcmp(device->v[i], ram->v[i], 16)) {
            snprintf(why, room, "v%u differs from RAM's", i);
            return false;
        }
    if (where >= 0)
        snprintf(why, room, "memory differs at %+d from the base", where - (int)CENTRE);
    return where < 0;
}

/* ---- reporting ---- */

static unsigned tests, failures;

static void report(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void report(bool ok, const char *format, ...) {
    va_list arguments;

    printf("%sok %u - ", ok ? "" : "not ", ++tests);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    failures += !ok;
}

static void cannot_run(const char *what, const char *hint) {
    printf("Bail out! %s: %s (%s)\n", what, strerror(errno), hint);
    exit(2);
}

static void set_switch(const char *value) {
    int fd = open(SWITCH, O_WRONLY);

    if (fd < 0 || write(fd, value, 1) != 1)
        cannot_run(SWITCH, "a kernel with CONFIG_ARM64_ALIGNMENT_FIXUP and root are needed");
    close(fd);
}

static long long counter(const char *name) {
    char path[128];
    long long value = -1;

    snprintf(path, sizeof(path), COUNTERS "%s", name);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%lld", &value) != 1)
        cannot_run(path, "is debugfs mounted?");
    fclose(file);
    return value;
}

/* ---- the tests ---- */

static bool *faults; /* [form][misalignment]: what happens with the fixup off */

/* One form at one misalignment: 0 alike, 1 differs, 2 a signal on Device, 3 on RAM */
static int compare(struct areas at, const void *slot, int aspect, uint64_t tag, uint64_t seed,
                   char *why, size_t room) {
    struct cpu device, ram;

    fill((uint64_t *)at.device, (uint64_t *)at.ram, seed);
    set_up(&device, (uintptr_t)at.device + CENTRE + (uintptr_t)aspect, seed + 1);
    device.x[1] |= tag;
    set_up(&ram, (uintptr_t)at.ram + CENTRE + (uintptr_t)aspect, seed + 1);
    if (run(&ram, slot)) {
        snprintf(why, room, "signal %d on RAM", caught.signal);
        return 3;
    }
    if (run(&device, slot)) {
        snprintf(why, room, "signal %d, code %d", caught.signal, caught.code);
        return 2;
    }
    device.x[1] -= tag;
    return alike(&device, &ram, at, why, room) ? 0 : 1;
}

static void test_off(struct areas at) {
    unsigned long faulting = 0, wrong = 0;
    char why[128];

    set_switch("0");
    long long fixed = counter("fixed"), unfixed = counter("unfixed");
    for (unsigned f = 0; f < COUNT(form_names); f++)
        for (unsigned m = 0; m < ASPECTS; m++) {
            int result = compare(at, form_slots[f], (int)m, 0, 1 + f * ASPECTS + m, why, sizeof(why));
            bool fault = result == 2 && caught.signal == SIGBUS && caught.code == BUS_ADRALN;

            faults[f * ASPECTS + m] = fault;
            faulting += fault;
            if (result && !fault) {
                printf("# %s at +%u: %s\n", form_names[f], m, why);
                wrong++;
            }
        }
    report(!wrong && faulting, "off: %lu of %zu accesses raise SIGBUS BUS_ADRALN", faulting,
           COUNT(form_names) * ASPECTS);
    report(counter("fixed") == fixed && counter("unfixed") == unfixed, "off: the counters stand still");
}

static void test_on(struct areas at) {
    unsigned long expected = 0, wrong = 0;
    char why[128];

    set_switch("1");
    long long fixed = counter("fixed"), unfixed = counter("unfixed");
    for (unsigned f = 0; f < COUNT(form_names); f++)
        for (unsigned m = 0; m < ASPECTS; m++) {
            expected += faults[f * ASPECTS + m];
            if (compare(at, form_slots[f], (int)m, 0, 7 + f * ASPECTS + m, why, sizeof(why))) {
                if (wrong++ < 40)
                    printf("# %s at +%u: %s\n", form_names[f], m, why);
            }
        }
    report(!wrong, "on: %zu forms at %u misalignments leave registers and memory as on RAM (%lu differ)",
           COUNT(form_names), ASPECTS, wrong);
    fixed = counter("fixed") - fixed;
    report(fixed == (long long)expected, "on: fixed rose by %lld, faults counted while off: %lu", fixed,
           expected);
    report(counter("unfixed") == unfixed, "on: unfixed stands still");
}

static void test_tagged(struct areas at) {
    unsigned long wrong = 0;
    char why[128];

    for (unsigned f = 0; f < COUNT(form_names); f++)
        if (compare(at, form_slots[f], 1, UINT64_C(0x5a) << 56, 3 + f, why, sizeof(why))) {
            if (wrong++ < 10)
                printf("# %s, tagged: %s\n", form_names[f], why);
        }
    report(!wrong, "on: a tag in the base's top byte is ignored and kept (%lu differ)", wrong);
}

static void test_stack_pointer(struct areas at) {
    for (unsigned f = 0; f < COUNT(stack_names); f++) {
        char why[128] = "";
        long long fixed = counter("fixed");
        int result = compare(at, stack_slots[f], 0, 0, 11 + f, why, sizeof(why));

        fixed = counter("fixed") - fixed;
        report(!result && fixed == 1, "on: %s as on RAM, %lld fixed %s", stack_names[f], fixed, why);
    }
}

static void test_refused(struct areas at) {
    bool lse = getauxval(AT_HWCAP) & (1 << 8); /* HWCAP_ATOMICS */
    unsigned tried = lse ? COUNT(refused_names) : 4, bus = 0;
    long long fixed = counter("fixed"), unfixed = counter("unfixed");

    for (unsigned f = 0; f < tried; f++) {
        struct cpu cpu;
        set_up(&cpu, (uintptr_t)at.device + CENTRE + 13, 17);
        if (run(&cpu, refused_slots[f]) == SIGBUS && caught.code == BUS_ADRALN && caught.x[3] == cpu.x[3])
            bus++;
        else
            printf("# %s: no SIGBUS\n", refused_names[f]);
    }
    unfixed = counter("unfixed") - unfixed;
    report(bus == tried, "on: %u of %u exclusives, ordered accesses and atomics still raise SIGBUS", bus,
           tried);
    report(unfixed == tried && counter("fixed") == fixed, "on: unfixed rose by %lld, fixed by none",
           unfixed);
}

static const void *slot_of(const char *text) {
    for (unsigned f = 0; f < COUNT(form_names); f++)
        if (!strcmp(form_names[f], text))
            return form_slots[f];
    abort();
}

/* At the end of a page whose next is missing, read-only, Device, or RAM */
static void test_page_crossing(const char *path, struct areas at) {
    static const char *const texts[] = {"ldr x3, [x1, #-5]!", "ldr x3, [x1], #7", "str x3, [x1, #-5]!",
                                        "str x3, [x1], #7", "ldp x3, x4, [x1], #24",
                                        "stp q29, q8, [x1], #48",
                                        "ld1 {v5.16b, v6.16b, v7.16b}, [x1], #48",
                                        "st4 {v20.4s, v21.4s, v22.4s, v23.4s}, [x1], #64"};
    int fd = open(path, O_RDWR);
    uint8_t *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct areas across = {pages + PAGE - CENTRE, at.ram};
    unsigned done = 0, faulted = 0, protected = 0, mixed = 0;
    char why[128];

    for (unsigned t = 0; t < COUNT(texts); t++) {
        const void *slot = slot_of(texts[t]);
        bool store = texts[t][0] == 's', pre = strchr(texts[t], '!');
        uintptr_t aim = (uintptr_t)pages + PAGE - 3 + (pre ? 5 : 0);

        mprotect(pages, 2 * PAGE, PROT_READ | PROT_WRITE);
        done += !compare(across, slot, -3 + (pre ? 5 : 0), 0, 91 + t, why, sizeof(why));

        for (int pass = 0; pass < 3; pass++) {
            struct cpu cpu, before;
            uint64_t *edge = (uint64_t *)(pages + PAGE - 64), kept[8];

            if (pass == 0)
                mprotect(pages + PAGE, PAGE, PROT_NONE);
            else if (pass == 1)
                mprotect(pages + PAGE, PAGE, PROT_READ);
            else
                munmap(pages + PAGE, PAGE);
            for (int i = 0; i < 8; i++)
                kept[i] = ((volatile uint64_t *)edge)[i];
            set_up(&cpu, aim, 51 + t);
            before = cpu;
            int sig = run(&cpu, slot);
            bool clean = true;
            for (int i = 0; i < 8; i++)
                clean &= kept[i] == ((volatile uint64_t *)edge)[i];
            if (pass == 1) {
                protected += store ? sig == SIGSEGV && clean && caught.x[1] == before.x[1] : sig == 0;
            } else {
                faulted += sig == SIGSEGV && clean && caught.address == (uintptr_t)pages + PAGE &&
                           caught.code == (pass ? SEGV_MAPERR : SEGV_ACCERR) &&
                           caught.x[1] == before.x[1] && caught.x[3] == before.x[3] &&
                           caught.x[4] == before.x[4] && caught.pc == (uintptr_t)slot;
            }
        }
        /* the second page is RAM now */
        mmap(pages + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        mixed += !compare(across, slot, -3 + (pre ? 5 : 0), 0, 191 + t, why, sizeof(why));
        munmap(pages + PAGE, PAGE);
        mmap(pages + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, PAGE);
    }
    report(done == COUNT(texts), "on: across two Device pages as on RAM (%u of %zu)", done, COUNT(texts));
    report(mixed == COUNT(texts), "on: from a Device page into RAM as on RAM (%u of %zu)", mixed,
           COUNT(texts));
    report(faulted == 2 * COUNT(texts),
           "on: into a missing page: SIGSEGV at its start, base, registers and memory untouched (%u of %zu)",
           faulted, 2 * COUNT(texts));
    report(protected == COUNT(texts),
           "on: into a read-only page: loads work, stores give SIGSEGV and store nothing (%u of %zu)",
           protected, COUNT(texts));
    munmap(pages, 2 * PAGE);
    close(fd);
}

static void test_zero_block(struct areas at) {
    struct cpu cpu;
    uint64_t dczid, seed = 5;

    __asm__("mrs %0, dczid_el0" : "=r"(dczid));
    unsigned size = 4u << (dczid & 15), wrong = 0;

    fill((uint64_t *)at.device, (uint64_t *)at.ram, seed);
    long long fixed = counter("fixed");
    set_up(&cpu, (uintptr_t)at.device + CENTRE + 9, 1);
    int sig = run(&cpu, zero_block_slot);
    for (unsigned i = 0; i < AREA; i++) {
        bool inside = i - (CENTRE + 9) / size * size < size;
        wrong += at.device[i] != (inside ? 0 : at.ram[i]);
    }
    fixed = counter("fixed") - fixed;
    report(!sig && !wrong, "on: DC ZVA zeroes its block of %u bytes and no more, %lld fixed (in QEMU 0)",
           size, fixed);
}

struct worker {
    pthread_t thread;
    struct areas at;
    unsigned long wrong, expected;
};

static void *work(void *argument) {
    struct worker *w = argument;
    char why[128];

    signals_on_own_stack();
    for (unsigned f = 0; f < COUNT(form_names); f++)
        for (unsigned m = 1; m < ASPECTS; m += 5) {
            w->expected += faults[f * ASPECTS + m];
            w->wrong += compare(w->at, form_slots[f], (int)m, 0, 31 + f, why, sizeof(why)) != 0;
        }
    return NULL;
}

static void test_concurrent(struct areas at) {
    long long fixed = counter("fixed");
    struct worker workers[2] = {0};
    pid_t child = fork();

    if (!child) {
        struct worker alone = {.at = {at.device + 4 * PAGE, at.ram + 4 * PAGE}};
        work(&alone);
        _exit(alone.wrong != 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        workers[i].at = (struct areas){at.device + (i + 1) * PAGE, at.ram + (i + 1) * PAGE};
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (unsigned i = 0; i < 2; i++)
        pthread_join(workers[i].thread, NULL);
    int status = 0;
    waitpid(child, &status, 0);
    fixed = counter("fixed") - fixed;
    report(!status && !workers[0].wrong && !workers[1].wrong,
           "on: two threads and a forked process at once, as on RAM");
    report(fixed == 3 * (long long)workers[0].expected, "on: at once, fixed rose by %lld, expected 3 x %lu",
           fixed, workers[0].expected);
}

static void test_single_step(struct areas at) {
    const void *slot = slot_of("ldr x3, [x1]");
    pid_t child = fork();
    struct user_regs_struct regs;
    struct iovec vector = {&regs, sizeof(regs)};
    int status, steps = 0;
    bool found = false;

    if (!child) {
        struct cpu cpu;
        set_up(&cpu, (uintptr_t)at.device + CENTRE + 1, 1);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        run_slot(&cpu, slot);
        _exit(0);
    }
    waitpid(child, &status, 0);
    while (WIFSTOPPED(status) && steps++ < 200000) {
        ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &vector);
        bool at_slot = regs.pc == (uintptr_t)slot;
        ptrace(PTRACE_SINGLESTEP, child, 0, 0);
        waitpid(child, &status, 0);
        if (at_slot && WIFSTOPPED(status)) {
            ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &vector);
            found = WSTOPSIG(status) == SIGTRAP && regs.pc == (uintptr_t)slot + 4;
            break;
        }
    }
    if (WIFSTOPPED(status))
        kill(child, SIGKILL);
    waitpid(child, &status, 0);
    report(found, "on: a single step over an emulated load stops at the next instruction");
}

#define SVE_CASE(name, instruction)                                                            \
    static void name(const void *base, uint8_t *out) {                                         \
        __asm__ volatile(".arch_extension sve\n\tptrue p0.b\n\tindex z0.b, #1, #3\n\t"         \
                         "index z1.b, #7, #5\n\t" instruction "\n\t"                           \
                         "st1b {z0.b}, p0, [%1]\n\tst1b {z1.b}, p0, [%1, #1, mul vl]\n\t"      \
                         :: "r"(base), "r"(out) : "p0", "v0", "v1", "memory");                 \
    }
SVE_CASE(sve_load, "ldr d0, [%0]")
SVE_CASE(sve_lane, "ld1 {v1.s}[2], [%0]")
SVE_CASE(sve_store, "str q1, [%0]")

static void test_sve(struct areas at) {
    void (*const cases[])(const void *, uint8_t *) = {sve_load, sve_lane, sve_store};
    static uint8_t device[512], ram[512];
    unsigned wrong = 0, length = (unsigned)prctl(PR_SVE_GET_VL) & PR_SVE_VL_LEN_MASK; /* bytes */

    if (!(getauxval(AT_HWCAP) & (1 << 22))) { /* HWCAP_SVE */
        printf("ok %u - on: Z registers # SKIP the CPU has no SVE\n", ++tests);
        return;
    }
    for (unsigned i = 0; i < COUNT(cases); i++) {
        fill((uint64_t *)at.device, (uint64_t *)at.ram, 77 + i);
        cases[i](at.ram + CENTRE + 1, ram);
        cases[i](at.device + CENTRE + 1, device);
        /* Every write of V1 clears the rest of Z1; QEMU 10.0 forgets that for LD1 of a lane */
        if (cases[i] == sve_lane)
            memset(ram + length + 16, 0, length - 16);
        wrong += memcmp(device, ram, sizeof(ram)) ||
                 first_difference((uint64_t *)at.device, (uint64_t *)at.ram) >= 0;
    }
    report(!wrong, "on: with live SVE state the Z registers come out as on RAM (%u of %zu differ)", wrong,
           COUNT(cases));
}

static double nanoseconds_each(volatile uint8_t *base, unsigned rounds) {
    struct timespec from, to;
    uint64_t unused;

    clock_gettime(CLOCK_MONOTONIC, &from);
    for (unsigned i = 0; i < rounds; i++)
        __asm__ volatile("ldr %0, [%1]" : "=r"(unused) : "r"(base) : "memory");
    clock_gettime(CLOCK_MONOTONIC, &to);
    return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / rounds;
}

static void test_cost(struct areas at) {
    double aligned = nanoseconds_each(at.device + CENTRE, 1000000);
    double fixed = nanoseconds_each(at.device + CENTRE + 1, 50000);

    report(fixed > aligned, "cost: 8-byte load on Device memory %.0f ns aligned, %.0f ns fixed, ratio %.0f",
           aligned, fixed, fixed / aligned);
}

static void show_sites(void) {
    char line[512];
    unsigned shown = 0;
    FILE *file = fopen(COUNTERS "sites", "r");

    while (file && fgets(line, sizeof(line), file))
        if (shown++ < 5 || !strncmp(line, "# dropped", 9))
            printf("# sites: %s", line);
    if (file)
        fclose(file);
}

/* ---- start ---- */

static const char *find_bar(void) {
    static char path[256];
    char text[32];
    glob_t found;

    if (glob("/sys/bus/pci/devices/*/device", 0, NULL, &found))
        cannot_run("/sys/bus/pci/devices", "no PCI device");
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *file = fopen(found.gl_pathv[i], "r");
        bool ivshmem = file && fgets(text, sizeof(text), file) && !strncmp(text, "0x1110", 6);
        if (file)
            fclose(file);
        if (!ivshmem)
            continue;
        char *slash = strrchr(found.gl_pathv[i], '/');
        snprintf(path, sizeof(path), "%.*s/enable", (int)(slash - found.gl_pathv[i]), found.gl_pathv[i]);
        int fd = open(path, O_WRONLY);
        if (fd < 0 || write(fd, "1", 1) != 1)
            cannot_run(path, "root is needed");
        close(fd);
        snprintf(path, sizeof(path), "%.*s/resource2", (int)(slash - found.gl_pathv[i]),
                 found.gl_pathv[i]);
        return path;
    }
    errno = ENODEV;
    cannot_run("ivshmem (1af4:1110)", "give a sysfs resource file instead");
    return NULL;
}

static void be_init(void) {
    mkdir("/proc", 0755), mkdir("/sys", 0755), mkdir("/dev", 0755);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
}

static int laboratory(const char *path) {
    const size_t size = 8 * PAGE;
    int fd = open(path, O_RDWR | O_SYNC);
    struct areas at;

    at.device = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    at.ram = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    faults = calloc(COUNT(form_names), ASPECTS);
    if (fd < 0 || at.device == MAP_FAILED || at.ram == MAP_FAILED || !faults)
        cannot_run(path, "a memory BAR of at least 32 KiB is needed");
    close(fd);
    signals_on_own_stack();

    printf("# %s, %ld CPUs\n", path, sysconf(_SC_NPROCESSORS_ONLN));
    test_off(at);
    test_on(at);
    test_tagged(at);
    test_stack_pointer(at);
    test_refused(at);
    test_page_crossing(path, at);
    test_zero_block(at);
    test_concurrent(at);
    test_single_step(at);
    test_sve(at);
    test_cost(at);
    set_switch("0");
    show_sites();
    printf("1..%u\n", tests);
    printf("# %s: %u failed of %u\n", failures ? "FAIL" : "PASS", failures, tests);
    return failures != 0;
}

int main(int count, char **words) {
    bool init = getpid() == 1;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (init)
        be_init();
    mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
    int status = laboratory(count > 1 && !init ? words[1] : find_bar());
    if (init) {
        printf("# exit status %d\n", status);
        reboot(RB_POWER_OFF);
    }
    return status;
}
