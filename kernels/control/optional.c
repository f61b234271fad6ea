/* kernels/control/optional.c - an Optional: a counted object with an array of tensors, never changed once
 * made.
 *
 * It counts how deep it nests, so that a graph cannot build a chain that is too deep to free by recursion
 * (td_tensor_list_nest). Making one moves or keeps the tensors without copying their bytes; reading shares
 * them, after dtypes and shapes were compared with what the op declares.
 *
 * Does not: lock (it is immutable), know iterators, which return Optionals (kernels/data/iterator.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/optional.h"

#include "core/base/mem.h"
#include "kernels/control/pass_grad.h"
#include "kernels/ops.h"
#include "kernels/control/tensor_list.h"

struct optional {
    struct td_nest nest;
    bool has_value;
    int n;
    struct td_tensor *items;
};

static void optional_destroy(struct td_obj *o)
{
    struct optional *p = (struct optional *)o;
    for (int i = 0; i < p->n; i++) {
        td_tensor_clear(&p->items[i]);
    }
    td_free(p->items);
    td_free(p);
}

static const struct td_obj_type optional_type = {
    .name = "Optional", .destroy = optional_destroy, .nests = true};

static enum td_code optional_new(int n, bool has_value, struct optional **out, struct td_err *err)
{
    struct optional *p = td_calloc(1, sizeof *p);
    if (!p) {
        return td_no_memory(err, sizeof *p, "optional");
    }
    td_obj_init(&p->nest.obj, &optional_type);
    p->nest.depth = 1;
    p->has_value = has_value;
    p->items = n > 0 ? td_calloc((size_t)n, sizeof *p->items) : NULL;
    if (n > 0 && !p->items) {
        td_obj_unref(&p->nest.obj);
        return td_no_memory(err, (size_t)n * sizeof *p->items, "optional");
    }
    p->n = n;
    *out = p;
    return TD_OK;
}

enum td_code td_optional_make(struct td_tensor *items, int n, struct td_obj **out, struct td_err *err)
{
    struct optional *p;
    TD_TRY(optional_new(items ? n : 0, items != NULL, &p, err));
    for (int i = 0; i < p->n; i++) {
        int depth = 1;
        enum td_code rc = td_tensor_list_nest(&items[i], &depth, err);
        if (rc) {
            td_obj_unref(&p->nest.obj);
            return rc;
        }
        p->nest.depth = depth > p->nest.depth ? depth : p->nest.depth;
        p->items[i] = items[i];
        memset(&items[i], 0, sizeof items[i]);
    }
    *out = &p->nest.obj;
    return TD_OK;
}

bool td_optional_is(const struct td_obj *o)
{
    return o != NULL && o->type == &optional_type;
}

const struct td_tensor *td_optional_items(const struct td_obj *o, int *n)
{
    const struct optional *p = (const struct optional *)o;
    if (!td_optional_is(o) || !p->has_value) {
        return NULL;
    }
    *n = p->n;
    return p->items;
}

static enum td_code keep_items(struct td_call *c, struct optional *p, struct td_err *err)
{
    for (int i = 0; i < c->n_in; i++) {
        int depth = 1;
        TD_TRY(td_tensor_list_nest(c->in[i], &depth, err));
        TD_TRY(td_keep(c, i, &p->items[i], err));
        p->nest.depth = depth > p->nest.depth ? depth : p->nest.depth;
    }
    return TD_OK;
}

static enum td_code from_value_run(struct td_call *c, struct td_err *err)
{
    struct optional *p;
    TD_TRY(optional_new(c->n_in, true, &p, err));
    enum td_code rc = keep_items(c, p, err);
    if (rc) {
        td_obj_unref(&p->nest.obj);
        return rc;
    }
    return td_tensor_list_out_nest(c, &p->nest, err);
}

static enum td_code none_run(struct td_call *c, struct td_err *err)
{
    struct optional *p;
    TD_TRY(optional_new(0, false, &p, err));
    return td_tensor_list_out_nest(c, &p->nest, err);
}

static enum td_code in_optional(const struct td_call *c, struct optional **out, struct td_err *err)
{
    const struct td_tensor *t = c->in[0];
    TD_FAIL_IF(td_tensor_count(t) != 1, err, INVALID_ARGUMENT, "%s: input is not a scalar optional: %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(&t->shape));
    struct td_obj *o = td_tensor_obj(t, 0);
    TD_FAIL_IF(!o || o->type != &optional_type, err, INVALID_ARGUMENT,
               "%s: input is not an OptionalVariant object but '%s'", TD_NODE_STR(c->node),
               o ? o->type->name : "unset variant");
    *out = (struct optional *)o;
    return TD_OK;
}

static enum td_code has_value_run(struct td_call *c, struct td_err *err)
{
    struct optional *p;
    struct td_tensor *out;
    TD_TRY(in_optional(c, &p, err));
    TD_TRY(td_out(c, 0, NULL, &out, err));
    TD_DATA(out, td_bool)[0] = p->has_value;
    return TD_OK;
}

static enum td_code get_infer(struct td_infer *c, struct td_err *err)
{
    int n;
    const struct td_shape *shapes = td_attr_shapes(c->node, "output_shapes", &n);
    TD_FAIL_IF(n != c->n_out, err, INVALID_ARGUMENT,
               "%s: %d output_shapes for %d output_types, want one for each", TD_NODE_STR(c->node), n,
               c->n_out);
    for (int i = 0; i < n; i++) {
        c->out[i] = shapes[i];
    }
    return TD_OK;
}

static enum td_code get_value_run(struct td_call *c, struct td_err *err)
{
    struct optional *p;
    int n;
    const struct td_shape *shapes = td_attr_shapes(c->node, "output_shapes", &n);
    TD_TRY(in_optional(c, &p, err));
    TD_FAIL_IF(!p->has_value, err, INVALID_ARGUMENT, "%s: The given optional does not have a value.",
               TD_NODE_STR(c->node));
    TD_FAIL_IF(p->n != c->n_out, err, INVALID_ARGUMENT,
               "%s: The given optional has %d components, expected %d", TD_NODE_STR(c->node), p->n, c->n_out);
    for (int i = 0; i < p->n; i++) {
        struct td_tensor t;
        TD_FAIL_IF(p->items[i].dtype != c->node->out_type[i], err, INVALID_ARGUMENT,
                   "%s: component %d has dtype %s, expected %s", TD_NODE_STR(c->node), i,
                   td_dtype_name(p->items[i].dtype), td_dtype_name(c->node->out_type[i]));
        TD_FAIL_IF(!td_shape_compatible(&shapes[i], &p->items[i].shape), err, INVALID_ARGUMENT,
                   "%s: component %d has shape %s, expected %s", TD_NODE_STR(c->node), i,
                   TD_SHAPE_STR(&p->items[i].shape), TD_SHAPE_STR(&shapes[i]));
        td_tensor_ref(&t, &p->items[i]);
        td_out_move(c, i, &t);
    }
    return TD_OK;
}

const struct td_op td_ops_optional[] = {
    {.name = "OptionalFromValue",
     .sig = "(components:Toutput_types) -> (optional:variant) {Toutput_types:list(type)}",
     .flags = TD_OP_KEEPS | TD_OP_NO_FOLD,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("optional.cpu", from_value_run),
     .grad = td_optional_from_value_grad},
    {.name = "OptionalNone",
     .sig = "() -> (optional:variant) {}",
     .flags = TD_OP_NO_FOLD,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("optional.cpu", none_run),
     .grad = td_not_differentiable},
    {.name = "OptionalHasValue",
     .sig = "(optional:variant) -> (has_value:bool) {}",
     .host_out = 1,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("optional.cpu", has_value_run),
     .grad = td_not_differentiable},
    {.name = "OptionalGetValue",
     .sig = "(optional:variant) -> (components:output_types) {output_types:list(type); "
            "output_shapes:list(shape)}",
     .infer = get_infer,
     .kernels = TD_KERNEL("optional.cpu", get_value_run),
     .grad = td_optional_get_value_grad},
    {.name = NULL},
};
