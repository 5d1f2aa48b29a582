/* SPDX-License-Identifier: MIT
 *
 * Hostile register lists under the checker and the model: neither may leave the declared memory, whatever the words
 * say, and a list that the checker passes must run.
 *
 * The entry point is libFuzzer's (clang -fsanitize=fuzzer,address -DLIBFUZZER); without, main() mutates good lists from
 * a seed: fuzz-lists [ROUNDS [SEED]].
 */
#include "check.h"
#include "expect.h"
#include "model.h"
#include "registers.h"

#include <string.h>

enum { MEMORY = 1 << 16, BASE = 0x10000000, LISTS = 0x20000000 };

static uint8_t *memory;                 /* on the heap, so that a sanitizer guards its ends */
static uint64_t *list_words;

static void *at(void *context, uint32_t address, size_t bytes, bool write)
{
        size_t list_bytes = *(size_t *)context * 8;

        if (address >= BASE && (uint64_t)address + bytes <= BASE + MEMORY)
                return memory + (address - BASE);
        if (!write && address >= LISTS && (uint64_t)address + bytes <= LISTS + list_bytes)
                return (uint8_t *)list_words + (address - LISTS);
        return NULL;
}

static int run(const uint64_t *words, size_t count, uint32_t enable)
{
        struct nm_range range = {BASE, MEMORY};
        struct nm_checked found;
        struct nm_error why = {""};
        struct nm_model_memory view = {at, &count};
        struct nm_list list = {LISTS, (uint32_t)count, enable};
        int checked, ran;

        if (!memory)
                memory = calloc(1, MEMORY);
        list_words = malloc(count ? count * 8 : 8);
        memcpy(list_words, words, count * 8);
        checked = nm_list_check(list_words, count, &range, 1, &found, &why);
        ran = nm_model_run(&view, &list, &why);
        free(list_words);
        if (checked == NM_OK && found.enable == enable && ran != NM_OK &&
            !(enable & ENABLE_RDMA && strstr(why.text, "MRDMA"))) {
                printf("the checker passes what the model does not run: %s\n", why.text);
                abort();
        }
        return checked == NM_OK && ran == NM_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint64_t words[4096];
        size_t count = size / 8 < 4096 ? size / 8 : 4096;

        memcpy(words, data, count * 8);
        run(words, count, size % 8 & 1 ? 0x1D : 0xD);
        return 0;
}

#ifndef LIBFUZZER
static uint32_t interesting(uint64_t *seed)
{
        static const uint32_t values[] = {0,          1,      0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 0x0FFFFFFF,
                                          0x08000000, 0x2000, 0x3FFF,     0x4000,     BASE,       BASE + MEMORY - 16};

        return expect_random(seed) % 2 ? values[expect_random(seed) % 12] : (uint32_t)expect_random(seed);
}

static void mutate(uint64_t *words, size_t *count, uint64_t *seed)
{
        size_t i = expect_random(seed) % *count, j = expect_random(seed) % *count;
        uint64_t word = words[i];

        switch (expect_random(seed) % 6) {
        case 0: words[i] ^= UINT64_C(1) << expect_random(seed) % 64; break;
        case 1: words[i] = (word & ~(UINT64_C(0xFFFFFFFF) << 16)) | (uint64_t)interesting(seed) << 16; break;
        case 2: words[i] = words[j]; words[j] = word; break;
        case 3: *count = 1 + expect_random(seed) % *count; break;
        case 4: words[i] = expect_random(seed) << 32 ^ expect_random(seed); break;
        default:
                words[i] = (word & ~(UINT64_C(0xFFFFFFFF) << 16)) | (uint64_t)(((word >> 16) + 1) & 0xFFFFFFFF) << 16;
                break;
        }
}

int main(int argc, char **argv)
{
        unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 6000, good = 0, changed_good = 0;
        uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) | 1 : 4;

        for (unsigned long round = 0; round < rounds; round++) {
                struct nm_shape shape = {(enum nm_type)(expect_random(&seed) % 3), expect_between(&seed, 1, 9),
                                         32 * expect_between(&seed, 1, 4), 32 * expect_between(&seed, 1, 3)};
                struct nm_place place = {BASE, BASE + 0x4000, BASE + 0x8000, expect_random(&seed) & 1,
                                         expect_random(&seed) & 1};
                struct nm_switches switches = {.grains = expect_random(&seed) % 2 ? 0 : 77,
                                               .int8_qd = expect_random(&seed) & 1};
                uint64_t words[NM_WORDS_RDMA];
                bool rdma = expect_random(&seed) & 1;
                size_t count = nm_list_build(words, &shape, &place, &switches, rdma);

                good += (unsigned long)run(words, count, rdma ? 0x1D : 0xD);
                for (uint64_t n = 1 + expect_random(&seed) % 4; n; n--)
                        mutate(words, &count, &seed);
                changed_good += (unsigned long)run(
                        words, count, expect_random(&seed) % 8 ? (rdma ? 0x1D : 0xD) : (uint32_t)expect_random(&seed));
        }
        printf("%lu lists as built ran; of %lu changed ones %lu\n", good, rounds, changed_good);
        free(memory);
        return good == rounds && changed_good < rounds / 4 ? EXIT_SUCCESS : EXIT_FAILURE;
}
#endif
