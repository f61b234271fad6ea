/* kernels/formula/formula.h - what the gradients of ops are written with: nodes of ordinary ops as functions
 * of values.
 *
 *   td_f_mul(e, dy, td_f_1(e, "Cos", x))
 *
 * All take and give values of the emitter's graph; after an error, which sticks in e, they give td_no_value
 * and take it (core/graph/emit.h). Shapes need not be known: td_f_shape asks for one when the graph runs,
 * which costs nothing where shapes are all it depends on. Shapes, axes and sizes are int32 unless said.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_FORMULA_FORMULA_H
#define TD_KERNELS_FORMULA_FORMULA_H

#include "core/grad/grad.h"

/* A node of an op with one, two, three inputs and default attributes: its output 0. */
struct td_value td_f_1(struct td_emitter *e, const char *op, struct td_value x);
struct td_value td_f_2(struct td_emitter *e, const char *op, struct td_value x, struct td_value y);
struct td_value td_f_3(struct td_emitter *e, const char *op, struct td_value x, struct td_value y,
                       struct td_value z);
/* A node of op whose attributes named in `names` ("strides,padding"; NULL: none) are those of n. */
struct td_value td_f_as(struct td_emitter *e, const char *op, const struct td_value *in, int n_in,
                        const struct td_node *n, const char *names);
/* Another output of v's node. */
static inline struct td_value td_f_port(struct td_value v, int port)
{
    return v.node == NULL ? v : (struct td_value){v.node, port};
}

/* ---- arithmetic; x and y broadcast */
struct td_value td_f_add(struct td_emitter *e, struct td_value x, struct td_value y);
struct td_value td_f_sub(struct td_emitter *e, struct td_value x, struct td_value y);
struct td_value td_f_mul(struct td_emitter *e, struct td_value x, struct td_value y);
struct td_value td_f_div(struct td_emitter *e, struct td_value x, struct td_value y); /* of floats, complex */
struct td_value td_f_neg(struct td_emitter *e, struct td_value x);
struct td_value td_f_square(struct td_emitter *e, struct td_value x);
struct td_value td_f_conj(struct td_emitter *e, struct td_value x); /* x itself when it is real */
/* The scalar v in the dtype of x: integer, float or complex. */
struct td_value td_f_number(struct td_emitter *e, struct td_value x, double v);
struct td_value td_f_scale(struct td_emitter *e, struct td_value x, double by);
struct td_value td_f_where(struct td_emitter *e, struct td_value cond, struct td_value x, struct td_value y);
struct td_value td_f_cast(struct td_emitter *e, struct td_value x,
                          enum td_dtype dtype); /* x itself if it is */

/* ---- integers */
struct td_value td_f_int(struct td_emitter *e, int64_t v); /* int32 scalar */
/* int32 vector: td_f_ints(e, 1, -1) */
#define td_f_ints(e, ...)                                                                                    \
    td_emit_ints((e), TD_INT32, (const int64_t[]){__VA_ARGS__},                                              \
                 (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))
struct td_value td_f_range(struct td_emitter *e, struct td_value from, struct td_value to); /* step 1 */

/* ---- shapes */
struct td_value td_f_shape(struct td_emitter *e, struct td_value x); /* a constant where it is known */
/* The shape in an index dtype; int32 for those that a Shape cannot have. */
struct td_value td_f_shape_as(struct td_emitter *e, struct td_value x, enum td_dtype dtype);
struct td_value td_f_rank(struct td_emitter *e, struct td_value x); /* scalar */
struct td_value td_f_size(struct td_emitter *e, struct td_value x); /* scalar */
struct td_value td_f_reshape(struct td_emitter *e, struct td_value x, struct td_value shape);
struct td_value td_f_reshape_like(struct td_emitter *e, struct td_value x, struct td_value like);
struct td_value td_f_expand(struct td_emitter *e, struct td_value x, int axis); /* ExpandDims */
struct td_value td_f_transpose(struct td_emitter *e, struct td_value x, struct td_value perm);
/* The last two axes swapped; adjoint: conjugated, too. */
struct td_value td_f_swap(struct td_emitter *e, struct td_value x);
struct td_value td_f_adjoint(struct td_emitter *e, struct td_value x);
struct td_value td_f_broadcast_to(struct td_emitter *e, struct td_value x, struct td_value shape);
struct td_value td_f_broadcast_like(struct td_emitter *e, struct td_value x, struct td_value like);

/* ---- sums, products */
struct td_value td_f_sum(struct td_emitter *e, struct td_value x, struct td_value axes, bool keep_dims);
struct td_value td_f_mean(struct td_emitter *e, struct td_value x, struct td_value axes, bool keep_dims);
/* Over all axes, whatever the rank: a scalar. */
struct td_value td_f_sum_all(struct td_emitter *e, struct td_value x);
/* x, which is broadcast from `like`'s shape, summed back to that shape: the gradient of broadcasting. */
struct td_value td_f_sum_to(struct td_emitter *e, struct td_value x, struct td_value like);
/* The same with the shape itself: int32 vector. */
struct td_value td_f_sum_to_shape(struct td_emitter *e, struct td_value x, struct td_value shape);
/* To input i of a node whose operands broadcast: v, of the shape of them all, summed back to the input's
 * unless that is sure to be the same. */
void td_f_give_summed(struct td_grad *g, int i, struct td_value v);
struct td_value td_f_matmul(struct td_emitter *e, struct td_value x, struct td_value y, bool transpose_x,
                            bool transpose_y);
/* Of matrices in the last two axes, batch axes broadcast; adj: conjugate transpose. */
struct td_value td_f_batch_matmul(struct td_emitter *e, struct td_value x, struct td_value y, bool adj_x,
                                  bool adj_y);

/* ---- filling, choosing, joining */
struct td_value td_f_zeros_like(struct td_emitter *e, struct td_value x);
struct td_value td_f_ones_like(struct td_emitter *e, struct td_value x);
struct td_value td_f_fill(struct td_emitter *e, struct td_value shape, struct td_value scalar);
struct td_value td_f_gather(struct td_emitter *e, struct td_value params, struct td_value indices, int axis);
struct td_value td_f_concat(struct td_emitter *e, const struct td_value *in, int n_in, int axis);
/* n >= 1 values joined at most `most` at a time, and the results again until there is one: by join, which is
 * given `how`. For ops that take no more than so many inputs. */
typedef struct td_value td_f_join(struct td_emitter *e, const struct td_value *in, int n, int how);
struct td_value td_f_in_groups(struct td_emitter *e, const struct td_value *in, int n, int most, int how,
                               td_f_join *join);
struct td_value td_f_slice(struct td_emitter *e, struct td_value x, struct td_value begin,
                           struct td_value size);
struct td_value td_f_part(struct td_emitter *e, struct td_value vector, int64_t from, int64_t count);
/* The vector without its last n elements; those alone. */
struct td_value td_f_but_last(struct td_emitter *e, struct td_value vector, int64_t n);
struct td_value td_f_last(struct td_emitter *e, struct td_value vector, int64_t n);
/* n, whose results are one, becomes what passes v on. */
void td_f_become(struct td_emitter *e, struct td_node *n, struct td_value v);
/* Element i of a vector (negative: from its end): a scalar. */
struct td_value td_f_element(struct td_emitter *e, struct td_value vector, int64_t i);

/* The gradient of an op that shows input i as output i: dense or slices, as it arrived. */
void td_pass_on_grad(struct td_grad *g);

/* What core/grad asks for (kernels/formula/grad_formulas.c). */
extern const struct td_grad_formulas td_grad_formulas;

#endif
