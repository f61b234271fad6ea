/* core/run/stretch.c - one walk over the steps, twice: to count, and to note.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/stretch.h"

#include "core/base/mem.h"
#include "core/run/device_faults.h"
#include "core/run/model.h"

static bool is_drawn(const struct td_bound_plan *l, int k)
{
    return (l->plan->steps[k].node->op->flags & TD_OP_DRAWS) != 0;
}

bool td_stretch_draws(const struct td_bound_plan *l, int k)
{
    return l->inner[k] == NULL && td_stretch_runs(l, k) && is_drawn(l, k);
}

bool td_stretch_is_same(const struct td_bound_plan *l, int k)
{
    const struct td_step *s = &l->plan->steps[k];
    const struct td_kernel *row = l->choice[k].kernel;
    bool same = row != NULL && row->sized == NULL && (row->draws || !is_drawn(l, k));
    for (int i = 0; same && i < s->n_in; i++) {
        same = !td_step_reads_here(s, l->choice[k].kernel, i) || td_stretch_is_fixed(l, s->in[i]);
    }
    return same;
}

bool td_stretch_is_steady(const struct td_bound_plan *l, int k)
{
    const struct td_step *s = &l->plan->steps[k];
    if (l->mode[k] == TD_STEP_SKIP || l->inner[k] != NULL || (s->n_rows == 0 && s->n_out == 0)) {
        return true;
    }
    const bool checks = l->mode[k] == TD_STEP_DEVICE_CHECK;
    bool ok = (checks || l->mode[k] == TD_STEP_DEVICE) && td_stretch_is_same(l, k) && !is_drawn(l, k);
    for (int i = 0; checks && ok && i < s->n_in; i++) { /* but for what the kernel judges itself */
        const int v = s->in[i];
        ok = td_stretch_is_fixed(l, v) || !td_bound_plan_judges(&l->shape[v], l->plan->dtype[v]) ||
             (i < 32 && (l->choice[k].kernel->judged >> i & 1));
    }
    return ok;
}

static bool may_record(const struct td_bound_plan *l, int k)
{
    return l->inner[k] != NULL ? l->inner[k]->n_loops == 0
                               : l->mode[k] == TD_STEP_DEVICE && td_stretch_is_same(l, k);
}

static int judges(const struct td_bound_plan *l, int k)
{
    return l->inner[k] != NULL ? l->inner[k]->n_judges : l->choice[k].kernel->judged != 0;
}

enum td_stretch_use td_stretch_use(const struct td_bound_plan *l, int k)
{
    const struct td_step *s = &l->plan->steps[k];
    return (s->flags & TD_OP_VARIABLES) == 0 || td_step_on_device(l->mode[k]) ? TD_USES_NONE
           : (s->flags & TD_OP_READS) != 0                                    ? TD_USES_READ
           : s->n_out > 0                                                     ? TD_USES_TAKE
                                                                              : TD_USES_ASSIGN;
}

bool td_stretch_assigns(const struct td_bound_plan *l, int k, int v)
{
    return l->mode[k] != TD_STEP_SKIP && td_stretch_use(l, k) == TD_USES_ASSIGN &&
           l->plan->steps[k].in[1] == v;
}

bool td_stretch_outlives(const struct td_bound_plan *l, const struct td_stretch *s, int v)
{
    bool yes = l->plan->last_use[v] >= s->end;
    for (int k = s->first; k < s->end && !yes; k++) {
        yes = td_stretch_assigns(l, k, v);
    }
    return yes;
}

const struct td_obj *td_stretch_variable(const struct td_bound_plan *l, int k, int i)
{
    const struct td_tensor *t = &l->known[l->plan->steps[k].in[i]];
    return t->dtype == TD_RESOURCE && td_tensor_count(t) == 1 ? td_tensor_obj(t, 0) : NULL;
}

