/* kernels/control/control.c - functions and control flow: PartitionedCall, BatchFunction, If, Case,
 * While, For, Switch, Merge.
 *
 * Calls are inlined by the compiler; their kernel runs only in graphs that it left whole. If, Case and While
 * own functions of the library, each with a plan of its own, run through td_call_function. A While moves its
 * loop variables from one call to the next, so that a TensorList held by nobody else changes in place. TF1's
 * Switch and Merge work on dead values: an output that a kernel does not make is dead (core/run/exec.c).
 *
 * BatchFunction is a call like any other: what TensorFlow gathers there from several requests, runs at once
 * and takes apart again, is here the rows of one; requests share batches by the scheduler, which looks into
 * the function. So no batch is padded, and none is refused for more rows than max_batch_size
 * or for inputs of several numbers of rows.
 *
 * A condition of any type is true when: a number is not zero, a string is not empty, a non-scalar has
 * elements.
 *
 * Does not: run Enter/Exit/NextIteration as such; the compiler lifts those loops into While.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "core/run/device_run.h"
#include "kernels/control/branch_grad.h"
#include "kernels/control/control_batchable.h"
#include "kernels/control/loop_grad.h"
#include "kernels/control/switch_grad.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ conditions */

static enum td_code truth(const struct td_tensor *t, bool *out, struct td_err *err)
{
    int64_t n = td_tensor_count(t);
    if (t->shape.rank > 0) {
        *out = n > 0;
        return TD_OK;
    }
    switch (t->dtype) {
    case TD_STRING: {
        size_t len;
        td_tensor_str(t, 0, &len);
        *out = len > 0;
        return TD_OK;
    }
    case TD_FLOAT:
        *out = TD_DATA(t, float)[0] != 0;
        return TD_OK;
    case TD_DOUBLE:
        *out = TD_DATA(t, double)[0] != 0;
        return TD_OK;
    case TD_HALF:
    case TD_BFLOAT16:
        *out = (TD_DATA(t, uint16_t)[0] & 0x7fffu) != 0;
        return TD_OK;
    default:
        TD_FAIL_IF(!td_dtype_in(t->dtype, TD_SET_INTS | TD_BIT(TD_BOOL)), err, INVALID_ARGUMENT,
                   "a condition of dtype %s is neither a number nor a string", td_dtype_name(t->dtype));
        *out = td_tensor_int(t, 0) != 0;
        return TD_OK;
    }
}

