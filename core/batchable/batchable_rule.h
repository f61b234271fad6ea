/* core/batchable/batchable_rule.h - how single ops treat the rows of a batch: what a rule sees, and the
 * ready-made rules.
 *
 * The row of an op holds its rule (td_op.batchable). A rule places each output: says where the rows are in
 * it, given where they are in the inputs, or says no. A rule that knows one op is written where the op is;
 * those that fit many are here. An op without a rule may mix rows, but for an element-wise one
 * (TD_OP_ELEMENTWISE), which counts as td_batchable_broadcast.
 *
 *     .batchable = TD_BATCHABLE(td_batchable_map2)
 *
 * The analysis that calls rules, and why it is a proof: core/batchable/batchable.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BATCHABLE_BATCHABLE_RULE_H
#define TD_CORE_BATCHABLE_BATCHABLE_RULE_H

#include "core/batchable/affine.h"
#include "core/graph/graph.h"
#include "core/graph/op.h"

struct td_bound_plan;
struct td_step;

enum { TD_BATCHABLE_PROBES = 4 }; /* numbers of rows at which shape functions and kernels are asked */

enum td_batchable_kind {
    TD_VALUE_UNSET, /* not computed yet (first round through a loop), or an element never set */
    TD_VALUE_CONST, /* depends neither on what is fed nor on N */
    TD_VALUE_SIZE,  /* follows from N alone; where that is followed, `sizes` says how */
    TD_VALUE_ROW,   /* dimension `axis` runs over rows */
    TD_VALUE_LIST,  /* a TensorList of elements that are all CONST or all ROW at the same axis */
    TD_VALUE_MIX,   /* anything else */
};

/* Of a ROW of shape [d.., k*N, e..] with axis pointing at k*N, index i of that axis belongs to row
 *
 *     (i / c) % N      where c = k / pre
 *
 * The axis holds `pre` blocks of N rows of c entries each. pre and k are 1 for a plain batch axis; reshapes
 * that merge it with its neighbours make them larger.
 *
 * Invariant (td_batchable_check): all other dimensions of a ROW are known and the same for every N, k and pre
 * are >= 1 and pre divides k. The shape of a SIZE that has `sizes` is the same for every N. */
struct td_batchable_value {
    enum td_batchable_kind kind;
    enum td_batchable_kind item; /* LIST: kind of its elements */
    int axis;                    /* ROW, and elements of a LIST */
    int64_t pre;
    int64_t length;                    /* LIST: -1 unknown */
    const struct td_shape *item_shape; /* LIST: of its elements by probe; NULL while none is set */
    const struct td_affine *sizes;     /* SIZE: its elements; NULL: it is not followed */
    int64_t n_sizes;
    const char *why; /* MIX, and SIZE that is not followed: what made it so */
};

struct td_batchable_trace; /* one walk over a callable: core/batchable/batchable.c */

struct td_batchable_step { /* what a rule sees of a step */
    struct td_batchable_trace *trace;
    const struct td_step *step;
    const struct td_node *node;
    int n_in, n_out;
    const struct td_batchable_value *in;
    const struct td_shape *in_shape[TD_BATCHABLE_PROBES]; /* n_in each */
    struct td_bound_plan *bound[TD_BATCHABLE_PROBES];     /* known values of inputs; shapes of outputs */
    struct td_batchable_value *out;                       /* UNSET on entry */
    bool refuse;                                          /* with a no: of the whole callable */
    char why[200];                                        /* when the rule says no: "works across the rows" */
};

/* Places the outputs. False, with why, when rows may mix; the outputs are then MIX. */
typedef bool td_batchable_fn(struct td_batchable_step *s);

/* `sizes` comes first where all inputs are CONST or SIZE: it says which numbers the outputs are. It only says
 * no (without a reason) for what it does not follow; then `rows` is asked, and last the outputs are a SIZE
 * that is not followed. */
struct td_batchable_rule {
    td_batchable_fn *rows;
    bool any_input; /* rows is called with MIX inputs too, and when all inputs are CONST */
    td_batchable_fn *sizes;
    td_affine_fn *number; /* for td_batchable_elements and td_batchable_folds: of two elements */
    int lead, trail;      /* for td_batchable_moves: inputs before and after the elements that it moves */
};
/* A rule as a member of an op's row. */
#define TD_BATCHABLE(...) (&(const struct td_batchable_rule){.rows = __VA_ARGS__})
/* Arithmetic on elements, and elements moved about (below), of ops whose rows go by `rule`. */
#define TD_BATCHABLE_NUMBER(fn)                                                                              \
    TD_BATCHABLE(td_batchable_broadcast, .sizes = td_batchable_elements, .number = fn)
#define TD_BATCHABLE_MOVES(rule, before, after)                                                              \
    TD_BATCHABLE(rule, .sizes = td_batchable_moves, .lead = before, .trail = after)
/* The op's own rule, or what its flags stand for; NULL: it may mix rows. */
const struct td_batchable_rule *td_batchable_rule_of(const struct td_op *op);

/* ---- ready-made rules (core/batchable/batchable_ready.c) */

