/* core/run/exec.c - a whole run of a plan: feeds into slots, the steps, fetches out of them.
 *
 * Ranges of steps run one after the other on this thread (core/run/exec_range.c); between them stand parallel
 * regions, which may use further threads (core/run/region_run.c). A run that used a device ends when its
 * stream has, and an error there comes before the host's own. Whatever came of it, every slot gives back what
 * it owns.
 *
 * Threads: a run is one thread's, but for regions; plan and bound plan are shared and immutable, the frame is
 * the run's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/exec_impl.h"

#include <string.h>

#include "core/base/float_mode.h"
#include "core/base/signal_stack.h"
#include "core/run/device_run.h"
#include "core/run/settled.h"
#include "core/run/variable.h"

static enum td_code run_steps(struct td_exec *x, struct td_err *err)
{
    const struct td_plan *p = x->plan;
    const int n_regions = x->frame->dev == NULL ? p->n_regions : 0; /* a device has its own order */
    int at = 0;
    for (int r = 0; r < n_regions; r++) {
        TD_TRY(td_exec_steps(x, at, p->regions[r].first, err));
        TD_TRY(td_region_run(x, r, err));
        at = td_region_end(&p->regions[r]);
    }
    return td_exec_steps(x, at, p->n_steps, err);
}

static enum td_code take_outputs(struct td_exec *x, struct td_tensor *out, struct td_err *err)
{
    const struct td_plan *p = x->plan;
    struct td_frame *f = x->frame;
    for (int i = 0; i < p->n_fetches; i++) {
        int v = p->fetches[i];
        enum td_code rc = TD_OK;
        const struct td_tensor *there = td_device_run_result(f, v);
        if (there != NULL) {
            td_tensor_ref(&out[i], there);
        } else if (p->dead_values && f->dead[v]) {
            rc = td_fail(err, TD_INVALID_ARGUMENT,
                         "Retval[%d] does not have value: it lies in a branch that was not taken", i);
        } else if (p->is_ref[v] && td_tensor_count(&f->slots[v]) == 1 &&
                   td_tensor_obj(&f->slots[v], 0) != NULL &&
                   td_tensor_obj(&f->slots[v], 0)->type == &td_variable_type) {
            rc = td_variable_read((struct td_variable *)td_tensor_obj(&f->slots[v], 0), &out[i], err);
        } else if (f->slots[v].buf == NULL) {
            rc = td_tensor_copy(&out[i], &f->slots[v], err);
        } else {
            td_tensor_ref(&out[i], &f->slots[v]);
        }
        if (rc) {
            while (i-- > 0) {
                td_tensor_clear(&out[i]);
            }
            return rc;
        }
    }
    return TD_OK;
}

/* Those that the run is given are its own from here on. Feeds are values 0 to n_feeds. */
static enum td_code take_feeds(struct td_exec *x, const struct td_tensor *const *in, struct td_err *err)
{
    struct td_run *run = x->run;
    struct td_frame *f = x->frame;
    const int n_gives = run->gives != NULL ? run->n_gives : 0;
    enum td_code rc = TD_OK;
    for (int i = 0; i < x->plan->n_feeds; i++) {
        const bool given = i < n_gives && in[i]->buf != NULL;
        if (in[i]->device != NULL) {
            rc = rc ? rc : td_device_run_feed(f, i, in[i], given ? &run->gives[i] : NULL, err);
            continue;
        }
        f->slots[i] = *in[i];
        f->state[i] = given ? TD_SLOT_OWNED : TD_SLOT_SET;
        if (given) {
            memset(&run->gives[i], 0, sizeof run->gives[i]);
        }
    }
    run->gives = NULL;
    return rc;
}

enum td_code td_exec_run(const struct td_plan *p, struct td_bound_plan *l, struct td_run *run,
                         const struct td_tensor *const *in, struct td_tensor *out, struct td_err *err)
{
    struct td_exec x = {.run = run, .plan = p, .bound = l};
    TD_TRY(td_frame_take(l, &x.frame, err));
    struct td_frame *f = x.frame;
    if (p->dead_values) {
        memset(f->dead, 0, (size_t)p->n_values);
        memset(f->step_dead, 0, (size_t)p->n_steps);
    }
    memset(f->state, TD_SLOT_UNSET, (size_t)p->n_values);
    enum td_code rc = take_feeds(&x, in, err);
    td_signal_stack_make();
    unsigned long mode = td_float_mode_enter();
    if (rc == TD_OK) {
        td_settled_begin(&x);
    }
    rc = rc ? rc : run_steps(&x, err);
    td_float_mode_leave(mode);
    if (f->dev != NULL) {
        rc = td_device_run_finish(f, p, run->anywhere, rc, err);
    }
    rc = rc ? rc : take_outputs(&x, out, err);
    if (f->dev != NULL) {
        td_device_run_clear(f);
    }
    for (int v = 0; v < p->n_values; v++) {
        td_exec_release(&x, v);
    }
    td_frame_give(l, f);
    return rc;
}
