/* SPDX-License-Identifier: MIT */
#include "json.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the UTF-8 sequence at `text` (Unicode 15, table 3-7), or 0. */
static size_t sequence(const unsigned char *text)
{
        static const struct {
                unsigned char first, last, low, high,
                        more; /* bounds of the first byte, of the second; bytes after it */
        } forms[] = {
                {0xC2, 0xDF, 0x80, 0xBF, 1}, {0xE0, 0xE0, 0xA0, 0xBF, 2}, {0xE1, 0xEC, 0x80, 0xBF, 2},
                {0xED, 0xED, 0x80, 0x9F, 2}, {0xEE, 0xEF, 0x80, 0xBF, 2}, {0xF0, 0xF0, 0x90, 0xBF, 3},
                {0xF1, 0xF3, 0x80, 0xBF, 3}, {0xF4, 0xF4, 0x80, 0x8F, 3},
        };

        if (text[0] < 0x80)
                return 1;
        for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
                if (text[0] < forms[i].first || text[0] > forms[i].last)
                        continue;
                if (text[1] < forms[i].low || text[1] > forms[i].high)
                        return 0;
                for (size_t byte = 2; byte <= forms[i].more; byte++)
                        if ((text[byte] & 0xC0) != 0x80)
                                return 0;
                return forms[i].more + 1u;
        }
        return 0;
}

static void quoted(FILE *file, const char *value)
{
        const unsigned char *text = (const unsigned char *)value;

        putc('"', file);
        while (*text) {
                size_t length = sequence(text);

                if (length == 0)
                        fputs("\xEF\xBF\xBD", file);
                else if (*text == '"' || *text == '\\')
                        fprintf(file, "\\%c", *text);
                else if (*text == '\n')
                        fputs("\\n", file);
                else if (*text == '\t')
                        fputs("\\t", file);
                else if (*text < 0x20 || *text == 0x7F)
                        fprintf(file, "\\u%04x", *text);
                else
                        fwrite(text, 1, length, file);
                text += length ? length : 1;
        }
        putc('"', file);
}

static void begin(struct json *json, const char *name)
{
        uint32_t here = UINT32_C(1) << json->depth;

        if (json->depth == 0)
                return;
        assert(!(json->arrays & here) == !!name);
        if (json->filled & here)
                fputs(", ", json->file);
        json->filled |= here;
        if (name) {
                quoted(json->file, name);
                fputs(": ", json->file);
        }
}

static void open_level(struct json *json, const char *name, bool array)
{
        uint32_t here;

        begin(json, name);
        assert(json->depth < JSON_DEEPEST);
        here = UINT32_C(1) << ++json->depth;
        json->filled &= ~here;
        json->arrays = array ? json->arrays | here : json->arrays & ~here;
        putc(array ? '[' : '{', json->file);
}

void json_object(struct json *json, const char *name)
{
        open_level(json, name, false);
}

void json_array(struct json *json, const char *name)
{
        open_level(json, name, true);
}

void json_end(struct json *json)
{
        assert(json->depth > 0);
        putc(json->arrays >> json->depth & 1 ? ']' : '}', json->file);
        if (--json->depth == 0)
                putc('\n', json->file);
}

void json_string(struct json *json, const char *name, const char *value)
{
        if (!value) {
                json_null(json, name);
                return;
        }
        begin(json, name);
        quoted(json->file, value);
}

void json_integer(struct json *json, const char *name, int64_t value)
{
        begin(json, name);
        fprintf(json->file, "%" PRId64, value);
}

void json_unsigned(struct json *json, const char *name, uint64_t value)
{
        begin(json, name);
        fprintf(json->file, "%" PRIu64, value);
}

/* Programs that write JSON run in the C locale: the decimal point is a point. */
void json_number(struct json *json, const char *name, double value)
{
        static const int digits[] = {6, 9, 15, 17};
        char text[40] = "null";

        for (size_t i = 0; isfinite(value) && i < sizeof(digits) / sizeof(digits[0]); i++) {
                snprintf(text, sizeof(text), "%.*g", digits[i], value);
                if (strtod(text, NULL) == value)
                        break;
        }
        begin(json, name);
        fputs(text, json->file);
}

void json_bool(struct json *json, const char *name, bool value)
{
        begin(json, name);
        fputs(value ? "true" : "false", json->file);
}

void json_null(struct json *json, const char *name)
{
        begin(json, name);
        fputs("null", json->file);
}
