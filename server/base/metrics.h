/* server/base/metrics.h - counters and histograms of the whole process, written as Prometheus text.
 *
 * Labels are bounded: model names are those that were ever configured, everything else is counted under the
 * empty name; paths of versions are cut off at a limit in the same way. Counting takes no lock: a model's
 * cells are made on their first use and found by a hash of its name, or through the handle of
 * td_metrics_model.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_METRICS_H
#define TD_SERVER_BASE_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "server/base/latency.h"

struct td_metrics_model; /* lives as long as the process */

/* A configured model: its name may be counted from now on. Without memory it stays uncounted. */
void td_metrics_add_model(const char *name);
/* Never NULL: the cells of the empty name for an unknown one. A name "MODEL:SIGNATURE" is that of MODEL. */
struct td_metrics_model *td_metrics_model(const char *name);

/* Where its requests are counted, once for each, by the front end (server/base/latency.h). */
struct td_latency_model *td_metrics_latency(struct td_metrics_model *m);
void td_metrics_examples(struct td_metrics_model *m, int64_t n); /* of Classify, Regress and MultiInference */
/* Its share of running, once for each request that ran. */
void td_metrics_runtime(struct td_metrics_model *m, enum td_api api, int64_t us);
/* The graph ran once, for one request or for a batch of them. */
void td_metrics_graph_run(int64_t us);

/* A request was traced (server/base/trace.h); code: whether that could be written. */
void td_metrics_logged(struct td_metrics_model *m, enum td_code code);

/* Spans left for a collector, or did not: "exported", "failed", "dropped". */
void td_metrics_spans(const char *outcome, int64_t n);

/* The label thread_pool_name, at most 63 bytes: set before anything is counted. "": TF Serving's own default.
 */
void td_metrics_pool_name(const char *name);

/* Of the scheduler: a request of so many rows begins to run after waiting; a batch runs; a request leaves
 * unanswered (queue full, deadline, cancelled). */
void td_metrics_batched(struct td_metrics_model *m, int64_t rows, int64_t wait_us);
void td_metrics_batch(struct td_metrics_model *m, int64_t rows, int64_t padding);
void td_metrics_helped(void); /* a run borrowed a worker */
void td_metrics_refused(struct td_metrics_model *m, enum td_code code);

/* Of the loaders; path is the version's directory. */
void td_metrics_loaded(const char *path, bool ok, int64_t us);
/* A stage of loading that has gone well: "restore_graph" (variables), "init_graph". */
void td_metrics_load_stage(const char *path, const char *stage, int64_t us);
void td_metrics_warmed(const char *path, enum td_code code, int64_t us, int64_t n_records);
/* The version is gone, and nobody tells of it any more: what was counted of its loads is told no longer. */
void td_metrics_forget(const char *path);

/* A request waited so long for its model to be loaded. */
void td_metrics_cold_start(struct td_metrics_model *m, int64_t us);

/* A counter by TensorFlow's name for it ("/tensorflow/serving/request_count"), over all labels; 0 for one
 * that is not there. */
int64_t td_metrics_counter(const char *name);

/* All of it, in Prometheus' text format. */
TD_MUST enum td_code td_metrics_write(struct td_sink *out, struct td_err *err);

#endif
