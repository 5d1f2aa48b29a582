/* SPDX-License-Identifier: MIT
 *
 * The back end `model`: buffers of the process, at addresses from 0 up with a page between them that nothing may touch,
 * and one core of the functional model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define PAGE 4096u
#define MOST_BUFFERS 65536u

struct model {
        struct nm_core core;
        struct block {
                uint32_t address;
                size_t size;
                uint8_t *cpu;           /* NULL: a gap that was freed */
        } *blocks;                      /* by address */
        size_t count, room;
};

static int model_open(const struct nm_options *options, void **state, struct nm_info *info, struct nm_error *why)
{
        struct model *model = calloc(1, sizeof(*model));

        (void)options;
        if (!model)
                return nm_fail(why, NM_NO_MEMORY, "no memory for the model");
        nm_core_reset(&model->core, 0xA5A5A5A5);
        snprintf(info->device, sizeof(info->device), "functional model of one RK3588 NPU core");
        snprintf(info->driver, sizeof(info->driver), "libnpu-matmul %s", nm_version());
        info->evidence = "modelled";
        info->computes_on_npu = false;
        *state = model;
        return NM_OK;
}

static void model_close(void *state)
{
        struct model *model = state;

        for (size_t i = 0; i < model->count; i++)
                free(model->blocks[i].cpu);
        free(model->blocks);
        free(model);
}

/* First fit: the index at which a block of `size` goes, and its address. */
static bool find_gap(const struct model *model, size_t size, size_t *index, uint32_t *address)
{
        uint64_t start = 0;

        for (size_t i = 0; i < model->count; i++) {
                if (start + size + PAGE <= model->blocks[i].address) {
                        *index = i;
                        *address = (uint32_t)start;
                        return true;
                }
                start = (uint64_t)model->blocks[i].address + model->blocks[i].size + PAGE;
        }
        *index = model->count;
        *address = (uint32_t)start;
        return start + size <= UINT64_C(1) << 32;
}

static int model_create(void *state, size_t size, enum nm_use use, struct nm_buffer *buffer, struct nm_error *why)
{
        struct model *model = state;
        size_t rounded, index;
        uint32_t address;
        void *cpu;

        (void)use;
        if (size > UINT32_MAX)
                return nm_fail(why, NM_ADDRESS, "a buffer of %zu bytes does not fit into 32 bits of address", size);
        rounded = (size + PAGE - 1) / PAGE * PAGE;
        if (!find_gap(model, rounded, &index, &address))
                return nm_fail(why, NM_ADDRESS, "4 GiB of address space are used up");
        if (model->count == model->room) {
                size_t room = model->room ? model->room * 2 : 64;
                void *blocks = room <= MOST_BUFFERS ? realloc(model->blocks, room * sizeof(*model->blocks)) : NULL;

                if (!blocks)
                        return nm_fail(why, NM_NO_MEMORY, "no memory for %zu buffers", room);
                model->blocks = blocks;
                model->room = room;
        }
        cpu = aligned_alloc(PAGE, rounded ? rounded : PAGE);
        if (!cpu)
                return nm_fail(why, NM_NO_MEMORY, "no memory for a buffer of %zu bytes", size);
        memset(cpu, 0xCC, rounded);
        memmove(model->blocks + index + 1, model->blocks + index, (model->count - index) * sizeof(*model->blocks));
        model->blocks[index] = (struct block){address, rounded, cpu};
        model->count++;
        *buffer = (struct nm_buffer){
                .cpu = cpu, .address = address, .size = size, .handle = address / PAGE + 1, .mapped = rounded};
        return NM_OK;
}

static void model_destroy(void *state, struct nm_buffer *buffer)
{
        struct model *model = state;

        for (size_t i = 0; i < model->count; i++)
                if (model->blocks[i].cpu == buffer->cpu) {
                        free(buffer->cpu);
                        model->count--;
                        memmove(model->blocks + i, model->blocks + i + 1, (model->count - i) * sizeof(*model->blocks));
                        return;
                }
}

static int model_to_device(void *state, struct nm_buffer *buffer, size_t bytes, struct nm_error *why)
{
        (void)state, (void)buffer, (void)bytes, (void)why;
        return NM_OK;
}

static int model_to_cpu(void *state, struct nm_buffer *buffer, size_t bytes, unsigned timeout_ms, struct nm_error *why)
{
        (void)state, (void)buffer, (void)bytes, (void)timeout_ms, (void)why;
        return NM_OK;
}

static void *model_at(void *context, uint32_t address, size_t bytes, bool write)
{
        struct model *model = context;
        size_t low = 0, high = model->count;

        (void)write;
        while (low < high) {            /* the last block that begins at or below `address` */
                size_t middle = (low + high) / 2;

                if (model->blocks[middle].address <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low == 0 || address - model->blocks[low - 1].address > model->blocks[low - 1].size ||
            bytes > model->blocks[low - 1].size - (address - model->blocks[low - 1].address))
                return NULL;
        return model->blocks[low - 1].cpu + (address - model->blocks[low - 1].address);
}

static int model_submit(void *state, const struct nm_job *job, struct nm_error *why)
{
        struct model *model = state;
        struct nm_model_memory memory = {model_at, model};

        for (size_t i = 0; i < job->count; i++) {
                int status = nm_core_run(&model->core, &memory, &job->lists[i], why);

                if (status)
                        return status;
        }
        return NM_OK;
}

static const struct nm_list_ops model_lists = {
        .create = model_create, .destroy = model_destroy, .to_device = model_to_device, .to_cpu = model_to_cpu,
        .submit = model_submit, .lists_per_job = 4095, .rdma_by_default = false,
};

const struct nm_backend nm_model = {.name = "model", .open = model_open, .close = model_close, .lists = &model_lists};
