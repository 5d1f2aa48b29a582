/* SPDX-License-Identifier: MIT
 *
 * The calls of the mainline driver, after Linux 6.18's rocket_gem.c and rocket_job.c.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"
#include "../../src/uapi-rocket.h"

static bool late;               /* the last job is still on the NPU when the deadline comes */

static int create_bo(int file, struct nm_rocket_create_bo *args)
{
        struct fake_buffer *buffer;

        if (args->size == 0 || args->size % (uint32_t)sysconf(_SC_PAGESIZE)) {
                fake_violation("CREATE_BO of %u bytes, no number of pages", args->size);
                return fake_error(EINVAL);
        }
        buffer = fake_create(file, args->size, true, 0);
        if (!buffer)
                return -1;
        args->handle = buffer->handle;
        args->address = buffer->address;
        args->offset = buffer->offset;
        return 0;
}

static int prep_bo(int file, const struct nm_rocket_prep_bo *args)
{
        struct fake_buffer *buffer = fake_by_handle(file, args->handle);
        struct timespec now;
        int64_t left;

        if (args->reserved)
                return fake_error(EINVAL);
        if (!buffer)
                return fake_error(ENOENT);
        clock_gettime(CLOCK_MONOTONIC, &now);
        left = args->deadline - ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
        if (left > INT64_C(3600) * 1000000000 || left < -INT64_C(3600) * 1000000000)
                fake_violation("PREP_BO's deadline is %lld s away: relative, or another clock",
                               (long long)(left / 1000000000));
        if (fake_fault(FAULT_SYNC))
                return fake_error(EIO);
        memcpy(buffer->cpu, buffer->npu, buffer->size);
        if (late)
                return fake_error(left > 0 ? ETIMEDOUT : EBUSY);
        return fake_fault(FAULT_ZERO_JIFFIES) ? 0 : 1 + (int)(left / 4000000);
}

static int fini_bo(int file, const struct nm_rocket_fini_bo *args)
{
        struct fake_buffer *buffer = fake_by_handle(file, args->handle);

        if (args->reserved)
                return fake_error(EINVAL);
        if (!buffer)
                return fake_error(ENOENT);
        if (fake_fault(FAULT_SYNC))
                return fake_error(EIO);
        memcpy(buffer->npu, buffer->cpu, buffer->size);
        return 0;
}

/* Marks what the job names; false when the kernel would drop the job, or worse. */
static bool name(int file, const uint32_t *handles, uint32_t count, bool write)
{
        for (uint32_t i = 0; i < count; i++) {
                struct fake_buffer *buffer = fake_by_handle(file, handles[i]);

                if (!buffer) {
                        fake_violation("a job with handle %u, which is none: the kernel oopses", handles[i]);
                        return false;
                }
                if (buffer->named_read || buffer->named_write)
                        return false;   /* the reservation cannot be locked twice: dropped without a word */
                *(write ? &buffer->named_write : &buffer->named_read) = true;
        }
        return true;
}

static void run(int file, const struct nm_rocket_job *job)
{
        const struct nm_rocket_task *tasks = (const void *)(uintptr_t)job->tasks;

        late = false;
        if (job->task_count == 0)
                return;
        if (job->task_size < sizeof(*tasks)) {
                fake_violation("a job with tasks of %u bytes: the kernel oopses", job->task_size);
                return;
        }
        if (!name(file, (const void *)(uintptr_t)job->reads, job->read_count, false) ||
            !name(file, (const void *)(uintptr_t)job->writes, job->write_count, true))
                return;
        if (fake_fault(FAULT_VANISH) || fake_fault(FAULT_HANG))
                return;
        late = fake_fault(FAULT_TIMEOUT);
        for (uint32_t i = 0; i < job->task_count && !late; i++)
                if (fake_run(file, tasks[i].list, tasks[i].words, fake_enable(file, tasks[i].list, tasks[i].words),
                             true))
                        return;         /* reset after 500 ms; the fence is signalled all the same */
}

static int submit(int file, const struct nm_rocket_submit *args)
{
        const struct nm_rocket_job *jobs = (const void *)(uintptr_t)args->jobs;

        if (args->job_count && (args->job_size < sizeof(*jobs) || args->reserved))
                return fake_error(EINVAL);
        counts.submissions++;
        for (uint32_t i = 0; i < args->job_count; i++) {
                fake_name_none();
                run(file, &jobs[i]);
        }
        return 0;
}

int fake_rocket_ioctl(int file, unsigned long code, void *argument)
{
        struct fake_buffer *buffer;

        switch (code) {
        case NM_ROCKET_CREATE_BO:
                return create_bo(file, argument);
        case NM_ROCKET_PREP_BO:
                return prep_bo(file, argument);
        case NM_ROCKET_FINI_BO:
                return fini_bo(file, argument);
        case NM_ROCKET_SUBMIT:
                return submit(file, argument);
        case NM_DRM_GEM_CLOSE:
                buffer = fake_by_handle(file, ((struct nm_drm_gem_close *)argument)->handle);
                if (!buffer)
                        return fake_error(EINVAL);
                fake_destroy(buffer);
                return 0;
        default:
                fake_violation("rocket has no call 0x%lx", code);
                return fake_error(EINVAL);
        }
}
