/* SPDX-License-Identifier: MIT
 *
 * An open device, and the buffers that its products share.
 */
#ifndef NM_DEVICE_H
#define NM_DEVICE_H

#include "backend.h"

enum nm_staging { NM_STAGE_INPUT, NM_STAGE_OUTPUT, NM_STAGE_LISTS, NM_STAGES };

#define NM_CLASSES 52           /* one buffer a power of two from 4 KiB on */

struct nm_device {
        const struct nm_backend *backend;
        void *state;
        struct nm_info info;
        struct nm_options options;
        struct nm_counters counters;
        uint64_t job;           /* the number of the current one: what a job has named already carries it */
        /* Made when first needed and kept. A driver that hands over whole buffers only (rocket) takes time in
         * proportion to their size, so a small product gets a small one. */
        struct nm_buffer *staging[NM_STAGES][NM_CLASSES];
};

/* The buffer of `stage` that has at least `bytes`; the device's, until it is closed. */
int nm_staging(struct nm_device *device, enum nm_staging stage, size_t bytes, struct nm_buffer **buffer,
               struct nm_error *why);

#endif
