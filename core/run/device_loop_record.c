/* core/run/device_loop_record.c - a loop is recorded: by itself, with an arena of its own, or in another one.
 *
 *   arena   | left, paused, flags | words | zeros | carried | aside, and what stays of its parts | values |
 *
 * Condition and body are its parts (core/run/device_inner.c), which are fed what it carries, in the places of
 * that. A loop by itself carries its inputs, in theirs; one in another plan its results, in the places that
 * they have there, with a copy of its inputs to begin with: in a pass, since the launch may go on in it. The
 * condition is recorded twice, at the same places: before the loop, and in it. A value that goes from one
 * carried place to another in a round is first put aside.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "core/run/device_loop.h"

/* A loop while it is recorded. */
struct round {
    struct td_frame *f; /* of the plan that it is in */
    const struct td_step *s;
    struct td_recorded_inner *x;
    const struct td_recorded_room *room;
    struct td_device_loop how;
};

/* ------------------------------------------------------------------ what it carries */

static size_t bytes_of(const struct td_recorded_inner *x, int i)
{
    const struct td_bound_plan *body = x->of->bound[TD_LOOP_BODY];
    return (size_t)td_shape_count(&body->key[i]) * td_dtype_size(body->plan->dtype[i]);
}

/* Its bytes go from one carried value's place to another's. */
static bool is_put_aside(const struct td_recorded_inner *x, int i)
{
    return x->of->from[i] >= 0 && x->of->from[i] != i;
}

size_t td_recorded_aside(const struct td_recorded_inner *x)
{
    size_t at = 0;
    for (int i = 0; x->of->loop && i < x->of->bound[TD_LOOP_BODY]->plan->n_feeds; i++) {
        at += is_put_aside(x, i) ? td_device_arena_aligned(bytes_of(x, i)) : 0;
    }
    return at;
}

static void feed_parts(const struct round *w)
{
    for (int p = 0; p < TD_LOOP_PARTS; p++) {
        for (int i = 0; i < w->s->n_in; i++) {
            struct td_tensor *feed = &w->x->part[p].frame->dev->at[i];
            td_tensor_clear(feed);
            td_tensor_ref(feed, &w->x->place[i]);
        }
    }
}

