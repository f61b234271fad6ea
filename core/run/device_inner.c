/* core/run/device_inner.c - control flow in a recording: its parts have a place in the arena each, and are
 * recorded where the step stands.
 *
 *     If, Case    value -> [ one of its branches -> its results, to their places ]
 *     While       core/run/device_loop_record.c
 *
 * A part is a bound plan of its own (core/run/inner.h), with a frame while it is recorded; what it is fed is
 * where the plan around it has that. The parts of a recording are a tree, as deep as control flow nests, and
 * each stage of making one is a walk over it. Branches share bytes for their values, since one of them is
 * run.
 *
 * A launch that has a loop in a loop may end in the middle of a round (core/run/device_loop.h). So a plan
 * with loops in it falls into pieces: what lies between them is a pass, which is left out when the launch
 * has ended before it, or has begun behind it.
 *
 *     steps, loop, steps, if, steps     becomes     [pass] loop [pass] if [pass]
 *
 * Which loops are paused is a word for each, in the order of their steps, those in a loop behind it:
 * whether a launch goes on behind a step is seen in those of the steps behind it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "core/run/device_graph_impl.h"

/* ------------------------------------------------------------------ the parts and their frames */

static enum td_code open_part(const struct td_device_run *dev, struct td_recorded_part *part,
                              struct td_bound_plan *bound, struct td_err *err)
{
    part->bound = bound;
    part->rec = (struct td_recorded){.of = {.first = 0, .end = bound->plan->n_steps}, .whole = true};
    part->by = (struct td_device_recorder){.to = &part->rec, .known = bound->known};
    TD_TRY(td_frame_take(bound, &part->frame, err));
    if (part->frame->dev == NULL) {
        TD_TRY(td_device_run_open(bound->plan, &part->frame->dev, err));
        part->opened = true;
    }
    part->frame->dev->stream = dev->stream;
    return td_recorded_inner_open(dev, bound, &part->rec, err);
}

static enum td_code open_step(const struct td_device_run *dev, const struct td_bound_plan *l, int k,
                              struct td_recorded_inner *x, struct td_err *err)
{
    const struct td_inner *of = l->inner[k];
    x->step = k;
    x->part = td_calloc((size_t)of->n, sizeof *x->part);
    x->place = td_calloc((size_t)l->plan->steps[k].n_in, sizeof *x->place);
    if (x->part == NULL || x->place == NULL) {
        return td_no_memory(err, (size_t)of->n, "what control flow runs");
    }
    x->of = of;
    for (int p = 0; p < of->n; p++) {
        TD_TRY(open_part(dev, &x->part[p], of->bound[p], err));
    }
    return TD_OK;
}

enum td_code td_recorded_inner_open(const struct td_device_run *dev, const struct td_bound_plan *l,
                                    struct td_recorded *r, struct td_err *err)
{
    int n = 0;
    for (int k = r->of.first; k < r->of.end; k++) {
        n += l->inner[k] != NULL;
    }
    r->inner = n > 0 ? td_calloc((size_t)n, sizeof *r->inner) : NULL;
    if (n > 0 && r->inner == NULL) {
        return td_no_memory(err, (size_t)n, "what control flow runs");
    }
    for (int k = r->of.first; k < r->of.end; k++) {
        if (l->inner[k] != NULL) {
            TD_TRY(open_step(dev, l, k, &r->inner[r->n_inner++], err));
        }
    }
    return TD_OK;
}

static int n_parts(const struct td_recorded_inner *x)
{
    return x->of != NULL ? x->of->n : 0;
}

static enum td_code close_part(struct td_recorded_part *part, struct td_err *err)
{
    struct td_frame *f = part->frame;
    enum td_code rc = td_recorded_inner_close(&part->rec, err);
    td_device_arena_fini(&part->by.plan);
    if (f != NULL && f->dev != NULL && f->dev->stream != NULL) {
        struct td_err later = {0};
        const enum td_code waited = td_device_run_wait(f->dev, rc ? &later : err);
        rc = rc ? rc : waited;
        f->dev->stream = NULL; /* the run's */
        td_device_run_clear(f);
    }
    if (part->opened) {
        td_device_run_close(f->dev);
        f->dev = NULL;
    }
    if (f != NULL) {
        td_frame_give(part->bound, f);
        part->frame = NULL;
    }
    td_buffer_unref(part->rec.arena); /* the recording has the one that counts */
    part->rec.arena = NULL;
    return rc;
}

