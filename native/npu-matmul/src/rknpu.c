/* SPDX-License-Identifier: MIT
 *
 * The vendor's driver (rknpu 0.9.2 and 0.9.8). One core only: submissions to others are reported to lock boards up, and
 * so is a second process (facts gathered for kernel 6.1.99 with 0.9.8); core_mask is 1 until a board has shown better.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend.h"
#include "node.h"
#include "uapi-rknpu.h"
#include "uapi-rocket.h"

enum {
        TASKS = 256,                    /* room for so many; the driver takes 4095 in a kick */
        TAIL = 4,                       /* words a list ends in, which regcfg_amount leaves out */
        DPU_DONE = 0x300,               /* interrupt of the DPU, either register group */
        CLEAR_ALL = 0x1FFFF,
};

struct rknpu {
        int fd;
        bool misc;                      /* /dev/rknpu, memory in dma-bufs */
        bool iommu;
        bool chain;                     /* several lists in one kick, see chain_lists */
        size_t create_size;             /* of mem_create: 40 or 48 bytes */
        struct nm_buffer tasks;
};

static unsigned long code(const struct rknpu *npu, unsigned nr, size_t size)
{
        return npu->misc ? NM_RKNPU_CODE('r', 0u, nr, size) : NM_RKNPU_CODE('d', 0x40u, nr, size);
}

static int action(const struct rknpu *npu, uint32_t what, uint32_t *value)
{
        struct nm_rknpu_action args = { .code = what };
        const int result = nm_ioctl(npu->fd, code(npu, NM_RKNPU_ACTION, sizeof(args)), &args);

        *value = args.value;
        return result;
}

static void drop(const struct rknpu *npu, uint32_t handle, uint64_t token)
{
        struct nm_rknpu_mem_destroy args = { .handle = handle, .token = token };

        nm_ioctl(npu->fd, code(npu, NM_RKNPU_MEM_DESTROY, sizeof(args)), &args);
        if (npu->misc)
                close((int)handle);
}

/* kB of a line of /proc/meminfo, -1 when it is not there. */
static long meminfo_kb(const char *line)
{
        char text[128];
        const size_t length = strlen(line);
        long kb = -1;
        FILE *file = fopen("/proc/meminfo", "re");

        while (file && kb < 0 && fgets(text, sizeof(text), file))
                if (!strncmp(text, line, length) && text[length] == ':')
                        kb = strtol(text + length + 1, NULL, 10);
        if (file)
                fclose(file);
        return kb;
}

static int no_memory(const struct rknpu *npu, const char *call, size_t size, int error, struct nm_error *why)
{
        if (error != ENOMEM)
                return nm_fail(why, NM_DRIVER, "%s of %zu bytes: %s", call, size, strerror(error));
        if (npu->iommu)
                return nm_fail(why, NM_NO_MEMORY,
                               "%s of %zu bytes: %s; the NPU's address space or the memory is used up", call, size,
                               strerror(error));
        return nm_fail(why, NM_NO_MEMORY,
                       "%s of %zu bytes: CMA is short (%ld of %ld MiB free): boot with a larger cma=, such "
                       "as cma=512M@0-4G, or with the NPU's IOMMU (rknpu_mmu okay)",
                       call, size, meminfo_kb("CmaFree") / 1024, meminfo_kb("CmaTotal") / 1024);
}

/* The misc device checks the size of the structure, and versions between the two known ones could want either. */
static int create_bo(struct rknpu *npu, struct nm_rknpu_mem_create *args)
{
        const struct nm_rknpu_mem_create asked = *args;
        int result = nm_ioctl(npu->fd, code(npu, NM_RKNPU_MEM_CREATE, npu->create_size), args);

        if (result < 0 && npu->misc && (errno == EINVAL || errno == ENOTTY)) {
                npu->create_size = NM_RKNPU_MEM_CREATE_OLD + sizeof(*args) - npu->create_size;
                *args = asked;
                result = nm_ioctl(npu->fd, code(npu, NM_RKNPU_MEM_CREATE, npu->create_size), args);
        }
        return result;
}

