/* SPDX-License-Identifier: MIT */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Counts and goes on; a test's main() ends with expect_done(). */
static int expect_failures;

#define EXPECT(condition, ...) \
        do { \
                if (!(condition)) { \
                        expect_failures++; \
                        printf("%s:%d: not (%s): ", __FILE__, __LINE__, #condition); \
                        printf(__VA_ARGS__); \
                        putchar('\n'); \
                } \
        } while (0)

static inline int expect_done(void)
{
        printf("%d failures\n", expect_failures);
        return expect_failures ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* xorshift64*, Vigna 2016: the same numbers everywhere. */
static inline uint64_t expect_random(uint64_t *state)
{
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        return *state * UINT64_C(0x2545F4914F6CDD1D) >> 16;
}

static inline uint32_t expect_between(uint64_t *state, uint32_t low, uint32_t high)
{
        return low + (uint32_t)(expect_random(state) % (high - low + 1));
}

#endif
