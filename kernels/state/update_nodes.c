/* kernels/state/update_nodes.c - the formulas of optimizer_any.h, in its order, over values.
 *
 * In each, v[k] is what the k-th variable was and then becomes, g the gradient, s the scalars in the op's
 * order without the gradient.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/state/update_nodes.h"

#include "core/graph/attr.h"
#include "core/run/variable.h"
#include "kernels/formula/formula.h"

enum { MOST_VARS = 4, MOST_SCALARS = 6 };

struct update {
    struct td_emitter *e;
    const struct td_node *n;
    struct td_value handle[MOST_VARS], v[MOST_VARS], g, s[MOST_SCALARS];
    enum td_dtype dtype;
};

/* ------------------------------------------------------------------ what goes in */

/* The variable, if it is known, is of the dtype, and has one shape; NULL: else. */
static const struct td_variable *variable_of(struct td_value handle, enum td_dtype dtype)
{
    const struct td_tensor *t = td_known_value(handle);
    const struct td_obj *o =
        t != NULL && t->dtype == TD_RESOURCE && td_tensor_count(t) == 1 ? td_tensor_obj(t, 0) : NULL;
    const struct td_variable *v =
        o != NULL && o->type == &td_variable_type ? (const struct td_variable *)o : NULL;
    return v != NULL && v->dtype == dtype && td_shape_known(&v->shape) ? v : NULL;
}

static struct td_value of_shape(struct td_emitter *e, struct td_value v, const struct td_shape *shape)
{
    struct td_shape own = *shape;
    const struct td_attr attr = {.name = "shape", .kind = TD_ATTR_SHAPE, .n = 1, .shape = &own};
    return td_emit(e, "EnsureShape", TD_IN(v), &attr, 1);
}

/* Whether n, of so many variables, whose gradient is input `grad`, can be made nodes: no other value is as
 * likely to be one variable's as another's. */
static bool may(const struct td_node *n, int n_vars, int grad)
{
    const struct td_variable *v[MOST_VARS];
    const enum td_dtype dtype = td_dtype_of(n->in[grad]);
    bool ok = dtype == TD_FLOAT || dtype == TD_DOUBLE;
    for (int k = 0; ok && k < n_vars; k++) {
        v[k] = variable_of(n->in[k], dtype);
        ok = v[k] != NULL && td_shape_equal(&v[k]->shape, &v[0]->shape);
        for (int i = 0; ok && i < k; i++) {
            ok = v[i] != v[k];
        }
    }
    return ok;
}

/* False: it stays as it is. Else *u has what it reads. */
static bool begin(struct td_emitter *e, const struct td_node *n, int n_vars, int grad, struct update *u)
{
    const struct td_shape scalar = td_shape_scalar();
    int k = 0;
    if (!may(n, n_vars, grad)) {
        return false;
    }
    *u = (struct update){.e = e, .n = n, .dtype = td_dtype_of(n->in[grad])};
    for (int i = 0; i < n_vars; i++) {
        u->handle[i] = n->in[i];
        u->v[i] = td_emit(e, "ReadVariableOp", TD_IN(n->in[i]), TD_ATTRS(TD_ATTR_OF_TYPE("dtype", u->dtype)));
    }
    for (int i = n_vars; i < n->n_in; i++) {
        if (i == grad) {
            u->g = of_shape(e, n->in[i], &variable_of(n->in[0], u->dtype)->shape);
        } else {
            u->s[k++] = of_shape(e, n->in[i], &scalar);
        }
    }
    return true;
}

/* Variables 1 .. n_vars are assigned; n becomes the assignment of the first, as which it is waited for. */
static void end(const struct update *u, struct td_node *n, int n_vars)
{
    const struct td_attr dtype = TD_ATTR_OF_TYPE("dtype", u->dtype);
    for (int k = 1; k < n_vars; k++) {
        (void)td_emit(u->e, "AssignVariableOp", TD_IN(u->handle[k], u->v[k]), &dtype, 1);
    }
    td_emit_again(u->e, n, td_op_find(u->e->ops, "AssignVariableOp"), TD_IN(u->handle[0], u->v[0]), &dtype,
                  1);
}

/* ------------------------------------------------------------------ the formulas */