static void *map_bo(const struct rknpu *npu, uint32_t handle, size_t size)
{
        struct nm_rknpu_mem_map map = { .handle = handle };

        if (npu->misc)
                return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)handle, 0);
        if (nm_ioctl(npu->fd, code(npu, NM_RKNPU_MEM_MAP, sizeof(map)), &map) < 0)
                return MAP_FAILED;
        return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, npu->fd, (off_t)map.offset);
}

static int create(struct rknpu *npu, size_t size, uint32_t flags, struct nm_buffer *buffer, struct nm_error *why)
{
        const size_t mapped = nm_page_round(size);
        struct nm_rknpu_mem_create args = { .flags = flags, .size = mapped };
        void *cpu;

        if (size == 0 || mapped > UINT32_MAX)
                return nm_fail(why, NM_NO_MEMORY, "a buffer of %zu bytes, expected 1 to 4 GiB less a page", size);
        if (create_bo(npu, &args) < 0)
                return no_memory(npu, "MEM_CREATE", mapped, errno, why);
        if (!nm_address_fits(args.address, mapped)) {
                drop(npu, args.handle, args.token);
                return nm_fail(why, NM_ADDRESS,
                               "a buffer of %zu bytes at 0x%llx: the NPU's registers hold 32 bits; with the "
                               "IOMMU off, CMA has to lie below 4 GiB (cma=512M@0-4G)",
                               mapped, (unsigned long long)args.address);
        }
        cpu = map_bo(npu, args.handle, mapped);
        if (cpu == MAP_FAILED) {
                const int error = errno;

                drop(npu, args.handle, args.token);
                return no_memory(npu, "mmap", mapped, error, why);
        }
        *buffer = (struct nm_buffer){ .cpu = cpu,
                                      .address = (uint32_t)args.address,
                                      .size = size,
                                      .handle = args.handle,
                                      .token = args.token,
                                      .mapped = mapped };
        return NM_OK;
}

static int rknpu_create(void *state, size_t size, enum nm_use use, struct nm_buffer *buffer, struct nm_error *why)
{
        struct rknpu *npu = state;

        (void)use;
        /* Cached, with ranges synchronised: reading outputs uncached is slow. Scattered pages spare CMA where an IOMMU
         * is, and the driver drops the wish where none is; the misc device refuses it. */
        return create(npu, size, NM_RKNPU_CACHEABLE | (npu->misc ? 0u : (uint32_t)NM_RKNPU_NON_CONTIGUOUS), buffer,
                      why);
}

static void rknpu_destroy(void *state, struct nm_buffer *buffer)
{
        munmap(buffer->cpu, buffer->mapped);
        drop(state, buffer->handle, buffer->token);
        *buffer = (struct nm_buffer){ 0 };
}

static int sync_range(const struct rknpu *npu, uint32_t flags, const struct nm_buffer *buffer, size_t offset,
                      size_t bytes, struct nm_error *why)
{
        struct nm_rknpu_mem_sync args = { .flags = flags, .token = buffer->token, .offset = offset, .size = bytes };

        if (offset + bytes > buffer->mapped)
                return nm_fail(why, NM_INVALID, "%zu bytes to synchronise in a buffer of %zu", offset + bytes,
                               buffer->mapped);
        if (bytes && nm_ioctl(npu->fd, code(npu, NM_RKNPU_MEM_SYNC, sizeof(args)), &args) < 0)
                return nm_fail(why, NM_DRIVER, "MEM_SYNC of %zu bytes: %s", bytes, strerror(errno));
        return NM_OK;
}

static int rknpu_to_device(void *state, struct nm_buffer *buffer, size_t bytes, struct nm_error *why)
{
        return sync_range(state, NM_RKNPU_TO_DEVICE, buffer, 0, bytes, why);
}

static int rknpu_to_cpu(void *state, struct nm_buffer *buffer, size_t bytes, unsigned timeout_ms, struct nm_error *why)
{
        (void)timeout_ms;       /* rknpu_submit has waited */
        return sync_range(state, NM_RKNPU_FROM_DEVICE, buffer, 0, bytes, why);
}