static enum td_code in_truth(const struct td_call *c, bool *out, struct td_err *err)
{
    if (truth(c->in[0], out, err)) {
        return td_err_wrap(err, "%s", TD_NODE_STR(c->node));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ calling */

/* Runs function i of attribute attr on in[0..n_in) and makes its results the outputs of the node. */
static enum td_code call_into_outputs(struct td_call *c, const char *attr, int i,
                                      const struct td_tensor *const *in, int n_in, struct td_err *err)
{
    struct td_tensor *out = td_calloc((size_t)c->n_out + 1, sizeof *out);
    if (out == NULL) {
        return td_no_memory(err, sizeof *out, "results of a function");
    }
    struct td_function_values v = {.in = in, .n_in = n_in, .out = out, .n_out = c->n_out};
    enum td_code rc = td_call_function(c, attr, i, &v, err);
    for (int k = 0; rc == TD_OK && k < c->n_out; k++) {
        td_out_move(c, k, &out[k]);
    }
    td_free(out);
    return rc;
}

static enum td_code call_run(struct td_call *c, struct td_err *err)
{
    return call_into_outputs(c, "f", 0, c->in, c->n_in, err);
}

/* The target is a device of this process: there is only one place to run. */
static enum td_code remote_call_run(struct td_call *c, struct td_err *err)
{
    return call_into_outputs(c, "f", 0, c->in + 1, c->n_in - 1, err);
}

static enum td_code if_run(struct td_call *c, struct td_err *err)
{
    bool yes;
    TD_TRY(in_truth(c, &yes, err));
    return call_into_outputs(c, yes ? "then_branch" : "else_branch", 0, c->in + 1, c->n_in - 1, err);
}

static enum td_code case_infer(struct td_infer *c, struct td_err *err)
{
    return td_infer_rank(c, 0, 0, err);
}

static enum td_code case_run(struct td_call *c, struct td_err *err)
{
    int n = td_attr_len(c->node, "branches");
    int64_t i = td_tensor_int(c->in[0], 0);
    TD_FAIL_IF(n == 0, err, INVALID_ARGUMENT, "%s has no branches", TD_NODE_STR(c->node));
    return call_into_outputs(c, "branches", i < 0 || i >= n ? n - 1 : (int)i, c->in + 1, c->n_in - 1, err);
}

/* ------------------------------------------------------------------ While */

struct loop {
    struct td_tensor *vars, *next; /* owned; n of each */
    const struct td_tensor **in;
    int n;
};

static void loop_free(struct loop *l)
{
    for (int i = 0; i < l->n && l->vars != NULL; i++) {
        td_tensor_clear(&l->vars[i]);
    }
    td_free(l->vars);
    td_free(l->next);
    td_free(l->in);
}

static enum td_code loop_start(struct loop *l, struct td_call *c, int first, struct td_err *err)
{
    l->n = c->n_in - first;
    l->vars = td_calloc((size_t)l->n + 1, sizeof *l->vars);
    l->next = td_calloc((size_t)l->n + 2, sizeof *l->next);
    l->in = td_calloc((size_t)l->n + 2, sizeof *l->in);
    if (l->vars == NULL || l->next == NULL || l->in == NULL) {
        return td_no_memory(err, sizeof *l->vars, "loop variables");
    }
    for (int i = 0; i < l->n; i++) {
        TD_TRY(td_keep(c, first + i, &l->vars[i], err));
        l->in[i] = &l->vars[i];
    }
    return TD_OK;
}

static void loop_advance(struct loop *l)
{
    for (int i = 0; i < l->n; i++) {
        td_tensor_clear(&l->vars[i]);
        l->vars[i] = l->next[i];
    }
    memset(l->next, 0, (size_t)l->n * sizeof *l->next);
}

static enum td_code loop_iterate(struct loop *l, struct td_call *c, struct td_err *err)
{
    const bool anywhere = td_call_device(c) != NULL;
    const struct td_function_values body = {
        .in = l->in, .n_in = l->n, .out = l->next, .n_out = l->n, .gives = l->vars, .anywhere = anywhere};
    for (;;) {
        struct td_tensor cond = {0};
        bool yes;
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        const struct td_function_values test = {.in = l->in, .n_in = l->n, .out = &cond, .n_out = 1};
        TD_TRY(anywhere ? td_call_wait(c, err) : TD_OK);
        TD_TRY(td_call_function(c, "cond", 0, &test, err));
        enum td_code rc = truth(&cond, &yes, err);
        td_tensor_clear(&cond);
        if (rc || !yes) {
            return rc;
        }
        TD_TRY(td_call_function(c, "body", 0, &body, err));
        loop_advance(l);
    }
}

static enum td_code while_run(struct td_call *c, struct td_err *err)
{
    struct loop l = {0};
    enum td_code rc = loop_start(&l, c, 0, err);
    if (rc == TD_OK) {
        rc = loop_iterate(&l, c, err);
    }
    for (int i = 0; rc == TD_OK && i < c->n_out && i < l.n; i++) {
        rc = l.vars[i].device != NULL ? td_call_hold(c, &l.vars[i], err) : TD_OK;
        if (rc == TD_OK) {
            td_out_move(c, i, &l.vars[i]);
        }
    }
    loop_free(&l);
    return rc;
}

/* For(start, limit, delta, input): body(i, input...) -> input... */
static enum td_code for_infer(struct td_infer *c, struct td_err *err)
{
    for (int i = 0; i < 3; i++) {
        TD_TRY(td_infer_rank(c, i, 0, err));
    }
    return TD_OK;
}

static enum td_code for_iterate(struct loop *l, struct td_call *c, struct td_err *err)
{
    const struct td_function_values body = {.in = l->in, .n_in = l->n + 1, .out = l->next, .n_out = l->n};
    int64_t at = td_tensor_int(c->in[0], 0), limit = td_tensor_int(c->in[1], 0),
            delta = td_tensor_int(c->in[2], 0);
    TD_FAIL_IF((delta == 0 && at != limit) || (delta > 0 && at > limit) || (delta < 0 && at < limit), err,
               INVALID_ARGUMENT, "%s: start %lld, limit %lld, delta %lld: the loop would not end",
               TD_NODE_STR(c->node), (long long)at, (long long)limit, (long long)delta);
    for (; delta > 0 ? at < limit : at > limit; at += delta) {
        struct td_shape scalar = td_shape_scalar();
        struct td_tensor counter;
        if (td_stopped(c)) {
            return td_stop_error(c, err);
        }
        TD_TRY(td_tensor_new(&counter, TD_INT32, &scalar, err));
        TD_DATA(&counter, int32_t)[0] = (int32_t)at;
        for (int i = l->n; i > 0; i--) {
            l->in[i] = &l->vars[i - 1];
        }
        l->in[0] = &counter;
        enum td_code rc = td_call_function(c, "body", 0, &body, err);
        td_tensor_clear(&counter);
        if (rc) {
            return rc;
        }
        loop_advance(l);
    }
    return TD_OK;
}

static enum td_code for_run(struct td_call *c, struct td_err *err)
{
    struct loop l = {0};
    enum td_code rc = loop_start(&l, c, 3, err);
    if (rc == TD_OK) {
        rc = for_iterate(&l, c, err);
    }
    for (int i = 0; rc == TD_OK && i < c->n_out && i < l.n; i++) {
        td_out_move(c, i, &l.vars[i]);
    }
    loop_free(&l);
    return rc;
}

/* ------------------------------------------------------------------ TF1: dead values */

static enum td_code forward(struct td_call *c, int out, int in, struct td_err *err)
{
    struct td_tensor t;
    TD_TRY(td_keep(c, in, &t, err));
    td_out_move(c, out, &t);
    return TD_OK;
}

static enum td_code switch_infer(struct td_infer *c, struct td_err *err)
{
    return td_infer_rank(c, 1, 0, err);
}

static enum td_code switch_run(struct td_call *c, struct td_err *err)
{
    return forward(c, TD_DATA(c->in[1], td_bool)[0] ? 1 : 0, 0, err);
}

static enum td_code merge_run(struct td_call *c, struct td_err *err)
{
    struct td_shape scalar = td_shape_scalar();
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i] != NULL) {
            struct td_tensor *index;
            TD_TRY(td_out(c, 1, &scalar, &index, err));
            TD_DATA(index, int32_t)[0] = i;
            return forward(c, 0, i, err);
        }
    }
    return td_fail(err, TD_INTERNAL, "%s ran with no live input", TD_NODE_STR(c->node));
}

