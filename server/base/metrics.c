/* server/base/metrics.c - cells that are made once, found without a lock, and only ever added to.
 *
 *   FAMILIES[id].cells  ->  cell {labels, count, sum, buckets}  ->  cell ...
 *   models[hash(name)]  ->  model {name, its cells by what they count}  ->  model ...
 *                           both pushed in front, never taken out
 *
 * A cell is made under `making` on its first use and is published by an atomic pointer; from then on it is
 * only added to, with relaxed atomics. Process-wide because it counts for the process: none of these is ever
 * freed.
 *
 * Invariant (cell_check): a cell's buckets number its family's bounds and one more, for what lies above them
 * all.
 *
 * Cells of version directories have no slot and are searched under `making` by their labels; they are counted
 * on loads only, and go when their version does, or a thousand new versions would be told of for ever. What
 * requests came to is server/base/latency.c's, and TensorFlow Serving's families of it are sums of that.
 * Names, types and help texts are in metrics.def.
 *
 * Does not: hold gauges; those are looked up by who writes them (server/http/rest_metrics.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/metrics.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/hash.h"
#include "core/base/mem.h"

enum kind { COUNTER, HISTOGRAM };
enum metric {
#define METRIC(id, ...) id,
#define METRIC_HISTOGRAM(id, ...) id,
#include "server/base/metrics.def"
    N_METRICS
};

struct cell {
    struct cell *next;
    char *labels;                  /* a="b",c="d" */
    char *path;                    /* of a version directory; NULL: of none */
    atomic_uint_fast64_t value;    /* of a histogram: the sum */
    atomic_uint_fast64_t *buckets; /* of a histogram */
};

static struct family {
    enum kind kind;
    struct td_bounds bounds; /* of a histogram */
    const char *name, *help;
    _Atomic(struct cell *) cells;
    struct cell *of_paths; /* of version directories, which go again; under making, as is.. */
    uint64_t forgotten;    /* ..what those of a counter came to that have gone */
} FAMILIES[N_METRICS] = {
#define METRIC(id, type, text, labels, about) [id] = {.kind = type, .name = text, .help = about},
#define METRIC_HISTOGRAM(id, from, times, n, text, labels, about)                                            \
    [id] = {.kind = HISTOGRAM, .bounds = {from, times, n}, .name = text, .help = about},
#include "server/base/metrics.def"
};

#define N_CODES 17
#define N_CHAINS 1024
#define MAX_PATH_CELLS 4000 /* of version directories */
#define MAX_SIZE 1025       /* batch sizes with cells of their own, 0 among them */

#define LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})

typedef _Atomic(struct cell *) slot;

struct td_metrics_model {
    struct td_metrics_model *next;
    char *name;
    struct td_latency_model latency;
    slot refused[N_CODES], logged[N_CODES], runtime[TD_N_APIS];
    slot examples, examples_total, queue_wait, batch_rows, cold_start;
};

static pthread_mutex_t making =
    PTHREAD_MUTEX_INITIALIZER; /* guards making cells and models, and n_path_cells */
static _Atomic(struct td_metrics_model *) models[N_CHAINS];
static struct td_metrics_model unknown = {.name = "", .latency = {.name = ""}};
static int n_path_cells;

/* ------------------------------------------------------------------ cells */

static void free_cell(struct cell *c)
{
    if (c != NULL) {
        td_free(c->labels);
        td_free(c->path);
        td_free(c->buckets);
        td_free(c);
    }
}

/* In no list yet; NULL without memory. path: NULL none. */
static struct cell *new_cell(const struct family *f, const char *labels, const char *path)
{
    struct cell *c = td_calloc(1, sizeof *c);
    if (c != NULL) {
        c->labels = td_strdup(labels);
        c->path = path != NULL ? td_strdup(path) : NULL;
        c->buckets = f->kind == HISTOGRAM ? td_calloc((size_t)f->bounds.n + 1, sizeof *c->buckets) : NULL;
        if (c->labels == NULL || (path != NULL && c->path == NULL) ||
            (f->kind == HISTOGRAM && c->buckets == NULL)) {
            free_cell(c);
            c = NULL;
        }
    }
    return c;
}

