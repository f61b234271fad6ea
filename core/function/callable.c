/* core/function/callable.c - polymorphic functions: one plan, its concrete functions, their bound plans.
 *
 * The plan does not depend on shapes, so it is compiled once. A concrete function is the set of inner shapes
 * it was traced for (leading dimensions symbolic); tracing binds the plan to the shapes at hand, and each
 * further leading dimension binds it again without being a new trace. Bound plans are few and least recently
 * used ones go. A function of the library (a loop's body) has one concrete function for all shapes.
 *
 * Threads: mu guards everything below it in the struct. It is held while compiling and binding (so that
 * concurrent first calls trace once), never while a plan runs: a run holds a reference to its bound plan.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/function/callable_impl.h"
#include "core/function/effects.h"
#include "core/compile/plan_make.h"
#include "core/compile/rewrite.h"
#include "core/run/select.h"

enum { MAX_CONCRETE = 64, MAX_BOUND = 16, WARM_BOUND = 4 };

struct concrete {
    struct td_shape *shape; /* n_feeds; leading dims -1 where symbolic */
    struct td_bound_plan *bound[MAX_BOUND];
    int n_bound;
    uint64_t calls, last_used;
    double trace_ms;
};

struct td_callable {
    struct td_callable_place place;
    struct td_model *model;
    const struct td_graph *graph;
    char *name;
    struct td_value *feeds, *fetches;
    struct td_node **targets;
    int n_feeds, n_fetches, n_targets;
    bool function;
    pthread_mutex_t mu;
    struct td_plan *plan; /* set once, under mu */
    struct td_plan *eager_plan;
    struct concrete *concretes[MAX_CONCRETE];
    int n_concretes;
    uint64_t clock, traces, evictions;
    atomic_size_t bytes; /* all_bytes(), for those who cannot wait for mu */
    atomic_bool repeats; /* plan is made, and has no effects */
};

static void *copy_array(const void *src, int n, size_t size)
{
    void *copy = td_calloc((size_t)n + 1, size);
    if (copy != NULL && n > 0) {
        memcpy(copy, src, (size_t)n * size);
    }
    return copy;
}

enum td_code td_callable_make(struct td_model *m, const struct td_graph *graph,
                              const struct td_callable_opts *opts, bool function, struct td_callable **out,
                              struct td_err *err)
{
    struct td_callable *f = td_calloc(1, sizeof *f);
    if (f == NULL) {
        return td_no_memory(err, sizeof *f, "callable");
    }
    pthread_mutex_init(&f->mu, NULL);
    f->model = m;
    f->graph = graph;
    f->function = function;
    f->name = td_strdup(opts->name == NULL ? "" : opts->name);
    f->feeds = copy_array(opts->feeds, opts->n_feeds, sizeof f->feeds[0]);
    f->fetches = copy_array(opts->fetches, opts->n_fetches, sizeof f->fetches[0]);
    f->targets = copy_array(opts->targets, opts->n_targets, sizeof f->targets[0]);
    f->n_feeds = opts->n_feeds;
    f->n_fetches = opts->n_fetches;
    f->n_targets = opts->n_targets;
    if (f->name == NULL || f->feeds == NULL || f->fetches == NULL || f->targets == NULL) {
        td_callable_free(f);
        return td_no_memory(err, sizeof *f, "callable");
    }
    f->place.callable = f;
    td_callable_list(&f->place);
    *out = f;
    return TD_OK;
}

static void free_concrete(struct concrete *c)
{
    for (int i = 0; i < c->n_bound; i++) {
        td_bound_plan_unref(c->bound[i]);
    }
    td_free(c->shape);
    td_free(c);
}

void td_callable_free(struct td_callable *f)
{
    if (f == NULL) {
        return;
    }
    td_callable_unlist(&f->place);
    for (int i = 0; i < f->n_concretes; i++) {
        free_concrete(f->concretes[i]);
    }
    td_plan_unref(f->plan);
    td_plan_unref(f->eager_plan);
    pthread_mutex_destroy(&f->mu);
    td_free(f->name);
    td_free(f->feeds);
    td_free(f->fetches);
    td_free(f->targets);
    td_free(f);
}

/* ------------------------------------------------------------------ finding or making what a run needs */

static struct td_callable_opts opts_of(const struct td_callable *f)
{
    return (struct td_callable_opts){.name = f->name,
                                     .feeds = f->feeds,
                                     .n_feeds = f->n_feeds,
                                     .fetches = f->fetches,
                                     .n_fetches = f->n_fetches,
                                     .targets = f->targets,
                                     .n_targets = f->n_targets};
}

