/* kernels/control/control_batchable.c - which functions the control ops own, for the analysis of what may be
 * batched.
 *
 * Calls, conditionals and loops are followed by core/batchable/batchable_function.c; here is told which
 * attributes name the functions, and which inputs they get. Of TF1's conditionals, a Switch passes its input
 * on both ways, unless the rows decide, which refuses the whole callable; a Merge passes on what all its
 * inputs have in common, and says no where they differ.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/control_batchable.h"

bool td_batchable_call(struct td_batchable_step *s)
{
    return td_batchable_calls(s, (struct td_batchable_choice){{"f", NULL}, 0, 1}, 0);
}

bool td_batchable_if(struct td_batchable_step *s)
{
    struct td_batchable_choice c = {{"then_branch", "else_branch"}, 0, 2};
    return td_batchable_choose(s, &c) && td_batchable_calls(s, c, 1);
}

bool td_batchable_case(struct td_batchable_step *s)
{
    struct td_batchable_choice c = {{"branches", NULL}, 0, td_attr_len(s->node, "branches")};
    return td_batchable_choose(s, &c) && td_batchable_calls(s, c, 1);
}

bool td_batchable_while(struct td_batchable_step *s)
{
    return td_batchable_loop_of(s, "cond", "body");
}

/* ------------------------------------------------------------------ TF1 conditionals */

bool td_batchable_switch(struct td_batchable_step *s)
{
    s->refuse = s->in[1].kind > TD_VALUE_CONST;
    return s->refuse ? td_batchable_no(s, "the rows decide which way to go")
                     : td_batchable_pass_on(s, 0, 0) && td_batchable_pass_on(s, 1, 0);
}

bool td_batchable_merge(struct td_batchable_step *s)
{
    s->out[1].kind = TD_VALUE_CONST;
    for (int i = 1; i < s->n_in; i++) {
        bool same = s->in[i].kind == s->in[0].kind && s->in[i].kind <= TD_VALUE_ROW &&
                    s->in[i].axis == s->in[0].axis && s->in[i].pre == s->in[0].pre;
        for (int p = 0; p < TD_BATCHABLE_PROBES && same; p++) {
            same = td_shape_equal(&s->in_shape[p][i], &s->in_shape[p][0]);
        }
        if (!same || s->in[i].kind == TD_VALUE_SIZE) {
            return td_batchable_no(s, "its inputs 0 and %d do not have the same rows", i);
        }
    }
    return td_batchable_pass_on(s, 0, 0);
}
