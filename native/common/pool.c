/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MOST_THREADS 1024u
#define SPIN_NS 40000           /* longer than the serial part between two products, shorter than a time slice */

struct worker {
        struct pool *pool;
        pthread_t thread;
        unsigned index;
};

struct pool {
        alignas(64) atomic_uint round;          /* a new value is the signal to begin; the futex of the workers */
        atomic_uint sleepers;
        alignas(64) atomic_uint busy;           /* workers that have not finished this round; the futex of the caller */
        atomic_uint caller_sleeps;
        alignas(64) void (*work)(void *arg, unsigned index, unsigned count);
        void *arg;
        unsigned threads;
        unsigned spins;
        struct worker workers[];                /* threads - 1 of them */
};

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("isb" ::: "memory");   /* `yield` is a no-op on these cores, and would poll the line without a break */
#else
        atomic_signal_fence(memory_order_seq_cst);
#endif
}

static void sleep_while(atomic_uint *word, unsigned value)
{
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake_all(atomic_uint *word)
{
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static unsigned wait_for_round(struct pool *pool, unsigned last)
{
        unsigned now = last;

        for (unsigned i = 0; i < pool->spins; i++) {
                now = atomic_load_explicit(&pool->round, memory_order_acquire);
                if (now != last)
                        return now;
                relax();
        }
        /* Sequentially consistent on both sides: either the caller sees the sleeper, or the futex sees the new round. */
        atomic_fetch_add(&pool->sleepers, 1);
        while ((now = atomic_load(&pool->round)) == last)
                sleep_while(&pool->round, last);
        atomic_fetch_sub(&pool->sleepers, 1);
        return now;
}

static void *worker_main(void *arg)
{
        const struct worker *self = arg;
        struct pool *pool = self->pool;
        unsigned round = 0;

        for (;;) {
                round = wait_for_round(pool, round);
                if (!pool->work)
                        return NULL;
                pool->work(pool->arg, self->index, pool->threads);
                if (atomic_fetch_sub(&pool->busy, 1) == 1 && atomic_load(&pool->caller_sleeps))
                        wake_all(&pool->busy);
        }
}

static void wait_for_workers(struct pool *pool)
{
        unsigned busy;

        for (unsigned i = 0; i < pool->spins; i++) {
                if (!atomic_load_explicit(&pool->busy, memory_order_acquire))
                        return;
                relax();
        }
        atomic_store(&pool->caller_sleeps, 1);
        while ((busy = atomic_load(&pool->busy)))
                sleep_while(&pool->busy, busy);
        atomic_store(&pool->caller_sleeps, 0);
}

static void begin_round(struct pool *pool)
{
        atomic_fetch_add(&pool->round, 1);
        if (atomic_load(&pool->sleepers))
                wake_all(&pool->round);
}

void pool_run(struct pool *pool, void (*work)(void *arg, unsigned index, unsigned count), void *arg)
{
        if (pool->threads == 1) {
                work(arg, 0, 1);
                return;
        }
        pool->work = work;
        pool->arg = arg;
        atomic_store_explicit(&pool->busy, pool->threads - 1, memory_order_relaxed);
        begin_round(pool);
        work(arg, 0, pool->threads);
        wait_for_workers(pool);
}

static unsigned processors(void)
{
        cpu_set_t set;
        int count = 0;

        if (!sched_getaffinity(0, sizeof(set), &set))
                count = CPU_COUNT(&set);
        return count > 0 ? (unsigned)count : 1;
}

static int64_t now_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* A pause takes from one to hundreds of cycles, by the processor: measured, not assumed. */
static unsigned spins_for(int64_t ns)
{
        enum { TRIES = 512 };
        int64_t start = now_ns(), spent;

        for (int i = 0; i < TRIES; i++)
                relax();
        spent = now_ns() - start;
        return spent > 0 ? (unsigned)(ns * TRIES / spent) + 1 : TRIES;
}

struct pool *pool_open(unsigned threads)
{
        unsigned present = processors(), wanted = threads ? threads : present;
        struct pool *pool;
        sigset_t all, before;
        size_t size;

        if (wanted > MOST_THREADS)
                wanted = MOST_THREADS;
        size = sizeof(*pool) + (wanted - 1) * sizeof(pool->workers[0]);
        pool = aligned_alloc(64, (size + 63) / 64 * 64);
        if (!pool)
                return NULL;
        atomic_init(&pool->round, 0);
        atomic_init(&pool->sleepers, 0);
        atomic_init(&pool->busy, 0);
        atomic_init(&pool->caller_sleeps, 0);
        /* Who spins on a processor that another worker needs only delays it. */
        pool->spins = wanted > 1 && wanted <= present ? spins_for(SPIN_NS) : 0;
        pool->work = NULL;
        pool->arg = NULL;
        pool->threads = wanted;

        sigfillset(&all);       /* signals are the caller's */
        pthread_sigmask(SIG_SETMASK, &all, &before);
        for (unsigned i = 0; i + 1 < wanted; i++) {
                pool->workers[i] = (struct worker){.pool = pool, .index = i + 1};
                if (pthread_create(&pool->workers[i].thread, NULL, worker_main, &pool->workers[i])) {
                        pool->threads = i + 1;
                        break;
                }
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return pool;
}

unsigned pool_threads(const struct pool *pool)
{
        return pool->threads;
}

void pool_close(struct pool *pool)
{
        if (!pool)
                return;
        pool->work = NULL;
        begin_round(pool);
        for (unsigned i = 0; i + 1 < pool->threads; i++)
                pthread_join(pool->workers[i].thread, NULL);
        free(pool);
}
