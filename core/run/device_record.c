/* core/run/device_record.c - a recording is made: what goes into it is found, its arena is laid out, and its
 * steps are recorded by what queues them else; what control flow in it runs: core/run/device_inner.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "core/run/device_arena.h"
#include "core/run/device_graph_impl.h"
#include "core/run/device_home.h"

/* ------------------------------------------------------------------ what goes in */

static struct td_tensor place_at(struct td_buffer *arena, size_t at, const struct td_tensor *like)
{
    return (struct td_tensor){.buf = arena,
                              .data = (char *)arena->data + at,
                              .dtype = like->dtype,
                              .device = arena->device,
                              .shape = like->shape};
}

/* The variable that v was read of; NULL: of none. */
static const struct td_obj *variable_of(const struct td_bound_plan *l, int v)
{
    const struct td_plan *p = l->plan;
    const struct td_obj *variable = NULL;
    for (int k = 0; k < p->n_steps && variable == NULL && p->steps[k].out0 <= v; k++) {
        const int i = v - p->steps[k].out0;
        if (i < p->steps[k].n_out && i < p->steps[k].n_in && td_stretch_use(l, k) == TD_USES_READ) {
            variable = td_stretch_variable(l, k, i);
        }
    }
    return variable;
}

bool td_recorded_changes(const struct td_bound_plan *l, int v)
{
    const struct td_plan *p = l->plan;
    const struct td_obj *variable = variable_of(l, v);
    bool yes = false;
    for (int k = 0; k < p->n_steps && variable != NULL && !yes; k++) {
        const bool reads = l->mode[k] == TD_STEP_SKIP || td_stretch_use(l, k) == TD_USES_READ;
        for (int i = 0; i < p->steps[k].n_in && !reads; i++) {
            yes |= td_stretch_variable(l, k, i) == variable;
        }
    }
    return yes;
}

/* Whether it was found elsewhere more than once. */
static bool wanders(const struct td_recorded *r, int v)
{
    int n = 0;
    for (int i = 0; i < r->n_elsewhere; i++) {
        n += r->elsewhere[i] == v;
    }
    return n > 1;
}

static enum td_recorded_from source_of(const struct td_frame *f, const struct td_bound_plan *l,
                                       const struct td_recorded *r, int v)
{
    const struct td_device_run *dev = f->dev;
    const struct td_tensor *slot = &f->slots[v];
    const bool fixed = l->known[v].dtype != TD_DTYPE_NONE;
    if (td_home_of(r, v) != NULL) {
        return TD_FROM_HOME;
    }
    if ((dev->lasts[v] && dev->only_there[v] && !fixed) ||
        (!r->whole && td_device_graphs_have(dev->graphs, dev->at[v].buf))) {
        return wanders(r, v) ? TD_FROM_GIVEN : TD_FROM_THERE;
    }
    const bool weight = dev->lasts[v] && slot->buf != NULL && td_tensor_bytes(slot) > 0;
    return weight && (fixed || !td_recorded_changes(l, v)) ? TD_FROM_WEIGHT
           : fixed                                         ? TD_FROM_FIXED
                                                           : TD_FROM_GIVEN;
}

/* A value that the stretch reads and does not make. False: it cannot be recorded. */
static bool add_source(const struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r, int v)
{
    const enum td_recorded_from from = source_of(f, l, r, v);
    r->in[r->n_in++] = (struct td_recorded_source){.v = v, .from = from};
    return from != TD_FROM_THERE || !r->whole;
}

static const struct td_recorded_source *find_swapped(const struct td_recorded *r, int v)
{
    const struct td_recorded_source *found = NULL;
    for (int i = 0; i < r->n_in && found == NULL; i++) {
        found = r->in[i].v == v && r->in[i].swapped ? &r->in[i] : NULL;
    }
    return found;
}

/* Input i of a step, value v. *seen: it is made in the stretch, or there is a source of it as it is. False:
 * it cannot be recorded. */