/* The cell of a slot, made with these labels if it is not there yet; NULL without memory. */
static struct cell *cell_at(slot *at, enum metric id, const char *const *pairs)
{
    struct cell *c = atomic_load_explicit(at, memory_order_acquire);
    if (c != NULL) {
        return c;
    }
    struct td_labels labels;
    td_labels_set(&labels, pairs);
    pthread_mutex_lock(&making);
    c = atomic_load(at);
    if (c == NULL) {
        struct family *f = &FAMILIES[id];
        c = new_cell(f, labels.text, NULL);
        if (c != NULL) {
            c->next = atomic_load(&f->cells);
            atomic_store_explicit(&f->cells, c, memory_order_release);
        }
        atomic_store_explicit(at, c, memory_order_release);
    }
    pthread_mutex_unlock(&making);
    return c;
}

static void add(struct cell *c, int64_t n)
{
    if (c != NULL && n > 0) {
        atomic_fetch_add_explicit(&c->value, (uint64_t)n, memory_order_relaxed);
    }
}

TD_CHECK_FN enum td_code cell_check(const struct cell *c, const struct family *f, int bucket,
                                    struct td_err *err)
{
    TD_WANT(f->kind == HISTOGRAM && c->buckets != NULL && bucket >= 0 && bucket <= f->bounds.n, err,
            "bucket %d of %s, which has %d bounds", bucket, f->name, f->bounds.n);
    return TD_OK;
}

static void observe(struct cell *c, enum metric id, int64_t value)
{
    const struct family *f = &FAMILIES[id];
    const int i = td_bounds_bucket(&f->bounds, value);
    if (c != NULL) {
        TD_HOLDS(cell_check, c, f, i);
        atomic_fetch_add_explicit(&c->buckets[i], 1, memory_order_relaxed);
        add(c, value);
    }
}

/* ------------------------------------------------------------------ version directories */

/* The cell of a path, found by its labels; one beyond the limit is that of the empty path. Caller holds
 * making. */
static struct cell *cell_of_path(enum metric id, const char *path, const char *name, const char *value)
{
    struct family *f = &FAMILIES[id];
    for (int i = 0; i < 2; i++, path = "") {
        struct td_labels labels;
        td_labels_set(&labels, LABELS("model_path", path, name, value));
        struct cell *c = f->of_paths;
        while (c != NULL && strcmp(c->labels, labels.text) != 0) {
            c = c->next;
        }
        if (c == NULL && (n_path_cells < MAX_PATH_CELLS || i == 1) &&
            (c = new_cell(f, labels.text, path)) != NULL) {
            n_path_cells++;
            c->next = f->of_paths;
            f->of_paths = c;
        }
        if (c != NULL) {
            return c;
        }
    }
    return NULL;
}

/* name, value: of a label beside the path; NULL none. */
static void count_path(enum metric id, const char *path, const char *name, const char *value, int64_t n)
{
    pthread_mutex_lock(&making);
    struct cell *c = cell_of_path(id, path, name, value);
    if (FAMILIES[id].kind == HISTOGRAM) {
        observe(c, id, n);
    } else {
        add(c, n);
    }
    pthread_mutex_unlock(&making);
}

