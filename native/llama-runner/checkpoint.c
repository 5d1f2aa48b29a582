/* SPDX-License-Identifier: MIT */
#include "checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x616b3432u       /* "ak42"; export.py */
#define HEADER_0 28u            /* seven int32 */
#define HEADER_2 256u
#define MOST (INT64_C(1) << 24) /* of any one dimension: a bound that keeps every product below 2^63 */

static int32_t word(const uint8_t *bytes, size_t index)
{
        int32_t value;

        memcpy(&value, bytes + 4 * index, sizeof(value));
        return value;
}

static int wrong(struct fault *fault, const char *name, const char *field, int64_t value, const char *expected)
{
        return fault_set(fault, FAULT_REQUEST,
                         "%s: %s is %" PRId64 ", expected %s: not a llama2.c checkpoint, or a damaged one", name, field,
                         value, expected);
}

static int read_shape(const uint8_t *words, const char *name, int version, struct checkpoint *to, struct fault *fault)
{
        static const char *const fields[] = {"dim",        "hidden_dim", "n_layers", "n_heads",
                                             "n_kv_heads", "vocab_size", "seq_len"};
        int64_t v[7];
        struct shape *s = &to->shape;

        for (size_t i = 0; i < 7; i++) {
                v[i] = word(words, i);
                if (i == 5 && version == 0 && v[i] < 0) {       /* the mark of a classifier of its own */
                        v[i] = -v[i];
                        s->shared_classifier = false;
                }
                if (v[i] < 1 || v[i] > MOST)
                        return wrong(fault, name, fields[i], word(words, i), "1 to 16777216");
        }
        if (v[0] % v[3])
                return wrong(fault, name, "n_heads", v[3], "a divisor of dim");
        if (v[3] % v[4])
                return wrong(fault, name, "n_kv_heads", v[4], "a divisor of n_heads");
        if (v[0] / v[3] % 2)
                return wrong(fault, name, "dim / n_heads", v[0] / v[3], "an even head size, for the rotation of pairs");
        s->dim = (size_t)v[0];
        s->hidden = (size_t)v[1];
        s->layers = (size_t)v[2];
        s->heads = (size_t)v[3];
        s->kv_heads = (size_t)v[4];
        s->vocab = (size_t)v[5];
        s->sequence = (size_t)v[6];
        s->head = s->dim / s->heads;
        s->kv = s->head * s->kv_heads;
        return 0;
}

void checkpoint_extent(const struct checkpoint *checkpoint, enum tensor tensor, size_t *rows, size_t *columns)
{
        const struct shape *s = &checkpoint->shape;

        *columns = tensor == TENSOR_W2 ? s->hidden : s->dim;
        switch (tensor) {
        case TENSOR_EMBEDDING:
        case TENSOR_CLASSIFIER:
                *rows = s->vocab;
                break;
        case TENSOR_WK:
        case TENSOR_WV:
                *rows = s->kv;
                break;
        case TENSOR_W1:
        case TENSOR_W3:
                *rows = s->hidden;
                break;
        default:
                *rows = s->dim;
        }
}

/* Offsets run in unsigned 64 bits and can pass the end of any file, yet not wrap unseen: `add` saturates. */
static void add(uint64_t *at, uint64_t count, uint64_t unit)
{
        uint64_t bytes;

        if (__builtin_mul_overflow(count, unit, &bytes) || __builtin_add_overflow(*at, bytes, at))
                *at = UINT64_MAX;
}

