/* server/debug/debug.c - options in, the document out; what a run shows is debug_trace.c's and
 * debug_store.c's.
 *
 *   eager      one run with a trace
 *   compare    a compiled run that fills a store, then an eager run whose trace compares with it
 *   placement  no run: td_placement_each reports each node
 *
 * Whether a compared signature has effects is read off its placement: a step whose op is stateful and not
 * among the readers listed here, or any reference input. It then runs on two copies of the version, so the
 * state that serves is untouched. Copies are let go before the answer leaves.
 *
 * A run that fails after its first node is an answer; before it, or when the client left or its time is over,
 * it is an error of the request. The document is written into one sink, in the order of debug.h, with the
 * lists that the trace has collected as text.
 *
 * One thread does all of it. Does not: route (server/http/rest_debug.c, server/grpc/grpc_debug.c) or limit
 * how many run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/debug/debug.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/function/placement.h"
#include "server/debug/debug_store.h"
#include "server/debug/debug_trace.h"

enum { MAX_GLOB = 256 };
#define ANSWER_LIMIT ((size_t)256 << 20)
#define MAX_LISTED 1000000

/* ------------------------------------------------------------------ options */

static enum td_code read_text(const struct td_json_body *b, const char *key, struct td_arena *a,
                              const char **out, struct td_err *err)
{
    struct td_json j;
    struct td_json_str s;
    *out = NULL;
    if (!td_json_body_find(b, key, &j)) {
        return TD_OK;
    }
    TD_FAIL_IF(td_json_peek(&j) != '"', err, INVALID_ARGUMENT, "debug: '%s' must be a string", key);
    TD_TRY(td_json_string(&j, &s, err));
    return td_json_text(&j, &s, a, out, err);
}

/* Which of the words (NULL-terminated) is given; *out stays when the key is not there. */
static enum td_code read_word(const struct td_json_body *b, const char *key, const char *const *words,
                              struct td_arena *a, int *out, struct td_err *err)
{
    const char *text;
    TD_TRY(read_text(b, key, a, &text, err));
    for (int i = 0; text != NULL && words[i] != NULL; i++) {
        if (strcmp(text, words[i]) == 0) {
            *out = i;
            return TD_OK;
        }
    }
    TD_FAIL_IF(text != NULL, err, INVALID_ARGUMENT,
               "debug: '%s' is \"%.100s\"; it must be \"%s\", \"%s\" or \"%s\"", key, text, words[0],
               words[1], words[2]);
    return TD_OK;
}

static enum td_code read_number(const struct td_json_body *b, const char *key, double *out,
                                struct td_err *err)
{
    struct td_json j;
    struct td_json_num n;
    if (!td_json_body_find(b, key, &j)) {
        return TD_OK;
    }
    TD_FAIL_IF(!td_json_at_number(&j), err, INVALID_ARGUMENT, "debug: '%s' must be a number", key);
    TD_TRY(td_json_number(&j, &n, err));
    *out = td_json_num_double(&n);
    TD_FAIL_IF(!(*out >= 0), err, INVALID_ARGUMENT, "debug: '%s' is %g, which is below 0", key, *out);
    return TD_OK;
}

static enum td_code read_flag(const struct td_json_body *b, const char *key, bool *out, struct td_err *err)
{
    struct td_json j;
    if (!td_json_body_find(b, key, &j)) {
        return TD_OK;
    }
    const char c = td_json_literal(&j);
    TD_FAIL_IF(c != 't' && c != 'f', err, INVALID_ARGUMENT, "debug: '%s' must be true or false", key);
    *out = c == 't';
    return TD_OK;
}

