/* SPDX-License-Identifier: MIT
 *
 * The mainline driver (Linux 6.18, drivers/accel/rocket). One descriptor is one address space and uses one core at a
 * time, so a device of this library is one descriptor.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "node.h"
#include "uapi-rocket.h"

/* The kernel ends a job after 500 ms (JOB_TIMEOUT_MS of rocket_job.c). One list is at most 11 banks of features by 8192
 * kernels, 1.5 G multiplications: 15 ms at the peak of 200 MHz, so this many leave a factor of four. */
enum { LISTS_PER_JOB = 8 };

/* nm_buffer.token: whether the processor owns the buffer already, so that to_cpu need not synchronise it again. */
enum { WITH_NPU = 0, WITH_CPU = 1 };

struct rocket {
        int fd;
};

static int rocket_open(const struct nm_options *options, void **state, struct nm_info *info, struct nm_error *why)
{
        static const char *const patterns[] = { "/dev/accel/accel%u", NULL };
        static const unsigned first[] = { 0 };
        static const struct nm_node_search search = { "rocket", patterns, first, "/dev/accel/accel*" };
        struct rocket *rocket = malloc(sizeof(*rocket));
        int status;

        if (!rocket)
                return nm_fail(why, NM_NO_MEMORY, "no memory for a device");
        status = nm_node_open(&search, options->node, &rocket->fd, info, why);
        if (status) {
                free(rocket);
                return status;
        }
        info->backend = "rocket";
        info->evidence = nm_node_evidence();
        info->computes_on_npu = true;
        *state = rocket;
        return NM_OK;
}

static void rocket_close(void *state)
{
        struct rocket *rocket = state;

        close(rocket->fd);
        free(rocket);
}

static void drop_handle(const struct rocket *rocket, uint32_t handle)
{
        struct nm_drm_gem_close close_bo = { .handle = handle };

        nm_ioctl(rocket->fd, NM_DRM_GEM_CLOSE, &close_bo);
}

static int rocket_create(void *state, size_t size, enum nm_use use, struct nm_buffer *buffer, struct nm_error *why)
{
        const struct rocket *rocket = state;
        const size_t mapped = nm_page_round(size);
        struct nm_rocket_create_bo bo = { .size = (uint32_t)mapped };
        void *cpu;

        (void)use;      /* every buffer is cached and whole-buffer synchronised */
        /* The driver keeps what the IOMMU mapped in an int: 2 GiB would read as an error (rocket_gem.c). */
        if (size == 0 || mapped > INT32_MAX)
                return nm_fail(why, NM_NO_MEMORY, "a buffer of %zu bytes, rocket takes 1 to 2 GiB less a page", size);
        if (nm_ioctl(rocket->fd, NM_ROCKET_CREATE_BO, &bo) < 0) {
                const bool memory = errno == ENOMEM || errno == ENOSPC;

                return nm_fail(why, memory ? NM_NO_MEMORY : NM_DRIVER, "CREATE_BO of %zu bytes: %s%s", mapped,
                               strerror(errno), errno == ENOSPC ? "; the 4 GiB of this descriptor are used up" : "");
        }
        if (!nm_address_fits(bo.address, mapped)) {
                drop_handle(rocket, bo.handle);
                return nm_fail(why, NM_ADDRESS, "a buffer of %zu bytes at 0x%llx: the NPU's registers hold 32 bits",
                               mapped, (unsigned long long)bo.address);
        }
        cpu = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, rocket->fd, (off_t)bo.offset);
        if (cpu == MAP_FAILED) {
                const int error = errno;

                drop_handle(rocket, bo.handle);
                return nm_fail(why, error == ENOMEM ? NM_NO_MEMORY : NM_DRIVER, "mmap of a buffer of %zu bytes: %s",
                               mapped, strerror(error));
        }
        *buffer = (struct nm_buffer){ .cpu = cpu, .address = (uint32_t)bo.address, .size = size, .handle = bo.handle,
                                      .token = WITH_CPU, .mapped = mapped };
        return NM_OK;
}

static void rocket_destroy(void *state, struct nm_buffer *buffer)
{
        munmap(buffer->cpu, buffer->mapped);
        drop_handle(state, buffer->handle);
        *buffer = (struct nm_buffer){ 0 };
}

static int rocket_to_device(void *state, struct nm_buffer *buffer, size_t bytes, struct nm_error *why)
{
        const struct rocket *rocket = state;
        struct nm_rocket_fini_bo fini = { .handle = buffer->handle };

        (void)bytes;    /* the call knows whole buffers only */
        if (nm_ioctl(rocket->fd, NM_ROCKET_FINI_BO, &fini) < 0)
                return nm_fail(why, NM_DRIVER, "FINI_BO: %s", strerror(errno));
        buffer->token = WITH_NPU;
        return NM_OK;
}

