/* server/embed.c - the C API over servables: plain structs in, plain structs out.
 *
 * Inputs are wrapped without a copy (strings are copied into string elements), in tensors that own no buffer:
 * whatever outlives the call - an output that is an input, a variable assigned one - copies those bytes.
 * Outputs are handed over with the buffer that holds them in `owner`, strings with an array of pointers
 * beside it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/tensord.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/ops.h"
#include "server/debug/debug.h"
#include "server/embed.h"
#include "server/embed_pool.h"
#include "server/models/devices_json.h"
#include "server/models/inspect.h"
#include "server/op_library.h"
#include "server/op_list.h"
#include "server/models/gradient.h"
#include "server/models/servable_run.h"

const struct td_device *td_embed_device;
enum td_code (*td_embed_module)(struct td_engine *e, struct td_err *err);

struct tensord_model {
    struct td_engine engine;
    struct td_op_libraries *libraries;
    struct td_devices *devices;
    struct td_servable *servable;
    struct td_embed_pool *pool;
    struct td_run_opts run; /* of every call */
};

static int report(const struct td_err *from, tensord_error *to)
{
    if (to != NULL) {
        to->code = (int)from->code;
        snprintf(to->message, sizeof to->message, "%s", from->msg);
    }
    return (int)from->code;
}

static enum td_kernel_choice kernels_named(const char *name)
{
    if (name != NULL && strcmp(name, "reference") == 0) {
        return TD_KERNELS_REFERENCE;
    }
    return name != NULL && strcmp(name, "openblas") == 0 ? TD_KERNELS_OPENBLAS : TD_KERNELS_FAST;
}

static enum td_code load(tensord_model *m, const char *dir, const tensord_options *opts, struct td_err *err)
{
    TD_TRY(td_engine_init(&m->engine, td_op_families, err));
    if (td_embed_module != NULL) {
        TD_TRY(td_embed_module(&m->engine, err));
    }
    struct td_devices_opts devices = {
        .devices = opts->devices,
        .module = opts->device_module,
        .device = {.pinned = TD_DEVICES_PINNED, .graph_run = TD_DEVICES_GRAPH_RUN},
        .most = 1};
    TD_TRY(td_devices_options(opts->device_options, &devices.device, err));
    TD_TRY(td_devices_open(&devices, &m->engine, &m->devices, err));
    TD_TRY(td_op_libraries_open(opts->op_library, &m->engine, &m->libraries, err));
    if (opts->threads > 1) {
        TD_TRY(td_embed_pool_new(opts->threads, &m->pool, err));
    }
    m->run.pool = td_embed_pool_of(m->pool);
    const struct td_servable_opts o = {.ops = m->engine.ops,
                                       .pool = m->run.pool,
                                       .tags = opts->tags,
                                       .state_dir = opts->scratch_dir,
                                       .kernels = kernels_named(opts->kernels),
                                       .passes_off = opts->passes_off,
                                       .devices = td_embed_device != NULL
                                                      ? (struct td_devices_list){{td_embed_device}, 1}
                                                      : td_devices_opened(m->devices)};
    return td_servable_load("model", 1, dir, &o, &m->servable, err);
}

int tensord_load(const char *dir, const tensord_options *opts, tensord_model **out, tensord_error *error)
{
    static const tensord_options none = {0};
    struct td_err err = {0};
    opts = opts == NULL ? &none : opts;
    tensord_model *m = td_calloc(1, sizeof *m);
    if (m == NULL) {
        td_no_memory(&err, sizeof *m, "model");
        return report(&err, error);
    }
    if (load(m, dir, opts, &err)) {
        tensord_free(m);
        return report(&err, error);
    }
    *out = m;
    return 0;
}

void tensord_free(tensord_model *m)
{
    if (m != NULL) {
        td_servable_unref(m->servable);
        td_engine_fini(&m->engine);
        td_embed_pool_free(m->pool);
        td_op_libraries_close(m->libraries);
        td_devices_close(m->devices);
        td_free(m);
    }
}

int tensord_signature_count(const tensord_model *m)
{
    return td_servable_model(m->servable)->n_signatures;
}

static const struct td_signature *signature_at(const tensord_model *m, int i)
{
    const struct td_saved_model *s = td_servable_model(m->servable);
    return i < 0 || i >= s->n_signatures ? NULL : &s->signatures[i];
}

const char *tensord_signature_name(const tensord_model *m, int i)
{
    const struct td_signature *s = signature_at(m, i);
    return s == NULL ? NULL : s->key;
}

