/* SPDX-License-Identifier: MIT
 *
 * libax_engine and libax_sys in one object, of the same symbols: models are texts that name their shape, CMM has a copy
 * the processor sees and one the NPU sees. FAKE_AX_FAULTS: alloc=N, handle, shape, run, vanish, scale, init, context.
 * FAKE_AX_REPORT: a file that gets one line of what was left over when the library was unloaded.
 */
#define _GNU_SOURCE 1
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/ax-types.h"

#define EXPORT __attribute__((visibility("default")))

struct block {
        struct block *next;
        uint64_t physical;
        char *cpu, *npu;
        uint32_t size;
};

struct handle {
        uint32_t k, d1, d2;
        bool context;
        int32_t shapes[3][2];
        struct ax_tensor inputs[2], output;
        struct ax_io_info info;
};

static struct block *blocks;
static uint64_t next_physical = 0x180000000;    /* CMM lies above 4 GiB there */
static int sys, engine, handles, allocations;
static unsigned violations, runs;

static bool fault(const char *name)
{
        const char *faults = getenv("FAKE_AX_FAULTS");

        return faults && strstr(faults, name);
}

EXPORT int32_t AX_SYS_Init(void)
{
        if (fault("init"))
                return (int32_t)0x800B0010;
        sys++;
        return 0;
}

EXPORT int32_t AX_SYS_Deinit(void)
{
        sys--;
        return 0;
}

EXPORT int32_t AX_SYS_MemAllocCached(uint64_t *physical, void **cpu, uint32_t size, uint32_t align, const int8_t *token)
{
        const char *which = getenv("FAKE_AX_FAULTS");
        struct block *block;

        which = which ? strstr(which, "alloc=") : NULL;
        if (!sys || !token || align != 128 || (which && atoi(which + 6) == ++allocations))
                return AX_NO_CMM;
        block = calloc(1, sizeof(*block));
        if (!block)
                return AX_NO_CMM;
        block->size = size;
        block->cpu = aligned_alloc(128, (size + 127u) / 128 * 128);
        block->npu = malloc(size);
        memset(block->cpu, 0x77, size);
        memset(block->npu, 0x77, size);
        block->physical = next_physical;
        next_physical += (size + 4095u) / 4096 * 4096;
        block->next = blocks;
        blocks = block;
        *physical = block->physical;
        *cpu = block->cpu;
        return 0;
}

EXPORT int32_t AX_SYS_MemFree(uint64_t physical, void *cpu)
{
        for (struct block **link = &blocks; *link; link = &(*link)->next) {
                struct block *block = *link;

                if (block->physical != physical || block->cpu != cpu)
                        continue;
                *link = block->next;
                free(block->cpu);
                free(block->npu);
                free(block);
                return 0;
        }
        violations++;
        return (int32_t)0x800B000A;
}

static struct block *find(uint64_t physical, uint32_t size)
{
        for (struct block *block = blocks; block; block = block->next)
                if (physical >= block->physical && physical - block->physical + size <= block->size)
                        return block;
        violations++;
        return NULL;
}

EXPORT int32_t AX_SYS_MflushCache(uint64_t physical, void *cpu, uint32_t size)
{
        struct block *block = find(physical, size);
        const uint64_t at = block ? physical - block->physical : 0;

        if (!block || (char *)cpu != block->cpu + at)
                return (int32_t)0x800B000A;
        memcpy(block->npu + at, cpu, size);
        return 0;
}

EXPORT int32_t AX_SYS_MinvalidateCache(uint64_t physical, void *cpu, uint32_t size)
{
        struct block *block = find(physical, size);
        const uint64_t at = block ? physical - block->physical : 0;

        if (!block || (char *)cpu != block->cpu + at)
                return (int32_t)0x800B000A;
        memcpy(cpu, block->npu + at, size);
        return 0;
}

EXPORT int32_t AX_ENGINE_Init(struct ax_npu_attributes *attributes)
{
        if (!sys || attributes->mode != AX_ALL_CORES)
                return (int32_t)0x8006000A;
        engine++;
        return 0;
}

