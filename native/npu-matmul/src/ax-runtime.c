/* SPDX-License-Identifier: MIT */
#include "ax-runtime.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGN = 128 };           /* of tensors, as the vendor's samples have it */

static const char *const directories[] = { "/opt/data/ive/matmul/matmul_models", "/usr/share/npu-matmul/axmodels" };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned users;          /* of the initialised run-time */

static void *load(const char *variable, const char *name, struct nm_error *why)
{
        const char *named = getenv(variable);
        char there[64];
        void *library = dlopen(named ? named : name, RTLD_NOW | RTLD_LOCAL);

        snprintf(there, sizeof(there), "/soc/lib/%s", name);
        if (!library && !named)
                library = dlopen(there, RTLD_NOW | RTLD_LOCAL);
        if (!library)
                nm_fail(why, NM_NO_DEVICE, "the AX650N's run-time: %.180s (%s names another)", dlerror(), variable);
        return library;
}

static void *symbol(const struct ax_runtime *runtime, const char *name)
{
        return dlsym(strncmp(name, "AX_SYS", 6) ? runtime->engine : runtime->sys, name);
}

/* A pointer to a function cannot be assigned from dlsym's in ISO C; POSIX promises the same bytes. */
#define RESOLVE(name)                                                                                                  \
        do {                                                                                                           \
                void *found = symbol(runtime, #name);                                                                  \
                if (!found)                                                                                            \
                        return nm_fail(why, NM_NO_DEVICE, "the AX650N's run-time has no " #name);                      \
                memcpy(&runtime->calls.name, &found, sizeof(found));                                                   \
        } while (0)

static int resolve(struct ax_runtime *runtime, struct nm_error *why)
{
        RESOLVE(AX_SYS_Init);
        RESOLVE(AX_SYS_Deinit);
        RESOLVE(AX_SYS_MemAllocCached);
        RESOLVE(AX_SYS_MemFree);
        RESOLVE(AX_SYS_MflushCache);
        RESOLVE(AX_SYS_MinvalidateCache);
        RESOLVE(AX_ENGINE_Init);
        RESOLVE(AX_ENGINE_Deinit);
        RESOLVE(AX_ENGINE_GetVersion);
        RESOLVE(AX_ENGINE_CreateHandle);
        RESOLVE(AX_ENGINE_DestroyHandle);
        RESOLVE(AX_ENGINE_CreateContext);
        RESOLVE(AX_ENGINE_GetIOInfo);
        RESOLVE(AX_ENGINE_RunSync);
        return NM_OK;
}

/* The pattern of the vendor's files; the one-core and three-core variants differ in their estimate only. */
static bool parse(const char *name, struct ax_model *model)
{
        unsigned long long cycles;
        unsigned cores;
        int end = 0;

        if (sscanf(name, "v1_matmul_npu%u_s8_%u_%u_%u_%llu.axmodel%n", &cores, &model->k, &model->d1, &model->d2,
                   &cycles, &end) != 5 ||
            !end || name[end] || strlen(name) >= sizeof(model->file))
                return false;
        if (model->k == 0 || model->d1 == 0 || model->d2 == 0)
                return false;
        if (model->k > 16384 || model->d1 > 1u << 20 || model->d2 > 1u << 20)
                return false;
        model->cycles = cycles ? cycles : 1;
        strcpy(model->file, name);
        return true;
}

static int read_directory(struct ax_runtime *runtime, const char *path, struct nm_error *why)
{
        DIR *directory = opendir(path);
        const struct dirent *entry;

        if (!directory)
                return nm_fail(why, NM_NO_DEVICE, "the directory of matmul models, %.128s: %s", path, strerror(errno));
        while ((entry = readdir(directory))) {
                struct ax_model model = { .k = 0 };
                struct ax_model *more;

                if (!parse(entry->d_name, &model))
                        continue;
                more = realloc(runtime->models, (runtime->count + 1) * sizeof(*more));
                if (!more) {
                        closedir(directory);
                        return nm_fail(why, NM_NO_MEMORY, "no memory for a list of models");
                }
                runtime->models = more;
                runtime->models[runtime->count++] = model;
        }
        closedir(directory);
        if (runtime->count == 0)
                return nm_fail(why, NM_NO_DEVICE, "%.128s holds no v1_matmul_npu*_s8_K_D1_D2_CYCLES.axmodel", path);
        snprintf(runtime->directory, sizeof(runtime->directory), "%s", path);
        return NM_OK;
}

static int find_models(struct ax_runtime *runtime, const char *given, struct nm_error *why)
{
        const char *named = given ? given : getenv("NPU_MATMUL_AX_MODELS");
        int status = NM_NO_DEVICE;

        if (named)
                return read_directory(runtime, named, why);
        for (size_t i = 0; i < sizeof(directories) / sizeof(*directories) && status; i++)
                status = read_directory(runtime, directories[i], why);
        return status;
}

static int start(const struct ax_runtime *runtime, struct nm_error *why)
{
        struct ax_npu_attributes attributes = { .mode = AX_ALL_CORES };
        int status = NM_OK;
        int32_t error;

        pthread_mutex_lock(&lock);
        if (users == 0) {
                error = runtime->calls.AX_SYS_Init();
                if (error)
                        status = nm_fail(why, NM_DRIVER, "AX_SYS_Init: 0x%08x", (unsigned)error);
                if (!error && (error = runtime->calls.AX_ENGINE_Init(&attributes))) {
                        runtime->calls.AX_SYS_Deinit();
                        status = nm_fail(why, NM_DRIVER, "AX_ENGINE_Init: 0x%08x", (unsigned)error);
                }
        }
        if (status == NM_OK)
                users++;
        pthread_mutex_unlock(&lock);
        return status;
}

static void release(struct ax_runtime *runtime)
{
        free(runtime->models);
        if (runtime->engine)
                dlclose(runtime->engine);
        if (runtime->sys)
                dlclose(runtime->sys);
}

int ax_runtime_open(const char *directory, struct ax_runtime *runtime, struct nm_error *why)
{
        int status = NM_NO_DEVICE;

        *runtime = (struct ax_runtime){ .engine = NULL };
        runtime->sys = load("NPU_MATMUL_AX_SYS", "libax_sys.so", why);
        if (runtime->sys)
                runtime->engine = load("NPU_MATMUL_AX_ENGINE", "libax_engine.so", why);
        if (runtime->engine)
                status = resolve(runtime, why);
        if (status == NM_OK)
                status = find_models(runtime, directory, why);
        if (status == NM_OK)
                status = start(runtime, why);
        if (status)
                release(runtime);
        return status;
}

void ax_runtime_close(struct ax_runtime *runtime)
{
        for (size_t i = 0; i < runtime->count; i++) {
                ax_free(runtime, &runtime->models[i].operand);
                ax_free(runtime, &runtime->models[i].result);
                if (runtime->models[i].handle)
                        runtime->calls.AX_ENGINE_DestroyHandle(runtime->models[i].handle);
        }
        pthread_mutex_lock(&lock);
        if (--users == 0) {
                runtime->calls.AX_ENGINE_Deinit();
                runtime->calls.AX_SYS_Deinit();
        }
        pthread_mutex_unlock(&lock);
        release(runtime);
}

int ax_allocate(const struct ax_runtime *runtime, size_t size, struct ax_memory *memory, struct nm_error *why)
{
        int32_t error;

        *memory = (struct ax_memory){ 0 };
        if (size > UINT32_MAX)
                return nm_fail(why, NM_NO_MEMORY, "%zu bytes of CMM at once, at most 4 GiB", size);
        error = runtime->calls.AX_SYS_MemAllocCached(&memory->physical, &memory->cpu, (uint32_t)size, ALIGN,
                                                     (const int8_t *)"npu-matmul");
        if (error || !memory->cpu) {
                *memory = (struct ax_memory){ 0 };
                return nm_fail(why, NM_NO_MEMORY, "AX_SYS_MemAllocCached of %zu bytes: 0x%08x%s", size, (unsigned)error,
                               error == AX_NO_CMM ? "; CMM is short: see /proc/ax_proc/mem_cmm_info, and raise cmmpool="
                                                  : "");
        }
        memory->size = (uint32_t)size;
        return NM_OK;
}

void ax_free(const struct ax_runtime *runtime, struct ax_memory *memory)
{
        if (memory->cpu)
                runtime->calls.AX_SYS_MemFree(memory->physical, memory->cpu);
        *memory = (struct ax_memory){ 0 };
}

int ax_flush(const struct ax_runtime *runtime, const struct ax_memory *memory, size_t offset, size_t bytes,
             struct nm_error *why)
{
        const int32_t error = runtime->calls.AX_SYS_MflushCache(memory->physical + offset, (char *)memory->cpu + offset,
                                                                (uint32_t)bytes);

        return error ? nm_fail(why, NM_DRIVER, "AX_SYS_MflushCache: 0x%08x", (unsigned)error) : NM_OK;
}

int ax_invalidate(const struct ax_runtime *runtime, const struct ax_memory *memory, size_t bytes, struct nm_error *why)
{
        const int32_t error = runtime->calls.AX_SYS_MinvalidateCache(memory->physical, memory->cpu, (uint32_t)bytes);

        return error ? nm_fail(why, NM_DRIVER, "AX_SYS_MinvalidateCache: 0x%08x", (unsigned)error) : NM_OK;
}

static bool is_shape(const struct ax_tensor *tensor, int32_t type, uint32_t rows, uint32_t columns, uint32_t bytes)
{
        return tensor->type == type && tensor->dimensions == 2 && tensor->shape[0] == (int32_t)rows &&
               tensor->shape[1] == (int32_t)columns && tensor->size == bytes && !tensor->stride;
}

static int compare(const struct ax_model *model, const struct ax_io_info *info, struct nm_error *why)
{
        const uint32_t k = model->k, d1 = model->d1, d2 = model->d2;

        if (info->input_count != 2 || info->output_count != 1 ||
            !is_shape(&info->inputs[0], AX_TYPE_INT8, d1, k, d1 * k) ||
            !is_shape(&info->inputs[1], AX_TYPE_INT8, d2, k, d2 * k) ||
            !is_shape(&info->outputs[0], AX_TYPE_FLOAT32, d1, d2, d1 * d2 * 4))
                return nm_fail(why, NM_UNSUPPORTED,
                               "%s: expected int8 x[%u, %u] and y[%u, %u] and float32 r[%u, %u]; its "
                               "tensors are others",
                               model->file, d1, k, d2, k, d1, d2);
        return NM_OK;
}

static int create_handle(const struct ax_runtime *runtime, struct ax_model *model, struct nm_error *why)
{
        char path[400];
        struct stat about;
        void *bytes = MAP_FAILED;
        int32_t error;
        int fd;

        snprintf(path, sizeof(path), "%s/%s", runtime->directory, model->file);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &about) == 0 && about.st_size > 0 && about.st_size < INT32_MAX)
                bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (fd >= 0)
                close(fd);
        if (bytes == MAP_FAILED)
                return nm_fail(why, NM_NO_DEVICE, "%.200s cannot be read", path);
        error = runtime->calls.AX_ENGINE_CreateHandle(&model->handle, bytes, (uint32_t)about.st_size);
        munmap(bytes, (size_t)about.st_size);
        if (error) {
                model->handle = NULL;
                return nm_fail(why, NM_DRIVER,
                               "AX_ENGINE_CreateHandle(%s): 0x%08x; after a killed program, CMM may be used up "
                               "until the board is started anew",
                               model->file, (unsigned)error);
        }
        return NM_OK;
}

