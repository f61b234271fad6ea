/* kernels/state/candidate.h - what candidate samplers share: a distribution over classes, drawn from a
 * generator that the node keeps, and how often each class was to be expected.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_STATE_CANDIDATE_H
#define TD_KERNELS_STATE_CANDIDATE_H

#include "core/graph/op.h"
#include "kernels/math/philox.h"

#define TD_CANDIDATES_OUTS                                                                                   \
    "(sampled_candidates:int64, true_expected_count:float, sampled_expected_count:float)"

struct td_candidates {
    int64_t range; /* classes are in [0, range) */
    int64_t (*draw)(const struct td_candidates *s, struct td_philox_words *w);
    float (*probability)(const struct td_candidates *s, int64_t v);
    /* What the node keeps between calls, zeroed at first: filled by begin, which runs once (again, if it
     * fails), and changed by learn, which is given the true classes after they were drawn. NULL: none. */
    size_t kept_bytes;
    void *kept;
    enum td_code (*begin)(struct td_call *c, const struct td_candidates *s, struct td_err *err);
    void (*learn)(const struct td_candidates *s, const int64_t *classes, int64_t n);
};

/* Makes the three outputs of a sampler. */
TD_MUST enum td_code td_candidates_sample(struct td_call *c, struct td_candidates *s, struct td_err *err);
/* The shape function of those with a range_max. */
TD_MUST enum td_code td_candidates_infer(struct td_infer *c, struct td_err *err);

#endif
