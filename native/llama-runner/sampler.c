/* SPDX-License-Identifier: MIT */
#include "sampler.h"

#include <stdbool.h>
#include <stdlib.h>

int sampler_open(struct sampler *s, size_t count, float temperature, float top_p, uint64_t seed,
                 float (*softmax)(float *values, size_t count))
{
        *s = (struct sampler){
                .count = count, .temperature = temperature, .top_p = top_p, .state = seed, .softmax = softmax};
        s->candidates = malloc(count * sizeof(*s->candidates));
        return s->candidates ? 0 : -1;
}

void sampler_close(struct sampler *s)
{
        free(s->candidates);
        s->candidates = NULL;
}

/* xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled"); 24 bits of it. */
static float coin(uint64_t *state)
{
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        return (float)((uint32_t)(*state * UINT64_C(0x2545F4914F6CDD1D) >> 32) >> 8) / 16777216.0f;
}

static int largest(const float *values, size_t count)
{
        size_t best = 0;

        for (size_t i = 1; i < count; i++)
                if (values[i] > values[best])
                        best = i;
        return (int)best;
}

static int from_all(const float *p, size_t count, float where)
{
        float sum = 0;

        for (size_t i = 0; i < count; i++) {
                sum += p[i];
                if (where < sum)
                        return (int)i;
        }
        return (int)count - 1;
}

static bool before(const struct candidate *a, const struct candidate *b)
{
        return a->probability > b->probability || (a->probability == b->probability && a->token < b->token);
}

static void sift(struct candidate *heap, size_t count, size_t at)
{
        struct candidate moving = heap[at];
        size_t child;

        for (; (child = 2 * at + 1) < count; at = child) {
                if (child + 1 < count && before(&heap[child + 1], &heap[child]))
                        child++;
                if (!before(&heap[child], &moving))
                        break;
                heap[at] = heap[child];
        }
        heap[at] = moving;
}

/* The likeliest tokens come off a heap until they sum to top_p: most of the vocabulary is never sorted. They gather at
 * the heap's free end, in falling order from the array's last element down. */
static int from_top(struct sampler *s, const float *p, float where)
{
        const float cutoff = (1.0f - s->top_p) / (float)(s->count - 1);        /* less can never be among them */
        struct candidate *heap = s->candidates;
        size_t count = 0, left;
        float sum = 0, reached = 0;

        for (size_t i = 0; i < s->count; i++)
                if (p[i] >= cutoff)
                        heap[count++] = (struct candidate){p[i], (int)i};
        if (!count)
                return largest(p, s->count);
        for (size_t i = count / 2; i-- > 0;)
                sift(heap, count, i);
        for (left = count; left && !(sum > s->top_p);) {
                struct candidate top = heap[0];

                heap[0] = heap[--left];
                heap[left] = top;
                sift(heap, left, 0);
                sum += top.probability;
        }
        for (size_t i = count; i-- > left;) {
                reached += heap[i].probability;
                if (where * sum < reached)
                        return heap[i].token;
        }
        return heap[left].token;
}

int sampler_next(struct sampler *s, float *logits)
{
        float where;

        if (s->temperature == 0.0f)
                return largest(logits, s->count);
        for (size_t i = 0; i < s->count; i++)
                logits[i] /= s->temperature;
        s->softmax(logits, s->count);
        where = coin(&s->state);
        if (s->top_p <= 0 || s->top_p >= 1 || s->count == 1)
                return from_all(logits, s->count, where);
        return from_top(s, logits, where);
}