bool td_callable_repeats(const struct td_callable *f)
{
    return atomic_load_explicit(&f->repeats, memory_order_relaxed);
}

/* Caller holds mu. */
static enum td_code need_plan(struct td_callable *f, bool eager, struct td_plan **out, struct td_err *err)
{
    struct td_plan **plan = eager ? &f->eager_plan : &f->plan;
    if (*plan == NULL) {
        struct td_callable_opts opts = opts_of(f);
        const struct td_model_opts *o = td_model_opts_of(f->model);
        struct td_plan_opts how = {.inline_calls = eager || !td_rewrite_is_off(o->passes_off, "inline"),
                                   .log_placement = !eager && o->log_placement,
                                   .passes_off = eager ? "all" : o->passes_off};
        TD_TRY(td_plan_make(f->model, f->graph, &opts, &how, plan, err));
        if (!eager) {
            atomic_store_explicit(&f->repeats, !td_plan_has_effects(f->model, *plan), memory_order_relaxed);
        }
    }
    *out = *plan;
    return TD_OK;
}

struct td_model *td_callable_model(const struct td_callable *f)
{
    return f->model;
}

const struct td_graph *td_callable_graph(const struct td_callable *f, struct td_callable_opts *opts)
{
    *opts = opts_of(f);
    return f->graph;
}

enum td_code td_callable_plan(struct td_callable *f, const struct td_plan **out, struct td_err *err)
{
    struct td_plan *plan = NULL;
    pthread_mutex_lock(&f->mu);
    enum td_code rc = need_plan(f, false, &plan, err);
    pthread_mutex_unlock(&f->mu);
    *out = plan;
    return rc;
}

static bool same_key(const struct td_callable *f, const struct concrete *c, const struct td_tensor *const *in)
{
    for (int i = 0; !f->function && i < f->n_feeds; i++) {
        const struct td_shape *a = &c->shape[i], *b = &in[i]->shape;
        if (a->rank != b->rank ||
            (a->rank > 1 && memcmp(a->dim + 1, b->dim + 1, (size_t)(a->rank - 1) * sizeof a->dim[0]) != 0)) {
            return false;
        }
    }
    return true;
}

static bool same_shapes(const struct td_callable *f, const struct td_bound_plan *b,
                        const struct td_tensor *const *in)
{
    for (int i = 0; i < f->n_feeds; i++) {
        if (!td_shape_equal(&b->key[i], &in[i]->shape)) {
            return false;
        }
    }
    return true;
}

static void drop_concrete(struct td_callable *f, int i)
{
    free_concrete(f->concretes[i]);
    f->concretes[i] = f->concretes[--f->n_concretes];
    f->evictions++;
}

static int oldest_concrete(const struct td_callable *f)
{
    int oldest = 0;
    for (int i = 1; i < f->n_concretes; i++) {
        oldest = f->concretes[i]->last_used < f->concretes[oldest]->last_used ? i : oldest;
    }
    return oldest;
}

static int oldest_bound(const struct concrete *c)
{
    int oldest = 0;
    for (int i = 1; i < c->n_bound; i++) {
        oldest = c->bound[i]->last_used < c->bound[oldest]->last_used ? i : oldest;
    }
    return oldest;
}

static void drop_bound(struct concrete *c, int i)
{
    td_bound_plan_unref(c->bound[i]);
    c->bound[i] = c->bound[--c->n_bound];
}

/* The bound plan that f has used least recently; false when there is none. Caller holds mu. */
static bool drop_oldest(struct td_callable *f)
{
    struct concrete *of = NULL;
    int oldest = 0;
    for (int i = 0; i < f->n_concretes; i++) {
        struct concrete *c = f->concretes[i];
        const int k = oldest_bound(c);
        if (c->n_bound > 0 && (of == NULL || c->bound[k]->last_used < of->bound[oldest]->last_used)) {
            of = c;
            oldest = k;
        }
    }
    if (of != NULL) {
        drop_bound(of, oldest);
    }
    return of != NULL;
}

static size_t all_bytes(const struct td_callable *f)
{
    size_t sum = 0;
    for (int i = 0; i < f->n_concretes; i++) {
        for (int k = 0; k < f->concretes[i]->n_bound; k++) {
            sum += f->concretes[i]->bound[k]->bytes + f->concretes[i]->bound[k]->block_bytes;
        }
    }
    return sum;
}

void td_callable_trim(struct td_callable *f, int64_t before_ms)
{
    if (pthread_mutex_trylock(&f->mu) != 0) {
        return;
    }
    for (int i = 0; i < f->n_concretes; i++) {
        struct concrete *c = f->concretes[i];
        for (int k = c->n_bound - 1; k >= 0; k--) {
            if (c->bound[k]->used_ms < before_ms) {
                drop_bound(c, k);
            }
        }
    }
    atomic_store(&f->bytes, all_bytes(f));
    pthread_mutex_unlock(&f->mu);
}

