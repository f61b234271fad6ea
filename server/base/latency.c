/* server/base/latency.c - cells in lists, made when their like first ends.
 *
 *   model -> none, past                     rows
 *         -> version 3 -> row "serving_default" -> cell {Predict, gRPC, OK}, cell {Predict, REST, OK}, ..
 *                      -> row ""                -> cell {Predict, gRPC, FAILED_PRECONDITION}
 *         -> version 4 -> ..
 *
 * A row has few cells, so they are searched; a cell is pushed in front under the lock and stays until its
 * version goes. Then its counts are added to the model's row `past`, which is not told by itself: a series
 * that jumped when a version goes would be taken for requests of that moment.
 *
 * Invariant (row_check): no two cells of a row are of one kind.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/latency.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/mem.h"

#define N_CODES 17
#define N_BOUNDS 33

const struct td_bounds td_latency_bounds = {.first = 10, .growth = 1.8, .n = N_BOUNDS};

struct td_latency_cell {
    struct td_latency_cell *next;
    enum td_api api;
    enum td_entry_point entry;
    enum td_code code;
    atomic_uint_fast64_t sum_us, buckets[N_BOUNDS + 1];
};

struct td_latency_version {
    struct td_latency_version *next;
    struct td_latency_model *model;
    int64_t number;
    int n_open, n_rows;
    struct td_latency_row none;
    struct td_latency_row *rows; /* of signatures */
};

/* Guards lists of versions and rows, counts of who has a version open, and making cells. */
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

const char *td_latency_api(enum td_api api, enum td_entry_point entry)
{
    static const char *const names[TD_N_APIS][TD_N_ENTRIES] = {
        {"", ""},
        {"Predict", "predict"},
        {"Classify", "classify"},
        {"Regress", "regress"},
        {"MultiInference", "multi_inference"},
        {"ModelInfer", "infer"},
        {"Gradient", "gradient"},
    };
    return names[api][entry];
}

/* ------------------------------------------------------------------ counting */

static struct td_latency_cell *find_cell(const struct td_latency_row *r, enum td_api api,
                                         enum td_entry_point entry, enum td_code code)
{
    struct td_latency_cell *c = atomic_load_explicit(&r->cells, memory_order_acquire);
    while (c != NULL && (c->api != api || c->entry != entry || c->code != code)) {
        c = c->next;
    }
    return c;
}

TD_CHECK_FN enum td_code row_check(const struct td_latency_row *r, struct td_err *err)
{
    for (const struct td_latency_cell *c = atomic_load(&r->cells); c != NULL; c = c->next) {
        TD_WANT(find_cell(r, c->api, c->entry, c->code) == c, err,
                "two cells of signature '%s' count %s that end with %s", r->signature,
                td_latency_api(c->api, c->entry), td_code_name(c->code));
    }
    return TD_OK;
}

/* Found, or made; NULL without memory. Caller holds mu. */
static struct td_latency_cell *cell_of(struct td_latency_row *r, enum td_api api, enum td_entry_point entry,
                                       enum td_code code)
{
    struct td_latency_cell *c = find_cell(r, api, entry, code);
    if (c == NULL && (c = td_calloc(1, sizeof *c)) != NULL) {
        c->next = atomic_load(&r->cells);
        c->api = api;
        c->entry = entry;
        c->code = code;
        atomic_store_explicit(&r->cells, c, memory_order_release);
        TD_HOLDS(row_check, r);
    }
    return c;
}

void td_latency_count(struct td_latency_row *r, enum td_api api, enum td_entry_point entry, enum td_code code,
                      int64_t us)
{
    if (r == NULL) {
        return;
    }
    code = code >= 0 && code < N_CODES ? code : TD_UNKNOWN;
    us = us > 0 ? us : 0;
    struct td_latency_cell *c = find_cell(r, api, entry, code);
    if (c == NULL) {
        pthread_mutex_lock(&mu);
        c = cell_of(r, api, entry, code);
        pthread_mutex_unlock(&mu);
    }
    if (c != NULL) {
        atomic_fetch_add_explicit(&c->buckets[td_bounds_bucket(&td_latency_bounds, us)], 1,
                                  memory_order_relaxed);
        atomic_fetch_add_explicit(&c->sum_us, (uint64_t)us, memory_order_relaxed);
    }
}

/* ------------------------------------------------------------------ versions */

