/* server/request.c - see request.h. Runs on the caller's thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request.h"

#include <string.h>
#include <time.h>

#include "core/arena.h"
#include "core/mem.h"
#include "server/servable_run.h"

#define ARENA_LIMIT ((size_t)256 << 20) /* names and filters; tensors have their own limit */

enum td_code td_request_init(struct td_request *r, struct td_err *err)
{
    memset(r, 0, sizeof *r);
    r->signature = "";
    r->id = "";
    r->arena = td_arena_new(ARENA_LIMIT);
    if (r->arena == NULL) {
        return td_no_memory(err, ARENA_LIMIT, "a request");
    }
    return TD_OK;
}

static void clear_all(struct td_named *t, int n)
{
    for (int i = 0; i < n; i++) {
        td_tensor_clear(&t[i].t);
    }
}

void td_request_fini(struct td_request *r)
{
    clear_all(r->in, r->n_in);
    clear_all(r->out, r->n_out);
    if (r->servable != NULL) {
        td_servable_unref(r->servable);
    }
    td_arena_free(r->arena);
    memset(r, 0, sizeof *r);
}

enum td_code td_request_resolve(struct td_request *r, struct td_registry *reg, struct td_err *err)
{
    if (r->sig != NULL) {
        return TD_OK;
    }
    if (r->servable == NULL) {
        TD_TRY(td_registry_find(reg, r->model, r->version, r->label, &r->servable, err));
    }
    r->sig = td_servable_signature(r->servable, r->signature);
    TD_FAIL_IF(r->sig == NULL, err, FAILED_PRECONDITION, "Serving signature key \"%s\" not found.",
               r->signature != NULL && *r->signature != '\0' ? r->signature : "serving_default");
    return TD_OK;
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The request's batch size: 1 where the signature has none. */
static int64_t rows_of(const struct td_request *r)
{
    return r->n_in > 0 && r->in[0].t.shape.rank > 0 && td_model_config_has_rows(r->sig)
               ? r->in[0].t.shape.dim[0]
               : 1;
}

/* A run of this request alone. */
static void count(const struct td_request *r, bool ok, int64_t ns)
{
    struct td_stats *s = td_servable_stats(r->servable);
    const struct td_times t = {.infer_ns = ns};
    const int64_t rows = rows_of(r);
    td_stats_request(s, ok, rows, ns, &t);
    if (ok) {
        td_metrics_runtime(td_metrics_model(td_servable_name(r->servable)), r->api, ns / 1000);
        td_metrics_graph_run(ns / 1000);
        td_stats_batch(s, rows, &t);
    }
}

enum td_code td_request_run(struct td_request *r, struct td_registry *reg, struct td_err *err)
{
    TD_TRY(td_request_resolve(r, reg, err));
    r->sig = td_servable_narrow(r->servable, r->sig, r->filter, r->n_filter);
    const int room = r->sig->n_out > r->n_filter ? r->sig->n_out : r->n_filter;
    struct td_named *out = td_arena_alloc(r->arena, (size_t)room + 1, sizeof *out);
    if (out == NULL) {
        return td_no_memory(err, (size_t)room * sizeof *out, "the outputs of a request");
    }
    const struct td_servable_call call = {
        .sig = r->sig,
        .in = r->in,
        .n_in = r->n_in,
        .filter = r->filter,
        .n_filter = r->n_filter,
        .strict_shapes = td_registry_options(reg)->strict_shapes,
        .check_method = td_registry_options(reg)->check_methods,
        .run = {.stop = r->client != NULL ? r->client : &r->stop, .deadline_ns = r->deadline_ns},
    };
    int n_out = 0;
    const int64_t from_ns = now_ns();
    const enum td_code rc = td_servable_run(r->servable, &call, out, &n_out, err);
    count(r, rc == TD_OK, now_ns() - from_ns);
    if (rc) {
        return rc;
    }
    clear_all(r->out, r->n_out);
    r->out = out;
    r->n_out = n_out;
    return TD_OK;
}
