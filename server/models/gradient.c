/* server/models/gradient.c - the gradients that a version keeps: found by what was asked, made once, dropped.
 *
 *   known    the key is compared with those kept (few): a reference, and the clock
 *   get      not kept, nobody makes it: this thread does, under no lock; what it made, or why it could not,
 *            is for all who came to wait meanwhile
 *   kept     at most TD_MAX_GRADIENTS, and TD_GRADIENT_BYTES but for the one asked last; looked at with each
 *            ask, as plans grow after they were made
 *
 * A failure is not kept: who asks again may find a variable that was not there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/gradient.h"

#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "core/run/variable.h"
#include "server/base/clock.h"
#include "server/models/servable_impl.h"
#include "server/models/variables.h"

#define LOOK_NS INT64_C(20000000) /* who waits looks after his stop word so often */

/* An ask under way; it lies on the stack of who makes it until nobody waits for it. */
struct td_gradient_making {
    struct td_gradient_making *next;
    const char *key;
    size_t key_bytes;
    int waiting;
    bool over;
    struct td_gradient *made; /* NULL: err says why */
    struct td_err err;
};

/* ------------------------------------------------------------------ keys */

static size_t put_names(char *to, const char *const *names, int n)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const size_t bytes = strlen(names[i]) + 1;
        if (to != NULL) {
            memcpy(to + at, names[i], bytes);
        }
        at += bytes;
    }
    return at;
}

/* Where the lists end, which is before the names: so that no two asks have one key. */
struct head {
    const struct td_signature *sig;
    int kind, recompute, n_targets, n_wrt, n_seeded, n_vectors;
};

static char *key_of(const struct td_signature *sig, const struct td_gradient_ask *a, size_t *bytes)
{
    struct head head;
    memset(&head, 0, sizeof head);
    head.sig = sig;
    head.kind = a->kind;
    head.recompute = a->recompute;
    head.n_targets = a->n_targets;
    head.n_wrt = a->n_wrt;
    head.n_seeded = a->n_seeded;
    head.n_vectors = a->n_vectors;
    *bytes = sizeof head + put_names(NULL, a->targets, a->n_targets) + put_names(NULL, a->wrt, a->n_wrt) +
             put_names(NULL, a->seeded, a->n_seeded) + put_names(NULL, a->vectors, a->n_vectors);
    char *key = td_calloc(*bytes, 1);
    if (key == NULL) {
        return NULL;
    }
    memcpy(key, &head, sizeof head);
    char *at = key + sizeof head;
    at += put_names(at, a->targets, a->n_targets);
    at += put_names(at, a->wrt, a->n_wrt);
    at += put_names(at, a->seeded, a->n_seeded);
    (void)put_names(at, a->vectors, a->n_vectors);
    return key;
}

/* ------------------------------------------------------------------ what is kept */

