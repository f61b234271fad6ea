/* server/debug/debug_trace.c - the hooks that a run calls: after each node, and at each print.
 *
 * Every node is counted; it is then kept, or compared, and listed when a watch pattern takes it. Listed nodes
 * are written as JSON at once, for their tensors are gone when the hook returns. A node that does not fit
 * below the limit is taken out again as a whole, and `truncated` says so.
 *
 * The run gets a stop word of the trace's own, so that a value that is not finite can end it; the client's
 * word is passed on to it after each node. Patterns match the full name, the name within its function, and,
 * where they have a colon, name:port; matching takes at most pattern times text steps.
 *
 * Does not: choose which run is traced (server/debug/debug.c), format values (server/debug/debug_value.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/debug/debug_trace.h"

#include <stdio.h>
#include <string.h>

#include "core/graph/graph.h"
#include "server/base/glob.h"
#include "server/debug/debug_store.h"

enum { MAX_PRINTS = 1000 };
#define NODES_LIMIT ((size_t)64 << 20)
#define PRINTS_LIMIT ((size_t)1 << 20)

void td_trace_init(struct td_trace *t, const struct td_debug_opts *opts, td_stop *client)
{
    *t = (struct td_trace){
        .opts = opts, .client = client, .nodes = {.limit = NODES_LIMIT}, .prints = {.limit = PRINTS_LIMIT}};
}

void td_trace_fini(struct td_trace *t)
{
    td_sink_fini(&t->nodes);
    td_sink_fini(&t->prints);
}

/* ------------------------------------------------------------------ names */

/* The name a node has in its function's body, without the calls around it. */
static const char *name_of(const struct td_node *n)
{
    const size_t path = n->path == NULL ? 0 : strlen(n->path);
    return strncmp(n->name, n->path == NULL ? "" : n->path, path) == 0 ? n->name + path : n->name;
}

bool td_trace_watched(const struct td_debug_opts *opts, const struct td_node *n)
{
    bool yes = opts->n_watch == 0;
    for (int i = 0; !yes && i < opts->n_watch; i++) {
        yes = td_glob(opts->watch[i], n->name) || td_glob(opts->watch[i], name_of(n));
        for (int port = 0; !yes && strchr(opts->watch[i], ':') != NULL && port < n->n_out; port++) {
            char text[1100];
            (void)snprintf(text, sizeof text, "%.1000s:%d", name_of(n), port);
            yes = td_glob(opts->watch[i], text);
        }
    }
    return yes;
}

static enum td_code put_pair(struct td_sink *s, const char *key, const char *text, size_t n,
                             struct td_err *err)
{
    TD_TRY(td_debug_put(s, err, "\"%s\": ", key));
    return td_debug_put_text(s, text, n, err);
}

enum td_code td_trace_put_node(struct td_sink *s, const struct td_node *n, struct td_err *err)
{
    const char *name = name_of(n);
    TD_TRY(put_pair(s, "name", name, strlen(name), err));
    TD_TRY(td_sink_put(s, ", ", 2, err));
    TD_TRY(put_pair(s, "op", n->op_name, strlen(n->op_name), err));
    TD_TRY(td_sink_put(s, ", ", 2, err));
    TD_TRY(put_pair(s, "function", n->function == NULL ? "" : n->function,
                    n->function == NULL ? 0 : strlen(n->function), err));
    if (name == n->name) {
        return TD_OK;
    }
    TD_TRY(td_sink_put(s, ", ", 2, err));
    return put_pair(s, "path", n->name, (size_t)(name - n->name), err);
}

/* ------------------------------------------------------------------ a node has run */

struct seen {
    const struct td_node *node;
    const struct td_tensor *out;
    int n_out;
    int64_t ns;
    const char *kernel, *device;
    double max_abs; /* from the other run; -1 not compared */
};

static enum td_code put_outputs(struct td_trace *t, const struct seen *n, struct td_err *err)
{
    for (int i = 0; i < n->n_out; i++) {
        TD_TRY(i > 0 ? td_sink_put(&t->nodes, ", ", 2, err) : TD_OK);
        TD_TRY(td_debug_put_value(&t->nodes, &n->out[i], t->opts->values, err));
        TD_TRY(td_sink_put(&t->nodes, "}", 1, err));
    }
    return TD_OK;
}

