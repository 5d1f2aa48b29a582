/* SPDX-License-Identifier: MIT
 *
 * Fake NPU nodes under a real program: open, ioctl, mmap and close are answered here for them, in the program itself or
 * from an LD_PRELOAD object. Memory the processor caches has a second copy, the NPU's view, and only the drivers' calls
 * carry bytes from one to the other: what is not synchronised is stale, as on the board.
 *
 * FAKE_NPU          which driver: rocket, rknpu-0.9.2, rknpu-0.9.8, rknpu-misc, rknpu-misc-0.9.6
 * FAKE_NPU_FAULTS   words with commas between (see fake_fault); NAME=N: at the N-th time only, NAME: each time
 */
#ifndef FAKE_NPU_H
#define FAKE_NPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend.h"

enum fake_kind { FAKE_NONE, FAKE_ROCKET, FAKE_RKNPU };

enum fake_fault {
        FAULT_ALLOC,            /* no memory for a buffer */
        FAULT_MAP,              /* mmap of a buffer fails */
        FAULT_HIGH,             /* a buffer at 4 GiB or above */
        FAULT_EDGE,             /* a buffer that begins below 4 GiB and ends above */
        FAULT_TIMEOUT,          /* the driver says that time is up */
        FAULT_HANG,             /* the NPU never ends: rocket resets it and reports success, rknpu times out */
        FAULT_VANISH,           /* success, and nothing was done */
        FAULT_EINTR,            /* a signal comes into every second call */
        FAULT_NAME,             /* another driver behind the node */
        FAULT_DENIED,           /* the node may not be opened */
        FAULT_NO_IOMMU,         /* rknpu without its IOMMU */
        FAULT_SYNC,             /* a synchronising call fails */
        FAULT_ZERO_JIFFIES,     /* PREP_BO returns 0, as kernels later than 6.18 do */
        BELIEF_ROWS,            /* C1 B: fewer than 4 rows come out wrong */
        BELIEF_RDMA,            /* C2 B: hangs without the words of the RDMA, or with its MRDMA left on */
        BELIEF_BANKS,           /* C3 B: int8 with exactly as many banks as the rows need garbles the last row */
        FAULT_COUNT
};

struct fake_buffer {
        struct fake_buffer *next;
        int file;               /* descriptor of the node it was made through */
        uint32_t handle;
        uint64_t token, address, offset;
        size_t size;            /* a multiple of the page */
        int memory;             /* memfd */
        uint8_t *cpu, *npu;     /* what the processor wrote; what the NPU sees. One and the same when uncached */
        uint32_t flags;         /* rknpu's */
        void *mapped;           /* by the program */
        bool named_read, named_write;   /* in the job that runs */
};

struct fake_counts {
        unsigned files, buffers, mappings;      /* alive */
        unsigned long submissions, lists, calls;
        unsigned violations;                    /* what a driver rejects, or what goes wrong on hardware alone */
        char first[200];                        /* of them */
};

/* For a test in the same process; otherwise the environment is read at the first use. */
void fake_configure(const char *kind, const char *faults);
const struct fake_counts *fake_counts(void);

/* Inside. */
extern enum fake_kind fake_kind;
extern unsigned fake_version;           /* 902, 908 */
extern bool fake_misc;
extern struct fake_counts counts;
bool fake_fault(enum fake_fault fault); /* counts one occasion; whether it strikes this time */
bool fake_belief(enum fake_fault belief);
void fake_violation(const char *format, ...) __attribute__((format(printf, 1, 2)));
int fake_error(int error);              /* errno, and -1 */

struct fake_buffer *fake_create(int file, size_t size, bool cached, uint32_t flags);    /* NULL with errno */
void fake_destroy(struct fake_buffer *buffer);
struct fake_buffer *fake_by_handle(int file, uint32_t handle);
struct fake_buffer *fake_by_token(uint64_t token);
struct fake_buffer *fake_by_offset(int file, uint64_t offset);
struct fake_buffer *fake_by_mapping(const void *mapped);
void fake_close_file(int file);         /* its buffers go with it */
void fake_name_none(void);              /* no buffer is named any more */

/* Runs the list as the NPU of `file`; 0, or NM_TIMEOUT when it hangs. `strict`: buffers have to be named by the job. */
int fake_run(int file, uint64_t address, uint32_t words, uint32_t enable, bool strict);
/* The last words of a list as the NPU sees it: the next list of a chain and its size; false when there is none. */
bool fake_next(int file, uint64_t address, uint32_t words, uint64_t *next, uint32_t *next_words);
bool fake_is_int8(int file, uint64_t address, uint32_t words);
uint32_t fake_enable(int file, uint64_t address, uint32_t words);

int fake_rocket_ioctl(int file, unsigned long code, void *argument);
int fake_rknpu_ioctl(int file, unsigned long code, void *argument);

#endif
