/* core/run/device_graph.c - an arena, a recording, and who reads and writes what of it.
 *
 *   arena   | draws | words | zeros | inputs, each its own place | outputs, workspaces (device_arena.h) |
 *
 * Words are those of launches that judge inputs: the recording begins with zeros to them, and behind each of
 * its launches they are copied to the run's own (core/run/device_faults.h).
 *
 * An input is a weight, whose address is recorded; or fixed with the shapes, and sent once; or the run's, and
 * copied for each launch. How a recording is made: core/run/device_record.c; loops:
 * core/run/device_loop.h.
 *
 * Threads: all_mu guards the list of all, and who is busy; what is busy is its run's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_graph.h"

#include <limits.h>
#include <string.h>

#include "core/base/list.h"
#include "core/base/mem.h"
#include "core/run/device_graph_impl.h"
#include "core/run/device_home.h"
#include "core/run/device_loop.h"

enum { MOST_WAIT = 1024 };

struct td_device_graphs {
    const struct td_device *device;
    struct td_link listed; /* under all_mu, as is */
    bool busy;             /* a run has it */
    int n;
    struct td_recorded at[];
};

static struct {
    pthread_mutex_t mu;
    struct td_link *first;
} all = {.mu = PTHREAD_MUTEX_INITIALIZER};

/* ------------------------------------------------------------------ all of a frame's */

void td_recorded_drop(const struct td_device *d, struct td_recorded *r)
{
    if (r->graph != NULL) {
        d->graph_free(d, r->graph);
    }
    for (int i = 0; i < r->n_in; i++) {
        if (r->in[i].from == TD_FROM_WEIGHT) {
            td_tensor_clear(&r->in[i].there);
        }
    }
    for (int i = 0; i < r->n_judges; i++) {
        td_free(r->judges[i].in);
    }
    td_recorded_inner_free(d, r);
    td_homes_drop(r);
    td_buffer_unref(r->arena);
    td_free(r->in);
    td_free(r->out);
    td_free(r->judges);
    *r = (struct td_recorded){.of = r->of,
                              .runs = r->runs,
                              .due = r->due,
                              .wait = r->wait,
                              .elsewhere = r->elsewhere,
                              .n_elsewhere = r->n_elsewhere};
}

/* It may be recorded again, after twice as many runs as the last time. */
static void drop_for_now(const struct td_device *d, struct td_recorded *r)
{
    td_recorded_drop(d, r);
    r->wait = r->wait < MOST_WAIT / 2 ? r->wait * 2 + 2 : MOST_WAIT;
    r->due = r->due == INT_MAX ? INT_MAX : r->runs + r->wait;
}

static enum td_code graphs_new(const struct td_bound_plan *l, const struct td_device *d,
                               struct td_device_graphs **out, struct td_err *err)
{
    const size_t bytes = sizeof **out + (size_t)l->n_stretches * sizeof(struct td_recorded);
    struct td_device_graphs *g = td_calloc(1, bytes);
    if (g == NULL) {
        return td_no_memory(err, bytes, "what is recorded of a plan");
    }
    g->device = d;
    g->n = l->n_stretches;
    for (int i = 0; i < g->n; i++) {
        g->at[i] = (struct td_recorded){.of = l->stretches[i], .due = d->graph_run};
    }
    pthread_mutex_lock(&all.mu);
    td_link_in(&all.first, &g->listed);
    pthread_mutex_unlock(&all.mu);
    *out = g;
    return TD_OK;
}

static void set_busy(struct td_device_graphs *g, bool busy)
{
    pthread_mutex_lock(&all.mu);
    g->busy = busy;
    pthread_mutex_unlock(&all.mu);
}

void td_device_graphs_free(struct td_device_graphs *g)
{
    if (g == NULL) {
        return;
    }
    pthread_mutex_lock(&all.mu);
    td_link_out(&g->listed);
    pthread_mutex_unlock(&all.mu);
    for (int i = 0; i < g->n; i++) {
        td_recorded_drop(g->device, &g->at[i]);
        td_free(g->at[i].elsewhere);
    }
    td_free(g);
}

bool td_device_graphs_have(const struct td_device_graphs *g, const struct td_buffer *b)
{
    bool yes = false;
    for (int i = 0; g != NULL && b != NULL && i < g->n && !yes; i++) {
        yes = g->at[i].arena == b;
    }
    return yes;
}

void td_device_graphs_leave(struct td_device_graphs *g, bool is_short)
{
    if (g == NULL || !g->busy) {
        return;
    }
    for (int i = 0; i < g->n; i++) {
        struct td_recorded *r = &g->at[i];
        const bool kept = r->arena != NULL && !td_buffer_unique(r->arena);
        if (r->arena != NULL && (is_short || kept)) {
            drop_for_now(g->device, r);
        }
    }
    set_busy(g, false);
}

