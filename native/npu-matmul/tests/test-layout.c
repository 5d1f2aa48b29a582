/* SPDX-License-Identifier: MIT
 *
 * Packing is a bijection, and puts each element where the index formulas of the layouts say; cuts of a plan cover each
 * element once.
 */
#include "expect.h"
#include "layout.h"
#include "plan.h"
#include "registers.h"

#include <string.h>

/* Fills `count` elements with numbers from 1 on, which 16 bits tell apart; one byte wraps. */
static void number(uint8_t *to, size_t count, size_t bytes)
{
        for (size_t i = 0; i < count; i++) {
                uint32_t value = (uint32_t)(i + 1);

                memcpy(to + i * bytes, &value, bytes);
        }
}

static void rows(size_t bytes, uint64_t *seed)
{
        size_t c2 = 16 / bytes, m = expect_between(seed, 1, 13), k = expect_between(seed, 1, 90),
               ld = k + expect_between(seed, 0, 3);
        size_t list_m = m + expect_between(seed, 0, 3), list_k = (k + 31) / 32 * 32;
        uint8_t *from = malloc(m * ld * bytes), *packed = malloc(list_m * list_k * bytes),
                *back = calloc(m * ld, bytes);
        static const uint8_t zero[4];

        number(from, m * ld, bytes);
        memset(packed, 0xEE, list_m * list_k * bytes);
        nm_pack_rows(packed, from, m, k, ld, list_m, list_k, bytes);
        for (size_t y = 0; y < list_m; y++)
                for (size_t x = 0; x < list_k; x++) {
                        size_t index = (x / c2) * list_m * c2 + y * c2 + x % c2;
                        const uint8_t *wanted = y < m && x < k ? from + (y * ld + x) * bytes : zero;

                        EXPECT(!memcmp(packed + index * bytes, wanted, bytes), "A %zux%zu at %zu %zu", m, k, y, x);
                        EXPECT(index == nm_packed_index(y, x, list_m, c2), "index");
                }
        nm_unpack_rows(back, packed, m, k, ld, list_m, bytes);
        for (size_t y = 0; y < m; y++) {
                EXPECT(!memcmp(back + y * ld * bytes, from + y * ld * bytes, k * bytes), "C row %zu of %zux%zu", y, m,
                       k);
                for (size_t x = k; x < ld; x++)
                        EXPECT(!memcmp(back + (y * ld + x) * bytes, zero, bytes), "past the end of row %zu", y);
        }
        free(from);
        free(packed);
        free(back);
}

static void kernels(size_t bytes, size_t group, uint64_t *seed)
{
        size_t n = expect_between(seed, 1, 100), k = expect_between(seed, 1, 200), ld = k + expect_between(seed, 0, 3);
        size_t list_n = (n + group - 1) / group * group, list_k = (k + 31) / 32 * 32, used = 0;
        uint8_t *from = malloc(n * ld * bytes), *packed = malloc(list_n * list_k * bytes),
                *hit = calloc(list_n * list_k, 1);
        static const uint8_t zero[4];

        number(from, n * ld, bytes);
        memset(packed, 0xEE, list_n * list_k * bytes);
        nm_pack_kernels(packed, from, n, k, ld, list_n, list_k, bytes, group);
        for (size_t y = 0; y < list_n; y++)
                for (size_t x = 0; x < list_k; x++) {
                        size_t index = (y / group) * group * list_k + (x / 32) * group * 32 + (y % group) * 32 + x % 32;
                        const uint8_t *wanted = y < n && x < k ? from + (y * ld + x) * bytes : zero;

                        EXPECT(!memcmp(packed + index * bytes, wanted, bytes), "B %zux%zu at %zu %zu", n, k, y, x);
                        used += !hit[index]++;
                }
        EXPECT(used == list_n * list_k, "%zu of %zu places", used, list_n * list_k);
        free(from);
        free(packed);
        free(hit);
}

static void one_row_is_plain(void)
{
        uint16_t from[40], packed[64], back[40];

        number((uint8_t *)from, 40, 2);
        nm_pack_rows(packed, from, 1, 40, 40, 1, 64, 2);
        EXPECT(!memcmp(packed, from, sizeof(from)) && !packed[40] && !packed[63], "row");
        nm_unpack_rows(back, packed, 1, 40, 40, 1, 2);
        EXPECT(!memcmp(back, from, sizeof(from)), "row back");
}

static void cuts(uint64_t *seed)
{
        enum nm_type type = (enum nm_type)(expect_random(seed) % 3);
        size_t n = expect_between(seed, 1, 70000), k = expect_between(seed, 1, 70000),
               m = expect_between(seed, 1, 3000), at = 0;
        struct nm_plan plan = nm_plan_matrix(type, n, k);
        struct nm_switches switches = {.rows = expect_random(seed) & 1 ? NM_ROWS_PADDED : NM_ROWS_AS_GIVEN,
                                       .int8_banks = expect_random(seed) & 1 ? NM_BANKS_EXACT : NM_BANKS_SPARE};
        struct nm_cut row_cut = nm_plan_rows(&plan, m, &switches);
        uint32_t rows_left = (uint32_t)m;

        EXPECT(plan.padded_n % nm_kernel_group(type) == 0 && plan.padded_n >= n &&
                       plan.padded_n < n + nm_kernel_group(type),
               "padded n");
        EXPECT(plan.padded_k % 32 == 0 && plan.padded_k >= k && plan.padded_k < k + 32, "padded k");
        for (uint32_t chunk = 0; chunk < plan.k_cut.pieces; chunk++)
                for (uint32_t slice = 0; slice < plan.n_cut.pieces; slice++) {
                        uint32_t list_k = nm_piece(plan.k_cut, plan.padded_k, chunk),
                                 list_n = nm_piece(plan.n_cut, plan.padded_n, slice);

                        EXPECT(list_k >= 32 && list_k <= MOST_K && list_k % 32 == 0, "chunk of %u", list_k);
                        EXPECT(list_n && list_n <= MOST_N && list_n % nm_kernel_group(type) == 0, "slice of %u",
                               list_n);
                        EXPECT(nm_plan_weight_offset(&plan, chunk, slice) == at && at % 64 == 0, "offset %zu", at);
                        at += (size_t)list_k * list_n * nm_input_bytes(type);
                }
        EXPECT(at == nm_plan_weight_bytes(&plan), "%zu of %zu bytes", at, nm_plan_weight_bytes(&plan));
        for (uint32_t tile = 0; tile < row_cut.pieces; tile++) {
                uint32_t rows_here = nm_piece(row_cut, (uint32_t)m, tile);
                struct nm_shape shape = {plan.list_type, nm_plan_list_rows(rows_here, &switches), plan.k_cut.size, 32};

                EXPECT(rows_here && rows_here <= rows_left && shape.m <= MOST_M, "tile of %u", rows_here);
                EXPECT(nm_data_banks(&shape, &switches) < CBUF_BANKS, "%u rows of %u channels", shape.m, shape.k);
                rows_left -= rows_here;
        }
        EXPECT(!rows_left, "%u rows left", rows_left);
}

int main(void)
{
        uint64_t seed = 11;

        for (int i = 0; i < 300; i++) {
                for (size_t bytes = 1; bytes <= 4; bytes *= 2)
                        rows(bytes, &seed);
                kernels(2, 16, &seed);
                kernels(1, 32, &seed);
                cuts(&seed);
        }
        one_row_is_plain();
        return expect_done();
}
