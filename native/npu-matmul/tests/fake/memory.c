/* SPDX-License-Identifier: MIT */
#undef _FILE_OFFSET_BITS
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"

static struct fake_buffer *buffers;
static uint32_t next_handle;

/* Lowest free address, as drm_mm and the IOMMU's allocator find it; rocket counts each descriptor's apart, from 0. */
static uint64_t free_address(int file, size_t size)
{
        uint64_t address = fake_kind == FAKE_ROCKET ? 0 : 0x10000000;

        for (const struct fake_buffer *buffer = buffers; buffer;) {
                const bool same = fake_kind != FAKE_ROCKET || buffer->file == file;

                if (same && address < buffer->address + buffer->size && buffer->address < address + size) {
                        address = buffer->address + buffer->size;
                        buffer = buffers;
                } else {
                        buffer = buffer->next;
                }
        }
        return address;
}

/* Straight to the kernel: this object's own mmap is what the program calls. */
static void *map(int memory, size_t size)
{
        return (void *)syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0L);
}

struct fake_buffer *fake_create(int file, size_t size, bool cached, uint32_t flags)
{
        struct fake_buffer *buffer;

        if (fake_fault(FAULT_ALLOC)) {
                errno = ENOMEM;
                return NULL;
        }
        buffer = calloc(1, sizeof(*buffer));
        if (!buffer)
                return NULL;
        buffer->file = file;
        buffer->size = size;
        buffer->flags = flags;
        buffer->memory = memfd_create("fake-npu-buffer", MFD_CLOEXEC);
        if (buffer->memory < 0 || ftruncate(buffer->memory, (off_t)size))
                abort();
        buffer->cpu = map(buffer->memory, size);
        if (buffer->cpu == MAP_FAILED)
                abort();
        buffer->npu = buffer->cpu;
        if (cached) {
                buffer->npu = malloc(size);
                if (!buffer->npu)
                        abort();
                memset(buffer->npu, 0x5B, size);        /* whatever memory held before */
        }
        buffer->handle = ++next_handle;
        buffer->token = UINT64_C(0xffffff8000000000) + buffer->handle * 256u;
        buffer->offset = UINT64_C(0x100000000) + (uint64_t)buffer->handle * 0x1000000;
        buffer->address = free_address(file, size);
        if (fake_fault(FAULT_HIGH))
                buffer->address += UINT64_C(1) << 32;
        else if (fake_fault(FAULT_EDGE))
                buffer->address = (UINT64_C(1) << 32) - size / 2;
        buffer->next = buffers;
        buffers = buffer;
        counts.buffers++;
        return buffer;
}

void fake_destroy(struct fake_buffer *buffer)
{
        struct fake_buffer **link = &buffers;

        while (*link != buffer)
                link = &(*link)->next;
        *link = buffer->next;
        if (buffer->npu != buffer->cpu)
                free(buffer->npu);
        syscall(SYS_munmap, buffer->cpu, buffer->size);
        syscall(SYS_close, buffer->memory);
        free(buffer);
        counts.buffers--;
}

#define FIND(condition)                                                                                                \
        do {                                                                                                           \
                for (struct fake_buffer *buffer = buffers; buffer; buffer = buffer->next)                              \
                        if (condition)                                                                                 \
                                return buffer;                                                                         \
                return NULL;                                                                                           \
        } while (0)

struct fake_buffer *fake_by_handle(int file, uint32_t handle)
{
        FIND(buffer->file == file && buffer->handle == handle);
}

struct fake_buffer *fake_by_token(uint64_t token)
{
        FIND(buffer->token == token);
}

struct fake_buffer *fake_by_offset(int file, uint64_t offset)
{
        FIND(buffer->file == file && buffer->offset == offset);
}

struct fake_buffer *fake_by_mapping(const void *mapped)
{
        FIND(buffer->mapped == mapped);
}

void fake_close_file(int file)
{
        for (struct fake_buffer *buffer = buffers; buffer;) {
                struct fake_buffer *next = buffer->next;

                if (buffer->file == file) {
                        fake_violation("node closed with buffer %u alive", buffer->handle);
                        fake_destroy(buffer);
                }
                buffer = next;
        }
}

