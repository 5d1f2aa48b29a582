/* SPDX-License-Identifier: MIT
 *
 * Layouts of the NPU. An atom is 16 bytes: C2 channels of one row. With one row all layouts of A and C are plain
 * arrays.
 *
 *     A           (K/C2, M, C2)                 C2 = 8 (fp16), 16 (int8)
 *     B           (N/G, K/32, G, 32)            G = 16 (fp16), 32 (int8)
 *     C           (N/C2, M, C2)                 C2 = 4 (fp32, int32), 8 (fp16)
 */
#ifndef NM_LAYOUT_H
#define NM_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `rows` rows of `columns` elements of `bytes`, `ld` elements apart, into atoms; `padded_rows` and `padded_columns` are
 * filled with zeros. */
void nm_pack_rows(void *to, const void *from, size_t rows, size_t columns, size_t ld, size_t padded_rows,
                  size_t padded_columns, size_t bytes);

/* B or a piece of it; padding is zero. */
void nm_pack_kernels(void *to, const void *from, size_t n, size_t k, size_t ld, size_t padded_n, size_t padded_k,
                     size_t bytes, size_t group);

/* The inverse of nm_pack_rows: the first `rows` and `columns` of atoms of `padded_rows`. */
void nm_unpack_rows(void *to, const void *from, size_t rows, size_t columns, size_t ld, size_t padded_rows,
                    size_t bytes);

/* Element of a packed C: n and m. */
static inline size_t nm_packed_index(size_t m, size_t n, size_t padded_rows, size_t per_atom)
{
        return (n / per_atom * padded_rows + m) * per_atom + n % per_atom;
}

#endif