enum td_code td_recorded_inner_close(struct td_recorded *r, struct td_err *err)
{
    enum td_code rc = TD_OK;
    for (int i = 0; i < r->n_inner; i++) {
        for (int p = 0; p < n_parts(&r->inner[i]); p++) {
            struct td_err later = {0};
            const enum td_code closed = close_part(&r->inner[i].part[p], rc ? &later : err);
            rc = rc ? rc : closed;
        }
    }
    return rc;
}

void td_recorded_inner_free(const struct td_device *d, struct td_recorded *r)
{
    for (int i = 0; i < r->n_inner; i++) {
        struct td_recorded_inner *x = &r->inner[i];
        for (int p = 0; p < n_parts(x); p++) {
            td_recorded_drop(d, &x->part[p].rec);
        }
        td_free(x->part);
        td_free(x->place);
    }
    td_free(r->inner);
}

int td_recorded_loops(const struct td_recorded *r)
{
    int n = 0;
    for (int i = 0; i < r->n_inner; i++) {
        n += r->inner[i].of->n_loops;
    }
    return n;
}

int td_recorded_judged(const struct td_recorded *r)
{
    int n = r->n_judges;
    for (int i = 0; i < r->n_inner; i++) {
        for (int p = 0; p < n_parts(&r->inner[i]); p++) {
            n += td_recorded_judged(&r->inner[i].part[p].rec);
        }
    }
    return n;
}

/* ------------------------------------------------------------------ their places */

enum td_code td_recorded_inner_find(struct td_recorded *r, int *n_words, struct td_err *err)
{
    for (int i = 0; i < r->n_inner; i++) {
        for (int p = 0; p < n_parts(&r->inner[i]); p++) {
            struct td_recorded_part *part = &r->inner[i].part[p];
            bool ok;
            int judges;
            TD_TRY(td_recorded_find(part->frame, part->bound, &part->rec, &ok, err));
            TD_FAIL_IF(!ok, err, UNIMPLEMENTED, "it reads a variable");
            TD_TRY(td_recorded_judges(part->bound, &part->rec, &judges, err));
            *n_words += judges;
            TD_TRY(td_recorded_inner_find(&part->rec, n_words, err));
        }
    }
    return TD_OK;
}

size_t td_recorded_inner_place(struct td_recorded *r, size_t at)
{
    for (int i = 0; i < r->n_inner; i++) {
        struct td_recorded_inner *x = &r->inner[i];
        x->aside = r->arena != NULL ? (char *)r->arena->data + at : NULL;
        at += td_recorded_aside(x);
        for (int p = 0; p < n_parts(x); p++) {
            at = td_recorded_place(x->part[p].frame, &x->part[p].rec, at);
            at = td_recorded_inner_place(&x->part[p].rec, at);
        }
    }
    return at;
}

static enum td_code plan_step(struct td_recorded_inner *x, size_t *at, struct td_err *err)
{
    size_t end = *at, from = *at;
    for (int p = 0; p < n_parts(x); p++) {
        struct td_recorded_part *part = &x->part[p];
        TD_TRY(td_device_arena_plan(part->bound, &part->rec.of, from, &part->by.plan, err));
        size_t behind = part->by.plan.bytes;
        TD_TRY(td_recorded_inner_plan(&part->rec, &behind, err));
        end = behind > end ? behind : end;
        from = x->of->loop ? end : from;
    }
    *at = end;
    return TD_OK;
}

enum td_code td_recorded_inner_plan(struct td_recorded *r, size_t *at, struct td_err *err)
{
    for (int i = 0; i < r->n_inner; i++) {
        TD_TRY(plan_step(&r->inner[i], at, err));
    }
    return TD_OK;
}

/* Launches of the part itself that judge. */
static int own_judges(const struct td_recorded_part *part)
{
    int n = 0;
    for (int k = 0; k < part->bound->plan->n_steps; k++) {
        n += td_stretch_runs(part->bound, k) && part->bound->choice[k].kernel->judged != 0;
    }
    return n;
}

void td_recorded_inner_words(struct td_recorded *r, struct td_buffer *arena, int32_t **words, int *loops)
{
    for (int i = 0; i < r->n_inner; i++) {
        struct td_recorded_inner *x = &r->inner[i];
        x->number = *loops;
        *loops += x->of->loop;
        for (int p = 0; p < n_parts(x); p++) {
            struct td_recorded_part *part = &x->part[p];
            part->rec.arena = td_buffer_ref(arena);
            part->rec.words = *words;
            *words += own_judges(part);
            td_recorded_inner_words(&part->rec, arena, words, loops);
        }
    }
}

