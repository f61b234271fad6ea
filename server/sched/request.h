/* server/sched/request.h - one inference request, whatever wire it came over, from the front end that
 * decodes it to the worker that runs it and back. It is one struct, made once, inside what carries it (an
 * HTTP exchange, a gRPC call, a message of a stream): one deadline, one stop word, one completion, which
 * everybody on the way points to.
 *
 *   front end   init (deadline, stop word) -> open -> decode -> start
 *   start       find model and signature -> bind inputs -> td_workers_run: here at once, or in a queue
 *   end         statistics -> outputs by name -> ended -> encode -> done
 *
 * Where the version is not loaded yet, finding it fails, and the front end has the request wait
 * (td_request_await) and be decoded anew.
 *
 * done is called once for each request that was started: before td_request_start returns, where a worker was
 * idle and the run is short, or later on a worker's thread.
 *
 * Invariant (request_check): between start and done the request is the workers' alone; but anybody may set
 * its stop word.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_SCHED_REQUEST_H
#define TD_SERVER_SCHED_REQUEST_H

#include "server/base/metrics.h"
#include "server/base/spans.h"
#include "server/models/gradient.h"
#include "server/models/registry.h"
#include "server/models/servable_run.h"
#include "server/sched/sched.h"

/* What is known of rows of some inner shapes (core/batchable/batchable.h): nothing yet, row-wise, or not. */
enum td_proof { TD_PROOF_NONE, TD_PROOF_ROWS, TD_PROOF_NOT_ROWS };

struct td_request;

/* Rows [from, to) of a request: what waits in a queue and shares a batch. */
struct td_chunk {
    struct td_sched_task task; /* first */
    struct td_request *request;
    int64_t from, to;
    struct td_tensor *made; /* the request's own when there is one chunk */
    enum td_proof proof;
};

/* err->code is the outcome. */
typedef void td_request_end_fn(struct td_request *r, struct td_err *err);

/* What a thread that serves others may compute itself: little more than a wake-up costs; where nobody waits
 * who others could serve, several of those; and what keeps nobody waiting for long though a connection may be
 * dealt to it meanwhile. A longer run gains nothing there. */
enum { TD_RUN_BRIEF_NS = 60000, TD_RUN_SHORT_NS = 300000, TD_RUN_LONE_NS = 1000000 };

struct td_request {
    /* What is asked; texts are borrowed, mostly from the arena. */
    struct td_arena *arena; /* NULL: not open */
    const char *model;
    bool has_version; /* version was said, be it 0 */
    int64_t version;
    const char *label;     /* NULL none */
    const char *signature; /* "" default */
    const char *id;        /* for logs and answers; "" none */
    struct td_named *in;   /* tensors owned by the request */
    int n_in;
    const char *const *filter; /* outputs wanted; none: all */
    int n_filter;
    enum td_api api; /* what it is counted as */
    int priority;    /* 1 first, larger ones later; 0: the model's default */

    /* How long: the only deadline, run.work.deadline_ns, and the only stop word, run.work.stop (&stop; a
     * warm-up's: the loader's). */
    struct td_run_opts run;
    td_stop stop;   /* set when the client goes away, or the server stops */
    bool own_limit; /* the deadline is one that the message itself names */

    /* Who asks: the front end's. */
    bool apart; /* runs on the thread that starts it, and takes no worker: of what is not served yet */
    /* The thread that starts it serves others too: the longest run, as expected, that it may do itself
     * (TD_RUN_BRIEF_NS, or TD_RUN_LONE_NS where nobody else is kept waiting); 0: it is the request's own. */
    int64_t thread_ns;
    void (*step_back)(void);       /* others are to serve in its place; NULL: nobody can */
    int64_t brief_ns;              /* but not for a run that is expected to take no longer than this */
    struct td_trace_context trace; /* for OpenTelemetry; the front end begins it */
    int traced;                    /* what of it is to be traced when it ends: bits of enum td_trace_level */
    void *detail;                  /* what encode needs of the message; in the arena */
    void *waiter;                  /* done's own */
    /* The protocol's word on how its run went, which it may change; NULL: none. */
    td_request_end_fn *ended;
    /* Its outputs, as an answer; NULL: there is none. */
    enum td_code (*encode)(struct td_request *r, struct td_err *err);
    /* They are large, and the worker has others to run: has td_request_encode called on another thread. NULL:
     * the worker encodes them. */
    void (*encode_apart)(struct td_request *r);
    /* It has waited for its version to be loaded (td_request_await). */
    td_request_end_fn *resume;
    bool resumed; /* its handler runs for the second time */
    /* On the starting thread, before the request waits for a worker; NULL: nobody asks. */
    void (*queued)(struct td_request *r);
    /* It is over, and the front end's again. */
    td_request_end_fn *done;

