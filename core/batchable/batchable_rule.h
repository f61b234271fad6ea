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

#include "core/graph/graph.h"
#include "core/graph/op.h"

struct td_bound_plan;
struct td_step;

enum { TD_BATCHABLE_PROBES = 4 };
extern const int64_t td_batchable_probe[TD_BATCHABLE_PROBES];

enum td_batchable_kind {
    TD_VALUE_UNSET, /* not computed yet (first round through a loop), or an element never set */
    TD_VALUE_CONST, /* depends neither on what is fed nor on N */
    TD_VALUE_SIZE,  /* known at each probe, and follows from N */
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
 * Invariant: all other dimensions of a ROW are known and equal at all probes, k and pre are >= 1 and pre
 * divides k. */
struct td_batchable_value {
    enum td_batchable_kind kind;
    enum td_batchable_kind item; /* LIST: kind of its elements */
    int axis;                    /* ROW, and elements of a LIST */
    int64_t pre;
    int64_t length;                    /* LIST: -1 unknown */
    const struct td_shape *item_shape; /* LIST: of its elements by probe; NULL while none is set */
    const char *why;                   /* MIX: what made it so */
};

struct td_batchable_trace; /* one walk over a callable: core/batchable/batchable.c */

struct td_batchable_step { /* what a rule sees of a step */
    struct td_batchable_trace *trace;
    const struct td_step *step;
    const struct td_node *node;
    int n_in, n_out;
    const struct td_batchable_value *in;
    const struct td_shape *in_shape[TD_BATCHABLE_PROBES]; /* n_in each */
    struct td_bound_plan *layout[TD_BATCHABLE_PROBES];    /* known values of inputs; shapes of outputs */
    struct td_batchable_value *out;                       /* UNSET on entry */
    bool refuse;                                          /* with a no: of the whole callable */
    char why[200];                                        /* when the rule says no: "works across the rows" */
};

/* Places the outputs. False, with why, when rows may mix; the outputs are then MIX. */
typedef bool td_batchable_fn(struct td_batchable_step *s);

struct td_batchable_rule {
    td_batchable_fn *rows;
    bool any_input; /* called with MIX inputs too, and when all inputs are CONST */
};
/* A rule as a member of an op's row. */
#define TD_BATCHABLE(...) (&(const struct td_batchable_rule){.rows = __VA_ARGS__})
/* The op's own rule, or what its flags stand for; NULL: it may mix rows. */
const struct td_batchable_rule *td_batchable_rule_of(const struct td_op *op);

/* ---- ready-made rules (core/batchable/batchable_ready.c) */

td_batchable_fn
    td_batchable_broadcast; /* each output element follows from the inputs' elements there, broadcast */
td_batchable_fn td_batchable_same; /* output i is input i; any_input */
td_batchable_fn
    td_batchable_map; /* input 0 alone has rows, at any axis, and keeps that axis; others are parameters */
td_batchable_fn td_batchable_map1;      /* the same, any axis but the last: it works along that */
td_batchable_fn td_batchable_map2;      /* ... but the last two */
td_batchable_fn td_batchable_map3;      /* ... but the last three */
td_batchable_fn td_batchable_map_first; /* ... axis 0 only: images, volumes */
td_batchable_fn td_batchable_all_first; /* every input has rows at axis 0, or is a parameter */
td_batchable_fn td_batchable_reduce;    /* along the axes of the last input; keep_dims */
td_batchable_fn td_batchable_along;     /* along the axes of the last input, which stay */
td_batchable_fn td_batchable_read;      /* reads state that its inputs name: constant while a request runs */
td_batchable_fn td_batchable_keys;      /* state, keys, parameters: one result a key */

/* ---- for rules */

bool td_batchable_no(struct td_batchable_step *s, const char *fmt, ...) TD_PRINTF(2, 3); /* says why; false */
/* Output o has rows along axis, pre as given; checks its shape. k: what the axis must hold a row, 0 whatever
 * it does. */
bool td_batchable_put(struct td_batchable_step *s, int o, int axis, int64_t pre, int64_t k);
/* Value of input i at a probe, or NULL. */
const struct td_tensor *td_batchable_known(const struct td_batchable_step *s, int i, int probe);
/* Element k of an integer input, known and the same at all probes. */
bool td_batchable_int(const struct td_batchable_step *s, int i, int64_t k, int64_t *out);
/* Entries a row along `axis` of input i; 0 when it is not a multiple of N. */
int64_t td_batchable_per_row(const struct td_batchable_step *s, int i, int axis);
/* Output o has the rows of input i, at `axis`. */
bool td_batchable_as_input(struct td_batchable_step *s, int o, int i, int axis);
/* Output o is input i. */
bool td_batchable_pass_on(struct td_batchable_step *s, int o, int i);
/* Input i is a ROW and all others are CONST; else says why. */
bool td_batchable_alone(struct td_batchable_step *s, int i);
/* All inputs but `but` (-1: all) are CONST; else says which is not. */
bool td_batchable_consts(struct td_batchable_step *s, int but);
/* Inputs i and j are ROWs with the same number of entries a row; else says so. */
bool td_batchable_same_rows(struct td_batchable_step *s, int i, int j);
/* The first dimension of output o that grows with N; -1 none. */
int td_batchable_growing(const struct td_batchable_step *s, int o);
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
