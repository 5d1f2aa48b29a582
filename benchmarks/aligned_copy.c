/* SPDX-License-Identifier: MIT */
/* What Mesa's aligned copies (topic aligned-access) cost.
 *
 *   aligned_copy                                  normal memory: util_copy_to_mapped() while GPU memory is not
 *                                                 Device memory, that is one branch and memcpy(), against memcpy()
 *   aligned_copy --device PATH [--offset BYTES]   a mapping of PATH (a PCI BAR, /sys/bus/pci/.../resource2):
 *                                                 util_device_copy_to() against a loop over bytes, the copy that
 *                                                 people use who only want to be safe
 *
 * One JSON object a size: {"bytes": N, "ours_ns": X, "theirs_ns": Y}, best of several rounds taken in turns. */
#include "u_device_memory.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SMALLEST = 64, LARGEST = 1 << 20, ROUNDS = 500 };

typedef void copy(void *to, const void *from, size_t n);

static void __attribute__((noinline, aligned(64))) plain(void *to, const void *from, size_t n)
{
	memcpy(to, from, n);
}

static void __attribute__((noinline, aligned(64))) mesa(void *to, const void *from, size_t n)
{
	util_copy_to_mapped(to, from, n);
}

static void __attribute__((noinline, aligned(64))) bytes(void *to, const void *from, size_t n)
{
	volatile uint8_t *d = to;
	const uint8_t *s = from;
	while (n--)
		*d++ = *s++;
}

static double nanoseconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Nanoseconds for one copy of n bytes, over about `total` bytes. */
static double measured(copy *do_copy, void *to, const void *from, size_t n, size_t total)
{
	size_t times = total / n + 1;
	double start = nanoseconds();
	for (size_t i = 0; i < times; i++) {
		do_copy(to, from, n);
		__asm__ volatile("" ::: "memory");
	}
	return (nanoseconds() - start) / (double)times;
}

static void compare(copy *ours, copy *theirs, void *to, const void *from, size_t n, size_t total)
{
	double best[2] = {1e18, 1e18};
	for (unsigned round = 0; round < ROUNDS; round++) {
		/* In turns, and each first as often as second: the machine has other things to do. */
		for (unsigned i = 0; i < 2; i++) {
			unsigned which = (i + round) % 2;
			double time = measured(which ? theirs : ours, to, from, n, total);
			if (time < best[which])
				best[which] = time;
		}
	}
	printf("{\"bytes\": %zu, \"ours_ns\": %.2f, \"theirs_ns\": %.2f}\n", n, best[0], best[1]);
	fflush(stdout);
}

static int fail(const char *what)
{
	perror(what);
	return 1;
}

int main(int argc, char **argv)
{
	const char *device = NULL;
	unsigned long long offset = 0;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--device") && i + 1 < argc)
			device = argv[++i];
		else if (!strcmp(argv[i], "--offset") && i + 1 < argc)
			offset = strtoull(argv[++i], NULL, 0);
		else {
			fprintf(stderr, "usage: aligned_copy [--device PATH [--offset BYTES]]\n");
			return 2;
		}
	}

	uint8_t *from = aligned_alloc(4096, LARGEST), *to = aligned_alloc(4096, LARGEST);
	if (!from || !to)
		return fail("aligned_copy");
	memset(from, 0x5a, LARGEST);
	memset(to, 0, LARGEST);

	if (!device) {
		for (size_t n = SMALLEST; n <= LARGEST; n *= 4)
			compare(mesa, plain, to, from, n, 2u << 20);
		return 0;
	}

	int fd = open(device, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return fail(device);
	uint8_t *mapped = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (mapped == MAP_FAILED)
		return fail(device);
	for (size_t n = SMALLEST; n <= LARGEST; n *= 4)
		compare(util_device_copy_to, bytes, mapped, from, n, 1u << 18);
	return 0;
}
