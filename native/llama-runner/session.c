/* SPDX-License-Identifier: MIT */
#include "session.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double seconds_now(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* As llama2.c: a lone byte that is neither printable nor space is left out. */
static void show(const struct session *s, int previous, int token)
{
        char single[1];
        size_t length;
        const char *text = tokenizer_decode(s->tokenizer, previous, token, single, &length);
        unsigned char first = length ? (unsigned char)text[0] : 0;

        if (!s->text || (length == 1 && !isprint(first) && !isspace(first)))
                return;
        fwrite(text, 1, length, s->text);
        fflush(s->text);
}

/* Runs tokens[position .. end) through the model in batches; the logits are those after the last. */
static int run_prompt(struct session *s, size_t position, size_t end, int want_logits, struct fault *fault)
{
        int status = 0;

        while (position < end && !status && !*s->stop) {
                size_t count = end - position < BATCH ? end - position : BATCH;

                status = model_forward(s->model, s->tokens + position, count, position,
                                       want_logits && position + count == end, fault);
                position += count;
                s->prompt_tokens += count;
        }
        return status;
}

static int pick(struct session *s, int *next, struct fault *fault)
{
        float *logits = s->model->logits;
        size_t count = s->sampler->count;

        if (s->logits && fwrite(logits, sizeof(float), count, s->logits) != count)
                return fault_set(fault, FAULT_HOST, "the file of logits cannot be written");
        for (size_t i = 0; i < count; i++)
                if (logits[i] != logits[i])
                        return fault_set(fault, FAULT_PRODUCT,
                                         "logit %zu is not a number, expected finite ones: damaged weights, or "
                                         "activations beyond fp16",
                                         i);
        *next = sampler_next(s->sampler, logits);
        return 0;
}

/* One token further: samples after tokens[count - 1], and stores what was sampled. */
static int extend(struct session *s, struct fault *fault)
{
        int status = pick(s, &s->tokens[s->count], fault);

        if (!status)
                s->count++;
        return status;
}

int session_generate(struct session *s, const char *prompt, struct fault *fault)
{
        double start = seconds_now(), first_pass = 0, generation = 0;
        size_t given, passed, first_passed;
        int *encoded = tokenizer_encode(s->tokenizer, prompt ? prompt : "", &given), status;

        if (!encoded)
                return fault_set(fault, FAULT_HOST, "no memory for the prompt's tokens");
        if (given > s->steps)
                given = s->steps;
        memcpy(s->tokens, encoded, given * sizeof(int));
        free(encoded);
        s->count = passed = given;
        for (size_t i = 1; i < given; i++)
                show(s, s->tokens[i - 1], s->tokens[i]);
        first_passed = passed < BATCH ? passed : BATCH;
        status = run_prompt(s, 0, first_passed, first_passed == passed, fault);
        first_pass = seconds_now();
        if (!status && first_passed < passed)
                status = run_prompt(s, first_passed, passed, 1, fault);
        s->prompt_seconds = seconds_now() - start;
        while (!status && !*s->stop) {
                status = extend(s, fault);
                if (status || s->tokens[s->count - 1] == TOKEN_BEGIN)
                        break;
                s->generated_tokens++;
                show(s, s->tokens[s->count - 2], s->tokens[s->count - 1]);
                if (!generation) {
                        generation = seconds_now();
                        s->first_token_seconds = generation - start;
                }
                if (passed == s->steps)
                        break;
                status = model_forward(s->model, s->tokens + passed, 1, passed, 1, fault);
                passed++;
        }
        if (generation)
                s->generation_seconds = seconds_now() - generation;
        s->timed_tokens = passed - first_passed;
        s->timed_seconds = seconds_now() - first_pass;
        if (s->text)
                fputc('\n', s->text);
        return status;
}

static char *ask(const char *question)
{
        char *line = NULL;
        size_t room = 0;
        ssize_t length;

        fputs(question, stdout);
        fflush(stdout);
        length = getline(&line, &room, stdin);
        if (length < 0) {
                free(line);
                return NULL;
        }
        if (length && line[length - 1] == '\n')
                line[length - 1] = 0;
        return line;
}

/* Llama 2's chat form; run.c: chat. */
static char *render(const char *system, const char *user)
{
        size_t room = strlen(system) + strlen(user) + 64;
        char *text = malloc(room);

        if (text && *system)
                snprintf(text, room, "[INST] <<SYS>>\n%s\n<</SYS>>\n\n%s [/INST]", system, user);
        else if (text)
                snprintf(text, room, "[INST] %s [/INST]", user);
        return text;
}

/* The user's turn, appended to the tokens. Returns the number appended, 0 at the end of input or of room, -1 without
 * memory. */
static int user_turn(struct session *s, const char *prompt, const char *system_prompt)
{
        int first = s->count == 0, appended = -1, *tokens = NULL;
        char *system = first && !system_prompt ? ask("Enter system prompt (optional): ")
                                               : strdup(first && system_prompt ? system_prompt : "");
        char *user = first && prompt ? strdup(prompt) : ask("User: ");
        char *text = user ? render(system ? system : "", user) : NULL;
        size_t count = 0;

        if (!user)
                appended = 0;
        else if (text)
                tokens = tokenizer_encode(s->tokenizer, text, &count);
        if (tokens) {
                if (count > s->steps - s->count)
                        count = s->steps - s->count;
                memcpy(s->tokens + s->count, tokens, count * sizeof(int));
                s->count += count;
                appended = (int)count;
        }
        free(tokens);
        free(text);
        free(user);
        free(system);
        return appended;
}

int session_chat(struct session *s, const char *prompt, const char *system_prompt, struct fault *fault)
{
        int status = 0;

        while (!status && !*s->stop && s->count < s->steps) {
                double start, spoken;
                size_t passed = s->count;
                int appended = user_turn(s, prompt, system_prompt);

                if (appended < 0)
                        return fault_set(fault, FAULT_HOST, "no memory for the turn's tokens");
                if (!appended)
                        break;
                fputs("Assistant: ", stdout);
                fflush(stdout);
                start = seconds_now();
                status = run_prompt(s, passed, s->count, 1, fault);
                passed = s->count;
                s->prompt_seconds += seconds_now() - start;
                spoken = seconds_now();
                while (!status && !*s->stop) {
                        status = extend(s, fault);
                        if (status || s->tokens[s->count - 1] == TOKEN_END || passed == s->steps)
                                break;
                        s->generated_tokens++;
                        show(s, s->tokens[s->count - 2], s->tokens[s->count - 1]);
                        if (!s->first_token_seconds)
                                s->first_token_seconds = seconds_now() - start;
                        status = model_forward(s->model, s->tokens + passed, 1, passed, 1, fault);
                        passed++;
                }
                /* The token that ends a turn is part of the conversation that the next one continues. */
                if (!status && passed < s->steps && s->tokens[s->count - 1] == TOKEN_END)
                        status = model_forward(s->model, s->tokens + passed, 1, passed, 0, fault);
                s->generation_seconds += seconds_now() - spoken;
                putchar('\n');
        }
        s->timed_tokens = s->generated_tokens;
        s->timed_seconds = s->generation_seconds;
        return status;
}
