/* core/function/model_callables.c - the callables that belong to a model: those made for signatures, and one
 * for each library function that something calls while it runs.
 *
 * Threads: mu guards the lists; it is never held while anything compiles or runs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/compile/rewrite.h"
#include "core/function/callable_impl.h"

struct fn_entry {
    struct fn_entry *next;
    struct td_callable *callable;
    const struct td_function *function;
};

enum { BUCKETS = 256 };

struct callables {
    pthread_mutex_t mu; /* guards all of this */
    struct fn_entry *functions[BUCKETS];
    struct td_callable **list;
    int n_list;
};

static void free_all(void *p)
{
    struct callables *all = p;
    for (int i = 0; i < all->n_list; i++) {
        td_callable_free(all->list[i]);
    }
    for (int b = 0; b < BUCKETS; b++) {
        for (struct fn_entry *f = all->functions[b]; f != NULL;) {
            struct fn_entry *next = f->next;
            td_callable_free(f->callable);
            td_free(f);
            f = next;
        }
    }
    pthread_mutex_destroy(&all->mu);
    td_free(all->list);
    td_free(all);
}

static enum td_code make_inner(struct td_model *m, const struct td_graph *graph,
                               const struct td_callable_opts *opts, struct td_callable **out,
                               struct td_err *err)
{
    return td_callable_make(m, graph, opts, true, out, err);
}

static const struct td_callable_calls calls = {.make = make_inner,
                                               .free = td_callable_free,
                                               .run_inside = td_callable_run_inside,
                                               .bind = td_callable_bind,
                                               .function = td_model_function,
                                               .free_all = free_all};

/* Gives the model that rc says was made its list of callables. */
static enum td_code with_callables(enum td_code rc, struct callables *takes, struct td_model *m)
{
    if (rc) {
        td_free(takes);
        return rc;
    }
    pthread_mutex_init(&takes->mu, NULL);
    td_model_set_callables(m, takes);
    return TD_OK;
}

enum td_code td_model_derive(struct td_model *base, struct td_arena *takes, struct td_graph *graph,
                             struct td_library *lib, struct td_model **out, struct td_err *err)
{
    struct callables *all = td_calloc(1, sizeof *all);
    if (all == NULL) {
        return td_no_memory(err, sizeof *all, "model");
    }
    const enum td_code rc = td_model_derive_make(base, takes, graph, lib, out, err);
    return with_callables(rc, all, *out);
}

enum td_code td_model_replicate(struct td_model *base, const struct td_device *device, struct td_model **out,
                                struct td_err *err)
{
    struct callables *all = td_calloc(1, sizeof *all);
    if (all == NULL) {
        return td_no_memory(err, sizeof *all, "model");
    }
    const enum td_code rc = td_model_replicate_make(base, device, out, err);
    return with_callables(rc, all, *out);
}

enum td_code td_model_new(const struct td_model_opts *opts, struct td_arena *takes, struct td_graph *graph,
                          struct td_library *lib, struct td_model **out, struct td_err *err)
{
    TD_TRY(td_rewrite_check(opts->passes_off, err));
    struct callables *all = td_calloc(1, sizeof *all);
    if (all == NULL) {
        return td_no_memory(err, sizeof *all, "model");
    }
    const enum td_code rc = td_model_make(opts, takes, graph, lib, &calls, out, err);
    return with_callables(rc, all, *out);
}

enum td_code td_callable_new(struct td_model *m, const struct td_callable_opts *opts,
                             struct td_callable **out, struct td_err *err)
{
    struct td_callable *f;
    TD_TRY(td_callable_make(m, td_model_graph(m), opts, false, &f, err));
    if (!opts->once) {
        struct callables *all = td_model_callables(m);
        pthread_mutex_lock(&all->mu);
        struct td_callable **list = td_realloc(all->list, (size_t)all->n_list + 1, sizeof *list);
        if (list != NULL) {
            all->list = list;
            list[all->n_list++] = f;
        }
        pthread_mutex_unlock(&all->mu);
        if (list == NULL) {
            td_callable_free(f);
            return td_no_memory(err, sizeof *list, "callable");
        }
    }
    *out = f;
    return TD_OK;
}

void td_callable_drop(struct td_callable *f)
{
    td_callable_free(f);
}

static enum td_code make_function(struct td_model *m, const struct td_function *f, struct td_callable **out,
                                  struct td_err *err)
{
    struct td_value *feeds = td_calloc((size_t)f->n_args + 1, sizeof *feeds);
    if (feeds == NULL) {
        return td_no_memory(err, sizeof *feeds, "function");
    }
    const struct td_callable_opts opts = td_callable_opts_of(f, feeds);
    enum td_code rc = td_callable_make(m, &f->body, &opts, true, out, err);
    td_free(feeds);
    return rc;
}

enum td_code td_model_function(struct td_model *m, const char *name, int n_in, int n_out,
                               struct td_callable **out, struct td_err *err)
{
    struct callables *all = td_model_callables(m);
    struct fn_entry **bucket = &all->functions[td_hash_bytes(name, strlen(name)) % BUCKETS];
    enum td_code rc = TD_OK;
    pthread_mutex_lock(&all->mu);
    struct fn_entry *e = *bucket;
    while (e != NULL && strcmp(e->function->name, name) != 0) {
        e = e->next;
    }
    if (e == NULL) {
        const struct td_function *f = td_library_find(td_model_library(m), name);
        e = td_calloc(1, sizeof *e);
        if (f == NULL) {
            rc = td_fail(err, TD_NOT_FOUND, "function '%s' is not in the model's library", name);
        } else if (f->is_template) {
            rc = td_fail(err, TD_INVALID_ARGUMENT,
                         "function '%s' is called without values for all of its %d attributes", name,
                         f->def.n_attrs);
        } else {
            rc =
                e == NULL ? td_no_memory(err, sizeof *e, "function") : make_function(m, f, &e->callable, err);
        }
        if (rc == TD_OK) {
            e->function = f;
            e->next = *bucket;
            *bucket = e;
        } else {
            td_free(e);
        }
    }
    pthread_mutex_unlock(&all->mu);
    if (rc) {
        return rc;
    }
    TD_FAIL_IF(e->function->n_args != n_in || e->function->n_rets != n_out, err, INVALID_ARGUMENT,
               "function '%s' has %d arguments and %d results, is called with %d and %d", name,
               e->function->n_args, e->function->n_rets, n_in, n_out);
    *out = e->callable;
    return TD_OK;
}

size_t td_model_plan_bytes(const struct td_model *m)
{
    struct callables *all = td_model_callables(m);
    size_t bytes = 0;
    pthread_mutex_lock(&all->mu);
    for (int i = 0; i < all->n_list; i++) {
        bytes += td_callable_bytes(all->list[i]);
    }
    for (int b = 0; b < BUCKETS; b++) {
        for (const struct fn_entry *f = all->functions[b]; f != NULL; f = f->next) {
            bytes += td_callable_bytes(f->callable);
        }
    }
    pthread_mutex_unlock(&all->mu);
    return bytes;
}
