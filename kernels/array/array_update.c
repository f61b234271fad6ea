/* kernels/array/array_update.c - XlaDynamicUpdateSlice: an array with a block of it replaced (Keras's
 * slice_update, and so caches of keys and values in generated text).
 *
 *     input [..]  update [..] of the same rank, nowhere larger  indices [rank]   ->   [..] as input
 *
 * The block begins at `indices`, moved so far that it lies inside. Where the input is nobody else's, the
 * block is written into it: a loop that fills an array step by step does not copy it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/work.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/array_types.h"
#include "kernels/formula/formula.h"
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
    const struct td_tensor *u = c->in[1];
    struct td_tensor y;
    int64_t start[TD_MAX_RANK] = {0}, n = td_tensor_count(u);
    TD_TRY(td_take(c, 0, &y, err));
    for (int a = 0; a < y.shape.rank; a++) {
        int64_t asked = td_tensor_int(c->in[2], a), most = y.shape.dim[a] - u->shape.dim[a];
        start[a] = asked < 0 ? 0 : asked > most ? most : asked;
    }
    int64_t run = y.shape.rank > 0 ? u->shape.dim[y.shape.rank - 1] : 1;
    size_t size = td_dtype_size(y.dtype);
    for (int64_t i = 0; n > 0 && i < n / run && !td_work_spent(run + 4); i++) {
        td_elems_copy(y.dtype, (char *)y.data + (size_t)place_of(&y.shape, &u->shape, start, i) * size,
                      (const char *)u->data + (size_t)(i * run) * size, run);
    }
    td_out_move(c, 0, &y);
    return TD_OK;
}

/* ------------------------------------------------------------------ rows and gradients */

/* A block that is as long as the input along the rows begins at the first of them, whatever is asked for. */
static bool update_batchable(struct td_batchable_step *s)
{
    const int axis = s->in[0].axis;
    if (s->in[2].kind != TD_VALUE_CONST) {
        return td_batchable_no(s, "where the block goes differs from row to row");
    }
    if (s->in[0].kind != TD_VALUE_ROW || s->in[1].kind != TD_VALUE_ROW || s->in[1].axis != axis ||
        s->in[0].pre != s->in[1].pre) {
        return td_batchable_no(s, "its input and the block do not have their rows along the same axis");
    }
    return td_batchable_same_rows(s, 0, 1) && td_batchable_as_input(s, 0, 0, axis);
}

static void update_grad(struct td_grad *g)
{
    struct td_emitter *e = g->e;
    const struct td_value dy = td_grad_at(g, 0), update = td_grad_in(g, 1), asked = td_grad_in(g, 2);
    const enum td_dtype index = td_dtype_of(asked);
    const struct td_value size = td_f_shape_as(e, update, index);
    const struct td_value most = td_f_sub(e, td_f_shape_as(e, td_grad_in(g, 0), index), size);
    const struct td_value at =
        td_f_2(e, "Maximum", td_f_2(e, "Minimum", asked, most), td_emit_int(e, index, 0));
    if (td_grad_wants(g, 0)) {
        td_grad_give(
            g, 0,
            td_emit(e, "XlaDynamicUpdateSlice", TD_IN(dy, td_f_zeros_like(e, update), asked), TD_NO_ATTRS));
    }
    td_grad_give(g, 1, td_emit(e, "Slice", TD_IN(dy, at, size), TD_NO_ATTRS));
}

const struct td_op td_ops_array_update[] = {
    {.name = "XlaDynamicUpdateSlice",
     .sig = "(input:T, update:T, indices:Tindices) -> (output:T) {T:type; Tindices:type}",
     .flags = TD_OP_KEEPS,
     .batchable = TD_BATCHABLE(update_batchable),
     .host_in = 4,
     .unjudged = 4,
     .infer = update_infer,
     .kernels = TD_KERNEL("dynamic_update_slice.cpu", update_run, {"T", TD_SET_COPYABLE},
                          {"Tindices", TD_SET_INDEX}),
     .grad = update_grad},
    {.name = NULL},
};
