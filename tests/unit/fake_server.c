/* tests/unit/fake_server.c - see fake_server.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/fake_server.h"

#include <string.h>
#include <time.h>

#include "core/mem.h"
#include "server/debug.h"
#include "server/functions.h"
#include "server/request.h"

atomic_int fake_running, fake_stopped, fake_configured, fake_broken_state = TD_STATE_END;

struct td_servable {
    const char *name;
};
static struct td_servable models[] = {{"echo"}, {"slow"}, {"scores"}};
static struct td_tensor_info one_input[] = {
    {.key = "inputs", .tensor = "x:0", .dtype = TD_STRING, .shape = {.rank = -1}}};
static struct td_tensor_info class_outputs[] = {
    {.key = "classes", .tensor = "c:0", .dtype = TD_STRING, .shape = {.rank = 2, .dim = {-1, 2}}},
    {.key = "scores", .tensor = "s:0", .dtype = TD_FLOAT, .shape = {.rank = 2, .dim = {-1, 2}}}};
static struct td_tensor_info value_output[] = {
    {.key = "outputs", .tensor = "y:0", .dtype = TD_FLOAT, .shape = {.rank = 1, .dim = {-1}}}};
static struct td_signature signatures[] = {
    {.key = "classify",
     .method = "tensorflow/serving/classify",
     .in = one_input,
     .n_in = 1,
     .out = class_outputs,
     .n_out = 2},
    {.key = "regress",
     .method = "tensorflow/serving/regress",
     .in = one_input,
     .n_in = 1,
     .out = value_output,
     .n_out = 1},
    {.key = "serving_default",
     .method = "tensorflow/serving/predict",
     .in = one_input,
     .n_in = 1,
     .out = value_output,
     .n_out = 1},
};
static const struct td_saved_model saved = {.signatures = signatures, .n_signatures = 3};

struct td_servable *td_servable_ref(struct td_servable *s)
{
    return s;
}
void td_servable_unref(struct td_servable *s)
{
    (void)s;
}
const char *td_servable_name(const struct td_servable *s)
{
    return s->name;
}
int64_t td_servable_version(const struct td_servable *s)
{
    return s != NULL ? 7 : 0;
}
const struct td_saved_model *td_servable_model(const struct td_servable *s)
{
    return s != NULL ? &saved : NULL;
}

const struct td_signature *td_servable_signature(const struct td_servable *s, const char *key)
{
    (void)s;
    for (int i = 0; i < saved.n_signatures; i++) {
        if (strcmp(signatures[i].key, *key ? key : "serving_default") == 0) {
            return &signatures[i];
        }
    }
    return NULL;
}

enum td_code td_registry_find(struct td_registry *r, const char *model, int64_t version, const char *label,
                              struct td_servable **out, struct td_err *err)
{
    (void)r;
    TD_FAIL_IF(label != NULL && strcmp(label, "stable") != 0, err, INVALID_ARGUMENT,
               "Unrecognized servable version label: %s", label);
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        if (strcmp(models[i].name, model) == 0 && (version == 0 || version == 7)) {
            *out = &models[i];
            return TD_OK;
        }
    }
    TD_FAIL(err, NOT_FOUND, "Servable not found for request: Latest(%s)", model);
}

bool td_registry_has(struct td_registry *r, const char *model)
{
    (void)r;
    (void)model;
    return false;
}

enum td_code td_registry_status(struct td_registry *r, const char *model, int64_t version,
                                struct td_version_status **rows, int *n, struct td_err *err)
{
    (void)r;
    const bool broken = strcmp(model, "broken") == 0;
    struct td_servable *s;
    struct td_err ignored = {0};
    TD_FAIL_IF(!broken && td_registry_find(NULL, model, version, NULL, &s, &ignored), err, NOT_FOUND,
               "Could not find any versions of model %s", model);
    *rows = td_calloc(1, sizeof **rows);
    *n = 1;
    (*rows)[0].version = 7;
    (*rows)[0].state = broken ? (enum td_state)atomic_load(&fake_broken_state) : TD_STATE_AVAILABLE;
    if (broken && (*rows)[0].state == TD_STATE_END) {
        (void)td_fail(&(*rows)[0].error, TD_DATA_LOSS, "cannot be read");
    }
    return TD_OK;
}

bool td_registry_ready(struct td_registry *r, char **missing)
{
    (void)r;
    *missing = NULL;
    return atomic_load(&fake_broken_state) == TD_STATE_AVAILABLE;
}

enum td_code td_registry_models(struct td_registry *r, struct td_model_config **out, int *n,
                                struct td_err *err)
{
    (void)r;
    (void)err;
    *n = 1;
    *out = td_calloc(1, sizeof **out);
    (*out)->name = td_strdup("echo");
    (*out)->base_path = td_strdup("/echo");
    return TD_OK;
}

void td_model_configs_free(struct td_model_config *m, int n)
{
    for (int i = 0; i < n; i++) {
        td_free(m[i].name);
        td_free(m[i].base_path);
        td_free(m[i].versions);
        for (int k = 0; k < m[i].n_labels; k++) {
            td_free(m[i].labels[k].name);
        }
        td_free(m[i].labels);
    }
    td_free(m);
}

enum td_code td_registry_configure(struct td_registry *r, const struct td_model_config *m, int n, bool wait,
                                   struct td_err *err)
{
    (void)r;
    (void)wait;
    TD_FAIL_IF(n > 0 && m[0].base_path[0] != '/', err, INVALID_ARGUMENT,
               "Expected model %s to have an absolute path", m[0].name);
    atomic_store(&fake_configured, n);
    return TD_OK;
}

enum td_code td_registry_rescan(struct td_registry *r, const char *model, struct td_err *err)
{
    (void)r;
    TD_FAIL_IF(model != NULL && strcmp(model, "echo") != 0, err, NOT_FOUND, "no model %s", model);
    return TD_OK;
}

struct td_model *td_servable_engine(struct td_servable *s)
{
    (void)s;
    return NULL;
}

size_t td_model_weight_bytes(struct td_model *m)
{
    return m == NULL ? 12 : 0;
}

/* ---- requests ---- */

