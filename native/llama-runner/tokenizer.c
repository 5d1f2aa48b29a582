/* SPDX-License-Identifier: MIT */
#include "tokenizer.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES (64u << 20)
#define WORST_SCORE (-1e10f)    /* pairs below are never merged; run.c */
#define FIRST_BYTE 3            /* the piece of byte 0, after <unk>, <s> and </s> */

static uint32_t hash(const char *text, size_t length, uint32_t state)
{
        for (size_t i = 0; i < length; i++)
                state = (state ^ (uint8_t)text[i]) * 16777619u;        /* FNV-1a */
        return state;
}

#define HASH_START 2166136261u

/* The piece that reads as `a` followed by `b`, or -1. */
static int find(const struct tokenizer *t, const char *a, size_t a_length, const char *b, size_t b_length)
{
        size_t slot = hash(b, b_length, hash(a, a_length, HASH_START)) & (t->slot_count - 1);

        for (; t->slots[slot]; slot = (slot + 1) & (t->slot_count - 1)) {
                const struct piece *p = &t->pieces[t->slots[slot] - 1];

                if (p->length == a_length + b_length && !memcmp(p->text, a, a_length) &&
                    !memcmp(p->text + a_length, b, b_length))
                        return (int)(t->slots[slot] - 1);
        }
        return -1;
}

static void insert(struct tokenizer *t, uint32_t index)
{
        const struct piece *p = &t->pieces[index];
        size_t slot = hash(p->text, p->length, HASH_START) & (t->slot_count - 1);

        if (find(t, p->text, p->length, "", 0) >= 0)
                return;                                         /* of equal pieces the first counts */
        while (t->slots[slot])
                slot = (slot + 1) & (t->slot_count - 1);
        t->slots[slot] = index + 1;
}

static int read_pieces(struct tokenizer *t, size_t size, const char *name, struct fault *fault)
{
        size_t at = 4;                                          /* past max_token_length, which nothing here needs */

        for (size_t i = 0; i < t->count; i++) {
                struct piece *p = &t->pieces[i];
                int32_t length;

                if (size - at < 8)
                        return fault_set(fault, FAULT_REQUEST,
                                         "%s: ends after %zu pieces, expected %zu, the checkpoint's vocab_size: give "
                                         "its own tokenizer with -z",
                                         name, i, t->count);
                memcpy(&p->score, t->bytes + at, 4);
                memcpy(&length, t->bytes + at + 4, 4);
                at += 8;
                if (!isfinite(p->score))
                        return fault_set(fault, FAULT_REQUEST, "%s: score of piece %zu is %f, expected a finite number",
                                         name, i, (double)p->score);
                if (length < 0 || (size_t)length > size - at)
                        return fault_set(fault, FAULT_REQUEST,
                                         "%s: length of piece %zu is %d, expected 0 to %zu, what is left of the file",
                                         name, i, length, size - at);
                p->text = t->bytes + at;
                p->length = (uint32_t)length;
                at += (size_t)length;
        }
        if (at != size)
                return fault_set(fault, FAULT_REQUEST,
                                 "%s: holds %zu bytes after %zu pieces, expected none, by the checkpoint's vocab_size: "
                                 "give its own tokenizer with -z",
                                 name, size - at, t->count);
        return 0;
}

int tokenizer_parse(const void *bytes, size_t size, const char *name, size_t count, struct tokenizer *t,
                    struct fault *fault)
{
        int status;

