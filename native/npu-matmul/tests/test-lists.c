/* SPDX-License-Identifier: MIT
 *
 * Register lists against digests of 108-word lists that are known to be the ones a working program sends.
 */
#include "expect.h"
#include "lists.h"
#include "registers.h"
#include "sha256.h"

static const struct nm_place far_apart = {.input = 0x10000000, .weights = 0x20000000, .output = 0x30000000};

static void golden(void)
{
        static const struct {
                struct nm_shape shape;
                const char *sha256;
        } known[] = {
                {{NM_FP16_FP32, 4, 32, 16}, "8441df4ad9c666befb55752d9f63aa07ee21253d4cd3e48fb6c82b8a7ecf91d5"},
                {{NM_FP16_FP32, 1, 768, 768}, "9af0ae24d493849163f688ea15690591cefa59cd06b02c9914acbde830a822d5"},
                {{NM_FP16_FP32, 1, 768, 2048}, "a3d44368058aac0b609d1140b7c081d2e74367378a2951fd392828528ab77a05"},
                {{NM_FP16_FP32, 1, 2048, 768}, "3d5aa79b117ac56d443f92e52d664a652b8384ab22e4526b0c77b7804c377458"},
                {{NM_FP16_FP32, 1, 768, 8000}, "6565ae746123274c0f550abd02ab399f2117fcdd2c9eef7aaabf05b7ad0fe4fa"},
                {{NM_FP16_FP16, 1, 768, 768}, "964c9930cfb0ad09a0ac8b41649db372a44eec3625978a8bdc4f7bd44358d341"},
                {{NM_INT8_INT32, 1, 64, 64}, "4172fafc4bf424436a0f2221a0d0e97e862af0055e744b3eff76216cc39455c6"},
                {{NM_INT8_INT32, 544, 544, 4096}, "1700386d4475029fc824bd9b03038fa3eb904e9f355881634bdd119e19f528a2"},
                {{NM_FP16_FP32, 384, 384, 4096}, "eb95de12ed5de8739913f67f010e5d482a8bfa045a395fcf517a431a47f3f3db"},
        };
        struct nm_switches exact = {.int8_banks = NM_BANKS_EXACT};

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
                uint64_t words[NM_WORDS_RDMA];
                uint8_t bytes[NM_WORDS_PLAIN * 8];
                char hex[65];
                size_t count = nm_list_build(words, &known[i].shape, &far_apart, &exact, false);

                EXPECT(count == NM_WORDS_PLAIN, "%zu words", count);
                for (size_t b = 0; b < sizeof(bytes); b++)
                        bytes[b] = (uint8_t)(words[b / 8] >> 8 * (b % 8));
                sha256_hex(bytes, sizeof(bytes), hex);
                EXPECT(!strcmp(hex, known[i].sha256), "list %zu: %s, expected %s", i, hex, known[i].sha256);
        }
}

static uint32_t value_of(const uint64_t *words, size_t count, uint32_t offset)
{
        for (size_t i = 0; i + NM_TAIL < count; i++)
                if ((words[i] & 0xFFFF) == offset)
                        return (uint32_t)(words[i] >> 16);
        EXPECT(0, "register %#x is not in the list", (unsigned)offset);
        return 0;
}

