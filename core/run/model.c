/* core/run/model.c - a model version: its resources by name, state of its nodes, and the files it may touch.
 *
 * Threads: mu guards the entries; it is never held while anything runs but a resource's constructor.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/model.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/disk.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/run/exec.h"
#include "core/run/device_weights.h"
#include "core/run/precision.h"

enum { PRINTS_A_SECOND = 20, MAX_ENTRIES = 1 << 20 };

struct entry { /* a resource, or a node's state */
    struct entry *next;
    const struct td_obj_type *type; /* NULL: node state */
    char *key;                      /* "container/name", or the node's path */
    struct td_obj *obj;
    void *state;
    pthread_mutex_t state_mu;
};

enum { BUCKETS = 256 };

struct td_model {
    atomic_int refs;
    struct td_model_opts opts;
    char *dir, *scratch_dir, *passes_off;
    struct td_disk *disk;  /* of the scratch files; NULL: none is limited */
    struct td_model *base; /* whose resources these are; NULL: its own */
    struct td_arena *arena;
    struct td_graph *graph;
    struct td_library *lib;
    const struct td_callable_calls *calls;
    void *callables;
    pthread_mutex_t mu; /* guards entries, n_entries, weights */
    struct entry *entries[BUCKETS];
    int n_entries;
    struct td_device_weights *weights; /* NULL: nothing was sent yet */
    atomic_llong print_second;
    atomic_int printed;
};

static char *copy_or_empty(const char *s)
{
    return td_strdup(s == NULL ? "" : s);
}

enum td_code td_model_make(const struct td_model_opts *opts, struct td_arena *takes, struct td_graph *graph,
                           struct td_library *lib, const struct td_callable_calls *calls,
                           struct td_model **out, struct td_err *err)
{
    struct td_model *m = td_calloc(1, sizeof *m);
    if (m == NULL) {
        return td_no_memory(err, sizeof *m, "model");
    }
    m->opts = *opts;
    m->dir = copy_or_empty(opts->dir);
    m->scratch_dir = copy_or_empty(opts->scratch_dir);
    m->passes_off = copy_or_empty(opts->passes_off);
    const bool writes = m->scratch_dir != NULL && m->scratch_dir[0] != 0;
    m->disk = !writes ? NULL
                      : td_disk_new(&(struct td_disk_opts){.path = m->scratch_dir,
                                                           .flag = "--scratch_quota",
                                                           .most = opts->scratch_quota,
                                                           .whole = td_disk_state()});
    if (m->dir == NULL || m->scratch_dir == NULL || m->passes_off == NULL || (writes && m->disk == NULL)) {
        td_disk_free(m->disk);
        td_free(m->dir);
        td_free(m->scratch_dir);
        td_free(m->passes_off);
        td_free(m);
        return td_no_memory(err, 1, "model");
    }
    m->opts.dir = m->dir;
    m->opts.scratch_dir = m->scratch_dir;
    m->opts.passes_off = m->passes_off;
    m->opts.precision = td_precision_ref(opts->precision);
    if (m->opts.cache_bytes == 0) {
        m->opts.cache_bytes = (size_t)64 << 20;
    }
    if (m->opts.retrace_warn == 0) {
        m->opts.retrace_warn = 8;
    }
    atomic_init(&m->refs, 1);
    pthread_mutex_init(&m->mu, NULL);
    m->arena = takes;
    m->graph = graph;
    m->calls = calls;
    m->lib = lib;
    *out = m;
    return TD_OK;
}

enum td_code td_model_derive_make(struct td_model *base, struct td_arena *takes, struct td_graph *graph,
                                  struct td_library *lib, struct td_model **out, struct td_err *err)
{
    struct td_model_opts opts = base->opts;
    opts.precision = NULL;
    TD_TRY(td_model_make(&opts, takes, graph, lib, base->calls, out, err));
    (*out)->base = td_model_ref(base);
    return TD_OK;
}