/* Each output element follows from the inputs' elements there, broadcast. */
td_batchable_fn td_batchable_broadcast;
td_batchable_fn td_batchable_same; /* output i is input i; any_input */
/* Input 0 alone has rows, at any axis, and keeps that axis; others are parameters. */
td_batchable_fn td_batchable_map;
td_batchable_fn td_batchable_map1;      /* the same, any axis but the last: it works along that */
td_batchable_fn td_batchable_map2;      /* ... but the last two */
td_batchable_fn td_batchable_map3;      /* ... but the last three */
td_batchable_fn td_batchable_map_first; /* ... axis 0 only: images, volumes */
td_batchable_fn td_batchable_all_first; /* every input has rows at axis 0, or is a parameter */
td_batchable_fn td_batchable_reduce;    /* along the axes of the last input; keep_dims */
td_batchable_fn td_batchable_along;     /* along the axes of the last input, which stay */
td_batchable_fn td_batchable_read;      /* reads state that its inputs name: constant while a request runs */
td_batchable_fn td_batchable_keys;      /* state, keys, parameters: one result a key */

/* ---- ready-made sizes (core/batchable/batchable_sizes.c) */

/* Output 0, element by element, broadcast: number(x, y) of one or two inputs. */
td_batchable_fn td_batchable_elements;
/* Input 0 along the axes of input 1: number(x, y) from element to element. */
td_batchable_fn td_batchable_folds;
/* Each output element is one of the inputs', wherever it stood: which one does not depend on their values,
 * and the kernel shows it. */
td_batchable_fn td_batchable_moves;

/* ---- for rules */

bool td_batchable_no(struct td_batchable_step *s, const char *fmt, ...) TD_PRINTF(2, 3); /* says why; false */
/* Output o has rows along axis, pre as given, k entries a row (0: what its shape says at the probes). The
 * caller knows that the shape is so for every N, or that its dimensions are affine in N, which the probes
 * then decide. */
bool td_batchable_put(struct td_batchable_step *s, int o, int axis, int64_t pre, int64_t k);
/* Value of input i at a probe, or NULL. */
const struct td_tensor *td_batchable_known(const struct td_batchable_step *s, int i, int probe);
/* Element k of an integer or bool input as an expression; false where it is not known or not followed. */
bool td_batchable_size(const struct td_batchable_step *s, int i, int64_t k, struct td_affine *out);
/* Element k of an integer input that is the same for every N. */
bool td_batchable_int(const struct td_batchable_step *s, int i, int64_t k, int64_t *out);
/* Entries a row along `axis` of input i; 0 when it is not a multiple of N. */
int64_t td_batchable_per_row(const struct td_batchable_step *s, int i, int axis);
/* Output o has the rows of input i, at `axis`. */
bool td_batchable_as_input(struct td_batchable_step *s, int o, int i, int axis);
/* Output o is input i. */
bool td_batchable_pass_on(struct td_batchable_step *s, int o, int i);
/* Output 0 has the rows of input `data`, at axis 0, in a shape that input `sizes` spells: all of it, or
 * without the axis of the rows. */
bool td_batchable_sized(struct td_batchable_step *s, int sizes, int data);
/* Bit a for each axis a of input 0 that the last input names; false where they are not the same for every
 * N. */
bool td_batchable_axes(struct td_batchable_step *s, uint32_t *axes);
/* Input i is a ROW and all others are CONST; else says why. */
bool td_batchable_alone(struct td_batchable_step *s, int i);
/* All inputs but `but` (-1: all) are CONST; else says which is not. */
bool td_batchable_consts(struct td_batchable_step *s, int but);
/* Inputs i and j are ROWs with the same number of entries a row; else says so. */
bool td_batchable_same_rows(struct td_batchable_step *s, int i, int j);
/* Output o is a vector or scalar of these n numbers (copied), of the dtype that the node says: the range
 * narrows to where they fit it. False without memory, or where none does. */
bool td_batchable_put_sizes(struct td_batchable_step *s, int o, const struct td_affine *sizes, int64_t n);
/* The numbers of rows that the claim is about; questions about expressions may narrow it. */
struct td_row_range *td_batchable_range(const struct td_batchable_step *s);
/* Whether input i may have more than one entry at the axis `back` places before its last. */
bool td_batchable_spans(const struct td_batchable_step *s, int i, int back);
struct td_shape *td_batchable_out_shape(const struct td_batchable_step *s, int o, int probe);
static inline int td_batchable_rank(const struct td_batchable_step *s, int i)
{
    return s->in_shape[0][i].rank;
}

/* ---- lists (TensorList, TensorArray) */

/* Elements of list a become what covers those of b too; false when they differ in axis or shape. Lengths are
 * left. */
bool td_batchable_join_items(struct td_batchable_value *a, const struct td_batchable_value *b);
/* TD_BATCHABLE_PROBES shapes until the proof ends; NULL without memory. */
struct td_shape *td_batchable_shapes(struct td_batchable_step *s);

/* ---- ops that own functions (core/batchable/batchable_function.c) */

/* Functions [first, last): of attr[0] and attr[1] when there are two, else the elements of attr[0]. */
struct td_batchable_choice {
    const char *attr[2];
    int first, last;
};
/* The outputs are what all functions of the choice agree on, called with inputs [from, n_in). */
bool td_batchable_calls(struct td_batchable_step *s, struct td_batchable_choice c, int from);
/* Narrows the choice to what input 0, the index or condition, may take. False: the rows decide. */
bool td_batchable_choose(struct td_batchable_step *s, struct td_batchable_choice *c);
/* A loop whose condition and body are the functions of two attributes, over all inputs. */
bool td_batchable_loop_of(struct td_batchable_step *s, const char *cond, const char *body);

#endif