/* Whether a path is dir, or below it (Triton's layout keeps the model there). */
static bool is_at(const char *path, const char *dir)
{
    const size_t n = strlen(dir);
    return n > 0 && strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

void td_metrics_forget(const char *path)
{
    pthread_mutex_lock(&making);
    for (int i = 0; i < N_METRICS; i++) {
        for (struct cell **at = &FAMILIES[i].of_paths; *at != NULL;) {
            struct cell *c = *at;
            if (!is_at(c->path, path)) {
                at = &c->next;
                continue;
            }
            *at = c->next;
            FAMILIES[i].forgotten += atomic_load(&c->value);
            free_cell(c);
            n_path_cells--;
        }
    }
    pthread_mutex_unlock(&making);
}

/* ------------------------------------------------------------------ models */

static size_t chain_of(const char *name, size_t n)
{
    return (size_t)(td_hash_bytes(name, n) % N_CHAINS);
}

static struct td_metrics_model *find_model(const char *name, size_t n)
{
    struct td_metrics_model *m = atomic_load_explicit(&models[chain_of(name, n)], memory_order_acquire);
    while (m != NULL && (strncmp(m->name, name, n) != 0 || m->name[n] != '\0')) {
        m = m->next;
    }
    return m;
}

void td_metrics_add_model(const char *name)
{
    const size_t n = strlen(name);
    pthread_mutex_lock(&making);
    if (n > 0 && find_model(name, n) == NULL) {
        struct td_metrics_model *m = td_calloc(1, sizeof *m);
        char *copy = m != NULL ? td_strdup(name) : NULL;
        if (copy != NULL) {
            _Atomic(struct td_metrics_model *) *chain = &models[chain_of(name, n)];
            m->name = copy;
            m->latency.name = copy;
            m->next = atomic_load(chain);
            atomic_store_explicit(chain, m, memory_order_release);
        } else {
            td_free(m);
        }
    }
    pthread_mutex_unlock(&making);
}

struct td_metrics_model *td_metrics_model(const char *name)
{
    struct td_metrics_model *m = NULL;
    if (name != NULL) {
        const char *colon = strrchr(name, ':');
        m = find_model(name, strlen(name));
        m = m == NULL && colon != NULL ? find_model(name, (size_t)(colon - name)) : m;
    }
    return m != NULL ? m : &unknown;
}

struct td_latency_model *td_metrics_latency(struct td_metrics_model *m)
{
    return &m->latency;
}

/* ------------------------------------------------------------------ what is counted */

static int code_index(enum td_code code)
{
    return code >= 0 && code < N_CODES ? (int)code : TD_UNKNOWN;
}

void td_metrics_spans(const char *outcome, int64_t n)
{
    static slot outcomes[3];
    const int i = *outcome == 'e' ? 0 : *outcome == 'f' ? 1 : 2;
    add(cell_at(&outcomes[i], SPANS, LABELS("outcome", outcome)), n);
}

void td_metrics_examples(struct td_metrics_model *m, int64_t n)
{
    observe(cell_at(&m->examples, EXAMPLE_COUNTS, LABELS("model", m->name)), EXAMPLE_COUNTS, n);
    add(cell_at(&m->examples_total, EXAMPLE_TOTAL, LABELS("model", m->name)), n);
}

void td_metrics_runtime(struct td_metrics_model *m, enum td_api api, int64_t us)
{
    const char *const *labels =
        LABELS("model_name", m->name, "API", td_latency_api(api, TD_ENTRY_GRPC), "runtime", "TF1");
    observe(cell_at(&m->runtime[api], RUNTIME_LATENCY, labels), RUNTIME_LATENCY, us);
}

void td_metrics_graph_run(int64_t us)
{
    static slot sessions, runs, time, spread;
    add(cell_at(&sessions, SESSION_RUNS, NULL), 1);
    add(cell_at(&runs, GRAPH_RUNS, NULL), 1);
    add(cell_at(&time, GRAPH_RUN_TIME, NULL), us);
    observe(cell_at(&spread, GRAPH_RUN_HISTOGRAM, NULL), GRAPH_RUN_HISTOGRAM, us);
}

static char pool_name[64] = "batch_threads";

void td_metrics_pool_name(const char *name)
{
    (void)snprintf(pool_name, sizeof pool_name, "%s", *name != '\0' ? name : "batch_threads");
}

void td_metrics_batched(struct td_metrics_model *m, int64_t rows, int64_t wait_us)
{
    static slot waits, sizes;
    observe(cell_at(&m->queue_wait, QUEUE_WAIT, LABELS("model_name", m->name)), QUEUE_WAIT, wait_us);
    observe(cell_at(&waits, QUEUING_LATENCY, LABELS("thread_pool_name", pool_name)), QUEUING_LATENCY,
            wait_us);
    observe(cell_at(&sizes, INPUT_BATCH, NULL), INPUT_BATCH, rows);
}

void td_metrics_cold_start(struct td_metrics_model *m, int64_t us)
{
    observe(cell_at(&m->cold_start, COLD_START, LABELS("model_name", m->name)), COLD_START, us);
}

void td_metrics_batch(struct td_metrics_model *m, int64_t rows, int64_t padding)
{
    static slot runs, sizes, paddings[MAX_SIZE + 1]; /* the last one: of larger batches */
    const int64_t ran = rows + padding;
    const bool large = ran < 0 || ran >= MAX_SIZE;
    char size[24] = "";
    if (!large) {
        (void)snprintf(size, sizeof size, "%lld", (long long)ran);
    }
    add(cell_at(&runs, WRAPPED_RUNS, NULL), 1);
    observe(cell_at(&sizes, PROCESSED_BATCH, NULL), PROCESSED_BATCH, ran);
    observe(cell_at(&paddings[large ? MAX_SIZE : ran], PADDING_SIZE, LABELS("execution_batch_size", size)),
            PADDING_SIZE, padding);
    observe(cell_at(&m->batch_rows, BATCH_ROWS, LABELS("model_name", m->name)), BATCH_ROWS, rows);
}

void td_metrics_helped(void)
{
    static slot times;
    add(cell_at(&times, HELPED, NULL), 1);
}

void td_metrics_refused(struct td_metrics_model *m, enum td_code code)
{
    const int k = code_index(code);
    add(cell_at(&m->refused[k], REFUSED,
                LABELS("model_name", m->name, "status", td_code_name((enum td_code)k))),
        1);
}

void td_metrics_loaded(const char *path, bool ok, int64_t us)
{
    count_path(LOAD_ATTEMPTS, path, "status", ok ? "success" : "fail", 1);
    if (ok) {
        count_path(LOAD_LATENCY, path, NULL, NULL, us);
    }
}

void td_metrics_load_stage(const char *path, const char *stage, int64_t us)
{
    count_path(LOAD_STAGES, path, "stage", stage, us);
}

void td_metrics_logged(struct td_metrics_model *m, enum td_code code)
{
    const int k = code_index(code);
    add(cell_at(&m->logged[k], REQUEST_LOG,
                LABELS("model_name", m->name, "status_code", td_code_name((enum td_code)k))),
        1);
}

void td_metrics_warmed(const char *path, enum td_code code, int64_t us, int64_t n_records)
{
    count_path(WARMUP_LATENCY, path, "status", td_code_name(code), us);
    count_path(WARMUP_RECORDS, path, "status", td_code_name(code), n_records);
}

/* ------------------------------------------------------------------ reading */

typedef enum td_code model_fn(void *ctx, struct td_metrics_model *m, struct td_err *err);

static enum td_code each_model(model_fn *fn, void *ctx, struct td_err *err)
{
    TD_TRY(fn(ctx, &unknown, err));
    for (int i = 0; i < N_CHAINS; i++) {
        struct td_metrics_model *m = atomic_load_explicit(&models[i], memory_order_acquire);
        for (; m != NULL; m = m->next) {
            TD_TRY(fn(ctx, m, err));
        }
    }
    return TD_OK;
}

/* Whether text is name with ':' for '/'. */
static bool is_named(const char *text, const char *name)
{
    while (*text != '\0' && *text == (*name == '/' ? ':' : *name)) {
        text++;
        name++;
    }
    return *text == '\0' && *name == '\0';
}

static enum td_code add_requests(void *ctx, struct td_metrics_model *m, struct td_err *err)
{
    (void)err;
    *(uint64_t *)ctx += td_latency_total(&m->latency);
    return TD_OK;
}

static uint64_t sum_of(const struct cell *c)
{
    uint64_t sum = 0;
    for (; c != NULL; c = c->next) {
        sum += atomic_load_explicit(&c->value, memory_order_relaxed);
    }
    return sum;
}

int64_t td_metrics_counter(const char *name)
{
    uint64_t sum = 0;
    struct td_err never = {0};
    for (int i = 0; i < N_METRICS; i++) {
        struct family *f = &FAMILIES[i];
        if (f->kind == COUNTER && is_named(f->name, name)) {
            pthread_mutex_lock(&making);
            sum += sum_of(atomic_load(&f->cells)) + sum_of(f->of_paths) + f->forgotten;
            pthread_mutex_unlock(&making);
        }
    }
    if (is_named(FAMILIES[REQUEST_COUNT].name, name)) {
        (void)!each_model(add_requests, &sum, &never);
    }
    return (int64_t)sum;
}

static enum td_code put_cells(struct td_sink *out, const struct family *f, const struct cell *c,
                              struct td_err *err)
{
    for (; c != NULL; c = c->next) {
        const uint64_t value = atomic_load_explicit(&c->value, memory_order_relaxed);
        uint64_t buckets[TD_MAX_BOUNDS + 1];
        if (f->kind == COUNTER) {
            TD_TRY(td_metrics_put_sample(out, f->name, c->labels, (double)value, err));
            continue;
        }
        for (int i = 0; i <= f->bounds.n; i++) {
            buckets[i] = atomic_load_explicit(&c->buckets[i], memory_order_relaxed);
        }
        TD_TRY(td_metrics_put_histogram(out, f->name, c->labels, &f->bounds, buckets, value, err));
    }
    return TD_OK;
}

struct family_text {
    struct td_sink *out;
    enum metric id;
};

/* What a model's requests came to, where a family is of these. */
static enum td_code put_requests(void *ctx, struct td_metrics_model *m, struct td_err *err)
{
    const struct family_text *t = ctx;
    const char *name = FAMILIES[t->id].name;
    switch (t->id) {
    case REQUEST_COUNT:
        return td_latency_put_counts(&m->latency, t->out, name, err);
    case REQUEST_LATENCY:
        return td_latency_put_apis(&m->latency, t->out, name, err);
    case VERSION_LATENCY:
        return td_latency_put(&m->latency, t->out, name, err);
    default:
        return TD_OK;
    }
}

static enum td_code put_family(struct td_sink *out, enum metric id, struct td_err *err)
{
    struct family *f = &FAMILIES[id];
    struct family_text t = {out, id};
    const size_t before = out->n;
    TD_TRY(td_metrics_put_head(out, f->name, f->kind == COUNTER ? "counter" : "histogram", f->help, err));
    const size_t head = out->n;
    if (id == REQUEST_COUNT || id == REQUEST_LATENCY || id == VERSION_LATENCY) {
        TD_TRY(each_model(put_requests, &t, err));
    }
    TD_TRY(put_cells(out, f, atomic_load_explicit(&f->cells, memory_order_acquire), err));
    pthread_mutex_lock(&making);
    const enum td_code rc = put_cells(out, f, f->of_paths, err);
    pthread_mutex_unlock(&making);
    out->n = rc == TD_OK && out->n == head ? before : out->n; /* without samples, no head */
    return rc;
}

enum td_code td_metrics_write(struct td_sink *out, struct td_err *err)
{
    for (int i = 0; i < N_METRICS; i++) {
        TD_TRY(put_family(out, (enum metric)i, err));
    }
    return TD_OK;
}