enum td_code td_model_replicate_make(struct td_model *base, const struct td_device *device,
                                     struct td_model **out, struct td_err *err)
{
    struct td_model_opts opts = base->opts;
    opts.device = device;
    TD_TRY(td_model_make(&opts, NULL, base->graph, base->lib, base->calls, out, err));
    (*out)->base = td_model_ref(base);
    return TD_OK;
}

/* The model that resources belong to. */
static struct td_model *owner(struct td_model *m)
{
    while (m->base != NULL) {
        m = m->base;
    }
    return m;
}

struct td_device_weights *td_model_device_weights(struct td_model *m)
{
    struct td_err ignored = {0};
    while (m->base != NULL && m->base->opts.device == m->opts.device) {
        m = m->base;
    }
    pthread_mutex_lock(&m->mu);
    if (m->weights == NULL && m->opts.device != NULL &&
        td_device_weights_new(m->opts.device, &m->weights, &ignored)) {
        m->weights = NULL;
    }
    struct td_device_weights *w = m->weights;
    pthread_mutex_unlock(&m->mu);
    return w;
}

struct td_model *td_model_ref(struct td_model *m)
{
    atomic_fetch_add(&m->refs, 1);
    return m;
}

static void free_entries(struct td_model *m)
{
    for (int b = 0; b < BUCKETS; b++) {
        for (struct entry *e = m->entries[b]; e != NULL;) {
            struct entry *next = e->next;
            td_obj_unref(e->obj);
            pthread_mutex_destroy(&e->state_mu);
            td_free(e->state);
            td_free(e->key);
            td_free(e);
            e = next;
        }
    }
}

void td_model_unref(struct td_model *m)
{
    if (m == NULL || atomic_fetch_sub(&m->refs, 1) != 1) {
        return;
    }
    m->calls->free_all(m->callables);
    td_device_weights_free(m->weights);
    free_entries(m);
    td_arena_free(m->arena);
    pthread_mutex_destroy(&m->mu);
    td_free(m->dir);
    td_free(m->scratch_dir);
    td_disk_free(m->disk);
    td_precision_unref((struct td_precision *)m->opts.precision);
    td_free(m->passes_off);
    struct td_model *base = m->base;
    td_free(m);
    td_model_unref(base);
}

const struct td_graph *td_model_graph(const struct td_model *m)
{
    return m->graph;
}

const struct td_library *td_model_library(const struct td_model *m)
{
    return m->lib;
}

const struct td_model_opts *td_model_opts_of(const struct td_model *m)
{
    return &m->opts;
}

struct td_callable_opts td_callable_opts_of(const struct td_function *f, struct td_value *feed)
{
    for (int i = 0; i < f->n_args; i++) {
        feed[i] = (struct td_value){f->args[i], 0};
    }
    return (struct td_callable_opts){.name = f->name,
                                     .feeds = feed,
                                     .n_feeds = f->n_args,
                                     .fetches = f->rets,
                                     .n_fetches = f->n_rets,
                                     .targets = f->control_rets,
                                     .n_targets = f->n_control_rets};
}

bool td_model_may_print(struct td_model *m)
{
    m = owner(m);
    long long second = td_now_ns() / 1000000000;
    if (atomic_exchange(&m->print_second, second) != second) {
        atomic_store(&m->printed, 0);
    }
    return atomic_fetch_add(&m->printed, 1) < PRINTS_A_SECOND;
}

const struct td_callable_calls *td_model_calls(const struct td_model *m)
{
    return m->calls;
}

void td_model_set_callables(struct td_model *m, void *takes)
{
    m->callables = takes;
}

void *td_model_callables(const struct td_model *m)
{
    return m->callables;
}

/* ------------------------------------------------------------------ resources and node state */

static struct entry **find_entry(struct td_model *m, const struct td_obj_type *type, const char *key)
{
    struct entry **e = &m->entries[td_hash_bytes(key, strlen(key)) % BUCKETS];
    while (*e != NULL && ((*e)->type != type || strcmp((*e)->key, key) != 0)) {
        e = &(*e)->next;
    }
    return e;
}

