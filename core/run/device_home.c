/* core/run/device_home.c - homes are found by the stretch's steps, and looked up by value; who holds them is
 * counted in one walk over what the run has on the device, by address.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_home.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/run/variable.h"

/* ------------------------------------------------------------------ which there are */

/* Whether a value that was read or taken of the variable is used when the stretch was launched: it may lie
 * where the variable does. */
static bool is_used_behind(const struct td_bound_plan *l, const struct td_stretch *of,
                           const struct td_obj *variable)
{
    const struct td_plan *p = l->plan;
    bool used = false;
    for (int k = 0; k < of->end && !used; k++) {
        const enum td_stretch_use use = l->mode[k] == TD_STEP_SKIP ? TD_USES_NONE : td_stretch_use(l, k);
        const bool reads = use == TD_USES_READ || use == TD_USES_TAKE;
        for (int i = 0; reads && i < p->steps[k].n_in; i++) {
            used |=
                td_stretch_variable(l, k, i) == variable && td_stretch_outlives(l, of, p->steps[k].out0 + i);
        }
    }
    return used;
}

static bool is_made(const struct td_bound_plan *l, const struct td_stretch *of, int v)
{
    bool made = false;
    for (int k = of->first; k < of->end && !made; k++) {
        const struct td_step *s = &l->plan->steps[k];
        made = td_stretch_runs(l, k) && v >= s->out0 && v < s->out0 + s->n_out;
    }
    return made;
}

/* What step k assigns, and the value that was taken of the same variable in the stretch; -1: none was. */
static int taken_for(const struct td_bound_plan *l, const struct td_stretch *of, int assign)
{
    const struct td_obj *variable = td_stretch_variable(l, assign, 0);
    const int made = l->plan->steps[assign].in[1];
    int taken = -1;
    for (int k = of->first; k < assign && taken < 0; k++) {
        if (l->mode[k] != TD_STEP_SKIP && td_stretch_use(l, k) == TD_USES_TAKE &&
            td_stretch_variable(l, k, 0) == variable) {
            taken = l->plan->steps[k].out0;
        }
    }
    return taken >= 0 && l->plan->dtype[taken] == l->plan->dtype[made] &&
                   td_shape_equal(&l->shape[taken], &l->shape[made]) && td_shape_count(&l->shape[made]) > 0 &&
                   is_made(l, of, made) && !is_used_behind(l, of, variable)
               ? taken
               : -1;
}

/* A value that is put at a home already is where it is for others. */
static bool is_made_for(const struct td_recorded *r, int v)
{
    bool yes = false;
    for (int i = 0; i < r->n_homes && !yes; i++) {
        yes = r->homes[i].made == v && r->homes[i].taken >= 0;
    }
    return yes;
}

/* The value whose bytes v has: what steps of the stretch hand on. */
static int root_of(const struct td_bound_plan *l, const struct td_stretch *of, int v)
{
    for (int k = of->end - 1; k >= of->first; k--) {
        const struct td_step *s = &l->plan->steps[k];
        v = td_stretch_runs(l, k) && td_stretch_hands_on(l, k) && s->out0 == v ? s->in[0] : v;
    }
    return v;
}

/* Whether v was read or taken of the variable. */
static bool is_of(const struct td_bound_plan *l, const struct td_stretch *of, const struct td_obj *variable,
                  int v)
{
    bool yes = false;
    for (int k = 0; k < of->end && !yes; k++) {
        const struct td_step *s = &l->plan->steps[k];
        const int i = v - s->out0;
        const bool shows = l->mode[k] != TD_STEP_SKIP && i >= 0 && i < s->n_out && i < s->n_in;
        const enum td_stretch_use use = shows ? td_stretch_use(l, k) : TD_USES_NONE;
        yes = (use == TD_USES_READ || use == TD_USES_TAKE) && td_stretch_variable(l, k, i) == variable;
    }
    return yes;
}

/* Whether step k judges input i, or control flow in it may. */
static bool judges(const struct td_bound_plan *l, int k, int i)
{
    const struct td_inner *x = l->inner[k];
    return td_stretch_runs(l, k) &&
           (x != NULL ? x->n_judges > 0 : i < 32 && (l->choice[k].kernel->judged >> i & 1) != 0);
}