static void worked_values(void)
{
        static const struct {
                uint32_t offset, a, b, c, d;
        } rows[] = {
                {0x100C, 0x120, 0x120, 0x120, 0},
                {0x1010, 0x50, 0x20, 0x20, 0x50},
                {0x1020, 0x10004, 0x10001, 0x10001, 0x10004},
                {0x1024, 0x1F0020, 0x2FF0300, 0x2FF0300, 0x3F0040},
                {0x102C, 4, 1, 1, 4},
                {0x1030, 0x400, 0x120000, 0x300000, 0x800},
                {0x1034, 0x40, 0x600, 0x600, 0x40},
                {0x1038, 0x1010010, 0x1010300, 0x1010800, 0x1010020},
                {0x1040, 0xB1, 0xB1, 0xB1, 0xB1},
                {0x1044, 1, 0x18, 0x18, 1},
                {0x1080, 0, 0xFFFFFFD, 0xFFFFFFD, 0},
                {0x3010, 0x201, 0x201, 0x201, 0},
                {0x3014, 0x30000, 0, 0, 0x30000},
                {0x3018, 0xF, 0x2FF, 0x7FF, 0x1F},
                {0x4010, 0xA8000002, 0xA8000002, 0x48000002, 0x80000000},
                {0x4024, 0x40, 0x10, 0x10, 0x40},
                {0x4034, 3, 0, 0, 3},
                {0x403C, 0xF000F, 0x2FF02FF, 0x7FF07FF, 0x1F001F},
                {0x4050, 0x36E, 0x36E, 0x126, 0x7FE},
                {0x4058, 0xF, 0x2FF, 0x7FF, 0x1F},
                {0x405C, 0x30000, 0, 0, 0x30000},
                {0x4084, 1, 1, 0x10001, 1},
                {0x40C0, 0x100, 0x40, 0x20, 0x200},
        };
        static const struct nm_shape shapes[] = {
                {NM_FP16_FP32, 4, 32, 16},
                {NM_FP16_FP32, 1, 768, 768},
                {NM_FP16_FP16, 1, 768, 2048},
                {NM_INT8_INT32, 4, 64, 32},
        };
        struct nm_switches exact = {.int8_banks = NM_BANKS_EXACT};

        for (size_t s = 0; s < 4; s++) {
                uint64_t words[NM_WORDS_RDMA];
                size_t count = nm_list_build(words, &shapes[s], &far_apart, &exact, s & 1);

                for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                        const uint32_t wanted[] = {rows[i].a, rows[i].b, rows[i].c, rows[i].d};
                        uint32_t found = value_of(words, count, rows[i].offset);

                        EXPECT(found == wanted[s], "register %#x of shape %zu: %#x, expected %#x",
                               (unsigned)rows[i].offset, s, (unsigned)found, (unsigned)wanted[s]);
                }
        }
}

static void switches(void)
{
        struct nm_shape fp16 = {NM_FP16_FP16, 4, 64, 32}, int8 = {NM_INT8_INT32, 4, 64, 32};
        struct nm_switches off = {.mrdma = NM_MRDMA_ZERO, .grains = 9, .int8_qd = true}, none = {0};
        uint64_t words[NM_WORDS_RDMA];
        size_t count = nm_list_build(words, &fp16, &far_apart, &none, true);

        EXPECT(count == NM_WORDS_RDMA, "%zu words", count);
        EXPECT(words[1] == nm_word(TARGET_RDMA, RDMA_S_POINTER, 0xE), "second word %#llx",
               (unsigned long long)words[1]);
        EXPECT(words[count - 1] == nm_word(TARGET_ENABLE, 8, 0x1D), "enable word");
        EXPECT(value_of(words, count, RDMA_FEATURE_MODE_CFG) == 0x7818, "0x5044 of fp16 output");
        EXPECT(value_of(words, count, RDMA_CUBE_HEIGHT) == 3 && value_of(words, count, RDMA_CUBE_CHANNEL) == 31,
               "RDMA cube");
        count = nm_list_build(words, &int8, &far_apart, &off, true);
        EXPECT(value_of(words, count, RDMA_FEATURE_MODE_CFG) == 0, "0x5044 switched to zero");
        EXPECT(value_of(words, count, CNA_CONV_CON2) == 9 << 4, "grains");
        EXPECT(value_of(words, count, CORE_MISC_CFG) == 1, "qd_en");
        EXPECT(value_of(words, count, CNA_CBUF_CON0) == 0xA2, "a spare bank");

        nm_list_chain(words, 108, 0x12345678, 108);
        EXPECT(words[104] == nm_word(TARGET_PC, 0x10, 0x12345670), "chained address");
        EXPECT(words[105] == nm_word(TARGET_PC, 0x14, 55), "chained amount");
}

int main(void)
{
        golden();
        worked_values();
        switches();
        return expect_done();
}