static void log_retrace(const struct td_callable *f, const struct td_tensor *const *in)
{
    int limit = td_model_opts_of(f->model)->retrace_warn;
    if (f->function || f->traces < (uint64_t)limit || (f->traces & (f->traces - 1)) != 0) {
        return; /* at each power of two beyond the limit */
    }
    td_log(TD_LOG_WARNING, NULL,
           "function '%s' has been traced %llu times: each new rank or inner shape traces again; the last "
           "had a first input of shape %s",
           f->name, (unsigned long long)f->traces, f->n_feeds > 0 ? TD_SHAPE_STR(&in[0]->shape) : "(none)");
}

static enum td_code add_concrete(struct td_callable *f, const struct td_tensor *const *in,
                                 struct concrete **out, struct td_err *err)
{
    struct concrete *c = td_calloc(1, sizeof *c);
    struct td_shape *shape = td_calloc((size_t)f->n_feeds + 1, sizeof *shape);
    if (c == NULL || shape == NULL) {
        td_free(c);
        td_free(shape);
        return td_no_memory(err, sizeof *c, "concrete function");
    }
    for (int i = 0; i < f->n_feeds; i++) {
        shape[i] = f->function ? td_shape_unknown() : in[i]->shape;
        if (shape[i].rank > 0) {
            shape[i].dim[0] = -1;
        }
    }
    c->shape = shape;
    while (f->n_concretes == MAX_CONCRETE ||
           (f->n_concretes > 1 && all_bytes(f) > td_model_opts_of(f->model)->cache_bytes)) {
        drop_concrete(f, oldest_concrete(f));
    }
    f->concretes[f->n_concretes++] = c;
    f->traces++;
    log_retrace(f, in);
    *out = c;
    return TD_OK;
}

static enum td_code add_bound(struct td_callable *f, struct concrete *c, const struct td_plan *plan,
                              const struct td_tensor *const *in, struct td_bound_plan **out,
                              struct td_err *err)
{
    struct td_shape *shapes = td_calloc((size_t)f->n_feeds + 1, sizeof *shapes);
    if (shapes == NULL) {
        return td_no_memory(err, sizeof *shapes, "bound plan");
    }
    for (int i = 0; i < f->n_feeds; i++) {
        shapes[i] = in[i]->shape;
    }
    int64_t start = td_now_ns();
    enum td_code rc = td_bound_plan_new(plan, shapes, out, err);
    td_free(shapes);
    if (rc) {
        return rc;
    }
    c->trace_ms += c->n_bound == 0 ? (double)(td_now_ns() - start) / 1e6 : 0;
    bool crowded = c->n_bound > WARM_BOUND && all_bytes(f) > td_model_opts_of(f->model)->cache_bytes;
    if (c->n_bound == MAX_BOUND || crowded) {
        drop_bound(c, oldest_bound(c));
    }
    c->bound[c->n_bound++] = *out;
    atomic_store(&f->bytes, all_bytes(f));
    return TD_OK;
}

/* Binds anew what was cut, where that is due: after twice as many uses as the last time. The old one stays
 * where that fails. */
static struct td_bound_plan *bind_again(struct td_callable *f, struct concrete *c, struct td_bound_plan *old,
                                        const struct td_tensor *const *in)
{
    struct td_err ignored = {0};
    struct td_bound_plan *b;
    if (!old->cut || old->uses < old->again) {
        return old;
    }
    old->last_used = f->clock; /* so it is not the one that is dropped */
    old->again = old->uses < INT_MAX / 2 ? old->uses * 2 : INT_MAX;
    if (add_bound(f, c, old->plan, in, &b, &ignored)) {
        return old;
    }
    b->uses = old->uses;
    b->again = old->again;
    for (int i = c->n_bound - 1; i >= 0; i--) {
        if (c->bound[i] == old) {
            drop_bound(c, i);
        }
    }
    atomic_store(&f->bytes, all_bytes(f));
    return b;
}

