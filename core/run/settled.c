/* core/run/settled.c - which steps are settled, their values, and the frames that show them.
 *
 *   find     reads of variables whose handles are constants, before the first step that may write; then
 *            every pure step of settled values and constants. Kept is what others read, or is fetched
 *   run      values there, and variables as they were: slots point to them, and the steps do not run.
 *            Variables as they were for STEADY_RUNS runs before: the steps run once ahead, in their order;
 *            what is kept of each is copied or referred to at once, since its place may be another's later
 *
 * Variables are known to be the same by a count of all writes to any; where that has moved, by the count of
 * each one's own. A model that is trained has other variables in each run, and keeps nothing.
 *
 * What is kept of a variable is a reference to its bytes, which an update would then have to copy. So large
 * ones are read in each run as ever (and so are views of them); what follows from them is kept.
 *
 * A kept value takes no more than what it was made of, and SMALL_BYTES: nothing is spread here that a graph
 * spreads for a moment. Equal ones of several plans, of one callable at other shapes or of others, are one.
 * They are on nobody's account, since they stay.
 *
 * Invariant (settled_check): a settled step reads constants and results of settled steps alone.
 *
 * Threads: which steps are settled is immutable; shared_mu guards the list of shared values. mu guards values
 * and steady; values themselves are immutable but for their counts. A frame is one run's.
 *
 * Does not: run in graphs with dead values, or where steps run on a device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/settled.h"

#include <string.h>

#include "core/base/check.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "core/graph/graph.h"
#include "core/run/exec_impl.h"
#include "core/run/variable.h"

enum { STEADY_RUNS = 1, SMALL_BYTES = 64 << 10, LEAST_SHARED = 4 << 10, LARGE_VARIABLE = 256 << 10 };

struct td_settled_values {
    atomic_int refs;
    atomic_uint_fast64_t writes; /* right up to so many of them at least */
    int n_read, n;
    struct td_variable **variable; /* n_read: borrowed from the bound plan's constants */
    uint64_t *generation;          /* n_read: theirs */
    struct td_tensor *value;       /* by place in td_settled.kept */
};

struct td_settled {
    bool *step; /* by step: it is settled */
    bool *skip; /* by step: and need not run where values are there */
    int *kept;  /* n_kept values of those that others read, ascending */
    int n_kept, n_read;
    pthread_mutex_t mu;
    _Atomic(struct td_settled_values *) values; /* set under mu; NULL: none */
    uint64_t writes;                            /* when a run without values began */
    int steady;                                 /* runs since then without another */
};

/* ------------------------------------------------------------------ values of several plans */

/* One that others may find to be theirs. It goes when nobody else has its bytes. */
struct shared {
    struct shared *next;
    struct td_tensor t;
};
static pthread_mutex_t shared_mu = PTHREAD_MUTEX_INITIALIZER;
static struct shared *shared;

/* *t becomes the one that is equal and there already, or is there for others from now on. Nothing is asked
 * for under the lock: where memory is short that lets go of values (td_frames_trim), which takes it. */
static void share(struct td_tensor *t)
{
    struct shared *mine = td_calloc(1, sizeof *mine);
    (void)pthread_mutex_lock(&shared_mu);
    struct shared *s = shared;
    while (s != NULL && !td_tensor_same(&s->t, t)) {
        s = s->next;
    }
    if (s != NULL) {
        td_tensor_clear(t);
        td_tensor_ref(t, &s->t);
    } else if (mine != NULL) {
        td_tensor_ref(&mine->t, t);
        mine->next = shared;
        shared = mine;
        mine = NULL;
    }
    (void)pthread_mutex_unlock(&shared_mu);
    td_free(mine);
}

static void drop_unshared(void)
{
    (void)pthread_mutex_lock(&shared_mu);
    for (struct shared **at = &shared; *at != NULL;) {
        struct shared *s = *at;
        if (td_buffer_unique(s->t.buf)) {
            *at = s->next;
            td_tensor_clear(&s->t);
            td_free(s);
        } else {
            at = &s->next;
        }
    }
    (void)pthread_mutex_unlock(&shared_mu);
}

