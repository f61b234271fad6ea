/* kernels/formula/grad_formulas.c - what core/grad needs of ops (core/grad/grad.h).
 *
 * Zeros for a resource handle are those of its variable's value: asked for the shape, not the value.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kernels/formula/formula.h"
#include "kernels/formula/vectorize_rules.h"
#include "kernels/ops.h"

/* TensorFlow's shared_name of a variable that has no name of its own. */
#define ANONYMOUS_NAME "cd2c89b7-88b7-44c8-ad83-06c2a9158347"

static bool is_op(struct td_value v, const char *name)
{
    return v.node->op != NULL && strcmp(v.node->op->name, name) == 0;
}

/* dtype of the variable that the handle v leads to, when the node that makes it says so. */
static enum td_dtype variable_dtype(struct td_value v)
{
    return is_op(v, "VarHandleOp") ? td_attr_type(v.node, "dtype") : TD_DTYPE_NONE;
}

static struct td_value zeros_like(struct td_emitter *e, struct td_value v)
{
    if (td_dtype_of(v) != TD_RESOURCE) {
        return td_f_zeros_like(e, v);
    }
    const enum td_dtype dtype = variable_dtype(v);
    if (dtype == TD_DTYPE_NONE) {
        return td_emit_fail(e, TD_UNIMPLEMENTED, "no gradient for %s: what its resource holds is not known",
                            TD_NODE_STR(v.node));
    }
    return td_f_fill(e, td_f_1(e, "VariableShape", v), td_f_cast(e, td_emit_number(e, TD_FLOAT, 0), dtype));
}

/* Whether v is a list with nothing but what some elements got (kernels/control/list_grad.c). */
static bool adds_to_nothing(struct td_value v)
{
    return v.node != NULL && (is_op(v, "_TensorListAddItem") || is_op(v, "_TensorListAddItems")) &&
           is_op(v.node->in[0], "TensorListReserve");
}

/* What goes to some elements alone is added to them, instead of a whole list to another. */
static struct td_value add_variants(struct td_emitter *e, const struct td_value *v, int n)
{
    struct td_value sum = td_no_value;
    for (int i = 0; i < n; i++) {
        if (!adds_to_nothing(v[i])) {
            sum = sum.node == NULL ? v[i]
                                   : td_emit(e, "AddN", TD_IN(sum, v[i]), TD_ATTRS(TD_ATTR_OF_INT("N", 2)));
        }
    }
    for (int i = 0; i < n && e->rc == TD_OK; i++) {
        if (adds_to_nothing(v[i])) {
            sum = sum.node == NULL
                      ? v[i]
                      : td_f_as(e, v[i].node->op->name, TD_IN(sum, v[i].node->in[1], v[i].node->in[2]),
                                v[i].node, "element_dtype");
        }
    }
    return sum;
}

enum { MOST_ADDED = 4096 }; /* a node takes TD_MAX_PORTS (core/graph/define.h) */

static struct td_value add_few(struct td_emitter *e, const struct td_value *v, int n, int how)
{
    (void)how;
    return n == 1   ? v[0]
           : n == 2 ? td_f_add(e, v[0], v[1])
                    : td_emit(e, "AddN", v, n, TD_ATTRS(TD_ATTR_OF_INT("N", n)));
}

static struct td_value add_n(struct td_emitter *e, const struct td_value *v, int n)
{
    if (td_dtype_of(v[0]) == TD_VARIANT) {
        return add_variants(e, v, n);
    }
    return td_f_in_groups(e, v, n, MOST_ADDED, 0, add_few);
}

static struct td_value dense(struct td_emitter *e, const struct td_slices *s)
{
    return td_emit(e, "_GatherGrad", TD_IN(s->values, s->indices, s->shape, td_f_int(e, 0)), TD_NO_ATTRS);
}

static struct td_slices join_slices(struct td_emitter *e, const struct td_slices *s, int n)
{
    struct td_slices all = s[0];
    struct td_value *values = td_arena_alloc(e->arena, 2 * (size_t)n, sizeof *values), *indices = values + n;
    if (values == NULL) {
        (void)td_emit_fail(e, TD_RESOURCE_EXHAUSTED, "no memory for a gradient of %d slices", n);
        return all;
    }
    for (int i = 0; i < n; i++) {
        values[i] = s[i].values;
        indices[i] = td_f_cast(e, s[i].indices, td_dtype_of(s[0].indices));
    }
    all.values = td_f_concat(e, values, n, 0);
    all.indices = td_f_concat(e, indices, n, 0);
    return all;
}

static struct td_value seed(struct td_emitter *e, struct td_value given, struct td_value target,
                            const char *name)
{
    return td_emit(e, "_GradientSeed", TD_IN(given, target), TD_ATTRS(TD_ATTR_OF_TEXT("of", name)));
}

static struct td_value vector(struct td_emitter *e, struct td_value given, struct td_value gradient,
                              const char *name)
{
    return td_emit(e, "_GradientSeed", TD_IN(given, gradient),
                   TD_ATTRS(TD_ATTR_OF_TEXT("of", name), TD_ATTR_OF_BOOL("vector", true)));
}

