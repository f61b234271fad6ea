/* core/run/device_loop_record.c - a loop is recorded: its arena, and what is queued in which order.
 *
 *   arena   | left | words | zeros | carried | aside | inputs of the condition | of the body | values of the
 *             condition | of the body |
 *
 * Both plans have a frame each while they are recorded, whose feeds are the carried values' places. They
 * borrow the run's stream, for what is sent to the arena before. The condition is recorded twice, at the same
 * places: before the loop, and in it. A value that goes from one carried place to another in a round is first
 * put aside.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "core/run/device_loop.h"

struct making {
    struct td_frame *f; /* the run's */
    struct td_recorded *r;
    struct td_recorded_loop *x;
    struct td_frame *inner[TD_LOOP_PARTS];
    bool opened[TD_LOOP_PARTS]; /* the frame has a side on the device for the recording alone */
    struct td_device_recorder rec[TD_LOOP_PARTS];
    size_t words, aside; /* where that begins in the arena */
    size_t n_words_bytes;
    struct td_device_loop how;
};

/* ------------------------------------------------------------------ the frames of both plans */

static enum td_code open_frames(struct making *m, struct td_err *err)
{
    for (int p = 0; p < TD_LOOP_PARTS; p++) {
        struct td_bound_plan *l = m->x->bound[p];
        TD_TRY(td_frame_take(l, &m->inner[p], err));
        struct td_frame *in = m->inner[p];
        if (in->dev == NULL) {
            TD_TRY(td_device_run_open(l->plan, &in->dev, err));
            m->opened[p] = true;
        }
        in->dev->stream = m->f->dev->stream;
        m->x->part[p] = (struct td_recorded){.of = {.first = 0, .end = l->plan->n_steps}, .whole = true};
        m->rec[p] = (struct td_device_recorder){.to = &m->x->part[p], .known = l->known};
    }
    return TD_OK;
}

/* What was sent for the recording has arrived. */
static enum td_code close_frames(struct making *m, struct td_err *err)
{
    enum td_code rc = TD_OK;
    for (int p = 0; p < TD_LOOP_PARTS; p++) {
        struct td_frame *in = m->inner[p];
        td_device_arena_fini(&m->rec[p].plan);
        if (in != NULL && in->dev != NULL && in->dev->stream != NULL) {
            struct td_err later = {0};
            const enum td_code waited = td_device_run_wait(in->dev, rc ? &later : err);
            rc = rc ? rc : waited;
            in->dev->stream = NULL;
            td_device_run_clear(in);
        }
        if (m->opened[p]) {
            td_device_run_close(in->dev);
            in->dev = NULL;
        }
        if (in != NULL) {
            td_frame_give(m->x->bound[p], in);
        }
        td_buffer_unref(m->x->part[p].arena); /* the recording has the one that counts */
        m->x->part[p].arena = NULL;
    }
    return rc;
}

/* ------------------------------------------------------------------ the arena */

/* Input i is a weight that no round changes. */
static bool is_weight(const struct making *m, int i)
{
    const struct td_device_run *dev = m->f->dev;
    const int v = m->r->in[i].v;
    const struct td_tensor *slot = &m->f->slots[v];
    return m->x->from[i] == i && dev->lasts[v] && !dev->only_there[v] && slot->buf != NULL &&
           td_tensor_bytes(slot) > 0;
}

static enum td_code find_inputs(struct making *m, const struct td_step *s, struct td_err *err)
{
    m->r->in = td_calloc((size_t)s->n_in, sizeof *m->r->in);
    m->r->out = td_calloc((size_t)s->n_out, sizeof *m->r->out);
    if (m->r->in == NULL || m->r->out == NULL) {
        return td_no_memory(err, (size_t)s->n_in, "what a loop carries");
    }
    for (int i = 0; i < s->n_in; i++) {
        struct td_recorded_source *in = &m->r->in[m->r->n_in++];
        in->v = s->in[i];
        in->from = is_weight(m, i) ? TD_FROM_WEIGHT : TD_FROM_GIVEN;
    }
    return TD_OK;
}

/* Its bytes go from one carried value's place to another's. */
static bool is_put_aside(const struct td_recorded_loop *x, int i)
{
    return x->from[i] >= 0 && x->from[i] != i;
}

static size_t bytes_of(const struct td_recorded_loop *x, int i)
{
    const struct td_bound_plan *body = x->bound[TD_LOOP_BODY];
    return (size_t)td_shape_count(&body->key[i]) * td_dtype_size(body->plan->dtype[i]);
}

