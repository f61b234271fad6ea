/* core/base/collective.h - what the processes of a data-parallel job compute together: sums.
 *
 * Each process runs the same graph on its share of the rows. A sum is under way while the graph goes on:
 *
 *   add(3, gradient)      ..the rest of the backward pass..      take(3) -> the sum over all processes
 *
 * Sums are numbered from 0 within a run, and every process numbers them alike; they may become ready in any
 * order, but none may need a later one to be taken first. Who carries them out (server/train/ranks.h, over
 * MPI) keeps to the numbers, and joins small ones until it meets one that is marked to be sent at once.
 *
 * One object a process, set before the first run and kept to the end. Threads: any within a run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_COLLECTIVE_H
#define TD_CORE_BASE_COLLECTIVE_H

#include <stdint.h>

#include "core/base/dtype.h"
#include "core/base/status.h"

struct td_sum {
    int number;
    bool at_once;        /* with those that wait before it */
    enum td_dtype dtype; /* float or double */
    int64_t n;           /* elements; the same in all processes */
};

struct td_collective {
    int rank, size; /* this process, and how many there are */
    void *ctx;
    /* A run is about to begin: sums are numbered from 0 again. Waits for those of the last one that were
     * added; all processes must have added the same. */
    void (*begin)(void *ctx);
    /* Whether this process has added the sum of that number in this run. */
    bool (*added)(void *ctx, int number);
    /* The values of this process, read before it returns. */
    TD_MUST enum td_code (*add)(void *ctx, const struct td_sum *s, const void *values, struct td_err *err);
    /* Waits for the sum and writes it. UNAVAILABLE when another process is gone. */
    TD_MUST enum td_code (*take)(void *ctx, const struct td_sum *s, void *sum, struct td_err *err);
};

/* Borrowed for the life of the process; NULL: this process is alone, and what it adds is the sum. */
void td_collective_set(const struct td_collective *c);
const struct td_collective *td_collective(void);

#endif
