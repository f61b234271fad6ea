/* kernels/train/collective.c - sums over the processes of a data-parallel job, as ops.
 *
 *   _SumBegin  values of T                 -> ticket        this process's part is handed over
 *   _SumEnd    ticket                      -> sum of T      that of all processes
 *   _SumNow    values of T                 -> sum of T      both at once; its gradient is that of the sum
 *
 * In a process that is alone a sum is not begun: the step has these nodes only when there are several.
 *
 * They run on the host, and leave values where they lie: what a device has made is summed on it, where the
 * collective does that, and else brought here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/collective.h"
#include "core/run/device_run.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"

static enum td_code several(const struct td_call *c, const struct td_collective **out, struct td_err *err)
{
    *out = td_collective();
    TD_FAIL_IF(*out == NULL, err, FAILED_PRECONDITION, "%s: this process is not part of a data-parallel job",
               TD_NODE_STR(c->node));
    return TD_OK;
}

static struct td_sum sum_of(const struct td_call *c, const struct td_tensor *t)
{
    return (struct td_sum){.number = (int)td_attr_int(c->node, "number"),
                           .at_once = td_attr_bool(c->node, "at_once"),
                           .dtype = t->dtype,
                           .n = td_tensor_count(t)};
}

/* Input 0 becomes this process's part. */
static enum td_code add(struct td_call *c, const struct td_collective *all, const struct td_sum *s,
                        struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_stream *stream;
    if (x->device == NULL) {
        return all->add(all->ctx, s, x->data, err);
    }
    if (all->add_there == NULL) {
        TD_TRY(td_call_bring(c, 0, &x, err));
        return all->add(all->ctx, s, x->data, err);
    }
    TD_TRY(td_call_stream(c, &stream, err));
    return all->add_there(all->ctx, s, x, stream, err);
}

/* Output 0 becomes the sum, of that shape. */
static enum td_code take(struct td_call *c, const struct td_collective *all, const struct td_sum *s,
                         const struct td_shape *shape, struct td_err *err)
{
    struct td_tensor *here, there = {0};
    struct td_stream *stream;
    if (all->take_there == NULL || td_call_device(c) == NULL) {
        TD_TRY(td_out(c, 0, NULL, &here, err));
        return all->take(all->ctx, s, here->data, err);
    }
    TD_TRY(td_call_stream(c, &stream, err));
    TD_TRY(all->take_there(all->ctx, s, stream, &there, err));
    there.shape = *shape;
    td_out_move(c, 0, &there);
    return TD_OK;
}

static enum td_code begin_run(struct td_call *c, struct td_err *err)
{
    const struct td_collective *all;
    struct td_tensor *ticket;
    TD_TRY(several(c, &all, err));
    const struct td_sum s = sum_of(c, c->in[0]);
    TD_TRY(td_out(c, 0, NULL, &ticket, err));
    TD_DATA(ticket, int32_t)[0] = s.number;
    return add(c, all, &s, err);
}

static enum td_code end_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(td_infer_rank(c, 0, 0, err));
    c->out[0] = *td_attr_shape(c->node, "shape");
    return TD_OK;
}

static enum td_code end_run(struct td_call *c, struct td_err *err)
{
    const struct td_collective *all;
    TD_TRY(several(c, &all, err));
    const struct td_sum s = {.number = TD_DATA(c->in[0], int32_t)[0],
                             .dtype = td_attr_type(c->node, "T"),
                             .n = td_shape_count(td_attr_shape(c->node, "shape"))};
    return take(c, all, &s, td_attr_shape(c->node, "shape"), err);
}

static enum td_code now_run(struct td_call *c, struct td_err *err)
{
    const struct td_collective *all;
    TD_TRY(several(c, &all, err));
    struct td_sum s = sum_of(c, c->in[0]);
    s.at_once = true;
    TD_TRY(add(c, all, &s, err));
    return take(c, all, &s, &c->in[0]->shape, err);
}

#define SUMMED (TD_BIT(TD_FLOAT) | TD_BIT(TD_DOUBLE))

const struct td_op td_ops_collective[] = {
    {.name = "_SumBegin",
     .sig = "(values:T) -> (ticket:int32) {T:type; number:int; at_once:bool=false}",
     .flags = TD_OP_STATEFUL | TD_OP_ANYWHERE,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("collective.cpu", begin_run, {"T", SUMMED}),
     .grad = td_not_differentiable},
    {.name = "_SumEnd",
     .sig = "(ticket:int32) -> (sum:T) {T:type; shape:shape}",
     .flags = TD_OP_STATEFUL | TD_OP_ANYWHERE,
     .infer = end_infer,
     .kernels = TD_KERNEL("collective.cpu", end_run, {"T", SUMMED}),
     .grad = td_not_differentiable},
    {.name = "_SumNow",
     .sig = "(values:T) -> (sum:T) {T:type; number:int; at_once:bool=true}",
     .flags = TD_OP_STATEFUL | TD_OP_ANYWHERE,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("collective.cpu", now_run, {"T", SUMMED}),
     .grad = td_pass_on_grad},
    {.name = NULL},
};