static bool add_input(const struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                      const struct td_choice *c, int i, int v, bool *seen)
{
    bool ok = true;
    if (td_device_run_swaps(f, c, i, v) && source_of(f, l, r, v) == TD_FROM_WEIGHT) {
        if (find_swapped(r, v) == NULL) {
            r->in[r->n_in++] = (struct td_recorded_source){.v = v, .from = TD_FROM_WEIGHT, .swapped = true};
        }
    } else if (!*seen) {
        *seen = true;
        ok = add_source(f, l, r, v);
    }
    return ok;
}

enum td_code td_recorded_find(const struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                              bool *ok, struct td_err *err)
{
    const struct td_plan *p = l->plan;
    bool *seen = td_calloc((size_t)p->n_values + 1, 1);
    if (seen == NULL) {
        return td_no_memory(err, (size_t)p->n_values, "what goes into a recording");
    }
    int most = p->n_fetches;
    *ok = true;
    if (r->whole) {
        memset(seen, true, (size_t)p->n_feeds);
    } else if (td_homes_find(l, r, err)) {
        td_free(seen);
        return TD_RESOURCE_EXHAUSTED;
    }
    for (int k = r->of.first; k < r->of.end; k++) {
        most += p->steps[k].n_in;
    }
    r->in = td_calloc((size_t)most + 1, sizeof *r->in);
    for (int k = r->of.first; r->in != NULL && k < r->of.end; k++) {
        const struct td_step *s = &p->steps[k];
        if (!td_stretch_runs(l, k)) {
            continue;
        }
        for (int i = 0; i < s->n_in; i++) {
            const int v = s->in[i];
            if (!td_step_reads_here(s, l->choice[k].kernel, i)) {
                *ok &= add_input(f, l, r, &l->choice[k], i, v, &seen[v]);
            }
        }
        memset(seen + s->out0, true, (size_t)s->n_out);
    }
    for (int i = 0; r->in != NULL && r->whole && i < p->n_fetches; i++) {
        if (!seen[p->fetches[i]]) {
            seen[p->fetches[i]] = true;
            *ok &= add_source(f, l, r, p->fetches[i]);
        }
    }
    td_free(seen);
    return r->in != NULL ? TD_OK : td_no_memory(err, (size_t)most, "what goes into a recording");
}

static const struct td_tensor *value_of(const struct td_frame *f, int v)
{
    return f->dev->at[v].buf != NULL ? &f->dev->at[v] : &f->slots[v];
}

size_t td_recorded_place(const struct td_frame *f, struct td_recorded *r, size_t at)
{
    for (int i = 0; i < r->n_in; i++) {
        struct td_recorded_source *in = &r->in[i];
        const struct td_tensor *t = value_of(f, in->v);
        if (in->from == TD_FROM_WEIGHT || in->from == TD_FROM_THERE || in->from == TD_FROM_HOME) {
            continue;
        }
        if (r->arena != NULL) {
            in->there = place_at(r->arena, at, t);
        }
        at += td_device_arena_aligned(td_tensor_bytes(t));
    }
    return at;
}

enum td_code td_recorded_give(struct td_frame *f, const struct td_recorded_source *in, struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    const struct td_tensor *at = &dev->at[in->v];
    const size_t bytes = td_tensor_bytes(&in->there);
    if (bytes == 0 || at->data == in->there.data) {
        return TD_OK;
    }
    if (at->buf == NULL) {
        return td_device_run_send(dev, &f->slots[in->v], in->there.data, err);
    }
    dev->queued = true;
    return dev->device->copy(dev->device, dev->stream, TD_COPY_ON_DEVICE, in->there.data, at->data, bytes,
                             err);
}

enum td_code td_recorded_take_weight(struct td_frame *f, struct td_recorded_source *in, struct td_err *err)
{
    struct td_device_run *dev = f->dev;
    const struct td_tensor *slot = &f->slots[in->v];
    in->here = slot->data;
    if (in->swapped) {
        return td_device_run_swap(dev, slot, &in->there, err);
    }
    if (dev->at[in->v].buf == NULL) {
        TD_TRY(td_device_run_bring(dev, slot, in->v, err));
    }
    TD_FAIL_IF(dev->at[in->v].buf->stream != NULL, err, RESOURCE_EXHAUSTED,
               "a weight has no place that stays");
    td_tensor_ref(&in->there, &dev->at[in->v]);
    return TD_OK;
}

