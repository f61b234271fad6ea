/* kernels/array/array_update.c - XlaDynamicUpdateSlice: an array with a block of it replaced (Keras's
 * slice_update, and so caches of keys and values in generated text).
 *
 *     input [..]  update [..] of the same rank, nowhere larger  indices [rank]   ->   [..] as input
 *
 * The block begins at `indices`, moved so far that it lies inside.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/work.h"
#include "kernels/cpu/array_types.h"
#include "kernels/ops.h"

static enum td_code update_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *x = &c->in[0], *u = &c->in[1], *at = &c->in[2];
    TD_TRY(td_infer_rank(c, 2, 1, err));
    TD_FAIL_IF(x->rank >= 0 && u->rank >= 0 && x->rank != u->rank, err, INVALID_ARGUMENT,
               "%s: input %s and update %s must have the same rank", TD_NODE_STR(c->node), TD_SHAPE_STR(x),
               TD_SHAPE_STR(u));
    TD_FAIL_IF(x->rank >= 0 && at->rank == 1 && at->dim[0] >= 0 && at->dim[0] != x->rank, err,
               INVALID_ARGUMENT, "%s: indices must have as many elements as input %s has axes, got %lld",
               TD_NODE_STR(c->node), TD_SHAPE_STR(x), (long long)at->dim[0]);
    for (int i = 0; x->rank >= 0 && i < u->rank; i++) {
        TD_FAIL_IF(x->dim[i] >= 0 && u->dim[i] > x->dim[i], err, INVALID_ARGUMENT,
                   "%s: update %s is larger than input %s on axis %d", TD_NODE_STR(c->node), TD_SHAPE_STR(u),
                   TD_SHAPE_STR(x), i);
    }
    c->out[0] = *x;
    return TD_OK;
}

/* Index in y of the first element of run `run` of the update, which goes over all axes but the last. */
static int64_t place_of(const struct td_shape *y, const struct td_shape *u, const int64_t *start, int64_t run)
{
    int64_t at = 0, step = 1, rest = run;
    for (int a = y->rank - 1; a >= 0; a--) {
        bool last = a == y->rank - 1;
        at += (start[a] + (last ? 0 : rest % u->dim[a])) * step;
        rest = last ? rest : rest / u->dim[a];
        step *= y->dim[a];
    }
    return at;
}

static enum td_code update_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0], *u = c->in[1];
    struct td_tensor *y;
    int64_t start[TD_MAX_RANK] = {0}, n = td_tensor_count(u);
    TD_TRY(td_out(c, 0, NULL, &y, err));
    td_elems_copy(y->dtype, y->data, x->data, td_tensor_count(x));
    if (n == 0) {
        return TD_OK;
    }
    for (int a = 0; a < y->shape.rank; a++) {
        int64_t asked = td_tensor_int(c->in[2], a), most = y->shape.dim[a] - u->shape.dim[a];
        start[a] = asked < 0 ? 0 : asked > most ? most : asked;
    }
    int64_t run = y->shape.rank > 0 ? u->shape.dim[y->shape.rank - 1] : 1;
    size_t size = td_dtype_size(y->dtype);
    for (int64_t i = 0; i < n / run && !td_work_spent(run + 4); i++) {
        td_elems_copy(y->dtype, (char *)y->data + (size_t)place_of(&y->shape, &u->shape, start, i) * size,
                      (const char *)u->data + (size_t)(i * run) * size, run);
    }
    return TD_OK;
}

const struct td_op td_ops_array_update[] = {
    {.name = "XlaDynamicUpdateSlice",
     .sig = "(input:T, update:T, indices:Tindices) -> (output:T) {T:type; Tindices:type}",
     .host_in = 4,
     .unjudged = 4,
     .infer = update_infer,
     .kernels = TD_KERNEL("dynamic_update_slice.cpu", update_run, {"T", TD_SET_COPYABLE},
                          {"Tindices", TD_SET_INDEX})},
    {.name = NULL},
};
