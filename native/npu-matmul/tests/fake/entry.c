/* SPDX-License-Identifier: MIT
 *
 * The C library's calls, answered for the fake nodes and passed to the kernel for all else.
 */
#undef _FILE_OFFSET_BITS
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"
#include "../../src/uapi-rocket.h"

#define EXPORT __attribute__((visibility("default")))

enum { FILES = 64 };

enum fake_kind fake_kind;
unsigned fake_version;
bool fake_misc;
struct fake_counts counts;

static const char *const fault_names[FAULT_COUNT] = {
        "alloc", "map", "high", "edge", "timeout", "hang", "vanish", "eintr", "name", "denied", "no-iommu", "sync",
        "zero-jiffies", "belief-rows", "belief-rdma", "belief-banks",
};
static long strikes[FAULT_COUNT];       /* 0: never, -1: each time, N: the N-th time */
static unsigned long occasions[FAULT_COUNT];
static int files[FILES], file_count;
static bool configured;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void fake_configure(const char *kind, const char *faults)
{
        char words[256], *state = NULL;

        configured = true;
        fake_kind = !kind ? FAKE_NONE : !strcmp(kind, "rocket") ? FAKE_ROCKET : !strncmp(kind, "rknpu", 5) ? FAKE_RKNPU
                                                                                                       : FAKE_NONE;
        fake_misc = kind && !strncmp(kind, "rknpu-misc", 10);
        fake_version = kind && strstr(kind, "0.9.2") ? 902 : kind && strstr(kind, "0.9.6") ? 906 : 908;
        memset(strikes, 0, sizeof(strikes));
        memset(occasions, 0, sizeof(occasions));
        counts = (struct fake_counts){ .files = counts.files, .buffers = counts.buffers, .mappings = counts.mappings };
        snprintf(words, sizeof(words), "%s", faults ? faults : "");
        for (char *word = strtok_r(words, ",", &state); word; word = strtok_r(NULL, ",", &state)) {
                const size_t length = strcspn(word, "=");
                bool known = false;

                for (int i = 0; i < FAULT_COUNT; i++) {
                        if (strlen(fault_names[i]) != length || strncmp(fault_names[i], word, length))
                                continue;
                        strikes[i] = word[length] ? strtol(word + length + 1, NULL, 10) : -1;
                        known = true;
                }
                if (!known) {
                        fprintf(stderr, "fake-npu: no fault %s\n", word);
                        abort();
                }
        }
}

static void report(void)
{
        if (getenv("FAKE_NPU_REPORT"))
                fprintf(stderr,
                        "fake-npu: %lu submissions, %lu lists, %u violations (%s), left: %u files, %u buffers, "
                        "%u mappings\n",
                        counts.submissions, counts.lists, counts.violations, counts.first, counts.files, counts.buffers,
                        counts.mappings);
}

static void configure_once(void)
{
        if (configured)
                return;
        fake_configure(getenv("FAKE_NPU"), getenv("FAKE_NPU_FAULTS"));
        atexit(report);
}

const struct fake_counts *fake_counts(void)
{
        return &counts;
}

bool fake_fault(enum fake_fault fault)
{
        if (strikes[fault] == 0)
                return false;
        occasions[fault]++;
        return strikes[fault] < 0 || occasions[fault] == (unsigned long)strikes[fault];
}

bool fake_belief(enum fake_fault belief)
{
        return strikes[belief] != 0;
}

int fake_error(int error)
{
        errno = error;
        return -1;
}

void fake_violation(const char *format, ...)
{
        va_list values;

        va_start(values, format);
        if (counts.violations++ == 0)
                vsnprintf(counts.first, sizeof(counts.first), format, values);
        va_end(values);
}

static bool ours(int fd)
{
        for (int i = 0; i < file_count; i++)
                if (files[i] == fd)
                        return true;
        return false;
}

static bool is_node(const char *path)
{
        if (strncmp(path, "/dev/", 5))
                return false;
        configure_once();
        if (fake_kind == FAKE_ROCKET)
                return !strcmp(path, "/dev/accel/accel0");
        if (fake_kind == FAKE_RKNPU)
                return !strcmp(path, fake_misc ? "/dev/rknpu" : "/dev/dri/renderD129");
        return false;
}

static int open_any(int directory, const char *path, int flags, mode_t mode)
{
        int fd;

        if (!path || !is_node(path))
                return (int)syscall(SYS_openat, directory, path, flags, mode);
        if (fake_fault(FAULT_DENIED))
                return fake_error(EACCES);
        pthread_mutex_lock(&lock);
        if (!(flags & O_CLOEXEC))
                fake_violation("%s opened without O_CLOEXEC", path);
        fd = memfd_create("fake-npu-node", MFD_CLOEXEC);
        if (fd >= 0 && file_count < FILES) {
                files[file_count++] = fd;
                counts.files++;
        }
        pthread_mutex_unlock(&lock);
        return fd;
}