/* Whether the stretch judges what the variable is before it. */
static bool is_judged(const struct td_bound_plan *l, const struct td_stretch *of,
                      const struct td_obj *variable)
{
    bool yes = false;
    for (int k = of->first; k < of->end && !yes; k++) {
        const struct td_step *s = &l->plan->steps[k];
        for (int i = 0; i < s->n_in && !yes; i++) {
            yes = judges(l, k, i) && is_of(l, of, variable, root_of(l, of, s->in[i]));
        }
    }
    return yes;
}

static struct td_variable *variable_of(const struct td_bound_plan *l, int assign)
{
    const struct td_obj *o = td_stretch_variable(l, assign, 0);
    return o->type == &td_variable_type ? (struct td_variable *)o : NULL;
}

enum td_code td_homes_find(const struct td_bound_plan *l, struct td_recorded *r, struct td_err *err)
{
    const struct td_stretch *of = &r->of;
    r->homes = td_calloc((size_t)(of->end - of->first) + 1, sizeof *r->homes);
    if (r->homes == NULL) {
        return td_no_memory(err, (size_t)(of->end - of->first), "what a recording assigns");
    }
    for (int k = of->first; k < of->end; k++) {
        if (l->mode[k] == TD_STEP_SKIP || td_stretch_use(l, k) != TD_USES_ASSIGN) {
            continue;
        }
        struct td_variable *variable = variable_of(l, k);
        const int made = l->plan->steps[k].in[1], taken = is_made_for(r, made) ? -1 : taken_for(l, of, k);
        if (variable != NULL && td_shape_count(&l->shape[made]) > 0 && is_made(l, of, made)) {
            r->homes[r->n_homes++] =
                (struct td_recorded_home){.variable = variable,
                                          .taken = taken,
                                          .made = made,
                                          .judged = is_judged(l, of, td_stretch_variable(l, k, 0))};
        }
    }
    return TD_OK;
}

struct td_recorded_home *td_home_of(const struct td_recorded *r, int v)
{
    struct td_recorded_home *home = NULL;
    for (int i = 0; i < r->n_homes && home == NULL; i++) {
        home = v >= 0 && r->homes[i].taken == v ? &r->homes[i] : NULL;
    }
    return home;
}

/* ------------------------------------------------------------------ who holds them */

static int by_place(const void *a, const void *b)
{
    const uintptr_t x = (uintptr_t)((const struct td_recorded_home *)a)->there.buf,
                    y = (uintptr_t)((const struct td_recorded_home *)b)->there.buf;
    return (x > y) - (x < y);
}

static struct td_recorded_home *find(const struct td_recorded *r, const struct td_buffer *b)
{
    struct td_recorded_home at = {.there = {.buf = (struct td_buffer *)b}};
    return bsearch(&at, r->homes, (size_t)r->n_homes, sizeof at, by_place);
}

/* Counts the run's own references to each, by place. False: some value that lies in one is used when the
 * stretch was launched. */
static bool count(const struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r)
{
    const struct td_device_run *dev = f->dev;
    bool over = true;
    for (int i = 0; i < r->n_homes; i++) {
        r->homes[i].held = 0;
    }
    for (int i = 0; i < dev->weights.n; i++) {
        struct td_recorded_home *home = find(r, dev->weights.list[i]);
        if (home != NULL) {
            home->held++;
        }
    }
    for (int v = 0; v < dev->n_values; v++) {
        struct td_recorded_home *home = dev->at[v].buf != NULL ? find(r, dev->at[v].buf) : NULL;
        if (home != NULL) {
            home->held++;
            over &= home->taken < 0 || !td_stretch_outlives(l, &r->of, v);
        }
    }
    return over;
}

