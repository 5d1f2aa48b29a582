/* SPDX-License-Identifier: MIT
 *
 * What is called of AX650N's libax_engine.so and libax_sys.so (SDK V1.45), declared by its binary interface on 64 bits.
 * Every structure ends in reserved words, which have to be zero, and is 128 bytes long.
 */
#ifndef NM_AX_TYPES_H
#define NM_AX_TYPES_H

#include <assert.h>
#include <stdint.h>

enum { AX_TYPE_FLOAT32 = 3, AX_TYPE_INT16 = 4, AX_TYPE_INT8 = 5 };      /* data types of a tensor */
enum { AX_ALL_CORES = 0 };                                              /* virtual NPUs off: three cores are one */
#define AX_NO_CMM ((int32_t)0x800B0018)                                 /* AX_SYS: no memory left in CMM */

struct ax_npu_attributes {
        int32_t mode;
        uint32_t reserved[8];
};

struct ax_tensor {
        char *name;
        int32_t *shape;
        uint8_t dimensions;
        int32_t layout, memory, type;
        void *extra;
        uint32_t size;                  /* bytes */
        uint32_t quantization;
        int32_t *stride;
        uint64_t reserved[9];
};

struct ax_io_info {
        struct ax_tensor *inputs;
        uint32_t input_count;
        struct ax_tensor *outputs;
        uint32_t output_count;
        uint32_t batch_max;
        int32_t batch_dynamic;
        uint64_t reserved[11];
};

struct ax_io_buffer {
        uint64_t physical;
        void *cpu;
        uint32_t size;
        int32_t *stride;
        uint8_t strides;
        uint64_t reserved[11];
};

struct ax_io {
        struct ax_io_buffer *inputs;
        uint32_t input_count;
        struct ax_io_buffer *outputs;
        uint32_t output_count;
        uint32_t batch;                 /* 0: as the buffers' sizes say */
        void *setting;
        uint32_t parallel;
        uint64_t reserved[10];
};

static_assert(sizeof(struct ax_tensor) == 128 && sizeof(struct ax_io_info) == 128, "ax_engine_type.h");
static_assert(sizeof(struct ax_io_buffer) == 128 && sizeof(struct ax_io) == 128, "ax_engine_type.h");

/* The functions, by the names they have in the libraries. All return 0 or an error code, but for the version. */
struct ax_calls {
        int32_t (*AX_SYS_Init)(void);
        int32_t (*AX_SYS_Deinit)(void);
        int32_t (*AX_SYS_MemAllocCached)(uint64_t *physical, void **cpu, uint32_t size, uint32_t align,
                                         const int8_t *token);
        int32_t (*AX_SYS_MemFree)(uint64_t physical, void *cpu);
        int32_t (*AX_SYS_MflushCache)(uint64_t physical, void *cpu, uint32_t size);
        int32_t (*AX_SYS_MinvalidateCache)(uint64_t physical, void *cpu, uint32_t size);
        int32_t (*AX_ENGINE_Init)(struct ax_npu_attributes *attributes);
        int32_t (*AX_ENGINE_Deinit)(void);
        const char *(*AX_ENGINE_GetVersion)(void);
        int32_t (*AX_ENGINE_CreateHandle)(void **handle, const void *model, uint32_t size);
        int32_t (*AX_ENGINE_DestroyHandle)(void *handle);
        int32_t (*AX_ENGINE_CreateContext)(void *handle);
        int32_t (*AX_ENGINE_GetIOInfo)(void *handle, struct ax_io_info **info);
        int32_t (*AX_ENGINE_RunSync)(void *handle, struct ax_io *io);
};

#endif
