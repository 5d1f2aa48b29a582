/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "probe.h"

enum { EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_HOST = 3 };

/* Tables of shapes: M, K, N. */
static const struct probe_shape first_light[] = { { NM_FP16_FP32, 4, 32, 16 }, { NM_FP16_FP32, 4, 64, 32 } };
static const struct probe_shape few_rows[] = { { NM_FP16_FP32, 1, 64, 64 }, { NM_FP16_FP32, 2, 64, 32 },
                                               { NM_FP16_FP32, 3, 96, 48 }, { NM_FP16_FP32, 1, 768, 768 } };
/* int8 rows that fill their banks exactly, or nearly: 32768 and 16 KiB more, 9.03 banks. */
static const struct probe_shape banks[] = { { NM_INT8_INT32, 128, 256, 64 }, { NM_INT8_INT32, 64, 512, 64 },
                                            { NM_INT8_INT32, 96, 512, 32 }, { NM_INT8_INT32, 544, 544, 32 } };
static const struct probe_shape llama[] = { { NM_FP16_FP32, 1, 768, 768 }, { NM_FP16_FP32, 1, 768, 2048 },
                                            { NM_FP16_FP32, 1, 2048, 768 }, { NM_FP16_FP32, 1, 768, 8000 } };
static const struct probe_shape int8[] = { { NM_INT8_INT32, 4, 64, 32 }, { NM_INT8_INT32, 4, 768, 96 } };
static const struct probe_shape loop[] = { { NM_FP16_FP32, 1, 768, 768 } };
static const struct probe_shape sliced[] = { { NM_FP16_FP32, 4, 64, 16400 } };  /* three lists, to be chained */

#define SHAPES(table) table, sizeof(table) / sizeof(*(table))

static const char *const row_names[] = { "as given", "padded to 4" };
static const char *const rdma_names[] = { "auto", "off (0xD)", "on (0x1D)" };
static const char *const bank_names[] = { "one spare", "exact" };

static void show(const struct probe *probe, const struct probe_experiment *one)
{
        if (!probe->quiet)
                printf("%-44s %-10s %s\n", one->name, probe_outcome_name(one->result.outcome), one->result.text);
        fflush(stdout);
}

/* After a failure the NPU may be left in a state that fails what is right: it is asked for a product that worked. */
static void recover(struct probe *probe)
{
        struct probe_experiment known = { .name = "recovery", .switches = probe->base, .rounds = 1, .shape_count = 1 };
        /* The vendor's driver cuts the power 3 s after the last call, which clears what a bad list left. */
        const struct timespec rest = { .tv_sec = 4 };

        memcpy(known.shapes, first_light, sizeof(first_light[0]));
        for (int i = 0; i < 3 && !probe->stuck; i++) {
                probe->stuck = !probe_run(&probe->options, &known, probe->deadline);
                if (known.result.outcome == PROBE_RIGHT)
                        return;
                nanosleep(&rest, NULL);
        }
        probe->stuck = true;
        if (!probe->quiet)
                puts("the NPU does not recover: the rest is not tried; start the board anew");
}

static struct probe_experiment *experiment(struct probe *probe, const char *name, struct nm_switches switches,
                                           const struct probe_shape *shapes, size_t count, unsigned rounds)
{
        struct probe_experiment *one =
                &probe->experiments[probe->count < PROBE_MOST - 1 ? probe->count++ : PROBE_MOST - 1];

        *one = (struct probe_experiment){ .switches = switches, .shape_count = count, .rounds = rounds };
        snprintf(one->name, sizeof(one->name), "%s", name);
        memcpy(one->shapes, shapes, count * sizeof(*shapes));
        return one;
}

static bool attempt(struct probe *probe, struct probe_experiment *one, bool known_good)
{
        if (probe->stuck)
                snprintf(one->result.text, sizeof(one->result.text), "the NPU did not recover from an earlier one");
        else
                probe->stuck = !probe_run(&probe->options, one, probe->deadline);
        show(probe, one);
        if (one->result.outcome != PROBE_RIGHT && known_good && !probe->stuck)
                recover(probe);
        return one->result.outcome == PROBE_RIGHT;
}

static bool try_one(struct probe *probe, const char *name, struct nm_switches switches,
                    const struct probe_shape *shapes, size_t count, unsigned rounds)
{
        return attempt(probe, experiment(probe, name, switches, shapes, count, rounds), true);
}

