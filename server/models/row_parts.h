/* server/models/row_parts.h - a call of many rows, run as several of fewer where that is faster.
 *
 * One image's activations stay in the caches from layer to layer where those of eight would not; and rows on
 * a thread each need not wait for each other at every layer. What weighs against it: a step's own cost, and
 * weights that are read once for each part. So it is tried, and what takes less is done (struct td_row_parts
 * keeps what was learnt, by shapes). Only what is proven row-wise (core/batchable/batchable.h) is cut, and
 * only calls that take a few milliseconds. Rounding may differ, as in batches.
 *
 * Threads: any; the lock guards what was learnt, and is held for no run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_ROW_PARTS_H
#define TD_SERVER_MODELS_ROW_PARTS_H

#include <pthread.h>

#include "core/function/callable.h"

enum { TD_ROW_PARTS_SHAPES = 8 };

struct td_row_parts_case { /* calls of some shapes */
    uint64_t shapes;       /* hash of them; 0: free */
    enum { TD_ROWS_UNKNOWN, TD_ROWS_ASKED, TD_ROWS_TOGETHER, TD_ROWS_APART } proof;
    int64_t whole_ns, parts_ns; /* the least of all runs; 0: none was */
    uint32_t runs, whole_runs, parts_runs;
};
struct td_row_parts {
    pthread_mutex_t mu;
    int64_t least_ns; /* that a call takes which may be cut: 3 ms; tests have less, as of the next */
    int64_t part_ns;  /* that a part takes, unless it is a single row: 1 ms */
    struct td_row_parts_case of[TD_ROW_PARTS_SHAPES];
    atomic_uint cut; /* calls that were run in parts, ever */
};
TD_MUST enum td_code td_row_parts_new(struct td_row_parts **out, struct td_err *err);
void td_row_parts_free(struct td_row_parts *p); /* accepts NULL */

/* As td_callable_run of f, which has so many inputs and outputs. */
struct td_row_parts_call {
    struct td_callable *f;
    const struct td_tensor *in;
    int n_in, n_out;
    const struct td_run_opts *opts; /* NULL: none */
};
TD_MUST enum td_code td_row_parts_run(struct td_row_parts *p, const struct td_row_parts_call *c,
                                      struct td_tensor *out, struct td_err *err);

#endif
