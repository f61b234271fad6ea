/* server/grpc/grpc_infer.c - GRPCInferenceService: ModelInfer and ModelStreamInfer.
 *
 * The request parameter "signature_name" chooses another signature than the default one. A stream is answered
 * in the order of its requests, one answer each; one that fails is answered with its error, and the stream
 * goes on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/arena.h"
#include "core/base/mem.h"
#include "server/grpc/grpc_v2.h"
#include "server/request/infer_request.h"

td_rpc_fn td_rpc_v2_infer, td_rpc_v2_stream;

/* What a request's message says besides its inputs; in its arena. */
struct infer {
    struct td_infer_pb p;
    struct td_infer_shared shared;
};

static bool uses_shared(const struct td_infer_pb *p)
{
    bool any = false;
    for (int i = 0; i < p->n_in; i++) {
        any = any || p->in[i].place.region != NULL;
    }
    for (int i = 0; i < p->n_out; i++) {
        any = any || p->out[i].place.region != NULL;
    }
    return any;
}

static const struct td_infer_in *input_of(void *infer, int i)
{
    return &((struct infer *)infer)->p.in[i];
}

static enum td_code read_inputs(struct td_rpc *r, struct infer *f, struct td_err *err)
{
    struct td_request *q = &r->q;
    f->shared.shm = r->opts->shm;
    if (uses_shared(&f->p)) {
        f->shared.local = r->opts->open_management || td_rpc_local(r);
        td_rpc_owner(r, f->shared.owner);
    }
    TD_TRY(td_infer_expect(q, r->registry, input_of, f, f->p.n_in, err));
    for (int i = 0; i < f->p.n_in; i++) {
        const enum td_code over = td_work_over();
        TD_TRY(over ? td_work_error(over, err) : TD_OK);
        TD_TRY(td_infer_fetch(&f->shared, &f->p.in[i], r->opts->max_request_bytes, &q->in[i].t, err));
    }
    td_rpc_drop_input(r);
    return TD_OK;
}

static enum td_code decode(struct td_rpc *r, struct td_err *err)
{
    struct td_request *q = &r->q;
    TD_TRY(td_rpc_open(r, err));
    struct infer *f = td_arena_alloc(q->arena, 1, sizeof *f);
    if (f == NULL) {
        return td_no_memory(err, sizeof *f, "a request");
    }
    q->detail = f;
    f->p.id = "";
    const enum td_code rc = td_infer_read(r->in, q->arena, &f->p, err);
    q->id = f->p.id; /* also of a message that is broken behind it */
    TD_TRY(rc);
    q->model = f->p.model;
    q->api = TD_API_INFER;
    td_infer_limits(q, &f->p.opts);
    TD_TRY(td_grpc_v2_find(r, f->p.model, f->p.version, f->p.opts.signature, &q->signature, err));
    TD_TRY(td_request_resolve(q, r->registry, err));
    TD_TRY(read_inputs(r, f, err));
    TD_TRY(td_infer_filter(q, f->p.out, f->p.n_out, err));
    return td_infer_prepare(q, err);
}

/* final: the answer says that it is the last one of its request. */
static enum td_code write_answer(struct td_request *q, bool final, struct td_err *err)
{
    const struct infer *f = q->detail;
    TD_TRY(td_infer_deliver(&f->shared, q, f->p.out, f->p.n_out, err));
    const struct td_infer_answer answer = {
        .model = f->p.model,
        .id = f->p.id,
        .version = td_servable_version(q->servable),
        .out = q->out,
        .n_out = q->n_out,
        .asked = f->p.n_out > 0 ? f->p.out : NULL,
        .final = final,
    };
    return td_infer_write(&answer, &td_rpc_of(q)->reply, err);
}

static enum td_code encode(struct td_request *q, struct td_err *err)
{
    return write_answer(q, false, err);
}

enum td_code td_rpc_v2_infer(struct td_rpc *r, struct td_err *err)
{
    r->q.encode = encode;
    return decode(r, err);
}

/* ---- streams ---- */

/* ModelStreamInferResponse { error_message = 1, infer_response = 2 { id = 3 } } */
static enum td_code answer_failure(struct td_rpc *r, struct td_err *err)
{
    struct td_sink *s = &r->reply;
    struct td_err full = {0};
    s->n = 0;
    TD_TRY(td_put_text(s, 1, *err->msg ? err->msg : td_code_name(err->code), &full));
    const size_t at = td_put_mark(s);
    TD_TRY(td_put_text(s, 3, r->q.id, &full));
    TD_TRY(td_put_end(s, 2, at, &full));
    r->has_reply = true;
    return TD_OK;
}

static enum td_code encode_streamed(struct td_request *q, struct td_err *err)
{
    struct td_rpc *r = td_rpc_of(q);
    const size_t at = td_put_mark(&r->reply);
    TD_TRY(write_answer(q, true, err));
    r->has_reply = true;
    return td_put_end(&r->reply, 2, at, err);
}

enum td_code td_rpc_v2_stream(struct td_rpc *r, struct td_err *err)
{
    r->fail = answer_failure;
    r->q.encode = encode_streamed;
    return decode(r, err);
}