/* Four rows of fp16, on which all sources agree, with either form of the list. */
static bool find_base(struct probe *probe)
{
        for (int rdma = NM_RDMA_AUTO; rdma <= NM_RDMA_ON; rdma++) {
                struct nm_switches switches = { .rows = NM_ROWS_AS_GIVEN };
                char name[64];

                switches.rdma = rdma == NM_RDMA_AUTO ? NM_RDMA_AUTO : rdma == NM_RDMA_ON ? NM_RDMA_ON : NM_RDMA_OFF;
                snprintf(name, sizeof(name), "4 rows fp16, RDMA %s", rdma_names[rdma]);
                if (attempt(probe, experiment(probe, name, switches, SHAPES(first_light), 3), false)) {
                        probe->base = switches;
                        return true;
                }
        }
        return false;
}

/* {rows} × {RDMA} × {banks}. */
static void sweep(struct probe *probe, struct probe_verdicts *hold)
{
        char name[64];

        for (int rdma = NM_RDMA_OFF; rdma <= NM_RDMA_ON; rdma++) {
                struct nm_switches switches = probe->base;

                switches.rdma = rdma == NM_RDMA_ON ? NM_RDMA_ON : NM_RDMA_OFF;
                snprintf(name, sizeof(name), "C2: 4 rows, RDMA %s", rdma_names[rdma]);
                hold->rdma[rdma] = try_one(probe, name, switches, SHAPES(first_light), 3);
                for (int rows = 0; rows < 2; rows++) {
                        switches.rows = rows ? NM_ROWS_PADDED : NM_ROWS_AS_GIVEN;
                        snprintf(name, sizeof(name), "C1: 1 to 3 rows %s, RDMA %s", row_names[rows], rdma_names[rdma]);
                        if (hold->rdma[rdma])
                                hold->rows[rows] |= try_one(probe, name, switches, SHAPES(few_rows), 3);
                }
                for (int bank = 0; bank < 2; bank++) {
                        switches.int8_banks = bank ? NM_BANKS_EXACT : NM_BANKS_SPARE;
                        snprintf(name, sizeof(name), "C3: int8, banks %s, RDMA %s", bank_names[bank], rdma_names[rdma]);
                        if (hold->rdma[rdma])
                                hold->banks[bank] |= try_one(probe, name, switches, SHAPES(banks), 2);
                }
        }
}

static void lesser(struct probe *probe, struct probe_verdicts *hold, struct nm_switches best)
{
        static const unsigned grains[] = { 2, 16, 1022 };
        struct nm_switches other = best;
        struct probe_experiment *one;
        char name[64];

        other.rdma = NM_RDMA_ON;
        other.mrdma = NM_MRDMA_ZERO;
        if (hold->rdma[NM_RDMA_ON])
                hold->mrdma_zero = try_one(probe, "C2: RDMA on, register 0x5044 left 0", other, SHAPES(first_light), 2);
        other = best;
        other.int8_qd = true;
        hold->int8_qd = try_one(probe, "C8: int8 with qd_en", other, SHAPES(int8), 2);
        hold->grains = true;
        for (size_t i = 0; i < sizeof(grains) / sizeof(*grains); i++) {
                other = best;
                other.grains = grains[i];
                snprintf(name, sizeof(name), "feature grains %u", grains[i]);
                hold->grains &= try_one(probe, name, other, SHAPES(first_light), 2);
        }
        hold->int8 = try_one(probe, "int8", best, SHAPES(int8), 3);
        hold->llama = try_one(probe, "shapes of stories110M", best, SHAPES(llama), 2);
        if (!strcmp(probe->info.backend, "rknpu")) {
                one = experiment(probe, "three lists chained in one kick", best, SHAPES(sliced), 2);
                one->chain = true;
                hold->chain = attempt(probe, one, true);
        }
        snprintf(name, sizeof(name), "1x768x768, %u times", probe->loops);
        hold->loops = try_one(probe, name, best, SHAPES(loop), probe->loops);
}

/* What we believed where both hold; else what holds. */
static struct nm_switches recommend(const struct probe *probe, const struct probe_verdicts *hold)
{
        struct nm_switches best = probe->base;

