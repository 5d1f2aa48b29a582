/* SPDX-License-Identifier: MIT
 *
 * The part of the vendor driver's interface that is used: rknpu 0.9.2 (Rockchip's 5.10 kernel) and 0.9.8 (6.1), whose
 * numbers agree. The driver is a DRM driver, or, built with CONFIG_ROCKCHIP_RKNPU_DMA_HEAP, the misc device /dev/rknpu
 * with the same commands under another letter.
 */
#ifndef NM_UAPI_RKNPU_H
#define NM_UAPI_RKNPU_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

struct nm_rknpu_mem_create {
        uint32_t handle;                /* out; of the misc device: a dma-buf's descriptor */
        uint32_t flags;
        uint64_t size;                  /* bytes */
        uint64_t token;                 /* out, obj_addr: a pointer of the kernel's, to be handed back as it is */
        uint64_t address;               /* out, as the NPU sees it */
        uint64_t sram_size;
        int32_t iommu_domain;           /* from here on: 0.9.8 */
        uint32_t core_mask;
};
#define NM_RKNPU_MEM_CREATE_OLD offsetof(struct nm_rknpu_mem_create, iommu_domain)      /* bytes, up to 0.9.2 */

enum {                                  /* mem_create.flags. Bit 7 changed its meaning between versions: never used */
        NM_RKNPU_NON_CONTIGUOUS = 1 << 0,
        NM_RKNPU_CACHEABLE = 1 << 1,
        NM_RKNPU_KERNEL_MAPPING = 1 << 3,
};

struct nm_rknpu_mem_map {
        uint32_t handle, reserved;
        uint64_t offset;                /* out, for mmap */
};

struct nm_rknpu_mem_destroy {
        uint32_t handle, reserved;
        uint64_t token;
};

enum { NM_RKNPU_TO_DEVICE = 1, NM_RKNPU_FROM_DEVICE = 2 };

struct nm_rknpu_mem_sync {
        uint32_t flags, reserved;
        uint64_t token, offset, size;
};

enum { NM_RKNPU_HW_VERSION = 0, NM_RKNPU_DRV_VERSION = 1, NM_RKNPU_RESET = 6, NM_RKNPU_IOMMU_ENABLED = 18 };

struct nm_rknpu_action {
        uint32_t code, value;
};

enum { NM_RKNPU_JOB_PC = 1 << 0, NM_RKNPU_JOB_PINGPONG = 1 << 2 };      /* no bit 1: the call blocks */

struct nm_rknpu_submit {
        uint32_t flags;
        uint32_t timeout;               /* ms; the driver waits three times as long at most */
        uint32_t task_start, task_number;
        uint32_t task_counter;          /* out */
        int32_t priority;
        uint64_t tasks;                 /* token of the buffer that holds the tasks */
        uint64_t domain_or_regcfg;      /* 0.9.8: IOMMU domain and reserved; before: an unused token */
        uint64_t task_base;
        uint64_t elapsed;               /* out from 0.9.8 on */
        uint32_t core_mask;
        int32_t fence;
        struct {
                uint32_t start, number;
        } subcore[5];
};

struct nm_rknpu_task {
        uint32_t flags, op_index, enable_mask, int_mask, int_clear, int_status;
        uint32_t amount;                /* words of the list without the four of its tail */
        uint32_t offset;
        uint64_t list;                  /* address; 32 bits of it count */
} __attribute__((packed));

#define NM_RKNPU_CODE(letter, base, nr, size) _IOC(_IOC_READ | _IOC_WRITE, letter, (base) + (nr), size)
enum {
        NM_RKNPU_ACTION,
        NM_RKNPU_SUBMIT,
        NM_RKNPU_MEM_CREATE,
        NM_RKNPU_MEM_MAP,
        NM_RKNPU_MEM_DESTROY,
        NM_RKNPU_MEM_SYNC
};

static_assert(sizeof(struct nm_rknpu_mem_create) == 48 && NM_RKNPU_MEM_CREATE_OLD == 40, "mem_create");
static_assert(sizeof(struct nm_rknpu_submit) == 104 && offsetof(struct nm_rknpu_submit, core_mask) == 56, "submit");
static_assert(sizeof(struct nm_rknpu_task) == 40, "task");
static_assert(NM_RKNPU_CODE('d', 0x40, NM_RKNPU_SUBMIT, sizeof(struct nm_rknpu_submit)) == 0xC0686441, "SUBMIT");
static_assert(NM_RKNPU_CODE('d', 0x40, NM_RKNPU_MEM_CREATE, 40) == 0xC0286442, "MEM_CREATE");
static_assert(NM_RKNPU_CODE('r', 0, NM_RKNPU_MEM_CREATE, 48) == 0xC0307202, "MEM_CREATE of the misc device");
static_assert(NM_RKNPU_CODE('d', 0x40, NM_RKNPU_MEM_MAP, sizeof(struct nm_rknpu_mem_map)) == 0xC0106443, "MEM_MAP");
static_assert(NM_RKNPU_CODE('d', 0x40, NM_RKNPU_MEM_DESTROY, sizeof(struct nm_rknpu_mem_destroy)) == 0xC0106444,
              "MEM_DESTROY");
static_assert(NM_RKNPU_CODE('d', 0x40, NM_RKNPU_MEM_SYNC, sizeof(struct nm_rknpu_mem_sync)) == 0xC0206445, "MEM_SYNC");
static_assert(NM_RKNPU_CODE('d', 0x40, NM_RKNPU_ACTION, sizeof(struct nm_rknpu_action)) == 0xC0086440, "ACTION");

#endif