static enum td_code read_watch(const struct td_json_body *b, struct td_arena *a, struct td_debug_opts *o,
                               struct td_err *err)
{
    struct td_json j;
    if (!td_json_body_find(b, "watch", &j)) {
        return TD_OK;
    }
    TD_FAIL_IF(!td_json_eat(&j, '['), err, INVALID_ARGUMENT, "debug: 'watch' must be a list of strings");
    while (!td_json_eat(&j, ']')) {
        struct td_json_str s;
        TD_FAIL_IF(o->n_watch > 0 && !td_json_eat(&j, ','), err, INVALID_ARGUMENT,
                   "debug: 'watch' must be a list of strings");
        TD_FAIL_IF(td_json_peek(&j) != '"', err, INVALID_ARGUMENT,
                   "debug: 'watch' must be a list of strings");
        TD_TRY(td_json_string(&j, &s, err));
        TD_FAIL_IF(o->n_watch == TD_DEBUG_MAX_WATCH || s.len > MAX_GLOB, err, INVALID_ARGUMENT,
                   "debug: 'watch' may hold %d patterns of %d characters", TD_DEBUG_MAX_WATCH, MAX_GLOB);
        TD_TRY(td_json_text(&j, &s, a, &o->watch[o->n_watch], err));
        o->n_watch++;
    }
    return TD_OK;
}

static enum td_code read_gradient(const struct td_json_body *b, struct td_arena *a, struct td_debug_opts *o,
                                  struct td_err *err)
{
    struct td_json j;
    o->differentiates = td_json_body_find(b, "gradient", &j);
    if (!o->differentiates) {
        return TD_OK;
    }
    TD_FAIL_IF(!td_json_eat(&j, '{'), err, INVALID_ARGUMENT, "debug: 'gradient' must be an object");
    if (td_gradient_json_read(j, a, &o->gradient, err) || td_gradient_ask_read(&o->gradient, &o->ask, err)) {
        return td_err_wrap(err, "debug: 'gradient'");
    }
    return TD_OK;
}

static const char *const MODES[] = {"eager", "compare", "placement", NULL};
static const char *const VALUES[] = {"none", "summary", "full", NULL};

enum td_code td_debug_read(const struct td_json_body *body, struct td_arena *arena, struct td_debug_opts *out,
                           struct td_err *err)
{
    int mode = TD_DEBUG_EAGER, values = TD_VALUES_SUMMARY;
    double max_nodes = 1000;
    *out = (struct td_debug_opts){.rtol = 1e-4, .atol = 1e-5};
    TD_TRY(read_word(body, "mode", MODES, arena, &mode, err));
    TD_TRY(read_word(body, "values", VALUES, arena, &values, err));
    TD_TRY(read_number(body, "max_nodes", &max_nodes, err));
    TD_TRY(read_number(body, "rtol", &out->rtol, err));
    TD_TRY(read_number(body, "atol", &out->atol, err));
    TD_TRY(read_flag(body, "stop_on_nonfinite", &out->stop_on_nonfinite, err));
    TD_TRY(read_gradient(body, arena, out, err));
    out->mode = (enum td_debug_mode)mode;
    out->values = (enum td_debug_values)values;
    out->max_nodes = max_nodes > MAX_LISTED ? MAX_LISTED : (int64_t)max_nodes;
    return read_watch(body, arena, out, err);
}

/* ------------------------------------------------------------------ one run */

/* What came out of a run: outputs, or an error that happened inside it. */
struct result {
    struct td_named *out;
    int n_out;
    struct td_err error;
    struct td_gradient *gradient; /* counted: the outputs' names are its; NULL none */
};

static void result_fini(struct result *r)
{
    for (int i = 0; i < r->n_out; i++) {
        td_tensor_clear(&r->out[i].t);
    }
    td_free(r->out);
    td_gradient_unref(r->gradient);
}

/* What runs of s for the call: its signature, or that one's gradient (*g, counted; NULL none). */
static enum td_code find_signature(struct td_servable *s, const struct td_servable_call *call,
                                   const struct td_debug_opts *opts, struct td_gradient **g,
                                   const struct td_signature **out, struct td_err *err)
{
    *g = NULL;
    *out = td_servable_signature(s, call->sig->key);
    if (opts->differentiates) {
        TD_TRY(td_gradient_get(s, *out, &opts->ask, call->run, g, err));
        *out = td_gradient_signature(*g);
    }
    return TD_OK;
}

