/* core/grad/vectorize.h - a backward pass for many seeds at once: the same nodes with one axis more in front.
 *
 * Whatever follows from the seed becomes "many": a value of shape s has shape [K, s..]. What does not is one
 * for all rows. An op's row says how it is done (td_op.vectorize):
 *
 *   static bool transpose_many(struct td_vectorize *v)                      x [K, s..], perm one
 *   {
 *       td_vectorize_put(v, 0, td_f_transpose(v->e, v->in[0], ..));
 *       return true;                                                         all outputs are put
 *   }
 *
 * False: not with these inputs. Then, and where an op says nothing, the node becomes a function that is
 * called a row (td_grad_formulas.map_rows); element-wise ops need say nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_VECTORIZE_H
#define TD_CORE_GRAD_VECTORIZE_H

#include "core/grad/backward.h"

struct td_vectorize {
    struct td_emitter *e;
    const struct td_node *node; /* as it was; its inputs and outputs have what shapes are known */
    const struct td_value *in;  /* its inputs now */
    const bool *many;           /* by input */
    struct td_value k;          /* the number of rows: an int32 vector of one */
    struct td_value *out;       /* by output: what is put */
    bool *out_many;             /* true unless the rule says otherwise */
};

/* What is known of the shape of an input or output as it was, without the axis in front. */
static inline const struct td_shape *td_vectorize_shape(const struct td_vectorize *v, int i)
{
    return td_emit_shape(v->e, v->node->in[i]);
}
static inline void td_vectorize_put(struct td_vectorize *v, int o, struct td_value made)
{
    v->out[o] = made;
}

struct td_vectorize_opts {
    struct td_value seed, rows; /* what the seed becomes */
    const bool *seeded;         /* by node id: follows from the seed */
};

/* Adds nodes to ir, which is in order, and is not any more afterwards; value i of `rets` becomes many. False
 * in *done, and nothing changed that counts: a node on the way has effects, so that the pass must run a row
 * at a time. */
TD_MUST enum td_code td_grad_vectorize(struct td_grad_context *ctx, struct td_ir *ir,
                                       const struct td_vectorize_opts *o, struct td_value *rets, int n_rets,
                                       bool *done, struct td_err *err);

#endif
