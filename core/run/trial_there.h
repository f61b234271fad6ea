/* core/run/trial_there.h - a trial's side on a device (core/run/trial.h): inputs sent once, kernels queued on
 * a stream of its own and timed by the clock, from the first launch until the device is done.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_TRIAL_THERE_H
#define TD_CORE_RUN_TRIAL_THERE_H

#include "core/run/select.h"

enum { TD_TRIAL_INPUTS = 8 };

struct td_trial_there {
    const struct td_kernel_query *q;
    struct td_stream *stream;
    struct td_event *event;
    struct td_tensor in[TD_TRIAL_INPUTS], out;
    uint32_t weights;           /* bit i: input i is one, and comes swapped to kernels that ask for that */
    struct td_buffer *operands; /* of any values, enough for any epilogue; NULL: none is wanted */
    const float *post_in[TD_KERNEL_MOST];
};

/* in: the query's inputs on the host, borrowed for the trial; weights: which of them are. For
 * td_trial_there_close also when it fails. */
TD_MUST enum td_code td_trial_there_open(struct td_trial_there *t, const struct td_kernel_query *q,
                                         const struct td_tensor *in, uint32_t weights, struct td_err *err);
void td_trial_there_close(struct td_trial_there *t);
/* The shortest of a few runs, the first not counted; 0: it failed. leaves: it takes fewer epilogues than one
 * that takes all, so that a copy of its result is counted, too, for what then goes over that once more. */
int64_t td_trial_there_time(struct td_trial_there *t, const struct td_choice *c, bool leaves,
                            int64_t until_ns);

#endif
