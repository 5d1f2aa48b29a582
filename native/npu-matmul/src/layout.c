/* SPDX-License-Identifier: MIT */
#include "layout.h"

#include <string.h>

#define ATOM 16

void nm_pack_rows(void *to, const void *from, size_t rows, size_t columns, size_t ld, size_t padded_rows,
                  size_t padded_columns, size_t bytes)
{
        size_t whole = columns * bytes / ATOM, rest = columns * bytes % ATOM, atoms = padded_columns * bytes / ATOM;

        if (padded_rows == 1) {
                memcpy(to, from, columns * bytes);
                memset((char *)to + columns * bytes, 0, (padded_columns - columns) * bytes);
                return;
        }
        /* A strip of atoms at a time, so that what is written stays in the cache until its lines are full. */
        for (size_t strip = 0; strip < atoms; strip += 4)
                for (size_t y = 0; y < padded_rows; y++) {
                        const char *row = (const char *)from + y * ld * bytes;

                        for (size_t s = strip; s < strip + 4 && s < atoms; s++) {
                                char *atom = (char *)to + (s * padded_rows + y) * ATOM;

                                if (y < rows && s < whole) {
                                        memcpy(atom, row + s * ATOM, ATOM);
                                } else {
                                        memset(atom, 0, ATOM);
                                        if (y < rows && s == whole)
                                                memcpy(atom, row + s * ATOM, rest);
                                }
                        }
                }
}

void nm_unpack_rows(void *to, const void *from, size_t rows, size_t columns, size_t ld, size_t padded_rows,
                    size_t bytes)
{
        size_t whole = columns * bytes / ATOM, rest = columns * bytes % ATOM;

        if (padded_rows == 1) {
                memcpy(to, from, columns * bytes);
                return;
        }
        for (size_t strip = 0; strip < whole; strip += 4)
                for (size_t y = 0; y < rows; y++) {
                        char *row = (char *)to + y * ld * bytes;

                        for (size_t s = strip; s < strip + 4 && s < whole; s++)
                                memcpy(row + s * ATOM, (const char *)from + (s * padded_rows + y) * ATOM, ATOM);
                }
        for (size_t y = 0; rest && y < rows; y++)
                memcpy((char *)to + y * ld * bytes + whole * ATOM,
                       (const char *)from + (whole * padded_rows + y) * ATOM, rest);
}

void nm_pack_kernels(void *to, const void *from, size_t n, size_t k, size_t ld, size_t padded_n, size_t padded_k,
                     size_t bytes, size_t group)
{
        char *next = to;

        for (size_t first = 0; first < padded_n; first += group)
                for (size_t block = 0; block < padded_k; block += 32)
                        for (size_t i = first; i < first + group; i++, next += 32 * bytes) {
                                const char *row = (const char *)from + (i * ld + block) * bytes;
                                size_t real = i >= n || block >= k ? 0 : k - block < 32 ? k - block : 32;

                                if (real == 32) {
                                        memcpy(next, row, 32 * bytes);
                                } else {
                                        memset(next, 0, 32 * bytes);
                                        if (real)
                                                memcpy(next, row, real * bytes);
                                }
                        }
}