enum td_code td_recorded_bring(struct td_frame *f, struct td_recorded *r, struct td_err *err)
{
    for (int i = 0; i < r->n_in; i++) {
        struct td_recorded_source *in = &r->in[i];
        if (in->from == TD_FROM_WEIGHT) {
            TD_TRY(td_recorded_take_weight(f, in, err));
            continue;
        }
        if (in->from == TD_FROM_THERE) {
            in->there = f->dev->at[in->v];
            continue;
        }
        if (in->from == TD_FROM_HOME) {
            in->there = td_home_of(r, in->v)->there;
        }
        TD_TRY(td_recorded_give(f, in, err));
        in->was = f->dev->at[in->v];
        td_tensor_ref(&f->dev->at[in->v], &in->there);
    }
    return TD_OK;
}

/* It is recorded: the run has its own values again, which may outlive it, where they were. */
static void put_back(struct td_frame *f, struct td_recorded *r)
{
    for (int i = 0; i < r->n_in; i++) {
        struct td_recorded_source *in = &r->in[i];
        if (in->was.buf != NULL) {
            td_tensor_clear(&f->dev->at[in->v]);
            f->dev->at[in->v] = in->was;
            in->was = (struct td_tensor){0};
        }
    }
}

/* ------------------------------------------------------------------ recording */

struct td_stream *td_device_recorder_stream(const struct td_device_recorder *r)
{
    return r->stream;
}

const struct td_tensor *td_device_recorder_swapped(const struct td_device_recorder *r, int v)
{
    const struct td_recorded_source *in = find_swapped(r->to, v);
    return in == NULL ? NULL : &in->there;
}

void td_device_recorder_take(struct td_device_recorder *r, struct td_buffer **buffer, void **data)
{
    *buffer = td_buffer_ref(r->to->arena);
    *data = (char *)r->to->arena->data + r->plan.at[r->next++];
}

void *td_device_recorder_drawn(struct td_device_recorder *r)
{
    return (char *)r->to->drawn + (size_t)r->drawn++ * TD_DRAWN_BYTES;
}

enum td_code td_device_recorder_judge(struct td_device_recorder *r, const struct td_step *s,
                                      struct td_launch *l, struct td_err *err)
{
    struct td_recorded_judge *j = &r->to->judges[r->judged];
    l->fault = r->to->words + r->judged;
    if (r->judged++ < r->to->n_judges) {
        return TD_OK; /* a pass before has noted it */
    }
    *j = (struct td_recorded_judge){.step = s,
                                    .kernel = l->kernel,
                                    .in = td_calloc((size_t)l->n_in + 1, sizeof *j->in),
                                    .known = r->known};
    if (j->in == NULL) {
        return td_no_memory(err, (size_t)l->n_in, "what a recording refuses");
    }
    memcpy(j->in, l->in, (size_t)l->n_in * sizeof *j->in);
    r->to->n_judges++;
    return TD_OK;
}

enum td_code td_recorded_judges(const struct td_bound_plan *l, struct td_recorded *r, int *n,
                                struct td_err *err)
{
    *n = 0;
    for (int k = r->of.first; k < r->of.end; k++) {
        *n += td_stretch_runs(l, k) && l->choice[k].kernel->judged != 0;
    }
    r->judges = td_calloc((size_t)*n + 1, sizeof *r->judges);
    return r->judges != NULL ? TD_OK : td_no_memory(err, (size_t)*n, "what a recording refuses");
}

/* ---- steps, and what lies between loops */

