/* server/base/trace.c - rows of settings under one lock: row 0 for all models, then those with overrides.
 *
 * A value is the row's own where it has one, else row 0's, else the default of the table of keys. A change is
 * parsed whole before the lock is taken, so it is made whole or not at all; it also starts the counting of
 * its row anew. Rows are never removed.
 *
 * `active` is true while any row has a level. It is all that a request reads while nothing is traced; else it
 * is counted under the lock: every trace_rate-th of a row is due, until trace_count were.
 *
 * Does not: write traces (server/base/trace_file.c), time requests (server/request).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/trace.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "server/base/trace_file.h"

enum key { LEVEL, RATE, COUNT, FREQUENCY, N_KEYS };

/* name, default, least value */
static const struct {
    const char *name;
    int64_t value, least;
} keys[N_KEYS] = {
    [LEVEL] = {"trace_level", 0, 0}, /* bits of enum td_trace_level */
    [RATE] = {"trace_rate", 1000, 1},
    [COUNT] = {"trace_count", -1, -1},
    [FREQUENCY] = {"log_frequency", 0, 0},
};

struct row {
    char *model;
    bool has[N_KEYS];
    int64_t value[N_KEYS];
    uint64_t seen; /* requests, and lines written, since the last change */
    int64_t written;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* guards rows and n_rows */
static struct row rows[1 + TD_TRACE_MAX_MODELS];
static int n_rows = 1;
static atomic_bool active; /* some row may have a level */

/* Caller holds mu. */
static struct row *row_of(const char *model)
{
    for (int i = 1; i < n_rows; i++) {
        if (strcmp(rows[i].model, model) == 0) {
            return &rows[i];
        }
    }
    return &rows[0];
}

static int64_t value_of(const struct row *r, int key)
{
    return r->has[key] ? r->value[key] : rows[0].has[key] ? rows[0].value[key] : keys[key].value;
}

/* ------------------------------------------------------------------ changing */

static enum td_code parse_level(const struct td_trace_change *c, int64_t *out, struct td_err *err)
{
    *out = 0;
    for (int i = 0; i < c->n; i++) {
        const bool off = strcmp(c->value[i], "OFF") == 0, times = strcmp(c->value[i], "TIMESTAMPS") == 0;
        const bool tensors = strcmp(c->value[i], "TENSORS") == 0;
        TD_FAIL_IF(!off && !times && !tensors, err, INVALID_ARGUMENT,
                   "'%.100s' is no trace_level: OFF, TIMESTAMPS and TENSORS are", c->value[i]);
        TD_FAIL_IF(off && c->n > 1, err, INVALID_ARGUMENT, "trace_level OFF stands alone");
        TD_FAIL_IF(tensors && *td_trace_file_path() == '\0', err, UNIMPLEMENTED,
                   "trace_level TENSORS needs a file to go to: the server was started without --trace_file");
        *out |= times ? TD_TRACE_TIMESTAMPS : tensors ? TD_TRACE_TENSORS : 0;
    }
    return TD_OK;
}

static enum td_code parse(const struct td_trace_change *c, int *key, int64_t *out, struct td_err *err)
{
    TD_FAIL_IF(strcmp(c->key, "trace_file") == 0, err, UNIMPLEMENTED,
               "trace file location can not be updated through network protocol");
    for (*key = 0; *key < N_KEYS && strcmp(c->key, keys[*key].name) != 0; ++*key) {
    }
    TD_FAIL_IF(*key == N_KEYS, err, INVALID_ARGUMENT, "'%.100s' is no trace setting", c->key);
    if (c->n == 0) {
        return TD_OK;
    }
    if (*key == LEVEL) {
        return parse_level(c, out, err);
    }
    TD_FAIL_IF(c->n > 1, err, INVALID_ARGUMENT, "trace setting '%s' takes one value, got %d", c->key, c->n);
    char *end;
    errno = 0;
    *out = strtoll(c->value[0], &end, 10);
    TD_FAIL_IF(*c->value[0] == '\0' || *end != '\0' || errno != 0 || *out < keys[*key].least ||
                   *out > INT32_MAX,
               err, INVALID_ARGUMENT,
               "Unable to parse '%s', got: '%.100s': it must be a whole number from %lld to %d", c->key,
               c->value[0], (long long)keys[*key].least, INT32_MAX);
    return TD_OK;
}

/* The row that is to change, made if need be. Caller holds mu. */
static enum td_code open_row(const char *model, struct row **out, struct td_err *err)
{
    *out = *model == '\0' ? &rows[0] : row_of(model);
    if (*model == '\0' || *out != &rows[0]) {
        return TD_OK;
    }
    TD_FAIL_IF(n_rows > TD_TRACE_MAX_MODELS, err, RESOURCE_EXHAUSTED,
               "more than %d models with trace settings of their own", TD_TRACE_MAX_MODELS);
    char *name = td_strdup(model);
    if (name == NULL) {
        return td_no_memory(err, strlen(model), "a trace setting");
    }
    rows[n_rows] = (struct row){.model = name};
    *out = &rows[n_rows++];
    return TD_OK;
}

enum td_code td_trace_set(const char *model, const struct td_trace_change *change, int n, struct td_err *err)
{
    struct row to = {0};
    bool changes[N_KEYS] = {false}, times = false;
    for (int i = 0; i < n; i++) {
        int key = 0;
        int64_t v = 0;
        TD_TRY(parse(&change[i], &key, &v, err));
        changes[key] = true;
        to.has[key] = change[i].n > 0;
        to.value[key] = v;
    }
    struct row *r;
    pthread_mutex_lock(&mu);
    const enum td_code rc = open_row(model, &r, err);
    for (int k = 0; rc == TD_OK && k < N_KEYS; k++) {
        r->has[k] = changes[k] ? to.has[k] : r->has[k];
        r->value[k] = changes[k] ? to.value[k] : r->value[k];
        r->seen = 0;
        r->written = 0;
    }
    for (int i = 0; i < n_rows; i++) {
        times = times || value_of(&rows[i], LEVEL) != 0;
    }
    atomic_store(&active, times);
    pthread_mutex_unlock(&mu);
    return rc;
}

/* ------------------------------------------------------------------ reading */

enum td_code td_trace_each(const char *model, td_trace_row_fn *fn, void *ctx, struct td_err *err)
{
    int64_t value[N_KEYS];
    pthread_mutex_lock(&mu);
    for (int k = 0; k < N_KEYS; k++) {
        value[k] = value_of(row_of(model), k);
    }
    pthread_mutex_unlock(&mu);
    const char *file = td_trace_file_path(), *levels[2] = {"OFF"}, *mode = "triton";
    int n = 0;
    if (value[LEVEL] & TD_TRACE_TIMESTAMPS) {
        levels[n++] = "TIMESTAMPS";
    }
    if (value[LEVEL] & TD_TRACE_TENSORS) {
        levels[n++] = "TENSORS";
    }
    TD_TRY(fn(ctx, "trace_file", &file, 1, err));
    TD_TRY(fn(ctx, keys[LEVEL].name, levels, n > 0 ? n : 1, err));
    for (int k = RATE; k < N_KEYS; k++) {
        char digits[24];
        const char *text = digits;
        (void)snprintf(digits, sizeof digits, "%lld", (long long)value[k]);
        TD_TRY(fn(ctx, keys[k].name, &text, 1, err));
    }
    return fn(ctx, "trace_mode", &mode, 1, err);
}

int64_t td_trace_frequency(const char *model)
{
    pthread_mutex_lock(&mu);
    const int64_t n = value_of(row_of(model), FREQUENCY);
    pthread_mutex_unlock(&mu);
    return n;
}

int td_trace_due(const char *model)
{
    if (!atomic_load_explicit(&active, memory_order_relaxed)) {
        return 0;
    }
    pthread_mutex_lock(&mu);
    struct row *r = row_of(model);
    const int64_t most = value_of(r, COUNT);
    const bool due = value_of(r, LEVEL) != 0 && (most < 0 || r->written < most) &&
                     ++r->seen % (uint64_t)value_of(r, RATE) == 0;
    r->written += due;
    const int levels = due ? (int)value_of(r, LEVEL) : 0;
    pthread_mutex_unlock(&mu);
    return levels;
}