        best.rows = hold->rows[NM_ROWS_AS_GIVEN] ? NM_ROWS_AS_GIVEN : NM_ROWS_PADDED;
        best.int8_banks = hold->banks[NM_BANKS_SPARE] || !hold->banks[NM_BANKS_EXACT] ? NM_BANKS_SPARE : NM_BANKS_EXACT;
        return best;
}

/* The device by its own word, then closed: each experiment opens it anew, one process at a time. */
static int identify(struct probe *probe)
{
        struct nm_device *device;
        struct nm_error why;
        const int status = nm_open(&probe->options, &device, &why);

        if (status) {
                fprintf(stderr, "npu-matmul: %s: %s\n", nm_status_name(status), why.text);
                return EXIT_HOST;
        }
        probe->info = *nm_info(device);
        nm_close(device);
        if (strcmp(probe->info.backend, "rocket") && strcmp(probe->info.backend, "rknpu") &&
            strcmp(probe->info.backend, "model")) {
                fprintf(stderr,
                        "npu-matmul: probe asks the RK3588's NPU; here is %s only (--backend model asks the functional "
                        "model)\n",
                        probe->info.backend);
                return EXIT_HOST;
        }
        probe->options.backend = probe->info.backend;
        return 0;
}

static int probe_all(struct probe *probe, const char *path, bool json)
{
        struct probe_verdicts hold = { .int8 = false };
        struct nm_switches best;
        const bool works = find_base(probe);
        FILE *out;

        if (works) {
                sweep(probe, &hold);
                best = recommend(probe, &hold);
                lesser(probe, &hold, best);
                if (!probe->quiet)
                        probe_answers(probe, &hold, &best);
        }
        out = fopen(path, "we");
        if (out)
                probe_json(out, probe, &hold, works ? &best : NULL);
        if (!out || fclose(out)) {
                fprintf(stderr, "npu-matmul: %s: %s\n", path, strerror(errno));
                return EXIT_HOST;
        }
        if (json)
                probe_json(stdout, probe, &hold, works ? &best : NULL);
        else
                printf("written to %s\n", path);
        if (!works)
                fprintf(stderr, "npu-matmul: no setting multiplies 4 rows of fp16; see %s\n", path);
        return works && hold.llama && hold.loops && !probe->stuck ? 0 : EXIT_WRONG;
}

static unsigned positive(const char *text)
{
        char *end;
        const unsigned long value = strtoul(text, &end, 10);

        return *end || value < 1 || value > 1000000 ? 0 : (unsigned)value;
}

int probe_main(int argc, char **argv)
{
        static const struct option options[] = {
                { "backend", required_argument, NULL, 'b' }, { "node", required_argument, NULL, 'n' },
                { "output", required_argument, NULL, 'o' },  { "deadline", required_argument, NULL, 'd' },
                { "loops", required_argument, NULL, 'l' },   { "json", no_argument, NULL, 'j' },
                { "help", no_argument, NULL, 'h' },          { NULL, 0, NULL, 0 },
        };
        static const char usage[] = "usage: npu-matmul probe [--backend rocket|rknpu|model] [--node PATH] [--output "
                                    "npu-probe.json]\n"
                                    "                        [--deadline SECONDS (20)] [--loops N (1000)] [--json]\n";
        struct probe *probe = calloc(1, sizeof(*probe));
        const char *path = "npu-probe.json";
        bool json = false, bad = false;
        int option, status;

        if (!probe)
                return EXIT_HOST;
        probe->deadline = 20;
        probe->options.timeout_ms = 1500;       /* rknpu waits three times as long before it gives up */
        probe->loops = 1000;
        optind = 1;
        while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                switch (option) {
                case 'b': probe->options.backend = optarg; break;
                case 'n': probe->options.node = optarg; break;
                case 'o': path = optarg; break;
                case 'd': bad |= !(probe->deadline = positive(optarg)); break;
                case 'l': bad |= !(probe->loops = positive(optarg)); break;
                case 'j': json = probe->quiet = true; break;
                case 'h': fputs(usage, stdout); free(probe); return 0;
                default: bad = true;
                }
        }
        if (bad || optind < argc) {
                fputs(usage, stderr);
                free(probe);
                return EXIT_USAGE;
        }
        status = identify(probe);
        if (status == 0) {
                if (!json)
                        printf("%s on %s, %s: results are %s\n\n", probe->info.backend, probe->info.device,
                               probe->info.driver, probe->info.evidence);
                status = probe_all(probe, path, json);
        }
        free(probe);
        return status;
}
