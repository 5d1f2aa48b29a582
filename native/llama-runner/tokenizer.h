/* SPDX-License-Identifier: MIT
 *
 * llama2.c's tokenizer.bin: byte-pair encoding by scores (llama2.c run.c: build_tokenizer, encode, decode).
 */
#ifndef LLAMA_TOKENIZER_H
#define LLAMA_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "fault.h"

enum { TOKEN_BEGIN = 1, TOKEN_END = 2 };

struct piece {
        const char *text;       /* not terminated */
        uint32_t length;
        float score;
};

struct tokenizer {
        size_t count;
        struct piece *pieces;
        uint32_t *slots;        /* hash table: piece + 1, or 0 */
        size_t slot_count;      /* a power of two */
        char *bytes;            /* the file */
};

/* `count` is the checkpoint's vocab_size: the file does not say how many pieces it holds. */
int tokenizer_open(const char *path, size_t count, struct tokenizer *tokenizer, struct fault *fault);
int tokenizer_parse(const void *bytes, size_t size, const char *name, size_t count, struct tokenizer *tokenizer,
                    struct fault *fault);
void tokenizer_close(struct tokenizer *tokenizer);

/* TOKEN_BEGIN, then `text`, in a new array that the caller frees; NULL when there is no memory. */
int *tokenizer_encode(const struct tokenizer *tokenizer, const char *text, size_t *count);

/* What `token` adds to the text after `previous`. `single` has room for a byte that a piece like <0x0A> stands for. */
const char *tokenizer_decode(const struct tokenizer *tokenizer, int previous, int token, char single[1],
                             size_t *length);

#endif
