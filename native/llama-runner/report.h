/* SPDX-License-Identifier: MIT
 *
 * What a run measured: llama2.c's line, ours, and JSON.
 */
#ifndef LLAMA_REPORT_H
#define LLAMA_REPORT_H

#include "options.h"
#include "session.h"

struct report {
        const struct options *options;
        const struct session *session;
        const struct engine *engine;
        const struct checkpoint *checkpoint;
        const struct nm_info *npu;      /* NULL: none */
        const char *outcome;            /* "done", "interrupted" */
};

void report_rates(const struct report *report, FILE *to);
int report_json(const struct report *report, const char *path, struct fault *fault);

#endif