/* Caller holds mu. *out is a reference for the run. */
static enum td_code find_bound(struct td_callable *f, const struct td_plan *plan,
                               const struct td_tensor *const *in, struct td_bound_plan **out,
                               struct td_err *err)
{
    struct concrete *c = NULL;
    for (int i = 0; c == NULL && i < f->n_concretes; i++) {
        c = same_key(f, f->concretes[i], in) ? f->concretes[i] : NULL;
    }
    if (c == NULL) {
        TD_TRY(add_concrete(f, in, &c, err));
    }
    c->last_used = ++f->clock;
    struct td_bound_plan *b = NULL;
    for (int i = 0; b == NULL && i < c->n_bound; i++) {
        b = same_shapes(f, c->bound[i], in) ? c->bound[i] : NULL;
    }
    if (b == NULL) {
        TD_TRY(add_bound(f, c, plan, in, &b, err));
    } else {
        b = bind_again(f, c, b, in);
    }
    c->calls++;
    b->uses += b->uses < INT_MAX;
    b->last_used = f->clock;
    b->used_ms = td_coarse_ms();
    *out = td_bound_plan_ref(b);
    return TD_OK;
}

static enum td_code check_dtypes(const struct td_callable *f, const struct td_plan *plan,
                                 const struct td_tensor *const *in, struct td_err *err)
{
    for (int i = 0; i < f->n_feeds; i++) {
        enum td_dtype want = plan->dtype[i];
        TD_FAIL_IF(
            want != in[i]->dtype && want != TD_DTYPE_NONE && !f->feeds[i].node->out_ref[f->feeds[i].port],
            err, INVALID_ARGUMENT,
            "cannot compute %s as input #%d(zero-based) was expected to be a %s tensor but is a %s tensor",
            f->name, i, td_dtype_name(want), td_dtype_name(in[i]->dtype));
    }
    return TD_OK;
}

static enum td_code eager_run(struct td_callable *f, const struct td_tensor *const *in, struct td_tensor *out,
                              struct td_run *run, struct td_err *err)
{
    struct td_plan *plan;
    struct td_bound_plan *b = NULL;
    pthread_mutex_lock(&f->mu);
    enum td_code rc = need_plan(f, true, &plan, err);
    pthread_mutex_unlock(&f->mu);
    TD_TRY(rc);
    TD_TRY(check_dtypes(f, plan, in, err));
    struct td_shape *shapes = td_calloc((size_t)f->n_feeds + 1, sizeof *shapes);
    if (shapes == NULL) {
        return td_no_memory(err, sizeof *shapes, "bound plan");
    }
    for (int i = 0; i < f->n_feeds; i++) {
        shapes[i] = td_shape_unknown();
    }
    rc = td_bound_plan_new(plan, shapes, &b, err);
    td_free(shapes);
    TD_TRY(rc);
    rc = td_exec_run(plan, b, run, in, out, err);
    td_bound_plan_unref(b);
    return rc;
}

static enum td_code bind_locked(struct td_callable *f, const struct td_tensor *const *in,
                                struct td_plan **plan, struct td_bound_plan **bound, struct td_err *err)
{
    TD_TRY(need_plan(f, false, plan, err));
    TD_TRY(check_dtypes(f, *plan, in, err));
    enum td_code rc = find_bound(f, *plan, in, bound, err);
    while (rc == TD_RESOURCE_EXHAUSTED && drop_oldest(f)) { /* nobody else may: mu is held */
        *err = (struct td_err){0};
        rc = find_bound(f, *plan, in, bound, err);
    }
    return rc;
}

/* The plan for `in`, and a reference to it bound to their shapes: to nobody's account, since both stay. */
static enum td_code bind(struct td_callable *f, const struct td_tensor *const *in, const struct td_run *run,
                         struct td_plan **plan, struct td_bound_plan **bound, struct td_err *err)
{
    static const struct td_work none;
    const struct td_work *here = td_work_now(), *own = run != NULL    ? &run->opts->work
                                                       : here != NULL ? here
                                                                      : &none;
    const struct td_work kept = {.stop = own->stop, .deadline_ns = own->deadline_ns, .trace = own->trace};
    const struct td_work *before = td_work_enter(&kept);
    pthread_mutex_lock(&f->mu);
    enum td_code rc = bind_locked(f, in, plan, bound, err);
    pthread_mutex_unlock(&f->mu);
    td_work_enter(before);
    return rc;
}

enum td_code td_callable_bind(struct td_callable *f, const struct td_tensor *const *in,
                              const struct td_run *run, struct td_bound_plan **out, struct td_err *err)
{
    struct td_plan *plan;
    return bind(f, in, run, &plan, out, err);
}

enum td_code td_callable_run_inside(struct td_callable *f, const struct td_tensor *const *in,
                                    struct td_tensor *out, struct td_run *run, struct td_err *err)
{
    struct td_plan *plan;
    struct td_bound_plan *b;
    if (run->opts->eager) {
        return eager_run(f, in, out, run, err);
    }
    TD_TRY(bind(f, in, run, &plan, &b, err));
    enum td_code rc = td_exec_run(plan, b, run, in, out, err);
    td_bound_plan_unref(b);
    return rc;
}