/* ------------------------------------------------------------------ small ones */

static enum td_code nothing_run(struct td_call *c, struct td_err *err)
{
    (void)c;
    (void)err;
    return TD_OK;
}

static enum td_code loop_cond_run(struct td_call *c, struct td_err *err)
{
    return forward(c, 0, 0, err);
}

static enum td_code outside_loop_run(struct td_call *c, struct td_err *err)
{
    return td_fail(err, TD_INVALID_ARGUMENT,
                   "%s is not part of a loop that Enter, Merge, Switch, NextIteration and Exit form",
                   TD_NODE_STR(c->node));
}

static enum td_code fake_param_infer(struct td_infer *c, struct td_err *err)
{
    (void)err;
    const struct td_shape *s = td_attr_shape(c->node, "shape");
    if (td_shape_known(s)) {
        c->out[0] = *s;
    } else if (c->in == NULL || s->rank < 0) {
        c->out[0] = td_shape_vector(0);
    } else {
        c->out[0] = *s;
        for (int i = 0; i < s->rank; i++) {
            c->out[0].dim[i] = s->dim[i] < 0 ? 0 : s->dim[i];
        }
    }
    return TD_OK;
}

static enum td_code fake_param_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (!td_dtype_is_object(y->dtype) && td_tensor_bytes(y) > 0) {
        memset(y->data, 0, td_tensor_bytes(y));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ branches that are certain */

static const struct td_func_ref *if_taken(const struct td_node *n, int64_t value)
{
    return td_attr_func(n, value != 0 ? "then_branch" : "else_branch", 0);
}

static const struct td_func_ref *case_taken(const struct td_node *n, int64_t value)
{
    const int branches = td_attr_len(n, "branches");
    return branches == 0
               ? NULL
               : td_attr_func(n, "branches", value < 0 || value >= branches ? branches - 1 : (int)value);
}

/* Of TensorFlow 1's loops, op by op. */
#define NOT_LIFTED "a loop becomes a While before it is differentiated; this one could not"

const struct td_op td_ops_control[] = {
    {.name = "PartitionedCall",
     .sig = "(args:Tin) -> (output:Tout) {Tin:list(type); Tout:list(type); f:func; config:string=''; "
            "config_proto:string=''; "
            "executor_type:string=''}",
     .flags = TD_OP_CALL | TD_OP_KEEPS | TD_OP_NO_FOLD,
     .batchable = TD_BATCHABLE(td_batchable_call, .any_input = true),
     .kernels = TD_KERNEL("call", call_run),
     .grad = td_call_grad},
    {.name = "StatefulPartitionedCall",
     .sig = "(args:Tin) -> (output:Tout) {Tin:list(type); Tout:list(type); f:func; config:string=''; "
            "config_proto:string=''; "
            "executor_type:string=''}",
     .flags = TD_OP_CALL | TD_OP_KEEPS | TD_OP_STATEFUL,
     .batchable = TD_BATCHABLE(td_batchable_call, .any_input = true),
     .kernels = TD_KERNEL("call", call_run),
     .grad = td_call_grad},
    {.name = "BatchFunction",
     .sig = "(in_tensors:Tin, captured_tensors:Tcaptured) -> (out_tensors:Tout) {f:func; "
            "num_batch_threads:int; max_batch_size:int; batch_timeout_micros:int; "
            "max_enqueued_batches:int=10; allowed_batch_sizes:list(int)=[]; container:string=''; "
            "shared_name:string=''; batching_queue:string=''; low_priority_max_batch_size:int=0; "
            "low_priority_batch_timeout_micros:int=0; low_priority_allowed_batch_sizes:list(int)=[]; "
            "low_priority_max_enqueued_batches:int=0; "
            "mixed_priority_policy:string='low_priority_padding_with_max_batch_size'; "
            "batch_padding_policy:string='PAD_UP'; Tin:list(type); Tcaptured:list(type); Tout:list(type); "
            "enable_large_batch_splitting:bool=false}",
     .flags = TD_OP_CALL | TD_OP_KEEPS | TD_OP_STATEFUL,
     .batchable = TD_BATCHABLE(td_batchable_call, .any_input = true),
     .kernels = TD_KERNEL("call", call_run)},
    {.name = "SymbolicGradient",
     .sig = "(input:Tin) -> (output:Tout) {Tin:list(type); Tout:list(type); f:func}",
     .flags = TD_OP_REFUSED,
     .doc = "gradients of functions are not computed while serving; export a signature that holds the "
            "gradient's own ops"},
    {.name = "RemoteCall",
     .sig = "(target:string, args:Tin) -> (output:Tout) {Tin:list(type); Tout:list(type); f:func}",
     .flags = TD_OP_KEEPS | TD_OP_STATEFUL,
     .kernels = TD_KERNEL("call.remote", remote_call_run)},
    {.name = "If",
     .sig = "(cond:Tcond, input:Tin) -> (output:Tout) {Tcond:type; Tin:list(type); Tout:list(type); "
            "then_branch:func; "
            "else_branch:func; output_shapes:list(shape)=[]}",
     .flags = TD_OP_KEEPS | TD_OP_STATEFUL,
     .branch = {.taken = if_taken},
     .batchable = TD_BATCHABLE(td_batchable_if, .any_input = true),
     .host_in = 1,
     .kernels = TD_KERNEL("if", if_run),
     .grad = td_if_grad},
    {.name = "StatelessIf",
     .sig = "(cond:Tcond, input:Tin) -> (output:Tout) {Tcond:type; Tin:list(type); Tout:list(type); "
            "then_branch:func; "
            "else_branch:func; output_shapes:list(shape)=[]}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .branch = {.taken = if_taken},
     .batchable = TD_BATCHABLE(td_batchable_if, .any_input = true),
     .host_in = 1,
     .kernels = TD_KERNEL("if", if_run),
     .grad = td_if_grad},
    {.name = "Case",
     .sig = "(branch_index:int32, input:Tin) -> (output:Tout) {Tin:list(type); Tout:list(type); "
            "branches:list(func); "
            "output_shapes:list(shape)=[]}",
     .flags = TD_OP_KEEPS | TD_OP_STATEFUL,
     .branch = {.taken = case_taken, .list = "branches"},
     .batchable = TD_BATCHABLE(td_batchable_case, .any_input = true),
     .host_in = 1,
     .infer = case_infer,
     .kernels = TD_KERNEL("case", case_run),
     .grad = td_case_grad},
    {.name = "StatelessCase",
     .sig = "(branch_index:int32, input:Tin) -> (output:Tout) {Tin:list(type); Tout:list(type); "
            "branches:list(func); "
            "output_shapes:list(shape)=[]}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .branch = {.taken = case_taken, .list = "branches"},
     .batchable = TD_BATCHABLE(td_batchable_case, .any_input = true),
     .host_in = 1,
     .infer = case_infer,
     .kernels = TD_KERNEL("case", case_run),
     .grad = td_case_grad},
    {.name = "While",
     .sig = "(input:T) -> (output:T) {T:list(type); cond:func; body:func; output_shapes:list(shape)=[]; "
            "parallel_iterations:int=10}",
     .flags = TD_OP_KEEPS | TD_OP_STATEFUL | TD_OP_ANYWHERE,
     .role = TD_ROLE_WHILE,
     .branch = {.loop_cond = "cond", .loop_body = "body"},
     .batchable = TD_BATCHABLE(td_batchable_while, .any_input = true),
     .kernels = TD_KERNEL("while", while_run),
     .grad = td_while_grad},
    {.name = "StatelessWhile",
     .sig = "(input:T) -> (output:T) {T:list(type); cond:func; body:func; output_shapes:list(shape)=[]; "
            "parallel_iterations:int=10}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD | TD_OP_ANYWHERE,
     .branch = {.loop_cond = "cond", .loop_body = "body"},
     .batchable = TD_BATCHABLE(td_batchable_while, .any_input = true),
     .kernels = TD_KERNEL("while", while_run),
     .grad = td_while_grad},
    {.name = "For",
     .sig = "(start:int32, limit:int32, delta:int32, input:T) -> (output:T) {T:list(type); body:func}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .host_in = 7,
     .infer = for_infer,
     .kernels = TD_KERNEL("for", for_run)},
    {.name = "Switch",
     .sig = "(data:T, pred:bool) -> (output_false:T, output_true:T) {T:type}",
     .flags = TD_OP_SWITCH | TD_OP_KEEPS,
     .batchable = TD_BATCHABLE(td_batchable_switch, .any_input = true),
     .host_in = 2,
     .infer = switch_infer,
     .kernels = TD_KERNEL("switch", switch_run),
     .grad = td_switch_grad},
    {.name = "RefSwitch",
     .sig = "(data:Ref(T), pred:bool) -> (output_false:Ref(T), output_true:Ref(T)) {T:type}",
     .flags = TD_OP_SWITCH | TD_OP_KEEPS,
     .batchable = TD_BATCHABLE(td_batchable_switch, .any_input = true),
     .host_in = 2,
     .infer = switch_infer,
     .kernels = TD_KERNEL("switch", switch_run),
     .grad = td_switch_grad},
    {.name = "Merge",
     .sig = "(inputs:N*T) -> (output:T, value_index:int32) {T:type; N:int}",
     .flags = TD_OP_DEAD_OK | TD_OP_KEEPS,
     .batchable = TD_BATCHABLE(td_batchable_merge, .any_input = true),
     .host_out = 2,
     .kernels = TD_KERNEL("merge", merge_run),
     .grad = td_merge_grad},
    {.name = "RefMerge",
     .sig = "(inputs:Ref(N*T)) -> (output:Ref(T), value_index:int32) {T:type; N:int}",
     .flags = TD_OP_DEAD_OK | TD_OP_KEEPS,
     .batchable = TD_BATCHABLE(td_batchable_merge, .any_input = true),
     .host_out = 2,
     .kernels = TD_KERNEL("merge", merge_run),
     .grad = td_merge_grad},
    {.name = "LoopCond",
     .sig = "(input:bool) -> (output:bool) {}",
     .flags = TD_OP_LOOP_COND | TD_OP_KEEPS,
     .infer = td_infer_same,
     .kernels = TD_KERNEL("loop_cond", loop_cond_run)},
    {.name = "Enter",
     .sig = "(data:T) -> (output:T) {T:type; frame_name:string; is_constant:bool=false; "
            "parallel_iterations:int=10}",
     .flags = TD_OP_ENTER,
     .kernels = TD_KERNEL("enter", outside_loop_run),
     .grad_missing = NOT_LIFTED},
    {.name = "RefEnter",
     .sig = "(data:Ref(T)) -> (output:Ref(T)) {T:type; frame_name:string; is_constant:bool=false; "
            "parallel_iterations:int=10}",
     .flags = TD_OP_ENTER,
     .kernels = TD_KERNEL("enter", outside_loop_run),
     .grad_missing = NOT_LIFTED},
    {.name = "Exit",
     .sig = "(data:T) -> (output:T) {T:type}",
     .flags = TD_OP_EXIT,
     .kernels = TD_KERNEL("exit", outside_loop_run),
     .grad_missing = NOT_LIFTED},
    {.name = "RefExit",
     .sig = "(data:Ref(T)) -> (output:Ref(T)) {T:type}",
     .flags = TD_OP_EXIT,
     .kernels = TD_KERNEL("exit", outside_loop_run),
     .grad_missing = NOT_LIFTED},
    {.name = "NextIteration",
     .sig = "(data:T) -> (output:T) {T:type}",
     .flags = TD_OP_NEXT,
     .kernels = TD_KERNEL("next_iteration", outside_loop_run),
     .grad_missing = NOT_LIFTED},
    {.name = "RefNextIteration",
     .sig = "(data:Ref(T)) -> (output:Ref(T)) {T:type}",
     .flags = TD_OP_NEXT,
     .kernels = TD_KERNEL("next_iteration", outside_loop_run),
     .grad_missing = NOT_LIFTED},
    {.name = "ControlTrigger",
     .sig = "() -> () {}",
     .kernels = TD_KERNEL("control_trigger", nothing_run),
     .grad = td_not_differentiable},
    {.name = "FakeParam",
     .sig = "() -> (output:dtype) {dtype:type; shape:shape}",
     .infer = fake_param_infer,
     .kernels = TD_KERNEL("fake_param", fake_param_run)},
    {.name = NULL},
};