/* Whether a step of [first, k) assigns the variable. */
static bool is_assigned(const struct td_bound_plan *l, int first, int k, const struct td_obj *variable)
{
    bool yes = false;
    for (int i = first; !yes && i < k; i++) {
        yes = l->mode[i] != TD_STEP_SKIP && td_stretch_use(l, i) == TD_USES_ASSIGN &&
              td_stretch_variable(l, i, 0) == variable;
    }
    return yes;
}

/* Whether step k, which uses variables, may stand in a stretch that begins at first. */
static bool may_move(const struct td_bound_plan *l, int first, int k)
{
    const struct td_step *s = &l->plan->steps[k];
    const bool assigns = td_stretch_use(l, k) == TD_USES_ASSIGN;
    bool may = l->mode[k] == TD_STEP_READY && s->deref == NULL && l->choice[k].kernel != NULL;
    for (int i = 0; may && i < (assigns ? 1 : s->n_in); i++) {
        const struct td_obj *variable = td_stretch_variable(l, k, i);
        const int v = assigns ? s->in[1] : s->out0 + i;
        may = variable != NULL && !td_dtype_is_object(l->plan->dtype[v]) && td_shape_known(&l->shape[v]) &&
              !is_assigned(l, first, k, variable);
    }
    return may;
}

/* The longest from step on; *launches of it. */
static struct td_stretch longest(const struct td_bound_plan *l, int step, int *launches)
{
    struct td_stretch s = {.first = step, .end = step};
    int judged = 0;
    *launches = 0;
    for (int k = step; k < l->plan->n_steps; k++) {
        if (l->mode[k] == TD_STEP_SKIP) {
            continue;
        }
        if (td_stretch_use(l, k) != TD_USES_NONE && may_move(l, step, k)) {
            s.end = k + 1;
            continue;
        }
        if (!may_record(l, k) || judged + judges(l, k) > TD_DEVICE_FAULTS_MOST) {
            break;
        }
        judged += judges(l, k);
        *launches += l->inner[k] != NULL ? 2 : !td_stretch_hands_on(l, k);
        s.end = k + 1;
    }
    return s;
}

static int walk(const struct td_bound_plan *l, struct td_stretch *out)
{
    int n = 0;
    for (int k = 0; k < l->plan->n_steps;) {
        int launches;
        struct td_stretch s = longest(l, k, &launches);
        if (l->inner[k] != NULL && l->inner[k]->n_loops > 0) {
            s = (struct td_stretch){.first = k, .end = k + 1, .loop = true};
        }
        if (l->mode[k] != TD_STEP_SKIP && (launches >= 2 || s.loop)) {
            if (out != NULL) {
                out[n] = s;
            }
            n++;
        }
        k = l->mode[k] != TD_STEP_SKIP && s.end > k ? s.end : k + 1;
    }
    return n;
}

bool td_stretches_find(struct td_bound_plan *l)
{
    const struct td_device *d = td_model_opts_of(l->plan->model)->device;
    if (l->plan->dead_values || d == NULL || d->graph_run == 0 || d->graph_begin == NULL) {
        return true;
    }
    const int n = walk(l, NULL);
    l->stretches = td_calloc((size_t)n + 1, sizeof *l->stretches);
    if (l->stretches == NULL) {
        return false;
    }
    l->n_stretches = walk(l, l->stretches);
    l->uses_device |= n > 0;
    return true;
}

/* The last that begins at or before step; -1: none. */
static int last_before(const struct td_bound_plan *l, int step)
{
    int low = 0, high = l->n_stretches;
    while (low < high) {
        const int mid = low + (high - low) / 2;
        if (l->stretches[mid].first <= step) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low - 1;
}

int td_stretch_at(const struct td_bound_plan *l, int step)
{
    const int i = last_before(l, step);
    return i >= 0 && l->stretches[i].first == step ? i : -1;
}

const struct td_stretch *td_stretch_of(const struct td_bound_plan *l, int step)
{
    const int i = last_before(l, step);
    return i >= 0 && step < l->stretches[i].end ? &l->stretches[i] : NULL;
}