static enum td_code add_entry(struct td_model *m, struct entry **at, const struct td_obj_type *type,
                              const char *key, struct entry **out, struct td_err *err)
{
    TD_FAIL_IF(m->n_entries >= MAX_ENTRIES, err, RESOURCE_EXHAUSTED, "the model has more than %d resources",
               MAX_ENTRIES);
    struct entry *e = td_calloc(1, sizeof *e);
    char *copy = td_strdup(key);
    if (e == NULL || copy == NULL) {
        td_free(e);
        td_free(copy);
        return td_no_memory(err, sizeof *e, "resource");
    }
    e->type = type;
    e->key = copy;
    pthread_mutex_init(&e->state_mu, NULL);
    *at = e;
    m->n_entries++;
    *out = e;
    return TD_OK;
}

static void remove_entry(struct td_model *m, struct entry **at)
{
    struct entry *e = *at;
    *at = e->next;
    m->n_entries--;
    td_obj_unref(e->obj);
    pthread_mutex_destroy(&e->state_mu);
    td_free(e->state);
    td_free(e->key);
    td_free(e);
}

static char *key_text(const char *container, const char *name)
{
    size_t n = strlen(container) + strlen(name) + 2;
    char *key = td_calloc(n, 1);
    if (key != NULL) {
        snprintf(key, n, "%s\n%s", container, name);
    }
    return key;
}

enum td_code td_resource_get(struct td_call *c, const struct td_resource_key *k,
                             td_resource_create_fn *create, const void *arg, struct td_obj **out,
                             struct td_err *err)
{
    struct td_model *m = owner(c->run->model);
    char *key = key_text(k->container, k->name);
    if (key == NULL) {
        return td_no_memory(err, strlen(k->name), "resource");
    }
    enum td_code rc = TD_OK;
    pthread_mutex_lock(&m->mu);
    struct entry **at = find_entry(m, k->type, key), *e = *at;
    if (e == NULL && create == NULL) {
        rc = td_fail(err, TD_NOT_FOUND, "%s: Resource %s/%s of type %s does not exist", TD_NODE_STR(c->node),
                     k->container, k->name, k->type->name);
    } else if (e == NULL) {
        rc = add_entry(m, at, k->type, key, &e, err);
        if (rc == TD_OK) {
            rc = create(arg, &e->obj, err);
        }
        if (rc && e != NULL) {
            remove_entry(m, at);
        }
    }
    *out = rc ? NULL : e->obj;
    pthread_mutex_unlock(&m->mu);
    td_free(key);
    return rc;
}

enum td_code td_resource_delete(struct td_call *c, const struct td_obj_type *type, struct td_obj *o,
                                struct td_err *err)
{
    struct td_model *m = owner(c->run->model);
    bool found = false;
    pthread_mutex_lock(&m->mu);
    for (int b = 0; b < BUCKETS && !found; b++) {
        for (struct entry **e = &m->entries[b]; *e != NULL; e = &(*e)->next) {
            if ((*e)->type == type && (*e)->obj == o) {
                remove_entry(m, e);
                found = true;
                break;
            }
        }
    }
    pthread_mutex_unlock(&m->mu);
    TD_FAIL_IF(!found, err, NOT_FOUND, "%s: the %s to delete does not exist", TD_NODE_STR(c->node),
               type->name);
    return TD_OK;
}

struct td_obj *td_model_resource(struct td_model *m, const struct td_obj_type *type, const char *name)
{
    m = owner(m);
    char *key = key_text("", name);
    if (key == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&m->mu);
    struct entry *e = *find_entry(m, type, key);
    struct td_obj *o = e == NULL ? NULL : e->obj;
    pthread_mutex_unlock(&m->mu);
    td_free(key);
    return o;
}

void td_model_each_resource(struct td_model *m, const struct td_obj_type *type,
                            void (*fn)(void *ctx, const char *name, struct td_obj *o), void *ctx)
{
    m = owner(m);
    pthread_mutex_lock(&m->mu);
    for (int b = 0; b < BUCKETS; b++) {
        for (struct entry *e = m->entries[b]; e != NULL; e = e->next) {
            if (e->type == type && e->obj != NULL && e->key[0] == '\n') {
                fn(ctx, e->key + 1, e->obj);
            }
        }
    }
    pthread_mutex_unlock(&m->mu);
}