/* Where inputs of the two plans end; sets where all is up to there, once there is an arena. */
static size_t place_all(struct making *m)
{
    size_t at = td_recorded_place(m->f, m->r, m->words + 2 * m->n_words_bytes);
    m->aside = at;
    for (int i = 0; i < m->x->n; i++) {
        at += is_put_aside(m->x, i) ? td_device_arena_aligned(bytes_of(m->x, i)) : 0;
    }
    for (int p = 0; p < TD_LOOP_PARTS; p++) {
        at = td_recorded_place(m->inner[p], &m->x->part[p], at);
    }
    return at;
}

static enum td_code find_all(struct making *m, const struct td_step *s, struct td_err *err)
{
    int n = 0;
    TD_TRY(find_inputs(m, s, err));
    for (int p = 0; p < TD_LOOP_PARTS; p++) {
        bool ok;
        int judges;
        TD_TRY(td_recorded_find(m->inner[p], m->x->bound[p], &m->x->part[p], &ok, err));
        TD_FAIL_IF(!ok, err, UNIMPLEMENTED, "it reads a variable");
        TD_TRY(td_recorded_judges(m->x->bound[p], &m->x->part[p], &judges, err));
        n += judges;
    }
    TD_FAIL_IF(n > TD_DEVICE_FAULTS_MOST, err, UNIMPLEMENTED, "%d of its steps judge their inputs", n);
    m->how.n_faults = n;
    m->words = td_device_arena_aligned(2 * sizeof(uint32_t));
    m->n_words_bytes = td_device_arena_aligned((size_t)n * sizeof(int32_t));
    return TD_OK;
}

/* Of the two plans' values the body's come behind the condition's. */
static enum td_code make_arena(struct making *m, struct td_err *err)
{
    struct td_device_recorder *cond = &m->rec[TD_LOOP_COND], *body = &m->rec[TD_LOOP_BODY];
    TD_TRY(td_device_arena_plan(m->x->bound[TD_LOOP_COND], &cond->to->of, place_all(m), &cond->plan, err));
    TD_TRY(
        td_device_arena_plan(m->x->bound[TD_LOOP_BODY], &body->to->of, cond->plan.bytes, &body->plan, err));
    TD_TRY(td_device_run_allocate(m->f->dev, body->plan.bytes, &m->r->arena, err));
    char *arena = m->r->arena->data;
    int32_t *words = (int32_t *)(arena + m->words);
    m->x->left = m->how.left = (uint32_t *)arena;
    m->how.fault = words;
    for (int p = 0; p < TD_LOOP_PARTS; p++) {
        m->x->part[p].arena = td_buffer_ref(m->r->arena);
        m->x->part[p].words = words;
        for (int k = 0; k < m->x->bound[p]->plan->n_steps; k++) {
            words += td_stretch_runs(m->x->bound[p], k) && m->x->bound[p]->choice[k].kernel->judged != 0;
        }
    }
    (void)place_all(m);
    return TD_OK;
}

