/* SPDX-License-Identifier: MIT
 *
 * Outputs are filled with a value before a job and looked at after it: drivers are known to report success for jobs
 * that never ran. For fp32 the value is a signalling NaN whose payload no fp16 operand can have, for int32 a number
 * that 16384 products cannot reach: one left is proof. An fp16 output could hold any bits, so there the job is run once
 * more over another value before it is called not run.
 */
#include "batch.h"

#include <string.h>
#include <time.h>

#include "layout.h"

#define MOST_STAGED     ((size_t)8 << 20)       /* bytes of inputs, of outputs */
#define MOST_WEIGHTS    ((size_t)128 << 20)     /* bytes; with the next: a slow NPU stays below rocket's 500 ms a job */
#define MOST_PRODUCTS   (UINT64_C(1) << 32)
#define LINE            64

static size_t lined(size_t bytes)
{
        return (bytes + LINE - 1) / LINE * LINE;
}

static size_t input_size(const struct nm_input *input)
{
        return lined((size_t)input->list_rows * input->list_columns * input->bytes);
}

static size_t output_elements(const struct nm_piece *piece)
{
        return (size_t)piece->shape.m * piece->shape.n;
}

static size_t output_size(const struct nm_piece *piece)
{
        return lined(output_elements(piece) * nm_output_bytes(piece->shape.type));
}

static uint64_t products(const struct nm_shape *shape)
{
        return (uint64_t)shape->m * shape->n * shape->k;
}

static bool same_rows(const struct nm_input *a, const struct nm_input *b)
{
        return a->from == b->from && a->ld == b->ld && a->rows == b->rows && a->list_rows == b->list_rows &&
               a->columns == b->columns && a->list_columns == b->list_columns && a->bytes == b->bytes;
}

/* The queries, keys and values of one layer read the same rows, one after another. */
static size_t find_input(const struct nm_batch *batch, const struct nm_input *input)
{
        size_t last = batch->inputs > 8 ? batch->inputs - 8 : 0;

        for (size_t i = batch->inputs; i > last; i--)
                if (same_rows(&batch->input[i - 1], input))
                        return i - 1;
        return batch->inputs;
}

bool nm_batch_takes(const struct nm_batch *batch, const struct nm_piece *piece, const struct nm_input *input)
{
        size_t lists = batch->device->backend->lists->lists_per_job;

        if (batch->pieces == 0)
                return true;
        return batch->pieces < NM_BATCH_LISTS && batch->pieces < lists &&
               batch->input_bytes + input_size(input) <= MOST_STAGED &&
               batch->output_bytes + output_size(piece) <= MOST_STAGED &&
               batch->weight_bytes + (size_t)piece->shape.n * piece->shape.k * 2 <= MOST_WEIGHTS &&
               batch->products + products(&piece->shape) <= MOST_PRODUCTS;
}

void nm_batch_add(struct nm_batch *batch, const struct nm_piece *piece, const struct nm_input *input)
{
        struct nm_piece *made = &batch->piece[batch->pieces++];

        *made = *piece;
        made->input = find_input(batch, input);
        if (made->input == batch->inputs) {
                batch->input[batch->inputs] = *input;
                batch->input[batch->inputs++].offset = batch->input_bytes;
                batch->input_bytes += input_size(input);
                batch->device->counters.padded_rows += input->list_rows - input->rows;
        }
        made->output = batch->output_bytes;
        batch->output_bytes += output_size(piece);
        batch->weight_bytes += (size_t)piece->shape.n * piece->shape.k * nm_input_bytes(piece->shape.type);
        batch->products += products(&piece->shape);
}

struct poison {
        uint32_t fp32, int32;
        uint16_t fp16;
};

static const struct poison first_poison = {0x7FAAAAAA, 0xAAAAAAAA, 0x7DAA},
                           second_poison = {0x7F955555, 0xD5555555, 0x7D55};

static uint32_t word_of(const struct poison *poison, enum nm_type type)
{
        return type == NM_FP16_FP32 ? poison->fp32 : poison->int32;
}

static void fill(void *to, const struct nm_piece *piece, const struct poison *poison)
{
        size_t count = output_elements(piece);
        uint32_t *words = to, word = word_of(poison, piece->shape.type);
        uint16_t *halves = to;

        if (piece->shape.type == NM_FP16_FP16)
                for (size_t i = 0; i < count; i++)
                        halves[i] = poison->fp16;
        else
                for (size_t i = 0; i < count; i++)
                        words[i] = word;
}