/* Fails only when no node was reached: then the request itself is wrong. */
static enum td_code run_signature(struct td_servable *s, const struct td_servable_call *call,
                                  struct td_trace *t, bool eager, struct result *r, struct td_err *err)
{
    struct td_servable_call mine = *call;
    struct td_run_opts watched = td_run_opts_given(call->run);
    const int room = call->sig->n_out > call->n_filter ? call->sig->n_out : call->n_filter;
    td_trace_attach(t, eager, &watched);
    mine.run = &watched;
    r->out = td_calloc((size_t)room + 1, sizeof *r->out);
    if (r->out == NULL) {
        return td_no_memory(err, (size_t)room, "outputs");
    }
    const enum td_code rc = td_servable_run(s, &mine, r->out, &r->n_out, &r->error);
    const bool client_left = t->client != NULL && atomic_load(t->client) != 0;
    if (rc && (t->n_run == 0 || client_left || rc == TD_DEADLINE_EXCEEDED)) {
        return td_fail(err, r->error.code, "%s", r->error.msg);
    }
    return TD_OK;
}

static enum td_code run_once(struct td_servable *s, const struct td_servable_call *call, struct td_trace *t,
                             bool eager, struct result *r, struct td_err *err)
{
    struct td_servable_call mine = *call;
    TD_TRY(find_signature(s, call, t->opts, &r->gradient, &mine.sig, err));
    return run_signature(s, &mine, t, eager, r, err);
}

/* ------------------------------------------------------------------ does it change anything */

/* Stateful as TensorFlow marks them, but without effect on later runs. */
static bool only_reads(const char *op)
{
    static const char *const readers[] = {"ReadVariableOp",
                                          "ResourceGather",
                                          "VarIsInitialized",
                                          "IsVariableInitialized",
                                          "LookupTableFind",
                                          "LookupTableSize",
                                          "LookupTableExport",
                                          "Assert",
                                          "Print",
                                          "StatefulPartitionedCall",
                                          "PartitionedCall",
                                          "If",
                                          "While",
                                          "Case",
                                          "Variable",
                                          "TensorArray",
                                          "HashTable",
                                          "StatelessIf",
                                          "_",
                                          NULL};
    for (int i = 0; readers[i] != NULL; i++) {
        if (strncmp(op, readers[i], strlen(readers[i])) == 0) {
            return true;
        }
    }
    return false;
}

static void note_effect(void *ctx, const struct td_placement *p)
{
    const struct td_op *op = p->node->op;
    const bool stateful = op != NULL && (op->flags & TD_OP_STATEFUL) != 0 && !(op->flags & TD_OP_HANDLE);
    bool ref = false;
    for (int i = 0; i < p->node->n_in; i++) {
        ref = ref || p->node->in_ref[i];
    }
    *(bool *)ctx =
        *(bool *)ctx || ref || (p->fate == TD_FATE_STEP && stateful && !only_reads(p->node->op_name));
}

/* ------------------------------------------------------------------ placement */

static enum td_code put_place(struct td_trace *t, const struct td_placement *p, struct td_err *err)
{
    static const char *const fates[] = {[TD_FATE_STEP] = "step",
                                        [TD_FATE_CONSTANT] = "constant",
                                        [TD_FATE_FED] = "fed",
                                        [TD_FATE_REMOVED] = "compiled away"};
    struct td_sink *s = &t->nodes;
    TD_TRY(td_debug_put(s, err, "%s\n  {", t->n_listed > 0 ? "," : ""));
    TD_TRY(td_trace_put_node(s, p->node, err));
    TD_TRY(td_debug_put(s, err, ", \"placed\": \"%s\", \"device\": ", fates[p->fate]));
    if (p->kernel != NULL) {
        TD_TRY(td_debug_put(s, err, "\"%s\", \"kernel\": \"%s\"", p->device, p->kernel));
    } else {
        TD_TRY(td_debug_put(s, err, "null, \"kernel\": null"));
    }
    TD_TRY(td_sink_put(s, ", \"why\": ", 9, err));
    TD_TRY(td_debug_put_text(s, p->why, strlen(p->why), err));
    TD_TRY(td_debug_put(s, err, ", \"outputs\": ["));
    for (int i = 0; i < p->node->n_out; i++) {
        TD_TRY(td_debug_put(s, err, "%s{\"dtype\": \"%s\"}", i > 0 ? ", " : "",
                            td_dtype_tf_name(p->node->out_type[i])));
    }
    return td_sink_put(s, "]}", 2, err);
}