int ax_model_load(const struct ax_runtime *runtime, struct ax_model *model, struct nm_error *why)
{
        struct ax_io_info *info = NULL;
        int status;
        int32_t error;

        if (model->handle)
                return NM_OK;
        status = create_handle(runtime, model, why);
        if (status)
                return status;
        error = runtime->calls.AX_ENGINE_CreateContext(model->handle);
        if (!error)
                error = runtime->calls.AX_ENGINE_GetIOInfo(model->handle, &info);
        status = error || !info ? nm_fail(why, NM_DRIVER, "%s: 0x%08x", model->file, (unsigned)error)
                                : compare(model, info, why);
        if (status == NM_OK)
                status = ax_allocate(runtime, (size_t)model->d1 * model->d2 * sizeof(float), &model->result, why);
        if (status) {
                runtime->calls.AX_ENGINE_DestroyHandle(model->handle);
                model->handle = NULL;
        }
        return status;
}

int ax_model_run(const struct ax_runtime *runtime, const struct ax_model *model, const struct ax_memory *x,
                 const struct ax_memory *y, struct nm_error *why)
{
        struct ax_io_buffer inputs[2] = { { .physical = x->physical, .cpu = x->cpu, .size = x->size },
                                          { .physical = y->physical, .cpu = y->cpu, .size = y->size } };
        struct ax_io_buffer output = { .physical = model->result.physical, .cpu = model->result.cpu,
                                       .size = model->result.size };
        struct ax_io io = { .inputs = inputs, .input_count = 2, .outputs = &output, .output_count = 1 };
        sigset_t all, before;
        int32_t error;

        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        error = runtime->calls.AX_ENGINE_RunSync(model->handle, &io);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return error ? nm_fail(why, NM_DRIVER, "AX_ENGINE_RunSync(%s): 0x%08x", model->file, (unsigned)error) : NM_OK;
}
