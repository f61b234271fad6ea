/* server/request/predict.c - one array of the arena, filled with a tensor for each named part of the message.
 *
 * Each tensor is made here, once its model is known, with its bytes copied from the message for the first and
 * last time. n_in counts up as tensors are made, so a failure leaves just those for the request's end to
 * clear. The filter is borrowed from the message's arena.
 *
 * Does not: read the message (proto/request/predict_pb.c), check names or dtypes
 * (server/models/servable_run.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request/predict.h"

#include "core/base/mem.h"

enum td_code td_predict_inputs(struct td_request *q, const struct td_predict_pb *p, uint64_t max_bytes,
                               struct td_err *err)
{
    q->in = td_arena_alloc(q->arena, (size_t)p->n_in + 1, sizeof *q->in);
    if (q->in == NULL) {
        return td_no_memory(err, (size_t)p->n_in * sizeof *q->in, "a request");
    }
    for (; q->n_in < p->n_in; q->n_in++) {
        const struct td_named_wire *in = &p->in[q->n_in];
        q->in[q->n_in].name = in->name;
        if (td_wire_tensor(in->tensor, max_bytes, &q->in[q->n_in].t, err)) {
            return td_err_wrap(err, "tensor parsing error: %s", in->name);
        }
    }
    q->filter = p->filter;
    q->n_filter = p->n_filter;
    return TD_OK;
}