static void on_place(void *ctx, const struct td_placement *p)
{
    struct td_trace *t = ctx;
    struct td_err ignored = {0};
    const size_t mark = t->nodes.n;
    t->n_run++;
    if (!td_trace_watched(t->opts, p->node)) {
        return;
    }
    if (t->n_listed < t->opts->max_nodes && put_place(t, p, &ignored) == TD_OK) {
        t->n_listed++;
    } else {
        t->nodes.n = mark;
        t->truncated = true;
    }
}

/* ------------------------------------------------------------------ the document */

struct document {
    struct td_servable *s;
    const struct td_servable_call *call;
    const struct td_signature *sig; /* what runs of s: the call's, or its gradient's */
    const struct td_debug_opts *opts;
    const struct td_trace *trace;
    const struct result *result, *compiled; /* NULL where there was no such run */
    const struct td_debug_store *store;
    const char *state;
};

static enum td_code put_error(struct td_sink *out, const char *key, const struct result *r, bool stopped,
                              struct td_err *err)
{
    TD_TRY(td_debug_put(out, err, ",\n \"%s\": ", key));
    if (r == NULL || r->error.code == TD_OK || stopped) {
        return td_debug_put(out, err, "null");
    }
    TD_TRY(td_debug_put(out, err, "{\"code\": \"%s\", \"message\": ", td_code_name(r->error.code)));
    TD_TRY(td_debug_put_text(out, r->error.msg, strlen(r->error.msg), err));
    return td_sink_put(out, "}", 1, err);
}

static enum td_code put_outputs(struct td_sink *out, const struct result *r, struct td_err *err)
{
    TD_TRY(td_debug_put(out, err, ",\n \"outputs\": "));
    if (r == NULL || r->error.code != TD_OK) {
        return td_debug_put(out, err, "null");
    }
    TD_TRY(td_sink_put(out, "{", 1, err));
    for (int i = 0; i < r->n_out; i++) {
        const size_t n = strlen(r->out[i].name);
        const bool b64 = n >= 6 && strcmp(r->out[i].name + n - 6, "_bytes") == 0;
        struct td_err why = {0};
        TD_TRY(i > 0 ? td_sink_put(out, ", ", 2, err) : TD_OK);
        TD_TRY(td_debug_put_text(out, r->out[i].name, n, err));
        TD_TRY(td_sink_put(out, ": ", 2, err));
        const size_t mark = out->n;
        const enum td_code rc = td_json_put_dims(out, &r->out[i].t, 0, 0, b64, &why);
        if (rc == TD_UNIMPLEMENTED) { /* a type without a JSON form */
            out->n = mark;
            TD_TRY(td_sink_put(out, "null", 4, err));
        } else if (rc) {
            return td_fail(err, rc, "%s", why.msg);
        }
    }
    return td_sink_put(out, "}", 1, err);
}