struct td_latency_version *td_latency_open(struct td_latency_model *m, int64_t version)
{
    pthread_mutex_lock(&mu);
    struct td_latency_version *v = m->versions;
    while (v != NULL && v->number != version) {
        v = v->next;
    }
    if (v == NULL && (v = td_calloc(1, sizeof *v)) != NULL) {
        v->model = m;
        v->number = version;
        v->next = m->versions;
        m->versions = v;
    }
    if (v != NULL) {
        v->n_open++;
    }
    pthread_mutex_unlock(&mu);
    return v;
}

/* Caller holds mu. NULL: it is to count under none. */
static struct td_latency_row *make_row(struct td_latency_version *v, const char *signature)
{
    struct td_latency_row *r = v->n_rows < TD_LATENCY_SIGNATURES ? td_calloc(1, sizeof *r) : NULL;
    if (r != NULL && (r->signature = td_strdup(signature)) != NULL) {
        r->next = v->rows;
        v->rows = r;
        v->n_rows++;
        return r;
    }
    td_free(r);
    return NULL;
}

struct td_latency_row *td_latency_row(struct td_latency_version *v, const char *signature)
{
    if (v == NULL || *signature == '\0') {
        return v != NULL ? &v->none : NULL;
    }
    pthread_mutex_lock(&mu);
    struct td_latency_row *r = v->rows;
    while (r != NULL && strcmp(r->signature, signature) != 0) {
        r = r->next;
    }
    r = r != NULL ? r : make_row(v, signature);
    pthread_mutex_unlock(&mu);
    return r != NULL ? r : &v->none;
}

/* Empties a row that nobody counts in into another. Caller holds mu. */
static void move_cells(struct td_latency_row *from, struct td_latency_row *to)
{
    struct td_latency_cell *next;
    for (struct td_latency_cell *c = atomic_load(&from->cells); c != NULL; c = next) {
        struct td_latency_cell *sum = cell_of(to, c->api, c->entry, c->code);
        next = c->next;
        if (sum != NULL) {
            for (int i = 0; i <= N_BOUNDS; i++) {
                atomic_fetch_add(&sum->buckets[i], atomic_load(&c->buckets[i]));
            }
            atomic_fetch_add(&sum->sum_us, atomic_load(&c->sum_us));
        }
        td_free(c);
    }
    atomic_store(&from->cells, NULL);
}

void td_latency_close(struct td_latency_version *v)
{
    if (v == NULL) {
        return;
    }
    pthread_mutex_lock(&mu);
    if (--v->n_open == 0) {
        struct td_latency_version **at = &v->model->versions;
        while (*at != v) {
            at = &(*at)->next;
        }
        *at = v->next;
        move_cells(&v->none, &v->model->past);
        while (v->rows != NULL) {
            struct td_latency_row *r = v->rows;
            v->rows = r->next;
            move_cells(r, &v->model->past);
            td_free(r->signature);
            td_free(r);
        }
        td_free(v);
    }
    pthread_mutex_unlock(&mu);
}

/* ------------------------------------------------------------------ telling */

typedef enum td_code row_fn(void *ctx, const struct td_latency_version *v, const struct td_latency_row *r,
                            struct td_err *err);

/* Calls fn for each row of a model, with its version or NULL. Caller holds mu. */
static enum td_code each_row(const struct td_latency_model *m, row_fn *fn, void *ctx, struct td_err *err)
{
    TD_TRY(fn(ctx, NULL, &m->none, err));
    for (const struct td_latency_version *v = m->versions; v != NULL; v = v->next) {
        TD_TRY(fn(ctx, v, &v->none, err));
        for (const struct td_latency_row *r = v->rows; r != NULL; r = r->next) {
            TD_TRY(fn(ctx, v, r, err));
        }
    }
    return TD_OK;
}

struct counts {
    uint64_t sum_us, buckets[N_BOUNDS + 1];
};

/* Adds what a cell holds; returns how many requests it was. */
static uint64_t add_cell(struct counts *to, const struct td_latency_cell *c)
{
    uint64_t n = 0;
    for (int i = 0; i <= N_BOUNDS; i++) {
        const uint64_t more = atomic_load_explicit(&c->buckets[i], memory_order_relaxed);
        to->buckets[i] += more;
        n += more;
    }
    to->sum_us += atomic_load_explicit(&c->sum_us, memory_order_relaxed);
    return n;
}

struct telling {
    const struct td_latency_model *model;
    struct td_sink *out;
    const char *name;
};

