/* kernels/array/array_identity.c - ops that pass tensors through, that stand for fed values, and constants.
 *
 * Placeholders and function arguments have rows so that graphs resolve; their kernels run only when nobody
 * fed them, and then say so. Identities are removed by the compiler where it can; the kernels serve the
 * rest.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"
#include "core/batchable/batchable_rule.h"
#include "kernels/cpu/array_types.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"

/* ------------------------------------------------------------------ fed values and constants */

static enum td_code placeholder_infer(struct td_infer *c, struct td_err *err)
{
    (void)err;
    const struct td_shape *s = td_attr_shape(c->node, "shape");
    /* Old files write [] where they mean "unknown". */
    if (s != NULL && s->rank > 0) {
        c->out[0] = *s;
    }
    return TD_OK;
}

static enum td_code placeholder_run(struct td_call *c, struct td_err *err)
{
    const struct td_shape *s = td_attr_shape(c->node, "shape");
    const bool typed = s != NULL && s->rank > 0;
    TD_FAIL(err, INVALID_ARGUMENT, "%s: You must feed a value for placeholder tensor '%s' with dtype %s%s%s",
            TD_NODE_STR(c->node), c->node->name, td_dtype_name(c->node->out_type[0]),
            typed ? " and shape " : "", typed ? TD_SHAPE_STR(s) : "");
}

static enum td_code const_infer(struct td_infer *c, struct td_err *err)
{
    (void)err;
    const struct td_tensor *value = td_attr_tensor(c->node, "value");
    if (value != NULL && value->dtype != TD_DTYPE_NONE) {
        c->out[0] = value->shape;
    }
    return TD_OK;
}

static enum td_code const_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *value = td_attr_tensor(c->node, "value");
    TD_FAIL_IF(value == NULL || value->dtype != c->node->out_type[0], err, INVALID_ARGUMENT,
               "%s: attribute 'value' is %s, dtype is %s", TD_NODE_STR(c->node),
               value == NULL ? "missing" : td_dtype_name(value->dtype), td_dtype_name(c->node->out_type[0]));
    struct td_tensor t;
    td_tensor_ref(&t, value);
    td_out_move(c, 0, &t);
    return TD_OK;
}

/* ------------------------------------------------------------------ identities */

static enum td_code identity_run(struct td_call *c, struct td_err *err)
{
    return td_out_view(c, 0, 0, NULL, err);
}

static enum td_code identity_n_infer(struct td_infer *c, struct td_err *err)
{
    (void)err;
    for (int i = 0; i < c->n_out && i < c->n_in; i++) {
        c->out[i] = c->in[i];
    }
    return TD_OK;
}

/* Also of reference edges: the edge's value passes on. */
static enum td_code identity_n_run(struct td_call *c, struct td_err *err)
{
    for (int i = 0; i < c->n_out; i++) {
        struct td_tensor t;
        TD_TRY(td_keep(c, i, &t, err));
        td_out_move(c, i, &t);
    }
    return TD_OK;
}

static enum td_code copy_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    if (td_tensor_count(x) > 0) {
        td_elems_copy(x->dtype, y->data, x->data, td_tensor_count(x));
    }
    return TD_OK;
}

static enum td_code ensure_shape_infer(struct td_infer *c, struct td_err *err)
{
    const struct td_shape *want = td_attr_shape(c->node, "shape");
    TD_FAIL_IF(!td_shape_compatible(want, &c->in[0]), err, INVALID_ARGUMENT,
               "%s: Shape of tensor %s %s is not compatible with expected shape %s.", TD_NODE_STR(c->node),
               c->node->n_in > 0 ? c->node->in[0].node->name : "", TD_SHAPE_STR(&c->in[0]),
               TD_SHAPE_STR(want));
    return td_shape_merge(want, &c->in[0], &c->out[0], err);
}

static enum td_code no_op_run(struct td_call *c, struct td_err *err)
{
    (void)c;
    (void)err;
    return TD_OK;
}

static void prevent_grad(struct td_grad *g)
{
    td_emit_fail(g->e, TD_UNIMPLEMENTED, "Gradient explicitly disabled for %s. Reason: %s",
                 TD_NODE_STR(g->node), td_attr_str(g->node, "message"));
}

#define IDENTITY_ROW(op, signature, more_flags, gradient)                                                    \
    {                                                                                                        \
        .name = op, .sig = signature, .flags = TD_OP_IDENTITY | TD_OP_VIEW | (more_flags), .grad = gradient, \
        .batchable = TD_BATCHABLE(td_batchable_same, .any_input = true), .infer = td_infer_same,             \
        .kernels = TD_KERNEL("identity.cpu", identity_run, {NULL, 0})                                        \
    }
#define COPY_ROW(op, signature, more_flags, ...)                                                             \
    {                                                                                                        \
        .name = op, .sig = signature, .flags = more_flags, .permute = &td_permute_map,                       \
        .batchable = TD_BATCHABLE_MOVES(td_batchable_map, 0, 0), .infer = td_infer_same,                     \
        .kernels = TD_KERNEL("copy.cpu", copy_run, __VA_ARGS__)                                              \
    }