const char *tensord_signature_method(const tensord_model *m, const char *signature)
{
    const struct td_signature *s = td_servable_signature(m->servable, signature);
    return s == NULL ? NULL : s->method;
}

int tensord_signature_tensors(const tensord_model *m, const char *signature, int output, tensord_tensor *rows,
                              int cap)
{
    const struct td_signature *s = td_servable_signature(m->servable, signature);
    if (s == NULL) {
        return -1;
    }
    int n = output ? s->n_out : s->n_in;
    for (int i = 0; i < n && i < cap; i++) {
        const struct td_tensor_info *info = output ? &s->out[i] : &s->in[i];
        rows[i] = (tensord_tensor){.name = info->key, .dtype = (int)info->dtype, .rank = info->shape.rank};
        for (int k = 0; k < info->shape.rank; k++) {
            rows[i].dims[k] = info->shape.dim[k];
        }
    }
    return n;
}

/* ------------------------------------------------------------------ running */

static enum td_code wrap_strings(const tensord_tensor *t, int64_t n, struct td_tensor *out,
                                 struct td_err *err)
{
    const tensord_bytes *s = t->data;
    for (int64_t i = 0; i < n; i++) {
        TD_TRY(td_tensor_set_str(out, i, s[i].bytes, s[i].length, err));
    }
    return TD_OK;
}

static enum td_code wrap_input(const tensord_tensor *t, struct td_tensor *out, struct td_err *err)
{
    struct td_shape shape;
    TD_FAIL_IF(!td_dtype_valid(t->dtype), err, INVALID_ARGUMENT, "input '%s': dtype %d does not exist",
               t->name, t->dtype);
    TD_TRY(td_shape_make(&shape, t->dims, t->rank, err));
    int64_t n = td_shape_count(&shape);
    enum td_dtype dtype = (enum td_dtype)t->dtype;
    size_t size = dtype == TD_STRING ? sizeof(tensord_bytes) : td_dtype_size(dtype);
    TD_FAIL_IF(n < 0 || dtype == TD_RESOURCE || dtype == TD_VARIANT || t->bytes != (size_t)n * size, err,
               INVALID_ARGUMENT, "input '%s': %zu bytes do not make a %s tensor of shape %s", t->name,
               t->bytes, td_dtype_name(dtype), TD_SHAPE_STR(&shape));
    if (dtype == TD_STRING) {
        TD_TRY(td_tensor_new(out, dtype, &shape, err));
        return wrap_strings(t, n, out, err);
    }
    *out = (struct td_tensor){.data = (void *)t->data, .dtype = dtype, .shape = shape};
    return TD_OK;
}

struct held {
    struct td_tensor t;
    tensord_bytes *strings;
    char *name;
};

static enum td_code export_output(struct td_named *from, tensord_tensor *to, struct td_err *err)
{
    struct held *h = td_calloc(1, sizeof *h);
    if (h == NULL) {
        return td_no_memory(err, sizeof *h, "result");
    }
    h->name = td_strdup(from->name);
    h->t = from->t;
    memset(&from->t, 0, sizeof from->t);
    int64_t n = td_tensor_count(&h->t);
    *to = (tensord_tensor){.name = h->name,
                           .dtype = (int)h->t.dtype,
                           .rank = h->t.shape.rank,
                           .data = h->t.data,
                           .bytes = td_tensor_bytes(&h->t),
                           .owner = h};
    memcpy(to->dims, h->t.shape.dim, sizeof to->dims);
    if (h->t.dtype == TD_STRING) {
        h->strings = td_calloc((size_t)n + 1, sizeof *h->strings);
        for (int64_t i = 0; h->strings != NULL && i < n; i++) {
            h->strings[i].bytes = td_tensor_str(&h->t, i, &h->strings[i].length);
        }
        to->data = h->strings;
        to->bytes = (size_t)n * sizeof *h->strings;
    }
    return h->name == NULL || (h->t.dtype == TD_STRING && h->strings == NULL)
               ? td_no_memory(err, (size_t)n, "result")
               : TD_OK;
}

void tensord_results_free(tensord_tensor *outputs, int n_outputs)
{
    for (int i = 0; outputs != NULL && i < n_outputs; i++) {
        struct held *h = outputs[i].owner;
        if (h != NULL) {
            td_tensor_clear(&h->t);
            td_free(h->strings);
            td_free(h->name);
            td_free(h);
        }
    }
    td_free(outputs);
}