static size_t left_over(const void *from, const struct nm_piece *piece, const struct poison *poison)
{
        size_t count = output_elements(piece), left = 0;
        const uint32_t *words = from;
        uint32_t word = word_of(poison, piece->shape.type);
        const uint16_t *halves = from;

        if (piece->shape.type == NM_FP16_FP16)
                for (size_t i = 0; i < count; i++)
                        left += halves[i] == poison->fp16;
        else
                for (size_t i = 0; i < count; i++)
                        left += words[i] == word;
        return left;
}

struct run {
        struct nm_batch *batch;
        struct nm_buffer *input, *output, *lists;
        struct nm_list list[NM_BATCH_LISTS];
};

static int make_room(struct run *run, struct nm_error *why)
{
        struct nm_device *device = run->batch->device;
        int status = nm_staging(device, NM_STAGE_INPUT, run->batch->input_bytes, &run->input, why);

        status = status ? status : nm_staging(device, NM_STAGE_OUTPUT, run->batch->output_bytes, &run->output, why);
        return status ? status
                      : nm_staging(device, NM_STAGE_LISTS, run->batch->pieces * NM_LIST_STRIDE, &run->lists, why);
}

static void write_inputs(const struct run *run)
{
        for (size_t i = 0; i < run->batch->inputs; i++) {
                const struct nm_input *input = &run->batch->input[i];

                nm_pack_rows((char *)run->input->cpu + input->offset, input->from, input->rows, input->columns,
                             input->ld, input->list_rows, input->list_columns, input->bytes);
        }
}

static void write_lists(struct run *run)
{
        const struct nm_device *device = run->batch->device;
        const struct nm_switches *switches = &device->options.switches;
        bool rdma =
                switches->rdma == NM_RDMA_AUTO ? device->backend->lists->rdma_by_default : switches->rdma == NM_RDMA_ON;

        for (size_t i = 0; i < run->batch->pieces; i++) {
                const struct nm_piece *piece = &run->batch->piece[i];
                struct nm_place place = {
                        .input = run->input->address + (uint32_t)run->batch->input[piece->input].offset,
                        .weights = piece->matrix->weights.address + (uint32_t)piece->weights,
                        .output = run->output->address + (uint32_t)piece->output,
                };
                size_t offset = i * NM_LIST_STRIDE;
                uint64_t words[NM_LIST_STRIDE / 8] = {0};
                size_t count = nm_list_build(words, &piece->shape, &place, switches, rdma);

                memcpy((char *)run->lists->cpu + offset, words, sizeof(words));
                run->list[i] =
                        (struct nm_list){run->lists->address + (uint32_t)offset, (uint32_t)count, rdma ? 0x1D : 0xD};
        }
}