/* Everything that stays is there, and both frames' feeds are the places of what is carried. */
static enum td_code fill_arena(struct making *m, struct td_err *err)
{
    static const char zeros[TD_DEVICE_FAULTS_MOST * sizeof(int32_t)];
    struct td_device_run *dev = m->f->dev;
    char *arena = m->r->arena->data;
    if (m->n_words_bytes > 0) {
        dev->queued = true;
        TD_TRY(dev->device->copy(dev->device, dev->stream, TD_COPY_TO_DEVICE,
                                 arena + m->words + m->n_words_bytes, zeros, m->n_words_bytes, err));
    }
    for (int i = 0; i < m->x->n; i++) {
        struct td_recorded_source *in = &m->r->in[i];
        if (in->from == TD_FROM_WEIGHT) {
            TD_TRY(td_recorded_take_weight(m->f, in, err));
        }
        m->x->place[i] = in->there;
        for (int p = 0; p < TD_LOOP_PARTS; p++) {
            td_tensor_ref(&m->inner[p]->dev->at[i], &in->there);
        }
    }
    for (int p = 0; p < TD_LOOP_PARTS; p++) {
        TD_TRY(td_recorded_bring(m->inner[p], &m->x->part[p], err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ recording */

static enum td_code record_condition(struct making *m, struct td_stream *stream, struct td_err *err)
{
    struct td_frame *f = m->inner[TD_LOOP_COND];
    const struct td_bound_plan *l = m->x->bound[TD_LOOP_COND];
    for (int k = 0; k < l->plan->n_steps; k++) { /* of the pass before */
        const struct td_step *s = &l->plan->steps[k];
        for (int o = 0; td_stretch_runs(l, k) && o < s->n_out; o++) {
            td_device_run_release(f, s->out0 + o);
        }
    }
    m->rec[TD_LOOP_COND].stream = stream;
    TD_TRY(td_recorded_steps(f, l, &m->rec[TD_LOOP_COND], err));
    m->how.go = f->dev->at[l->plan->fetches[0]].data;
    return TD_OK;
}

static const void *made_by_body(const struct making *m, int i)
{
    return m->inner[TD_LOOP_BODY]->dev->at[m->x->bound[TD_LOOP_BODY]->plan->fetches[i]].data;
}

/* What a round has made goes to where the next one finds it. */
static enum td_code carry(const struct making *m, struct td_stream *body, struct td_err *err)
{
    const struct td_device *d = m->f->dev->device;
    char *aside = (char *)m->r->arena->data + m->aside;
    for (int pass = 0; pass < 2; pass++) {
        size_t at = 0;
        for (int i = 0; i < m->x->n; i++) {
            const size_t bytes = bytes_of(m->x, i);
            const bool first = is_put_aside(m->x, i);
            const void *from = first && pass == 1 ? aside + at : made_by_body(m, i);
            void *to = pass == 0 ? aside + at : m->x->place[i].data;
            if (bytes > 0 && m->x->from[i] != i && (first || pass == 1)) {
                TD_TRY(d->loop_carry(d, body, &m->how, to, from, bytes, err));
            }
            at += first ? td_device_arena_aligned(bytes) : 0;
        }
    }
    return TD_OK;
}

static enum td_code record_round(struct making *m, struct td_stream *body, struct td_err *err)
{
    m->rec[TD_LOOP_BODY].stream = body;
    TD_TRY(td_recorded_steps(m->inner[TD_LOOP_BODY], m->x->bound[TD_LOOP_BODY], &m->rec[TD_LOOP_BODY], err));
    TD_TRY(carry(m, body, err));
    return record_condition(m, body, err);
}

static enum td_code record_loop(struct making *m, struct td_stream *stream, struct td_err *err)
{
    const struct td_device *d = m->f->dev->device;
    char *words = (char *)m->r->arena->data + m->words;
    struct td_stream *body;
    if (m->n_words_bytes > 0) {
        TD_TRY(d->copy(d, stream, TD_COPY_ON_DEVICE, words, words + m->n_words_bytes, m->n_words_bytes, err));
    }
    TD_TRY(record_condition(m, stream, err));
    TD_TRY(d->loop_begin(d, stream, &m->how, &body, err));
    const enum td_code rc = record_round(m, body, err);
    struct td_err ended = {0};
    const enum td_code end = d->loop_end(d, body, &m->how, &ended);
    return rc ? rc : end ? td_fail(err, end, "%s", ended.msg) : TD_OK;
}

static enum td_code record(struct making *m, struct td_err *err)
{
    const struct td_device *d = m->f->dev->device;
    struct td_stream *stream;
    TD_TRY(d->graph_begin(d, &stream, err));
    const enum td_code rc = record_loop(m, stream, err);
    struct td_err ended = {0};
    const enum td_code end = d->graph_end(d, stream, &m->r->graph, &ended);
    return rc ? rc : end ? td_fail(err, end, "%s", ended.msg) : TD_OK;
}

enum td_code td_recorded_loop_record(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                                     struct td_err *err)
{
    const struct td_step *s = &l->plan->steps[r->of.first];
    struct making m = {.f = f, .r = r, .x = r->loop};
    enum td_code rc = open_frames(&m, err);
    rc = rc ? rc : find_all(&m, s, err);
    rc = rc ? rc : make_arena(&m, err);
    rc = rc ? rc : fill_arena(&m, err);
    rc = rc ? rc : record(&m, err);
    struct td_err later = {0};
    const enum td_code closed = close_frames(&m, rc ? &later : err);
    for (int i = 0; rc == TD_OK && i < s->n_out; i++) {
        r->out[r->n_out++] = (struct td_recorded_result){.v = s->out0 + i, .there = r->loop->place[i]};
    }
    return rc ? rc : closed;
}