static int64_t deadline_ns(unsigned timeout_ms)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return ((int64_t)now.tv_sec * 1000 + (timeout_ms ? timeout_ms : 6000)) * 1000000 + now.tv_nsec;
}

static int wait_for(const struct rocket *rocket, struct nm_buffer *buffer, int64_t deadline, struct nm_error *why)
{
        struct nm_rocket_prep_bo prep = { .handle = buffer->handle, .deadline = deadline };

        /* Success is the number of jiffies that were left (Linux 6.18) or 0 (later): only below 0 is failure. */
        if (nm_ioctl(rocket->fd, NM_ROCKET_PREP_BO, &prep) >= 0) {
                buffer->token = WITH_CPU;
                return NM_OK;
        }
        /* EBUSY: the deadline was already past when the call came. */
        if (errno == ETIMEDOUT || errno == EBUSY)
                return nm_fail(why, NM_TIMEOUT, "the NPU did not finish in time (PREP_BO: %s)", strerror(errno));
        return nm_fail(why, NM_DRIVER, "PREP_BO: %s", strerror(errno));
}

static int rocket_to_cpu(void *state, struct nm_buffer *buffer, size_t bytes, unsigned timeout_ms, struct nm_error *why)
{
        (void)bytes;
        if (buffer->token == WITH_CPU)
                return NM_OK;
        return wait_for(state, buffer, deadline_ns(timeout_ms), why);
}

/* The tasks, then the handles of what is read, then of what is written. */
static int send(const struct rocket *rocket, const struct nm_job *job, struct nm_rocket_task *tasks, uint32_t *handles,
                struct nm_error *why)
{
        struct nm_rocket_job one = {
                .tasks = (uintptr_t)tasks, .task_count = (uint32_t)job->count, .task_size = sizeof(*tasks),
                .reads = (uintptr_t)handles, .read_count = (uint32_t)job->read_count,
                .writes = (uintptr_t)(handles + job->read_count), .write_count = (uint32_t)job->write_count,
        };
        struct nm_rocket_submit submit = { .jobs = (uintptr_t)&one, .job_count = 1, .job_size = sizeof(one) };

        for (size_t i = 0; i < job->count; i++)
                tasks[i] = (struct nm_rocket_task){ job->lists[i].address, job->lists[i].words };
        for (size_t i = 0; i < job->read_count; i++)
                handles[i] = job->reads[i]->handle;
        for (size_t i = 0; i < job->write_count; i++)
                handles[job->read_count + i] = job->writes[i]->handle;
        /* Success says little: the call drops the errors of its jobs (rocket_ioctl_submit); outputs are poisoned. */
        if (nm_ioctl(rocket->fd, NM_ROCKET_SUBMIT, &submit) < 0)
                return nm_fail(why, NM_DRIVER, "SUBMIT of %zu lists: %s", job->count, strerror(errno));
        return NM_OK;
}

static int rocket_submit(void *state, const struct nm_job *job, struct nm_error *why)
{
        const struct rocket *rocket = state;
        const size_t buffers = job->read_count + job->write_count;
        struct nm_rocket_task *tasks;
        uint32_t *handles;
        int64_t deadline;
        int status = nm_check_job(job, why);

        if (status)
                return status;
        if (job->write_count == 0)
                return nm_fail(why, NM_INVALID, "a job that writes nothing cannot be waited for");
        tasks = malloc(job->count * sizeof(*tasks));
        handles = malloc(buffers * sizeof(*handles));
        status = tasks && handles ? send(rocket, job, tasks, handles, why)
                                  : nm_fail(why, NM_NO_MEMORY, "no memory for a job of %zu lists", job->count);
        free(tasks);
        free(handles);
        deadline = deadline_ns(job->timeout_ms);
        for (size_t i = 0; i < job->write_count && status == NM_OK; i++)
                status = wait_for(rocket, job->writes[i], deadline, why);
        return status;
}

static const struct nm_list_ops ops = {
        .create = rocket_create,
        .destroy = rocket_destroy,
        .to_device = rocket_to_device,
        .to_cpu = rocket_to_cpu,
        .submit = rocket_submit,
        .lists_per_job = LISTS_PER_JOB,
        .rdma_by_default = true,
};

const struct nm_backend nm_rocket = { .name = "rocket", .open = rocket_open, .close = rocket_close, .lists = &ops };
