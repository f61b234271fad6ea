/* server/grpc/grpc_gradient.c - tensord.v1.Debug.Gradient: :gradient of the HTTP API, with TensorProtos.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "proto/request/gradient_pb.h"
#include "server/grpc/grpc_rpc.h"
#include "server/models/gradient_inputs.h"
#include "server/request/gradient.h"
#include "server/request/predict.h"

td_rpc_fn td_rpc_debug_gradient;

/* What is given for targets, or for sources. */
static enum td_code add_tensors(struct td_rpc *r, const struct td_wire_map *m, bool vector,
                                struct td_err *err)
{
    for (int i = 0; i < m->n; i++) {
        struct td_tensor t;
        int input;
        TD_TRY(td_gradient_input(r->q.gradient, vector, m->name[i], &input, err));
        if (td_wire_tensor(m->at[i].tensor, r->opts->max_request_bytes, &t, err)) {
            return td_err_wrap(err, "tensor parsing error: %s", m->name[i]);
        }
        td_request_gradient_add(&r->q, input, &t); /* its dtype is checked with the inputs' */
    }
    return TD_OK;
}

static enum td_code encode(struct td_request *q, struct td_err *err)
{
    struct td_rpc *r = td_rpc_of(q);
    struct td_named *gradients;
    int n, n_outputs;
    TD_TRY(td_request_gradients(q, &gradients, &n, &n_outputs, err));
    const struct td_gradient_pb_answer answer = {.gradients = gradients,
                                                 .n_gradients = n,
                                                 .outputs = q->out,
                                                 .n_outputs = n_outputs,
                                                 .name = q->model,
                                                 .signature = q->sig->key,
                                                 .version = td_servable_version(q->servable),
                                                 .as_content = r->opts->content_outputs};
    const enum td_code rc = td_gradient_pb_write(&answer, &r->reply, err);
    td_request_gradients_clear(gradients, n);
    return rc;
}

static enum td_code read_ask(const struct td_gradient_pb *p, struct td_gradient_ask *out, struct td_err *err)
{
    *out = (struct td_gradient_ask){.targets = p->target,
                                    .n_targets = p->n_target,
                                    .wrt = p->wrt,
                                    .n_wrt = p->n_wrt,
                                    .seeded = p->output_gradients.name,
                                    .n_seeded = p->output_gradients.n,
                                    .vectors = p->vector.name,
                                    .n_vectors = p->vector.n,
                                    .recompute = p->recompute};
    TD_FAIL_IF(strcmp(p->unconnected, "") != 0 && strcmp(p->unconnected, "none") != 0 &&
                   strcmp(p->unconnected, "zero") != 0,
               err, INVALID_ARGUMENT, "'unconnected' is \"%.100s\"; it must be \"none\" or \"zero\"",
               p->unconnected);
    return td_gradient_kind(p->kind, &out->kind, err);
}

enum td_code td_rpc_debug_gradient(struct td_rpc *r, struct td_err *err)
{
    struct td_request *q = &r->q;
    struct td_gradient_pb p;
    struct td_gradient_ask ask;
    TD_TRY(td_rpc_open(r, err));
    q->api = TD_API_GRADIENT;
    TD_TRY(td_gradient_pb_read(r->in, q->arena, &p, err));
    TD_TRY(read_ask(&p, &ask, err));
    TD_TRY(td_rpc_ask_for(q, &p.predict.spec, err));
    if (td_gradient_ask_by_weights(&ask)) {
        TD_TRY(td_rpc_admit(r, TD_SCOPE_GRADIENT, q->model, err));
    }
    TD_TRY(td_request_resolve(q, r->registry, err));
    TD_TRY(td_servable_closed(q->servable, q->sig, err));
    TD_TRY(td_predict_inputs(q, r->registry, &p.predict, r->opts->max_request_bytes, err));
    TD_TRY(td_request_gradient_find(q, &ask, td_poll_step_back, err));
    TD_TRY(add_tensors(r, &p.output_gradients, false, err));
    TD_TRY(add_tensors(r, &p.vector, true, err));
    td_rpc_drop_input(r);
    td_request_gradient_ready(q, strcmp(p.unconnected, "zero") == 0);
    q->encode = encode;
    return TD_OK;
}
