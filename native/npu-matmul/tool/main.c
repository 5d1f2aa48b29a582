/* SPDX-License-Identifier: MIT */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stop.h"
#include "tool.h"

static const char usage[] =
        "usage: npu-matmul COMMAND [OPTION]...\n"
        "\n"
        "  list    which back ends can be opened here, and why others cannot\n"
        "  test    products of many shapes, every result compared\n"
        "  bench   latency, GFLOPS and GB/s by shape\n"
        "  probe   which of the contradicting claims about an NPU hold on this board\n"
        "\n"
        "  --backend NAME        rocket, rknpu, axengine, cpu, model; else the first\n"
        "                        that can be opened, model excepted\n"
        "  --node PATH           its device node, or the directory of its models\n"
        "  --threads N           of the cpu back end; else one a processor\n"
        "  --timeout MS          of one submission (6000)\n"
        "  --json                one JSON object instead of a table\n"
        "  --quick               test, bench: small shapes only\n"
        "  --seed N              test: of the operands (1)\n"
        "  --shape MxKxN         test, bench: this shape only\n"
        "  --type fp16-fp32|fp16-fp16|int8-int32   of that shape\n"
        "  --seconds S           bench: measure each shape so long (0.3)\n"
        "\n"
        "  How the hardware is taken to be (npu-matmul probe finds out):\n"
        "  --rows given|padded  --rdma auto|off|on  --int8-banks spare|exact\n"
        "  --mrdma disabled|zero  --grains N  --int8-qd\n"
        "\n"
        "Exit status: 0 done, 1 a product is wrong, 2 the request is wrong, 3 the\n"
        "device or the host is, 130 interrupted (the device is closed first).\n";

const char *tool_type_name(enum nm_type type)
{
        static const char *const names[] = {"fp16->fp32", "fp16->fp16", "int8->int32"};

        return names[type];
}

void tool_wrap(const char *text, int indent)
{
        int column = indent;

        while (*text) {
                int length = (int)strcspn(text, " ");

                if (column > indent && column + 1 + length > 79) {
                        printf("\n%*s", indent, "");
                        column = indent;
                }
                column += printf("%s%.*s", column > indent ? " " : "", length, text);
                text += length;
                text += strspn(text, " ");
        }
        putchar('\n');
}

void tool_describe(const struct nm_info *info)
{
        printf("%-10s", info->backend);
        tool_wrap(info->device, 10);
        printf("%10s%s; evidence: %s\n", "", info->driver, info->evidence);
}

void tool_begin(struct json *json, const struct nm_info *info, const char *name)
{
        json_object(json, NULL);
        json_string(json, "backend", info->backend);
        json_string(json, "device", info->device);
        json_string(json, "driver", info->driver);
        json_string(json, "evidence", info->evidence);
        json_array(json, name);
}

size_t tool_in_bytes(enum nm_type type)
{
        return type == NM_INT8_INT32 ? 1 : 2;
}

size_t tool_out_bytes(enum nm_type type)
{
        return type == NM_FP16_FP16 ? 2 : 4;
}

uint64_t tool_random(uint64_t *state)
{
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        return *state * UINT64_C(0x2545F4914F6CDD1D);
}

int tool_failed(int status, const struct nm_error *why)
{
        fflush(stdout);
        fprintf(stderr, "npu-matmul: error: %s (%s)\n", why->text, nm_status_name(status));
        return status == NM_INVALID ? TOOL_REQUEST : TOOL_HOST;
}

static int refuse(const char *option, const char *found, const char *expected)
{
        fprintf(stderr, "npu-matmul: error: --%s is '%s': expected %s\n", option, found, expected);
        return TOOL_REQUEST;
}

/* The index of `word` in "first|second|…", or -1. */
static int choice(const char *word, const char *choices)
{
        size_t length = strlen(word);
        int index = 0;

        for (const char *c = choices; c; c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL, index++)
                if (length && !strncmp(c, word, length) && (c[length] == '|' || !c[length]))
                        return index;
        return -1;
}

static bool number(const char *text, unsigned long most, unsigned long *value)
{
        char *end;

        *value = strtoul(text, &end, 10);
        return *text >= '0' && *text <= '9' && !*end && *value <= most;
}

static bool parse_shape(const char *text, struct tool_shape *shape)
{
        size_t *fields[] = {&shape->m, &shape->k, &shape->n};
        char *end = (char *)(uintptr_t)text;

        for (int i = 0; i < 3; i++) {
                unsigned long value = *end >= '0' && *end <= '9' ? strtoul(end, &end, 10) : 0;

                if (value < 1 || value > 1u << 24 || *end != (i < 2 ? 'x' : 0))
                        return false;
                *fields[i] = value;
                end += i < 2;
        }
        return true;
}

enum {
        BACKEND = 1,
        NODE,
        THREADS,
        TIMEOUT,
        JSON,
        QUICK,
        SEED,
        SHAPE,
        TYPE,
        SECONDS,
        ROWS,
        RDMA,
        BANKS,
        MRDMA,
        GRAINS,
        QD,
        HELP
};

