/* server/models/inspect.c - walks a loaded version, or a checkpoint's index, into a jansson document.
 *
 * Signatures come with the ops that keep them from being called (td_callable_missing); ops are counted over
 * the graph and all functions' bodies, each body once. What can be differentiated by what is read off the
 * graph (core/grad/inspect.h). A checkpoint is opened for its index only: rows are
 * names, dtypes, shapes and stored sizes, and no tensor is read. The text is made at the end and the tree
 * freed.
 *
 * Does not: run, compile or differentiate anything, describe what a file holds beyond what was loaded.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/inspect.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/function/callable_impl.h"
#include "core/grad/inspect.h"
#include "core/run/variable.h"
#include "proto/checkpoint/bundle.h"

enum { MAX_MISSING = 256, MAX_OUTPUTS = 64, MAX_INPUTS = 64 };

static json_t *shape_json(const struct td_shape *s)
{
    if (s->rank < 0) {
        return json_null();
    }
    json_t *list = json_array();
    for (int i = 0; i < s->rank; i++) {
        json_array_append_new(list, json_integer(s->dim[i]));
    }
    return list;
}

static json_t *infos_json(const struct td_tensor_info *infos, int n)
{
    json_t *all = json_object();
    for (int i = 0; i < n; i++) {
        json_t *row = json_object();
        json_object_set_new(row, "dtype", json_string(td_dtype_tf_name(infos[i].dtype)));
        json_object_set_new(row, "shape", shape_json(&infos[i].shape));
        json_object_set_new(row, "name", json_string(infos[i].tensor));
        json_object_set_new(all, infos[i].key, row);
    }
    return all;
}

static json_t *missing_json(struct td_callable *f)
{
    struct td_missing rows[MAX_MISSING];
    json_t *list = json_array();
    int n = f == NULL ? 0 : td_callable_missing(f, rows, MAX_MISSING);
    for (int i = 0; i < n && i < MAX_MISSING; i++) {
        json_t *row = json_object();
        json_object_set_new(row, "node", json_string(rows[i].node));
        json_object_set_new(row, "op", json_string(rows[i].op));
        json_object_set_new(row, "function", json_string(rows[i].function));
        json_object_set_new(row, "why", json_string(rows[i].why == NULL ? "" : rows[i].why));
        json_array_append_new(list, row);
    }
    return list;
}

/* The inputs from which the way is like that. */
static json_t *inputs_json(const struct td_signature *sig, const struct td_grad_ways *ways,
                           enum td_grad_way way)
{
    json_t *list = json_array();
    for (int i = 0; i < sig->n_in && json_array_size(list) < MAX_INPUTS; i++) {
        if (ways->feed[i] == way) {
            json_array_append_new(list, json_string(sig->in[i].key));
        }
    }
    return list;
}

static void set_ways(json_t *row, const struct td_signature *sig, const struct td_grad_ways *ways)
{
    json_t *inputs = inputs_json(sig, ways, TD_WAY_OPEN), *blocked = inputs_json(sig, ways, TD_WAY_BLOCKED);
    const bool any = json_array_size(inputs) > 0 || ways->open > 0;
    json_object_set_new(row, "differentiable", json_boolean(any));
    if (any) {
        json_object_set_new(row, "inputs", inputs);
        json_object_set_new(row, "variables", json_integer(ways->open));
    } else {
        json_decref(inputs);
    }
    if (ways->why[0] != 0) {
        json_object_set_new(row, "blocked_inputs", blocked);
        json_object_set_new(row, "blocked_variables", json_integer(ways->blocked));
        json_object_set_new(row, "why", json_string(ways->why));
    } else {
        json_decref(blocked);
        if (!any) {
            json_object_set_new(
                row, "why",
                json_string("nothing leads to it from an input or variable of a floating-point dtype"));
        }
    }
}

static json_t *not_json(const char *why)
{
    return json_pack("{s:b,s:s}", "differentiable", 0, "why", why);
}

