/* SPDX-License-Identifier: MIT */
/* Device memory lab: the C library's copies, and an aligned-access helper, over all small sizes and offsets.
 *
 *   align-lab BAR [LARGEST]    BAR: /sys/bus/pci/devices/.../resourceN of a prefetchable BAR of 1 MiB or
 *                              more; LARGEST: all sizes up to it and no more, for a quick look
 *
 * Each function runs on three mappings: RAM, the BAR as Normal-NC (BAR_wc) and the BAR as Device-nGnRE (BAR;
 * kernel 7.3 Documentation/PCI/sysfs-pci.rst, arch/arm64/include/asm/pgtable.h pgprot_device). Per function
 * and mapping one JSON line: how many combinations there were, how many died of an alignment fault, the
 * first of these, and how many of the others left a wrong byte, guard bytes around the target included.
 *
 * The bytes are put there and looked at with aligned 8-byte accesses only. Exit status: 0 measured, whatever
 * was found; 1 could not be measured. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The helper under test, Mesa's src/util/u_device_memory.c of patches/mesa/aligned-access, if it is linked in. */
void util_device_copy_to(void *mapped, const void *source, size_t size) __attribute__((weak));
void util_device_copy_from(void *target, const void *mapped, size_t size) __attribute__((weak));
void util_device_move(void *mapped_target, const void *mapped_source, size_t size) __attribute__((weak));
void util_device_fill(void *mapped, int byte, size_t size) __attribute__((weak));

enum {
	SPAN = 1 << 18,       /* bytes of each mapping that are used */
	GUARD = 64,           /* bytes looked at on both sides of the target */
	TARGETS = 16,         /* target offsets 0..15 */
	SOURCES = 8,          /* source offsets 0..7 */
	DENSE = 300,          /* all sizes up to here, then those of `large` */
	FILL = 0xa5,
};

static const size_t large[] = {383, 384, 511, 512, 515, 768, 1000, 1024, 4095, 4096, 4099, 65536, 65541};

enum direction { TO, FROM, WITHIN, SET };

static const char *const directions[] = {"to", "from", "within", "set"};

typedef void operation(unsigned char *target, const unsigned char *source, size_t size);

static void run_memcpy(unsigned char *t, const unsigned char *s, size_t n) { memcpy(t, s, n); }
static void run_memmove(unsigned char *t, const unsigned char *s, size_t n) { memmove(t, s, n); }
static void run_memset(unsigned char *t, const unsigned char *s, size_t n) { (void)s; memset(t, FILL, n); }
static void run_clear(unsigned char *t, const unsigned char *s, size_t n) { (void)s; memset(t, 0, n); }
static void run_helper_to(unsigned char *t, const unsigned char *s, size_t n) { util_device_copy_to(t, s, n); }
static void run_helper_from(unsigned char *t, const unsigned char *s, size_t n) { util_device_copy_from(t, s, n); }
static void run_helper_move(unsigned char *t, const unsigned char *s, size_t n) { util_device_move(t, s, n); }
static void run_helper_fill(unsigned char *t, const unsigned char *s, size_t n) { (void)s; util_device_fill(t, FILL, n); }
static void run_helper_clear(unsigned char *t, const unsigned char *s, size_t n) { (void)s; util_device_fill(t, 0, n); }

struct function {
	const char *name;
	operation *run;
	enum direction direction;
	int value;           /* of SET: the byte that must be there */
	bool helper;
};

static const struct function functions[] = {
	{"memcpy", run_memcpy, TO, 0, false},
	{"memcpy", run_memcpy, FROM, 0, false},
	{"memmove", run_memmove, TO, 0, false},
	{"memmove", run_memmove, FROM, 0, false},
	{"memmove", run_memmove, WITHIN, 0, false},
	{"memset", run_memset, SET, FILL, false},
	{"memset 0", run_clear, SET, 0, false},
	{"util_device_copy_to", run_helper_to, TO, 0, true},
	{"util_device_copy_from", run_helper_from, FROM, 0, true},
	{"util_device_move", run_helper_move, WITHIN, 0, true},
	{"util_device_fill", run_helper_fill, SET, FILL, true},
	{"util_device_fill 0", run_helper_clear, SET, 0, true},
};

struct memory {
	const char *name;
	unsigned char *at;
};

struct result {
	unsigned combinations, faults, wrong;
	size_t size, target, source; /* of the first fault */
	uintptr_t address;           /* of the first fault, relative to the target or the source in the BAR */
};

static sigjmp_buf escape;
static volatile uintptr_t fault_address;

static void on_fault(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_code != BUS_ADRALN) {
		signal(number, SIG_DFL);
		return;
	}
	fault_address = (uintptr_t)info->si_addr;
	siglongjmp(escape, 1);
}

/* The byte that stands at position `i` before an operation. */
static unsigned char pattern(size_t i, unsigned salt)
{
	return (unsigned char)(i * 37 + (i >> 8) * 11 + salt);
}

static void put(unsigned char *to, const unsigned char *from, size_t size)
{
	for (size_t i = 0; i < size; i += 8) {
		uint64_t word;
		memcpy(&word, from + i, 8);
		*(volatile uint64_t *)(to + i) = word;
	}
}