static enum td_code put_row(void *ctx, const struct td_latency_version *v, const struct td_latency_row *r,
                            struct td_err *err)
{
    const struct telling *t = ctx;
    char version[24] = "";
    if (v != NULL) {
        (void)snprintf(version, sizeof version, "%lld", (long long)v->number);
    }
    for (const struct td_latency_cell *c = atomic_load_explicit(&r->cells, memory_order_acquire); c != NULL;
         c = c->next) {
        if (c->api == TD_API_OTHER) { /* nothing was computed */
            continue;
        }
        struct counts sum = {0};
        struct td_labels labels;
        (void)add_cell(&sum, c);
        td_labels_set(&labels, (const char *const[]){"model_name", t->model->name, "version", version,
                                                     "signature", r->signature != NULL ? r->signature : "",
                                                     "API", td_latency_api(c->api, TD_ENTRY_GRPC), "protocol",
                                                     c->entry == TD_ENTRY_GRPC ? "grpc" : "rest", "code",
                                                     td_code_name(c->code), NULL});
        TD_TRY(td_metrics_put_histogram(t->out, t->name, labels.text, &td_latency_bounds, sum.buckets,
                                        sum.sum_us, err));
    }
    return TD_OK;
}

enum td_code td_latency_put(struct td_latency_model *m, struct td_sink *out, const char *name,
                            struct td_err *err)
{
    struct telling t = {m, out, name};
    pthread_mutex_lock(&mu);
    const enum td_code rc = each_row(m, put_row, &t, err);
    pthread_mutex_unlock(&mu);
    return rc;
}

struct sums {
    struct counts ok[TD_N_APIS][TD_N_ENTRIES];
    uint64_t n_ok[TD_N_APIS][TD_N_ENTRIES], n[N_CODES];
};

static enum td_code add_row(void *ctx, const struct td_latency_version *v, const struct td_latency_row *r,
                            struct td_err *err)
{
    struct sums *s = ctx;
    (void)v;
    (void)err;
    for (const struct td_latency_cell *c = atomic_load_explicit(&r->cells, memory_order_acquire); c != NULL;
         c = c->next) {
        struct counts ignored = {0};
        const uint64_t n = add_cell(c->code == TD_OK ? &s->ok[c->api][c->entry] : &ignored, c);
        s->n[c->code] += n;
        s->n_ok[c->api][c->entry] += c->code == TD_OK ? n : 0;
    }
    return TD_OK;
}

static void add_up(struct td_latency_model *m, struct sums *s)
{
    struct td_err never = {0};
    *s = (struct sums){0};
    pthread_mutex_lock(&mu);
    (void)!each_row(m, add_row, s, &never);
    (void)!add_row(s, NULL, &m->past, &never);
    pthread_mutex_unlock(&mu);
}

enum td_code td_latency_put_apis(struct td_latency_model *m, struct td_sink *out, const char *name,
                                 struct td_err *err)
{
    struct sums s;
    struct td_labels labels;
    add_up(m, &s);
    for (int api = 0; api < TD_N_APIS; api++) {
        for (int entry = 0; entry < TD_N_ENTRIES; entry++) {
            if (s.n_ok[api][entry] == 0) {
                continue;
            }
            td_labels_set(
                &labels, (const char *const[]){"model_name", m->name, "API",
                                               td_latency_api((enum td_api)api, (enum td_entry_point)entry),
                                               "entrypoint", entry == TD_ENTRY_GRPC ? "GRPC" : "REST", NULL});
            TD_TRY(td_metrics_put_histogram(out, name, labels.text, &td_latency_bounds,
                                            s.ok[api][entry].buckets, s.ok[api][entry].sum_us, err));
        }
    }
    return TD_OK;
}

enum td_code td_latency_put_counts(struct td_latency_model *m, struct td_sink *out, const char *name,
                                   struct td_err *err)
{
    struct sums s;
    add_up(m, &s);
    for (int code = 0; code < N_CODES; code++) {
        const char *const labels[] = {"model_name", m->name, "status", td_code_name((enum td_code)code),
                                      NULL};
        TD_TRY(s.n[code] > 0 ? td_metrics_put(out, name, labels, (double)s.n[code], err) : TD_OK);
    }
    return TD_OK;
}

uint64_t td_latency_total(struct td_latency_model *m)
{
    struct sums s;
    uint64_t n = 0;
    add_up(m, &s);
    for (int code = 0; code < N_CODES; code++) {
        n += s.n[code];
    }
    return n;
}