static enum td_code run(tensord_model *m, const struct td_signature *sig, struct td_named *in, int n_in,
                        tensord_tensor **outputs, int *n_outputs, struct td_err *err)
{
    size_t room = (size_t)sig->n_out + 1;
    struct td_named *out = td_calloc(room, sizeof *out);
    tensord_tensor *rows = td_calloc(room, sizeof *rows);
    int n = 0;
    struct td_servable_call call = {.sig = sig, .in = in, .n_in = n_in, .run = &m->run};
    enum td_code rc = out && rows ? TD_OK : td_no_memory(err, room, "results");
    rc = rc ? rc : td_servable_run(m->servable, &call, out, &n, err);
    for (int i = 0; rc == TD_OK && i < n; i++) {
        rc = export_output(&out[i], &rows[i], err);
    }
    for (int i = 0; out != NULL && i < n; i++) {
        td_tensor_clear(&out[i].t);
    }
    td_free(out);
    if (rc) {
        tensord_results_free(rows, rows == NULL ? 0 : n);
        return rc;
    }
    *outputs = rows;
    *n_outputs = n;
    return TD_OK;
}

/* The signature called so, and the inputs wrapped: *in is the caller's, n_inputs tensors long, on failure
 * too. */
static enum td_code wrap_call(tensord_model *m, const char *signature, const tensord_tensor *inputs,
                              int n_inputs, const struct td_signature **sig, struct td_named **in,
                              struct td_err *err)
{
    *in = NULL;
    *sig = td_servable_signature(m->servable, signature);
    TD_FAIL_IF(*sig == NULL, err, FAILED_PRECONDITION, "Serving signature key \"%s\" not found.",
               signature == NULL || signature[0] == 0 ? "serving_default" : signature);
    *in = td_calloc((size_t)n_inputs + 1, sizeof **in);
    enum td_code rc = *in == NULL ? td_no_memory(err, sizeof **in, "inputs") : TD_OK;
    for (int i = 0; rc == TD_OK && i < n_inputs; i++) {
        (*in)[i].name = inputs[i].name;
        rc = wrap_input(&inputs[i], &(*in)[i].t, err);
    }
    return rc;
}

static void unwrap(struct td_named *in, int n_inputs)
{
    for (int i = 0; in != NULL && i < n_inputs; i++) {
        td_tensor_clear(&in[i].t);
    }
    td_free(in);
}

int tensord_run(tensord_model *m, const char *signature, const tensord_tensor *inputs, int n_inputs,
                tensord_tensor **outputs, int *n_outputs, tensord_error *error)
{
    struct td_err err = {0};
    const struct td_signature *sig;
    struct td_named *in;
    enum td_code rc = wrap_call(m, signature, inputs, n_inputs, &sig, &in, &err);
    rc = rc ? rc : run(m, sig, in, n_inputs, outputs, n_outputs, &err);
    unwrap(in, n_inputs);
    return rc ? report(&err, error) : 0;
}

/* ------------------------------------------------------------------ gradients */

static enum td_code names_of(const tensord_tensor *t, int n, const char ***out, struct td_err *err)
{
    *out = td_calloc((size_t)n + 1, sizeof **out);
    for (int i = 0; *out != NULL && i < n; i++) {
        (*out)[i] = t[i].name;
    }
    return *out != NULL ? TD_OK : td_no_memory(err, (size_t)n, "names");
}

/* A call of the gradient's signature while it is put together and answered. */
struct gradient_run {
    struct td_gradient *g; /* counted */
    struct td_named *in;   /* the call's inputs, borrowed, and from n_own on those of the options, owned */
    int n_in, n_own;
    struct td_named *out, *results;
    int n_out, n_results;
};

static enum td_code add_further(struct gradient_run *r, const tensord_tensor *t, int input,
                                struct td_err *err)
{
    TD_FAIL_IF(input < 0, err, INVALID_ARGUMENT, "'%.200s' takes no value", t->name);
    struct td_named *to = &r->in[r->n_in++];
    to->name = td_gradient_signature(r->g)->in[input].key;
    return wrap_input(t, &to->t, err);
}