enum td_code td_callable_run(struct td_callable *f, const struct td_tensor *in, struct td_tensor *out,
                             const struct td_run_opts *opts, struct td_err *err)
{
    enum { FEW = 64 };
    const struct td_tensor *few[FEW], **list = few;
    if (f->n_feeds > FEW) {
        list = td_calloc((size_t)f->n_feeds, sizeof *list);
        if (list == NULL) {
            return td_no_memory(err, sizeof *list, "inputs");
        }
    }
    for (int i = 0; i < f->n_feeds; i++) {
        list[i] = &in[i];
    }
    const struct td_work *before = td_work_now();
    const struct td_run_opts given = td_run_opts_given(opts);
    struct td_run run = {.model = f->model, .opts = &given};
    td_work_enter(&given.work);
    enum td_code rc = td_callable_run_inside(f, list, out, &run, err);
    td_work_enter(before);
    if (list != few) {
        td_free(list);
    }
    return rc;
}

/* ------------------------------------------------------------------ statistics */

size_t td_callable_bytes(const struct td_callable *f)
{
    return atomic_load(&f->bytes);
}

void td_callable_stats(struct td_callable *f, struct td_callable_stat *s)
{
    pthread_mutex_lock(&f->mu);
    *s = (struct td_callable_stat){
        .traces = f->traces, .evictions = f->evictions, .n_concrete = f->n_concretes};
    pthread_mutex_unlock(&f->mu);
}

/* Caller holds mu. The plan that c was bound to last; NULL: none. */
static struct td_bound_plan *latest_of(const struct concrete *c)
{
    struct td_bound_plan *latest = NULL;
    for (int k = 0; k < c->n_bound; k++) {
        latest = latest == NULL || c->bound[k]->last_used > latest->last_used ? c->bound[k] : latest;
    }
    return latest;
}

struct td_bound_plan *td_callable_latest(struct td_callable *f)
{
    struct td_bound_plan *latest = NULL;
    pthread_mutex_lock(&f->mu);
    for (int i = 0; i < f->n_concretes; i++) {
        struct td_bound_plan *b = latest_of(f->concretes[i]);
        latest = latest == NULL || (b != NULL && b->last_used > latest->last_used) ? b : latest;
    }
    latest = latest == NULL ? NULL : td_bound_plan_ref(latest);
    pthread_mutex_unlock(&f->mu);
    return latest;
}

static void count_kernels(const struct td_bound_plan *b, struct td_concrete_stat *s)
{
    int most = (int)(sizeof s->kernels / sizeof s->kernels[0]);
    for (int k = 0; b != NULL && k < b->plan->n_steps; k++) {
        const char *name = td_bound_plan_kernel_name(b, k);
        s->device_steps += td_step_on_device(b->mode[k]);
        int at = 0;
        while (at < s->n_kernels && strcmp(s->kernels[at].kernel, name) != 0) {
            at++;
        }
        if (at < most) {
            s->kernels[at].kernel = name;
            s->kernels[at].count = at == s->n_kernels ? 1 : s->kernels[at].count + 1;
            s->n_kernels = at == s->n_kernels ? at + 1 : s->n_kernels;
        }
    }
}

void td_callable_each(struct td_callable *f, void (*fn)(void *ctx, const struct td_concrete_stat *c),
                      void *ctx)
{
    enum td_dtype dtypes[64];
    pthread_mutex_lock(&f->mu);
    for (int i = 0; i < f->n_concretes && f->n_feeds <= 64; i++) {
        struct concrete *c = f->concretes[i];
        struct td_concrete_stat s = {.n_in = f->n_feeds,
                                     .dtype = dtypes,
                                     .shape = c->shape,
                                     .calls = c->calls,
                                     .trace_ms = c->trace_ms,
                                     .graph_nodes = f->plan->graph_nodes,
                                     .plan_steps = f->plan->n_steps,
                                     .regions = f->plan->n_regions};
        for (int k = 0; k < f->n_feeds; k++) {
            dtypes[k] = f->feeds[k].node->out_type[f->feeds[k].port];
        }
        for (int k = 0; k < c->n_bound; k++) {
            s.bytes += c->bound[k]->bytes + c->bound[k]->block_bytes;
        }
        const struct td_device *device = td_model_opts_of(f->model)->device;
        s.device_name = device == NULL ? NULL : device->name;
        count_kernels(latest_of(c), &s);
        fn(ctx, &s);
    }
    pthread_mutex_unlock(&f->mu);
}
