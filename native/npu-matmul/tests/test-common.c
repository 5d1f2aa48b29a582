/* SPDX-License-Identifier: MIT
 *
 * binary16: every half there and back, and the vectors against plain C; JSON: what is written.
 */
#include <math.h>
#include <string.h>

#include "expect.h"
#include "half.h"
#include "json.h"

static void halves(void)
{
        static uint16_t all[65536], back[65536];
        static float floats[65536];

        for (size_t i = 0; i < 65536; i++)
                all[i] = (uint16_t)i;
        floats_from_halves(floats, all, 65536);
        halves_from_floats(back, floats, 65536);
        for (uint32_t i = 0; i < 65536; i++) {
                uint16_t wanted = (i & 0x7FFF) > 0x7C00 ? (uint16_t)(i | 0x200) : (uint16_t)i;
                float single = float_from_half((uint16_t)i);

                EXPECT(back[i] == wanted, "%04x comes back as %04x", (unsigned)i, back[i]);
                EXPECT(!memcmp(&single, &floats[i], 4), "%04x", (unsigned)i);
                EXPECT(half_from_float(single) == wanted, "%04x in plain C", (unsigned)i);
        }
}

static void roundings(void)
{
        static const struct {
                float from;
                uint16_t to;
        } known[] = {
                {0.0f, 0},
                {-0.0f, 0x8000},
                {1.0f, 0x3C00},
                {65504.0f, 0x7BFF},
                {65519.996f, 0x7BFF},
                {65520.0f, 0x7C00},
                {1e30f, 0x7C00},
                {-1e30f, 0xFC00},
                {0x1p-24f, 1},
                {0x1p-25f, 0},
                {0x1.8p-24f, 2},
                {0x1.000002p-25f, 1},
                {1.0f + 0x1p-11f, 0x3C00},
                {1.0f + 0x1.8p-10f, 0x3C02},
                {0x1.ff8p-15f, 0x3FF},
                {0x1.ffcp-15f, 0x400},
                {0x1.fffp-15f, 0x400},
                {0x1p-14f, 0x400},
        };
        uint64_t seed = 5;
        static float random[4099];
        static uint16_t vector[4099];

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
                EXPECT(half_from_float(known[i].from) == known[i].to, "%a gives %04x", (double)known[i].from,
                       half_from_float(known[i].from));
        for (int round = 0; round < 100; round++) {
                for (size_t i = 0; i < 4099; i++) {
                        uint32_t bits = (uint32_t)expect_random(&seed);

                        if (round & 1)          /* near the range of halves */
                                bits = (bits & 0x807FFFFF) | (100 + bits % 50) << 23;
                        memcpy(&random[i], &bits, 4);
                }
                halves_from_floats(vector, random, 4099);
                for (size_t i = 0; i < 4099; i++)
                        EXPECT(vector[i] == half_from_float(random[i]), "%a: %04x, in plain C %04x", (double)random[i],
                               vector[i], half_from_float(random[i]));
        }
}

static void json(void)
{
        static const char wanted[] = "{\"a\\\"b\": \"line\\nend\\u0001\", \"bytes\": "
                                     "\"\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBDz\", \"list\": [1, -2, null, {}, [], "
                                     "18446744073709551615], \"half\": 0.5, \"third\": 0.33333333333333331, \"nan\": "
                                     "null, \"yes\": true, \"none\": null}\n";
        char text[400] = "";
        FILE *file = fmemopen(text, sizeof(text), "w");
        struct json json = {.file = file};

        json_object(&json, NULL);
        json_string(&json, "a\"b", "line\nend\001");
        json_string(&json, "bytes", "\xC3\xA9\xC3\xFFz");
        json_array(&json, "list");
        json_integer(&json, NULL, 1);
        json_integer(&json, NULL, -2);
        json_number(&json, NULL, INFINITY);
        json_object(&json, NULL);
        json_end(&json);
        json_array(&json, NULL);
        json_end(&json);
        json_unsigned(&json, NULL, UINT64_MAX);
        json_end(&json);
        json_number(&json, "half", 0.5);
        json_number(&json, "third", 1.0 / 3);
        json_number(&json, "nan", NAN);
        json_bool(&json, "yes", true);
        json_string(&json, "none", NULL);
        json_end(&json);
        fclose(file);
        EXPECT(!strcmp(text, wanted), "\n%s%s", text, wanted);
}

int main(void)
{
        halves();
        roundings();
        json();
        return expect_done();
}
