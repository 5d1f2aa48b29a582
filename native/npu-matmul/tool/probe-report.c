/* SPDX-License-Identifier: MIT */
#include <string.h>

#include "probe.h"

static const char *verdict(bool a, bool b)
{
        return a && b ? "both hold"
               : a    ? "claim A holds, B does not"
               : b    ? "claim B holds, A does not"
                      : "neither holds";
}

struct line {
        const char *id, *question, *answer;
};

static size_t answers(const struct probe *probe, const struct probe_verdicts *hold, struct line lines[8])
{
        const bool vendor = !strcmp(probe->info.backend, "rknpu");
        size_t count = 0;

        lines[count++] = (struct line){ "C1", "fewer than 4 rows as given (A) or padded to 4 (B)",
                                        verdict(hold->rows[NM_ROWS_AS_GIVEN], hold->rows[NM_ROWS_PADDED]) };
        lines[count++] = (struct line){ "C2", "without RDMA words, 0xD (A) or with them, 0x1D (B)",
                                        verdict(hold->rdma[NM_RDMA_OFF], hold->rdma[NM_RDMA_ON]) };
        lines[count++] = (struct line){ "C3", "int8 banks exact (A) or one more (B)",
                                        verdict(hold->banks[NM_BANKS_EXACT], hold->banks[NM_BANKS_SPARE]) };
        lines[count++] = (struct line){ "mrdma", "register 0x5044 may stay 0", hold->mrdma_zero ? "yes" : "no" };
        lines[count++] = (struct line){ "C8", "qd_en may be set for int8", hold->int8_qd ? "yes" : "no" };
        lines[count++] =
                (struct line){ "grains", "feature grains may be other than M + 1", hold->grains ? "yes" : "no" };
        if (vendor)
                lines[count++] =
                        (struct line){ "chain", "fp16 lists may be chained in one kick (NPU_MATMUL_RKNPU_CHAIN=1)",
                                       hold->chain ? "yes" : "no" };
        return count;
}

static void print_switches(FILE *out, const struct nm_switches *s)
{
        static const char *const rdma[] = { "auto", "off", "on" };

        fprintf(out, "{\"rows\": \"%s\", \"rdma\": \"%s\", \"int8_banks\": \"%s\", \"mrdma\": \"%s\", \"grains\": %u, "
                "\"int8_qd\": %s}", s->rows == NM_ROWS_PADDED ? "padded" : "given", rdma[s->rdma],
                s->int8_banks == NM_BANKS_EXACT ? "exact" : "spare", s->mrdma == NM_MRDMA_ZERO ? "zero" : "disabled",
                s->grains, s->int8_qd ? "true" : "false");
}

static void pair(FILE *out, const char *name, const char *text, const char *after)
{
        fprintf(out, "\"%s\": ", name);
        probe_quote(out, text);
        fputs(after, out);
}

void probe_json(FILE *out, const struct probe *probe, const struct probe_verdicts *hold, const struct nm_switches *best)
{
        static const char *const types[] = { "fp16-fp32", "fp16-fp16", "int8-int32" };
        struct line lines[8];
        const size_t count = answers(probe, hold, lines);

        fputs("{\n  \"format\": 1,\n", out);
        probe_board(out);
        fputs("  \"npu\": {", out);
        pair(out, "backend", probe->info.backend, ", ");
        pair(out, "device", probe->info.device, ", ");
        pair(out, "driver", probe->info.driver, ", ");
        pair(out, "evidence", probe->info.evidence, "},\n  \"experiments\": [");
        for (size_t i = 0; i < probe->count; i++) {
                const struct probe_experiment *one = &probe->experiments[i];

                fputs(i ? ",\n    {" : "\n    {", out);
                pair(out, "name", one->name, ", ");
                pair(out, "outcome", probe_outcome_name(one->result.outcome), ", ");
                pair(out, "seen", one->result.text, ", ");
                fprintf(out, "\"seconds\": %.6f, \"rounds\": %u, \"chain\": %s, \"switches\": ", one->result.seconds,
                        one->rounds, one->chain ? "true" : "false");
                print_switches(out, &one->switches);
                fputs(", \"shapes\": [", out);
                for (size_t j = 0; j < one->shape_count; j++)
                        fprintf(out, "%s[\"%s\", %zu, %zu, %zu]", j ? ", " : "", types[one->shapes[j].type],
                                one->shapes[j].m, one->shapes[j].k, one->shapes[j].n);
                fputs("]}", out);
        }
        fputs("\n  ],\n  \"verdicts\": {", out);
        for (size_t i = 0; best && i < count; i++) {
                fputs(i ? ",\n    " : "\n    ", out);
                pair(out, lines[i].id, lines[i].answer, "");
        }
        fputs("\n  },\n  \"recommended\": ", out);
        if (best)
                print_switches(out, best);
        else
                fputs("null", out);
        fprintf(out, ",\n  \"complete\": %s\n}\n", best && !probe->stuck ? "true" : "false");
}

void probe_answers(const struct probe *probe, const struct probe_verdicts *hold, const struct nm_switches *best)
{
        struct line lines[8];
        const size_t count = answers(probe, hold, lines);

        printf("\n");
        for (size_t i = 0; i < count; i++)
                printf("%-7s %-60s %s\n", lines[i].id, lines[i].question, lines[i].answer);
        printf("\nrecommended switches (%s): ", probe->info.evidence);
        print_switches(stdout, best);
        printf("\nas options: --rows %s --rdma %s --int8-banks %s\n", best->rows == NM_ROWS_PADDED ? "padded" : "given",
               best->rdma == NM_RDMA_AUTO ? "auto" : best->rdma == NM_RDMA_ON ? "on" : "off",
               best->int8_banks == NM_BANKS_EXACT ? "exact" : "spare");
}