void td_gradients_init(struct td_gradients *g)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&g->mu, NULL);
    pthread_mutex_init(&g->naming, NULL);
    pthread_cond_init(&g->made, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void td_gradients_fini(struct td_gradients *g)
{
    for (int i = 0; i < g->n; i++) {
        td_gradient_unref(g->kept[i]);
    }
    td_variables_free(g->variables);
    pthread_cond_destroy(&g->made);
    pthread_mutex_destroy(&g->naming);
    pthread_mutex_destroy(&g->mu);
}

struct td_gradient *td_gradient_ref(struct td_gradient *g)
{
    atomic_fetch_add_explicit(&g->refs, 1, memory_order_relaxed);
    return g;
}

void td_gradient_unref(struct td_gradient *g)
{
    if (g == NULL || atomic_fetch_sub_explicit(&g->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    td_entry_close(&g->derived.entry);
    td_program_unref(g->program);
    td_arena_free(g->arena);
    td_free(g->key);
    td_free(g);
}

/* Caller holds mu. A reference to what is kept under the key; NULL: nothing is. */
static struct td_gradient *find_kept(struct td_gradients *all, const char *key, size_t bytes)
{
    for (int i = 0; i < all->n; i++) {
        struct td_gradient *g = all->kept[i];
        if (g->key_bytes == bytes && memcmp(g->key, key, bytes) == 0) {
            g->last_used = ++all->clock;
            return td_gradient_ref(g);
        }
    }
    return NULL;
}

/* Caller holds mu, and lets go of what is returned when he does not any more; NULL: all may stay. room: for
 * one more. */
static struct td_gradient *take_surplus(struct td_gradients *all, int room)
{
    size_t bytes = 0;
    int oldest = 0;
    for (int i = 0; i < all->n; i++) {
        bytes += td_program_bytes(all->kept[i]->program);
        oldest = all->kept[i]->last_used < all->kept[oldest]->last_used ? i : oldest;
    }
    if (all->n + room <= TD_MAX_GRADIENTS && (bytes <= TD_GRADIENT_BYTES || all->n + room <= 1)) {
        return NULL;
    }
    struct td_gradient *gone = all->kept[oldest];
    all->kept[oldest] = all->kept[--all->n];
    all->evictions++;
    return gone;
}

/* Frees outside of the lock, which the caller holds before and after. */
static void drop_surplus(struct td_gradients *all, int room)
{
    for (struct td_gradient *gone = take_surplus(all, room); gone != NULL; gone = take_surplus(all, room)) {
        pthread_mutex_unlock(&all->mu);
        td_gradient_unref(gone);
        pthread_mutex_lock(&all->mu);
    }
}

struct td_gradient *td_gradient_known(struct td_servable *s, const struct td_signature *sig,
                                      const struct td_gradient_ask *ask)
{
    struct td_gradients *all = &s->gradients;
    size_t bytes;
    char *key = key_of(sig, ask, &bytes);
    if (key == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&all->mu);
    struct td_gradient *g = find_kept(all, key, bytes);
    drop_surplus(all, 0);
    pthread_mutex_unlock(&all->mu);
    td_free(key);
    return g;
}

/* ------------------------------------------------------------------ making */

static struct td_gradient_making *find_making(struct td_gradients *all, const char *key, size_t bytes)
{
    struct td_gradient_making *m = all->making;
    while (m != NULL && (m->key_bytes != bytes || memcmp(m->key, key, bytes) != 0)) {
        m = m->next;
    }
    return m;
}

/* Why the waiting ends before the other is done; TD_OK: it does not. */
static enum td_code impatient(const struct td_run_opts *run, struct td_err *err)
{
    const enum td_code why = run != NULL ? td_work_why(&run->work) : TD_OK;
    TD_FAIL_IF(why == TD_DEADLINE_EXCEEDED, err, DEADLINE_EXCEEDED,
               "Request timeout expired while its gradient was built");
    return why ? td_fail(err, why, "the request was stopped while its gradient was built") : TD_OK;
}

/* Caller holds mu. */
static enum td_code wait_for(struct td_gradients *all, struct td_gradient_making *m,
                             const struct td_run_opts *run, struct td_gradient **out, struct td_err *err)
{
    enum td_code rc = TD_OK;
    m->waiting++;
    while (!m->over && rc == TD_OK) {
        const int64_t at_ns = td_clock_ns() + LOOK_NS;
        const struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
        (void)pthread_cond_timedwait(&all->made, &all->mu, &at);
        rc = m->over ? TD_OK : impatient(run, err);
    }
    if (rc == TD_OK && m->made != NULL) {
        *out = td_gradient_ref(m->made);
    } else if (rc == TD_OK) {
        *err = m->err;
        rc = m->err.code;
    }
    m->waiting--;
    pthread_cond_broadcast(&all->made); /* its maker waits for the last of us */
    return rc;
}

static void remove_making(struct td_gradients *all, const struct td_gradient_making *m)
{
    struct td_gradient_making **at = &all->making;
    while (*at != m) {
        at = &(*at)->next;
    }
    *at = m->next;
}

/* Caller holds mu, which is let go for as long as it takes. key is taken. */
static enum td_code make(struct td_servable *s, const struct td_signature *sig,
                         const struct td_gradient_ask *ask, char *key, size_t bytes, struct td_gradient **out,
                         struct td_err *err)
{
    struct td_gradients *all = &s->gradients;
    struct td_gradient_making mine = {.next = all->making, .key = key, .key_bytes = bytes};
    all->making = &mine;
    pthread_mutex_unlock(&all->mu);
    const enum td_code rc = td_gradient_make(s, sig, ask, &mine.made, &mine.err);
    pthread_mutex_lock(&all->mu);
    if (rc == TD_OK) {
        mine.made->key = key;
        mine.made->key_bytes = bytes;
        mine.made->last_used = ++all->clock;
        drop_surplus(all, 1);
        all->kept[all->n++] = td_gradient_ref(mine.made);
    }
    remove_making(all, &mine);
    mine.over = true;
    pthread_cond_broadcast(&all->made);
    while (mine.waiting > 0) {
        pthread_cond_wait(&all->made, &all->mu);
    }
    *out = mine.made;
    *err = mine.err;
    return rc;
}

enum td_code td_gradient_get(struct td_servable *s, const struct td_signature *sig,
                             const struct td_gradient_ask *ask, const struct td_run_opts *run,
                             struct td_gradient **out, struct td_err *err)
{
    struct td_gradients *all = &s->gradients;
    size_t bytes;
    char *key = key_of(sig, ask, &bytes);
    enum td_code rc = TD_OK;
    if (key == NULL) {
        return td_no_memory(err, bytes, "a gradient");
    }
    pthread_mutex_lock(&all->mu);
    *out = find_kept(all, key, bytes);
    struct td_gradient_making *other = *out != NULL ? NULL : find_making(all, key, bytes);
    if (other != NULL) {
        rc = wait_for(all, other, run, out, err);
    } else if (*out == NULL) {
        rc = make(s, sig, ask, key, bytes, out, err);
        key = rc ? key : NULL;
    }
    drop_surplus(all, 0);
    pthread_mutex_unlock(&all->mu);
    td_free(key);
    return rc;
}

/* ------------------------------------------------------------------ looking at one */

struct td_gradient *td_gradient_of(const struct td_servable *s, const struct td_signature *sig)
{
    const bool own = sig >= s->model->signatures && sig < s->model->signatures + s->model->n_signatures;
    return own ? NULL : ((const struct td_derived *)sig)->gradient;
}

const struct td_signature *td_gradient_signature(const struct td_gradient *g)
{
    return &g->derived.sig;
}

const char *td_gradient_title(const struct td_gradient *g)
{
    return g->title;
}

int td_gradient_n_outputs(const struct td_gradient *g)
{
    return g->of->n_out;
}

int td_gradient_n_sources(const struct td_gradient *g)
{
    return g->n_sources;
}

/* The further input called so: "output_gradients/y". */
static int find_further(const struct td_gradient *g, const char *prefix, const char *name)
{
    const struct td_signature *sig = &g->derived.sig;
    const size_t n = strlen(prefix);
    for (int i = g->of->n_in; i < sig->n_in; i++) {
        if (strncmp(sig->in[i].key, prefix, n) == 0 && strcmp(sig->in[i].key + n, name) == 0) {
            return i;
        }
    }
    return -1;
}

int td_gradient_seed_input(const struct td_gradient *g, const char *target)
{
    return find_further(g, "output_gradients/", target);
}

int td_gradient_vector_input(const struct td_gradient *g, const char *source)
{
    return find_further(g, "vector/", source);
}

void td_gradient_each(struct td_servable *s, const struct td_signature *sig,
                      void (*fn)(void *ctx, const struct td_gradient_stat *g), void *ctx)
{
    struct td_gradients *all = &s->gradients;
    struct td_gradient *list[TD_MAX_GRADIENTS];
    int n = 0;
    pthread_mutex_lock(&all->mu);
    for (int i = 0; i < all->n; i++) {
        if (all->kept[i]->of == sig) {
            list[n++] = td_gradient_ref(all->kept[i]);
        }
    }
    pthread_mutex_unlock(&all->mu);
    for (int i = 0; i < n; i++) {
        fn(ctx, &(struct td_gradient_stat){.ask = &list[i]->ask,
                                           .sig = &list[i]->derived.sig,
                                           .bytes = td_program_bytes(list[i]->program)});
        td_gradient_unref(list[i]);
    }
}

/* ------------------------------------------------------------------ what a run gave */

/* The shape that a variable has now, its parts together. */
static enum td_code variable_shape(struct td_servable *s, const struct td_gradient_source *from,
                                   struct td_shape *out, struct td_err *err)
{
    for (int i = 0; i < from->n_resources; i++) {
        struct td_tensor value;
        struct td_obj *o = td_model_resource(s->engine, &td_variable_type, from->resources[i]);
        TD_FAIL_IF(o == NULL, err, NOT_FOUND, "the model has no variable '%.200s' any more",
                   from->resources[i]);
        TD_TRY(td_variable_read((struct td_variable *)o, &value, err));
        const int axis = value.shape.rank + from->axis;
        if (i == 0) {
            *out = value.shape;
        } else if (axis >= 0 && axis < out->rank && out->rank == value.shape.rank) {
            out->dim[axis] += value.shape.dim[axis];
        }
        td_tensor_clear(&value);
    }
    return TD_OK;
}

static enum td_code make_zeros(const struct td_gradient *g, struct td_servable *s, int source,
                               const struct td_tensor *in, const struct td_named *out, struct td_tensor *t,
                               struct td_err *err)
{
    const struct td_gradient_source *from = &g->source[source];
    struct td_shape own, all;
    TD_TRY(from->feed < 0 ? variable_shape(s, from, &own, err) : TD_OK);
    own = from->feed < 0 ? own : in[from->feed].shape;
    all = own;
    if (g->ask.kind == TD_JACOBIAN || g->ask.kind == TD_HESSIAN) {
        const struct td_shape *before = g->ask.kind == TD_JACOBIAN ? &out[g->target[0]].t.shape : &own;
        TD_TRY(td_shape_concat(before, &own, &all, err));
    }
    TD_TRY(td_tensor_new(t, from->dtype, &all, err));
    if (td_dtype_size(from->dtype) > 0 && from->dtype != TD_STRING && td_tensor_count(t) > 0) {
        memset(t->data, 0, td_tensor_bytes(t));
    }
    return TD_OK;
}

enum td_code td_gradient_results(const struct td_gradient *g, struct td_servable *s,
                                 const struct td_tensor *in, const struct td_named *out, bool zeros,
                                 struct td_named *result, struct td_err *err)
{
    enum td_code rc = TD_OK;
    const struct td_shape *target = &out[g->target[0]].t.shape;
    /* where nothing leads to a source, the program has nothing that would tell */
    TD_FAIL_IF(g->ask.kind == TD_HESSIAN && td_shape_count(target) != 1, err, INVALID_ARGUMENT,
               "a hessian is of one number, but the target '%.200s' has shape %s: sum it up, or ask for one "
               "element",
               g->ask.targets[0], TD_SHAPE_STR(target));
    for (int i = 0; i < g->n_sources; i++) {
        const struct td_gradient_source *from = &g->source[i];
        result[i] = (struct td_named){.name = from->name};
        if (rc == TD_OK && from->output >= 0) {
            td_tensor_ref(&result[i].t, &out[from->output].t);
        } else if (rc == TD_OK && (zeros || from->zero)) {
            rc = make_zeros(g, s, i, in, out, &result[i].t, err);
        }
    }
    for (int i = 0; rc && i < g->n_sources; i++) {
        td_tensor_clear(&result[i].t);
    }
    return rc;
}
