/* SPDX-License-Identifier: MIT
 *
 * The checker passes every list that is built, with what it says, and sees every single change of a word that matters.
 */
#include "check.h"
#include "expect.h"
#include "registers.h"

#include <string.h>

static const struct nm_range everywhere = {0, SIZE_MAX >> 1};

static void passes(void)
{
        uint64_t seed = 7;

        for (int i = 0; i < 2000; i++) {
                struct nm_switches switches = {.int8_banks =
                                                       expect_random(&seed) & 1 ? NM_BANKS_EXACT : NM_BANKS_SPARE};
                struct nm_shape shape = {(enum nm_type)(expect_random(&seed) % 3), 0,
                                         32 * expect_between(&seed, 1, 512), 32 * expect_between(&seed, 1, 256)};
                struct nm_place place = {16 * expect_between(&seed, 0, 1 << 24), 16 * expect_between(&seed, 0, 1 << 20),
                                         16 * expect_between(&seed, 0, 1 << 20), expect_random(&seed) & 1,
                                         expect_random(&seed) & 1};
                uint64_t words[NM_WORDS_RDMA];
                struct nm_checked found;
                struct nm_error why = {""};
                size_t count;

                do
                        shape.m = expect_between(&seed, 1, MOST_M);
                while (nm_data_banks(&shape, &switches) >= CBUF_BANKS);
                count = nm_list_build(words, &shape, &place, &switches, expect_random(&seed) & 1);
                EXPECT(!nm_list_check(words, count, &everywhere, 1, &found, &why), "%s", why.text);
                EXPECT(found.shape.type == shape.type && found.shape.m == shape.m && found.shape.k == shape.k &&
                               found.shape.n == shape.n,
                       "shape");
                EXPECT(found.place.input == place.input && found.place.output == place.output &&
                               found.place.weights == place.weights,
                       "addresses");
                EXPECT(found.data_banks == nm_data_banks(&shape, &switches) && found.grains == shape.m + 1 &&
                               !found.chained,
                       "banks, grains");
        }
}

/* Bits whose change leaves another list that is right: an address, the grains, qd_en of int8. */
static bool free_to_change(uint64_t word, unsigned bit)
{
        uint32_t offset = word & 0xFFFF;

        if (bit < 16 || bit >= 48 || word >> 48 == TARGET_ENABLE)
                return false;
        return ((offset == CNA_FEATURE_DATA_ADDR || offset == CNA_DCOMP_ADDR0 || offset == DPU_DST_BASE_ADDR) &&
                bit >= 20) ||
               (offset == CNA_CONV_CON2 && bit >= 20 && bit < 30) || (offset == CORE_MISC_CFG && bit == 16);
}

static void every_bit(void)
{
        struct nm_shape shape = {NM_INT8_INT32, 4, 96, 64};
        struct nm_place place = {0x10000000, 0x20000000, 0x30000000, false, false};
        struct nm_switches none = {0};
        uint64_t words[NM_WORDS_RDMA];
        size_t count = nm_list_build(words, &shape, &place, &none, true), seen = 0;

        for (size_t i = 0; i < count; i++)
                for (unsigned bit = 0; bit < 64; bit++) {
                        uint64_t before = words[i];
                        struct nm_checked found;
                        struct nm_error why = {""};

                        if (free_to_change(before, bit))
                                continue;
                        words[i] ^= UINT64_C(1) << bit;
                        EXPECT(nm_list_check(words, count, &everywhere, 1, &found, &why) == NM_INVALID,
                               "word %zu bit %u passes", i, bit);
                        EXPECT(why.text[0], "no text");
                        words[i] = before;
                        seen++;
                }
        EXPECT(seen > 7000, "%zu changes", seen);
}

static void refused(const uint64_t *words, size_t count, struct nm_range range, const char *text)
{
        struct nm_checked found;
        struct nm_error why = {""};

        EXPECT(nm_list_check(words, count, &range, 1, &found, &why) == NM_INVALID && strstr(why.text, text),
               "'%s' lacks '%s'", why.text, text);
}

static void says_what(void)
{
        struct nm_shape shape = {NM_FP16_FP32, 4, 64, 32};
        struct nm_place place = {0x1000, 0x2000, 0x4000, false, false};
        struct nm_switches none = {0};
        uint64_t words[NM_WORDS_RDMA];
        struct nm_checked found;
        size_t count = nm_list_build(words, &shape, &place, &none, false);
        struct nm_range right = {0x1000, 0x3000 + 4 * 32 * 4};

        EXPECT(!nm_list_check(words, count, &right, 1, &found, NULL), "exact range");
        refused(words, count - 2, right, "106 words");
        right.size--;
        refused(words, count, right, "output, 512 bytes at 0x4000");
        right = (struct nm_range){0x1010, 0x10000};
        refused(words, count, right, "input");
        nm_list_chain(words, count, 0x8000, 126);
        EXPECT(!nm_list_check(words, count, &everywhere, 1, &found, NULL) && found.chained && found.next == 0x8000 &&
                       found.next_amount == 64,
               "chain");
        words[0] = nm_word(TARGET_DPU, 0x4008, 0xE);
        refused(words, count, everywhere, "word 0 writes 0x4008");
}

int main(void)
{
        passes();
        every_bit();
        says_what();
        return expect_done();
}