/* Chains of int8 lists are reported to give a right first product and garbage after it, so those go one by one.
 * The tails name the next list, or none (`link` false), in registers 0x10 and 0x14 of the PC (target 0x0101): in one
 * kick the NPU goes by them, not by the driver's task array. */
static int chain_lists(const struct rknpu *npu, const struct nm_job *job, bool link, struct nm_error *why)
{
        int status = NM_OK;

        for (size_t i = 0; i + 1 < job->count && status == NM_OK; i++) {
                const struct nm_list *list = &job->lists[i], *next = list + 1;
                struct nm_buffer *buffer;
                uint64_t *tail = nm_list_words(job, list, &buffer) + list->words - TAIL;

                tail[0] = link ? UINT64_C(0x0101) << 48 | (uint64_t)(next->address & ~0xFu) << 16 | 0x10 : 0;
                tail[1] = UINT64_C(0x0101) << 48 | (link ? (uint64_t)((next->words + 1) / 2 + 1) << 16 : 0) | 0x14;
                status = sync_range(npu, NM_RKNPU_TO_DEVICE, buffer, (size_t)((char *)tail - (char *)buffer->cpu),
                                    2 * sizeof(*tail), why);
        }
        return status;
}

static int kick(const struct rknpu *npu, const struct nm_list *lists, size_t count, unsigned timeout_ms,
                struct nm_error *why)
{
        struct nm_rknpu_task *tasks = npu->tasks.cpu;
        struct nm_rknpu_submit args = {
                .flags = NM_RKNPU_JOB_PC | NM_RKNPU_JOB_PINGPONG, .timeout = timeout_ms ? timeout_ms : 6000,
                .task_number = (uint32_t)count, .tasks = npu->tasks.token, .core_mask = 1, .fence = -1,
                .subcore = { { 0, (uint32_t)count }, { (uint32_t)count, 0 }, { (uint32_t)count, 0 } },
        };
        uint32_t ignored;

        for (size_t i = 0; i < count; i++)
                tasks[i] = (struct nm_rknpu_task){ .enable_mask = lists[i].enable,
                                                   .int_mask = DPU_DONE,
                                                   .int_clear = CLEAR_ALL,
                                                   .amount = lists[i].words - TAIL,
                                                   .list = lists[i].address };
        if (npu->misc && sync_range(npu, NM_RKNPU_TO_DEVICE, &npu->tasks, 0, count * sizeof(*tasks), why))
                return NM_DRIVER;
        if (nm_ioctl(npu->fd, code(npu, NM_RKNPU_SUBMIT, sizeof(args)), &args) >= 0)
                return NM_OK;
        if (errno != ETIMEDOUT)
                return nm_fail(why, NM_DRIVER, "SUBMIT of %zu lists: %s", count, strerror(errno));
        /* The driver has reset the core; once more from outside leaves no job of ours behind. It takes some 100 ms and
         * detaches the IOMMU, which is why it is done now and at no other time. */
        action(npu, NM_RKNPU_RESET, &ignored);
        return nm_fail(why, NM_TIMEOUT, "the NPU did not finish: %u of %zu lists in %u ms", args.task_counter, count,
                       args.timeout);
}

static int rknpu_submit(void *state, const struct nm_job *job, struct nm_error *why)
{
        const struct rknpu *npu = state;
        size_t at_once = 1;
        bool chain;
        int status = nm_check_job(job, why);

        if (status == NM_OK && job->count > TASKS)
                status = nm_fail(why, NM_INVALID, "%zu lists in a job, at most %d", job->count, TASKS);
        if (status)
                return status;
        chain = npu->chain && job->count > 1 && nm_job_is_fp16(job);
        if (chain) {
                at_once = job->count;
                status = chain_lists(npu, job, true, why);
        }
        for (size_t i = 0; i < job->count && status == NM_OK; i += at_once)
                status = kick(npu, &job->lists[i], at_once, job->timeout_ms, why);
        /* The lists stay as they were made: the next job may hold one of them alone. */
        if (chain) {
                const int undone = chain_lists(npu, job, false, status ? NULL : why);

                status = status ? status : undone;
        }
        return status;
}