static void get(unsigned char *to, const unsigned char *from, size_t size)
{
	for (size_t i = 0; i < size; i += 8) {
		uint64_t word = *(const volatile uint64_t *)(from + i);
		memcpy(to + i, &word, 8);
	}
}

/* The scene of one combination: both windows' bytes before, and the target's after. */
struct scene {
	unsigned char *target_window, *source_window;
	size_t window;        /* bytes, a multiple of 8 */
};

static unsigned char before[SPAN], after[SPAN], sources[SPAN];

/* Run one combination; true when it ended, false when it faulted. */
static bool attempt(const struct function *f, unsigned char *target, const unsigned char *source, size_t size)
{
	if (sigsetjmp(escape, 0))
		return false;
	f->run(target, source, size);
	return true;
}

static bool bytes_right(const struct function *f, size_t size, size_t target, size_t source, size_t window)
{
	const size_t start = GUARD + target;
	for (size_t i = 0; i < window; i++) {
		unsigned char wanted = before[i];
		if (i >= start && i < start + size)
			wanted = f->direction == SET ? (unsigned char)f->value : sources[GUARD + source + i - start];
		if (after[i] != wanted)
			return false;
	}
	return true;
}

static void combination(const struct function *f, const struct scene *scene, size_t size, size_t target,
                        size_t source, struct result *result)
{
	const size_t window = scene->window;
	put(scene->target_window, before, window);
	unsigned char *to = scene->target_window + GUARD + target;
	const unsigned char *from = scene->source_window + GUARD + source;
	result->combinations++;
	if (attempt(f, to, from, size)) {
		get(after, scene->target_window, window);
		if (!bytes_right(f, size, target, source, window))
			result->wrong++;
		return;
	}
	if (result->faults++ == 0) {
		result->size = size, result->target = target, result->source = source;
		result->address = fault_address - (uintptr_t)(f->direction == FROM ? from : to);
	}
}

static void one_size(const struct function *f, const struct memory *memory, unsigned char *ram, size_t size,
                     struct result *result)
{
	/* Windows that do not overlap, in the halves of the mapping or in RAM, as the direction has it. */
	struct scene scene = {
		.target_window = f->direction == FROM ? ram : memory->at,
		.source_window = f->direction == TO || f->direction == SET ? ram + SPAN / 2 : memory->at + SPAN / 2,
		.window = (size + TARGETS + 2 * GUARD + 7) & ~(size_t)7,
	};
	const size_t last = f->direction == SET ? 1 : SOURCES;
	put(scene.source_window, sources, scene.window);
	for (size_t target = 0; target < TARGETS; target++)
		for (size_t source = 0; source < last; source++)
			combination(f, &scene, size, target, source, result);
}

static void measure(const struct function *f, const struct memory *memory, unsigned char *ram, size_t largest)
{
	struct result r = {0};
	for (size_t size = 0; size <= largest; size++)
		one_size(f, memory, ram, size, &r);
	for (size_t i = 0; largest == DENSE && i < sizeof large / sizeof *large; i++)
		one_size(f, memory, ram, large[i], &r);
	printf("{\"memory\": \"%s\", \"function\": \"%s\", \"direction\": \"%s\", \"combinations\": %u, \"faults\": %u, "
	       "\"wrong\": %u", memory->name, f->name, directions[f->direction], r.combinations, r.faults, r.wrong);
	if (r.faults)
		printf(", \"first\": {\"size\": %zu, \"target\": %zu, \"source\": %zu, \"at\": %td}", r.size, r.target,
		       r.source, (ptrdiff_t)r.address);
	puts("}");
	fflush(stdout);
}

static unsigned char *mapped(const char *path, const char *suffix)
{
	char name[512];
	snprintf(name, sizeof name, "%s%s", path, suffix);
	int fd = open(name, O_RDWR | O_SYNC | O_CLOEXEC);
	void *at = fd < 0 ? MAP_FAILED : mmap(NULL, SPAN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		fprintf(stderr, "align-lab: %s: %s\n", name, strerror(errno));
		exit(1);
	}
	close(fd);
	return at;
}

int main(int argc, char **argv)
{
	size_t largest = argc == 3 ? strtoul(argv[2], NULL, 10) : DENSE;
	if (argc < 2 || argc > 3 || largest > DENSE) {
		fputs("usage: align-lab /sys/bus/pci/devices/.../resourceN [LARGEST]\n", stderr);
		return 1;
	}
	unsigned char *ram = mmap(NULL, SPAN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *other = mmap(NULL, SPAN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct memory memories[] = {
		{"ram", other}, {"normal-nc", mapped(argv[1], "_wc")}, {"device", mapped(argv[1], "")},
	};
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
	if (ram == MAP_FAILED || other == MAP_FAILED || sigaction(SIGBUS, &action, NULL))
		return 1;
	for (size_t i = 0; i < SPAN; i++) {
		before[i] = pattern(i, 3);
		sources[i] = pattern(i, 101);
	}
	for (size_t m = 0; m < sizeof memories / sizeof *memories; m++)
		for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
			if (!functions[f].helper || util_device_copy_to)
				measure(&functions[f], &memories[m], ram, largest);
	return 0;
}