#define FED_ROW(op, signature, more_flags)                                                                   \
    {                                                                                                        \
        .name = op, .sig = signature, .flags = TD_OP_ARG | (more_flags), .infer = placeholder_infer,         \
        .kernels = TD_KERNEL("placeholder.cpu", placeholder_run, {NULL, 0})                                  \
    }

const struct td_op td_ops_array_identity[] = {
    FED_ROW("Placeholder", "() -> (output:dtype) {dtype:type; shape:shape=?}", 0),
    FED_ROW("PlaceholderV2", "() -> (output:dtype) {dtype:type; shape:shape}", 0),
    {.name = "_Arg",
     .sig = "() -> (output:T) {T:type; index:int}",
     .flags = TD_OP_ARG | TD_OP_STATEFUL,
     .role = TD_ROLE_ARG,
     .kernels = TD_KERNEL("placeholder.cpu", placeholder_run, {NULL, 0})},
    {.name = "Const",
     .sig = "() -> (output:dtype) {value:tensor; dtype:type}",
     .flags = TD_OP_CONST,
     .infer = const_infer,
     .kernels = TD_KERNEL("const.cpu", const_run, {NULL, 0}),
     .grad = td_not_differentiable},
    {.name = "HostConst",
     .sig = "() -> (output:dtype) {value:tensor; dtype:type}",
     .flags = TD_OP_CONST,
     .host_out = 1,
     .infer = const_infer,
     .kernels = TD_KERNEL("const.cpu", const_run, {NULL, 0})},
    {.name = "ImmutableConst",
     .sig = "() -> (tensor:dtype) {dtype:type; shape:shape; memory_region_name:string}",
     .flags = TD_OP_REFUSED,
     .doc = "maps any file of this machine into memory"},
    {.name = "NoOp", .sig = "() -> () {}", .kernels = TD_KERNEL("no_op.cpu", no_op_run, {NULL, 0})},
    IDENTITY_ROW("Identity", "(input:T) -> (output:T) {T:type}", 0, td_pass_on_grad),
    IDENTITY_ROW("StopGradient", "(input:T) -> (output:T) {T:type}", 0, td_not_differentiable),
    IDENTITY_ROW("PreventGradient", "(input:T) -> (output:T) {T:type; message:string=''}", 0, prevent_grad),
    IDENTITY_ROW("GuaranteeConst", "(input:T) -> (output:T) {T:type}", TD_OP_STATEFUL, NULL),
    IDENTITY_ROW("DebugGradientIdentity", "(input:T) -> (output:T) {T:type}", 0, td_pass_on_grad),
    IDENTITY_ROW("Copy",
                 "(input:T) -> (output:T) {T:type; tensor_name:string=''; debug_ops_spec:list(string)=[]}", 0,
                 NULL),
    IDENTITY_ROW("CopyHost",
                 "(input:T) -> (output:T) {T:type; tensor_name:string=''; debug_ops_spec:list(string)=[]}", 0,
                 NULL),
    {.name = "PlaceholderWithDefault",
     .sig = "(input:dtype) -> (output:dtype) {dtype:type; shape:shape}",
     .flags = TD_OP_VIEW,
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_map, 0, 0),
     .infer = td_infer_same,
     .kernels = TD_KERNEL("identity.cpu", identity_run, {NULL, 0}),
     .grad = td_pass_on_grad},
    {.name = "EnsureShape",
     .sig = "(input:T) -> (output:T) {shape:shape; T:type}",
     .flags = TD_OP_VIEW,
     .permute = &td_permute_map,
     .batchable = TD_BATCHABLE_MOVES(td_batchable_map, 0, 0),
     .infer = ensure_shape_infer,
     .kernels = TD_KERNEL("identity.cpu", identity_run, {NULL, 0}),
     .grad = td_pass_on_grad},
    {.name = "IdentityN",
     .sig = "(input:T) -> (output:T) {T:list(type)}",
     .flags = TD_OP_IDENTITY | TD_OP_KEEPS,
     .batchable = TD_BATCHABLE(td_batchable_same, .any_input = true),
     .infer = identity_n_infer,
     .kernels = TD_KERNEL("identity_n.cpu", identity_n_run, {NULL, 0}),
     .grad = td_pass_on_grad},
    {.name = "RefIdentity",
     .sig = "(input:Ref(T)) -> (output:Ref(T)) {T:type}",
     .flags = TD_OP_IDENTITY | TD_OP_KEEPS,
     .infer = identity_n_infer,
     .kernels = TD_KERNEL("identity_n.cpu", identity_n_run, {NULL, 0}),
     .grad = td_pass_on_grad},
    COPY_ROW("Snapshot", "(input:T) -> (output:T) {T:type}", TD_OP_ELEMENTWISE, {"T", TD_SET_NUM_BOOL}),
    COPY_ROW("DeepCopy", "(x:T) -> (y:T) {T:type}", TD_OP_STATEFUL, {NULL, 0}),
    {.name = NULL},
};