static enum td_code list(struct td_trace *t, const struct seen *n, struct td_err *err)
{
    struct td_sink *s = &t->nodes;
    TD_TRY(td_debug_put(s, err, "%s\n  {", t->n_listed > 0 ? "," : ""));
    TD_TRY(td_trace_put_node(s, n->node, err));
    TD_TRY(td_debug_put(s, err, ", \"device\": \"%s\", \"kernel\": ", n->device));
    TD_TRY(td_debug_put_text(s, n->kernel, strlen(n->kernel), err));
    TD_TRY(td_debug_put(s, err, ", \"us\": %.3f", (double)n->ns / 1000.0));
    if (t->against != NULL) {
        TD_TRY(td_debug_put(s, err, ", \"compared\": %s", n->max_abs < 0 ? "false" : "true"));
        TD_TRY(n->max_abs < 0 ? TD_OK : td_debug_put(s, err, ", \"max_abs_difference\": %.9g", n->max_abs));
    }
    TD_TRY(td_debug_put(s, err, ", \"outputs\": ["));
    TD_TRY(put_outputs(t, n, err));
    return td_sink_put(s, "]}", 2, err);
}

static void stop_at_nonfinite(struct td_trace *t, const struct seen *n)
{
    for (int i = 0; i < n->n_out && t->stopped[0] == '\0'; i++) {
        struct td_debug_stat stat = {0};
        if (n->out[i].dtype != TD_DTYPE_NONE) {
            td_debug_stat(&n->out[i], &stat);
        }
        if (stat.nan + stat.inf > 0) {
            (void)snprintf(t->stopped, sizeof t->stopped,
                           "%s: output %d has %lld NaN and %lld infinite elements of %lld",
                           TD_NODE_STR(n->node), i, (long long)stat.nan, (long long)stat.inf,
                           (long long)td_tensor_count(&n->out[i]));
            atomic_store(&t->stop, TD_CANCELLED);
        }
    }
}

static void on_node(void *ctx, const struct td_observed *o)
{
    struct td_trace *t = ctx;
    struct seen n = {o->node, o->out, o->n_out, o->ns, o->kernel, o->device, -1};
    struct td_err ignored = {0};
    t->n_run++;
    if (t->record != NULL) {
        td_store_keep(t->record, o->node, o->out, o->n_out, o->kernel);
        return;
    }
    if (t->against != NULL) {
        td_store_compare(t->against, o->node, o->out, o->n_out, o->kernel, &n.max_abs);
    }
    const size_t mark = t->nodes.n;
    const bool wanted = td_trace_watched(t->opts, o->node);
    if (wanted && t->n_listed < t->opts->max_nodes && list(t, &n, &ignored) == TD_OK) {
        t->n_listed++;
    } else if (wanted) {
        t->nodes.n = mark;
        t->truncated = true;
    }
    if (t->opts->stop_on_nonfinite) {
        stop_at_nonfinite(t, &n);
    }
    const int client = t->client == NULL ? 0 : atomic_load(t->client);
    if (client != 0) {
        atomic_store(&t->stop, client);
    }
}

static void on_print(void *ctx, const char *text, size_t len)
{
    struct td_trace *t = ctx;
    struct td_err ignored = {0};
    const size_t mark = t->prints.n;
    if (t->record != NULL) {
        return; /* the compiled run of a comparison prints the same */
    }
    if (t->n_prints < MAX_PRINTS &&
        (t->n_prints == 0 || td_sink_put(&t->prints, ", ", 2, &ignored) == TD_OK) &&
        td_debug_put_text(&t->prints, text, len, &ignored) == TD_OK) {
        t->n_prints++;
    } else {
        t->prints.n = mark;
        t->truncated = true;
    }
}

void td_trace_attach(struct td_trace *t, bool eager, struct td_run_opts *run)
{
    run->work.stop = &t->stop;
    run->eager = eager;
    run->observe = on_node;
    run->print = on_print;
    run->ctx = t;
}