static enum td_code gather(struct gradient_run *r, const struct td_servable_call *call,
                           const tensord_gradient_options *o, struct td_err *err)
{
    const int further = o->n_output_gradients + o->n_vectors;
    const struct td_signature *sig = td_gradient_signature(r->g);
    const int n_sources = td_gradient_n_sources(r->g);
    r->in = td_calloc((size_t)(call->n_in + further) + 1, sizeof *r->in);
    r->out = td_calloc((size_t)sig->n_out + 1, sizeof *r->out);
    r->results = td_calloc((size_t)n_sources + 1, sizeof *r->results);
    if (r->in == NULL || r->out == NULL || r->results == NULL) {
        return td_no_memory(err, 1, "a gradient");
    }
    for (; r->n_in < call->n_in; r->n_in++) {
        r->in[r->n_in] = call->in[r->n_in];
    }
    r->n_own = r->n_in;
    for (int i = 0; i < o->n_output_gradients; i++) {
        const tensord_tensor *t = &o->output_gradients[i];
        TD_TRY(add_further(r, t, td_gradient_seed_input(r->g, t->name), err));
    }
    for (int i = 0; i < o->n_vectors; i++) {
        const tensord_tensor *t = &o->vectors[i];
        TD_TRY(add_further(r, t, td_gradient_vector_input(r->g, t->name), err));
    }
    return TD_OK;
}

static enum td_code run_gradient(tensord_model *m, struct gradient_run *r, bool zeros, struct td_err *err)
{
    const struct td_signature *sig = td_gradient_signature(r->g);
    struct td_tensor *bound = td_calloc((size_t)(sig->n_in + sig->n_out) + 1, sizeof *bound);
    struct td_tensor *made = bound == NULL ? NULL : bound + sig->n_in;
    const struct td_servable_call call = {.sig = sig, .in = r->in, .n_in = r->n_in, .run = &m->run};
    enum td_code rc =
        bound == NULL ? td_no_memory(err, 1, "a gradient") : td_servable_bind(m->servable, &call, bound, err);
    rc = rc ? rc : td_servable_compute(m->servable, sig, bound, &m->run, made, err);
    if (rc == TD_OK) {
        td_servable_deliver(&call, made, r->out, &r->n_out);
    }
    rc = rc ? rc : td_gradient_results(r->g, m->servable, bound, r->out, zeros, r->results, err);
    r->n_results = rc ? 0 : td_gradient_n_sources(r->g);
    td_free(bound);
    return rc;
}

static void gradient_run_fini(struct gradient_run *r)
{
    for (int i = r->n_own; r->in != NULL && i < r->n_in; i++) {
        td_tensor_clear(&r->in[i].t);
    }
    for (int i = 0; i < r->n_out; i++) {
        td_tensor_clear(&r->out[i].t);
    }
    for (int i = 0; i < r->n_results; i++) {
        td_tensor_clear(&r->results[i].t);
    }
    td_free(r->in);
    td_free(r->out);
    td_free(r->results);
    td_gradient_unref(r->g);
}

static enum td_code gradient(tensord_model *m, const struct td_servable_call *call,
                             const tensord_gradient_options *o, struct gradient_run *r, struct td_err *err)
{
    const char **seeded = NULL, **vectors = NULL;
    struct td_gradient_ask ask = {.targets = o->targets,
                                  .n_targets = o->n_targets,
                                  .wrt = o->wrt,
                                  .n_wrt = o->n_wrt,
                                  .n_seeded = o->n_output_gradients,
                                  .n_vectors = o->n_vectors,
                                  .recompute = o->recompute != 0};
    enum td_code rc = td_gradient_kind(o->kind, &ask.kind, err);
    rc = rc ? rc : names_of(o->output_gradients, o->n_output_gradients, &seeded, err);
    rc = rc ? rc : names_of(o->vectors, o->n_vectors, &vectors, err);
    ask.seeded = seeded;
    ask.vectors = vectors;
    rc = rc ? rc : td_gradient_get(m->servable, call->sig, &ask, NULL, &r->g, err);
    rc = rc ? rc : gather(r, call, o, err);
    rc = rc ? rc : run_gradient(m, r, o->zero_unconnected != 0, err);
    td_free(seeded);
    td_free(vectors);
    return rc;
}

static enum td_code export_all(struct td_named *from, int n, tensord_tensor **to, int *n_to,
                               struct td_err *err)
{
    *to = td_calloc((size_t)n + 1, sizeof **to);
    enum td_code rc = *to == NULL ? td_no_memory(err, (size_t)n, "results") : TD_OK;
    for (int i = 0; rc == TD_OK && i < n; i++) {
        rc = export_output(&from[i], &(*to)[i], err);
        *n_to = i + 1;
    }
    return rc;
}