/* Of the steps [from, to). */
static enum td_code record_range(struct td_frame *f, const struct td_bound_plan *l,
                                 struct td_device_recorder *rec, int from, int to, struct td_err *err)
{
    enum td_code rc = TD_OK;
    for (int k = from; k < to && rc == TD_OK; k++) {
        const struct td_step *s = &l->plan->steps[k];
        if (l->inner[k] != NULL) {
            rc = td_recorded_inner_step(f, l, rec, &rec->to->inner[rec->inner++], err);
        } else if (td_stretch_runs(l, k)) {
            rc = td_device_run_launch(f, l->plan, s, &l->choice[k], &l->shape[s->out0], err);
        }
    }
    return rc;
}

static bool launches(const struct td_bound_plan *l, int from, int to)
{
    bool any = false;
    for (int k = from; k < to; k++) {
        any |= l->inner[k] != NULL || (td_stretch_runs(l, k) && !td_stretch_hands_on(l, k));
    }
    return any;
}

struct td_device_pass td_recorded_pass(const struct td_device_recorder *rec, int number)
{
    const struct td_recorded *r = rec->to;
    const int end = r->n_inner > 0 ? r->inner[0].number + td_recorded_loops(r) : number;
    return (struct td_device_pass){
        .left = rec->room->left, .later = rec->room->left + 2 + number, .n_later = end - number};
}

/* The same, left out where a loop is paused that has this number or a later one. */
static enum td_code record_pass(struct td_frame *f, const struct td_bound_plan *l,
                                struct td_device_recorder *rec, int from, int to, int number,
                                struct td_err *err)
{
    const struct td_device *d = f->dev->device;
    const struct td_device_pass pass = td_recorded_pass(rec, number);
    struct td_stream *const around = rec->stream;
    struct td_err ended = {0};
    if (!launches(l, from, to)) {
        return record_range(f, l, rec, from, to, err);
    }
    TD_TRY(d->pass_begin(d, around, &pass, &rec->stream, err));
    const enum td_code rc = record_range(f, l, rec, from, to, err);
    const enum td_code end = d->body_end(d, rec->stream, NULL, &ended);
    rec->stream = around;
    return rc ? rc : end ? td_fail(err, end, "%s", ended.msg) : TD_OK;
}

/* What comes before a step with loops in it, and that. */
static enum td_code record_in_passes(struct td_frame *f, const struct td_bound_plan *l,
                                     struct td_device_recorder *rec, struct td_err *err)
{
    const struct td_recorded *r = rec->to;
    int from = r->of.first, number = r->inner[0].number;
    for (int i = 0; i < r->n_inner; i++) {
        const struct td_recorded_inner *x = &r->inner[i];
        if (x->of->n_loops == 0) {
            continue;
        }
        TD_TRY(record_pass(f, l, rec, from, x->step, x->number, err));
        from = x->step + 1;
        number = x->number + x->of->n_loops;
        TD_TRY(x->of->loop ? record_range(f, l, rec, x->step, from, err)
                           : record_pass(f, l, rec, x->step, from, number, err));
    }
    return record_pass(f, l, rec, from, r->of.end, number, err);
}

enum td_code td_recorded_steps(struct td_frame *f, const struct td_bound_plan *l,
                               struct td_device_recorder *rec, struct td_err *err)
{
    rec->next = rec->judged = rec->drawn = rec->inner = 0;
    f->dev->record = rec;
    const enum td_code rc = td_recorded_loops(rec->to) > 0
                                ? record_in_passes(f, l, rec, err)
                                : record_range(f, l, rec, rec->to->of.first, rec->to->of.end, err);
    f->dev->record = NULL;
    return rc;
}

enum td_code td_recorded_clear_words(struct td_frame *f, struct td_stream *stream,
                                     const struct td_recorded_room *room, struct td_err *err)
{
    const struct td_device *d = f->dev->device;
    const size_t bytes = td_device_arena_aligned((size_t)room->n_words * sizeof *room->words);
    return bytes == 0
               ? TD_OK
               : d->copy(d, stream, TD_COPY_ON_DEVICE, room->words, (char *)room->words + bytes, bytes, err);
}