void fake_name_none(void)
{
        for (struct fake_buffer *buffer = buffers; buffer; buffer = buffer->next)
                buffer->named_read = buffer->named_write = false;
}

struct view {
        int file;
        bool strict;
};

static void *at(void *context, uint32_t address, size_t bytes, bool write)
{
        const struct view *view = context;

        for (struct fake_buffer *buffer = buffers; buffer; buffer = buffer->next) {
                if (fake_kind == FAKE_ROCKET && buffer->file != view->file)
                        continue;
                if (address < buffer->address || address - buffer->address + bytes > buffer->size)
                        continue;
                if (view->strict && !(write ? buffer->named_write : buffer->named_read || buffer->named_write))
                        fake_violation("the NPU %s buffer %u, which the job does not name", write ? "writes" : "reads",
                                       buffer->handle);
                return buffer->npu + (address - buffer->address);
        }
        fake_violation("the NPU %s %zu bytes at 0x%x, which is no buffer", write ? "writes" : "reads", bytes, address);
        return NULL;
}

static uint64_t word(const uint64_t *list, uint32_t words, unsigned target, unsigned offset)
{
        for (uint32_t i = words; i-- > 0;)
                if (list[i] >> 48 == target && (list[i] & 0xffff) == offset)
                        return list[i] >> 16 & 0xffffffff;
        return 0;
}

/* What claim B of a contradiction says about this list: hangs, or spoils the first bytes of the output afterwards. */
static bool hangs(const uint64_t *list, uint32_t words, uint32_t enable)
{
        return fake_belief(BELIEF_RDMA) &&
               (enable == 0xD || (word(list, words, 0x2001, 0x5044) & 1u << 4) == 0);
}

static bool spoils(const uint64_t *list, uint32_t words)
{
        const uint64_t rows = word(list, words, 0x0201, 0x1020) & 0x7ff, bytes = word(list, words, 0x0201, 0x1034);
        const uint64_t exact = (rows * bytes + 32767) / 32768, banks = word(list, words, 0x0201, 0x1040) & 0xf;
        const bool int8 = (word(list, words, 0x0201, 0x100C) >> 4 & 7) == 0;

        return (fake_belief(BELIEF_ROWS) && rows < 4) ||
               (fake_belief(BELIEF_BANKS) && int8 && rows > 1 && banks == exact);
}

int fake_run(int file, uint64_t address, uint32_t words, uint32_t enable, bool strict)
{
        struct view view = { file, strict };
        const struct nm_model_memory memory = { at, &view };
        const struct nm_list list = { (uint32_t)address, words, enable };
        const uint64_t *seen = at(&view, (uint32_t)address, words * 8, false);
        struct nm_error why;

        counts.lists++;
        if (!seen || hangs(seen, words, enable) || nm_model_run(&memory, &list, &why))
                return NM_TIMEOUT;
        if (spoils(seen, words)) {
                uint8_t *output = at(&view, (uint32_t)word(seen, words, 0x1001, 0x4020), 16, true);

                for (unsigned i = 0; output && i < 16; i++)
                        output[i] ^= 0x15;
        }
        return 0;
}

bool fake_next(int file, uint64_t address, uint32_t words, uint64_t *next, uint32_t *next_words)
{
        struct view view = { file, false };
        const uint64_t *list = at(&view, (uint32_t)address, words * 8, false);

        if (!list || list[words - 4] >> 48 != 0x0101 || (list[words - 4] & 0xffff) != 0x10)
                return false;
        *next = list[words - 4] >> 16 & 0xfffffff0;
        *next_words = ((uint32_t)(list[words - 3] >> 16) - 1) * 2;
        return true;
}

uint32_t fake_enable(int file, uint64_t address, uint32_t words)
{
        struct view view = { file, false };
        const uint64_t *list = at(&view, (uint32_t)address, words * 8, false);

        return list ? (uint32_t)(list[words - 1] >> 16) : 0;
}

bool fake_is_int8(int file, uint64_t address, uint32_t words)
{
        struct view view = { file, false };
        const uint64_t *list = at(&view, (uint32_t)address, words * 8, false);

        return list && (word(list, words, 0x0201, 0x100C) >> 4 & 7) == 0;
}
