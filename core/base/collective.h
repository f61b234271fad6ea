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
 * Where the processes' devices reach each other (server/train/device_sums.h), values that lie on one are
 * summed there: add_there and take_there only queue, and nothing comes to the host.
 *
 * One object a process, set before the first run and kept to the end. Threads: any within a run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_COLLECTIVE_H
#define TD_CORE_BASE_COLLECTIVE_H

#include <stdint.h>

#include "core/base/dtype.h"
#include "core/base/status.h"
#include "core/base/tensor.h"

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
    /* The same of values on the device of this process, by work that is queued on stream; NULL: sums are made
     * on the host. The values are held until the sum is taken, or the next run begins; *sum is new, a
     * vector, and what is queued on stream behind the call may read it. */
    TD_MUST enum td_code (*add_there)(void *ctx, const struct td_sum *s, const struct td_tensor *values,
                                      struct td_stream *stream, struct td_err *err);
    TD_MUST enum td_code (*take_there)(void *ctx, const struct td_sum *s, struct td_stream *stream,
                                       struct td_tensor *sum, struct td_err *err);
    /* Of a run that has ended: whether what it took were sums, not what a process that is gone has left.
     * UNAVAILABLE. NULL: take has said so. */
    TD_MUST enum td_code (*held)(void *ctx, struct td_err *err);
};

/* Borrowed for the life of the process; NULL: this process is alone, and what it adds is the sum. */
void td_collective_set(const struct td_collective *c);
const struct td_collective *td_collective(void);

#endif