static enum td_code record_steps(struct td_frame *f, const struct td_bound_plan *l,
                                 struct td_device_recorder *rec, struct td_err *err)
{
    const struct td_device *d = f->dev->device;
    TD_TRY(d->graph_begin(d, &rec->stream, err));
    enum td_code rc = td_recorded_clear_words(f, rec->stream, rec->room, err);
    rc = rc ? rc : td_recorded_steps(f, l, rec, err);
    rc = rc ? rc : td_homes_record(f, rec->to, rec->stream, err);
    struct td_err ended = {0};
    const enum td_code end = d->graph_end(d, rec->stream, &rec->to->graph, &ended);
    return rc ? rc : end ? td_fail(err, end, "%s", ended.msg) : TD_OK;
}

static enum td_code note_result(const struct td_frame *f, const struct td_plan *p, struct td_recorded *r,
                                int v, struct td_err *err)
{
    const struct td_tensor *at = &f->dev->at[v];
    bool home = false, made = false;
    for (int i = 0; i < r->n_homes; i++) {
        home |= r->homes[i].taken >= 0 && r->homes[i].there.buf == at->buf;
        made |= r->homes[i].taken >= 0 && r->homes[i].made == v;
    }
    TD_FAIL_IF(home != made, err, UNIMPLEMENTED,
               "what was taken of a variable is used behind its assignment");
    r->out[r->n_out++] = (struct td_recorded_result){
        .v = v, .there = *at, .home = home, .assigned = p->last_use[v] < r->of.end};
    return TD_OK;
}

/* The values that somebody reads behind the stretch, and those that it assigns. */
static enum td_code note_results(const struct td_frame *f, const struct td_bound_plan *l,
                                 struct td_recorded *r, struct td_err *err)
{
    const struct td_plan *p = l->plan;
    const struct td_step *last = &p->steps[r->of.end - 1];
    const int first = p->steps[r->of.first].out0, n = last->out0 + last->n_out - first;
    enum td_code rc = TD_OK;
    bool *out = td_calloc((size_t)n + 1, 1);
    r->out = td_calloc((size_t)n + 1, sizeof *r->out);
    if (out == NULL || r->out == NULL) {
        td_free(out);
        return td_no_memory(err, (size_t)n, "what comes out of a recording");
    }
    for (int k = r->of.first; k < r->of.end; k++) {
        const struct td_step *s = &p->steps[k];
        for (int i = 0; td_stretch_runs(l, k) && i < s->n_out; i++) {
            out[s->out0 - first + i] = td_stretch_outlives(l, &r->of, s->out0 + i);
        }
    }
    for (int v = first; v < first + n && rc == TD_OK; v++) {
        rc = out[v - first] && f->dev->at[v].buf != NULL ? note_result(f, p, r, v, err) : TD_OK;
    }
    td_free(out);
    return rc;
}

/* Nothing of a recording that failed is left: the steps are queued one by one. */
static void undo(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r)
{
    for (int k = r->of.first; k < r->of.end; k++) {
        const struct td_step *s = &l->plan->steps[k];
        for (int i = 0; i < s->n_out && td_stretch_runs(l, k); i++) {
            td_device_run_release(f, s->out0 + i);
        }
    }
    td_recorded_drop(f->dev->device, r);
}

/* Where what stays is, up to the byte that is returned: words and flags of loops, draws, words and as many
 * zeros, own inputs, what is inside. */
static size_t place_all(const struct td_frame *f, struct td_recorded *r, size_t head, size_t words)
{
    return td_recorded_inner_place(r, td_recorded_place(f, r, head + 2 * words));
}

/* The arena is there. */
static enum td_code use_arena(struct td_frame *f, struct td_recorded *r, size_t head, int n_own, int n_loops,
                              struct td_recorded_room *room, struct td_err *err)
{
    static const char zeros[TD_DEVICE_FAULTS_MOST * sizeof(int32_t)];
    const struct td_device *d = f->dev->device;
    char *arena = r->arena->data;
    const size_t words = td_device_arena_aligned((size_t)room->n_words * sizeof(int32_t));
    int32_t *behind = (int32_t *)(arena + head) + n_own;
    int number = 0;
    r->words = room->words = (int32_t *)(arena + head);
    room->left = n_loops > 0 ? (uint32_t *)arena : NULL;
    room->flags = (uint32_t *)arena + 2 + n_loops;
    td_recorded_inner_words(r, r->arena, &behind, &number);
    (void)place_all(f, r, head, words);
    if (words == 0) {
        return TD_OK;
    }
    f->dev->queued = true;
    return d->copy(d, f->dev->stream, TD_COPY_TO_DEVICE, arena + head + words, zeros, words, err);
}