int tensord_gradient(tensord_model *m, const char *signature, const tensord_tensor *inputs, int n_inputs,
                     const tensord_gradient_options *opts, tensord_gradient_result *result,
                     tensord_error *error)
{
    struct td_err err = {0};
    const struct td_signature *sig;
    struct td_named *in;
    struct gradient_run r = {0};
    *result = (tensord_gradient_result){0};
    enum td_code rc = wrap_call(m, signature, inputs, n_inputs, &sig, &in, &err);
    const struct td_servable_call call = {.sig = sig, .in = in, .n_in = n_inputs};
    rc = rc ? rc : gradient(m, &call, opts, &r, &err);
    rc = rc ? rc : export_all(r.results, r.n_results, &result->gradients, &result->n_gradients, &err);
    rc = rc ? rc : export_all(r.out, td_gradient_n_outputs(r.g), &result->outputs, &result->n_outputs, &err);
    if (rc) {
        tensord_results_free(result->gradients, result->n_gradients);
        tensord_results_free(result->outputs, result->n_outputs);
        *result = (tensord_gradient_result){0};
    }
    gradient_run_fini(&r);
    unwrap(in, n_inputs);
    return rc ? report(&err, error) : 0;
}

/* The sink's bytes as a text of the C library's. */
static enum td_code take_text(const struct td_sink *s, char **out, struct td_err *err)
{
    *out = strndup(s->p == NULL ? "" : s->p, s->n);
    return *out == NULL ? td_no_memory(err, s->n, "a document") : TD_OK;
}

/* With what goes away again when it is done: the options' arena, and the text as it grows. */
static enum td_code debug_in(tensord_model *m, const struct td_servable_call *call, const char *options,
                             struct td_arena *arena, struct td_sink *text, struct td_err *err)
{
    struct td_json_body body;
    struct td_debug_opts opts;
    TD_TRY(td_json_body(options, strlen(options), arena, &body, err));
    TD_TRY(td_debug_read(&body, arena, &opts, err));
    return td_debug_run(m->servable, call, &opts, text, err);
}

static enum td_code debug(tensord_model *m, const struct td_servable_call *call, const char *options,
                          char **out, struct td_err *err)
{
    struct td_sink text = {0};
    struct td_arena *arena = td_arena_new((size_t)1 << 20);
    if (arena == NULL) {
        return td_no_memory(err, 1, "options");
    }
    enum td_code rc = debug_in(m, call, options == NULL ? "{}" : options, arena, &text, err);
    rc = rc ? rc : take_text(&text, out, err);
    td_sink_fini(&text);
    td_arena_free(arena);
    return rc;
}

int tensord_debug_json(tensord_model *m, const char *signature, const tensord_tensor *inputs, int n_inputs,
                       const char *options, char **out, tensord_error *error)
{
    struct td_err err = {0};
    const struct td_signature *sig;
    struct td_named *in;
    enum td_code rc = wrap_call(m, signature, inputs, n_inputs, &sig, &in, &err);
    struct td_servable_call call = {.sig = sig, .in = in, .n_in = n_inputs, .run = &m->run};
    rc = rc ? rc : debug(m, &call, options, out, &err);
    unwrap(in, n_inputs);
    return rc ? report(&err, error) : 0;
}

char *tensord_ops_json(void)
{
    struct td_err err = {0};
    struct td_op_table *ops;
    if (td_op_table_new(td_op_families, &ops, &err)) {
        return NULL;
    }
    char *text = td_op_list_json(ops);
    td_op_table_free(ops);
    return text;
}

char *tensord_inspect_json(tensord_model *m)
{
    return td_inspect_model_json(m->servable);
}

int tensord_checkpoint_json(const char *path, char **out, tensord_error *error)
{
    struct td_err err = {0};
    return td_inspect_checkpoint_json(path, out, &err) ? report(&err, error) : 0;
}

int tensord_devices_json(const char *device_module, char **out, tensord_error *error)
{
    struct td_err err = {0};
    struct td_devices *d;
    const struct td_devices_opts opts = {.module = device_module};
    if (td_devices_look(&opts, &d, &err)) {
        return report(&err, error);
    }
    json_t *doc = td_devices_json(d);
    *out = json_dumps(doc, JSON_INDENT(2));
    json_decref(doc);
    td_devices_close(d);
    return *out == NULL ? report((td_no_memory(&err, 1, "a document"), &err), error) : 0;
}

const char *tensord_version(void)
{
    return TENSORD_VERSION;
}
