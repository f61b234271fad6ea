/* core/run/device_arena.c - first fit, step by step: as core/run/memory_plan.c does for the host's block,
 * with the device's rules of who shares bytes with whom.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_arena.h"

#include <string.h>

#include "core/base/mem.h"

static const size_t MOST_BYTES = SIZE_MAX / 4;

struct area {
    size_t from, to;
    int until; /* [from, to) is taken until this step has run */
};

struct planner {
    const struct td_bound_plan *l;
    const struct td_stretch *s;
    struct area *areas; /* sorted by from */
    int n_areas;
    int *until; /* by value, from the stretch's first output on */
    int first;  /* that value */
};

static int n_values(const struct planner *m)
{
    const struct td_step *last = m->s->end > m->s->first ? &m->l->plan->steps[m->s->end - 1] : NULL;
    return last == NULL ? 0 : last->out0 + last->n_out - m->first;
}

static void keep(struct planner *m, int v, int until)
{
    int *at = v >= m->first ? &m->until[v - m->first] : NULL;
    if (at != NULL && *at < until) {
        *at = until;
    }
}

/* What step k judges, and what may be judged inside of it. */
static void keep_judged(struct planner *m, int k)
{
    const struct td_step *s = &m->l->plan->steps[k];
    const struct td_inner *inner = m->l->inner[k];
    const uint32_t judged = m->l->choice[k].kernel->judged;
    const bool all = inner != NULL && inner->n_judges > 0;
    for (int i = 0; i < s->n_in; i++) {
        if (all || (i < 32 && (judged >> i & 1))) {
            keep(m, s->in[i], m->s->end);
        }
    }
    for (int o = 0; all && o < s->n_out; o++) { /* where a loop has what it carries */
        keep(m, s->out0 + o, m->s->end);
    }
}

/* Backwards, so that chains of views add up. */
static void find_lifetimes(struct planner *m)
{
    const struct td_plan *p = m->l->plan;
    for (int v = 0; v < n_values(m); v++) {
        const int last = p->last_use[v + m->first];
        m->until[v] = last < m->s->end ? last : m->s->end;
    }
    for (int k = m->s->end - 1; k >= m->s->first; k--) {
        const struct td_step *s = &p->steps[k];
        if (m->l->mode[k] != TD_STEP_SKIP && td_stretch_use(m->l, k) == TD_USES_ASSIGN) {
            keep(m, s->in[1], m->s->end);
        }
        if (!td_stretch_runs(m->l, k)) {
            continue;
        }
        keep_judged(m, k);
        if (td_stretch_hands_on(m->l, k)) {
            keep(m, s->in[0], m->until[s->out0 - m->first]);
        }
    }
}

static void retire(struct planner *m, int step)
{
    int kept = 0;
    for (int i = 0; i < m->n_areas; i++) {
        if (m->areas[i].until >= step) {
            m->areas[kept++] = m->areas[i];
        }
    }
    m->n_areas = kept;
}

static size_t first_fit(struct planner *m, size_t low, size_t bytes, int until)
{
    size_t at = low;
    int i = 0;
    while (i < m->n_areas && m->areas[i].from - at < bytes) {
        at = m->areas[i++].to;
    }
    memmove(m->areas + i + 1, m->areas + i, (size_t)(m->n_areas - i) * sizeof *m->areas);
    m->areas[i] = (struct area){at, at + bytes, until};
    m->n_areas++;
    return at;
}

/* False: so many bytes there cannot be. */
static bool place(struct planner *m, size_t low, size_t bytes, int until, struct td_device_arena *out)
{
    if (bytes > MOST_BYTES || out->bytes > MOST_BYTES) { /* what ends below that does not overflow */
        return false;
    }
    const size_t whole = td_device_arena_aligned(bytes > 0 ? bytes : 1);
    const size_t at = first_fit(m, low, whole, until);
    out->at[out->n++] = at;
    out->bytes = at + whole > out->bytes ? at + whole : out->bytes;
    return true;
}

static bool place_step(struct planner *m, int k, size_t low, struct td_device_arena *out)
{
    const struct td_bound_plan *l = m->l;
    const struct td_step *s = &l->plan->steps[k];
    bool ok = true;
    retire(m, k);
    for (int o = 0; ok && o < s->n_out && !td_stretch_hands_on(l, k); o++) {
        const int v = s->out0 + o, until = m->until[v - m->first];
        size_t bytes;
        if (!td_device_arena_has(l, k, o)) {
            continue;
        }
        ok = td_size_mul((size_t)td_shape_count(&l->shape[v]), td_dtype_size(l->plan->dtype[v]), &bytes) &&
             place(m, low, bytes, until < k ? k : until, out);
    }
    const size_t workspace = l->choice[k].offer.workspace_bytes;
    return ok && (workspace == 0 || td_stretch_hands_on(l, k) || place(m, low, workspace, k, out));
}

enum td_code td_device_arena_plan(const struct td_bound_plan *l, const struct td_stretch *s, size_t reserved,
                                  struct td_device_arena *out, struct td_err *err)
{
    struct planner m = {
        .l = l, .s = s, .first = s->end > s->first ? l->plan->steps[s->first].out0 : l->plan->n_values};
    const size_t most = (size_t)(n_values(&m) + s->end - s->first) + 1;
    *out = (struct td_device_arena){.bytes = reserved, .at = td_calloc(most, sizeof *out->at)};
    m.areas = td_calloc(most, sizeof *m.areas);
    m.until = td_calloc(most, sizeof *m.until);
    enum td_code rc = out->at != NULL && m.areas != NULL && m.until != NULL
                          ? TD_OK
                          : td_no_memory(err, most, "a plan's place on a device");
    if (rc == TD_OK) {
        find_lifetimes(&m);
    }
    for (int k = s->first; k < s->end && rc == TD_OK; k++) {
        if (td_stretch_runs(l, k) && !place_step(&m, k, reserved, out)) {
            rc = td_fail(err, TD_RESOURCE_EXHAUSTED,
                         "the values of %d steps take more bytes than there can be", s->end - s->first);
        }
    }
    td_free(m.areas);
    td_free(m.until);
    if (rc) {
        td_device_arena_fini(out);
    }
    return rc;
}

void td_device_arena_fini(struct td_device_arena *a)
{
    td_free(a->at);
    *a = (struct td_device_arena){0};
}
