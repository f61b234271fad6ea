/* core/base/work.c - the work at hand, a pointer in each thread, and why it shall end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/work.h"

#include "core/base/timings.h"

enum { LOOK_EVERY = 1 << 16 }; /* elements: some 100 us */

__thread const struct td_work *td_work_here;
__thread int64_t td_work_left = LOOK_EVERY;
__thread bool td_work_cut;

enum td_code td_work_why(const struct td_work *w)
{
    const int word = w->stop == NULL ? 0 : atomic_load_explicit(w->stop, memory_order_relaxed);
    if (word != 0) {
        return (enum td_code)word;
    }
    return w->deadline_ns != 0 && td_now_ns() > w->deadline_ns ? TD_DEADLINE_EXCEEDED : TD_OK;
}

enum td_code td_work_over(void)
{
    return td_work_here == NULL ? TD_OK : td_work_why(td_work_here);
}

bool td_work_look(void)
{
    td_work_cut = td_work_cut || td_work_over() != TD_OK;
    td_work_left = td_work_cut ? 0 : LOOK_EVERY;
    return td_work_cut;
}

enum td_code td_work_error(enum td_code why, struct td_err *err)
{
    return td_fail(err, why == TD_OK ? TD_CANCELLED : why, "the run was stopped: %s",
                   why == TD_DEADLINE_EXCEEDED ? "its deadline has passed"
                   : why == TD_UNAVAILABLE     ? "the server is shutting down"
                                               : "the request was cancelled");
}
