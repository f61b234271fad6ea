/* server/request/predict.c - see predict.h.
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