static struct td_value one(struct td_emitter *e, struct td_value target, const char *name)
{
    return td_f_ones_like(e, td_emit(e, "_OneElement", TD_IN(target), TD_ATTRS(TD_ATTR_OF_TEXT("of", name))));
}

static struct td_value later(struct td_emitter *e, struct td_value v, struct td_value when)
{
    return td_f_2(e, "_Later", v, when);
}

static struct td_value n_rows(struct td_emitter *e, struct td_value rows)
{
    return td_f_part(e, td_f_shape(e, rows), 0, 1);
}

static struct td_value spread(struct td_emitter *e, struct td_value v, struct td_value k)
{
    return td_f_broadcast_to(e, v, td_f_concat(e, TD_IN(k, td_f_shape(e, v)), 0));
}

static struct td_value map_rows(struct td_emitter *e, const struct td_grad_map *m)
{
    struct td_value *in = td_arena_alloc(e->arena, (size_t)m->n_in + 1, sizeof *in);
    enum td_dtype *types = td_arena_alloc(e->arena, (size_t)m->n_in + 1, sizeof *types);
    struct td_func_ref f = {.name = m->function};
    if (in == NULL || types == NULL) {
        return td_emit_fail(e, TD_RESOURCE_EXHAUSTED, "no memory for a jacobian's program");
    }
    in[0] = m->k;
    for (int i = 0; i < m->n_in; i++) {
        in[1 + i] = m->in[i];
        types[i] = td_dtype_of(m->in[i]);
    }
    const struct td_attr attrs[] = {
        {.name = "f", .kind = TD_ATTR_FUNC, .n = 1, .func = &f},
        {.name = "Tin", .kind = TD_ATTR_TYPE, .is_list = true, .n = m->n_in, .type = types},
        {.name = "many",
         .kind = TD_ATTR_BOOL,
         .is_list = true,
         .n = m->n_in,
         .b = (bool *)(uintptr_t)m->many},
        {.name = "Tout",
         .kind = TD_ATTR_TYPE,
         .is_list = true,
         .n = m->n_out,
         .type = (enum td_dtype *)(uintptr_t)m->dtype}};
    return td_emit(e, "_MapRows", in, 1 + m->n_in, attrs, (int)(sizeof attrs / sizeof *attrs));
}

static struct td_value shape_of(struct td_emitter *e, struct td_value like)
{
    return like.node == NULL                  ? td_f_int(e, -1)
           : td_dtype_of(like) == TD_RESOURCE ? td_f_1(e, "VariableShape", like)
                                              : td_f_shape(e, like);
}

static struct td_value rows(struct td_emitter *e, const struct td_grad_rows *r)
{
    const int n_in = 1 + r->n + r->n_args;
    struct td_value *in = td_arena_alloc(e->arena, (size_t)n_in, sizeof *in);
    enum td_dtype *types = td_arena_alloc(e->arena, (size_t)r->n_args + 1, sizeof *types);
    struct td_func_ref f = {.name = r->function};
    if (in == NULL || types == NULL) {
        return td_emit_fail(e, TD_RESOURCE_EXHAUSTED, "no memory for a jacobian of %d arguments", r->n_args);
    }
    in[0] = r->target;
    for (int i = 0; i < r->n; i++) {
        in[1 + i] = shape_of(e, r->like[i]);
    }
    for (int i = 0; i < r->n_args; i++) {
        in[1 + r->n + i] = r->args[i];
        types[i] = td_dtype_of(r->args[i]);
    }
    const struct td_attr attrs[] = {
        {.name = "f", .kind = TD_ATTR_FUNC, .n = 1, .func = &f},
        {.name = "Targs", .kind = TD_ATTR_TYPE, .is_list = true, .n = r->n_args, .type = types},
        {.name = "Tout",
         .kind = TD_ATTR_TYPE,
         .is_list = true,
         .n = r->n,
         .type = (enum td_dtype *)(uintptr_t)r->dtype},
        TD_ATTR_OF_INT("N", r->n),
        TD_ATTR_OF_INT("limit_bytes", r->limit_bytes),
        TD_ATTR_OF_BOOL("many", r->many),
        TD_ATTR_OF_TEXT("what", r->what),
        TD_ATTR_OF_TEXT("of", r->of)};
    return td_emit(e, "_Jacobian", in, n_in, attrs, (int)(sizeof attrs / sizeof *attrs));
}

static const char *variable(struct td_value v)
{
    if (v.port != 0 || !(is_op(v, "VarHandleOp") || is_op(v, "VariableV2") || is_op(v, "Variable"))) {
        return NULL;
    }
    const char *shared = td_attr_str(v.node, "shared_name");
    return shared[0] != 0 && strcmp(shared, ANONYMOUS_NAME) != 0 ? shared : v.node->name;
}

const struct td_grad_formulas td_grad_formulas = {
    .zeros_like = zeros_like,
    .ones_like = td_f_ones_like,
    .add_n = add_n,
    .concat = td_f_concat,
    .dense = dense,
    .join_slices = join_slices,
    .seed = seed,
    .vector = vector,
    .one = one,
    .vectorize = td_many_default,
    .n_rows = n_rows,
    .spread = spread,
    .map_rows = map_rows,
    .later = later,
    .rows = rows,
    .variable = variable,
};
