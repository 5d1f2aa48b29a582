/* SPDX-License-Identifier: MIT
 *
 * The program npu-matmul. Exit status: 0 done, 1 a product is wrong, 2 the request is wrong, 3 the device or the host,
 * 130 interrupted.
 */
#ifndef TOOL_H
#define TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "json.h"
#include "npu-matmul.h"

enum { TOOL_DONE, TOOL_WRONG, TOOL_REQUEST, TOOL_HOST };

struct tool_shape {
        size_t m, k, n;
};

struct tool {
        struct nm_options options;
        bool json, quick;
        uint64_t seed;
        double seconds;                 /* of measuring a shape */
        enum nm_type type;
        struct tool_shape shape;        /* m 0: the set of the command */
};

int tool_list(const struct tool *tool);
int tool_test(const struct tool *tool);
int tool_bench(const struct tool *tool);
int probe_main(int argc, char **argv);

/* Prints "npu-matmul: error: …" and gives the exit status that belongs to `status`. */
int tool_failed(int status, const struct nm_error *why);

/* Words of `text`, in lines of at most 79 columns that begin `indent` columns in; the first continues where it is. */
void tool_wrap(const char *text, int indent);
/* What the figures below rest on: text, or the beginning of an object and of its array `name`. */
void tool_describe(const struct nm_info *info);
void tool_begin(struct json *json, const struct nm_info *info, const char *name);

const char *tool_type_name(enum nm_type type);  /* "fp16->fp32" */
size_t tool_in_bytes(enum nm_type type);
size_t tool_out_bytes(enum nm_type type);
uint64_t tool_random(uint64_t *state);          /* xorshift64*: the same numbers everywhere */

#endif
