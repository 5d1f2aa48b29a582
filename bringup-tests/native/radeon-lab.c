/* SPDX-License-Identifier: MIT */
/* How a Radeon's buffers are mapped for a program: by behaviour, one JSON line a kind of buffer.
 *
 *   radeon-lab [KIND...]     vram, system, system-wc, system-uc; all of them when none is named
 *
 * The first node in /dev/dri whose driver is radeon is asked for a buffer in card memory and for buffers in
 * system memory of each caching kind (Linux include/uapi/drm/radeon_drm.h). Each is mapped, written and read
 * with aligned accesses, and then touched with one unaligned 8-byte store and load: Device memory answers
 * that with SIGBUS (Arm ARM, "Alignment of data accesses": an unaligned access to any type of Device memory
 * faults), Normal memory, cacheable or not, does not.
 *
 * No command is sent to the card, so its rings need not work. Exit status: 0 measured, whatever was found;
 * 1 no radeon, or it gave no buffer. */
#include <drm/drm.h>
#include <drm/radeon_drm.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 64 * 1024, NODES = 16 };

static sigjmp_buf fault;
static volatile sig_atomic_t fault_code;

static void on_sigbus(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	fault_code = info->si_code;
	siglongjmp(fault, 1);
}

/* One 8-byte store and load at an odd address; true when the processor took both. */
static bool unaligned(unsigned char *at)
{
	uint64_t value = UINT64_C(0x1122334455667788), back = 0;

	if (sigsetjmp(fault, 1) != 0)
		return false;
#if defined(__aarch64__)
	__asm__ volatile("str %1, [%2]\n\tldr %0, [%2]" : "=&r"(back) : "r"(value), "r"(at + 1) : "memory");
#else
	memcpy(at + 1, &value, sizeof(value));
	memcpy(&back, at + 1, sizeof(back));
#endif
	return back == value;
}

static bool aligned(unsigned char *at)
{
	volatile uint64_t *words = (volatile uint64_t *)(void *)at;

	for (uint64_t i = 0; i < BYTES / 8; i++)
		words[i] = i * UINT64_C(0x9e3779b97f4a7c15);
	for (uint64_t i = 0; i < BYTES / 8; i++)
		if (words[i] != i * UINT64_C(0x9e3779b97f4a7c15))
			return false;
	return true;
}

/* The node's descriptor when its driver is radeon, or -1. */
static int open_radeon(const char *form, int number)
{
	char path[32], driver[16] = "";
	struct drm_version version = {.name = driver, .name_len = sizeof(driver) - 1};

	snprintf(path, sizeof(path), form, number);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (ioctl(fd, DRM_IOCTL_VERSION, &version) == 0 && strcmp(driver, "radeon") == 0)
		return fd;
	close(fd);
	return -1;
}

static int find_radeon(void)
{
	int fd;

	for (int i = 0; i < NODES; i++)
		if ((fd = open_radeon("/dev/dri/renderD%d", 128 + i)) >= 0)
			return fd;
	for (int i = 0; i < NODES; i++)
		if ((fd = open_radeon("/dev/dri/card%d", i)) >= 0)
			return fd;
	return -1;
}

/* A mapped buffer, or MAP_FAILED with errno set. */
static void *buffer(int fd, uint32_t domain, uint32_t flags)
{
	struct drm_radeon_gem_create create = {
		.size = BYTES, .alignment = 4096, .initial_domain = domain, .flags = flags};

	if (ioctl(fd, DRM_IOCTL_RADEON_GEM_CREATE, &create) != 0)
		return MAP_FAILED;
	struct drm_radeon_gem_mmap map = {.handle = create.handle, .size = BYTES};
	if (ioctl(fd, DRM_IOCTL_RADEON_GEM_MMAP, &map) != 0)
		return MAP_FAILED;
	return mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)map.addr_ptr);
}

static const struct {
	const char *name;
	uint32_t domain, flags;
} kinds[] = {
	{"vram", RADEON_GEM_DOMAIN_VRAM, 0},
	/* Placed by the CPU domain: a card whose rings failed has no GART to bind to. Mapped alike. */
	{"system", RADEON_GEM_DOMAIN_CPU, 0},
	{"system-wc", RADEON_GEM_DOMAIN_CPU, RADEON_GEM_GTT_WC},
	{"system-uc", RADEON_GEM_DOMAIN_CPU, RADEON_GEM_GTT_UC},
};

static bool asked(const char *name, char *const *names)
{
	if (!*names)
		return true;
	for (; *names; names++)
		if (strcmp(*names, name) == 0)
			return true;
	return false;
}

int main(int count, char **words)
{
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
	int fd = find_radeon();

	if (fd < 0) {
		fprintf(stderr, "radeon-lab: no node in /dev/dri belongs to the radeon driver\n");
		return 1;
	}
	(void)count;
	sigaction(SIGBUS, &action, NULL);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (!asked(kinds[i].name, words + 1))
			continue;
		unsigned char *mapped = buffer(fd, kinds[i].domain, kinds[i].flags);
		if (mapped == MAP_FAILED) {
			fprintf(stderr, "radeon-lab: no buffer of kind %s: %s\n", kinds[i].name, strerror(errno));
			return 1;
		}
		fault_code = 0;
		bool right = aligned(mapped), taken = unaligned(mapped);
		printf("{\"buffer\": \"%s\", \"bytes\": \"%s\", \"unaligned\": \"%s\"}\n", kinds[i].name,
		       right ? "right" : "wrong",
		       taken ? "taken" : fault_code == BUS_ADRALN ? "alignment fault" : "another fault");
		munmap(mapped, BYTES);
	}
	close(fd);
	return 0;
}
