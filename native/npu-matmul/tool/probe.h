/* SPDX-License-Identifier: MIT
 *
 * `npu-matmul probe`: asks a board which of the contradicting claims about it hold. An experiment is a few products
 * with one setting of the switches, in a process of its own with a deadline: a wedged NPU costs that process, not the
 * probe.
 */
#ifndef PROBE_H
#define PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "npu-matmul.h"

struct probe_shape {
        enum nm_type type;
        size_t m, k, n;
};

enum probe_outcome { PROBE_NOT_TRIED, PROBE_RIGHT, PROBE_WRONG, PROBE_TIMED_OUT, PROBE_REFUSED, PROBE_DIED };

struct probe_result {
        enum probe_outcome outcome;
        char text[200];                 /* the evidence: what was seen, where */
        double seconds;                 /* of the products alone */
};

enum { PROBE_SHAPES = 6 };

struct probe_experiment {
        char name[64];
        struct nm_switches switches;
        struct probe_shape shapes[PROBE_SHAPES];
        size_t shape_count;
        unsigned rounds;                /* each shape so often */
        bool chain;                     /* rknpu: several lists in one kick */
        struct probe_result result;
};

/* Runs `experiment` in a child; ends it after `deadline` seconds. false: it cannot even be killed, stop. */
bool probe_run(const struct nm_options *options, struct probe_experiment *experiment, unsigned deadline);

const char *probe_outcome_name(enum probe_outcome outcome);

/* JSON text in quotes. */
void probe_quote(FILE *out, const char *text);
/* What is known of the machine, as members of a JSON object with a comma after each. */
void probe_board(FILE *out);

enum { PROBE_MOST = 64 };

struct probe {
        struct nm_options options;
        struct nm_info info;
        unsigned deadline, loops;       /* s; rounds of the long experiment */
        bool quiet;                     /* no table */
        struct probe_experiment experiments[PROBE_MOST];
        size_t count;
        struct nm_switches base;        /* with these it multiplied */
        bool stuck;
};

/* What held, by the values of nm_switches. */
struct probe_verdicts {
        bool rows[2], rdma[3], banks[2];
        bool mrdma_zero, int8_qd, grains, chain, int8, llama, loops;
};

/* The file to send, complete; `best` is NULL when nothing multiplied. */
void probe_json(FILE *out, const struct probe *probe, const struct probe_verdicts *hold,
                const struct nm_switches *best);
/* The same for the reader at the console: the questions, their answers, the switches to use. */
void probe_answers(const struct probe *probe, const struct probe_verdicts *hold, const struct nm_switches *best);

int probe_main(int argc, char **argv);

#endif