static enum td_code put_comparison(struct td_sink *out, const struct document *d, struct td_err *err)
{
    const struct td_debug_store *s = d->store;
    TD_TRY(td_debug_put(out, err, ",\n \"first_difference\": "));
    if (s == NULL) {
        return td_debug_put(out, err, "null");
    }
    TD_TRY(s->first_difference.n > 0 ? td_sink_put(out, s->first_difference.p, s->first_difference.n, err)
                                     : td_sink_put(out, "null", 4, err));
    TD_TRY(td_debug_put(
        out, err,
        ",\n \"rtol\": %.9g, \"atol\": %.9g, \"compiled_nodes\": %lld, \"compared_nodes\": %lld, "
        "\"all_kept\": %s, \"state\": \"%s\"",
        d->opts->rtol, d->opts->atol, (long long)s->n_kept, (long long)s->n_compared,
        s->full ? "false" : "true", d->state));
    return put_error(out, "compiled_error", d->compiled, false, err);
}

static enum td_code put_document(struct td_sink *out, const struct document *d, struct td_err *err)
{
    const struct td_trace *t = d->trace;
    const char *name = td_servable_name(d->s);
    out->limit = ANSWER_LIMIT;
    TD_TRY(td_debug_put(out, err, "{\"mode\": \"%s\", \"model\": ", MODES[d->opts->mode]));
    TD_TRY(td_debug_put_text(out, name, strlen(name), err));
    TD_TRY(td_debug_put(
        out, err, ", \"version\": \"%lld\", \"signature_name\": ", (long long)td_servable_version(d->s)));
    TD_TRY(td_debug_put_text(out, d->call->sig->key, strlen(d->call->sig->key), err));
    TD_TRY(put_outputs(out, d->result, err));
    TD_TRY(put_error(out, "error", d->result, t->stopped[0] != '\0', err));
    TD_TRY(td_debug_put(out, err, ",\n \"stopped\": "));
    TD_TRY(t->stopped[0] != '\0' ? td_debug_put_text(out, t->stopped, strlen(t->stopped), err)
                                 : td_sink_put(out, "null", 4, err));
    TD_TRY(put_comparison(out, d, err));
    TD_TRY(td_debug_put(out, err, ",\n \"prints\": ["));
    TD_TRY(td_sink_put(out, t->prints.p == NULL ? "" : t->prints.p, t->prints.n, err));
    TD_TRY(td_debug_put(out, err, "],\n \"nodes_run\": %lld, \"truncated\": %s,\n \"nodes\": [",
                        d->opts->mode == TD_DEBUG_PLACEMENT ? 0 : (long long)t->n_run,
                        t->truncated ? "true" : "false"));
    TD_TRY(td_sink_put(out, t->nodes.p == NULL ? "" : t->nodes.p, t->nodes.n, err));
    return td_sink_put(out, "]}\n", 3, err);
}

/* ------------------------------------------------------------------ modes */

static enum td_code eager(struct document *d, struct td_trace *t, struct td_sink *out, struct td_err *err)
{
    struct result r = {0};
    d->result = &r;
    enum td_code rc = run_once(d->s, d->call, t, true, &r, err);
    rc = rc ? rc : put_document(out, d, err);
    result_fini(&r);
    return rc;
}

static enum td_code placement(struct document *d, struct td_trace *t, struct td_sink *out, struct td_err *err)
{
    struct td_callable *f = td_servable_callable(d->s, d->sig);
    TD_FAIL_IF(f == NULL, err, INVALID_ARGUMENT, "signature '%s' has no graph that can be placed",
               d->call->sig->key);
    TD_TRY(td_placement_each(f, on_place, t, err));
    return put_document(out, d, err);
}

/* The compiled run, then the eager one. a and b are the instances they run on. */
static enum td_code compare_on(struct document *d, struct td_servable *a, struct td_servable *b,
                               struct td_trace *t, struct td_sink *out, struct td_err *err)
{
    struct td_debug_store store;
    struct td_trace first;
    struct result compiled = {0}, r = {0};
    TD_TRY(td_store_init(&store, d->opts, err));
    td_trace_init(&first, d->opts, t->client);
    first.record = &store;
    t->against = &store;
    enum td_code rc = run_once(a, d->call, &first, false, &compiled, err);
    rc = rc ? rc : run_once(b, d->call, t, true, &r, err);
    d->result = &r;
    d->compiled = &compiled;
    d->store = &store;
    rc = rc ? rc : put_document(out, d, err);
    result_fini(&compiled);
    result_fini(&r);
    td_trace_fini(&first);
    td_store_fini(&store);
    return rc;
}