size_t td_device_graphs_trim(const struct td_device *d)
{
    size_t bytes = 0;
    pthread_mutex_lock(&all.mu);
    for (struct td_link *at = all.first; at != NULL; at = at->next) {
        struct td_device_graphs *g = td_link_owner(at, struct td_device_graphs, listed);
        for (int i = 0; !g->busy && g->device == d && i < g->n; i++) {
            bytes += g->at[i].arena != NULL ? g->at[i].arena->bytes : 0;
            if (g->at[i].arena != NULL) {
                drop_for_now(d, &g->at[i]);
            }
        }
    }
    pthread_mutex_unlock(&all.mu);
    return bytes;
}

/* ------------------------------------------------------------------ launching */

static bool is_same(const struct td_frame *f, const struct td_recorded_source *in)
{
    const struct td_tensor *at = &f->dev->at[in->v], *slot = &f->slots[in->v];
    switch (in->from) {
    case TD_FROM_WEIGHT:
        return !f->dev->only_there[in->v] && slot->data == in->here &&
               td_tensor_bytes(slot) == td_tensor_bytes(&in->there);
    case TD_FROM_THERE:
        return at->buf != NULL && at->buf == in->there.buf && at->data == in->there.data &&
               td_tensor_bytes(at) == td_tensor_bytes(&in->there);
    default:
        return true;
    }
}

/* That value v was not where it was recorded: where that goes on, it is copied. */
static void note_elsewhere(struct td_recorded *r, int v)
{
    int *more = td_realloc(r->elsewhere, (size_t)r->n_elsewhere + 1, sizeof *more);
    if (more != NULL) {
        r->elsewhere = more;
        r->elsewhere[r->n_elsewhere++] = v;
    }
}

/* Whether it is there, all that it reads is at the places that were recorded, and homes may be written. */
static enum td_code is_current(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                               bool *current, struct td_err *err)
{
    *current = !td_buffer_is_gone(r->arena);
    for (int i = 0; i < r->n_in; i++) {
        const bool same = is_same(f, &r->in[i]);
        if (!same && r->in[i].from == TD_FROM_THERE) {
            note_elsewhere(r, r->in[i].v);
        }
        *current &= same;
    }
    return *current ? td_homes_enter(f, l, r, current, err) : TD_OK;
}

static bool makes(const struct td_recorded *r, const struct td_plan *p, int v)
{
    const struct td_step *last = &p->steps[r->of.end - 1];
    return v >= p->steps[r->of.first].out0 && v < last->out0 + last->n_out;
}

/* What of a judge's inputs the host has. */
static const struct td_tensor *value_here(const struct td_frame *f, const struct td_plan *p,
                                          const struct td_recorded *r, const struct td_recorded_judge *j,
                                          int v)
{
    if (j->known != NULL) {
        return j->known[v].dtype != TD_DTYPE_NONE ? &j->known[v] : NULL;
    }
    return makes(r, p, v) || f->dev->only_there[v] || f->slots[v].buf == NULL ? NULL : &f->slots[v];
}

/* Of the judges [from, to). */
static enum td_code expect_some(struct td_frame *f, const struct td_plan *p, const struct td_recorded *r,
                                int from, int to, struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    int32_t *words = NULL;
    for (int i = from; i < to; i++) {
        const struct td_recorded_judge *j = &r->judges[i];
        const int n = j->step->n_in;
        struct td_launch launch = {
            .model = dev->model, .node = j->step->node, .kernel = j->kernel, .in = j->in, .n_in = n};
        const struct td_tensor **here = td_calloc((size_t)n + 1, sizeof *here);
        if (here == NULL) {
            return td_no_memory(err, (size_t)n, "what a recording refuses");
        }
        for (int k = 0; k < n; k++) {
            here[k] = value_here(f, p, r, j, j->step->in[k]);
        }
        const enum td_code rc = td_device_faults_add(dev->faults, &launch, here, err);
        td_free(here);
        TD_TRY(rc);
        words = words == NULL ? launch.fault : words;
    }
    return from == to ? TD_OK
                      : dev->device->copy(dev->device, dev->stream, TD_COPY_ON_DEVICE, words, r->words + from,
                                          (size_t)(to - from) * sizeof *words, err);
}

/* In the order of the steps: what comes behind one that was refused may be refused for that. */
enum td_code td_recorded_expect(struct td_frame *f, const struct td_plan *p, const struct td_recorded *r,
                                struct td_err *err)
{
    int from = 0;
    for (int i = 0; i < r->n_inner; i++) {
        const struct td_recorded_inner *x = &r->inner[i];
        int to = from;
        while (to < r->n_judges && r->judges[to].step < &p->steps[x->step]) {
            to++;
        }
        TD_TRY(expect_some(f, p, r, from, to, err));
        from = to;
        for (int k = 0; k < x->of->n; k++) {
            TD_TRY(td_recorded_expect(f, x->part[k].bound->plan, &x->part[k].rec, err));
        }
    }
    return expect_some(f, p, r, from, r->n_judges, err);
}