enum td_code td_homes_enter(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                            bool *free, struct td_err *err)
{
    *free = r->n_homes == 0 || count(f, l, r);
    for (int i = 0; i < r->n_homes && *free; i++) {
        const struct td_recorded_home *home = &r->homes[i];
        if (home->taken < 0) {
            continue;
        }
        struct td_buffer *b = td_variable_hold_home(home->variable, &home->there, home->held);
        const enum td_code rc = td_device_run_hold(&f->dev->weights, b, err);
        td_buffer_unref(b);
        TD_TRY(rc);
        *free = b != NULL;
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ where they are */

/* Bytes like that, which are there for other runs, too: one may assign the variable this moment, and copies
 * the value to its home in a stream of its own. */
static enum td_code make_place(struct td_device_run *dev, struct td_tensor *like, struct td_err *err)
{
    const struct td_device *d = dev->device;
    TD_TRY(td_device_run_make(dev, like->dtype, &like->shape, like, err));
    td_buffer_off_stream(like->buf);
    enum td_code rc = d->event_record(d, dev->stream, dev->event, err);
    rc = rc ? rc : d->event_wait(d, dev->event, err);
    if (rc) {
        td_tensor_clear(like);
    }
    return rc;
}

static enum td_code place(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded_home *home,
                          struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    const int v = home->made;
    struct td_tensor like = {.dtype = l->plan->dtype[v], .device = dev->device, .shape = l->shape[v]};
    if (home->taken >= 0 && dev->only_there[home->taken]) {
        td_tensor_ref(&like, &dev->at[home->taken]);
    }
    td_variable_make_home(home->variable, &like, dev, &home->there);
    td_tensor_clear(&like);
    if (home->there.buf == NULL) {
        like.dtype = l->plan->dtype[v];
        like.shape = l->shape[v];
        TD_TRY(make_place(dev, &like, err));
        td_variable_make_home(home->variable, &like, dev, &home->there);
        td_tensor_clear(&like);
    }
    if (home->judged) {
        TD_TRY(td_device_run_make(dev, l->plan->dtype[v], &l->shape[v], &home->aside, err));
        td_buffer_off_stream(home->aside.buf);
    }
    return TD_OK;
}

enum td_code td_homes_place(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                            struct td_err *err)
{
    bool free;
    for (int i = 0; i < r->n_homes; i++) {
        TD_TRY(place(f, l, &r->homes[i], err));
    }
    qsort(r->homes, (size_t)r->n_homes, sizeof *r->homes, by_place);
    TD_TRY(td_homes_enter(f, l, r, &free, err));
    TD_FAIL_IF(!free, err, RESOURCE_EXHAUSTED, "a variable's value is somebody else's, too");
    return TD_OK;
}

enum td_code td_homes_record(struct td_frame *f, struct td_recorded *r, struct td_stream *stream,
                             struct td_err *err)
{
    const struct td_device *d = f->dev->device;
    for (int i = 0; i < r->n_homes; i++) {
        const struct td_recorded_home *home = &r->homes[i];
        struct td_tensor *made = &f->dev->at[home->made];
        if (home->judged) {
            TD_TRY(d->copy(d, stream, TD_COPY_ON_DEVICE, home->aside.data, home->there.data,
                           td_tensor_bytes(&home->aside), err));
        }
        if (home->taken < 0 || made->data == home->there.data) {
            continue; /* in the second case: the value that was taken, as it is */
        }
        TD_FAIL_IF(made->buf != r->arena, err, UNIMPLEMENTED,
                   "a variable is assigned what lies at another's place");
        TD_TRY(
            d->copy(d, stream, TD_COPY_ON_DEVICE, home->there.data, made->data, td_tensor_bytes(made), err));
        td_tensor_clear(made);
        td_tensor_ref(made, &home->there);
    }
    return TD_OK;
}

static void judge_aside(const struct td_recorded *r, const struct td_recorded *in)
{
    for (int i = 0; i < in->n_judges; i++) {
        const struct td_recorded_judge *j = &in->judges[i];
        for (int k = 0; k < j->step->n_in; k++) {
            const struct td_recorded_home *home = j->in[k].buf != NULL ? find(r, j->in[k].buf) : NULL;
            if (home != NULL && home->judged) {
                j->in[k].buf = home->aside.buf;
                j->in[k].data = home->aside.data;
            }
        }
    }
    for (int i = 0; i < in->n_inner; i++) {
        for (int p = 0; p < in->inner[i].of->n; p++) {
            judge_aside(r, &in->inner[i].part[p].rec);
        }
    }
}

void td_homes_judge_aside(const struct td_recorded *r)
{
    if (r->n_homes > 0) {
        judge_aside(r, r);
    }
}

void td_homes_drop(struct td_recorded *r)
{
    for (int i = 0; i < r->n_homes; i++) {
        td_tensor_clear(&r->homes[i].aside);
    }
    td_free(r->homes);
    r->homes = NULL;
    r->n_homes = 0;
}