/* ------------------------------------------------------------------ values */

static void drop(struct td_settled_values *v)
{
    if (v == NULL || atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) > 1) {
        return;
    }
    for (int i = 0; i < v->n; i++) {
        td_tensor_clear(&v->value[i]);
    }
    td_free(v);
    drop_unshared();
}

static struct td_settled_values *values_new(const struct td_settled *s)
{
    const size_t reads = (size_t)s->n_read, kept = (size_t)s->n_kept;
    struct td_settled_values *v = td_calloc(1, sizeof *v + kept * sizeof v->value[0] +
                                                   reads * (sizeof v->variable[0] + sizeof v->generation[0]));
    if (v != NULL) {
        atomic_init(&v->refs, 1);
        v->value = (struct td_tensor *)(v + 1);
        v->variable = (struct td_variable **)(v->value + kept);
        v->generation = (uint64_t *)(v->variable + reads);
    }
    return v;
}

static bool is_of(struct td_variable *variable, uint64_t generation)
{
    pthread_mutex_lock(&variable->mu);
    const bool same = variable->generation == generation;
    pthread_mutex_unlock(&variable->mu);
    return same;
}

static bool are_right(struct td_settled_values *v)
{
    const uint64_t writes = td_variable_writes();
    if (atomic_load_explicit(&v->writes, memory_order_relaxed) == writes) {
        return true;
    }
    for (int i = 0; i < v->n_read; i++) {
        if (!is_of(v->variable[i], v->generation[i])) {
            return false;
        }
    }
    atomic_store_explicit(&v->writes, writes, memory_order_relaxed);
    return true;
}

static struct td_settled_values *latest(struct td_settled *s)
{
    pthread_mutex_lock(&s->mu);
    struct td_settled_values *v = s->values;
    if (v != NULL) {
        atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&s->mu);
    return v;
}

/* *v, of which the caller keeps its own reference, or NULL, in the place of `before` if that is there yet. */
static void put(struct td_settled *s, struct td_settled_values *before, struct td_settled_values *v)
{
    pthread_mutex_lock(&s->mu);
    const bool mine = s->values == before;
    if (mine) {
        s->values = v;
        s->steady = -1; /* it has just been written to */
        if (v != NULL) {
            atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
        }
    }
    pthread_mutex_unlock(&s->mu);
    if (mine) {
        drop(before);
    }
}

void td_settled_forget(struct td_settled *s)
{
    if (s == NULL || pthread_mutex_trylock(&s->mu) != 0) {
        return;
    }
    struct td_settled_values *v = s->values;
    s->values = NULL;
    s->steady = 0;
    pthread_mutex_unlock(&s->mu);
    drop(v);
}

/* ------------------------------------------------------------------ working them out */

/* Whether variables have been the same for some runs now. */
static bool is_due(struct td_settled *s)
{
    const uint64_t writes = td_variable_writes();
    pthread_mutex_lock(&s->mu);
    s->steady = s->writes == writes ? s->steady + 1 : 0;
    s->writes = writes;
    const bool due = s->steady >= STEADY_RUNS;
    pthread_mutex_unlock(&s->mu);
    return due;
}

static bool is_read(const struct td_step *s)
{
    const uint32_t snapshot = TD_OP_READS | TD_OP_FREE | TD_OP_VARIABLES;
    return (s->flags & snapshot) == snapshot;
}

static struct td_variable *variable_of(const struct td_bound_plan *l, int v)
{
    const struct td_tensor *handle = &l->known[v];
    struct td_obj *o =
        handle->dtype == TD_RESOURCE && td_tensor_count(handle) == 1 ? td_tensor_obj(handle, 0) : NULL;
    return o != NULL && o->type == &td_variable_type ? (struct td_variable *)o : NULL;
}

