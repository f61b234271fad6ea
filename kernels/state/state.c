/* kernels/state/state.c - variables by handle and by reference, temporary variables and counters.
 *
 *   VarHandleOp / VariableV2 -> a scalar RESOURCE tensor that holds the variable itself (core/run/variable.h)
 *   ReadVariableOp           -> a counted snapshot of its value; nothing is copied
 *   Assign*                  -> replaces the value, or changes it in place when nobody else holds its bytes
 *
 * Invariant (td_variable_check): a variable's value fits its declared shape; reads rely on that for their
 * inferred shape, so assignments are checked here even where the graph asks for no check.
 *
 * A destroyed variable is an uninitialised one: handles are made once, when the plan is compiled, and stay
 * valid. Sparse and sliced updates are in variable_scatter.c, optimizer steps in optimizer.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"
#include "core/base/mem.h"
#include "core/run/variable.h"
#include "kernels/cpu/accumulate.h"
#include "kernels/formula/formula.h"
#include "kernels/ops.h"
#include "kernels/state/update_nodes.h"

/* TensorFlow's shared_name of a variable that has no name of its own. */
#define ANONYMOUS_NAME "cd2c89b7-88b7-44c8-ad83-06c2a9158347"

/* ------------------------------------------------------------------ making handles */

struct variable_arg {
    const char *name;
    enum td_dtype dtype;
    const struct td_shape *shape;
};

static enum td_code create_variable(const void *arg, struct td_obj **out, struct td_err *err)
{
    const struct variable_arg *a = arg;
    struct td_variable *v;
    TD_TRY(td_variable_new(a->name, a->dtype, a->shape, &v, err));
    *out = &v->obj;
    return TD_OK;
}

static enum td_code out_handle(struct td_call *c, int i, struct td_obj *o, struct td_err *err)
{
    struct td_tensor t;
    struct td_shape scalar = td_shape_scalar();
    TD_TRY(td_tensor_new(&t, TD_RESOURCE, &scalar, err));
    td_tensor_set_obj(&t, 0, td_obj_ref(o));
    td_out_move(c, i, &t);
    return TD_OK;
}

static enum td_code find_variable(struct td_call *c, int i, const char *container, struct variable_arg arg,
                                  struct td_err *err)
{
    struct td_obj *o;
    if (!arg.name[0] || strcmp(arg.name, ANONYMOUS_NAME) == 0) {
        arg.name = c->node->name;
    }
    struct td_resource_key key = {&td_variable_type, container, arg.name};
    TD_TRY(td_resource_get(c, &key, create_variable, &arg, &o, err));
    return out_handle(c, i, o, err);
}

static enum td_code var_handle_run(struct td_call *c, struct td_err *err)
{
    const struct td_node *n = c->node;
    struct variable_arg arg = {td_attr_str(n, "shared_name"), td_attr_type(n, "dtype"),
                               td_attr_shape(n, "shape")};
    return find_variable(c, 0, td_attr_str(n, "container"), arg, err);
}

/* The first variable op took a scalar shape for "not known". */
static enum td_code variable_v1_run(struct td_call *c, struct td_err *err)
{
    const struct td_node *n = c->node;
    struct td_shape unknown = td_shape_unknown();
    const struct td_shape *shape = td_attr_shape(n, "shape");
    struct variable_arg arg = {td_attr_str(n, "shared_name"), td_attr_type(n, "dtype"),
                               shape->rank == 0 ? &unknown : shape};
    return find_variable(c, 0, td_attr_str(n, "container"), arg, err);
}