static double seconds(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int hand_over(const struct run *run, struct nm_buffer *buffer, size_t bytes, struct nm_error *why)
{
        struct nm_device *device = run->batch->device;

        device->counters.bytes_synced += bytes;
        return device->backend->lists->to_device(device->state, buffer, bytes, why);
}

static int submit(const struct run *run, struct nm_error *why)
{
        struct nm_device *device = run->batch->device;
        const struct nm_list_ops *lists = device->backend->lists;
        struct nm_buffer *reads[NM_BATCH_LISTS + 2], *writes[] = {run->output};
        struct nm_job job = {
                .lists = run->list, .count = run->batch->pieces, .reads = reads, .writes = writes, .write_count = 1,
                .timeout_ms = device->options.timeout_ms,
        };
        double began;
        int status;

        reads[job.read_count++] = run->lists;
        reads[job.read_count++] = run->input;
        device->job++;
        for (size_t i = 0; i < run->batch->pieces; i++) {
                struct nm_matrix *matrix = run->batch->piece[i].matrix;

                if (matrix->job == device->job)         /* twice in a job, and rocket drops it without a word */
                        continue;
                matrix->job = device->job;
                reads[job.read_count++] = &matrix->weights;
        }
        began = seconds();
        status = lists->submit(device->state, &job, why);
        if (!status)
                status = lists->to_cpu(device->state, run->output, run->batch->output_bytes, job.timeout_ms, why);
        device->counters.busy_seconds += seconds() - began;
        device->counters.submissions++;
        device->counters.lists += job.count;
        device->counters.bytes_synced += run->batch->output_bytes;
        return status;
}

/* Fills the outputs, runs the job, counts the elements of each piece that are still as filled. */
static int run_once(struct run *run, const struct poison *poison, struct nm_error *why)
{
        int status;

        for (size_t i = 0; i < run->batch->pieces; i++)
                fill((char *)run->output->cpu + run->batch->piece[i].output, &run->batch->piece[i], poison);
        status = hand_over(run, run->output, run->batch->output_bytes, why);
        return status ? status : submit(run, why);
}

static size_t count_left(const struct run *run, const struct poison *poison, size_t *at)
{
        size_t all = 0;

        for (size_t i = run->batch->pieces; i-- > 0;) {
                size_t left = left_over((const char *)run->output->cpu + run->batch->piece[i].output,
                                        &run->batch->piece[i], poison);

                if (left)
                        *at = i;
                all += left;
        }
        return all;
}

static int not_run(const struct run *run, size_t at, size_t left, struct nm_error *why)
{
        const struct nm_piece *piece = &run->batch->piece[at];

        return nm_fail(why, NM_NOT_RUN,
                       "the driver reported completion, but list %zu of %zu (%ux%ux%u) left its output untouched: %zu "
                       "elements of the job in all",
                       at + 1, run->batch->pieces, piece->shape.m, piece->shape.k, piece->shape.n, left);
}

static int run_watched(struct run *run, struct nm_error *why)
{
        size_t at = 0, left, again;
        int status = run_once(run, &first_poison, why);

        if (status)
                return status;
        left = count_left(run, &first_poison, &at);
        if (!left)
                return NM_OK;
        if (run->batch->piece[at].shape.type != NM_FP16_FP16)
                return not_run(run, at, left, why);
        status = run_once(run, &second_poison, why);
        if (status)
                return status;
        again = count_left(run, &second_poison, &at);
        /* A result that happens to be the first value comes out again, in as many places. */
        return again || count_left(run, &first_poison, &at) != left ? not_run(run, at, again ? again : left, why)
                                                                    : NM_OK;
}

static void deliver_sums(const struct nm_piece *piece, const void *from)
{
        const float *floats = from;
        const int32_t *ints = from;

        for (uint32_t y = 0; y < piece->rows; y++)
                for (uint32_t x = 0; x < piece->columns; x++) {
                        size_t in = nm_packed_index(y, x, piece->shape.m, 4), out = (size_t)y * piece->to_ld + x;

                        if (piece->shape.type == NM_INT8_INT32)
                                ((int64_t *)piece->to)[out] = ints[in] + (piece->add ? ((int64_t *)piece->to)[out] : 0);
                        else
                                ((float *)piece->to)[out] = floats[in] + (piece->add ? ((float *)piece->to)[out] : 0);
                }
}

static void deliver(const struct run *run)
{
        for (size_t i = 0; i < run->batch->pieces; i++) {
                const struct nm_piece *piece = &run->batch->piece[i];
                const void *from = (const char *)run->output->cpu + piece->output;

                if (piece->add || piece->accumulator)
                        deliver_sums(piece, from);
                else
                        nm_unpack_rows(piece->to, from, piece->rows, piece->columns, piece->to_ld, piece->shape.m,
                                       nm_output_bytes(piece->shape.type));
        }
}

static int run_batch(struct run *run, struct nm_error *why)
{
        int status = make_room(run, why);

        if (status)
                return status;
        write_inputs(run);
        write_lists(run);
        status = hand_over(run, run->input, run->batch->input_bytes, why);
        if (!status)
                status = hand_over(run, run->lists, run->batch->pieces * NM_LIST_STRIDE, why);
        if (!status)
                status = run_watched(run, why);
        if (!status)
                deliver(run);
        return status;
}

int nm_batch_run(struct nm_batch *batch, struct nm_error *why)
{
        struct run run = {.batch = batch};
        int status = batch->pieces ? run_batch(&run, why) : NM_OK;

        batch->pieces = batch->inputs = 0;
        batch->input_bytes = batch->output_bytes = batch->weight_bytes = 0;
        batch->products = 0;
        return status;
}
