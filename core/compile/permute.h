/* core/compile/permute.h - what becomes of a node when its tensors are kept with their axes in another order.
 *
 * "Permuted by p" means that Transpose(value, p) is kept in the value's place. Most ops do not care:
 * element-wise ones run as they are, those along an axis take it from another place, batch normalisation
 * takes its channels from another axis. What an op does is in its row (struct td_op), as a rule: one of those
 * below, or one of its own. td_permute_find() says which of a node's inputs and outputs would then be
 * permuted; td_permute_apply() makes it so in the node's attributes and constant arguments. Who makes the
 * permuted tensors is core/compile/pass_layout.c's business.
 *
 * Shapes that rules ask for (td_emit_shape) are those before the first change.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_PERMUTE_H
#define TD_CORE_COMPILE_PERMUTE_H

#include "core/graph/emit.h"

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
/* Whether the axes that are left without those of the bits `gone` keep their order. */
bool td_perm_keeps_order(const struct td_perm *p, uint32_t gone);

/* Whether n is a Transpose of one output by a constant permutation that fits what is known of its operand's
 * rank. */
bool td_permute_is_transpose(const struct td_emitter *e, const struct td_node *n, struct td_perm *p);
/* Transpose(v, p), with e's node at hand. */
struct td_value td_emit_transpose(struct td_emitter *e, struct td_value v, const struct td_perm *p);

/* ------------------------------------------------------------------ rules */

/* Bits of the inputs and outputs that are permuted; no input: the node cannot be. Without an output, what the
 * node makes stays as it is. */
struct td_permuted {
    uint64_t in, out;
};
enum { TD_PERMUTE_MAX_ARGS = 64 };
static const struct td_permuted td_permute_none = {0, 0};
static const struct td_permuted td_permute_first = {1, 1}; /* input 0, output 0 */

struct td_permute_rule {
    /* Of a node with up to TD_PERMUTE_MAX_ARGS inputs and outputs, none of them a reference. */
    struct td_permuted (*find)(const struct td_emitter *e, const struct td_node *n, const struct td_perm *p);
    /* What changes in n's attributes and constants then. NULL: nothing. */
    void (*apply)(struct td_emitter *e, struct td_node *n, const struct td_perm *p);
    /* Instead of both: what n makes, new nodes that read `permuted`, which is Transpose(input 0, p). */
    struct td_value (*restate)(struct td_emitter *e, const struct td_node *n, struct td_value permuted,
                               const struct td_perm *p);
    int arg; /* for find and apply: the input that lists axes, or how many last axes the op works along */
};

extern const struct td_permute_rule td_permute_elementwise; /* that of TD_OP_ELEMENTWISE */
extern const struct td_permute_rule td_permute_select;      /* a condition may have another rank's meaning */
extern const struct td_permute_rule td_permute_like;        /* the shape of the input, all elements equal */
extern const struct td_permute_rule td_permute_map;         /* input 0 alone matters, element by element */
extern const struct td_permute_rule td_permute_map1;        /* ... along its last axis */
extern const struct td_permute_rule td_permute_map2;        /* ... its last two */
extern const struct td_permute_rule td_permute_map3;        /* ... its last three */
extern const struct td_permute_rule td_permute_channels;    /* along the channels of attribute data_format */
extern const struct td_permute_rule td_permute_reduce;      /* the axes that input 1 lists go; keep_dims */
extern const struct td_permute_rule td_permute_along1;      /* along the axes that input 1 lists */
extern const struct td_permute_rule td_permute_along2;      /* ... that input 2 lists */
extern const struct td_permute_rule td_permute_never;       /* though TD_OP_ELEMENTWISE */

struct td_permuted td_permute_find(const struct td_emitter *e, const struct td_node *n,
                                   const struct td_perm *p);
/* Of a node that td_permute_find accepted, not yet changed. The permuted inputs are the caller's to
 * connect. */
void td_permute_apply(struct td_emitter *e, struct td_node *n, const struct td_perm *p);

/* ------------------------------------------------------------------ what rules are made of */

static inline int td_rank_of(const struct td_emitter *e, struct td_value v)
{
    return td_emit_shape(e, v)->rank;
}
/* Bits for all of so many. */
static inline uint64_t td_permute_all(int n)
{
    return UINT64_MAX >> (TD_PERMUTE_MAX_ARGS - n);
}
/* An int32 or int64 constant. NULL is none. */
bool td_permute_is_index(const struct td_tensor *t);
/* Whether input i is such a constant of so many numbers. */
bool td_permute_has_numbers(const struct td_node *n, int i, int64_t count);
/* Bits of the axes that constant input i lists; false when that is not known or a number is none. */
bool td_permute_known_axes(const struct td_node *n, int i, int rank, uint32_t *axes);
/* Constant input i lists axes of the permuted tensor instead. */
void td_permute_axes(struct td_emitter *e, struct td_node *n, int i, const struct td_perm *p);
/* Constant input i, `each` numbers an axis, takes the permuted order. */
void td_permute_numbers(struct td_emitter *e, struct td_node *n, int i, const struct td_perm *p, int each);
/* The entries of the list attribute, one an axis (or `each` an axis), in the permuted order; an empty list
 * stays. */
void td_permute_ints(struct td_emitter *e, struct td_node *n, const char *name, const struct td_perm *p,
                     int each);
/* An integer attribute with a bit an axis. */
void td_permute_mask(struct td_emitter *e, struct td_node *n, const char *name, const struct td_perm *p);
/* Where the channels of a tensor of data format `format` are. */
int td_permute_channel_axis(const char *format, int rank);
/* find of td_permute_channels; and its apply. */
struct td_permuted td_permute_find_channels(const struct td_emitter *e, const struct td_node *n,
                                            const struct td_perm *p);
void td_permute_apply_channels(struct td_emitter *e, struct td_node *n, const struct td_perm *p);

#endif