/* A result is in the arena, or in bytes of its own where it may outlive the run. */
static enum td_code place_result(struct td_frame *f, const struct td_plan *p,
                                 const struct td_recorded_result *out, bool anywhere, struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    const bool fetched = p->last_use[out->v] == p->n_steps;
    struct td_tensor t;
    if (out->home || out->assigned || !p->escapes[out->v] || (fetched && !anywhere)) {
        td_tensor_ref(&t, &out->there);
    } else {
        TD_TRY(td_device_run_make(dev, out->there.dtype, &out->there.shape, &t, err));
        const size_t bytes = td_tensor_bytes(&t);
        const enum td_code rc = bytes == 0 ? TD_OK
                                           : dev->device->copy(dev->device, dev->stream, TD_COPY_ON_DEVICE,
                                                               t.data, out->there.data, bytes, err);
        if (rc) {
            td_tensor_clear(&t);
            return rc;
        }
    }
    td_device_run_put(f, out->v, &t);
    return TD_OK;
}

static enum td_code place_results(struct td_frame *f, const struct td_plan *p, const struct td_recorded *r,
                                  bool anywhere, struct td_err *err)
{
    for (int i = 0; i < r->n_out; i++) {
        TD_TRY(place_result(f, p, &r->out[i], anywhere, err));
    }
    return TD_OK;
}

enum td_code td_recorded_make_room(struct td_device_run *dev, int n_judges, struct td_err *err)
{
    if (n_judges > 0 && dev->faults != NULL && td_device_faults_left(dev->faults) < n_judges) {
        TD_TRY(td_device_run_wait(dev, err));
    }
    return n_judges == 0 || dev->faults != NULL
               ? TD_OK
               : td_device_faults_new(dev->device, dev->stream, dev->event, &dev->faults, err);
}

/* What was sent is there from here on, for further steps, too; but a loop writes over it. */
static enum td_code give_all(struct td_frame *f, const struct td_recorded *r, struct td_err *err)
{
    for (int i = 0; i < r->n_in; i++) {
        const struct td_recorded_source *in = &r->in[i];
        if (in->from != TD_FROM_GIVEN && in->from != TD_FROM_HOME) {
            continue;
        }
        TD_TRY(td_recorded_give(f, in, err));
        if (!r->of.loop && f->dev->at[in->v].buf == NULL) {
            td_tensor_ref(&f->dev->at[in->v], &in->there);
        }
    }
    return TD_OK;
}

/* given: its inputs are in their places. */
static enum td_code launch(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                           bool given, const struct td_run *run, struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    TD_TRY(td_recorded_make_room(dev, td_recorded_judged(r), err));
    TD_TRY(given ? TD_OK : give_all(f, r, err));
    TD_TRY(td_recorded_draw(f, l, r, err));
    if (r->of.loop) {
        TD_TRY(td_device_loop_run(f, l->plan, r, run, err));
    } else {
        dev->queued = true;
        TD_TRY(dev->device->graph_launch(dev->device, dev->stream, r->graph, err));
        TD_TRY(td_recorded_expect(f, l->plan, r, err));
    }
    return place_results(f, l->plan, r, run->anywhere, err);
}

/* The recording is made now, where it can be. */
static enum td_code make(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r, bool *made,
                         struct td_err *err)
{
    bool never = false;
    TD_TRY(r->of.loop ? td_device_loop_make(f, l, r, made, &never, err)
                      : td_recorded_make(f, l, r, made, &never, err));
    if (!*made) {
        drop_for_now(f->dev->device, r);
        r->due = never ? INT_MAX : r->due;
    }
    return TD_OK;
}

enum td_code td_device_graph_due(struct td_frame *f, const struct td_bound_plan *l, int step,
                                 const struct td_stretch **of, struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    const int i = td_stretch_at(l, step);
    *of = NULL;
    if (i < 0) {
        return TD_OK;
    }
    if (dev->graphs == NULL) {
        TD_TRY(graphs_new(l, dev->device, &dev->graphs, err));
    }
    if (!dev->graphs->busy) {
        set_busy(dev->graphs, true);
    }
    struct td_recorded *r = &dev->graphs->at[i];
    r->runs += r->runs < INT_MAX;
    if (r->arena != NULL || r->runs >= r->due) {
        *of = &l->stretches[i];
        return td_device_run_stream(dev, err); /* before it is looked at: no restart from here on */
    }
    return TD_OK;
}

enum td_code td_device_graph_run(struct td_frame *f, const struct td_bound_plan *l,
                                 const struct td_stretch *of, const struct td_run *run, int *next,
                                 struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    struct td_recorded *r = &dev->graphs->at[of - l->stretches];
    bool made = r->arena != NULL;
    const bool was_made = made;
    *next = of->first;
    bool current = true;
    TD_TRY(made ? is_current(f, l, r, &current, err) : TD_OK);
    if (!current) {
        drop_for_now(dev->device, r);
        return TD_OK;
    }
    TD_TRY(made ? TD_OK : make(f, l, r, &made, err));
    if (made) {
        const bool loop = r->of.loop && l->inner[r->of.first]->loop;
        TD_TRY(launch(f, l, r, !was_made && !loop, run, err));
        *next = r->of.end;
    }
    return TD_OK;
}