enum td_code td_node_state(struct td_call *c, size_t bytes, void **state, void **lock, struct td_err *err)
{
    struct td_model *m = owner(c->run->model);
    enum td_code rc = TD_OK;
    /* two functions may have nodes of one name */
    char *key = key_text(c->node->function == NULL ? "" : c->node->function, c->node->name);
    if (key == NULL) {
        return td_no_memory(err, bytes, "state of a node");
    }
    pthread_mutex_lock(&m->mu);
    struct entry **at = find_entry(m, NULL, key), *e = *at;
    if (e == NULL) {
        rc = add_entry(m, at, NULL, key, &e, err);
        if (rc == TD_OK) {
            e->state = td_calloc(1, bytes);
            if (e->state == NULL) {
                remove_entry(m, at);
                rc = td_no_memory(err, bytes, "state of a node");
            }
        }
    }
    if (rc == TD_OK) {
        *state = e->state;
        *lock = &e->state_mu;
    }
    pthread_mutex_unlock(&m->mu);
    td_free(key);
    return rc;
}

void td_state_lock(void *lock)
{
    pthread_mutex_lock(lock);
}

void td_state_unlock(void *lock)
{
    pthread_mutex_unlock(lock);
}

/* ------------------------------------------------------------------ files */

/* No "..", no NUL: the path stays below what it is put behind. */
static bool path_is_plain(const char *p, size_t len)
{
    if (memchr(p, 0, len) != NULL) {
        return false;
    }
    for (size_t i = 0; i < len;) {
        size_t n = 0;
        while (i + n < len && p[i + n] != '/') {
            n++;
        }
        if (n == 2 && p[i] == '.' && p[i + 1] == '.') {
            return false;
        }
        i += n + 1;
    }
    return true;
}

/* Creates the directories that lead to path. What cannot be made shows when the file itself is. */
static void make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        (void)mkdir(path, 0700);
        *slash = '/';
    }
}

enum td_code td_file_path(struct td_call *c, const char *path, size_t len, bool write, char *buf,
                          size_t buf_bytes, struct td_err *err)
{
    const struct td_model_opts *o = &c->run->model->opts;
    size_t dir = strlen(o->dir);
    TD_FAIL_IF(!path_is_plain(path, len), err, PERMISSION_DENIED,
               "%s: path '%.*s' may not leave the model's directory (it has '..' or a NUL)",
               TD_NODE_STR(c->node), (int)(len > 200 ? 200 : len), path);
    bool inside = dir > 0 && len > dir && memcmp(path, o->dir, dir) == 0 && path[dir] == '/';
    int n;
    if (inside && !write) {
        n = snprintf(buf, buf_bytes, "%.*s", (int)len, path);
    } else {
        TD_FAIL_IF(o->scratch_dir[0] == 0, err, PERMISSION_DENIED,
                   "%s: path '%.*s' is outside the model's directory and there is no scratch directory "
                   "(--state_dir)",
                   TD_NODE_STR(c->node), (int)(len > 200 ? 200 : len), path);
        const char *below = inside ? path + dir + 1 : path;
        n = snprintf(buf, buf_bytes, "%s/%.*s", o->scratch_dir, (int)(len - (size_t)(below - path)), below);
    }
    TD_FAIL_IF(n < 0 || (size_t)n >= buf_bytes, err, INVALID_ARGUMENT, "%s: path of %zu bytes is too long",
               TD_NODE_STR(c->node), len);
    if (write && n > 0) {
        TD_TRY(td_disk_take(td_file_disk(c), TD_DISK_FILE, buf, err)); /* the folders */
        make_parents(buf);
    }
    return TD_OK;
}

struct td_disk *td_file_disk(const struct td_call *c)
{
    return owner(c->run->model)->disk;
}

const char *td_file_root(const struct td_call *c, const char *resolved)
{
    const struct td_model_opts *o = &c->run->model->opts;
    const size_t n = strlen(o->dir);
    return n > 0 && strncmp(resolved, o->dir, n) == 0 && resolved[n] == '/' ? o->dir : o->scratch_dir;
}
