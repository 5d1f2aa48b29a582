/* SPDX-License-Identifier: MIT
 *
 * llama-run: tokens from a llama2.c checkpoint, by the processor or by an NPU.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "stop.h"

static int open_npu(const struct options *o, struct engine *e, struct fault *fault)
{
        static const char *const automatic[] = {"rocket", "rknpu", "axengine", NULL};
        const char *const given[] = {o->backend, NULL};
        const char *const *names = strcmp(o->backend, "auto") ? given : automatic;
        struct nm_error why = {""};
        int status = NM_NO_DEVICE;

        if (!strcmp(o->backend, "cpu"))
                return 0;
        for (; *names && status; names++)
                status = nm_open(&(struct nm_options){.backend = *names, .threads = o->threads}, &e->npu, &why);
        if (!status || (names != given + 1 && status == NM_NO_DEVICE))
                return 0;
        return fault_set(fault, status == NM_INVALID ? FAULT_REQUEST : FAULT_HOST,
                         "--backend %s: %s (%s): --backend cpu needs no device", o->backend, why.text,
                         nm_status_name(status));
}

static int open_engine(const struct options *o, const struct checkpoint *c, struct engine *e, struct fault *fault)
{
        int status;

        e->kernels = kernels_choose();
        if (!e->kernels)
                return fault_set(fault, FAULT_REQUEST, "LLAMA_KERNELS: '%s' is none that runs on this processor",
                                 getenv("LLAMA_KERNELS"));
        e->pool = pool_open(o->threads);
        if (!e->pool)
                return fault_set(fault, FAULT_HOST, "no memory for threads");
        status = open_npu(o, e, fault);
        if (status)
                return status;
        if (o->weights >= 0)
                e->weights = (enum weights)o->weights;
        else
                e->weights = e->npu ? WEIGHTS_FP16 : c->version ? WEIGHTS_INT8 : WEIGHTS_FP32;
        if (e->npu && e->weights == WEIGHTS_FP32)
                return fault_set(
                        fault, FAULT_REQUEST,
                        "--weights fp32 with the NPU back end %s, expected fp16 or int8: or take --backend cpu",
                        nm_info(e->npu)->backend);
        return 0;
}

struct program {
        struct options options;
        struct checkpoint checkpoint;
        struct engine engine;
        struct tokenizer tokenizer;
        struct sampler sampler;
        struct model model;
        struct session session;
};

static int open_all(struct program *p, struct fault *fault)
{
        struct options *o = &p->options;
        struct session *s = &p->session;
        double start = seconds_now();
        size_t longest;
        int status = checkpoint_open(o->checkpoint, &p->checkpoint, fault);

        if (status)
                return status;
        longest = p->checkpoint.shape.sequence;
        if (o->context && o->context < longest)
                longest = o->context;
        s->steps = o->steps && o->steps < longest ? o->steps : longest;
        status = tokenizer_open(o->tokenizer, p->checkpoint.shape.vocab, &p->tokenizer, fault);
        if (!status)
                status = open_engine(o, &p->checkpoint, &p->engine, fault);
        if (!status)
                status = model_open(&p->model, &p->engine, &p->checkpoint, o->context ? longest : s->steps, fault);
        if (status)
                return status;
        s->tokens = calloc(s->steps + 2, sizeof(int));
        if (!s->tokens || sampler_open(&p->sampler, p->checkpoint.shape.vocab, o->temperature, o->top_p, o->seed,
                                       p->engine.kernels->softmax))
                return fault_set(fault, FAULT_HOST, "no memory for %zu tokens", s->steps);
        if (o->logits) {
                s->logits = fopen(o->logits, "wb");
                if (!s->logits)
                        return fault_set(fault, FAULT_REQUEST, "%s: %s, expected a place for the logits", o->logits,
                                         strerror(errno));
        }
        s->model = &p->model;
        s->tokenizer = &p->tokenizer;
        s->sampler = &p->sampler;
        s->stop = &stop_asked;
        s->text = o->json && !strcmp(o->json, "-") ? NULL : stdout;
        s->load_seconds = seconds_now() - start;
        return 0;
}

static int run(struct program *p, struct fault *fault)
{
        struct session *s = &p->session;
        struct report report = {.options = &p->options,
                                .session = s,
                                .engine = &p->engine,
                                .checkpoint = &p->checkpoint,
                                .npu = p->engine.npu ? nm_info(p->engine.npu) : NULL};
        int status = p->options.chat ? session_chat(s, p->options.prompt, p->options.system_prompt, fault)
                                     : session_generate(s, p->options.prompt, fault);

        if (status)
                return status;
        report.outcome = stop_asked ? "interrupted" : "done";
        report_rates(&report, stderr);
        if (s->logits) {
                int failed = fclose(s->logits);

                s->logits = NULL;
                if (failed)
                        return fault_set(fault, FAULT_HOST, "the file of logits cannot be written: %s",
                                         strerror(errno));
        }
        if (p->options.json)
                status = report_json(&report, p->options.json, fault);
        return status ? status : stop_asked ? STOP_STATUS : 0;
}

static void close_all(struct program *p)
{
        if (p->session.logits)
                fclose(p->session.logits);
        free(p->session.tokens);
        sampler_close(&p->sampler);
        model_close(&p->model);
        nm_close(p->engine.npu);
        pool_close(p->engine.pool);
        tokenizer_close(&p->tokenizer);
        checkpoint_close(&p->checkpoint);
}

int main(int argc, char **argv)
{
        static struct program program;
        struct fault fault = {0};
        int status = options_read(argc, argv, &program.options, &fault);

        if (program.options.help) {
                options_usage();
                return 0;
        }
        stop_on_signals();
        if (!status)
                status = open_all(&program, &fault);
        if (!status)
                status = run(&program, &fault);
        if (fault.status)
                fprintf(stderr, "llama-run: %s\n", fault.text);
        close_all(&program);
        return status;
}
