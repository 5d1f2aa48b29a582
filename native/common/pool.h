/* SPDX-License-Identifier: MIT
 *
 * Worker threads that are made once and parked between pieces of work. They spin for some tens of microseconds before
 * they sleep, so that the short serial parts between the products of one token cost no system call.
 *
 * A pool belongs to one thread, which is its worker 0: with one thread there is no other.
 */
#ifndef BOARDWRIGHT_POOL_H
#define BOARDWRIGHT_POOL_H

struct pool;

/* `threads` counts the caller; 0 means one a processor in the caller's affinity mask. When the system refuses threads the
 * pool is smaller (see pool_threads). NULL: no memory. */
struct pool *pool_open(unsigned threads);
unsigned pool_threads(const struct pool *pool);

/* Calls work(arg, index, count) once in every thread, index 0 in the caller, and returns when all have returned. What was
 * written before the call is seen by the workers, and what they wrote is seen after it. Not to be called from `work`. */
void pool_run(struct pool *pool, void (*work)(void *arg, unsigned index, unsigned count), void *arg);

void pool_close(struct pool *pool);     /* NULL is let be */

#endif
