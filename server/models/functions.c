/* server/models/functions.c - a jansson tree, built from what each callable says of itself.
 *
 * For each public signature (keys with "__" are internal) there are its declaration as text, counts, and one
 * element for each concrete function, which td_callable_each calls back for under the callable's lock. A
 * signature without a callable has empty lists. json_pack takes the parts over, and is NULL as a whole when
 * one of them is.
 *
 * Does not: compile anything; a signature that was never called shows no concrete function.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/functions.h"

#include <stdio.h>
#include <string.h>

#include "server/base/rest_json.h"
#include "server/models/gradient.h"

/* "float32[?,784]" */
static size_t put_type(char *to, size_t room, enum td_dtype dtype, const struct td_shape *shape)
{
    const char *name = dtype == TD_FLOAT    ? "float32"
                       : dtype == TD_DOUBLE ? "float64"
                       : dtype == TD_HALF   ? "float16"
                                            : td_dtype_name(dtype);
    const int n = snprintf(to, room, "%s%s", name, shape->rank < 0 ? "<unknown>" : TD_SHAPE_STR(shape));
    return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static size_t put_args(char *to, size_t room, const struct td_tensor_info *info, int n)
{
    size_t at = 0;
    for (int i = 0; i < n && at + 1 < room; i++) {
        const int w = snprintf(to + at, room - at, "%s%s: ", i > 0 ? ", " : "", info[i].key);
        at += w < 0 ? 0 : (size_t)w < room - at ? (size_t)w : room - at - 1;
        at += put_type(to + at, room - at, info[i].dtype, &info[i].shape);
    }
    return at;
}

/* "serving_default(x: float32[?,784]) -> (y: float32[?,10])" */
static json_t *signature_json(const struct td_signature *sig)
{
    char text[8192];
    size_t at = (size_t)snprintf(text, sizeof text / 2, "%s(", sig->key);
    at = at < sizeof text / 2 ? at : sizeof text / 2 - 1;
    at += put_args(text + at, sizeof text - at - 16, sig->in, sig->n_in);
    at += (size_t)snprintf(text + at, sizeof text - at, ") -> (");
    at += put_args(text + at, sizeof text - at - 2, sig->out, sig->n_out);
    (void)snprintf(text + at, sizeof text - at, ")");
    return td_rest_json_text(text);
}

struct concrete_ctx {
    const struct td_signature *sig;
    json_t *list;
};

static void add_concrete(void *ctx, const struct td_concrete_stat *c)
{
    const struct concrete_ctx *to = ctx;
    json_t *inputs = json_object(), *kernels = json_object();
    json_t *devices = json_pack("{s:i}", "cpu", c->plan_steps - c->device_steps);
    for (int i = 0; i < c->n_in && i < to->sig->n_in; i++) {
        json_t *dims = json_array();
        for (int k = 0; k < c->shape[i].rank; k++) {
            (void)json_array_append_new(dims, td_rest_json_int64(c->shape[i].dim[k]));
        }
        (void)json_object_set_new(
            inputs, to->sig->in[i].key,
            json_pack("{s:s, s:o}", "dtype", td_dtype_tf_name(c->dtype[i]), "shape", dims));
    }
    for (int i = 0; i < c->n_kernels; i++) {
        (void)json_object_set_new(kernels, c->kernels[i].kernel, json_integer(c->kernels[i].count));
    }
    if (c->device_name != NULL) {
        (void)json_object_set_new(devices, c->device_name, json_integer(c->device_steps));
    }
    (void)json_array_append_new(
        to->list, json_pack("{s:o, s:o, s:f, s:I, s:i, s:i, s:i, s:o, s:o}", "inputs", inputs, "calls",
                            td_rest_json_int64((int64_t)c->calls), "trace_ms", c->trace_ms, "bytes",
                            (json_int_t)c->bytes, "graph_nodes", c->graph_nodes, "plan_steps", c->plan_steps,
                            "parallel_regions", c->regions, "devices", devices, "kernels", kernels));
}

static json_t *missing_json(struct td_callable *f)
{
    struct td_missing rows[64];
    const int found = td_callable_missing(f, rows, 64), n = found < 64 ? found : 64;
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        bool twice = false;
        for (int k = 0; k < i; k++) {
            twice = twice || strcmp(rows[k].op, rows[i].op) == 0;
        }
        if (!twice) {
            (void)json_array_append_new(list, td_rest_json_text(rows[i].op));
        }
    }
    return list;
}

/* What f has compiled, as the members of an object. */
/* Of all replicas: each has concrete functions of its own. */
static json_t *compiled_json(struct td_servable *s, const struct td_signature *sig)
{
    struct td_callable_stat sum = {0};
    struct concrete_ctx ctx = {sig, json_array()};
    struct td_callable *f;
    for (int i = 0; (f = td_servable_callable_on(s, sig, i)) != NULL; i++) {
        struct td_callable_stat stat = {0};
        td_callable_stats(f, &stat);
        td_callable_each(f, add_concrete, &ctx);
        sum.traces += stat.traces;
        sum.evictions += stat.evictions;
    }
    return json_pack("{s:o, s:I, s:I, s:o}", "signature", signature_json(sig), "traces",
                     (json_int_t)sum.traces, "evictions", (json_int_t)sum.evictions, "concrete", ctx.list);
}

static json_t *names_json(const char *const *names, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        (void)json_array_append_new(list, td_rest_json_text(names[i]));
    }
    return list;
}

struct gradients_ctx {
    struct td_servable *s;
    json_t *list;
};

static void add_gradient(void *ctx, const struct td_gradient_stat *g)
{
    const struct gradients_ctx *to = ctx;
    const struct td_gradient_ask *ask = g->ask;
    json_t *o = compiled_json(to->s, g->sig);
    json_t *asked =
        json_pack("{s:s, s:o, s:o, s:b, s:I}", "kind", td_gradient_kind_name(ask->kind), "target",
                  names_json(ask->targets, ask->n_targets), "wrt", names_json(ask->wrt, ask->n_wrt),
                  "recompute", (int)ask->recompute, "bytes", (json_int_t)g->bytes);
    (void)json_object_update_missing(o, asked);
    json_decref(asked);
    (void)json_array_append_new(to->list, o);
}

static json_t *function_json(struct td_servable *s, const struct td_signature *sig)
{
    struct td_callable *f = td_servable_callable(s, sig);
    struct gradients_ctx gradients = {s, json_array()};
    json_t *o = compiled_json(s, sig);
    td_gradient_each(s, sig, add_gradient, &gradients);
    json_t *named = json_pack("{s:o, s:o, s:o, s:o}", "name", td_rest_json_text(sig->key), "method",
                              td_rest_json_text(sig->method), "unsupported_ops",
                              f != NULL ? missing_json(f) : json_array(), "gradients", gradients.list);
    (void)json_object_update_missing(named, o);
    json_decref(o);
    return named;
}

json_t *td_functions_json(struct td_servable *s)
{
    const struct td_saved_model *m = td_servable_model(s);
    json_t *list = json_array();
    for (int i = 0; i < m->n_signatures; i++) {
        if (strncmp(m->signatures[i].key, "__", 2) != 0) {
            (void)json_array_append_new(list, function_json(s, &m->signatures[i]));
        }
    }
    return json_pack("{s:o}", "functions", list);
}
