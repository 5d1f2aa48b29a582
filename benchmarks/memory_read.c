/* SPDX-License-Identifier: MIT
 *
 * memory_read THREADS MB: how fast THREADS threads together read MB megabytes, each its share, in four places in
 * turn, in huge pages where the kernel gives them. Prints GB/s, the best of twelve passes: the wall for any program
 * that reads as much a token.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define PLACES 4
#define BIT 1024 /* bytes from one place before the next */
#define HUGE (2ul << 20)

typedef float vector __attribute__((vector_size(32)));

static const char *memory;
static size_t share;
static volatile float used; /* or the compiler sees that nobody asks for the sums */

static void *read_share(void *arg)
{
        const char *from = memory + (size_t)arg * share;
        size_t apart = share / PLACES;
        vector sums[8] = {0};

        for (size_t at = 0; at < apart; at += BIT)
                for (size_t place = 0; place < PLACES; place++) {
                        const vector *v = (const vector *)(from + place * apart + at);

                        for (size_t i = 0; i < BIT / sizeof(*v); i++)
                                sums[i % 8] += v[i];
                }
        for (int i = 1; i < 8; i++)
                sums[0] += sums[i];
        used = sums[0][0];
        return NULL;
}

static double now(void)
{
        struct timespec time;

        clock_gettime(CLOCK_MONOTONIC, &time);
        return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int count, char **words)
{
        size_t threads = count > 1 ? strtoul(words[1], NULL, 10) : 1, size = count > 2 ? strtoul(words[2], NULL, 10) : 400;
        double best = 1e9;
        char *room;

        if (threads < 1 || threads > 256 || size < 16 * threads)
                return fprintf(stderr, "memory_read THREADS MB: expected 1 to 256 threads, 16 MB or more each\n"), 2;
        share = size * 1000000 / threads / (PLACES * BIT) * (PLACES * BIT);
        if (posix_memalign((void **)&room, HUGE, share * threads))
                return fprintf(stderr, "memory_read: expected %zu MB of memory, found less\n", size), 3;
        madvise(room, share * threads, MADV_HUGEPAGE);
        for (size_t i = 0; i < share * threads; i++)
                room[i] = 0;
        memory = room;
        for (int turn = 0; turn < 12; turn++) {
                pthread_t workers[256];
                double begin = now();

                for (size_t t = 1; t < threads; t++)
                        if (pthread_create(workers + t, NULL, read_share, (void *)t))
                                return fprintf(stderr, "memory_read: expected a thread more, found none\n"), 3;
                read_share(NULL);
                for (size_t t = 1; t < threads; t++)
                        pthread_join(workers[t], NULL);
                begin = now() - begin;
                best = begin < best ? begin : best;
        }
        printf("%.1f\n", (double)(share * threads) / best / 1e9);
        return 0;
}