static const struct option options[] = {
        {"backend", required_argument, NULL, BACKEND}, {"node", required_argument, NULL, NODE},
        {"threads", required_argument, NULL, THREADS}, {"timeout", required_argument, NULL, TIMEOUT},
        {"json", no_argument, NULL, JSON}, {"quick", no_argument, NULL, QUICK}, {"seed", required_argument, NULL, SEED},
        {"shape", required_argument, NULL, SHAPE}, {"type", required_argument, NULL, TYPE},
        {"seconds", required_argument, NULL, SECONDS}, {"rows", required_argument, NULL, ROWS},
        {"rdma", required_argument, NULL, RDMA}, {"int8-banks", required_argument, NULL, BANKS},
        {"mrdma", required_argument, NULL, MRDMA}, {"grains", required_argument, NULL, GRAINS},
        {"int8-qd", no_argument, NULL, QD}, {"help", no_argument, NULL, HELP}, {NULL, 0, NULL, 0},
};

/* Options that take one of a few words; the index is the enumeration's value. */
static int take_word(struct tool *tool, int option, const char *word)
{
        static const char *const words[] = {
                [TYPE] = "fp16-fp32|fp16-fp16|int8-int32", [ROWS] = "given|padded", [RDMA] = "auto|off|on",
                [BANKS] = "spare|exact", [MRDMA] = "disabled|zero",
        };
        int index = choice(word, words[option]);

        if (index < 0)
                return refuse(options[option - 1].name, word, words[option]);
        switch (option) {
        case TYPE: tool->type = (enum nm_type)index; break;
        case ROWS: tool->options.switches.rows = index ? NM_ROWS_PADDED : NM_ROWS_AS_GIVEN; break;
        case RDMA:
                tool->options.switches.rdma = index == 0 ? NM_RDMA_AUTO : index == 1 ? NM_RDMA_OFF : NM_RDMA_ON;
                break;
        case BANKS: tool->options.switches.int8_banks = index ? NM_BANKS_EXACT : NM_BANKS_SPARE; break;
        default: tool->options.switches.mrdma = index ? NM_MRDMA_ZERO : NM_MRDMA_DISABLED; break;
        }
        return TOOL_DONE;
}

static int take_number(struct tool *tool, int option, const char *text)
{
        static const unsigned long most[] = {
                [THREADS] = 1024, [TIMEOUT] = 3600000, [SEED] = 0xFFFFFFFF, [GRAINS] = 1023};
        char expected[48];
        unsigned long value;

        snprintf(expected, sizeof(expected), "a number from 1 to %lu", most[option]);
        if (!number(text, most[option], &value) || !value)
                return refuse(options[option - 1].name, text, expected);
        switch (option) {
        case THREADS: tool->options.threads = (unsigned)value; break;
        case TIMEOUT: tool->options.timeout_ms = (unsigned)value; break;
        case SEED: tool->seed = value; break;
        default: tool->options.switches.grains = (unsigned)value; break;
        }
        return TOOL_DONE;
}

static int take(struct tool *tool, int option, const char *value)
{
        char *end;

        switch (option) {
        case BACKEND: tool->options.backend = value; return TOOL_DONE;
        case NODE: tool->options.node = value; return TOOL_DONE;
        case JSON: tool->json = true; return TOOL_DONE;
        case QUICK: tool->quick = true; return TOOL_DONE;
        case QD: tool->options.switches.int8_qd = true; return TOOL_DONE;
        case THREADS: case TIMEOUT: case SEED: case GRAINS:
                return take_number(tool, option, value);
        case TYPE: case ROWS: case RDMA: case BANKS: case MRDMA:
                return take_word(tool, option, value);
        case SHAPE:
                return parse_shape(value, &tool->shape)
                               ? TOOL_DONE
                               : refuse("shape", value, "MxKxN, each from 1 to 16777216, as 1x768x2048");
        case SECONDS:
                tool->seconds = strtod(value, &end);
                return *end || !(tool->seconds > 0 && tool->seconds <= 3600)
                               ? refuse("seconds", value, "above 0, at most 3600")
                               : TOOL_DONE;
        }
        fprintf(stderr, "npu-matmul: see npu-matmul --help\n");         /* getopt has named the option */
        return TOOL_REQUEST;
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                int (*run)(const struct tool *tool);
        } commands[] = {{"list", tool_list}, {"test", tool_test}, {"bench", tool_bench}};
        struct tool tool = {.seed = 1, .seconds = 0.3};
        int option, status = TOOL_DONE;

#ifdef HAVE_PROBE
        if (argc > 1 && !strcmp(argv[1], "probe"))
                return probe_main(argc - 1, argv + 1);
#endif
        while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                if (option == HELP) {
                        fputs(usage, stdout);
                        return TOOL_DONE;
                }
                status = take(&tool, option, optarg);
                if (status)
                        return status;
        }
        if (optind + 1 != argc) {
                fprintf(stderr, "npu-matmul: error: expected one command, found %d; see npu-matmul --help\n",
                        argc - optind);
                return TOOL_REQUEST;
        }
        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
                if (!strcmp(commands[i].name, argv[optind])) {
                        stop_on_signals();
                        return commands[i].run(&tool);
                }
        fprintf(stderr, "npu-matmul: error: no command '%s': expected list, test, bench or probe\n", argv[optind]);
        return TOOL_REQUEST;
}