enum td_code td_recorded_inner_bring(struct td_recorded *r, struct td_err *err)
{
    for (int i = 0; i < r->n_inner; i++) {
        for (int p = 0; p < n_parts(&r->inner[i]); p++) {
            struct td_recorded_part *part = &r->inner[i].part[p];
            TD_TRY(td_recorded_bring(part->frame, &part->rec, err));
            TD_TRY(td_recorded_inner_bring(&part->rec, err));
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ recording a part */

void td_recorded_feed(const struct td_frame *f, const struct td_step *s, int first,
                      struct td_recorded_part *part)
{
    struct td_device_run *in = part->frame->dev;
    for (int i = first; i < s->n_in; i++) {
        td_tensor_clear(&in->at[i - first]);
        td_tensor_ref(&in->at[i - first], &f->dev->at[s->in[i]]);
    }
}

enum td_code td_recorded_part_steps(struct td_recorded_part *part, struct td_stream *stream,
                                    const struct td_recorded_room *room, struct td_err *err)
{
    const struct td_plan *p = part->bound->plan;
    for (int k = 0; k < p->n_steps; k++) { /* of the time before */
        for (int o = 0; td_stretch_runs(part->bound, k) && o < p->steps[k].n_out; o++) {
            td_device_run_release(part->frame, p->steps[k].out0 + o);
        }
    }
    part->by.stream = stream;
    part->by.room = room;
    return td_recorded_steps(part->frame, part->bound, &part->by, err);
}

const void *td_recorded_made(const struct td_recorded_part *part, int i)
{
    return part->frame->dev->at[part->bound->plan->fetches[i]].data;
}

/* ------------------------------------------------------------------ branches */

static enum td_code record_branch(struct td_frame *f, const struct td_step *s, struct td_recorded_part *part,
                                  struct td_stream *body, const struct td_recorded_room *room,
                                  struct td_err *err)
{
    const struct td_device *d = f->dev->device;
    td_recorded_feed(f, s, 1, part);
    TD_TRY(td_recorded_part_steps(part, body, room, err));
    for (int i = 0; i < s->n_out; i++) {
        const struct td_tensor *to = &f->dev->at[s->out0 + i];
        const size_t bytes = td_tensor_bytes(to);
        if (bytes > 0) {
            TD_TRY(d->copy(d, body, TD_COPY_ON_DEVICE, to->data, td_recorded_made(part, i), bytes, err));
        }
    }
    return TD_OK;
}

static enum td_code branches(struct td_frame *f, const struct td_bound_plan *l,
                             struct td_device_recorder *rec, struct td_recorded_inner *x, struct td_err *err)
{
    const struct td_step *s = &l->plan->steps[x->step];
    struct td_device_run *dev = f->dev;
    const struct td_tensor *value = &dev->at[s->in[0]];
    const struct td_device_branch by = {.value = value->data,
                                        .bytes = td_dtype_size(value->dtype),
                                        .is_float = td_dtype_in(value->dtype, TD_SET_FLOATS),
                                        .by_number = s->node->op->branch.list != NULL,
                                        .n = x->of->n};
    struct td_stream *bodies[TD_DEVICE_BODIES];
    for (int o = 0; o < s->n_out; o++) {
        const int v = s->out0 + o;
        TD_TRY(td_device_run_make(dev, l->plan->dtype[v], &l->shape[v], &dev->at[v], err));
        dev->only_there[v] = true;
    }
    TD_TRY(dev->device->branch_begin(dev->device, rec->stream, &by, bodies, err));
    enum td_code rc = TD_OK;
    for (int p = 0; p < x->of->n; p++) {
        struct td_err ended = {0};
        rc = rc ? rc : record_branch(f, s, &x->part[p], bodies[p], rec->room, err);
        const enum td_code end = dev->device->body_end(dev->device, bodies[p], NULL, &ended);
        rc = rc ? rc : end ? td_fail(err, end, "%s", ended.msg) : TD_OK;
    }
    return rc;
}

enum td_code td_recorded_inner_step(struct td_frame *f, const struct td_bound_plan *l,
                                    struct td_device_recorder *rec, struct td_recorded_inner *x,
                                    struct td_err *err)
{
    return x->of->loop ? td_recorded_loop_step(f, l, rec, x, err) : branches(f, l, rec, x, err);
}
