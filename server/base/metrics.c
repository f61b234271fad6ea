/* server/base/metrics.c - cells that are made once, found without a lock, and only ever added to.
 *
 *   FAMILIES[id].cells  ->  cell {labels, count, sum, buckets}  ->  cell ...
 *   models[hash(name)]  ->  model {name, its cells by what they count}  ->  model ...
 *                           both pushed in front, never taken out
 *
 * A cell is made under `making` on its first use and is published by an atomic pointer; from then on it is
 * only added to, with relaxed atomics. Process-wide because it counts for the process: nothing here is ever
 * freed.
 *
 * Invariant (cell_check): a cell's buckets number its family's bounds and one more, for what lies above them
 * all.
 *
 * Cells of version directories have no slot and are searched under `making` by their labels; they are counted
 * on loads only. Bounds of a histogram are a first value and a growth factor; the bucket is found by
 * multiplying. Names, types and help texts are in metrics.def.
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
    atomic_uint_fast64_t value;    /* of a histogram: the sum */
    atomic_uint_fast64_t *buckets; /* of a histogram */
};

static struct family {
    enum kind kind;
    double first, growth;
    int n_bounds;
    const char *name, *help;
    _Atomic(struct cell *) cells;
} FAMILIES[N_METRICS] = {
#define METRIC(id, type, text, labels, about) [id] = {.kind = type, .name = text, .help = about},
#define METRIC_HISTOGRAM(id, from, times, n, text, labels, about)                                            \
    [id] = {.kind = HISTOGRAM, .first = from, .growth = times, .n_bounds = n, .name = text, .help = about},
#include "server/base/metrics.def"
};

#define N_CODES 17
#define N_CHAINS 1024
#define MAX_PATH_CELLS 4000 /* of version directories */
#define MAX_SIZE 1025       /* batch sizes with cells of their own, 0 among them */
#define MAX_LABELS 1200

typedef _Atomic(struct cell *) slot;

struct td_metrics_model {
    struct td_metrics_model *next;
    char *name;
    slot count[N_CODES], refused[N_CODES], logged[N_CODES], latency[TD_N_APIS][TD_N_ENTRIES],
        runtime[TD_N_APIS];
    slot examples, examples_total, queue_wait, batch_rows;
};

static pthread_mutex_t making =
    PTHREAD_MUTEX_INITIALIZER; /* guards making cells and models, and n_path_cells */
static _Atomic(struct td_metrics_model *) models[N_CHAINS];
static struct td_metrics_model unknown = {.name = ""};
static int n_path_cells;

/* ------------------------------------------------------------------ labels */

/* Appends name="value" to text, escaped; one that does not fit is cut. */
static void add_label(char text[MAX_LABELS], const char *name, const char *value)
{
    size_t n = strlen(text);
    n += (size_t)snprintf(text + n, MAX_LABELS - n, "%s%s=\"", n > 0 ? "," : "", name);
    for (const char *p = value; *p != '\0' && n < MAX_LABELS - 4; p++) {
        if (*p == '"' || *p == '\\' || *p == '\n') {
            text[n++] = '\\';
        }
        text[n++] = *p == '\n' ? 'n' : *p;
    }
    text[n++] = '"';
    text[n] = '\0';
}

static void labels_of(char text[MAX_LABELS], const char *const *pairs)
{
    text[0] = '\0';
    for (; pairs != NULL && *pairs != NULL; pairs += 2) {
        add_label(text, pairs[0], pairs[1]);
    }
}

/* ------------------------------------------------------------------ cells */

/* Caller holds making. */
static struct cell *make_cell(enum metric id, const char *labels)
{
    struct family *f = &FAMILIES[id];
    struct cell *c = td_calloc(1, sizeof *c);
    if (c != NULL) {
        c->labels = td_strdup(labels);
        c->buckets = f->kind == HISTOGRAM ? td_calloc((size_t)f->n_bounds + 1, sizeof *c->buckets) : NULL;
    }
    if (c == NULL || c->labels == NULL || (f->kind == HISTOGRAM && c->buckets == NULL)) {
        td_free(c != NULL ? c->labels : NULL);
        td_free(c);
        return NULL;
    }
    c->next = atomic_load(&f->cells);
    atomic_store_explicit(&f->cells, c, memory_order_release);
    return c;
}