        memset(t, 0, sizeof(*t));
        if (size < 4 || size > MOST_BYTES)
                return fault_set(fault, FAULT_REQUEST,
                                 "%s: size is %zu bytes, expected 4 to %u of a llama2.c tokenizer", name, size,
                                 MOST_BYTES);
        if (count > size / 8)
                return fault_set(fault, FAULT_REQUEST,
                                 "%s: %zu bytes cannot hold %zu pieces, the checkpoint's vocab_size: give its own "
                                 "tokenizer with -z",
                                 name, size, count);
        t->count = count;
        for (t->slot_count = 16; t->slot_count < 2 * count; t->slot_count *= 2)
                ;
        t->bytes = malloc(size);
        t->pieces = calloc(count + 1, sizeof(*t->pieces));
        t->slots = calloc(t->slot_count, sizeof(*t->slots));
        if (!t->bytes || !t->pieces || !t->slots) {
                tokenizer_close(t);
                return fault_set(fault, FAULT_HOST, "%s: no memory for %zu pieces", name, count);
        }
        memcpy(t->bytes, bytes, size);
        status = read_pieces(t, size, name, fault);
        if (status) {
                tokenizer_close(t);
                return status;
        }
        for (size_t i = 0; i < count; i++)
                insert(t, (uint32_t)i);
        return 0;
}

int tokenizer_open(const char *path, size_t count, struct tokenizer *t, struct fault *fault)
{
        FILE *file = fopen(path, "rb");
        size_t size = 0, room = 1 << 20;
        char *bytes = malloc(room);
        int status;

        memset(t, 0, sizeof(*t));
        if (!file) {
                free(bytes);
                return fault_set(fault, FAULT_REQUEST, "%s: %s, expected a llama2.c tokenizer: -z names it", path,
                                 strerror(errno));
        }
        while (bytes) {
                size += fread(bytes + size, 1, room - size, file);
                if (size < room || size > MOST_BYTES)
                        break;
                room *= 2;
                char *more = realloc(bytes, room);
                if (!more)
                        free(bytes);
                bytes = more;
        }
        status = bytes && ferror(file)
                         ? fault_set(fault, FAULT_REQUEST, "%s: cannot be read: %s", path, strerror(errno))
                         : 0;
        fclose(file);
        if (!bytes)
                return fault_set(fault, FAULT_HOST, "%s: no memory", path);
        if (!status)
                status = tokenizer_parse(bytes, size, path, count, t, fault);
        free(bytes);
        return status;
}

void tokenizer_close(struct tokenizer *t)
{
        free(t->bytes);
        free(t->pieces);
        free(t->slots);
        memset(t, 0, sizeof(*t));
}

/* Tokens in a doubly linked list by index, and a heap of the pairs that could be merged; pairs gone stale stay in it.
 */
struct pair {
        float score;
        int left, right;        /* indices; the left one is the place in the text */
        int left_token, right_token, merged;
};

struct merger {
        const struct tokenizer *t;
        int *tokens, *next, *previous;
        struct pair *heap;
        size_t pairs;
};

static bool before(const struct pair *a, const struct pair *b)
{
        return a->score > b->score || (a->score == b->score && a->left < b->left);
}

static void heap_push(struct merger *m, struct pair pair)
{
        size_t at = m->pairs++;

        for (; at && before(&pair, &m->heap[(at - 1) / 2]); at = (at - 1) / 2)
                m->heap[at] = m->heap[(at - 1) / 2];
        m->heap[at] = pair;
}

static struct pair heap_pop(struct merger *m)
{
        struct pair top = m->heap[0], last = m->heap[--m->pairs];
        size_t at = 0, child;

        for (; (child = 2 * at + 1) < m->pairs; at = child) {
                if (child + 1 < m->pairs && before(&m->heap[child + 1], &m->heap[child]))
                        child++;
                if (!before(&m->heap[child], &last))
                        break;
                m->heap[at] = m->heap[child];
        }
        m->heap[at] = last;
        return top;
}

static void consider(struct merger *m, int left, int right)
{
        const struct piece *a, *b;
        int merged;

        if (left < 0 || right < 0)
                return;
        a = &m->t->pieces[m->tokens[left]];
        b = &m->t->pieces[m->tokens[right]];
        merged = find(m->t, a->text, a->length, b->text, b->length);
        if (merged >= 0 && m->t->pieces[merged].score > WORST_SCORE)
                heap_push(m, (struct pair){m->t->pieces[merged].score, left, right, m->tokens[left], m->tokens[right],
                                           merged});
}