/* By output, and none that cannot be called: its unsupported ops say why. */
static json_t *gradients_json(struct td_servable *s, const struct td_signature *sig)
{
    struct td_callable *f = td_servable_callable(s, sig);
    json_t *all = json_object();
    struct td_callable_opts part;
    struct td_grad_inspection *x = NULL;
    struct td_err err = {0};
    if (f == NULL || td_callable_missing(f, NULL, 0) > 0) {
        return all;
    }
    td_callable_graph(f, &part);
    const enum td_code rc = td_grad_inspect(td_servable_engine(s), &part, &x, &err);
    for (int i = 0; i < sig->n_out && i < part.n_fetches && i < MAX_OUTPUTS; i++) {
        struct td_grad_ways ways;
        struct td_err own = {0};
        if (rc || td_grad_inspect_fetch(x, i, &ways, &own)) {
            json_object_set_new(all, sig->out[i].key, not_json(rc ? err.msg : own.msg));
            continue;
        }
        json_t *row = json_object();
        set_ways(row, sig, &ways);
        json_object_set_new(all, sig->out[i].key, row);
    }
    td_grad_inspection_free(x);
    return all;
}

static json_t *signatures_json(struct td_servable *s)
{
    const struct td_saved_model *m = td_servable_model(s);
    json_t *all = json_object();
    for (int i = 0; i < m->n_signatures; i++) {
        const struct td_signature *sig = &m->signatures[i];
        json_t *row = json_object();
        json_object_set_new(row, "method", json_string(sig->method));
        json_object_set_new(row, "inputs", infos_json(sig->in, sig->n_in));
        json_object_set_new(row, "outputs", infos_json(sig->out, sig->n_out));
        json_object_set_new(row, "unsupported_ops", missing_json(td_servable_callable(s, sig)));
        json_object_set_new(row, "gradients", gradients_json(s, sig));
        json_object_set_new(all, sig->key, row);
    }
    return all;
}

static void count_ops(json_t *ops, const struct td_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const char *op = g->nodes[i]->op_name;
        json_int_t n = json_integer_value(json_object_get(ops, op));
        json_object_set_new(ops, op, json_integer(n + 1));
    }
}

char *td_inspect_model_json(struct td_servable *s)
{
    const struct td_saved_model *m = td_servable_model(s);
    const struct td_library *lib = td_model_library(td_servable_engine(s));
    json_t *doc = json_object(), *ops = json_object(), *tags = json_array();
    for (int i = 0; i < m->n_tags; i++) {
        json_array_append_new(tags, json_string(m->tags[i]));
    }
    count_ops(ops, td_model_graph(td_servable_engine(s)));
    for (int i = 0; i < lib->n_functions; i++) {
        count_ops(ops, &lib->functions[i]->body);
    }
    json_object_set_new(doc, "directory", json_string(td_servable_dir(s)));
    json_object_set_new(doc, "tensorflow_version", json_string(m->tf_version == NULL ? "" : m->tf_version));
    json_object_set_new(doc, "tags", tags);
    json_object_set_new(doc, "signatures", signatures_json(s));
    json_object_set_new(doc, "functions", json_integer(lib->n_functions));
    json_object_set_new(doc, "variable_bytes",
                        json_integer((json_int_t)td_variable_total_bytes(td_servable_engine(s))));
    json_object_set_new(doc, "ops", ops);
    char *text = json_dumps(doc, JSON_INDENT(1));
    json_decref(doc);
    return text;
}

enum td_code td_inspect_checkpoint_json(const char *dir, char **out, struct td_err *err)
{
    char path[4096];
    struct td_bundle *b;
    snprintf(path, sizeof path, "%s/variables/variables", dir);
    if (td_bundle_open(path, &b, &(struct td_err){0}) != TD_OK) {
        TD_TRY(td_bundle_open(dir, &b, err));
    }
    json_t *doc = json_object(), *rows = json_array();
    const char *name;
    enum td_dtype dtype;
    struct td_shape shape;
    uint64_t bytes, total = 0;
    for (int i = 0; td_bundle_entry(b, i, &name, &dtype, &shape, &bytes); i++) {
        json_t *row = json_object();
        json_object_set_new(row, "name", json_string(name));
        json_object_set_new(row, "dtype", json_string(td_dtype_tf_name(dtype)));
        json_object_set_new(row, "shape", shape_json(&shape));
        json_object_set_new(row, "bytes", json_integer((json_int_t)bytes));
        json_array_append_new(rows, row);
        total += bytes;
    }
    td_bundle_close(b);
    json_object_set_new(doc, "tensors", rows);
    json_object_set_new(doc, "bytes", json_integer((json_int_t)total));
    *out = json_dumps(doc, JSON_INDENT(1));
    json_decref(doc);
    return *out == NULL ? td_no_memory(err, 1, "document") : TD_OK;
}
