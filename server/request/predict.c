/* server/request/predict.c - one array of the arena, filled with a tensor for each named part of the message.
 *
 * First only names, dtypes and shapes are read, and held against the signature and what memory there is: a
 * few bytes can say that they are a gigabyte. Then each tensor is made, with its bytes copied from the
 * message for the first and last time. One without bytes is cleared like any other at the request's end. The
 * filter is borrowed from the message's arena.
 *
 * Does not: read the message (proto/request/predict_pb.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request/predict.h"

#include "core/base/mem.h"

enum td_code td_predict_inputs(struct td_request *q, struct td_registry *reg, const struct td_predict_pb *p,
                               uint64_t max_bytes, struct td_err *err)
{
    q->in = td_arena_alloc(q->arena, (size_t)p->n_in + 1, sizeof *q->in);
    if (q->in == NULL) {
        return td_no_memory(err, (size_t)p->n_in * sizeof *q->in, "a request");
    }
    for (; q->n_in < p->n_in; q->n_in++) {
        struct td_named *in = &q->in[q->n_in];
        in->name = p->in[q->n_in].name;
        in->t = (struct td_tensor){0};
        if (td_wire_tensor_head(p->in[q->n_in].tensor, &in->t, err)) {
            return td_err_wrap(err, "tensor parsing error: %s", in->name);
        }
    }
    TD_TRY(td_request_expect(q, reg, max_bytes, err));
    for (int i = 0; i < p->n_in; i++) {
        const enum td_code over = td_work_over();
        TD_TRY(over ? td_work_error(over, err) : TD_OK);
        if (td_wire_tensor(p->in[i].tensor, max_bytes, &q->in[i].t, err)) {
            return td_err_wrap(err, "tensor parsing error: %s", p->in[i].name);
        }
    }
    q->filter = p->filter;
    q->n_filter = p->n_filter;
    return TD_OK;
}