static enum td_code compare(struct document *d, struct td_trace *t, struct td_sink *out, struct td_err *err)
{
    bool effects = false;
    struct td_callable *f = td_servable_callable(d->s, d->sig);
    struct td_servable *a = NULL, *b = NULL;
    if (f != NULL) {
        TD_TRY(td_placement_each(f, note_effect, &effects, err));
    }
    d->state = effects ? "copies" : "shared";
    if (!effects) {
        return compare_on(d, d->s, d->s, t, out, err);
    }
    enum td_code rc = td_servable_copy(d->s, &a, err);
    rc = rc ? rc : td_servable_copy(d->s, &b, err);
    rc = rc ? td_err_wrap(err, "comparing on copies of the model's state") : compare_on(d, a, b, t, out, err);
    td_servable_unref(a);
    td_servable_unref(b);
    return rc;
}

static enum td_code run_mode(struct document *d, struct td_trace *t, struct td_sink *out, struct td_err *err)
{
    return d->opts->mode == TD_DEBUG_PLACEMENT ? placement(d, t, out, err)
           : d->opts->mode == TD_DEBUG_COMPARE ? compare(d, t, out, err)
                                               : eager(d, t, out, err);
}

/* What the gradient takes besides the call's inputs, which are copied to mine; *n counts all. */
static enum td_code gather(struct document *d, const struct td_gradient *g, struct td_arena *arena,
                           struct td_named *in, int *n, struct td_err *err)
{
    for (*n = 0; *n < d->call->n_in; ++*n) {
        in[*n] = d->call->in[*n];
    }
    return td_gradient_json_inputs(g, d->s, &d->opts->gradient, arena, in, n, err);
}

/* The gradient of the call's signature, in its place. */
static enum td_code run_gradient(struct document *d, struct td_trace *t, struct td_sink *out,
                                 struct td_err *err)
{
    const struct td_servable_call *call = d->call;
    const struct td_gradient_ask *ask = &d->opts->ask;
    struct td_servable_call mine = *call;
    struct td_arena *arena = td_arena_new((size_t)16 << 20);
    struct td_named *in = td_calloc((size_t)(call->n_in + ask->n_seeded + ask->n_vectors) + 1, sizeof *in);
    struct td_gradient *g = NULL;
    int n = 0;
    enum td_code rc = arena != NULL && in != NULL ? TD_OK : td_no_memory(err, 1, "a gradient");
    rc = rc ? rc : find_signature(d->s, call, d->opts, &g, &d->sig, err);
    rc = rc || d->opts->mode == TD_DEBUG_PLACEMENT ? rc : gather(d, g, arena, in, &n, err);
    mine.in = in;
    mine.n_in = n;
    mine.n_filter = 0;
    d->call = &mine;
    rc = rc ? rc : run_mode(d, t, out, err);
    for (int i = call->n_in; i < n; i++) {
        td_tensor_clear(&in[i].t);
    }
    td_gradient_unref(g);
    td_free(in);
    td_arena_free(arena);
    return rc;
}

enum td_code td_debug_run(struct td_servable *s, const struct td_servable_call *call,
                          const struct td_debug_opts *opts, struct td_sink *out, struct td_err *err)
{
    struct td_trace t;
    td_trace_init(&t, opts, call->run != NULL ? call->run->work.stop : NULL);
    struct document d = {.s = s, .call = call, .sig = call->sig, .opts = opts, .trace = &t};
    const enum td_code rc =
        opts->differentiates ? run_gradient(&d, &t, out, err) : run_mode(&d, &t, out, err);
    td_trace_fini(&t);
    return rc;
}
