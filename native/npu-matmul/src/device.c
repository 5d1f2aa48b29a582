/* SPDX-License-Identifier: MIT */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "half.h"

#define DEFAULT_TIMEOUT_MS 6000

/* In the order in which they are tried; the model is never taken unasked. */
static const struct nm_backend *const all[] = {
#ifdef NM_HAVE_ROCKET
        &nm_rocket,
#endif
#ifdef NM_HAVE_RKNPU
        &nm_rknpu,
#endif
#ifdef NM_HAVE_AXENGINE
        &nm_axengine,
#endif
#ifdef NM_HAVE_CPU
        &nm_cpu,
#endif
#ifdef NM_HAVE_MODEL
        &nm_model,
#endif
};
#define BACKENDS (sizeof(all) / sizeof(all[0]))

const char *const *nm_backends(void)
{
        static const char *const names[] = {
#ifdef NM_HAVE_ROCKET
                "rocket",
#endif
#ifdef NM_HAVE_RKNPU
                "rknpu",
#endif
#ifdef NM_HAVE_AXENGINE
                "axengine",
#endif
#ifdef NM_HAVE_CPU
                "cpu",
#endif
#ifdef NM_HAVE_MODEL
                "model",
#endif
                NULL,
        };

        return names;
}

static int open_one(const struct nm_backend *backend, struct nm_device *device, struct nm_error *why)
{
        memset(&device->info, 0, sizeof(device->info));
        device->state = NULL;
        device->backend = backend;
        return backend->open(&device->options, &device->state, &device->info, why);
}

static int open_named(const char *name, struct nm_device *device, struct nm_error *why)
{
        char known[128] = "";

        for (size_t i = 0; i < BACKENDS; i++) {
                if (!strcmp(all[i]->name, name))
                        return open_one(all[i], device, why);
                snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s", i ? ", " : "", all[i]->name);
        }
        return nm_fail(why, NM_INVALID, "no back end is called '%.64s': expected one of %s", name, known);
}

static int open_first(struct nm_device *device, struct nm_error *why)
{
        int status = nm_fail(why, NM_NO_DEVICE, "this library was built without back ends");

        for (size_t i = 0; i < BACKENDS; i++) {
                if (!strcmp(all[i]->name, "model"))
                        continue;
                status = open_one(all[i], device, why);
                if (status == NM_OK)
                        break;
        }
        return status;
}

static int check_options(const struct nm_options *options, struct nm_error *why)
{
        const struct nm_switches *s = &options->switches;

        if (options->threads > 1024)
                return nm_fail(why, NM_INVALID, "threads is %u: expected at most 1024", options->threads);
        if (s->grains > 1023)
                return nm_fail(why, NM_INVALID, "switch grains is %u: the field has 10 bits", s->grains);
        if ((unsigned)s->rows > NM_ROWS_PADDED || (unsigned)s->rdma > NM_RDMA_ON ||
            (unsigned)s->int8_banks > NM_BANKS_EXACT || (unsigned)s->mrdma > NM_MRDMA_ZERO)
                return nm_fail(why, NM_INVALID, "a switch has a value that its enumeration lacks");
        return NM_OK;
}

int nm_open(const struct nm_options *options, struct nm_device **device, struct nm_error *why)
{
        struct nm_options wanted = {0};
        const char *name = getenv("NPU_MATMUL_BACKEND");
        struct nm_device *made;
        int status;

        if (!device)
                return nm_fail(why, NM_INVALID, "device is NULL");
        *device = NULL;
        if (options)
                wanted = *options;
        if (wanted.backend)
                name = wanted.backend;
        if (!wanted.timeout_ms)
                wanted.timeout_ms = DEFAULT_TIMEOUT_MS;
        status = check_options(&wanted, why);
        if (status)
                return status;
        made = calloc(1, sizeof(*made));
        if (!made)
                return nm_fail(why, NM_NO_MEMORY, "no memory for a device");
        made->options = wanted;
        status = name && *name ? open_named(name, made, why) : open_first(made, why);
        if (status) {
                free(made);
                return status;
        }
        made->info.backend = made->backend->name;
        made->options.backend = made->backend->name;
        made->options.node = NULL;      /* the caller's string may be gone by now */
        *device = made;
        return NM_OK;
}

void nm_close(struct nm_device *device)
{
        if (!device)
                return;
        for (int stage = 0; stage < NM_STAGES; stage++)
                for (int class = 0; class < NM_CLASSES; class++) {
                        if (device->staging[stage][class])
                                device->backend->lists->destroy(device->state, device->staging[stage][class]);
                        free(device->staging[stage][class]);
                }
        device->backend->close(device->state);
        free(device);
}

int nm_staging(struct nm_device *device, enum nm_staging stage, size_t bytes, struct nm_buffer **buffer,
               struct nm_error *why)
{
        static const enum nm_use uses[] = {NM_USE_INPUT, NM_USE_OUTPUT, NM_USE_LISTS};
        struct nm_buffer **place;
        int class = 0, status;

        while (class + 1 < NM_CLASSES && (size_t)4096 << class < bytes)
                class++;
        place = &device->staging[stage][class];
        if (!*place) {
                struct nm_buffer *made = calloc(1, sizeof(*made));

                if (!made)
                        return nm_fail(why, NM_NO_MEMORY, "no memory for a buffer");
                status = device->backend->lists->create(device->state, (size_t)4096 << class, uses[stage], made, why);
                if (status) {
                        free(made);
                        return status;
                }
                *place = made;
        }
        *buffer = *place;
        return NM_OK;
}

const struct nm_info *nm_info(const struct nm_device *device)
{
        return &device->info;
}

void nm_counters(const struct nm_device *device, struct nm_counters *counters)
{
        *counters = device->counters;
}

void nm_half_from_float(uint16_t *to, const float *from, size_t count)
{
        halves_from_floats(to, from, count);
}

void nm_float_from_half(float *to, const uint16_t *from, size_t count)
{
        floats_from_halves(to, from, count);
}