static void merge(struct merger *m, int count)
{
        for (int i = 0; i + 1 < count; i++)
                consider(m, i, i + 1);
        while (m->pairs) {
                struct pair p = heap_pop(m);

                if (m->tokens[p.left] != p.left_token || m->next[p.left] != p.right ||
                    m->tokens[p.right] != p.right_token)
                        continue;
                m->tokens[p.left] = p.merged;
                m->tokens[p.right] = -1;
                m->next[p.left] = m->next[p.right];
                if (m->next[p.left] >= 0)
                        m->previous[m->next[p.left]] = p.left;
                consider(m, m->previous[p.left], p.left);
                consider(m, p.left, m->next[p.left]);
        }
}

/* One token a code point that is a piece, else one a byte. A code point ends where no continuation byte follows, and
 * after four bytes. */
static int first_tokens(const struct tokenizer *t, const char *text, int *tokens)
{
        int count = 0, space = find(t, " ", 1, "", 0);

        if (*text && space >= 0)
                tokens[count++] = space;
        while (*text) {
                size_t length = 1;
                int id;

                while (length < 4 && ((uint8_t)text[length] & 0xC0) == 0x80)
                        length++;
                id = find(t, text, length, "", 0);
                if (id >= 0)
                        tokens[count++] = id;
                for (size_t i = 0; id < 0 && i < length; i++) {
                        size_t byte = (uint8_t)text[i] + FIRST_BYTE;

                        tokens[count++] = byte < t->count ? (int)byte : 0;
                }
                text += length;
        }
        return count;
}

int *tokenizer_encode(const struct tokenizer *t, const char *text, size_t *count)
{
        size_t most = strlen(text) + 2, done = 0;
        int *tokens = malloc(3 * most * sizeof(int)), first;
        struct merger m = {.t = t, .tokens = tokens, .next = tokens + most, .previous = tokens + 2 * most};

        m.heap = malloc(3 * most * sizeof(*m.heap)); /* most - 1 at first, two for each of most - 1 merges */
        if (!tokens || !m.heap) {
                free(tokens);
                free(m.heap);
                return NULL;
        }
        first = first_tokens(t, text, tokens);
        for (int i = 0; i < first; i++) {
                m.next[i] = i + 1 < first ? i + 1 : -1;
                m.previous[i] = i - 1;
        }
        merge(&m, first);
        free(m.heap);
        /* The links backwards are not needed any more: the tokens gather there, behind TOKEN_BEGIN. */
        m.previous[done++] = TOKEN_BEGIN;
        for (int i = first ? 0 : -1; i >= 0; i = m.next[i])
                m.previous[done++] = tokens[i]; /* done <= i + 1 < most: previous is not read any more */
        memcpy(tokens, m.previous, done * sizeof(int));
        *count = done;
        return tokens;
}

static int hex(char c)
{
        return isdigit((unsigned char)c)    ? c - '0'
               : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10
                                            : -1;
}

const char *tokenizer_decode(const struct tokenizer *t, int previous, int token, char single[1], size_t *length)
{
        const struct piece *p;

        *length = 0;
        if (token < 0 || (size_t)token >= t->count)
                return "";
        p = &t->pieces[token];
        *length = p->length;
        if (p->length == 6 && !memcmp(p->text, "<0x", 3) && p->text[5] == '>' && hex(p->text[3]) >= 0 &&
            hex(p->text[4]) >= 0) {
                single[0] = (char)(hex(p->text[3]) << 4 | hex(p->text[4]));
                *length = 1;
                return single;
        }
        if (previous == TOKEN_BEGIN && p->length && p->text[0] == ' ') {
                (*length)--;
                return p->text + 1;
        }
        return p->text;
}
