/* core/grad/grad.h - what an op's gradient sees: one node that is being differentiated.
 *
 *   static void mul_grad(struct td_grad *g)              td_op.grad, in the op's row
 *   {
 *       struct td_value x = td_grad_in(g, 0), y = td_grad_in(g, 1), dz = td_grad_at(g, 0);
 *       td_grad_give(g, 0, td_sum_to(g->e, td_mul(g->e, dz, y), x));          kernels/formula/formula.h
 *       td_grad_give(g, 1, td_sum_to(g->e, td_mul(g->e, dz, x), y));
 *   }
 *
 * Reverse mode as a graph transformation: for each node between the sources and the targets, last node first,
 * its op's grad is called once. It reads the gradients that have arrived at the node's outputs and gives one
 * to each input that has one, by adding nodes of ordinary ops with g->e (core/graph/emit.h), which have
 * gradients in turn. What is not given is "none": no path leads that way. An input of an integer dtype,
 * bool or string never has a gradient: what is given to it is dropped.
 *
 * A gradient is of its value's dtype and shape; at a complex value it is TensorFlow's: the conjugate of the
 * derivative, so that formulas multiply by conj. At a resource handle it is the gradient of what the variable
 * holds; at a TensorList (a variant) it is a list of as many elements. A gradient may also be slices of rows
 * (TensorFlow's IndexedSlices), which stay so until someone asks for them dense.
 *
 * Errors stick in g->e; a gradient that cannot be had is td_emit_fail(g->e, TD_UNIMPLEMENTED, ..).
 *
 * What core cannot write itself, because it names no op, kernels/formula does for it: struct
 * td_grad_formulas.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_GRAD_H
#define TD_CORE_GRAD_GRAD_H

#include "core/graph/emit.h"
#include "core/graph/graph.h"

struct td_grad_pass; /* core/grad/backward.h: the transformation under way */

struct td_grad {
    struct td_emitter *e; /* its node at hand is `node`, whose name what is added takes */
    /* The forward node. It may be made again (td_emit_again) with more inputs and outputs: those it has stay
     * where they are. */
    struct td_node *node;
    struct td_grad_pass *pass;
};

/* Rows of a gradient that is zero elsewhere: row k of values belongs at index indices[k] of axis 0; rows
 * of one index add up. values [n, shape[1:]..], indices [n] int32 or int64, shape: an int vector. */
struct td_slices {
    struct td_value values, indices, shape;
};

static inline struct td_value td_grad_in(const struct td_grad *g, int i)
{
    return g->node->in[i];
}
static inline struct td_value td_grad_out(const struct td_grad *g, int i)
{
    return (struct td_value){g->node, i};
}
/* The gradient that arrived at output i, dense; zeros like the output when none did (at least one output
 * has one). */
struct td_value td_grad_at(struct td_grad *g, int i);
bool td_grad_arrived(const struct td_grad *g, int i);
/* True when the gradient at output i is slices, which *out gets; false: it is dense, or there is none. */
bool td_grad_slices_at(struct td_grad *g, int i, struct td_slices *out);
/* Whether a source is reached through input i. What is given elsewhere is dropped: need not be made. */
bool td_grad_wants(const struct td_grad *g, int i);

/* Input i's gradient. v may be td_no_value (none). INTERNAL, naming the op, when it is of another dtype. */
void td_grad_give(struct td_grad *g, int i, struct td_value v);
void td_grad_give_slices(struct td_grad *g, int i, struct td_slices s);
/* What arrived at output o goes to input i as it is, dense or slices: of ops that show a value unchanged. */
void td_grad_pass_on(struct td_grad *g, int o, int i);

/* Dtypes that gradients exist for (TensorFlow's trainable ones): floats, complex, resource, variant. */
#define TD_SET_TRAINABLE (TD_SET_FLOATS | TD_SET_COMPLEX | TD_BIT(TD_RESOURCE) | TD_BIT(TD_VARIANT))

/* A function (row, args..) -> rets, to be called for each element of the target: with 1 there, else 0. */
struct td_grad_rows {
    struct td_value target;
    const char *what, *of;       /* for errors: "jacobian", the target's name */
    const char *function;        /* the arena's */
    const struct td_value *like; /* by result: a value or variable handle of its shape; no node: unknown */
    const enum td_dtype *dtype;  /* by result */
    int n;
    const struct td_value *args;
    int n_args;
    int64_t limit_bytes; /* of all results */
    bool many;           /* the function takes and gives any number of rows, in an axis in front */
};

/* A function to be called a row: with row r of the inputs that are many, and the others as they are. */
struct td_grad_map {
    struct td_value k; /* the number of rows: an int32 vector of one */
    const struct td_value *in;
    const bool *many; /* by input */
    int n_in;
    const enum td_dtype *dtype; /* by result */
    int n_out;
    const char *function; /* the arena's */
};

struct td_vectorize; /* core/grad/vectorize.h */

/* Formulas that the transformation itself needs, in terms of ops. */
struct td_grad_formulas {
    /* Of v's shape; of a resource handle: of what its variable holds; of a TensorList: a list of zeros. */
    struct td_value (*zeros_like)(struct td_emitter *e, struct td_value v);
    struct td_value (*ones_like)(struct td_emitter *e, struct td_value v);
    /* The sum of n >= 2 values of one shape and dtype (TensorLists: element by element). */
    struct td_value (*add_n)(struct td_emitter *e, const struct td_value *v, int n);
    struct td_value (*dense)(struct td_emitter *e, const struct td_slices *s);
    /* n values, one behind the other along an axis; negative: counted from the last. */
    struct td_value (*concat)(struct td_emitter *e, const struct td_value *v, int n, int axis);
    /* All rows of n >= 2 slices of one value, indices in the dtype of the first. */
    struct td_slices (*join_slices)(struct td_emitter *e, const struct td_slices *s, int n);
    /* given, checked to be of target's shape when it runs; `name` is the target's for the error. */
    struct td_value (*seed)(struct td_emitter *e, struct td_value given, struct td_value target,
                            const char *name);
    /* The same of a vector that is multiplied with the gradient by the source `name`. */
    struct td_value (*vector)(struct td_emitter *e, struct td_value given, struct td_value gradient,
                              const char *name);
    /* One, for a target of one element; else an error names it when it runs. */
    struct td_value (*one)(struct td_emitter *e, struct td_value target, const char *name);
    /* The op's rule, or what stands for it. any: some input is many. */
    bool (*vectorize)(struct td_vectorize *v, bool any);
    struct td_value (*n_rows)(struct td_emitter *e, struct td_value rows); /* int32 vector of one */
    /* v, k times, in an axis in front. */
    struct td_value (*spread)(struct td_emitter *e, struct td_value v, struct td_value k);
    /* A node whose output i is the function's result i of all rows, stacked. */
    struct td_value (*map_rows)(struct td_emitter *e, const struct td_grad_map *m);
    /* v itself, but not before `when` has been computed. */
    struct td_value (*later)(struct td_emitter *e, struct td_value v, struct td_value when);
    /* A node whose output i is [target's shape, shape of like[i]]: one row for each element of the target. */
    struct td_value (*rows)(struct td_emitter *e, const struct td_grad_rows *r);
    /* What a node's output holds when it is a variable or its handle: the name it is known by in the model's
     * resources; NULL for every other value. */
    const char *(*variable)(struct td_value v);
};

#endif
