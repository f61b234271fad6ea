/* kernels/linalg/attention.h - attention as one node (op _Attention): what attention_match.c found in a
 * graph, attention_spec.c gives sizes, and kernels compute.
 *
 *   scores [.., T, S] = sum over H of query [.., T, H] * key [.., S, H]
 *   scores = stages in their order: times a number, plus a mask, a number where a mask says so
 *   p = softmax of scores along S, then the stages marked `after`
 *   output [.., T, D] = sum over S of p * value [.., S, D]
 *
 * The axes in brackets are the canonical ones, counted from the right: 0 is the last (S; H or D in its
 * place), 1 is T (S of key and value), those from 2 on are the batch. Where a tensor keeps each of them is
 * said by a list, so that the Transposes around a product need not run. Batch axes broadcast; an axis that
 * a tensor does not have, or has one entry along, has a step of 0.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_LINALG_ATTENTION_H
#define TD_KERNELS_LINALG_ATTENTION_H

#include "core/graph/graph.h"

enum {
    TD_ATTENTION_QUERY, /* inputs; more than these three are operands of stages */
    TD_ATTENTION_KEY,
    TD_ATTENTION_VALUE,
    TD_ATTENTION_TENSORS,
    TD_ATTENTION_OUTPUT = TD_ATTENTION_TENSORS,
    TD_ATTENTION_STAGES = 8,
    TD_ATTENTION_MOST_FORM = 256 /* integers of attribute _form */
};

/* Where a tensor keeps the canonical axes. Those beyond n lie in order, as broadcasting counts them. */
struct td_attention_axes {
    int rank; /* it must have; 0: any */
    int n;
    int at[TD_MAX_RANK]; /* of each: -1 its last axis, -2 the one before; 0: it has none */
};

enum td_attention_kind {
    TD_ATTENTION_ADD, /* x + operand, and so on */
    TD_ATTENTION_SUB,
    TD_ATTENTION_MUL,
    TD_ATTENTION_DIV,
    TD_ATTENTION_KEEP, /* operand, of bool, ? x : number */
    TD_ATTENTION_DROP, /* operand, of bool, ? number : x */
    TD_ATTENTION_KINDS
};
struct td_attention_stage {
    enum td_attention_kind kind;
    bool after;  /* the softmax: MUL, or KEEP and DROP with 0 */
    int operand; /* the input; -1: the number */
    float number;
    struct td_attention_axes axes; /* of the operand */
};

/* What the node's attributes say: _form, integers, and _numbers, a float for each stage. */
struct td_attention_form {
    bool same_scores,
        same_sum; /* the batch axes of query and key, of p and value are equal: no broadcasting */
    /* that the scores must have behind the first `from` of the stages, and behind the first `to`; 0: any */
    int rank, from, to;
    int output_rank;                                         /* that the output must have; 0: any */
    struct td_attention_axes axes[TD_ATTENTION_TENSORS + 1]; /* of the inputs, and of the output */
    int n_stages;
    struct td_attention_stage stage[TD_ATTENTION_STAGES];
};
/* As integers, of which there are at most TD_ATTENTION_MOST_FORM. Returns how many. */
int td_attention_write(const struct td_attention_form *f, int64_t *out);
/* False: they are none that the compiler wrote, for such inputs. */
bool td_attention_read(const struct td_node *n, struct td_attention_form *f);

/* The same at known shapes. */
struct td_attention_sizes {
    int rank;                 /* of the canonical axes */
    int64_t dim[TD_MAX_RANK]; /* by canonical axis: S, T, batch */
    int64_t depth, width;     /* H, D */
    int64_t copies;           /* of the one key there is, where a stage behind the softmax has S; else 1 */
    /* elements from one entry along a canonical axis to the next: of the inputs, and of the output */
    int64_t step[TD_ATTENTION_TENSORS + 1][TD_MAX_RANK];
    int64_t stage_step[TD_ATTENTION_STAGES][TD_MAX_RANK]; /* of each stage's operand */
    int64_t batches; /* product of dim from 2 on; 0 where the output has no elements */
    struct td_shape output;
};
/* The sizes; where shapes are not known, only s->output, as far as it can be told. INVALID_ARGUMENT names
 * node and shapes that do not fit. */
TD_MUST enum td_code td_attention_sizes_of(const struct td_node *n, const struct td_attention_form *f,
                                           const struct td_shape *in, struct td_attention_sizes *s,
                                           struct td_err *err);
/* Where entry b of all batch axes together begins, with these steps. */
int64_t td_attention_batch_at(const struct td_attention_sizes *s, const int64_t *step, int64_t b);

td_group_rule_fn td_attention_rule;

/* kernels: blocked, and row by row, the reference */
enum td_code td_attention_run(struct td_call *c, struct td_err *err);
enum td_code td_attention_run_plain(struct td_call *c, struct td_err *err);

#endif
