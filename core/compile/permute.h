/* core/compile/permute.h - what becomes of a node when its tensors are kept with their axes in another order.
 *
 * "Permuted by p" means that Transpose(value, p) is kept in the value's place. Most ops do not care:
 * element-wise ones run as they are, those along an axis take it from another place, batch normalisation
 * takes its channels from another axis. td_permute_find() says which of a node's inputs and outputs would
 * then be permuted; td_permute_apply() makes it so in the node's attributes and constant arguments. Who makes
 * the permuted tensors is core/compile/pass_layout.c's business.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_PERMUTE_H
#define TD_CORE_COMPILE_PERMUTE_H

#include "core/compile/ir_shapes.h"

/* A permutation as Transpose takes it: axis i of the result is axis at[i] of the operand. */
struct td_perm {
    int rank;
    int at[TD_MAX_RANK];
};

/* Transpose by a, then by b. */
struct td_perm td_perm_then(const struct td_perm *a, const struct td_perm *b);
struct td_perm td_perm_inverse(const struct td_perm *p);
bool td_perm_is_identity(const struct td_perm *p);
bool td_perm_equal(const struct td_perm *a, const struct td_perm *b);
/* The axis of the permuted tensor that `axis` becomes. */
int td_perm_axis(const struct td_perm *p, int axis);

struct td_permuter {
    struct td_ir *ir;
    const struct td_ir_shapes *shapes; /* of the IR as it was before the first change */
    const struct td_op_def *transpose, *gather;
    struct td_err *err;
};

/* Whether n is a Transpose of one output by a constant permutation that fits what is known of its operand's
 * rank. */
bool td_permute_is_transpose(const struct td_permuter *t, const struct td_node *n, struct td_perm *p);
/* *out becomes Transpose(v, p), a new node of the place and name of `like`. */
TD_MUST enum td_code td_permute_add_transpose(const struct td_permuter *t, const struct td_node *like,
                                              struct td_value v, const struct td_perm *p,
                                              struct td_value *out);

/* n is Shape: *out becomes the shape of the value of which `permuted` is Transpose(value, p), new nodes. */
TD_MUST enum td_code td_permute_add_shape(const struct td_permuter *t, const struct td_node *n,
                                          struct td_value permuted, const struct td_perm *p,
                                          struct td_value *out);

/* Bits of the inputs and outputs that are permuted; no input: the node cannot be. Without an output, what the
 * node makes stays as it is. */
struct td_permuted {
    uint64_t in, out;
};

struct td_permuted td_permute_find(const struct td_permuter *t, const struct td_node *n,
                                   const struct td_perm *p);
/* Of a node that td_permute_find accepted, not yet changed. The permuted inputs are the caller's to
 * connect. */
TD_MUST enum td_code td_permute_apply(const struct td_permuter *t, struct td_node *n,
                                      const struct td_perm *p);

/* An int32 or int64 constant. NULL is none. */
bool td_permute_is_index(const struct td_tensor *t);
/* The entries of the list attribute, one an axis (or `each` an axis), in the permuted order; an empty list
 * stays. */
TD_MUST enum td_code td_permute_ints(const struct td_permuter *t, struct td_node *n, const char *name,
                                     const struct td_perm *p, int each);
/* Input i becomes a constant of its own, a copy of what it was; *edited shares its bytes, to be changed and
 * cleared. */
TD_MUST enum td_code td_permute_own_input(const struct td_permuter *t, struct td_node *n, int i,
                                          struct td_tensor *edited);
/* Constant input i, `each` numbers an axis, takes the permuted order. */
TD_MUST enum td_code td_permute_numbers(const struct td_permuter *t, struct td_node *n, int i,
                                        const struct td_perm *p, int each);
TD_MUST enum td_code td_permute_set_ints(const struct td_permuter *t, struct td_node *n, const char *name,
                                         const int64_t *v, int count);
TD_MUST enum td_code td_permute_set_text(const struct td_permuter *t, struct td_node *n, const char *name,
                                         const char *text);

#endif
