/* SPDX-License-Identifier: MIT */
#ifndef NM_MATRIX_H
#define NM_MATRIX_H

#include "device.h"
#include "plan.h"

struct nm_matrix {
        struct nm_device *device;
        struct nm_plan plan;
        void *whole;                    /* of a back end that multiplies by itself */
        struct nm_buffer weights;       /* of one that runs lists */
        size_t bytes;
        uint64_t job;                   /* the last job that names these weights */
};

#endif