/* The variable of which `read` has just been read; false: it has been written to meanwhile. */
static bool note_read(struct td_settled_values *v, struct td_variable *variable, const struct td_tensor *read)
{
    pthread_mutex_lock(&variable->mu);
    const bool same = variable->value.buf == read->buf && variable->value.data == read->data &&
                      td_shape_equal(&variable->value.shape, &read->shape);
    v->variable[v->n_read] = variable;
    v->generation[v->n_read++] = variable->generation;
    pthread_mutex_unlock(&variable->mu);
    return same;
}

/* What is kept of the step that has just run. */
static enum td_code keep(const struct td_exec *x, const struct td_settled *s, struct td_settled_values *v,
                         struct td_err *err)
{
    for (int o = 0; o < x->step->n_out; o++) {
        const int at = x->step->out0 + o;
        const struct td_tensor *made = &x->frame->slots[at];
        if (is_read(x->step) && !note_read(v, variable_of(x->bound, x->step->in[o]), made)) {
            return td_fail(err, TD_ABORTED, "a variable is written to");
        }
        if (v->n == s->n_kept || s->kept[v->n] != at) {
            continue;
        }
        if (made->buf != NULL) {
            td_tensor_ref(&v->value[v->n], made);
        } else {
            TD_TRY(td_tensor_copy(&v->value[v->n], made, err));
        }
        const bool own = (x->step->flags & (TD_OP_VIEW | TD_OP_READS)) == 0;
        if (own && td_tensor_bytes(made) >= LEAST_SHARED) {
            share(&v->value[v->n]);
        }
        v->n++;
    }
    return TD_OK;
}

static enum td_code run_settled(struct td_exec *x, const struct td_settled *s, struct td_settled_values *v,
                                struct td_err *err)
{
    enum td_code rc = TD_OK;
    for (int k = 0; k < x->plan->n_steps && rc == TD_OK; k++) {
        if (s->step[k] && (rc = td_call_stop_reason(x->run)) == TD_OK) {
            x->step = &x->plan->steps[k];
            x->step_index = k;
            rc = td_exec_step(x, err);
            rc = rc ? rc : keep(x, s, v, err);
            td_exec_end_step(x);
        }
    }
    return rc;
}

/* Returns new; NULL where a step fails, which the run will come to, or the run shall end: it is stopped and
 * late here as it is elsewhere, but its account does not pay. */
static struct td_settled_values *work_out(struct td_exec *x, const struct td_settled *s)
{
    struct td_err ignored = {0};
    const struct td_work *before = td_work_now();
    struct td_work for_all = before != NULL ? *before : (struct td_work){0};
    for_all.account = NULL;
    td_work_enter(&for_all);
    struct td_settled_values *v = values_new(s);
    if (v != NULL) {
        atomic_init(&v->writes, td_variable_writes());
        if (run_settled(x, s, v, &ignored)) {
            drop(v);
            v = NULL;
        }
    }
    for (int k = 0; k < x->plan->n_steps; k++) {
        for (int o = 0; s->step[k] && o < x->plan->steps[k].n_out; o++) {
            td_exec_release(x, x->plan->steps[k].out0 + o);
            x->frame->state[x->plan->steps[k].out0 + o] = TD_SLOT_UNSET;
        }
    }
    td_work_enter(before);
    return v;
}

/* ------------------------------------------------------------------ frames */

void td_settled_leave(struct td_frame *f, const struct td_bound_plan *l)
{
    const struct td_settled *s = l->settled;
    for (int i = 0; f->settled != NULL && i < s->n_kept; i++) {
        const int v = s->kept[i];
        f->slots[v] = l->offset[v] < 0 ? (struct td_tensor){0}
                                       : (struct td_tensor){.data = (char *)f->block->data + l->offset[v],
                                                            .dtype = l->plan->dtype[v],
                                                            .shape = l->shape[v]};
    }
    drop(f->settled);
    f->settled = NULL;
}

void td_settled_end(struct td_frame *f, const struct td_bound_plan *l)
{
    if (f->settled != NULL && f->settled != l->settled->values) {
        td_settled_leave(f, l);
    }
}

