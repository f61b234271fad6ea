/* server/grpc/grpc_request.c - the requests of gRPC handlers: made, run and dropped around what a handler
 * decodes and encodes; and the arenas of those that decode little.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "server/base/clock.h"
#include "server/grpc/grpc_rpc.h"

#define ARENA_BYTES ((size_t)1 << 20) /* of names, keys and settings */

enum td_code td_rpc_with_arena(struct td_rpc *r, td_rpc_arena_fn *body, struct td_err *err)
{
    struct td_arena *a = td_arena_new(ARENA_BYTES);
    if (a == NULL) {
        return td_no_memory(err, ARENA_BYTES, "a request");
    }
    const enum td_code rc = body(r, a, err);
    td_arena_free(a);
    return rc;
}

static void count(const struct td_request *q, enum td_code rc, int64_t from_ns)
{
    const char *name = q->servable != NULL ? td_servable_name(q->servable) : q->model;
    td_metrics_request(td_metrics_model(name), q->api, TD_ENTRY_GRPC, rc, td_clock_us_since(from_ns));
}

enum td_code td_rpc_request(struct td_rpc *r, td_rpc_request_fn *body, struct td_err *err)
{
    struct td_request q;
    TD_TRY(td_request_init(&q, err));
    q.deadline_ns = r->deadline_ns;
    td_rpc_watch(r, &q.stop);
    const int64_t from_ns = td_clock_ns();
    td_poll_step_back(); /* body waits for its runs */
    const enum td_code rc = body(r, &q, err);
    td_rpc_watch(r, NULL);
    count(&q, rc, from_ns);
    td_request_fini(&q);
    return rc;
}

/* An inference, which may outlive its handler. */
struct inference {
    struct td_request q; /* first */
    struct td_rpc *r;
    td_rpc_request_fn *encode;
    int64_t from_ns;
};

static void hold(struct td_request *q)
{
    td_rpc_hold(((struct inference *)q)->r);
}

static void drop(struct inference *f, enum td_code rc)
{
    td_rpc_watch(f->r, NULL);
    count(&f->q, rc, f->from_ns);
    td_request_fini(&f->q);
    td_free(f);
}

static void answer_later(struct td_request *q, struct td_err *err)
{
    struct inference *f = (struct inference *)q;
    struct td_rpc *r = f->r;
    err->code = err->code ? err->code : f->encode(r, q, err);
    drop(f, err->code);
    td_rpc_finish(r, err);
}

enum td_code td_rpc_infer(struct td_rpc *r, td_rpc_request_fn *decode, td_rpc_request_fn *encode,
                          struct td_err *err)
{
    bool later = false;
    struct inference *f = td_calloc(1, sizeof *f);
    if (f == NULL || td_request_init(&f->q, err)) {
        td_free(f);
        return td_no_memory(err, sizeof *f, "a request");
    }
    f->r = r;
    f->encode = encode;
    f->from_ns = td_clock_ns();
    f->q.deadline_ns = r->deadline_ns;
    f->q.borrowed = true;
    f->q.queued = hold;
    f->q.done = answer_later;
    td_rpc_watch(r, &f->q.stop);
    enum td_code rc = decode(r, &f->q, err);
    rc = rc ? rc : td_request_start(&f->q, r->registry, &later, err);
    if (!later) {
        rc = rc ? rc : encode(r, &f->q, err);
        drop(f, rc);
    }
    return rc;
}