static enum td_code var_handles_run(struct td_call *c, struct td_err *err)
{
    int n_containers, n_names, n_types, n_shapes;
    const struct td_bytes *containers = td_attr_strs(c->node, "containers", &n_containers);
    const struct td_bytes *names = td_attr_strs(c->node, "shared_names", &n_names);
    const enum td_dtype *types = td_attr_types(c->node, "dtypes", &n_types);
    const struct td_shape *shapes = td_attr_shapes(c->node, "shapes", &n_shapes);
    TD_FAIL_IF(n_containers != c->n_out || n_names != c->n_out || n_types != c->n_out || n_shapes != c->n_out,
               err, INVALID_ARGUMENT,
               "%s: %d containers, %d names, %d dtypes, %d shapes, want N = %d of each", TD_NODE_STR(c->node),
               n_containers, n_names, n_types, n_shapes, c->n_out);
    for (int i = 0; i < c->n_out; i++) {
        struct variable_arg arg = {names[i].p, types[i], &shapes[i]};
        TD_TRY(find_variable(c, i, containers[i].p, arg, err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ reading */

/* The variable that the handle is known to be at layout time; NULL otherwise. */
static const struct td_variable *known_variable(const struct td_infer *c, int i)
{
    const struct td_tensor *t = c->value[i];
    if (!t || t->dtype != TD_RESOURCE || td_tensor_count(t) != 1) {
        return NULL;
    }
    struct td_obj *o = td_tensor_obj(t, 0);
    return o && o->type == &td_variable_type ? (const struct td_variable *)o : NULL;
}

static enum td_code read_infer(struct td_infer *c, struct td_err *err)
{
    TD_FAIL_IF(c->n_in != c->n_out, err, INVALID_ARGUMENT, "%s reads %d variables into %d outputs",
               TD_NODE_STR(c->node), c->n_in, c->n_out);
    for (int i = 0; i < c->n_out; i++) {
        const struct td_variable *v = known_variable(c, i);
        if (v) {
            c->out[i] = v->shape;
        }
    }
    return TD_OK;
}

static enum td_code check_dtype(const struct td_call *c, const struct td_variable *v, enum td_dtype want,
                                const char *verb, struct td_err *err)
{
    TD_FAIL_IF(v->dtype != want, err, INVALID_ARGUMENT,
               "%s: Trying to %s variable '%s' with wrong dtype. Expected %s got %s", TD_NODE_STR(c->node),
               verb, v->name, td_dtype_name(want), td_dtype_name(v->dtype));
    return TD_OK;
}

static enum td_code read_one(struct td_call *c, int i, struct td_err *err)
{
    struct td_variable *v;
    struct td_tensor t;
    TD_TRY(td_in_variable(c, i, &v, err));
    TD_TRY(check_dtype(c, v, c->node->out_type[i], "read", err));
    TD_TRY(td_variable_read_in(c, v, &t, err));
    if (!td_shape_compatible(&v->shape, &t.shape)) {
        char text[TD_SHAPE_TEXT];
        td_shape_text(&t.shape, text);
        td_tensor_clear(&t);
        TD_FAIL(err, FAILED_PRECONDITION, "%s: variable '%s' holds shape %s, declared as %s",
                TD_NODE_STR(c->node), v->name, text, TD_SHAPE_STR(&v->shape));
    }
    td_out_move(c, i, &t);
    return TD_OK;
}

static enum td_code read_run(struct td_call *c, struct td_err *err)
{
    for (int i = 0; i < c->n_out; i++) {
        TD_TRY(read_one(c, i, err));
    }
    return TD_OK;
}

/* The value itself, not a snapshot: until it is assigned again the variable has none. So whoever has it may
 * write into it, and an update comes to lie where its variable was. */
static enum td_code take_run(struct td_call *c, struct td_err *err)
{
    struct td_variable *v;
    struct td_tensor t;
    TD_TRY(td_in_variable(c, 0, &v, err));
    TD_TRY(check_dtype(c, v, c->node->out_type[0], "take", err));
    TD_TRY(td_variable_take_in(c, v, &t, err));
    td_out_move(c, 0, &t);
    return TD_OK;
}

static enum td_code variable_shape_infer(struct td_infer *c, struct td_err *err)
{
    (void)err;
    const struct td_variable *v = known_variable(c, 0);
    c->out[0] = td_shape_vector(v && v->shape.rank >= 0 ? v->shape.rank : -1);
    return TD_OK;
}

static enum td_code variable_shape_run(struct td_call *c, struct td_err *err)
{
    struct td_variable *v;
    struct td_tensor value, *out;
    TD_TRY(td_in_made_variable(c, 0, &v, err));
    TD_TRY(td_variable_read(v, &value, err));
    struct td_shape s = value.shape, vector = td_shape_vector(s.rank);
    td_tensor_clear(&value);
    TD_TRY(td_out(c, 0, &vector, &out, err));
    for (int i = 0; i < s.rank; i++) {
        if (out->dtype == TD_INT32) {
            TD_FAIL_IF(s.dim[i] > INT32_MAX, err, INVALID_ARGUMENT,
                       "%s: dimension %d of variable '%s' is %lld, want one that fits int32",
                       TD_NODE_STR(c->node), i, v->name, (long long)s.dim[i]);
            TD_DATA(out, int32_t)[i] = (int32_t)s.dim[i];
        } else {
            TD_DATA(out, int64_t)[i] = s.dim[i];
        }
    }
    return TD_OK;
}

static enum td_code is_initialized_run(struct td_call *c, struct td_err *err)
{
    struct td_variable *v;
    struct td_tensor *out;
    struct td_shape scalar = td_shape_scalar();
    TD_TRY(td_in_variable(c, 0, &v, err));
    TD_TRY(td_out(c, 0, &scalar, &out, err));
    TD_DATA(out, td_bool)[0] = td_variable_initialized(v);
    return TD_OK;
}

static enum td_code nothing_run(struct td_call *c, struct td_err *err)
{
    struct td_variable *v;
    return td_in_variable(c, 0, &v, err);
}

/* ------------------------------------------------------------------ writing */

/* Shape of the value now held, or the declared one; false while neither is fully known. */
static bool current_shape(struct td_variable *v, struct td_shape *out)
{
    pthread_mutex_lock(&v->mu);
    *out = v->value.dtype != TD_DTYPE_NONE ? v->value.shape : v->shape;
    pthread_mutex_unlock(&v->mu);
    return td_shape_known(out);
}

static enum td_code assign_value(struct td_call *c, struct td_variable *v, struct td_err *err)
{
    struct td_tensor t;
    const struct td_shape *shape = &c->in[1]->shape;
    TD_FAIL_IF(!td_shape_compatible(&v->shape, shape), err, INVALID_ARGUMENT,
               "%s: cannot assign to variable '%s': Shape mismatch. Assign requires shapes of both tensors "
               "to match: "
               "variable %s, value %s",
               TD_NODE_STR(c->node), v->name, TD_SHAPE_STR(&v->shape), TD_SHAPE_STR(shape));
    TD_TRY(td_keep(c, 1, &t, err));
    enum td_code rc = td_variable_assign_in(c, v, &t, err);
    td_tensor_clear(&t);
    return rc;
}

static enum td_code check_same_shape(struct td_call *c, struct td_variable *v, struct td_err *err)
{
    struct td_shape held;
    bool known = current_shape(v, &held);
    TD_FAIL_IF(known && !td_shape_equal(&held, &c->in[1]->shape), err, INVALID_ARGUMENT,
               "%s: Assign requires shapes of both tensors to match. lhs shape= %s rhs shape= %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&held), TD_SHAPE_STR(&c->in[1]->shape));
    return TD_OK;
}

static enum td_code assign_variable_run(struct td_call *c, struct td_err *err)
{
    struct td_variable *v;
    TD_TRY(td_in_variable(c, 0, &v, err));
    TD_TRY(check_dtype(c, v, td_attr_type(c->node, "dtype"), "assign", err));
    if (td_attr_bool(c->node, "validate_shape")) {
        TD_TRY(check_same_shape(c, v, err));
    }
    return assign_value(c, v, err);
}

static enum td_code assign_ref_run(struct td_call *c, struct td_err *err)
{
    struct td_variable *v;
    TD_TRY(td_in_variable(c, 0, &v, err));
    TD_TRY(check_dtype(c, v, td_attr_type(c->node, "T"), "assign", err));
    if (td_attr_bool(c->node, "validate_shape")) {
        TD_TRY(check_same_shape(c, v, err));
    }
    TD_TRY(assign_value(c, v, err));
    return out_handle(c, 0, &v->obj, err);
}

static enum td_code update_variable(struct td_call *c, bool sub, struct td_variable **out, struct td_err *err)
{
    struct td_variable *v;
    const struct td_tensor *x = c->in[1];
    TD_TRY(td_in_made_variable(c, 0, &v, err));
    TD_TRY(check_dtype(c, v, x->dtype, "update", err));
    TD_TRY(td_variable_edit(v, err));
    bool same = td_shape_equal(&v->value.shape, &x->shape);
    struct td_shape held = v->value.shape;
    bool done = same && td_accumulate(x->dtype, sub, v->value.data, x->data, td_tensor_count(x));
    td_variable_done(v);
    TD_FAIL_IF(!same, err, INVALID_ARGUMENT,
               "%s: Cannot update variable with shape %s using a Tensor with shape %s, shapes must be equal.",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&held), TD_SHAPE_STR(&x->shape));
    TD_FAIL_IF(!done, err, UNIMPLEMENTED, "%s: no addition for dtype %s", TD_NODE_STR(c->node),
               td_dtype_name(x->dtype));
    *out = v;
    return TD_OK;
}

static enum td_code assign_add_run(struct td_call *c, struct td_err *err)
{
    struct td_variable *v;
    return update_variable(c, false, &v, err);
}

static enum td_code assign_sub_run(struct td_call *c, struct td_err *err)
{
    struct td_variable *v;
    return update_variable(c, true, &v, err);
}

static enum td_code assign_add_ref_run(struct td_call *c, struct td_err *err)
{
    struct td_variable *v;
    TD_TRY(update_variable(c, false, &v, err));
    return out_handle(c, 0, &v->obj, err);
}

static enum td_code assign_sub_ref_run(struct td_call *c, struct td_err *err)
{
    struct td_variable *v;
    TD_TRY(update_variable(c, true, &v, err));
    return out_handle(c, 0, &v->obj, err);
}

/* CountUpTo answers the value before adding one, until `limit` is reached. */
static enum td_code count_up_to_run(struct td_call *c, struct td_err *err)
{
    struct td_variable *v;
    struct td_tensor *out;
    struct td_shape scalar = td_shape_scalar();
    int64_t limit = td_attr_int(c->node, "limit");
    TD_TRY(td_in_made_variable(c, 0, &v, err));
    TD_TRY(check_dtype(c, v, c->node->out_type[0], "count", err));
    TD_TRY(td_out(c, 0, &scalar, &out, err));
    TD_TRY(td_variable_edit(v, err));
    bool is_scalar = v->value.shape.rank == 0;
    int64_t now = is_scalar ? td_tensor_int(&v->value, 0) : limit;
    if (now < limit && v->dtype == TD_INT32) {
        TD_DATA(&v->value, int32_t)[0] = (int32_t)(now + 1);
        TD_DATA(out, int32_t)[0] = (int32_t)now;
    } else if (now < limit) {
        TD_DATA(&v->value, int64_t)[0] = now + 1;
        TD_DATA(out, int64_t)[0] = now;
    }
    td_variable_done(v);
    TD_FAIL_IF(!is_scalar, err, INVALID_ARGUMENT, "%s: input is not a scalar", TD_NODE_STR(c->node));
    TD_FAIL_IF(now >= limit, err, OUT_OF_RANGE, "%s: Reached limit of %lld", TD_NODE_STR(c->node),
               (long long)limit);
    return TD_OK;
}

/* ------------------------------------------------------------------ ending a resource */

static enum td_code destroy_variable(struct td_call *c, struct td_variable *v, struct td_err *err)
{
    TD_FAIL_IF(!td_variable_empty(v) && !td_attr_bool(c->node, "ignore_lookup_error"), err, NOT_FOUND,
               "%s: Resource %s/Var does not exist.", TD_NODE_STR(c->node), v->name);
    return TD_OK;
}

static enum td_code destroy_run(struct td_call *c, struct td_err *err)
{
    TD_FAIL_IF(td_tensor_count(c->in[0]) != 1 || !td_tensor_obj(c->in[0], 0), err, INVALID_ARGUMENT,
               "%s: resource is not one handle", TD_NODE_STR(c->node));
    struct td_obj *o = td_tensor_obj(c->in[0], 0);
    if (o->type == &td_variable_type) {
        return destroy_variable(c, (struct td_variable *)o, err);
    }
    struct td_err lookup = {0};
    enum td_code rc = td_resource_delete(c, o->type, o, &lookup);
    if (rc == TD_NOT_FOUND && td_attr_bool(c->node, "ignore_lookup_error")) {
        return TD_OK;
    }
    return rc ? td_fail(err, rc, "%s", lookup.msg) : TD_OK;
}

/* ------------------------------------------------------------------ temporary variables */

static enum td_code assign_and_out(struct td_call *c, struct td_variable *v, struct td_tensor *value,
                                   struct td_err *err)
{
    TD_TRY(td_variable_assign(v, value, err));
    return out_handle(c, 0, &v->obj, err);
}

/* A variable that only its reference edge knows. Its elements start as zeros. */
static enum td_code temporary_run(struct td_call *c, struct td_err *err)
{
    struct td_variable *v;
    struct td_tensor zeros;
    const struct td_shape *shape = td_attr_shape(c->node, "shape");
    TD_FAIL_IF(!td_shape_known(shape), err, INVALID_ARGUMENT, "%s: attribute shape is %s, want a known shape",
               TD_NODE_STR(c->node), TD_SHAPE_STR(shape));
    TD_TRY(td_tensor_new(&zeros, td_attr_type(c->node, "dtype"), shape, err));
    if (td_tensor_bytes(&zeros) > 0) {
        memset(zeros.data, 0, td_tensor_bytes(&zeros));
    }
    enum td_code rc = td_variable_new(c->node->name, zeros.dtype, shape, &v, err);
    if (!rc) {
        rc = assign_and_out(c, v, &zeros, err);
        td_obj_unref(&v->obj);
    }
    td_tensor_clear(&zeros);
    return rc;
}

static enum td_code destroy_temporary_run(struct td_call *c, struct td_err *err)
{
    return read_one(c, 0, err);
}

/* ------------------------------------------------------------------ the table */

#define ASSIGN_SET (TD_SET_ALL)
#define REF_TYPES                                                                                            \
    {                                                                                                        \
        "T", TD_SET_NUMBERS                                                                                  \
    }
#define VAR_TYPES                                                                                            \
    {                                                                                                        \
        "dtype", TD_SET_NUMBERS                                                                              \
    }

const struct td_op td_ops_state[] = {
    {.name = "VarHandleOp",
     .sig = "() -> (resource:resource) {container:string=''; shared_name:string=''; debug_name:string=''; "
            "dtype:type; "
            "shape:shape; allowed_devices:list(string)=[]}",
     .flags = TD_OP_STATEFUL | TD_OP_HANDLE,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("variable.cpu", var_handle_run)},
    {.name = "_VarHandlesOp",
     .sig = "() -> (resources:N*resource) {containers:list(string); shared_names:list(string); N:int; "
            "dtypes:list(type); shapes:list(shape)}",
     .flags = TD_OP_STATEFUL | TD_OP_HANDLE,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("variable.cpu", var_handles_run)},
    {.name = "VariableV2",
     .sig = "() -> (ref:Ref(dtype)) {shape:shape; dtype:type; container:string=''; shared_name:string=''}",
     .flags = TD_OP_STATEFUL | TD_OP_HANDLE,
     .kernels = TD_KERNEL("variable.cpu", var_handle_run)},
    {.name = "Variable",
     .sig = "() -> (ref:Ref(dtype)) {shape:shape; dtype:type; container:string=''; shared_name:string=''}",
     .flags = TD_OP_STATEFUL | TD_OP_HANDLE,
     .kernels = TD_KERNEL("variable.cpu", variable_v1_run)},
    {.name = "ReadVariableOp",
     .sig = "(resource:resource) -> (value:dtype) {dtype:type}",
     .flags = TD_OP_STATEFUL | TD_OP_READS | TD_OP_FREE | TD_OP_ANYWHERE | TD_OP_VARIABLES,
     .batchable = TD_BATCHABLE(td_batchable_read),
     .infer = read_infer,
     .kernels = TD_KERNEL("variable_read.cpu", read_run),
     .grad = td_pass_on_grad},
    {.name = "_TakeVariable",
     .sig = "(resource:resource) -> (value:dtype) {dtype:type}",
     .flags = TD_OP_STATEFUL | TD_OP_ANYWHERE | TD_OP_VARIABLES,
     .infer = read_infer,
     .kernels = TD_KERNEL("variable_read.cpu", take_run),
     .grad = td_not_differentiable},
    {.name = "_ReadVariablesOp",
     .sig = "(resources:N*resource) -> (values:dtypes) {N:int; dtypes:list(type)}",
     .flags = TD_OP_STATEFUL | TD_OP_READS | TD_OP_FREE | TD_OP_ANYWHERE | TD_OP_VARIABLES,
     .batchable = TD_BATCHABLE(td_batchable_read),
     .infer = read_infer,
     .kernels = TD_KERNEL("variable_read.cpu", read_run),
     .grad = td_pass_on_grad},
    {.name = "AssignVariableOp",
     .sig = "(resource:resource, value:dtype) -> () {dtype:type; validate_shape:bool=false}",
     .flags = TD_OP_STATEFUL | TD_OP_KEEPS | TD_OP_ANYWHERE | TD_OP_VARIABLES,
     .kernels = TD_KERNEL("variable_assign.cpu", assign_variable_run, {"dtype", ASSIGN_SET})},
    {.name = "AssignAddVariableOp",
     .sig = "(resource:resource, value:dtype) -> () {dtype:type}",
     .flags = TD_OP_STATEFUL,
     .update = td_update_add,
     .kernels = TD_KERNEL("variable_update.cpu", assign_add_run, VAR_TYPES)},
    {.name = "AssignSubVariableOp",
     .sig = "(resource:resource, value:dtype) -> () {dtype:type}",
     .flags = TD_OP_STATEFUL,
     .update = td_update_sub,
     .kernels = TD_KERNEL("variable_update.cpu", assign_sub_run, VAR_TYPES)},
    {.name = "VarIsInitializedOp",
     .sig = "(resource:resource) -> (is_initialized:bool) {}",
     .flags = TD_OP_STATEFUL | TD_OP_READS | TD_OP_FREE,
     .batchable = TD_BATCHABLE(td_batchable_read),
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("variable.cpu", is_initialized_run),
     .grad = td_not_differentiable},
    {.name = "IsVariableInitialized",
     .sig = "(ref:Ref(dtype)) -> (is_initialized:bool) {dtype:type}",
     .flags = TD_OP_NO_FOLD | TD_OP_READS | TD_OP_FREE,
     .batchable = TD_BATCHABLE(td_batchable_read),
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("variable.cpu", is_initialized_run)},
    {.name = "VariableShape",
     .sig = "(input:resource) -> (output:out_type) {out_type:type=int32}",
     .flags = TD_OP_STATEFUL | TD_OP_READS | TD_OP_FREE,
     .batchable = TD_BATCHABLE(td_batchable_read),
     .host_out = 1,
     .infer = variable_shape_infer,
     .kernels = TD_KERNEL("variable.cpu", variable_shape_run, {"out_type", TD_SET_INDEX}),
     .grad = td_not_differentiable},
    {.name = "DestroyResourceOp",
     .sig = "(resource:resource) -> () {ignore_lookup_error:bool=true}",
     .flags = TD_OP_STATEFUL,
     .kernels = TD_KERNEL("resource.cpu", destroy_run)},
    {.name = "DisableCopyOnRead",
     .sig = "(resource:resource) -> () {}",
     .flags = TD_OP_STATEFUL,
     .kernels = TD_KERNEL("variable.cpu", nothing_run)},
    {.name = "Assign",
     .sig = "(ref:Ref(T), value:T) -> (output_ref:Ref(T)) {T:type; validate_shape:bool=true; "
            "use_locking:bool=true}",
     .flags = TD_OP_NO_FOLD | TD_OP_KEEPS,
     .kernels = TD_KERNEL("variable_assign.cpu", assign_ref_run, {"T", ASSIGN_SET}),
     .grad = td_not_differentiable},
    {.name = "AssignAdd",
     .sig = "(ref:Ref(T), value:T) -> (output_ref:Ref(T)) {T:type; use_locking:bool=false}",
     .flags = TD_OP_NO_FOLD,
     .kernels = TD_KERNEL("variable_update.cpu", assign_add_ref_run, REF_TYPES),
     .grad = td_not_differentiable},
    {.name = "AssignSub",
     .sig = "(ref:Ref(T), value:T) -> (output_ref:Ref(T)) {T:type; use_locking:bool=false}",
     .flags = TD_OP_NO_FOLD,
     .kernels = TD_KERNEL("variable_update.cpu", assign_sub_ref_run, REF_TYPES),
     .grad = td_not_differentiable},
    {.name = "ResourceCountUpTo",
     .sig = "(resource:resource) -> (output:T) {limit:int; T:type}",
     .flags = TD_OP_STATEFUL,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("variable_update.cpu", count_up_to_run, {"T", TD_SET_INDEX})},
    {.name = "CountUpTo",
     .sig = "(ref:Ref(T)) -> (output:T) {limit:int; T:type}",
     .flags = TD_OP_NO_FOLD,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("variable_update.cpu", count_up_to_run, {"T", TD_SET_INDEX})},
    {.name = "TemporaryVariable",
     .sig = "() -> (ref:Ref(dtype)) {shape:shape; dtype:type; var_name:string=''}",
     .flags = TD_OP_STATEFUL,
     .kernels = TD_KERNEL("variable.cpu", temporary_run)},
    {.name = "DestroyTemporaryVariable",
     .sig = "(ref:Ref(T)) -> (value:T) {T:type; var_name:string}",
     .flags = TD_OP_NO_FOLD,
     .kernels = TD_KERNEL("variable_read.cpu", destroy_temporary_run)},
    {.name = NULL},
};