static uint64_t times(uint64_t a, uint64_t b)
{
        uint64_t product;

        return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static void place(struct checkpoint *c, uint64_t *at, enum tensor tensor, uint64_t layers)
{
        size_t rows, columns;
        uint64_t each;

        checkpoint_extent(c, tensor, &rows, &columns);
        each = (uint64_t)rows * columns;                        /* below 2^48 */
        c->tensors[tensor] = (size_t)*at;
        if (c->version == 0)
                add(at, times(each, layers), 4);
        else
                add(at, times(each + each / c->group * 4, layers), 1);
}

/* The order of run.c: checkpoint_init_weights. */
static uint64_t lay_out_0(struct checkpoint *c)
{
        const struct shape *s = &c->shape;
        uint64_t at = HEADER_0;

        place(c, &at, TENSOR_EMBEDDING, 1);
        c->norm_attention = (size_t)at;
        add(&at, times(s->layers, s->dim), 4);
        for (enum tensor t = TENSOR_WQ; t <= TENSOR_WO; t++)
                place(c, &at, t, s->layers);
        c->norm_ffn = (size_t)at;
        add(&at, times(s->layers, s->dim), 4);
        for (enum tensor t = TENSOR_W1; t <= TENSOR_W3; t++)
                place(c, &at, t, s->layers);
        c->norm_final = (size_t)at;
        add(&at, s->dim, 4);
        add(&at, times(s->sequence, s->head / 2), 8); /* two tables of the rotation, which is computed instead */
        if (s->shared_classifier)
                c->tensors[TENSOR_CLASSIFIER] = c->tensors[TENSOR_EMBEDDING];
        else
                place(c, &at, TENSOR_CLASSIFIER, 1);
        return at;
}

/* The order of runq.c: memory_map_weights. */
static uint64_t lay_out_2(struct checkpoint *c)
{
        const struct shape *s = &c->shape;
        uint64_t at = HEADER_2;

        c->norm_attention = (size_t)at;
        add(&at, times(s->layers, s->dim), 4);
        c->norm_ffn = (size_t)at;
        add(&at, times(s->layers, s->dim), 4);
        c->norm_final = (size_t)at;
        add(&at, s->dim, 4);
        place(c, &at, TENSOR_EMBEDDING, 1);
        for (enum tensor t = TENSOR_WQ; t <= TENSOR_W3; t++)
                place(c, &at, t, s->layers);
        if (s->shared_classifier)
                c->tensors[TENSOR_CLASSIFIER] = c->tensors[TENSOR_EMBEDDING];
        else
                place(c, &at, TENSOR_CLASSIFIER, 1);
        return at;
}

static int read_header_2(const uint8_t *bytes, size_t size, const char *name, struct checkpoint *c, struct fault *fault)
{
        int32_t version, group;
        int status;

        if (size < HEADER_2)
                return wrong(fault, name, "size in bytes", (int64_t)size, "256 of header at least");
        version = word(bytes, 1);
        if (version != 2)
                return wrong(fault, name, "version", version,
                             "2 (int8), or a legacy file, which export.py writes with --version 0");
        c->version = 2;
        c->shape.shared_classifier = bytes[36];
        if (bytes[36] > 1)
                return wrong(fault, name, "shared_classifier", bytes[36], "0 or 1");
        status = read_shape(bytes + 8, name, 2, c, fault);
        if (status)
                return status;
        memcpy(&group, bytes + 37, sizeof(group));
        if (group < 1 || c->shape.dim % (size_t)group || c->shape.hidden % (size_t)group)
                return wrong(fault, name, "group_size", group, "a divisor of dim and of hidden_dim");
        c->group = (size_t)group;
        return 0;
}

int checkpoint_parse(const void *data, size_t size, const char *name, struct checkpoint *c, struct fault *fault)
{
        const uint8_t *bytes = data;
        uint64_t expected;
        int status;

        memset(c, 0, sizeof(*c));
        c->bytes = bytes;
        c->size = size;
        c->shape.shared_classifier = true;
        if (size < HEADER_0)
                return wrong(fault, name, "size in bytes", (int64_t)size, "28 of header at least");
        if ((uint32_t)word(bytes, 0) == MAGIC)
                status = read_header_2(bytes, size, name, c, fault);
        else
                status = read_shape(bytes, name, 0, c, fault);
        if (status)
                return status;
        expected = c->version ? lay_out_2(c) : lay_out_0(c);
        if (size != expected)
                return fault_set(
                        fault, FAULT_REQUEST,
                        "%s: %s by dim %zu, hidden_dim %zu, n_layers %zu, n_heads %zu, n_kv_heads %zu, vocab_size %zu, "
                        "seq_len %zu: size is %zu bytes, expected %" PRIu64 ": fetch or export it again",
                        name, size < expected ? "short" : "long", c->shape.dim, c->shape.hidden, c->shape.layers,
                        c->shape.heads, c->shape.kv_heads, c->shape.vocab, c->shape.sequence, size, expected);
        return 0;
}

int checkpoint_open(const char *path, struct checkpoint *c, struct fault *fault)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC), status;
        struct stat about;
        void *bytes;

        memset(c, 0, sizeof(*c));
        if (fd < 0)
                return fault_set(fault, FAULT_REQUEST,
                                 "%s: %s, expected a llama2.c checkpoint: docs/llama.md says where they are", path,
                                 strerror(errno));
        if (fstat(fd, &about) || !S_ISREG(about.st_mode) || about.st_size < (off_t)HEADER_0) {
                close(fd);
                return fault_set(fault, FAULT_REQUEST,
                                 "%s: not a file of 28 bytes or more, expected a llama2.c checkpoint", path);
        }
        bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        close(fd);
        if (bytes == MAP_FAILED)
                return fault_set(fault, FAULT_HOST, "%s: cannot be mapped: %s", path, strerror(errno));
        status = checkpoint_parse(bytes, (size_t)about.st_size, path, c, fault);
        c->mapped = true;
        if (status)
                checkpoint_close(c);
        return status;
}

void checkpoint_close(struct checkpoint *c)
{
        if (c->mapped)
                munmap((void *)(uintptr_t)c->bytes, c->size);
        memset(c, 0, sizeof(*c));
}

void checkpoint_forget(const struct checkpoint *c)
{
        if (c->mapped)
                madvise((void *)(uintptr_t)c->bytes, c->size, MADV_DONTNEED);
}

static size_t layer_bytes(const struct checkpoint *c, enum tensor tensor)
{
        size_t rows, columns;

        checkpoint_extent(c, tensor, &rows, &columns);
        return c->version ? rows * columns + rows * columns / c->group * 4 : rows * columns * 4;
}

void checkpoint_row_int8(const struct checkpoint *c, enum tensor tensor, size_t layer, size_t row, int8_t *to,
                         float *scales)
{
        const uint8_t *base = c->bytes + c->tensors[tensor] + layer * layer_bytes(c, tensor);
        size_t rows, columns;

        checkpoint_extent(c, tensor, &rows, &columns);
        memcpy(to, base + row * columns, columns);
        memcpy(scales, base + rows * columns + row * columns / c->group * 4, columns / c->group * 4);
}

void checkpoint_row(const struct checkpoint *c, enum tensor tensor, size_t layer, size_t row, float *to)
{
        const uint8_t *base = c->bytes + c->tensors[tensor] + layer * layer_bytes(c, tensor), *values;
        size_t rows, columns;

        checkpoint_extent(c, tensor, &rows, &columns);
        if (!c->version) {
                memcpy(to, base + row * columns * 4, columns * 4);
                return;
        }
        values = base + row * columns;
        for (size_t i = 0; i < columns; i++) {
                float scale;

                memcpy(&scale, base + rows * columns + (row * columns + i) / c->group * 4, 4);
                to[i] = (float)(int8_t)values[i] * scale;
        }
}

void checkpoint_norm(const struct checkpoint *c, size_t which, size_t layer, float *to)
{
        memcpy(to, c->bytes + which + layer * c->shape.dim * 4, c->shape.dim * 4);
}
