/* SPDX-License-Identifier: MIT
 *
 * Writes JSON, one call a value: commas, quotes and escapes are the writer's. Inside an object every value has a name,
 * elsewhere the name is NULL. Numbers that JSON cannot say (NaN, infinities) become null. Strings that are not UTF-8
 * get U+FFFD for each byte that is wrong.
 *
 *     struct json json = {.file = stdout};
 *     json_object(&json, NULL);
 *     json_string(&json, "backend", "model");
 *     json_end(&json);                            // the outermost end writes a newline
 */
#ifndef BOARDWRIGHT_JSON_H
#define BOARDWRIGHT_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_DEEPEST 31

struct json {
        FILE *file;
        int depth;
        uint32_t arrays;        /* bit d: the value at depth d is an array */
        uint32_t filled;        /* bit d: it holds something already */
};

void json_object(struct json *json, const char *name);
void json_array(struct json *json, const char *name);
void json_end(struct json *json);               /* of the object or array begun last */

void json_string(struct json *json, const char *name, const char *value);       /* NULL: null */
void json_integer(struct json *json, const char *name, int64_t value);
void json_unsigned(struct json *json, const char *name, uint64_t value);
void json_number(struct json *json, const char *name, double value); /* as few digits as read back the same */
void json_bool(struct json *json, const char *name, bool value);
void json_null(struct json *json, const char *name);

#endif
