/* SPDX-License-Identifier: MIT
 *
 * A fuzzer on the two files a user hands in. With clang it is a libFuzzer target:
 *
 *     clang -g -fsanitize=fuzzer,address,undefined -DLIBFUZZER fuzz.c checkpoint.c tokenizer.c -o fuzz && ./fuzz
 *
 * Without, a driver of its own damages what it makes, from a seed: fuzz [SEED [ROUNDS]].
 */
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every tensor's last row is read: an extent past the end is then seen by the address sanitizer. */
static void touch(const struct checkpoint *c)
{
        for (enum tensor t = 0; t < TENSORS; t++) {
                size_t rows, columns, layer = t == TENSOR_EMBEDDING || t == TENSOR_CLASSIFIER ? 0 : c->shape.layers - 1;
                float *row;

                checkpoint_extent(c, t, &rows, &columns);
                row = malloc(columns * sizeof(float));
                if (row)
                        checkpoint_row(c, t, layer, rows - 1, row);
                free(row);
        }
}

static void try_checkpoint(const uint8_t *data, size_t size)
{
        struct checkpoint c;
        struct fault fault;

        if (!checkpoint_parse(data, size, "checkpoint", &c, &fault))
                touch(&c);
}

static void try_tokenizer(const uint8_t *data, size_t size, size_t count)
{
        static const char *const texts[] = {"", "a b\xC3\xA9", "\xF0\x9F\x98\x80\xFF\x80\x80\x80\x80\x80",
                                            "<0x0A> the lion"};
        struct tokenizer t;
        struct fault fault;

        if (tokenizer_parse(data, size, "tokenizer", count, &t, &fault))
                return;
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                size_t tokens, length;
                char single[1];
                int *list = tokenizer_encode(&t, texts[i], &tokens);

                for (size_t k = 0; list && k < tokens; k++)
                        tokenizer_decode(&t, TOKEN_BEGIN, list[k], single, &length);
                free(list);
        }
        tokenizer_close(&t);
}

/* The first byte says which file the rest is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (!size)
                return 0;
        if (data[0] % 2)
                try_checkpoint(data + 1, size - 1);
        else
                try_tokenizer(data + 1, size - 1, data[0] / 2u);
        return 0;
}

#ifndef LIBFUZZER

static uint64_t state;

static uint32_t draw(uint32_t below)
{
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        return (uint32_t)(state * UINT64_C(0x2545F4914F6CDD1D) >> 33) % below;
}

static void put(uint8_t *to, int32_t value)
{
        memcpy(to, &value, 4);
}

/* A whole checkpoint of the smallest kind, fp32 or int8: what damage begins with. */
static size_t make_checkpoint(uint8_t *to)
{
        static const int32_t shape[] = {8, 16, 2, 2, 1, 5, 4};
        int new = (int)draw(2);
        size_t at = new ? 8 : 0, matrices = 5 * 8 + 2 * (8 * 8 + 2 * 4 * 8 + 8 * 8 + 3 * 8 * 16), norms = 5 * 8 * 4;

        put(to, 0x616b3432);
        put(to + 4, 2);
        for (size_t i = 0; i < 7; i++)
                put(to + at + 4 * i, shape[i]);
        if (!new)
                return 28 + matrices * 4 + norms + 4 * 2 * 8;
        to[36] = 1;
        put(to + 37, 4);
        return 256 + matrices * 2 + norms;
}

static size_t make_tokenizer(uint8_t *to, uint32_t count)
{
        size_t at = 4;

        put(to, 3);
        for (uint32_t i = 0; i < count; i++) {
                uint32_t length = draw(4);

                put(to + at, 0);
                put(to + at + 4, (int32_t)length);
                at += 8;
                for (uint32_t k = 0; k < length; k++)
                        to[at++] = "ab \xC3\xA9<0x"[draw(8)];
        }
        return at;
}

int main(int argc, char **argv)
{
        unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 100000;

        state = argc > 1 ? strtoull(argv[1], NULL, 10) | 1 : 1;
        for (unsigned long round = 0; round < rounds; round++) {
                static uint8_t room[1 << 14];
                static const int32_t values[] = {-1, 0, 1, INT32_MAX, INT32_MIN, 4, 16, 1 << 24};
                size_t size;
                uint8_t *exact;

                memset(room, 0, sizeof(room));
                room[0] = (uint8_t)draw(256);
                size = 1 + (room[0] % 2 ? make_checkpoint(room + 1) : make_tokenizer(room + 1, room[0] / 2u));
                for (uint32_t damage = draw(4); damage; damage--) {
                        uint32_t at = 1 + draw(size < 64 || draw(4) == 0 ? (uint32_t)size : 64);

                        if (draw(2))
                                put(room + at, values[draw(8)]);
                        else
                                room[at] = (uint8_t)draw(256);
                }
                if (draw(3) == 0)
                        size = 1 + draw((uint32_t)size);
                exact = malloc(size);           /* so that a byte past the end is past an allocation */
                if (!exact)
                        return 3;
                memcpy(exact, room, size);
                LLVMFuzzerTestOneInput(exact, size);
                free(exact);
        }
        printf("%lu rounds\n", rounds);
        return 0;
}

#endif
