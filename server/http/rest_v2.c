/* server/http/rest_v2.c - what the server and its models are, as the Open Inference Protocol tells it.
 *
 * Each handler finds what it tells about and builds one JSON document. A model's name may have a signature
 * behind a colon; td_infer_find() splits it, and td_infer_view() gives the inputs and outputs to tell.
 * Versions are those that serve now, lowest first. The configuration is written by
 * server/models/config_view.c, for both wires.
 *
 * Does not: infer (server/http/rest_infer.c), or list the repository (server/http/rest_repository.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "proto/request/infer_pb.h"
#include "server/models/config_view.h"
#include "server/request/infer_request.h"
#include "server/http/rest.h"
#include "server/base/rest_json.h"

enum td_code td_rest_v2_server(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    (void)rest;
    json_t *extensions = json_array();
    for (int i = 0; td_infer_extension(i) != NULL; i++) {
        (void)json_array_append_new(extensions, json_string(td_infer_extension(i)));
    }
    return td_rest_put_json(
        &x->out,
        json_pack("{s:s, s:s, s:o}", "name", "tensord", "version", TENSORD_VERSION, "extensions", extensions),
        err);
}

enum td_code td_rest_v2_live(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    (void)rest;
    return td_rest_put_json(&x->out, json_pack("{s:b}", "live", 1), err);
}

enum td_code td_rest_v2_ready(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    const bool ready = td_registry_ready(rest->registry, NULL) && !atomic_load(&rest->draining);
    x->status = ready ? 200 : 400;
    return td_rest_put_json(&x->out, json_pack("{s:b}", "ready", ready), err);
}

enum td_code td_rest_v2_models(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    struct td_model_config *configs = NULL;
    int n = 0;
    TD_TRY(td_registry_models(rest->registry, &configs, &n, err));
    json_t *names = json_array();
    for (int i = 0; i < n; i++) {
        if (td_rest_sees(rest, x, configs[i].name)) {
            (void)json_array_append_new(names, td_rest_json_text(configs[i].name));
        }
    }
    td_model_configs_free(configs, n);
    return td_rest_put_json(&x->out, json_pack("{s:o}", "models", names), err);
}

/* ------------------------------------------------------------------ one model */

static struct td_infer_ref ref_of(const struct td_exchange *x)
{
    return (struct td_infer_ref){.name = x->r.model,
                                 .has_version = x->r.has_version,
                                 .version = x->r.version,
                                 .label = x->r.label,
                                 .signature = ""};
}

/* A model that is known but does not serve is not ready; one that is unknown is not found, nor is a signature
 * that it has not. */
enum td_code td_rest_v2_model_ready(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    const struct td_infer_ref ref = ref_of(x);
    struct td_err why = {0}, unknown = {0};
    TD_FAIL_IF(!td_registry_answers(rest->registry), err, INVALID_ARGUMENT, "Model version not ready");
    const enum td_code rc = td_infer_ready(rest->registry, &ref, &why);
    if (rc && rc != TD_FAILED_PRECONDITION) {
        struct td_version_status *rows = NULL;
        int n = 0;
        const bool known = td_registry_status(rest->registry, x->r.model, 0, &rows, &n, &unknown) == TD_OK;
        td_free(rows);
        TD_FAIL_IF(known, err, INVALID_ARGUMENT, "Model version not ready");
    }
    return rc ? td_fail(err, rc, "%s", why.msg)
              : td_rest_put_json(
                    &x->out, json_pack("{s:o, s:b}", "name", td_rest_json_text(x->r.model), "ready", 1), err);
}

/* A shape as a list; an unknown rank is [-1]. */
static json_t *shape_json(const struct td_shape *shape)
{
    json_t *dims = json_array();
    for (int i = 0; i < shape->rank; i++) {
        (void)json_array_append_new(dims, json_integer(shape->dim[i]));
    }
    if (shape->rank < 0) {
        (void)json_array_append_new(dims, json_integer(-1));
    }
    return dims;
}

static json_t *infos_json(const struct td_tensor_info *t, int n)
{
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        const char *type = td_v2_name(t[i].dtype);
        (void)json_array_append_new(list, json_pack("{s:o, s:s, s:o}", "name", td_rest_json_text(t[i].key),
                                                    "datatype", type != NULL ? type : "", "shape",
                                                    shape_json(&t[i].shape)));
    }
    return list;
}

/* Versions that serve, lowest first. */
static json_t *versions_json(struct td_rest *rest, const char *model)
{
    struct td_version_status *rows = NULL;
    struct td_err ignored = {0};
    int n = 0;
    json_t *list = json_array();
    if (td_registry_status(rest->registry, model, 0, &rows, &n, &ignored)) {
        n = 0;
    }
    for (int i = n - 1; i >= 0; i--) {
        if (rows[i].state == TD_STATE_AVAILABLE) {
            (void)json_array_append_new(list, td_rest_json_int64(rows[i].version));
        }
    }
    td_free(rows);
    return list;
}

static json_t *metadata_json(struct td_rest *rest, const char *name, const struct td_servable *s,
                             const struct td_signature *sig)
{
    return json_pack("{s:o, s:o, s:s, s:o, s:o}", "name", td_rest_json_text(name), "versions",
                     versions_json(rest, td_servable_name(s)), "platform", TD_CONFIG_PLATFORM, "inputs",
                     infos_json(sig != NULL ? sig->in : NULL, sig != NULL ? sig->n_in : 0), "outputs",
                     infos_json(sig != NULL ? sig->out : NULL, sig != NULL ? sig->n_out : 0));
}

static enum td_code describe(struct td_rest *rest, struct td_exchange *x, bool config, struct td_err *err)
{
    const struct td_infer_ref ref = ref_of(x);
    const char *signature;
    const struct td_signature *sig;
    TD_TRY(td_infer_find(rest->registry, &ref, &x->r.cold, &x->r.servable, &signature, err));
    TD_TRY(td_infer_view(x->r.servable, signature, &sig, err));
    return config ? td_config_view_json(rest->registry, x->r.servable, x->r.model, sig, &x->out, err)
                  : td_rest_put_json(&x->out, metadata_json(rest, x->r.model, x->r.servable, sig), err);
}

enum td_code td_rest_v2_model(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return describe(rest, x, false, err);
}

enum td_code td_rest_v2_config(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return describe(rest, x, true, err);
}
