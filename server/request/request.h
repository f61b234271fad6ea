/* server/request/request.h - one inference request, whatever wire it came over, and the one path that answers
 * it.
 *
 * A front end fills in who is asked and the named inputs, calls td_request_run or td_request_start on its own
 * thread, and encodes the outputs there or in done. The workers (server/sched/workers.h) decide where it
 * runs, and with whom. Everything a request holds is dropped by td_request_fini.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_REQUEST_REQUEST_H
#define TD_SERVER_REQUEST_REQUEST_H

#include "server/sched/workers.h"
#include "server/base/metrics.h"
#include "server/models/registry.h"

struct td_request {
    struct td_arena *arena; /* names, filters; owned */
    const char *model;
    int64_t version;       /* 0: by label or latest */
    const char *label;     /* NULL none */
    const char *signature; /* "" default */
    struct td_named *in;   /* tensors owned by the request */
    int n_in;
    const char *const *filter;
    int n_filter;
    int64_t deadline_ns; /* CLOCK_MONOTONIC; 0 none */
    int priority;        /* 1 first, larger ones later; 0: the model's default */
    td_stop stop;        /* set by the front end when the client goes away */
    td_stop *client;     /* the front end's own stop word, looked at instead of stop; NULL: stop */
    enum td_api api;     /* what it is counted as */
    const char *id;      /* request id for logs; "" */
    /* filled in by td_request_resolve / td_request_run: */
    struct td_servable *servable; /* counted */
    const struct td_signature *sig;
    struct td_named *out; /* tensors owned by the request */
    int n_out;
    /* of td_request_start: */
    void *detail;   /* the front end's: what the answer needs of the message; in the arena */
    bool own_limit; /* the deadline is one that the message itself names */
    int traced;     /* what of it is to be traced when it ends: bits of enum td_trace_level */
    void (*ended)(struct td_request *r,
                  struct td_err *err); /* may reword the outcome (err->code); may be NULL */
    bool borrowed;                     /* the calling thread serves others too: nothing long may run on it */
    void (*queued)(
        struct td_request *r); /* called on this thread before the request waits for a worker; may be NULL */
    void (*done)(struct td_request *r,
                 struct td_err *err); /* called once, on another thread, when it had to wait */
    struct td_job job;                /* with workers.c while it runs */
    int64_t since_ns;
};

TD_MUST enum td_code td_request_init(struct td_request *r, struct td_err *err);
void td_request_fini(struct td_request *r);
/* Finds servable and signature (so that a codec can look at declared dtypes before decoding). Idempotent.
 * NOT_FOUND / FAILED_PRECONDITION with TF Serving's texts. */
TD_MUST enum td_code td_request_resolve(struct td_request *r, struct td_registry *reg, struct td_err *err);
/* Resolves if need be, checks, runs; on success out holds the outputs. */
TD_MUST enum td_code td_request_run(struct td_request *r, struct td_registry *reg, struct td_err *err);
/* As td_request_run, but does not wait: when *later is set, r->done tells the outcome (err->code), and r is
 * not the caller's until then. */
TD_MUST enum td_code td_request_start(struct td_request *r, struct td_registry *reg, bool *later,
                                      struct td_err *err);

#endif
