/* SPDX-License-Identifier: MIT */
#include "kernels.h"

#include <math.h>
#include <string.h>

#include "products.h"
#include "vector.h"

/* e^x by 2^n · e^r, |r| <= ln 2 / 2, r in two steps (Cody and Waite), Taylor to the 7th: within 2 units of the last
 * place. */
INLINE vf exponential(vf x)
{
        const vf round = all(0x1.8p23f);
        vf n, r, e;

        x = bigger(x, all(-87.0f));
        x = -bigger(-x, all(-88.0f));
        n = (x * 1.44269504f + round) - round;
        r = x - n * 0.693359375f;
        r = r - n * -2.12194440e-4f;
        e = all(1.0f / 5040);
        e = e * r + 1.0f / 720;
        e = e * r + 1.0f / 120;
        e = e * r + 1.0f / 24;
        e = e * r + 1.0f / 6;
        e = e * r + 0.5f;
        e = e * r + 1.0f;
        e = e * r + 1.0f;
        return e * (vf)((__builtin_convertvector(n, vi) + 127) << 23);
}

/* Works on `count` values by whole vectors, the last through a copy that is filled with `fill`. */
#define FOR_VECTORS(count, fill, from, value, work, keep) \
        do { \
                size_t at_ = 0; \
                for (; at_ + V <= (count); at_ += V) { \
                        vf value = load((from) + at_); \
                        work; \
                        if (keep) \
                                store((from) + at_, value); \
                } \
                if (at_ < (count)) { \
                        float rest_[V]; \
                        for (size_t i_ = 0; i_ < V; i_++) \
                                rest_[i_] = at_ + i_ < (count) ? (from)[at_ + i_] : (fill); \
                        vf value = load(rest_); \
                        work; \
                        store(rest_, value); \
                        for (size_t i_ = 0; (keep) && at_ + i_ < (count); i_++) \
                                (from)[at_ + i_] = rest_[i_]; \
                } \
        } while (0)

static float softmax(float *values, size_t count)
{
        vf top = all(-INFINITY), total = all(0);
        float most, whole;

        FOR_VECTORS(count, -INFINITY, values, v, top = bigger(top, v), 0);
        most = top[0];
        for (int i = 1; i < V; i++)
                most = top[i] > most ? top[i] : most;
        /* What fills the last vector is far below: e^-87 beside a sum of 1 or more is nothing. */
        FOR_VECTORS(count, -INFINITY, values, v, (v = exponential(v - most), total += v), 1);
        whole = sum(total);
        FOR_VECTORS(count, 0.0f, values, v, v = v * (1.0f / whole), 1);
        return whole;
}

static float largest(const float *values, size_t count)
{
        float most = 0;
        size_t i = 0;
        vf top = all(0);

        for (; i + V <= count; i += V)
                top = bigger(top, bigger(load(values + i), -load(values + i)));
        for (int lane = 0; lane < V; lane++)
                most = top[lane] > most ? top[lane] : most;
        for (; i < count; i++)
                most = fabsf(values[i]) > most ? fabsf(values[i]) : most;
        return most;
}

static void norm(float *to, const float *x, const float *weights, size_t count)
{
        vf total = all(0);
        float rest = 0, scale;
        size_t i = 0;

        for (; i + V <= count; i += V)
                total += load(x + i) * load(x + i);
        for (; i < count; i++)
                rest += x[i] * x[i];
        scale = 1.0f / sqrtf((sum(total) + rest) / (float)count + 1e-5f);
        for (i = 0; i + V <= count; i += V)
                store(to + i, load(weights + i) * (load(x + i) * scale));
        for (; i < count; i++)
                to[i] = weights[i] * (scale * x[i]);
}

static void gate(float *to, const float *up, size_t count)
{
        size_t i = 0;

        for (; i + V <= count; i += V) {
                vf v = load(to + i);

                store(to + i, v / (1.0f + exponential(-v)) * load(up + i));
        }
        for (; i < count; i++)
                to[i] = to[i] / (1.0f + expf(-to[i])) * up[i];
}

static void quantize(int8_t *to, const float *x, float inverse, size_t count)
{
        /* llama2.c rounds halves away from zero; lrintf would round them to even. */
        for (size_t i = 0; i < count; i++) {
                float v = x[i] * inverse;

                to[i] = (int8_t)(v + (v < 0 ? -0.5f : 0.5f));
        }
}

/* out = Σ weights[t] · values[t], `width` vectors of it at once. */
INLINE void mix(float *out, const float *weights, const float *values, size_t length, size_t stride, int width)
{
        vf acc[8] = {0};

        for (size_t t = 0; t < length; t++, values += stride)
                for (int i = 0; i < width; i++)
                        acc[i] += load(values + i * V) * weights[t];
        for (int i = 0; i < width; i++)
                store(out + i * V, acc[i]);
}

static void attend(const struct attention *a)
{
        float *q = a->scratch, *out = q + a->head_padded, *scores = out + a->head_padded;
        const float scale = 1.0f / sqrtf((float)a->head);

        memset(q, 0, a->head_padded * sizeof(float));
        for (size_t query = 0; query < a->queries; query++) {
                size_t at;

                for (size_t i = 0; i < a->head; i++)
                        q[i] = a->q[query * a->head + i] * scale;
                for (size_t t = 0; t < a->length; t += 4) {
                        const float *k = a->keys + t * a->head_padded;
                        vf s0 = all(0), s1 = s0, s2 = s0, s3 = s0;

                        /* The cache has room for four rows at its end: what lies past `length` is not used. */
                        for (size_t i = 0; i < a->head_padded; i += V) {
                                vf x = load(q + i);

                                s0 += load(k + i) * x;
                                s1 += load(k + a->head_padded + i) * x;
                                s2 += load(k + 2 * a->head_padded + i) * x;
                                s3 += load(k + 3 * a->head_padded + i) * x;
                        }
                        scores[t] = sum(s0);
                        scores[t + 1] = sum(s1);
                        scores[t + 2] = sum(s2);
                        scores[t + 3] = sum(s3);
                }
                softmax(scores, a->length);
                for (at = 0; at + 8 * V <= a->head_padded; at += 8 * V)
                        mix(out + at, scores, a->values + at, a->length, a->head_padded, 8);
                for (; at + 4 * V <= a->head_padded; at += 4 * V)
                        mix(out + at, scores, a->values + at, a->length, a->head_padded, 4);
                for (; at < a->head_padded; at += V)
                        mix(out + at, scores, a->values + at, a->length, a->head_padded, 1);
                memcpy(a->out + query * a->head, out, a->head * sizeof(float));
        }
}

const struct kernels KERNELS = {
        .name = KERNELS_NAME,
        .fp32 = product_fp32,
        .fp16 = product_fp16,
        .int8 = product_int8,
        .attend = attend,
        .norm = norm,
        .gate = gate,
        .softmax = softmax,
        .largest = largest,
        .quantize = quantize,
};