enum td_code td_request_init(struct td_request *r, struct td_err *err)
{
    *r = (struct td_request){.arena = td_arena_new((size_t)1 << 20), .signature = "", .id = ""};
    return r->arena != NULL ? TD_OK : td_no_memory(err, 1, "a request");
}

void td_request_fini(struct td_request *r)
{
    for (int i = 0; i < r->n_in; i++) {
        td_tensor_clear(&r->in[i].t);
    }
    for (int i = 0; i < r->n_out; i++) {
        td_tensor_clear(&r->out[i].t);
    }
    td_arena_free(r->arena);
}

enum td_code td_request_resolve(struct td_request *r, struct td_registry *reg, struct td_err *err)
{
    if (r->servable == NULL) {
        TD_TRY(td_registry_find(reg, r->model, r->version, r->label, &r->servable, err));
    }
    if (r->sig == NULL) {
        r->sig = td_servable_signature(r->servable, r->signature);
    }
    TD_FAIL_IF(r->sig == NULL, err, FAILED_PRECONDITION, "Serving signature key \"%s\" not found.",
               r->signature);
    return TD_OK;
}

static enum td_code run_slow(struct td_request *r, struct td_err *err)
{
    atomic_fetch_add(&fake_running, 1);
    for (int i = 0; i < 1000 && atomic_load(&r->stop) == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    atomic_fetch_sub(&fake_running, 1);
    TD_FAIL_IF(atomic_load(&r->stop) == 0, err, INTERNAL, "nobody stopped the slow model");
    atomic_fetch_add(&fake_stopped, 1);
    return td_fail(err, (enum td_code)atomic_load(&r->stop), "stopped");
}

static enum td_code run_scores(struct td_request *r, struct td_err *err)
{
    const int64_t n = r->in[0].t.shape.dim[0];
    const bool classify = strcmp(r->sig->key, "classify") == 0;
    const struct td_shape matrix = td_shape_matrix(n, 2), vector = td_shape_vector(n);
    r->out = td_arena_alloc(r->arena, 2, sizeof *r->out);
    r->n_out = classify ? 2 : 1;
    r->out[classify].name = classify ? "scores" : "outputs";
    struct td_tensor *score = &r->out[classify].t;
    TD_TRY(td_tensor_new(score, TD_FLOAT, classify ? &matrix : &vector, err));
    for (int64_t i = 0; i < td_tensor_count(score); i++) {
        TD_DATA(score, float)[i] = (float)i + 0.5f;
    }
    if (classify) {
        r->out[0].name = "classes";
        TD_TRY(td_tensor_new(&r->out[0].t, TD_STRING, &matrix, err));
        for (int64_t i = 0; i < 2 * n; i++) { /* each label is the example itself */
            size_t len;
            const char *text = td_tensor_str(&r->in[0].t, i / 2, &len);
            TD_TRY(td_tensor_set_str(&r->out[0].t, i, text, len, err));
        }
    }
    return TD_OK;
}

enum td_code td_request_run(struct td_request *r, struct td_registry *reg, struct td_err *err)
{
    TD_TRY(td_request_resolve(r, reg, err));
    if (strcmp(r->servable->name, "slow") == 0) {
        return run_slow(r, err);
    }
    if (strcmp(r->servable->name, "scores") == 0) {
        return run_scores(r, err);
    }
    r->out = td_arena_alloc(r->arena, (size_t)r->n_in + 1, sizeof *r->out);
    for (int i = 0; i < r->n_in; i++) {
        r->out[i].name = r->in[i].name;
        td_tensor_ref(&r->out[i].t, &r->in[i].t);
    }
    r->n_out = r->n_in;
    return TD_OK;
}

/* Debugging and functions look inside models, which fakes do not have. */
enum td_code td_debug_read(const struct td_json_body *body, struct td_arena *arena, struct td_debug_opts *out,
                           struct td_err *err)
{
    (void)body;
    (void)arena;
    (void)err;
    *out = (struct td_debug_opts){.max_nodes = 1};
    return TD_OK;
}
enum td_code td_debug_run(struct td_servable *s, const struct td_servable_call *call, const struct td_debug_opts *opts,
                          struct td_sink *out, struct td_err *err)
{
    (void)s;
    (void)call;
    (void)opts;
    return td_sink_put(out, "{}", 2, err);
}
json_t *td_functions_json(struct td_servable *s)
{
    (void)s;
    return json_object();
}
const struct td_registry_opts *td_registry_options(const struct td_registry *r)
{
    static const struct td_registry_opts none;
    (void)r;
    return &none;
}