#define MODE(flags, last)                                                                                              \
        mode_t mode = 0;                                                                                               \
        if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                                       \
                va_list values;                                                                                        \
                va_start(values, last);                                                                                \
                mode = va_arg(values, mode_t);                                                                         \
                va_end(values);                                                                                        \
        }

EXPORT int open(const char *path, int flags, ...)
{
        MODE(flags, flags)
        return open_any(AT_FDCWD, path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...)
{
        MODE(flags, flags)
        return open_any(AT_FDCWD, path, flags, mode);
}

EXPORT int openat(int directory, const char *path, int flags, ...)
{
        MODE(flags, flags)
        return open_any(directory, path, flags, mode);
}

EXPORT int openat64(int directory, const char *path, int flags, ...)
{
        MODE(flags, flags)
        return open_any(directory, path, flags, mode);
}

/* Fortified callers come here. */
EXPORT int __open_2(const char *path, int flags);
EXPORT int __open_2(const char *path, int flags)
{
        return open_any(AT_FDCWD, path, flags, 0);
}

EXPORT int __open64_2(const char *path, int flags);
EXPORT int __open64_2(const char *path, int flags)
{
        return open_any(AT_FDCWD, path, flags, 0);
}

EXPORT int close(int fd)
{
        pthread_mutex_lock(&lock);
        for (int i = 0; i < file_count; i++) {
                if (files[i] != fd)
                        continue;
                files[i] = files[--file_count];
                counts.files--;
                fake_close_file(fd);
        }
        pthread_mutex_unlock(&lock);
        return (int)syscall(SYS_close, fd);
}

static void put_string(char *to, size_t *size, const char *text)
{
        if (to && *size)
                memcpy(to, text, *size < strlen(text) ? *size : strlen(text));  /* no terminator, as the kernel does */
        *size = strlen(text);
}

static int version(struct nm_drm_version *args)
{
        const bool rocket = fake_kind == FAKE_ROCKET;

        if (fake_misc)
                return fake_error(ENOTTY);
        args->major = 0;
        args->minor = rocket ? 0 : 9;
        args->patch = rocket ? 0 : (int)fake_version % 100;
        put_string(args->name, &args->name_size, fake_belief(FAULT_NAME) ? "panthor" : rocket ? "rocket" : "rknpu");
        put_string(args->date, &args->date_size, rocket ? "" : fake_version == 902 ? "20230825" : "20240828");
        put_string(args->text, &args->text_size, "an NPU that is not there");
        return 0;
}

EXPORT int ioctl(int fd, unsigned long code, ...)
{
        va_list values;
        void *argument;
        int result;

        va_start(values, code);
        argument = va_arg(values, void *);
        va_end(values);
        if (!ours(fd))
                return (int)syscall(SYS_ioctl, fd, code, argument);
        pthread_mutex_lock(&lock);
        if (strikes[FAULT_EINTR] && counts.calls++ % 2 == 0)
                result = fake_error(EINTR);
        else if (code == NM_DRM_VERSION)
                result = version(argument);
        else
                result = fake_kind == FAKE_ROCKET ? fake_rocket_ioctl(fd, code, argument)
                                                  : fake_rknpu_ioctl(fd, code, argument);
        pthread_mutex_unlock(&lock);
        return result;
}

static void *map_any(void *hint, size_t size, int protection, int flags, int fd, off_t offset)
{
        struct fake_buffer *buffer;
        void *mapped;

        if (fd < 0 || !ours(fd))
                return (void *)syscall(SYS_mmap, hint, size, protection, flags, fd, offset);
        if (fake_fault(FAULT_MAP)) {
                errno = ENOMEM;
                return MAP_FAILED;
        }
        pthread_mutex_lock(&lock);
        buffer = fake_by_offset(fd, (uint64_t)offset);
        if (!buffer || size != buffer->size) {
                pthread_mutex_unlock(&lock);
                errno = EINVAL;
                return MAP_FAILED;
        }
        mapped = (void *)syscall(SYS_mmap, hint, size, protection, flags, buffer->memory, 0L);
        if (mapped != MAP_FAILED) {
                buffer->mapped = mapped;
                counts.mappings++;
        }
        pthread_mutex_unlock(&lock);
        return mapped;
}

EXPORT void *mmap(void *hint, size_t size, int protection, int flags, int fd, off_t offset)
{
        return map_any(hint, size, protection, flags, fd, offset);
}

EXPORT void *mmap64(void *hint, size_t size, int protection, int flags, int fd, off64_t offset)
{
        return map_any(hint, size, protection, flags, fd, offset);
}

EXPORT int munmap(void *address, size_t size)
{
        struct fake_buffer *buffer;

        if (counts.mappings) {
                pthread_mutex_lock(&lock);
                buffer = fake_by_mapping(address);
                if (buffer) {
                        if (size != buffer->size)
                                fake_violation("munmap of %zu bytes of %zu", size, buffer->size);
                        buffer->mapped = NULL;
                        counts.mappings--;
                }
                pthread_mutex_unlock(&lock);
        }
        return (int)syscall(SYS_munmap, address, size);
}
