/* SPDX-License-Identifier: MIT
 *
 * Matrix products on an NPU: C[M,N] = A[M,K] · B[N,K]ᵀ, with B resident.
 *
 *     struct nm_device *npu;
 *     struct nm_matrix *weights;
 *     struct nm_error why;
 *     if (nm_open(NULL, &npu, &why) || nm_matrix_create(npu, NM_FP16_FP32, n, k, b, k, &weights, &why))
 *             errx(1, "%s", why.text);
 *     nm_multiply(weights, 1, x, k, y, n, &why);
 *     nm_matrix_destroy(weights);
 *     nm_close(npu);
 *
 * Every function that can fail returns 0 or a negative enum nm_status and fills `why`, which may be NULL.
 * A device and its matrices belong to one thread at a time; two devices are independent.
 */
#ifndef NPU_MATMUL_H
#define NPU_MATMUL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NM_API __attribute__((visibility("default")))

enum nm_status {
        NM_OK = 0,
        NM_INVALID = -1,        /* an argument: which one stands in the text */
        NM_NO_DEVICE = -2,      /* no such back end here: no node, no library, another driver behind the node */
        NM_NO_MEMORY = -3,      /* the device's memory (CMA, CMM) or the process's */
        NM_ADDRESS = -4,        /* memory above 4 GiB as the NPU sees it, which its registers cannot name */
        NM_TIMEOUT = -5,        /* the NPU did not finish */
        NM_NOT_RUN = -6,        /* the driver said it was done, and the output is untouched */
        NM_DRIVER = -7,         /* the driver refused: errno in the text */
        NM_UNSUPPORTED = -8,    /* what this back end cannot do */
};

/* What goes in and what comes out. Elements are row-major, the machine's byte order; fp16 is IEEE 754 binary16 as uint16_t. */
enum nm_type {
        NM_FP16_FP32,           /* A, B uint16_t; C float */
        NM_FP16_FP16,           /* A, B, C uint16_t */
        NM_INT8_INT32,          /* A, B int8_t; C int32_t; exact, and saturated where int32 cannot hold the sum (K above 131071) */
};

struct nm_error {
        char text[256];         /* one line, without a full stop */
};

/* How the contradictions of what is known about the hardware are resolved. Zero is what we believe; `npu-matmul probe` asks the board. */
struct nm_switches {
        enum { NM_ROWS_AS_GIVEN, NM_ROWS_PADDED } rows;                 /* C1: any M as it is (surface stride M-4), or padded to a multiple of 4 */
        enum { NM_RDMA_AUTO, NM_RDMA_OFF, NM_RDMA_ON } rdma;            /* C2: 108 words and enable 0xD, or 126 and 0x1D; auto: on with rocket */
        enum { NM_BANKS_SPARE, NM_BANKS_EXACT } int8_banks;             /* C3: one CBUF bank more than int8 rows need, or exactly */
        enum { NM_MRDMA_DISABLED, NM_MRDMA_ZERO } mrdma;                /* register 0x5044 of the 126-word form */
        unsigned grains;                                                /* feature grains; 0: M + 1 */
        bool int8_qd;                                                   /* C8: qd_en for int8 */
};

struct nm_options {
        const char *backend;    /* rocket, rknpu, axengine, cpu, model; NULL: the environment's NPU_MATMUL_BACKEND, else the first present in this order, model excepted */
        const char *node;       /* device node, or for axengine the directory of matmul models; NULL: searched for */
        unsigned threads;       /* of the cpu back end, and of conversions; 0: one a processor */
        unsigned timeout_ms;    /* of one submission; 0: 6000 (rocket's kernel ends a job after 500 ms whatever this says) */
        struct nm_switches switches;
};

struct nm_info {
        const char *backend;    /* "rocket" */
        char device[128];       /* "/dev/accel/accel0", "AVX2, 2 threads" */
        char driver[96];        /* "rocket 0.0.0", "rknpu 0.9.8 (20240828)" */
        const char *evidence;   /* what a result rests on: "hardware", "modelled"; for cpu "hardware" or "emulated" cannot be told apart and it says "host" */
        bool computes_on_npu;
};

struct nm_device;
struct nm_matrix;

/* Names of all back ends, NULL at the end; whether one could be opened here is for nm_open to say. */
NM_API const char *const *nm_backends(void);

NM_API int nm_open(const struct nm_options *options, struct nm_device **device, struct nm_error *why);
NM_API void nm_close(struct nm_device *device);         /* NULL is let be; its matrices must be gone */
NM_API const struct nm_info *nm_info(const struct nm_device *device);

/*
 * Makes B resident: packed once into memory of the device, B may be freed afterwards. `ldb` is the distance of rows in elements, at least K.
 * Any N and K from 1 up to 2^24: sliced and padded inside. fp16 operands are summed in binary32; NaN and infinities come through.
 */
NM_API int nm_matrix_create(struct nm_device *device, enum nm_type type, size_t n, size_t k,
                            const void *b, size_t ldb, struct nm_matrix **matrix, struct nm_error *why);
NM_API void nm_matrix_destroy(struct nm_matrix *matrix);
NM_API size_t nm_matrix_bytes(const struct nm_matrix *matrix);  /* of device memory, padding included */

/* C[M,N] = A[M,K] · Bᵀ. `lda`, `ldc` in elements. Returns when C is complete. */
NM_API int nm_multiply(struct nm_matrix *matrix, size_t m, const void *a, size_t lda, void *c, size_t ldc,
                       struct nm_error *why);

struct nm_request {
        struct nm_matrix *matrix;
        size_t m;
        const void *a;
        size_t lda;
        void *c;
        size_t ldc;
};

/* Independent products on one device, as few submissions as the driver allows. On failure no C is to be trusted. */
NM_API int nm_multiply_all(const struct nm_request *requests, size_t count, struct nm_error *why);

/* What has gone through the device since it was opened. */
struct nm_counters {
        uint64_t submissions, lists, bytes_synced, padded_rows;
        double busy_seconds;    /* from submission to completion, as the caller sees it */
};
NM_API void nm_counters(const struct nm_device *device, struct nm_counters *counters);

/* binary16 from and to float, nearest even, overflow to infinity; vectorised. */
NM_API void nm_half_from_float(uint16_t *to, const float *from, size_t count);
NM_API void nm_float_from_half(float *to, const uint16_t *from, size_t count);

NM_API const char *nm_status_name(int status);          /* "NM_TIMEOUT" */
NM_API const char *nm_version(void);

#ifdef __cplusplus
}
#endif
#endif