/* Takes v. */
static void show(struct td_frame *f, const struct td_bound_plan *l, struct td_settled_values *v)
{
    td_settled_leave(f, l);
    for (int i = 0; v != NULL && i < v->n; i++) {
        f->slots[l->settled->kept[i]] = v->value[i];
    }
    f->settled = v;
}

void td_settled_begin(struct td_exec *x)
{
    struct td_settled *s = x->bound->settled;
    struct td_frame *f = x->frame;
    f->settled_step = NULL;
    if (s == NULL) {
        return;
    }
    if (x->run->opts->observe != NULL) {
        td_settled_leave(f, x->bound);
        return;
    }
    if (f->settled != s->values) {
        show(f, x->bound, latest(s));
    }
    if (f->settled != NULL && !are_right(f->settled)) {
        put(s, f->settled, NULL);
        td_settled_leave(f, x->bound);
        td_frames_end_settled(x->bound);
    }
    if (f->settled == NULL && is_due(s)) {
        struct td_settled_values *v = work_out(x, s);
        put(s, NULL, v);
        show(f, x->bound, v);
    }
    for (int i = 0; f->settled != NULL && i < s->n_kept; i++) {
        f->state[s->kept[i]] = TD_SLOT_SET;
    }
    f->settled_step = f->settled != NULL ? s->skip : NULL;
}

/* ------------------------------------------------------------------ which steps */

struct finder {
    const struct td_bound_plan *l;
    struct td_settled *s;
    bool *value; /* by value: settled */
    bool wrote;  /* some step before may have */
};

static bool may_write(const struct td_step *s)
{
    const uint32_t harmless = TD_OP_HANDLE | TD_OP_DRAWS | TD_OP_CHECKS | TD_OP_ARG;
    const bool reads = s->n_out > 0 && (s->flags & TD_OP_READS) != 0;
    return (s->flags & TD_OP_STATEFUL) != 0 && !reads && (s->flags & harmless) == 0;
}

static bool reads_variables(const struct finder *x, const struct td_step *s)
{
    bool ok = !x->wrote && is_read(s) && s->n_in > 0 && s->n_in == s->n_out;
    for (int i = 0; ok && i < s->n_in; i++) {
        ok = variable_of(x->l, s->in[i]) != NULL;
    }
    return ok;
}

static size_t bytes_of(const struct td_bound_plan *l, int v)
{
    return (size_t)td_shape_count(&l->shape[v]) * td_dtype_size(l->plan->dtype[v]);
}

static bool is_plain(const struct td_bound_plan *l, int v)
{
    return td_shape_known(&l->shape[v]) && td_shape_count(&l->shape[v]) >= 0 && !l->plan->is_ref[v] &&
           !td_dtype_is_object(l->plan->dtype[v]);
}

/* Nothing but a function of settled values, whose result is no larger. */
static bool follows(const struct finder *x, const struct td_step *s)
{
    const uint32_t never = TD_OP_STATEFUL | TD_OP_HANDLE | TD_OP_ARG | TD_OP_REFUSED | TD_OP_NO_FOLD |
                           TD_OP_SWITCH | TD_OP_DEAD_OK | TD_OP_CALL;
    size_t in = SMALL_BYTES, out = 0;
    bool ok = (s->flags & never) == 0 && s->n_in > 0 && s->deref == NULL && !td_node_runs_functions(s->node);
    for (int i = 0; ok && i < s->n_in; i++) {
        const bool known = x->l->known[s->in[i]].dtype != TD_DTYPE_NONE;
        ok = (known || x->value[s->in[i]]) && is_plain(x->l, s->in[i]);
        in += ok ? bytes_of(x->l, s->in[i]) : 0;
    }
    for (int o = 0; ok && o < s->n_out; o++) {
        ok = is_plain(x->l, s->out0 + o);
        out += ok ? bytes_of(x->l, s->out0 + o) : 0;
    }
    return ok && out <= in;
}