EXPORT int32_t AX_ENGINE_Deinit(void)
{
        engine--;
        return 0;
}

EXPORT const char *AX_ENGINE_GetVersion(void)
{
        return "fake 1.45";
}

static void tensor(struct ax_tensor *tensor, const char *name, int32_t type, int32_t *shape, uint32_t rows,
                   uint32_t columns)
{
        shape[0] = (int32_t)rows;
        shape[1] = (int32_t)columns;
        *tensor = (struct ax_tensor){ .name = (char *)name, .shape = shape, .dimensions = 2, .type = type,
                                      .size = rows * columns * (type == AX_TYPE_FLOAT32 ? 4 : 1) };
}

EXPORT int32_t AX_ENGINE_CreateHandle(void **handle, const void *model, uint32_t size)
{
        struct handle *made;
        char text[128] = "";

        if (!engine || size >= sizeof(text) || fault("handle"))
                return (int32_t)0x80060004;
        memcpy(text, model, size);
        made = calloc(1, sizeof(*made));
        if (sscanf(text, "{\"matmul\": \"s8\", \"k\": %u, \"d1\": %u, \"d2\": %u}", &made->k, &made->d1, &made->d2) !=
            3) {
                free(made);
                return (int32_t)0x80060005;
        }
        tensor(&made->inputs[0], "x", AX_TYPE_INT8, made->shapes[0], made->d1, made->k);
        tensor(&made->inputs[1], "y", AX_TYPE_INT8, made->shapes[1], made->d2, made->k);
        tensor(&made->output, "r", fault("shape") ? AX_TYPE_INT16 : AX_TYPE_FLOAT32, made->shapes[2], made->d1,
               made->d2);
        made->info = (struct ax_io_info){ .inputs = made->inputs, .input_count = 2, .outputs = &made->output,
                                          .output_count = 1 };
        *handle = made;
        handles++;
        return 0;
}

EXPORT int32_t AX_ENGINE_DestroyHandle(void *handle)
{
        free(handle);
        handles--;
        return 0;
}

EXPORT int32_t AX_ENGINE_CreateContext(void *handle)
{
        if (fault("context"))
                return (int32_t)0x80060008;
        ((struct handle *)handle)->context = true;
        return 0;
}

EXPORT int32_t AX_ENGINE_GetIOInfo(void *handle, struct ax_io_info **info)
{
        *info = &((struct handle *)handle)->info;
        return 0;
}

EXPORT int32_t AX_ENGINE_RunSync(void *handle, struct ax_io *io)
{
        const struct handle *model = handle;
        const struct block *x, *y, *r;

        if (!model->context || io->input_count != 2 || io->output_count != 1 || fault("run"))
                return (int32_t)0x80060006;
        x = find(io->inputs[0].physical, model->inputs[0].size);
        y = find(io->inputs[1].physical, model->inputs[1].size);
        r = find(io->outputs[0].physical, model->output.size);
        if (!x || !y || !r || io->inputs[0].size != model->inputs[0].size ||
            io->inputs[1].size != model->inputs[1].size)
                return (int32_t)0x8006000B;
        runs++;
        for (uint32_t i = 0; i < model->d1 && !fault("vanish"); i++) {
                for (uint32_t j = 0; j < model->d2; j++) {
                        int32_t sum = 0;

                        for (uint32_t k = 0; k < model->k; k++)
                                sum += (int8_t)x->npu[i * model->k + k] * (int8_t)y->npu[j * model->k + k];
                        ((float *)(void *)r->npu)[i * model->d2 + j] = (float)sum * (fault("scale") ? 0.3f : 1.0f);
                }
        }
        return 0;
}

__attribute__((destructor)) static void report(void)
{
        const char *path = getenv("FAKE_AX_REPORT");
        FILE *file = path ? fopen(path, "we") : NULL;
        int left = 0;

        for (const struct block *block = blocks; block; block = block->next)
                left++;
        if (!file)
                return;
        fprintf(file, "sys %d engine %d handles %d blocks %d violations %u runs %u\n", sys, engine, handles, left,
                violations, runs);
        fclose(file);
}
