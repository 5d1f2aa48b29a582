/* SPDX-License-Identifier: MIT
 *
 * The part of the mainline driver's interface that is used (Linux 6.18, include/uapi/drm/rocket_accel.h), and what
 * every DRM driver answers. Written here so that the library builds with the headers of any kernel.
 */
#ifndef NM_UAPI_ROCKET_H
#define NM_UAPI_ROCKET_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>

struct nm_drm_version {
        int major, minor, patch;
        size_t name_size;
        char *name;
        size_t date_size;
        char *date;
        size_t text_size;
        char *text;
};

struct nm_drm_gem_close {
        uint32_t handle, pad;
};

struct nm_rocket_create_bo {
        uint32_t size;                  /* bytes */
        uint32_t handle;                /* out */
        uint64_t address;               /* out, as the NPU sees it; 0 is the first one of a descriptor */
        uint64_t offset;                /* out, for mmap */
};

struct nm_rocket_task {
        uint32_t list;                  /* address of the list */
        uint32_t words;                 /* of 64 bits, the tail included */
};

struct nm_rocket_job {
        uint64_t tasks, reads, writes;  /* pointers to arrays */
        uint32_t task_count, task_size, read_count, write_count;
};

struct nm_rocket_submit {
        uint64_t jobs;
        uint32_t job_count, job_size;
        uint64_t reserved;
};

struct nm_rocket_prep_bo {
        uint32_t handle, reserved;
        int64_t deadline;               /* ns, CLOCK_MONOTONIC, absolute */
};

struct nm_rocket_fini_bo {
        uint32_t handle, reserved;
};

#define NM_DRM_VERSION _IOWR('d', 0x00, struct nm_drm_version)
#define NM_DRM_GEM_CLOSE _IOW('d', 0x09, struct nm_drm_gem_close)
#define NM_ROCKET_CREATE_BO _IOWR('d', 0x40, struct nm_rocket_create_bo)
#define NM_ROCKET_SUBMIT _IOW('d', 0x41, struct nm_rocket_submit)
#define NM_ROCKET_PREP_BO _IOW('d', 0x42, struct nm_rocket_prep_bo)
#define NM_ROCKET_FINI_BO _IOW('d', 0x43, struct nm_rocket_fini_bo)

static_assert(sizeof(void *) == 8, "the kernel and this library: 64 bits");
static_assert(NM_DRM_VERSION == 0xC0406400, "DRM_VERSION");
static_assert(NM_DRM_GEM_CLOSE == 0x40086409, "GEM_CLOSE");
static_assert(NM_ROCKET_CREATE_BO == 0xC0186440, "CREATE_BO");
static_assert(NM_ROCKET_SUBMIT == 0x40186441, "SUBMIT");
static_assert(NM_ROCKET_PREP_BO == 0x40106442, "PREP_BO");
static_assert(NM_ROCKET_FINI_BO == 0x40086443, "FINI_BO");
static_assert(sizeof(struct nm_rocket_job) == 40 && sizeof(struct nm_rocket_task) == 8, "job and task");

#endif
