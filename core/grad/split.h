/* core/grad/split.h - an IR that holds a forward and a backward part, cut in two: what is kept of one for the
 * other.
 *
 *   forward   what the IR's fetches and roots need
 *   backward  what `results` need beyond that: it begins at `seeds`, the gradients from above
 *
 * A forward value that the backward part reads is
 *   - made again there, when it follows from constants and lasting feeds alone, by ops without effects (the
 *     op's flag TD_OP_READS is none, unless something in the IR writes);
 *   - else kept. Where a gradient asked for integers or bools of forward values (shapes, lengths,
 *     comparisons), those are kept, and not what they were made of, unless that is kept all the same.
 * With `recompute` all but feeds and what stateful ops made is made again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_SPLIT_H
#define TD_CORE_GRAD_SPLIT_H

#include "core/grad/body.h"

struct td_grad_cut {
    const struct td_value *seeds; /* td_grad_feed's */
    int n_seeds;
    const struct td_value *results; /* those without a node are skipped */
    int n_results;
    const bool *lasting; /* by feed of ir: the backward part is given the same */
    bool recompute;
};

/* Arrays are the IR's arena's. */
struct td_grad_kept {
    int *feeds; /* numbers of the lasting ones that are needed */
    int n_feeds;
    struct td_value *values;
    int n_values;
};

/* Sorts ir, dropping what neither part needs. The functions are then
 *   forward   td_grad_freeze(feeds -> fetches, kept.values)
 *   backward  td_grad_freeze(kept.feeds, kept.values, seeds, in any order -> results) */
TD_MUST enum td_code td_grad_split(struct td_grad_context *ctx, struct td_ir *ir,
                                   const struct td_grad_cut *cut, struct td_grad_kept *kept,
                                   struct td_err *err);

#endif
