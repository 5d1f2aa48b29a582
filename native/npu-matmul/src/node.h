/* SPDX-License-Identifier: MIT
 *
 * What the two kernel drivers' back ends share: a node is found by the name of the driver behind it, calls interrupted
 * by a signal go on, and a mapping lies where the NPU's 32-bit registers can name it.
 */
#ifndef NM_NODE_H
#define NM_NODE_H

#include "backend.h"

/* ioctl() that goes on after a signal; the drivers' deadlines are absolute or their own. */
int nm_ioctl(int fd, unsigned long code, void *argument);

struct nm_node_search {
        const char *driver;             /* as DRM_VERSION names it */
        const char *const *patterns;    /* one %u each, NULL at the end */
        const unsigned *first;          /* number to begin with, a pattern each; 64 are tried */
        const char *where;              /* the patterns, for the reader of an error */
};

/* Opens `node`, or the first that is the driver's. Fills device and driver of `info`, and the descriptor. */
int nm_node_open(const struct nm_node_search *search, const char *node, int *fd, struct nm_info *info,
                 struct nm_error *why);

/* What a result through such a node rests on: "hardware", or "emulated" under the tests' fake nodes, which FAKE_NPU
 * names. */
const char *nm_node_evidence(void);

size_t nm_page_round(size_t bytes);
/* Whether `bytes` from `address` on can be named by 32 bits. */
bool nm_address_fits(uint64_t address, size_t bytes);

/* A job names each buffer once: a handle named twice makes rocket drop the job without a word. NM_INVALID if not so. */
int nm_check_job(const struct nm_job *job, struct nm_error *why);

/* The words of a list, and the buffer that holds them, which the job reads; NULL when there is none. */
uint64_t *nm_list_words(const struct nm_job *job, const struct nm_list *list, struct nm_buffer **buffer);
bool nm_job_is_fp16(const struct nm_job *job);  /* every list of it */

#endif