/* The cell of a slot, made with these labels if it is not there yet; NULL without memory. */
static struct cell *cell_at(slot *at, enum metric id, const char *const *pairs)
{
    struct cell *c = atomic_load_explicit(at, memory_order_acquire);
    if (c != NULL) {
        return c;
    }
    char labels[MAX_LABELS];
    labels_of(labels, pairs);
    pthread_mutex_lock(&making);
    c = atomic_load(at);
    if (c == NULL) {
        c = make_cell(id, labels);
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
    TD_WANT(f->kind == HISTOGRAM && c->buckets != NULL && bucket >= 0 && bucket <= f->n_bounds, err,
            "bucket %d of %s, which has %d bounds", bucket, f->name, f->n_bounds);
    return TD_OK;
}

static void observe(struct cell *c, enum metric id, int64_t value)
{
    const struct family *f = &FAMILIES[id];
    double bound = f->first;
    int i = 0;
    for (; i < f->n_bounds && (double)value > bound; i++) {
        bound *= f->growth;
    }
    if (c != NULL) {
        TD_HOLDS(cell_check, c, f, i);
        atomic_fetch_add_explicit(&c->buckets[i], 1, memory_order_relaxed);
        add(c, value);
    }
}

/* A cell that no slot points to, found by its labels: the path, and one of a name (NULL: none). Paths beyond
 * the limit share the empty one. */
static struct cell *cell_of_path(enum metric id, const char *path, const char *name, const char *value)
{
    char labels[MAX_LABELS];
    pthread_mutex_lock(&making);
    struct cell *c = NULL;
    for (int i = 0; i < 2 && c == NULL; i++) {
        const char *const pairs[] = {"model_path", i == 0 ? path : "", name, value, NULL};
        labels_of(labels, pairs);
        for (c = atomic_load(&FAMILIES[id].cells); c != NULL && strcmp(c->labels, labels) != 0;) {
            c = c->next;
        }
        if (c == NULL && (n_path_cells < MAX_PATH_CELLS || i == 1)) {
            n_path_cells++;
            c = make_cell(id, labels);
            break;
        }
    }
    pthread_mutex_unlock(&making);
    return c;
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

/* ------------------------------------------------------------------ what is counted */

#define LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char *api_name(enum td_api api, enum td_entry_point entry)
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

static int code_index(enum td_code code)
{
    return code >= 0 && code < N_CODES ? (int)code : TD_UNKNOWN;
}

void td_metrics_request(struct td_metrics_model *m, enum td_api api, enum td_entry_point entry,
                        enum td_code code, int64_t us)
{
    const int k = code_index(code);
    add(cell_at(&m->count[k], REQUEST_COUNT,
                LABELS("model_name", m->name, "status", td_code_name((enum td_code)k))),
        1);
    if (code == TD_OK) {
        const char *const *labels = LABELS("model_name", m->name, "API", api_name(api, entry), "entrypoint",
                                           entry == TD_ENTRY_GRPC ? "GRPC" : "REST");
        observe(cell_at(&m->latency[api][entry], REQUEST_LATENCY, labels), REQUEST_LATENCY, us);
    }
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
        LABELS("model_name", m->name, "API", api_name(api, TD_ENTRY_GRPC), "runtime", "TF1");
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
    add(cell_of_path(LOAD_ATTEMPTS, path, "status", ok ? "success" : "fail"), 1);
    if (ok) {
        add(cell_of_path(LOAD_LATENCY, path, NULL, NULL), us);
    }
}

void td_metrics_load_stage(const char *path, const char *stage, int64_t us)
{
    observe(cell_of_path(LOAD_STAGES, path, "stage", stage), LOAD_STAGES, us);
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
    observe(cell_of_path(WARMUP_LATENCY, path, "status", td_code_name(code)), WARMUP_LATENCY, us);
    add(cell_of_path(WARMUP_RECORDS, path, "status", td_code_name(code)), n_records);
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

int64_t td_metrics_counter(const char *name)
{
    uint64_t sum = 0;
    for (int i = 0; i < N_METRICS; i++) {
        struct family *f = &FAMILIES[i];
        if (f->kind == COUNTER && is_named(f->name, name)) {
            for (struct cell *c = atomic_load(&f->cells); c != NULL; c = c->next) {
                sum += atomic_load_explicit(&c->value, memory_order_relaxed);
            }
        }
    }
    return (int64_t)sum;
}

/* ------------------------------------------------------------------ writing */

static enum td_code put_line(struct td_sink *out, const char *name, const char *suffix, const char *labels,
                             const char *more, double value, struct td_err *err)
{
    char line[MAX_LABELS + 200];
    const bool both = *labels != '\0' && *more != '\0';
    const int n = snprintf(line, sizeof line, "%s%s{%s%s%s} %.17g\n", name, suffix, labels, both ? "," : "",
                           more, value);
    return td_sink_put(out, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1, err);
}

enum td_code td_metrics_put_head(struct td_sink *out, const char *name, const char *type, const char *help,
                                 struct td_err *err)
{
    char text[400];
    const int n = snprintf(text, sizeof text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
    return td_sink_put(out, text, (size_t)n, err);
}

enum td_code td_metrics_put(struct td_sink *out, const char *name, const char *const *labels, double value,
                            struct td_err *err)
{
    char text[MAX_LABELS];
    labels_of(text, labels);
    return put_line(out, name, "", text, "", value, err);
}

static enum td_code put_histogram(struct td_sink *out, const struct family *f, const struct cell *c,
                                  struct td_err *err)
{
    double bound = f->first, n = 0;
    for (int i = 0; i <= f->n_bounds; i++, bound *= f->growth) {
        char le[40] = "le=\"+Inf\"";
        if (i < f->n_bounds) {
            (void)snprintf(le, sizeof le, "le=\"%g\"", bound);
        }
        n += (double)atomic_load_explicit(&c->buckets[i], memory_order_relaxed);
        TD_TRY(put_line(out, f->name, "_bucket", c->labels, le, n, err));
    }
    const double sum = (double)atomic_load_explicit(&c->value, memory_order_relaxed);
    TD_TRY(put_line(out, f->name, "_sum", c->labels, "", sum, err));
    return put_line(out, f->name, "_count", c->labels, "", n, err);
}

enum td_code td_metrics_write(struct td_sink *out, struct td_err *err)
{
    for (int i = 0; i < N_METRICS; i++) {
        struct family *f = &FAMILIES[i];
        const struct cell *c = atomic_load_explicit(&f->cells, memory_order_acquire);
        if (c != NULL) {
            TD_TRY(td_metrics_put_head(out, f->name, f->kind == COUNTER ? "counter" : "histogram", f->help,
                                       err));
        }
        for (; c != NULL; c = c->next) {
            TD_TRY(f->kind == HISTOGRAM
                       ? put_histogram(out, f, c, err)
                       : put_line(out, f->name, "", c->labels, "",
                                  (double)atomic_load_explicit(&c->value, memory_order_relaxed), err));
        }
    }
    return TD_OK;
}