#define E (u.e)
#define ADD(x, y) td_f_add(E, x, y)
#define SUB(x, y) td_f_sub(E, x, y)
#define MUL(x, y) td_f_mul(E, x, y)
#define DIV(x, y) td_f_div(E, x, y)
#define SQRT(x) td_f_1(E, "Sqrt", x)
#define REST(x) SUB(td_f_number(E, x, 1), x) /* 1 - x */
/* v + (x - v) r */
#define NEARER(v, x, r) ADD(v, MUL(SUB(x, v), r))

#define UPDATE(name, n_vars, grad)                                                                           \
    static void name##_of(struct update *all);                                                               \
    void td_update_##name(struct td_emitter *e, struct td_node *n)                                           \
    {                                                                                                        \
        struct update u;                                                                                     \
        if (begin(e, n, n_vars, grad, &u)) {                                                                 \
            name##_of(&u);                                                                                   \
            end(&u, n, n_vars);                                                                              \
        }                                                                                                    \
    }                                                                                                        \
    static void name##_of(struct update *all)
#undef E
#define E (all->e)
#define G (all->g)
#define V(k) (all->v[k])
#define S(k) (all->s[k])

UPDATE(add, 1, 1)
{
    V(0) = ADD(V(0), G);
}

UPDATE(sub, 1, 1)
{
    V(0) = SUB(V(0), G);
}

UPDATE(descent, 1, 2)
{
    V(0) = SUB(V(0), MUL(G, S(0)));
}

UPDATE(momentum, 2, 3)
{
    V(1) = ADD(MUL(V(1), S(1)), G);
    const struct td_value plain = MUL(V(1), td_attr_bool(all->n, "use_nesterov") ? S(1) : S(0));
    V(0) = SUB(V(0), td_attr_bool(all->n, "use_nesterov") ? ADD(MUL(G, S(0)), MUL(plain, S(0))) : plain);
}

UPDATE(keras_momentum, 2, 3)
{
    V(1) = SUB(MUL(V(1), S(1)), MUL(G, S(0)));
    V(0) = ADD(V(0), td_attr_bool(all->n, "use_nesterov") ? SUB(MUL(V(1), S(1)), MUL(G, S(0))) : V(1));
}

UPDATE(adadelta, 3, 6)
{
    V(1) = ADD(MUL(V(1), S(1)), MUL(MUL(G, G), REST(S(1))));
    const struct td_value by = MUL(DIV(SQRT(ADD(V(2), S(2))), SQRT(ADD(V(1), S(2)))), G);
    V(0) = SUB(V(0), MUL(by, S(0)));
    V(2) = ADD(MUL(V(2), S(1)), MUL(MUL(by, by), REST(S(1))));
}

UPDATE(adagrad, 2, 3)
{
    V(1) = td_attr_bool(all->n, "update_slots") ? ADD(V(1), MUL(G, G)) : V(1);
    V(0) = SUB(V(0), DIV(MUL(G, S(0)), SQRT(V(1))));
}

UPDATE(adagrad_v2, 2, 4)
{
    V(1) = td_attr_bool(all->n, "update_slots") ? ADD(V(1), MUL(G, G)) : V(1);
    V(0) = SUB(V(0), DIV(MUL(G, S(0)), ADD(SQRT(V(1)), S(1))));
}

UPDATE(adam, 3, 9)
{
    const struct td_value rest = REST(S(3)), alpha = DIV(MUL(S(2), SQRT(REST(S(1)))), REST(S(0)));
    V(1) = NEARER(V(1), G, rest);
    V(2) = NEARER(V(2), MUL(G, G), REST(S(4)));
    const struct td_value by =
        td_attr_bool(all->n, "use_nesterov") ? ADD(MUL(G, rest), MUL(S(3), V(1))) : V(1);
    V(0) = SUB(V(0), DIV(MUL(by, alpha), ADD(SQRT(V(2)), S(5))));
}

UPDATE(rmsprop, 3, 7)
{
    V(1) = NEARER(V(1), MUL(G, G), REST(S(1)));
    V(2) = ADD(MUL(V(2), S(2)), DIV(MUL(G, S(0)), SQRT(ADD(V(1), S(3)))));
    V(0) = SUB(V(0), V(2));
}

UPDATE(centered_rmsprop, 4, 8)
{
    V(2) = NEARER(V(2), MUL(G, G), REST(S(1)));
    V(1) = NEARER(V(1), G, REST(S(1)));
    V(3) = ADD(MUL(V(3), S(2)), DIV(MUL(G, S(0)), SQRT(ADD(SUB(V(2), MUL(V(1), V(1))), S(3)))));
    V(0) = SUB(V(0), V(3));
}
