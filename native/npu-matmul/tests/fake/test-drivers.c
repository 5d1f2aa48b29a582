/* SPDX-License-Identifier: MIT
 *
 * The rocket and rknpu back ends over the fake nodes, call by call: a product of one list that is written out here,
 * word by word, and every fault, after which nothing may be left.
 */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

enum { M = 4, K = 64, N = 32, WORDS = 126 };

static const char *current;

#define CHECK(condition)                                                                                               \
        do {                                                                                                           \
                if (!(condition)) {                                                                                    \
                        fprintf(stderr, "%s: %s:%d: %s does not hold; '%s', violation '%s'\n", current, __FILE__,      \
                                __LINE__, #condition, why.text, fake_counts()->first);                                 \
                        exit(1);                                                                                       \
                }                                                                                                      \
        } while (0)

static unsigned descriptors(void)
{
        unsigned count = 0;
        DIR *directory = opendir("/proc/self/fd");

        while (directory && readdir(directory))
                count++;
        if (directory)
                closedir(directory);
        return count;
}

static size_t put(uint64_t *list, size_t at, uint64_t target, uint64_t offset, uint64_t value)
{
        list[at] = target << 48 | (value & 0xffffffff) << 16 | offset;
        return at + 1;
}

/* The one of fp16 to fp32, M 4, K 64, N 32, in the order of the open matmul implementations; see docs/npu.md. */
static size_t write_list(uint64_t *list, uint64_t input, uint64_t weights, uint64_t output, bool rdma)
{
        static const uint16_t zeros_cna[] = { 0x1060, 0x1064, 0x1068 },
                              zeros_rdma[] = { 0x5018, 0x501C, 0x5020, 0x5028, 0x502C };
        static const uint16_t lut_end = 0x412C;
        enum { PC = 0x0101, CNA = 0x0201, CORE = 0x0801, DPU = 0x1001, RDMA = 0x2001 };
        size_t i = put(list, 0, DPU, 0x4004, 0xE);

        if (rdma)
                i = put(list, i, RDMA, 0x5004, 0xE);
        i = put(list, i, CNA, 0x100C, 0x120);
        i = put(list, i, CNA, 0x1010, (M + 1) << 4);
        i = put(list, i, CNA, 0x1014, 9);
        i = put(list, i, CNA, 0x1020, 1 << 16 | M);
        i = put(list, i, CNA, 0x1024, (K - 1) << 16 | K);
        i = put(list, i, CNA, 0x1028, 1);
        i = put(list, i, CNA, 0x102C, M);
        i = put(list, i, CNA, 0x1030, N * K * 2);
        i = put(list, i, CNA, 0x1034, K * 2);
        i = put(list, i, CNA, 0x1038, 1 << 24 | 1 << 16 | N);
        i = put(list, i, CNA, 0x1040, 0xB1);
        i = put(list, i, CNA, 0x1044, K / 32);
        i = put(list, i, CNA, 0x104C, 0xB);
        for (unsigned offset = 0x1050; offset <= 0x105C; offset += 4)
                i = put(list, i, CNA, offset, 0x10000);
        for (unsigned j = 0; j < 3; j++)
                i = put(list, i, CNA, zeros_cna[j], 0);
        i = put(list, i, CNA, 0x1070, input);
        i = put(list, i, CNA, 0x1074, 0);
        i = put(list, i, CNA, 0x1078, 0x000F000F);
        i = put(list, i, CNA, 0x107C, 4);
        i = put(list, i, CNA, 0x1080, M - 4);
        i = put(list, i, CNA, 0x1084, 1 << 16 | M);
        i = put(list, i, CNA, 0x1088, K);
        i = put(list, i, CNA, 0x1100, 0);
        i = put(list, i, CNA, 0x1104, 0);
        i = put(list, i, CNA, 0x1110, weights);
        for (unsigned offset = 0x1140; offset <= 0x117C; offset += 4)
                i = put(list, i, CNA, offset, 0);
        i = put(list, i, CNA, 0x1180, 0);
        i = put(list, i, CNA, 0x1184, 0);
        i = put(list, i, CORE, 0x3010, 0x201);
        i = put(list, i, CORE, 0x3014, (M - 1) << 16);
        i = put(list, i, CORE, 0x3018, N - 1);
        i = put(list, i, CORE, 0x301C, 0);
        i = put(list, i, CORE, 0x3030, 0);
        i = put(list, i, DPU, 0x400C, 0x1E4);
        i = put(list, i, DPU, 0x4010, 0xA8000002);
        i = put(list, i, DPU, 0x4014, 0);
        i = put(list, i, DPU, 0x4020, output);
        i = put(list, i, DPU, 0x4024, M << 4);
        i = put(list, i, DPU, 0x4030, 0);
        i = put(list, i, DPU, 0x4034, M - 1);
        i = put(list, i, DPU, 0x4038, 0);
        i = put(list, i, DPU, 0x403C, (N - 1) << 16 | (N - 1));
        i = put(list, i, DPU, 0x4040, 0x53);
        for (unsigned offset = 0x4044; offset <= 0x404C; offset += 4)
                i = put(list, i, DPU, offset, 0);
        i = put(list, i, DPU, 0x4050, 0x36E);
        i = put(list, i, DPU, 0x4054, 0);
        i = put(list, i, DPU, 0x4058, N - 1);
        i = put(list, i, DPU, 0x405C, (M - 1) << 16);
        i = put(list, i, DPU, 0x4060, 0x53);
        for (unsigned offset = 0x4064; offset <= 0x406C; offset += 4)
                i = put(list, i, DPU, offset, 0);
        i = put(list, i, DPU, 0x4070, 0x383);
        i = put(list, i, DPU, 0x4074, 0);
        i = put(list, i, DPU, 0x4078, 1);
        i = put(list, i, DPU, 0x407C, 0);
        i = put(list, i, DPU, 0x4080, 0);
        i = put(list, i, DPU, 0x4084, 1);
        i = put(list, i, DPU, 0x4088, 0);
        for (unsigned offset = 0x4090; offset <= 0x40AC; offset += 4)
                i = put(list, i, DPU, offset, 0);
        i = put(list, i, DPU, 0x40C0, (M * 4) << 4);
        i = put(list, i, DPU, 0x40C4, 0);
        for (unsigned offset = 0x4100; offset <= lut_end; offset += 4)
                i = put(list, i, DPU, offset, 0);
        if (rdma) {
                i = put(list, i, RDMA, 0x500C, 0);
                i = put(list, i, RDMA, 0x5010, M - 1);
                i = put(list, i, RDMA, 0x5014, N - 1);
                for (unsigned j = 0; j < 5; j++)
                        i = put(list, i, RDMA, zeros_rdma[j], 0);
                i = put(list, i, RDMA, 0x5034, 1);
                i = put(list, i, RDMA, 0x5038, 0);
                i = put(list, i, RDMA, 0x5040, 0);
                i = put(list, i, RDMA, 0x5044, 15 << 11 | 1 << 4);
                i = put(list, i, RDMA, 0x5048, 0);
                i = put(list, i, RDMA, 0x504C, 0);
                i = put(list, i, RDMA, 0x5064, 0);
                i = put(list, i, RDMA, 0x5068, 0x01010101);
                i = put(list, i, RDMA, 0x506C, 0);
        }
        list[i++] = 0;
        i = put(list, i, PC, 0x14, 0);
        list[i++] = UINT64_C(0x41) << 48;
        return put(list, i, 0x81, 8, rdma ? 0x1D : 0xD);
}

/* Small integers as binary16. */
static uint16_t half(int value)
{
        unsigned exponent = 15, mantissa = (unsigned)value;

        if (value == 0)
                return 0;
        while (mantissa < 1024) {
                mantissa *= 2;
                exponent--;
        }
        return (uint16_t)((exponent + 10) << 10 | (mantissa & 1023));
}

struct product {
        struct nm_buffer a, b, c, lists;
        unsigned made;
};

static int a_at(int m, int k) { return (m * 7 + k * 3) % 10; }
static int b_at(int n, int k) { return (n * 5 + k) % 9; }

static int allocate(const struct nm_list_ops *ops, void *state, struct product *p, struct nm_error *why)
{
        int status = ops->create(state, M * K * 2, NM_USE_INPUT, &p->a, why);

        p->made = status == NM_OK;
        if (status == NM_OK)
                p->made += (status = ops->create(state, N * K * 2, NM_USE_WEIGHTS, &p->b, why)) == NM_OK;
        if (status == NM_OK)
                p->made += (status = ops->create(state, M * N * 4, NM_USE_OUTPUT, &p->c, why)) == NM_OK;
        if (status == NM_OK)
                p->made += (status = ops->create(state, 3 * WORDS * 8, NM_USE_LISTS, &p->lists, why)) == NM_OK;
        return status;
}

static void release(const struct nm_list_ops *ops, void *state, struct product *p)
{
        struct nm_buffer *all[] = { &p->a, &p->b, &p->c, &p->lists };

        while (p->made)
                ops->destroy(state, all[--p->made]);
}

static int to_device(const struct nm_list_ops *ops, void *state, struct product *p, struct nm_error *why)
{
        struct nm_buffer *all[] = { &p->a, &p->b, &p->c, &p->lists };
        int status = NM_OK;

        for (int i = 0; i < 4 && status == NM_OK; i++)
                status = ops->to_device(state, all[i], all[i]->size, why);
        return status;
}

static void prepare(struct product *p)
{
        for (int k = 0; k < K; k++) {
                for (int m = 0; m < M; m++)
                        ((uint16_t *)p->a.cpu)[(k / 8) * M * 8 + m * 8 + k % 8] = half(a_at(m, k));
                for (int n = 0; n < N; n++)
                        ((uint16_t *)p->b.cpu)[(n / 16) * 16 * K + (k / 32) * 512 + n % 16 * 32 + k % 32] =
                                half(b_at(n, k));
        }
        memset(p->c.cpu, 0xAA, p->c.size);
}

/* The status of the first step that fails; NM_NOT_RUN when the output is still poisoned. `rounds` equal lists. */
static int multiply(const struct nm_list_ops *ops, void *state, struct product *p, bool rdma, size_t rounds, bool twice,
                    struct nm_error *why)
{
        struct nm_list lists[3];
        struct nm_buffer *reads[] = { &p->lists, &p->a, &p->b, &p->a }, *writes[] = { &p->c };
        const struct nm_job job = { .lists = lists, .count = rounds, .reads = reads, .read_count = twice ? 4 : 3,
                                    .writes = writes, .write_count = 1, .timeout_ms = 1000 };
        int status;

        prepare(p);
        for (size_t i = 0; i < rounds; i++) {
                const size_t words = write_list((uint64_t *)p->lists.cpu + i * WORDS, p->a.address, p->b.address,
                                                p->c.address, rdma);

                lists[i] = (struct nm_list){ p->lists.address + (uint32_t)(i * WORDS * 8), (uint32_t)words,
                                             rdma ? 0x1D : 0xD };
        }
        status = to_device(ops, state, p, why);
        if (status == NM_OK)
                status = ops->submit(state, &job, why);
        if (status == NM_OK)
                status = ops->to_cpu(state, &p->c, p->c.size, 1000, why);
        for (int m = 0; m < M && status == NM_OK; m++) {
                for (int n = 0; n < N && status == NM_OK; n++) {
                        const float *found = (const float *)p->c.cpu + (n / 4) * M * 4 + m * 4 + n % 4;
                        uint32_t bits;
                        int sum = 0;

                        memcpy(&bits, found, 4);
                        for (int k = 0; k < K; k++)
                                sum += a_at(m, k) * b_at(n, k);
                        if (bits == 0xAAAAAAAA)
                                status = NM_NOT_RUN;
                        else if (*found != (float)sum)
                                status = nm_fail(why, 1, "C[%d][%d] is %g, expected %d", m, n, (double)*found, sum);
                }
        }
        return status;
}

struct instance {
        const char *kind, *faults;
        int open, result;               /* statuses expected */
        const char *text;               /* in the error */
        size_t rounds;
        bool twice;                     /* a buffer named twice in the job */
};

static void run(const struct instance *one)
{
        const struct nm_backend *backend = strncmp(one->kind, "rknpu", 5) ? &nm_rocket : &nm_rknpu;
        const struct nm_options options = { .backend = NULL };
        const unsigned before = descriptors();
        struct nm_error why = { "" };
        struct nm_info info = { .backend = NULL };
        struct product p = { .made = 0 };
        void *state = NULL;
        char label[96];
        int status;

        snprintf(label, sizeof(label), "%s, %s", one->kind, one->faults);
        current = label;
        fake_configure(one->kind, one->faults);
        status = backend->open(&options, &state, &info, &why);
        CHECK(status == one->open);
        if (status == NM_OK) {
                CHECK(!strcmp(info.backend, backend->name) && info.computes_on_npu);
                status = allocate(backend->lists, state, &p, &why);
                if (status == NM_OK)
                        status = multiply(backend->lists, state, &p, backend == &nm_rocket,
                                          one->rounds ? one->rounds : 1, one->twice, &why);
                if (status != one->result)
                        fprintf(stderr, "status %d, expected %d\n", status, one->result);
                CHECK(status == one->result);
                release(backend->lists, state, &p);
                backend->close(state);
        }
        CHECK(!one->text || strstr(why.text, one->text));
        CHECK(fake_counts()->files == 0 && fake_counts()->buffers == 0 && fake_counts()->mappings == 0);
        CHECK(fake_counts()->violations == 0);
        CHECK(descriptors() == before);
}

static const struct instance instances[] = {
        { "rocket", "", NM_OK, NM_OK, NULL, 1, false },
        { "rocket", "", NM_OK, NM_OK, NULL, 3, false },
        { "rocket", "eintr", NM_OK, NM_OK, NULL, 1, false },
        { "rocket", "zero-jiffies", NM_OK, NM_OK, NULL, 1, false },
        { "rocket", "alloc=1", NM_OK, NM_NO_MEMORY, "CREATE_BO", 1, false },
        { "rocket", "alloc=3", NM_OK, NM_NO_MEMORY, "CREATE_BO", 1, false },
        { "rocket", "map=2", NM_OK, NM_NO_MEMORY, "mmap", 1, false },
        { "rocket", "high=2", NM_OK, NM_ADDRESS, "32 bits", 1, false },
        { "rocket", "edge=4", NM_OK, NM_ADDRESS, "32 bits", 1, false },
        { "rocket", "timeout", NM_OK, NM_TIMEOUT, "in time", 1, false },
        { "rocket", "hang", NM_OK, NM_NOT_RUN, NULL, 1, false },
        { "rocket", "vanish", NM_OK, NM_NOT_RUN, NULL, 1, false },
        { "rocket", "sync=1", NM_OK, NM_DRIVER, "FINI_BO", 1, false },
        { "rocket", "sync=5", NM_OK, NM_DRIVER, "PREP_BO", 1, false },
        { "rocket", "", NM_OK, NM_INVALID, "twice", 1, true },
        { "rocket", "name", NM_NO_DEVICE, 0, "panthor", 1, false },
        { "rocket", "denied", NM_NO_DEVICE, 0, "group render", 1, false },
        { "nothing", "", NM_NO_DEVICE, 0, "no node of driver rocket", 1, false },
        { "rknpu-0.9.8", "", NM_OK, NM_OK, NULL, 1, false },
        { "rknpu-0.9.8", "", NM_OK, NM_OK, NULL, 3, false },
        { "rknpu-0.9.2", "", NM_OK, NM_OK, NULL, 1, false },
        { "rknpu-misc", "", NM_OK, NM_OK, NULL, 1, false },
        { "rknpu-misc-0.9.2", "", NM_OK, NM_OK, NULL, 2, false },
        { "rknpu-misc-0.9.6", "", NM_OK, NM_OK, NULL, 1,
          false }, /* takes the old size, which its number does not tell */
        { "rknpu-0.9.8", "eintr", NM_OK, NM_OK, NULL, 1, false },
        { "rknpu-0.9.8", "alloc=1", NM_NO_MEMORY, 0, "MEM_CREATE", 1, false },
        { "rknpu-0.9.8", "alloc=3", NM_OK, NM_NO_MEMORY, "address space", 1, false },
        { "rknpu-0.9.8", "alloc=3,no-iommu", NM_OK, NM_NO_MEMORY, "CMA is short", 1, false },
        { "rknpu-misc", "alloc=3,no-iommu", NM_OK, NM_NO_MEMORY, "cma=512M", 1, false },
        { "rknpu-0.9.8", "map=2", NM_OK, NM_NO_MEMORY, "mmap", 1, false },
        { "rknpu-0.9.8", "high=3", NM_OK, NM_ADDRESS, "below 4 GiB", 1, false },
        { "rknpu-misc", "high=3", NM_OK, NM_ADDRESS, "below 4 GiB", 1, false },
        { "rknpu-0.9.8", "high=1", NM_ADDRESS, 0, "below 4 GiB", 1, false },
        { "rknpu-0.9.8", "edge=2", NM_OK, NM_ADDRESS, "32 bits", 1, false },
        { "rknpu-0.9.8", "timeout", NM_OK, NM_TIMEOUT, "did not finish", 1, false },
        { "rknpu-0.9.8", "hang=2", NM_OK, NM_TIMEOUT, "did not finish", 3, false },
        { "rknpu-0.9.8", "vanish", NM_OK, NM_NOT_RUN, NULL, 1, false },
        { "rknpu-0.9.8", "sync=2", NM_OK, NM_DRIVER, "MEM_SYNC", 1, false },
        { "rknpu-0.9.8", "sync=5", NM_OK, NM_DRIVER, "MEM_SYNC", 1, false },
        { "rknpu-0.9.8", "", NM_OK, NM_INVALID, "twice", 1, true },
        { "rknpu-0.9.8", "name", NM_NO_DEVICE, 0, "panthor", 1, false },
        { "rknpu-misc", "denied", NM_NO_DEVICE, 0, "Permission denied", 1, false },
};

/* The fake itself: what is not handed over is not seen, and what is not fetched back neither. */
static void stale(const char *kind)
{
        const struct nm_backend *backend = strncmp(kind, "rknpu", 5) ? &nm_rocket : &nm_rknpu;
        const struct nm_options options = { .backend = NULL };
        struct nm_error why = { "" };
        struct nm_info info;
        struct product p = { .made = 0 };
        void *state;

        current = kind;
        fake_configure(kind, "");
        CHECK(backend->open(&options, &state, &info, &why) == NM_OK &&
              allocate(backend->lists, state, &p, &why) == NM_OK);
        CHECK(multiply(backend->lists, state, &p, true, 1, false, &why) == NM_OK);
        memset(p.a.cpu, 0, p.a.size);   /* and no to_device: the NPU goes on with what it had */
        {
                struct nm_list list = { p.lists.address, WORDS, 0x1D };
                struct nm_buffer *reads[] = { &p.lists, &p.a, &p.b }, *writes[] = { &p.c };
                const struct nm_job job = {
                        .lists = &list, .count = 1, .reads = reads, .read_count = 3, .writes = writes, .write_count = 1
                };
                float first = 0;

                for (int k = 0; k < K; k++)
                        first += (float)(a_at(0, k) * b_at(0, k));
                CHECK(backend->lists->submit(state, &job, &why) == NM_OK);
                CHECK(backend->lists->to_cpu(state, &p.c, p.c.size, 100, &why) == NM_OK);
                CHECK(*(float *)p.c.cpu == first);
        }
        release(backend->lists, state, &p);
        backend->close(state);
}

int main(void)
{
        for (size_t i = 0; i < sizeof(instances) / sizeof(*instances); i++)
                run(&instances[i]);
        setenv("NPU_MATMUL_RKNPU_CHAIN", "1", 1);
        run(&(struct instance){ "rknpu-0.9.8", "", NM_OK, NM_OK, NULL, 3, false });
        if (fake_counts()->submissions != 1) {
                fprintf(stderr, "3 chained lists took %lu submissions\n", fake_counts()->submissions);
                return 1;
        }
        unsetenv("NPU_MATMUL_RKNPU_CHAIN");
        stale("rocket");
        stale("rknpu-0.9.8");
        printf("%zu cases\n", sizeof(instances) / sizeof(*instances) + 3);
        return 0;
}
