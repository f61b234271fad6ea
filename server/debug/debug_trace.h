/* server/debug/debug_trace.h - watches one run: lists its nodes as JSON, keeps or compares their values,
 * collects prints.
 *
 * A trace is one run's and one thread's. Nothing it does can fail the run; what it could not note is counted.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_DEBUG_DEBUG_TRACE_H
#define TD_SERVER_DEBUG_DEBUG_TRACE_H

#include "server/debug/debug.h"

struct td_debug_store;

struct td_trace {
    const struct td_debug_opts *opts;
    td_stop *client;              /* the request's own stop word; NULL none */
    td_stop stop;                 /* the run's: the client's, passed on, or set when a value is not finite */
    struct td_sink nodes, prints; /* elements of JSON lists, without the brackets */
    int64_t n_run, n_listed, n_prints;
    bool truncated;                 /* nodes or prints were left out */
    char stopped[512];              /* why the trace stopped the run; "" */
    struct td_debug_store *record;  /* values are kept here; NULL not */
    struct td_debug_store *against; /* values are compared with these; NULL not */
};

void td_trace_init(struct td_trace *t, const struct td_debug_opts *opts, td_stop *client);
void td_trace_fini(struct td_trace *t);
/* Puts the trace's hooks and stop word into a run's options. */
void td_trace_attach(struct td_trace *t, bool eager, struct td_run_opts *run);

bool td_trace_watched(const struct td_debug_opts *opts, const struct td_node *n);
/* "name", "op", "function" and, where calls were inlined, "path" of an object just opened. */
TD_MUST enum td_code td_trace_put_node(struct td_sink *s, const struct td_node *n, struct td_err *err);

#endif
