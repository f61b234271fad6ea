/* server/http/rest_metadata.c - a version's signatures, as protobuf's JSON of GetModelMetadataResponse.
 *
 * The document is built as jansson values from the loaded SavedModel, in the form that TensorFlow Serving's
 * JSON has. Values of defaults are printed by the same writer as outputs of :predict, and read back as JSON;
 * those that JSON has no form for (NaN, infinities) leave the field out.
 *
 * Does not: look at files (server/models/servable.c has read them).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/json/json_write.h"
#include "server/http/rest.h"
#include "server/base/rest_json.h"

static json_t *info_json(const struct td_tensor_info *t)
{
    char dtype[64];
    (void)snprintf(dtype, sizeof dtype, "%s%s", td_dtype_tf_name(t->dtype), t->is_ref ? "_REF" : "");
    json_t *o = json_pack("{s:s, s:o}", "dtype", dtype, "tensor_shape", td_rest_json_shape(&t->shape));
    if (t->n_parts == 3 && t->tensor[0] == '\0') {
        (void)json_object_set_new(o, "coo_sparse",
                                  json_pack("{s:o, s:o, s:o}", "values_tensor_name",
                                            td_rest_json_text(t->parts[0]), "indices_tensor_name",
                                            td_rest_json_text(t->parts[1]), "dense_shape_tensor_name",
                                            td_rest_json_text(t->parts[2])));
    } else {
        (void)json_object_set_new(o, "name", td_rest_json_text(t->tensor));
    }
    return o;
}

static json_t *infos_json(const struct td_tensor_info *t, int n)
{
    json_t *o = json_object();
    for (int i = 0; i < n; i++) {
        (void)json_object_set_new(o, t[i].key, info_json(&t[i]));
    }
    return o;
}

/* The typed field of TensorProto that holds values of a dtype. */
static const char *field_of(enum td_dtype t)
{
    switch (t) {
    case TD_FLOAT:
        return "float_val";
    case TD_DOUBLE:
        return "double_val";
    case TD_STRING:
        return "string_val";
    case TD_INT64:
        return "int64_val";
    case TD_BOOL:
        return "bool_val";
    case TD_UINT32:
        return "uint32_val";
    case TD_UINT64:
        return "uint64_val";
    default:
        return td_dtype_in(t, TD_SET_INTS) ? "int_val" : NULL;
    }
}

/* A default value as a TensorProto; numbers that JSON cannot hold are left out. */
static json_t *tensor_json(const struct td_tensor *t)
{
    json_t *o = json_pack("{s:s, s:o, s:i}", "dtype", td_dtype_tf_name(t->dtype), "tensor_shape",
                          td_rest_json_shape(&t->shape), "version_number", 0);
    const char *field = field_of(t->dtype);
    struct td_sink s = {.limit = (size_t)16 << 20};
    struct td_err ignored = {0};
    if (field != NULL && td_sink_put(&s, "[", 1, &ignored) == TD_OK &&
        td_json_put_elems(&s, t, 0, td_tensor_count(t), false, &ignored) == TD_OK &&
        td_sink_put(&s, "]", 1, &ignored) == TD_OK) {
        json_t *values = json_loadb(s.p, s.n, 0, NULL);
        if (values != NULL) {
            (void)json_object_set_new(o, field, values);
        }
    }
    td_sink_fini(&s);
    return o;
}

static json_t *signature_json(const struct td_signature *sig)
{
    json_t *defaults = json_object();
    for (int i = 0; i < sig->n_in; i++) {
        if (sig->defaults[i].dtype != TD_DTYPE_NONE) {
            (void)json_object_set_new(defaults, sig->in[i].key, tensor_json(&sig->defaults[i]));
        }
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "inputs", infos_json(sig->in, sig->n_in), "outputs",
                     infos_json(sig->out, sig->n_out), "method_name", td_rest_json_text(sig->method),
                     "defaults", defaults);
}

enum td_code td_rest_metadata(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    TD_TRY(td_request_find(&x->r, rest->registry, err));
    const struct td_servable *s = x->r.servable;
    const struct td_saved_model *m = td_servable_model(s);
    json_t *signatures = json_object();
    for (int i = 0; i < m->n_signatures; i++) {
        (void)json_object_set_new(signatures, m->signatures[i].key, signature_json(&m->signatures[i]));
    }
    json_t *doc =
        json_pack("{s:{s:o, s:s, s:o}, s:{s:{s:o}}}", "model_spec", "name", td_rest_json_text(x->r.model),
                  "signature_name", "", "version", td_rest_json_int64(td_servable_version(s)), "metadata",
                  "signature_def", "signature_def", signatures);
    return td_rest_put_json(&x->out, doc, err);
}
