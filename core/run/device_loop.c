/* core/run/device_loop.c - loops by themselves: made, and launched until they are over.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_loop.h"

#include <string.h>

#include "core/base/log.h"
#include "core/base/timings.h"
#include "core/base/work.h"

/* Rounds a launch: the first time; and between launches so many that one takes about these times. */
enum { FIRST_ROUNDS = 16, MOST_ROUNDS = 1 << 24, SHORT_NS = 20000000, LONG_NS = 80000000 };

enum td_code td_device_loop_make(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                                 bool *made, bool *never, struct td_err *err)
{
    struct td_err why = {0};
    const uint32_t least = (uint32_t)l->inner[r->of.first]->levels;
    r->rounds = least > FIRST_ROUNDS ? least : FIRST_ROUNDS;
    if (!l->inner[r->of.first]->loop) {
        return td_recorded_make(f, l, r, made, never, err);
    }
    *made = *never = false;
    TD_TRY(td_device_run_stream(f->dev, err));
    const enum td_code rc = td_recorded_loop_record(f, l, r, &why);
    if (rc == TD_OK) {
        td_buffer_off_stream(r->arena); /* whoever drops it has waited for what used it */
        *made = true;
        return TD_OK;
    }
    td_recorded_drop(f->dev->device, r);
    *never = rc != TD_RESOURCE_EXHAUSTED && !td_work_cut;
    td_log(TD_LOG_DEBUG, NULL, "%s does not go round on the device: %s",
           TD_NODE_STR(l->plan->steps[r->of.first].node), why.msg);
    return TD_OK;
}

/* ------------------------------------------------------------------ launching */

/* One launch. *more: it ended for want of rounds. told: pinned, rounds, a word that says that, and one a
 * loop, which are zeros where it begins; first: it does. */
static enum td_code launch(struct td_frame *f, const struct td_plan *p, const struct td_recorded *r,
                           struct td_tensor *told, bool first, bool *more, struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    const struct td_device *d = dev->device;
    uint32_t *left = told->data;
    const size_t two = 2 * sizeof *left, all = td_tensor_bytes(told);
    left[0] = r->rounds;
    left[1] = 0;
    dev->queued = true;
    TD_TRY(td_device_run_hold(&dev->pins, told->buf, err));
    TD_TRY(td_recorded_make_room(dev, td_recorded_judged(r), err));
    TD_TRY(d->copy(d, dev->stream, TD_COPY_TO_DEVICE, r->left, left, first ? all : two, err));
    TD_TRY(d->graph_launch(d, dev->stream, r->graph, err));
    TD_TRY(td_recorded_expect(f, p, r, err));
    TD_TRY(d->copy(d, dev->stream, TD_COPY_TO_HOST, left, r->left, two, err));
    TD_TRY(td_device_run_wait(dev, err));
    *more = left[1] != 0;
    return TD_OK;
}

/* Rounds that the next launch may take, when one of r->rounds took so long: as many at least as loops are one
 * in another, or it would not come to the next round of the innermost. */
static uint32_t fitting(const struct td_recorded *r, int64_t ns)
{
    const uint32_t least = (uint32_t)r->inner[0].of->levels;
    return ns < SHORT_NS && r->rounds < MOST_ROUNDS ? r->rounds * 2
           : ns > LONG_NS && r->rounds / 2 >= least ? r->rounds / 2
                                                    : r->rounds;
}

enum td_code td_device_loop_run(struct td_frame *f, const struct td_plan *p, struct td_recorded *r,
                                const struct td_run *run, struct td_err *err)
{
    const struct td_shape words = td_shape_vector(2 + td_recorded_loops(r));
    struct td_tensor told;
    bool more = true, first = true;
    TD_TRY(td_tensor_new_pinned(&told, f->dev->device, TD_UINT32, &words, err));
    memset(told.data, 0, td_tensor_bytes(&told));
    enum td_code rc = TD_OK;
    while (rc == TD_OK && more) {
        const int64_t start = td_now_ns();
        rc = td_call_stop_reason(run) != TD_OK ? td_call_stop_error(run, err)
                                               : launch(f, p, r, &told, first, &more, err);
        first = false;
        if (rc == TD_OK && more) {
            r->rounds = fitting(r, td_now_ns() - start);
        }
    }
    td_tensor_clear(&told);
    return rc;
}
