/* server/base/stats.h - what the requests to one model version came to: counts and times, as the statistics
 * extension of the Open Inference Protocol and metrics tell them.
 *
 * Whoever runs a request reports it once, with td_stats_request; whoever runs the model reports each run
 * once, with td_stats_batch: without batching the two come in pairs, with it one run answers several
 * requests. The times of a request are its share: a run of 4 requests that took 8 ms counts 8 ms for each of
 * them, since each waited that long.
 *
 * Threads: any; every number is a relaxed atomic of its own, so a reader may see one request half counted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_STATS_H
#define TD_SERVER_BASE_STATS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TD_STATS_SIZES                                                                                       \
    32 /* batch sizes that have a row of their own; further ones count in the totals only */

struct td_times {
    int64_t queue_ns;  /* waiting for a turn */
    int64_t input_ns;  /* gathering inputs into what runs */
    int64_t infer_ns;  /* running */
    int64_t output_ns; /* taking outputs apart */
};

struct td_stats_size {
    atomic_int_fast64_t size; /* 0: this row and those behind it are free */
    atomic_uint_fast64_t n, input_ns, infer_ns, output_ns;
};
struct td_stats {
    atomic_uint_fast64_t waiting;                      /* chunks of requests that wait for a worker now */
    atomic_uint_fast64_t ok, ok_ns, failed, failed_ns; /* requests; ns from their start to their end */
    atomic_uint_fast64_t queue_ns, input_ns, infer_ns, output_ns; /* of the requests that went well */
    atomic_uint_fast64_t inferences;                              /* rows of the requests that went well */
    atomic_uint_fast64_t executions;                              /* runs that went well */
    atomic_int_fast64_t last_ms; /* end of the last request, since the epoch; 0 none */
    struct td_stats_size sizes[TD_STATS_SIZES];
};

/* A request is over after total_ns; rows is its batch size, 1 for a model that has none. A failed one counts
 * only as such. */
void td_stats_request(struct td_stats *s, bool ok, int64_t rows, int64_t total_ns, const struct td_times *t);
/* The model was run once, without failure, on so many rows. */
void td_stats_batch(struct td_stats *s, int64_t rows, const struct td_times *t);

#endif