enum td_code td_recorded_allocate(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                                  struct td_device_arena *own, struct td_recorded_room *room,
                                  struct td_err *err)
{
    int n_own = 0;
    TD_TRY(own != NULL ? td_recorded_judges(l, r, &n_own, err) : TD_OK);
    room->n_words = n_own;
    TD_TRY(td_recorded_inner_find(r, &room->n_words, err));
    TD_FAIL_IF(room->n_words > TD_DEVICE_FAULTS_MOST, err, UNIMPLEMENTED,
               "%d of its steps judge their inputs", room->n_words);
    const int n_loops = td_recorded_loops(r);
    const size_t flags =
        n_loops > 0 ? td_device_arena_aligned((2 + 3 * (size_t)n_loops) * sizeof(uint32_t)) : 0;
    r->n_draws = own != NULL ? td_recorded_count_draws(l, r) : 0;
    const size_t head = flags + td_device_arena_aligned((size_t)r->n_draws * TD_DRAWN_BYTES);
    size_t at = place_all(f, r, head, td_device_arena_aligned((size_t)room->n_words * sizeof(int32_t)));
    if (own != NULL) {
        TD_TRY(td_device_arena_plan(l, &r->of, at, own, err));
        at = own->bytes;
    }
    TD_TRY(td_recorded_inner_plan(r, &at, err));
    TD_TRY(td_device_run_allocate(f->dev, at, &r->arena, err));
    r->drawn = (char *)r->arena->data + flags;
    return use_arena(f, r, head, n_own, n_loops, room, err);
}

static enum td_code fill_arena(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                               struct td_device_recorder *rec, struct td_err *err)
{
    struct td_recorded_room room = {0};
    rec->room = &room;
    TD_TRY(td_recorded_inner_open(f->dev, l, r, err));
    TD_TRY(td_recorded_allocate(f, l, r, &rec->plan, &room, err));
    r->left = room.left;
    TD_TRY(td_homes_place(f, l, r, err));
    TD_TRY(td_recorded_bring(f, r, err));
    TD_TRY(td_recorded_inner_bring(r, err));
    TD_TRY(record_steps(f, l, rec, err));
    td_homes_judge_aside(r);
    return note_results(f, l, r, err);
}

enum td_code td_recorded_make(struct td_frame *f, const struct td_bound_plan *l, struct td_recorded *r,
                              bool *made, bool *never, struct td_err *err)
{
    struct td_device_recorder rec = {.to = r};
    struct td_err why = {0};
    bool ok = true;
    *made = *never = false;
    TD_TRY(td_device_run_stream(f->dev, err));
    enum td_code rc = td_recorded_find(f, l, r, &ok, &why);
    rc = rc || !ok ? rc : fill_arena(f, l, r, &rec, &why);
    put_back(f, r);
    struct td_err later = {0};
    const enum td_code closed = td_recorded_inner_close(r, rc ? &later : &why);
    rc = rc ? rc : closed;
    td_device_arena_fini(&rec.plan);
    if (rc == TD_OK && ok) {
        td_buffer_off_stream(r->arena); /* whoever drops it has waited for what used it */
        *made = true;
        return TD_OK;
    }
    undo(f, l, r);
    *never = rc != TD_OK && rc != TD_RESOURCE_EXHAUSTED && !td_work_cut;
    if (rc != TD_OK) {
        td_log(TD_LOG_DEBUG, NULL, "steps of a plan are not recorded: %s", why.msg);
    }
    return TD_OK;
}
