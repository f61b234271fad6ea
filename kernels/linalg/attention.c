/* kernels/linalg/attention.c - _Attention: the op's row, its shapes, and where the rows of a batch go.
 *
 * Only the compiler makes nodes of it (core/compile/pass_attention.c), behind gradients and all other rules.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"
#include "kernels/linalg/attention.h"
#include "kernels/ops.h"

static const char not_made[] = "only the compiler makes nodes of this op";

static enum td_code infer(struct td_infer *c, struct td_err *err)
{
    struct td_attention_form f;
    struct td_attention_sizes s;
    TD_FAIL_IF(!td_attention_read(c->node, &f), err, INVALID_ARGUMENT, "%s: %s", TD_NODE_STR(c->node),
               not_made);
    TD_TRY(td_attention_sizes_of(c->node, &f, c->in, &s, err));
    c->out[0] = s.output;
    return TD_OK;
}

static const char *refuse_others(const struct td_node *n)
{
    struct td_attention_form f;
    return td_attention_read(n, &f) ? NULL : not_made;
}

/* ------------------------------------------------------------------ rows of a batch */

static const struct td_attention_axes *axes_of_input(const struct td_attention_form *f, int i)
{
    for (int k = 0; k < f->n_stages; k++) {
        if (f->stage[k].operand == i) {
            return &f->stage[k].axes;
        }
    }
    return &f->axes[i];
}

/* The canonical axis that the tensor's is, counted from its end; -1: none. */
static int canonical_of(const struct td_attention_axes *a, int back)
{
    for (int k = 0; k < a->n; k++) {
        if (a->at[k] == -back) {
            return k;
        }
    }
    return back > a->n ? back - 1 : -1;
}

/* How far from the end of a tensor the canonical axis is; 0: it has none. */
static int back_of(const struct td_attention_axes *a, int canonical)
{
    return canonical < a->n ? -a->at[canonical] : canonical + 1;
}

/* Rows along an axis that stays: of the batch, or T, which neither key nor value has. */
static bool rows(struct td_batchable_step *s)
{
    struct td_attention_form f;
    int axis = -1, first = -1;
    if (!td_attention_read(s->node, &f)) {
        return td_batchable_no(s, "%s", not_made);
    }
    for (int i = 0; i < s->n_in; i++) {
        if (s->in[i].kind == TD_VALUE_ROW) {
            const int mine = canonical_of(axes_of_input(&f, i), td_batchable_rank(s, i) - s->in[i].axis);
            const bool inside = i == TD_ATTENTION_KEY || i == TD_ATTENTION_VALUE ? mine < 2 : mine < 1;
            if (inside) {
                return td_batchable_no(s, "it sums over the rows");
            }
            if (first >= 0 && (mine != axis || !td_batchable_same_rows(s, first, i))) {
                return td_batchable_no(s, "the rows of its inputs are not aligned");
            }
            axis = mine;
            first = first < 0 ? i : first;
        } else if (s->in[i].kind != TD_VALUE_CONST) {
            return td_batchable_no(s, "its input %d follows from the number of rows", i);
        }
    }
    for (int i = 0; i < s->n_in; i++) {
        const bool has_t = i != TD_ATTENTION_KEY && i != TD_ATTENTION_VALUE;
        const int back = axis == 1 && !has_t ? 0 : back_of(axes_of_input(&f, i), axis);
        if (s->in[i].kind == TD_VALUE_CONST && back > 0 && td_batchable_spans(s, i, back - 1)) {
            return td_batchable_no(s, "its input %d has constants for each row", i);
        }
    }
    const int back = back_of(&f.axes[TD_ATTENTION_OUTPUT], axis);
    return td_batchable_as_input(s, 0, first, td_batchable_out_shape(s, 0, 0)->rank - back);
}

/* ------------------------------------------------------------------ the row */

#define FLOATS (TD_BIT(TD_FLOAT) | TD_BIT(TD_HALF) | TD_BIT(TD_BFLOAT16))

static const struct td_kernel kernels[] = {{.name = "attention.blocks",
                                            .library = TD_LIB_OWN,
                                            .types = {{"T", FLOATS}},
                                            .refuse = refuse_others,
                                            .run = td_attention_run},
                                           {.name = "attention.reference",
                                            .types = {{"T", FLOATS}},
                                            .refuse = refuse_others,
                                            .run = td_attention_run_plain},
                                           {.name = NULL}};

const struct td_op td_ops_attention[] = {
    {.name = "_Attention",
     .sig = "(query:T, key:T, value:T, operands:Ts) -> (output:T) {T:type; Ts:list(type)}",
     .flags = TD_OP_HEAVY,
     .role = TD_ROLE_ATTENTION,
     .batchable = TD_BATCHABLE(rows),
     .infer = infer,
     .group_rule = td_attention_rule,
     .kernels = kernels,
     .grad_missing = "made by the compiler, after gradients"},
    {.name = NULL},
};
