/* SPDX-License-Identifier: MIT
 *
 * The calls of the vendor's driver 0.9.2 and 0.9.8, DRM and misc device.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake.h"
#include "../../src/uapi-rknpu.h"

static int create(int file, unsigned size, struct nm_rknpu_mem_create *args)
{
        const uint32_t flags = args->flags;
        const bool cached = flags & NM_RKNPU_CACHEABLE || fake_misc;
        struct fake_buffer *buffer;

        if (size != 40 && size != 48)
                return fake_error(EINVAL);
        if (fake_misc && size != (fake_version >= 908 ? 48 : 40))
                return fake_error(EINVAL);
        if (fake_misc && flags & NM_RKNPU_NON_CONTIGUOUS)
                return fake_error(EINVAL);
        if (flags & 1u << 7)
                fake_violation("flag 7 of MEM_CREATE, which means one thing or its contrary by version");
        if (size == 48 && (args->iommu_domain || args->core_mask))
                fake_violation("MEM_CREATE with domain %d and cores 0x%x", args->iommu_domain, args->core_mask);
        buffer = fake_create(file, (args->size + 4095) / 4096 * 4096, cached, flags);
        if (!buffer)
                return -1;
        if (fake_misc)
                buffer->handle = (uint32_t)fcntl(buffer->memory, F_DUPFD_CLOEXEC, 3);
        args->handle = buffer->handle;
        args->token = buffer->token;
        args->address = buffer->address;
        return 0;
}

static int map(int file, struct nm_rknpu_mem_map *args)
{
        struct fake_buffer *buffer = fake_by_handle(file, args->handle);

        if (fake_misc || !buffer)
                return fake_error(EINVAL);
        args->offset = buffer->offset;
        return 0;
}

static int destroy(int file, const struct nm_rknpu_mem_destroy *args)
{
        struct fake_buffer *buffer = fake_by_token(args->token);

        if (!buffer || (!fake_misc && buffer->handle != args->handle) || buffer->file != file) {
                fake_violation("MEM_DESTROY of %u, 0x%llx: the kernel follows that pointer", args->handle,
                               (unsigned long long)args->token);
                return fake_error(EINVAL);
        }
        fake_destroy(buffer);
        return 0;
}

static int sync_range(const struct nm_rknpu_mem_sync *args)
{
        struct fake_buffer *buffer = fake_by_token(args->token);

        if (!buffer) {
                fake_violation("MEM_SYNC of 0x%llx: the kernel follows that pointer", (unsigned long long)args->token);
                return fake_error(EINVAL);
        }
        if (buffer->npu == buffer->cpu || args->reserved || args->size == 0 || args->offset + args->size > buffer->size)
                return fake_error(EINVAL);
        if (fake_fault(FAULT_SYNC))
                return fake_error(EIO);
        if (args->flags & NM_RKNPU_TO_DEVICE)
                memcpy(buffer->npu + args->offset, buffer->cpu + args->offset, args->size);
        if (args->flags & NM_RKNPU_FROM_DEVICE)
                memcpy(buffer->cpu + args->offset, buffer->npu + args->offset, args->size);
        return 0;
}

/* One kick: the first list from its task, each further one from the tail of the one before. */
static int kick(int file, const struct nm_rknpu_task *tasks, struct nm_rknpu_submit *args)
{
        uint64_t list = tasks[0].list;
        uint32_t words = tasks[0].amount + 4;

        for (uint32_t i = 0; i < args->task_number; i++) {
                if (tasks[i].int_mask != 0x300 || tasks[i].int_clear != 0x1ffff)
                        fake_violation("task %u waits for interrupts 0x%x", i, tasks[i].int_mask);
                if (args->task_number > 1 && fake_is_int8(file, list, words))
                        fake_violation("int8 lists chained: the accumulator is reported not to be cleared between "
                                       "them");
                if (fake_run(file, list, words, fake_enable(file, list, words), false))
                        return fake_error(ETIMEDOUT);
                args->task_counter = i + 1;
                if (i + 1 < args->task_number && !fake_next(file, list, words, &list, &words))
                        return fake_error(ETIMEDOUT);
        }
        return 0;
}

static int submit(int file, struct nm_rknpu_submit *args)
{
        struct fake_buffer *buffer = fake_by_token(args->tasks);

        if (!(args->flags & NM_RKNPU_JOB_PC) || args->task_number == 0 || args->task_number > 4095)
                return fake_error(EINVAL);
        if (!buffer || !(buffer->flags & NM_RKNPU_KERNEL_MAPPING)) {
                fake_violation("tasks in a buffer without a mapping of the kernel's: it oopses");
                return fake_error(EINVAL);
        }
        if (args->core_mask != 1 || args->subcore[0].number != args->task_number || args->fence != -1 ||
            args->task_base)
                fake_violation("SUBMIT to cores 0x%x, %u tasks, fence %d", args->core_mask, args->subcore[0].number,
                               args->fence);
        counts.submissions++;
        args->task_counter = 0;
        if (fake_fault(FAULT_VANISH))
                return 0;
        if (fake_fault(FAULT_TIMEOUT) || fake_fault(FAULT_HANG))
                return fake_error(ETIMEDOUT);
        return kick(file, (const void *)buffer->npu, args);
}

static int action(struct nm_rknpu_action *args)
{
        switch (args->code) {
        case NM_RKNPU_HW_VERSION:
                args->value = 0x46495245;
                return 0;
        case NM_RKNPU_DRV_VERSION:
                args->value = fake_version;
                return 0;
        case NM_RKNPU_IOMMU_ENABLED:
                args->value = !fake_belief(FAULT_NO_IOMMU);
                return 0;
        case NM_RKNPU_RESET:
                return 0;
        default:
                fake_violation("action %u", args->code);
                return fake_error(EINVAL);
        }
}

int fake_rknpu_ioctl(int file, unsigned long code, void *argument)
{
        const unsigned nr = (unsigned)_IOC_NR(code) - (fake_misc ? 0 : 0x40);

        if (_IOC_TYPE(code) != (fake_misc ? 'r' : 'd')) {
                fake_violation("rknpu has no call 0x%lx", code);
                return fake_error(ENOTTY);
        }
        switch (nr) {
        case NM_RKNPU_ACTION:
                return action(argument);
        case NM_RKNPU_SUBMIT:
                return _IOC_SIZE(code) == sizeof(struct nm_rknpu_submit) ? submit(file, argument) : fake_error(EINVAL);
        case NM_RKNPU_MEM_CREATE:
                return create(file, (unsigned)_IOC_SIZE(code), argument);
        case NM_RKNPU_MEM_MAP:
                return map(file, argument);
        case NM_RKNPU_MEM_DESTROY:
                return destroy(file, argument);
        case NM_RKNPU_MEM_SYNC:
                return sync_range(argument);
        default:
                fake_violation("rknpu has no call 0x%lx", code);
                return fake_error(EINVAL);
        }
}