    /* What is found, and made. */
    struct td_servable *servable; /* counted */
    struct td_cold cold;          /* what it failed for: a version that is to be loaded first */
    struct td_gradient *gradient; /* counted: sig is this one's; NULL: sig is the servable's */
    const struct td_signature *sig;
    struct td_named *out; /* tensors owned by the request */
    int n_out;
    int64_t opened_ns, started_ns;

    /* The workers', while it runs. */
    struct td_tensor *bound; /* sig->n_in: the inputs in the signature's order; borrowed from in and sig */
    struct td_tensor *made;  /* sig->n_out, in the signature's order */
    struct td_times times;   /* of its last chunk */
    struct td_chunk whole;
    struct td_chunk *chunks; /* &whole, or several in the arena */
    int n_chunks;
    atomic_int left;    /* chunks that have not ended */
    atomic_flag failed; /* set by the chunk that wrote err */
    struct td_err err;
};

/* Of zeroed storage: from now on it may be stopped, and be given a deadline. Takes no memory. */
void td_request_init(struct td_request *r);
/* Makes arena and account; the time of its answer counts from here. */
TD_MUST enum td_code td_request_open(struct td_request *r, struct td_err *err);
/* Drops everything that it holds. */
void td_request_fini(struct td_request *r);
/* Before another run, on the same version: drops inputs and outputs, and forgets the signature. */
void td_request_again(struct td_request *r);

/* A handler of it has failed, having found a version that is to be loaded first (r->cold). */
static inline bool td_request_is_cold(const struct td_request *r)
{
    return r->cold.model != NULL;
}
/* Such a request waits from here on, without a thread: r->resume is called once, perhaps before this returns,
 * on a thread that must not be kept. err->code OK: what the handler has begun is to be begun again,
 * elsewhere; r->servable is found. Else it ends with err. False: it may not wait, err (of the handler) says
 * why. */
TD_MUST bool td_request_await(struct td_request *r, struct td_registry *reg, struct td_err *err);

/* Finds the servable that is named, unless it has been found. NOT_FOUND and INVALID_ARGUMENT as
 * td_registry_find; a version 0 that was asked for is nowhere. */
TD_MUST enum td_code td_request_find(struct td_request *r, struct td_registry *reg, struct td_err *err);
/* Finds servable and signature (so that a codec can look at declared dtypes before decoding). Idempotent.
 * NOT_FOUND / FAILED_PRECONDITION with TF Serving's texts. */
TD_MUST enum td_code td_request_resolve(struct td_request *r, struct td_registry *reg, struct td_err *err);
/* It as a call of its signature, borrowed. */
struct td_servable_call td_request_call(const struct td_request *r, struct td_registry *reg);
/* Before inputs are decoded: r->in has their names, dtypes and shapes (td_wire_tensor_head), and r->sig is
 * found. Names, dtypes and, where the server is strict, shapes are checked, and that what they take together
 * is neither more than max_bytes nor more than may be had. INVALID_ARGUMENT; RESOURCE_EXHAUSTED. reg: of the
 * strictness; NULL: none. */
TD_MUST enum td_code td_request_expect(struct td_request *r, struct td_registry *reg, uint64_t max_bytes,
                                       struct td_err *err);
/* That what its inputs take is to be had; names are checked. */
TD_MUST enum td_code td_request_has_room(struct td_request *r, uint64_t max_bytes, struct td_err *err);
/* Checks its inputs against the signature, and makes room for its outputs. */
TD_MUST enum td_code td_request_bind(struct td_request *r, const struct td_servable_call *call,
                                     struct td_err *err);

/* Resolves if need be, binds, runs. done is called once, perhaps before this returns; r may be gone then. */
void td_request_start(struct td_request *r, struct td_registry *reg);
/* The same, and waits: r is the caller's again, and out holds the outputs. done and queued are not the
 * caller's. */
TD_MUST enum td_code td_request_run(struct td_request *r, struct td_registry *reg, struct td_err *err);

/* For encode_apart: encodes its outputs and ends it. r may be gone when this returns. */
void td_request_encode(struct td_request *r);
/* By the front end, once for each request: it is answered, with that code. */
void td_request_count(const struct td_request *r, enum td_entry_point entry, enum td_code code);

/* By the workers: it has run, or will not (err->code). r may be gone when this returns. */
void td_request_end(struct td_request *r, struct td_err *err);

#endif
