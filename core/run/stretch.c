/* core/run/stretch.c - one walk over the steps, twice: to count, and to note.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/stretch.h"

#include "core/base/mem.h"
#include "core/run/device_faults.h"
#include "core/run/model.h"

static bool is_fixed(const struct td_bound_plan *l, int v)
{
    const struct td_plan *p = l->plan;
    return l->known[v].dtype != TD_DTYPE_NONE || (v >= p->first_const && v < p->first_const + p->n_consts);
}

static bool may_record(const struct td_bound_plan *l, int k)
{
    const struct td_step *s = &l->plan->steps[k];
    bool ok = l->mode[k] == TD_STEP_DEVICE && l->choice[k].kernel != NULL &&
              (s->node->op->flags & TD_OP_DRAWS) == 0;
    for (int i = 0; ok && i < s->n_in; i++) {
        ok = !s->on_host[i] || is_fixed(l, s->in[i]);
    }
    return ok;
}

/* The longest from step on; *launches of it. */
static struct td_stretch longest(const struct td_bound_plan *l, int step, int *launches)
{
    struct td_stretch s = {step, step};
    int judged = 0;
    *launches = 0;
    for (int k = step; k < l->plan->n_steps; k++) {
        if (l->mode[k] == TD_STEP_SKIP) {
            continue;
        }
        if (!may_record(l, k) || judged == TD_DEVICE_FAULTS_MOST) {
            break;
        }
        judged += l->choice[k].kernel->judged != 0;
        *launches += !td_stretch_hands_on(l, k);
        s.end = k + 1;
    }
    return s;
}

static int walk(const struct td_bound_plan *l, struct td_stretch *out)
{
    int n = 0;
    for (int k = 0; k < l->plan->n_steps;) {
        int launches;
        const struct td_stretch s = longest(l, k, &launches);
        if (l->mode[k] != TD_STEP_SKIP && launches >= 2) {
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
    if (!l->uses_device || l->plan->dead_values || d == NULL || d->graph_run == 0 || d->graph_begin == NULL) {
        return true;
    }
    const int n = walk(l, NULL);
    l->stretches = td_calloc((size_t)n + 1, sizeof *l->stretches);
    if (l->stretches == NULL) {
        return false;
    }
    l->n_stretches = walk(l, l->stretches);
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

bool td_stretch_has(const struct td_bound_plan *l, int step)
{
    const int i = last_before(l, step);
    return i >= 0 && step < l->stretches[i].end;
}