static void find_steps(struct finder *x)
{
    const struct td_plan *p = x->l->plan;
    for (int k = 0; k < p->n_steps; k++) {
        const struct td_step *s = &p->steps[k];
        const bool bound = (x->l->mode[k] == TD_STEP_READY || x->l->mode[k] == TD_STEP_CHECK) &&
                           s->n_rows > 0 && s->n_out > 0 && x->l->inner[k] == NULL;
        x->wrote |= may_write(s);
        x->s->step[k] = bound && (reads_variables(x, s) || follows(x, s));
        for (int o = 0; x->s->step[k] && o < s->n_out; o++) {
            x->value[s->out0 + o] = true;
        }
        x->s->n_read += x->s->step[k] && is_read(s) ? s->n_out : 0;
    }
}

/* Keeping it would be to hold a large variable's bytes. */
static bool holds_variable(const struct td_bound_plan *l, const struct td_step *s, int v)
{
    return (s->flags & (TD_OP_READS | TD_OP_VIEW)) != 0 && bytes_of(l, v) > LARGE_VARIABLE;
}

/* Which of them need not run, and what is kept of those: backwards, since one that runs asks for its
 * inputs. */
static void find_kept(struct finder *x)
{
    const struct td_plan *p = x->l->plan;
    bool *asked = x->value + p->n_values;
    for (int i = 0; i < p->n_fetches; i++) {
        asked[p->fetches[i]] = true;
    }
    for (int k = p->n_steps - 1; k >= 0; k--) {
        const struct td_step *s = &p->steps[k];
        x->s->skip[k] = x->s->step[k];
        for (int o = 0; x->s->skip[k] && o < s->n_out; o++) {
            x->s->skip[k] = !(asked[s->out0 + o] && holds_variable(x->l, s, s->out0 + o));
        }
        for (int i = 0; x->l->mode[k] != TD_STEP_SKIP && !x->s->skip[k] && i < s->n_in; i++) {
            asked[s->in[i]] = true;
        }
    }
    for (int k = 0; k < p->n_steps; k++) {
        for (int v = p->steps[k].out0; x->s->skip[k] && v < p->steps[k].out0 + p->steps[k].n_out; v++) {
            if (asked[v]) {
                x->s->kept[x->s->n_kept++] = v;
            }
        }
    }
}

TD_CHECK_FN enum td_code settled_check(const struct finder *x, struct td_err *err)
{
    const struct td_plan *p = x->l->plan;
    for (int k = 0; k < p->n_steps; k++) {
        for (int i = 0; x->s->step[k] && i < p->steps[k].n_in; i++) {
            const int v = p->steps[k].in[i];
            TD_WANT(x->value[v] || x->l->known[v].dtype != TD_DTYPE_NONE, err,
                    "%s is settled, and its input %d is not", TD_NODE_STR(p->steps[k].node), i);
        }
    }
    return TD_OK;
}

bool td_settled_find(struct td_bound_plan *l)
{
    const struct td_plan *p = l->plan;
    if (p->dead_values || l->uses_device) {
        return true;
    }
    const size_t values = (size_t)p->n_values, steps = (size_t)p->n_steps;
    struct td_settled *s = td_calloc(1, sizeof *s + values * sizeof *s->kept + 2 * steps);
    struct finder x = {.l = l, .s = s, .value = td_calloc(2 * values + 1, sizeof(bool))};
    if (s == NULL || x.value == NULL) {
        td_free(s);
        td_free(x.value);
        return false;
    }
    pthread_mutex_init(&s->mu, NULL);
    s->kept = (int *)(s + 1);
    s->step = (bool *)(s->kept + values);
    s->skip = s->step + steps;
    find_steps(&x);
    find_kept(&x);
    TD_HOLDS(settled_check, &x);
    td_free(x.value);
    if (s->n_kept == 0) {
        td_settled_free(s);
        s = NULL;
    }
    l->settled = s;
    return true;
}

void td_settled_free(struct td_settled *s)
{
    if (s != NULL) {
        drop(s->values);
        pthread_mutex_destroy(&s->mu);
        td_free(s);
    }
}