/* What a round has made goes to where the next one finds it. */
static enum td_code carry(const struct round *w, struct td_stream *body, struct td_err *err)
{
    const struct td_device *d = w->f->dev->device;
    const struct td_recorded_inner *x = w->x;
    for (int pass = 0; pass < 2; pass++) {
        size_t at = 0;
        for (int i = 0; i < w->s->n_in; i++) {
            const size_t bytes = bytes_of(x, i);
            const bool first = is_put_aside(x, i);
            const void *from =
                first && pass == 1 ? x->aside + at : td_recorded_made(&x->part[TD_LOOP_BODY], i);
            void *to = pass == 0 ? x->aside + at : x->place[i].data;
            if (bytes > 0 && x->of->from[i] != i && (first || pass == 1)) {
                TD_TRY(d->loop_carry(d, body, &w->how, to, from, bytes, err));
            }
            at += first ? td_device_arena_aligned(bytes) : 0;
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ its rounds */

static enum td_code record_condition(struct round *w, struct td_stream *stream, struct td_err *err)
{
    TD_TRY(td_recorded_part_steps(&w->x->part[TD_LOOP_COND], stream, w->room, err));
    w->how.go = td_recorded_made(&w->x->part[TD_LOOP_COND], 0);
    return TD_OK;
}

static enum td_code record_round(struct round *w, struct td_stream *body, struct td_err *err)
{
    TD_TRY(td_recorded_part_steps(&w->x->part[TD_LOOP_BODY], body, w->room, err));
    TD_TRY(carry(w, body, err));
    return record_condition(w, body, err);
}

/* Behind the first look at the condition. */
static enum td_code record_rounds(struct round *w, struct td_stream *stream, struct td_err *err)
{
    const struct td_device *d = w->f->dev->device;
    struct td_stream *body;
    TD_TRY(d->loop_begin(d, stream, &w->how, &body, err));
    const enum td_code rc = record_round(w, body, err);
    struct td_err ended = {0};
    const enum td_code end = d->body_end(d, body, &w->how, &ended);
    return rc ? rc : end ? td_fail(err, end, "%s", ended.msg) : TD_OK;
}

static struct round round_of(struct td_frame *f, const struct td_step *s, struct td_recorded_inner *x,
                             const struct td_recorded_room *room)
{
    return (struct round){.f = f,
                          .s = s,
                          .x = x,
                          .room = room,
                          .how = {.left = room->left, .fault = room->words, .n_faults = room->n_words}};
}

/* ------------------------------------------------------------------ in another plan */

/* Places for its results, and with them for what it carries. */
static enum td_code place_results(const struct round *w, const struct td_bound_plan *l, struct td_err *err)
{
    struct td_device_run *dev = w->f->dev;
    for (int i = 0; i < w->s->n_in; i++) {
        const int v = w->s->out0 + i;
        if (td_device_arena_has(l, w->x->step, i)) {
            TD_TRY(td_device_run_make(dev, l->plan->dtype[v], &l->shape[v], &dev->at[v], err));
            dev->only_there[v] = true;
        }
        w->x->place[i] = w->x->of->from[i] == i ? dev->at[w->s->in[i]] : dev->at[v];
    }
    return TD_OK;
}

static enum td_code begin(struct round *w, struct td_stream *entry, const uint32_t *fresh, struct td_err *err)
{
    const struct td_device_run *dev = w->f->dev;
    for (int i = 0; i < w->s->n_in; i++) {
        const struct td_tensor *to = &dev->at[w->s->out0 + i];
        const size_t bytes = bytes_of(w->x, i);
        if (bytes > 0 && to->buf != NULL) {
            TD_TRY(dev->device->pass_copy(dev->device, entry, fresh, to->data, dev->at[w->s->in[i]].data,
                                          bytes, err));
        }
    }
    feed_parts(w);
    return record_condition(w, entry, err);
}

enum td_code td_recorded_loop_step(struct td_frame *f, const struct td_bound_plan *l,
                                   struct td_device_recorder *rec, struct td_recorded_inner *x,
                                   struct td_err *err)
{
    const struct td_device *d = f->dev->device;
    struct round w = round_of(f, &l->plan->steps[x->step], x, rec->room);
    uint32_t *flags = rec->room->flags + (size_t)x->number * 2;
    struct td_device_pass pass = td_recorded_pass(rec, x->number + x->of->n_loops);
    struct td_stream *entry;
    pass.paused = w.how.paused = rec->room->left + 2 + x->number;
    pass.fresh = flags;
    pass.runs = flags + 1;
    w.how.runs = flags + 1;
    TD_TRY(place_results(&w, l, err));
    TD_TRY(d->pass_begin(d, rec->stream, &pass, &entry, err));
    const enum td_code rc = begin(&w, entry, flags, err);
    struct td_err ended = {0};
    const enum td_code end = d->body_end(d, entry, NULL, &ended);
    TD_TRY(rc ? rc : end ? td_fail(err, end, "%s", ended.msg) : TD_OK);
    return record_rounds(&w, rec->stream, err);
}

/* ------------------------------------------------------------------ by itself */

/* Input i is a weight that no round changes, nor another step of the plan. */
static bool is_weight(const struct td_frame *f, const struct td_bound_plan *l, const struct td_recorded *r,
                      int i)
{
    const struct td_device_run *dev = f->dev;
    const int v = r->in[i].v;
    const struct td_tensor *slot = &f->slots[v];
    return r->inner[0].of->from[i] == i && dev->lasts[v] && !dev->only_there[v] && slot->buf != NULL &&
           td_tensor_bytes(slot) > 0 && (td_stretch_is_fixed(l, v) || !td_recorded_changes(l, v));
}

static enum td_code find_inputs(const struct td_frame *f, const struct td_bound_plan *l,
                                struct td_recorded *r, const struct td_step *s, struct td_err *err)
{
    r->in = td_calloc((size_t)s->n_in, sizeof *r->in);
    r->out = td_calloc((size_t)s->n_out, sizeof *r->out);
    if (r->in == NULL || r->out == NULL) {
        return td_no_memory(err, (size_t)s->n_in, "what a loop carries");
    }
    for (int i = 0; i < s->n_in; i++) {
        struct td_recorded_source *in = &r->in[r->n_in++];
        in->v = s->in[i];
        in->from = is_weight(f, l, r, i) ? TD_FROM_WEIGHT : TD_FROM_GIVEN;
    }
    return TD_OK;
}

/* Its inputs are in their places, and those are what it carries. */
static enum td_code take_places(struct td_frame *f, struct td_recorded *r, struct td_err *err)
{
    for (int i = 0; i < r->n_in; i++) {
        struct td_recorded_source *in = &r->in[i];
        if (in->from == TD_FROM_WEIGHT) {
            TD_TRY(td_recorded_take_weight(f, in, err));
        }
        r->inner[0].place[i] = in->there;
    }
    return TD_OK;
}

static enum td_code record(struct round *w, struct td_stream *stream, struct td_err *err)
{
    feed_parts(w);
    TD_TRY(record_condition(w, stream, err));
    return record_rounds(w, stream, err);
}

static enum td_code record_graph(struct td_frame *f, const struct td_step *s, struct td_recorded *r,
                                 const struct td_recorded_room *room, struct td_err *err)
{
    const struct td_device *d = f->dev->device;
    struct round w = round_of(f, s, &r->inner[0], room);
    struct td_stream *stream;
    TD_TRY(d->graph_begin(d, &stream, err));
    enum td_code rc = td_recorded_clear_words(f, stream, room, err);
    rc = rc ? rc : record(&w, stream, err);
    struct td_err ended = {0};
    const enum td_code end = d->graph_end(d, stream, &r->graph, &ended);
    return rc ? rc : end ? td_fail(err, end, "%s", ended.msg) : TD_OK;
}

static enum td_code make(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                         struct td_err *err)
{
    const struct td_step *s = &l->plan->steps[r->of.first];
    struct td_recorded_room room = {0};
    TD_TRY(td_recorded_inner_open(f->dev, l, r, err));
    TD_TRY(find_inputs(f, l, r, s, err));
    TD_TRY(td_recorded_allocate(f, l, r, NULL, &room, err));
    r->left = room.left;
    TD_TRY(take_places(f, r, err));
    TD_TRY(td_recorded_inner_bring(r, err));
    TD_TRY(record_graph(f, s, r, &room, err));
    for (int i = 0; i < s->n_out; i++) {
        r->out[r->n_out++] = (struct td_recorded_result){.v = s->out0 + i, .there = r->inner[0].place[i]};
    }
    return TD_OK;
}

enum td_code td_recorded_loop_record(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                                     struct td_err *err)
{
    struct td_err later = {0};
    const enum td_code rc = make(f, l, r, err), closed = td_recorded_inner_close(r, rc ? &later : err);
    return rc ? rc : closed;
}