/* On failure errno tells why. */
static int open_misc(struct rknpu *npu, const char *node, struct nm_info *info, struct nm_error *why)
{
        uint32_t version;

        npu->fd = open(node, O_RDWR | O_CLOEXEC);
        if (npu->fd < 0) {
                const int error = errno;

                nm_fail(why, NM_NO_DEVICE, "%s: %s", node, strerror(error));
                errno = error;
                return NM_NO_DEVICE;
        }
        npu->misc = true;
        if (action(npu, NM_RKNPU_DRV_VERSION, &version) < 0) {
                const int error = errno;

                close(npu->fd);
                nm_fail(why, NM_NO_DEVICE, "%s: not the rknpu driver (%s)", node, strerror(error));
                errno = error;
                return NM_NO_DEVICE;
        }
        snprintf(info->device, sizeof(info->device), "%s", node);
        snprintf(info->driver, sizeof(info->driver), "rknpu");
        return NM_OK;
}

static int open_any(struct rknpu *npu, const char *node, struct nm_info *info, struct nm_error *why)
{
        static const char *const patterns[] = { "/dev/dri/renderD%u", "/dev/dri/card%u", NULL };
        static const unsigned first[] = { 128, 0 };
        static const struct nm_node_search search = { "rknpu", patterns, first, "/dev/dri/renderD* or card*" };
        struct nm_error misc;
        int status;

        npu->misc = false;
        if (node && strstr(node, "rknpu"))
                return open_misc(npu, node, info, why);
        status = nm_node_open(&search, node, &npu->fd, info, why);
        if (status == NM_OK || node)
                return status;
        if (open_misc(npu, "/dev/rknpu", info, &misc) == NM_OK)
                return NM_OK;
        return errno == ENOENT ? status : nm_fail(why, NM_NO_DEVICE, "%s", misc.text);
}

static int rknpu_open(const struct nm_options *options, void **state, struct nm_info *info, struct nm_error *why)
{
        struct rknpu *npu = calloc(1, sizeof(*npu));
        const char *chain = getenv("NPU_MATMUL_RKNPU_CHAIN");
        uint32_t version = 0, iommu = 0;
        int status;

        if (!npu)
                return nm_fail(why, NM_NO_MEMORY, "no memory for a device");
        status = open_any(npu, options->node, info, why);
        if (status) {
                free(npu);
                return status;
        }
        /* The number decides what the driver takes. Of the misc device it is all that is known; a DRM node told its
         * own. */
        if (action(npu, NM_RKNPU_DRV_VERSION, &version) == 0 && npu->misc)
                snprintf(info->driver, sizeof(info->driver), "rknpu %u.%u.%u, misc device", version / 10000,
                         version / 100 % 100, version % 100);
        npu->create_size = version > 902 ? sizeof(struct nm_rknpu_mem_create) : NM_RKNPU_MEM_CREATE_OLD;
        npu->iommu = action(npu, NM_RKNPU_IOMMU_ENABLED, &iommu) == 0 && iommu;
        npu->chain = chain && !strcmp(chain, "1");
        /* The kernel reads the tasks by a mapping of its own, uncached as ours; the misc device's are cached. */
        status = create(npu, TASKS * sizeof(struct nm_rknpu_task), NM_RKNPU_KERNEL_MAPPING, &npu->tasks, why);
        if (status) {
                close(npu->fd);
                free(npu);
                return status;
        }
        info->backend = "rknpu";
        info->evidence = nm_node_evidence();
        info->computes_on_npu = true;
        *state = npu;
        return NM_OK;
}

static void rknpu_close(void *state)
{
        struct rknpu *npu = state;

        rknpu_destroy(npu, &npu->tasks);
        close(npu->fd);
        free(npu);
}

static const struct nm_list_ops ops = {
        .create = rknpu_create,
        .destroy = rknpu_destroy,
        .to_device = rknpu_to_device,
        .to_cpu = rknpu_to_cpu,
        .submit = rknpu_submit,
        .lists_per_job = TASKS,
        .rdma_by_default = false,
};

const struct nm_backend nm_rknpu = { .name = "rknpu", .open = rknpu_open, .close = rknpu_close, .lists = &ops };
