/* clients/tensord_models.c - status, signatures and names of models on the client's side.
 *
 * Each call makes a message, has it exchanged and copies what it wants out of the answer into one block that
 * the caller frees: rows of statuses, tensors of a signature, names with a NULL behind them. Blocks with
 * texts are measured first, then filled by the same function (struct tdc_block). A signature comes inside an
 * Any and is unpacked a second time.
 *
 * Holds no state; any thread may call. Does not: open connections (clients/tensord_client.c), print.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/tensord_messages.h"
#include "proto/schema/tensord.pb-c.h"

#define INVALID_ARGUMENT 3
#define NOT_FOUND 5
#define RESOURCE_EXHAUSTED 8
#define INTERNAL 13

int tdc_model_status(struct tdc_client *c, const char *model, struct tdc_status **rows, int *n,
                     struct tdc_error *err)
{
    Tensorflow__Serving__GetModelStatusRequest m = TENSORFLOW__SERVING__GET_MODEL_STATUS_REQUEST__INIT;
    Tensorflow__Serving__ModelSpec spec = TENSORFLOW__SERVING__MODEL_SPEC__INIT;
    spec.name = (char *)model;
    m.model_spec = &spec;
    ProtobufCMessage *reply;
    const int rc = tdc_exchange(c, "/tensorflow.serving.ModelService/GetModelStatus", &m.base,
                                &tensorflow__serving__get_model_status_response__descriptor, &reply, err);
    if (rc != 0) {
        return rc;
    }
    const Tensorflow__Serving__GetModelStatusResponse *r =
        (const Tensorflow__Serving__GetModelStatusResponse *)reply;
    struct tdc_status *out = calloc(r->n_model_version_status + 1, sizeof *out);
    for (size_t i = 0; out != NULL && i < r->n_model_version_status; i++) {
        const Tensorflow__Serving__ModelVersionStatus *s = r->model_version_status[i];
        out[i].version = s->version;
        out[i].state = (int)s->state;
        if (s->status != NULL) {
            out[i].code = (int)s->status->error_code;
            snprintf(out[i].text, sizeof out[i].text, "%s", s->status->error_message);
        }
    }
    *rows = out;
    *n = (int)r->n_model_version_status;
    protobuf_c_message_free_unpacked(reply, NULL);
    return out != NULL ? 0 : tdc_fail(err, RESOURCE_EXHAUSTED, "no memory for the answer");
}

const char *tdc_state_name(int state)
{
    switch (state) {
    case 10:
        return "START";
    case 20:
        return "LOADING";
    case 30:
        return "AVAILABLE";
    case 40:
        return "UNLOADING";
    case 50:
        return "END";
    default:
        return "UNKNOWN";
    }
}

/* grpc.health.v1: HealthCheckRequest { service = 1 }, HealthCheckResponse { status = 1, 1: SERVING }; two
 * messages too small for a schema. */
int tdc_health(struct tdc_client *c, const char *model, bool *serves, struct tdc_error *err)
{
    const size_t n = strlen(model);
    unsigned char ask[130] = {0x0a, (unsigned char)n};
    void *reply;
    size_t n_reply;
    if (n > 127) {
        return tdc_fail(err, INVALID_ARGUMENT, "a model's name of %zu bytes: 127 are the most here", n);
    }
    memcpy(ask + 2, model, n);
    const int rc = tdc_call(c, "/grpc.health.v1.Health/Check", ask, n > 0 ? n + 2 : 0, &reply, &n_reply, err);
    if (rc == 0) {
        *serves = n_reply == 2 && memcmp(reply, "\x08\x01", 2) == 0;
        tdc_free(reply);
    }
    return rc;
}

/* ---- signatures ---- */

typedef Tensorflow__Serving__SignatureDefMap map_pb;

static const Tensorflow__SignatureDef *find(const map_pb *m, const char *signature)
{
    for (size_t i = 0; i < m->n_signature_def; i++) {
        if (strcmp(m->signature_def[i]->key, signature) == 0) {
            return m->signature_def[i]->value;
        }
    }
    return NULL;
}

/* One row of either map; rows are NULL while measuring. */
static bool read_info(const char *key, const Tensorflow__TensorInfo *info, struct tdc_tensor *to,
                      struct tdc_block *b)
{
    struct tdc_tensor t = {.name = tdc_take_text(b, key), .dtype = info != NULL ? (int)info->dtype % 100 : 0};
    const bool ok = info != NULL && tdc_read_shape(info->tensor_shape, &t);
    if (to != NULL) {
        *to = t;
    }
    return ok;
}

static bool read_rows(const Tensorflow__SignatureDef *s, bool output, struct tdc_block *b)
{
    const size_t n = output ? s->n_outputs : s->n_inputs;
    struct tdc_tensor *t = tdc_take(b, (n + 1) * sizeof *t);
    bool ok = true;
    for (size_t i = 0; i < n; i++) {
        struct tdc_tensor *to = t != NULL ? &t[i] : NULL;
        ok &= output ? read_info(s->outputs[i]->key, s->outputs[i]->value, to, b)
                     : read_info(s->inputs[i]->key, s->inputs[i]->value, to, b);
    }
    return ok;
}

static int take_rows(const map_pb *m, const char *signature, bool output, struct tdc_tensor **rows, int *n,
                     struct tdc_error *err)
{
    const Tensorflow__SignatureDef *s = find(m, signature);
    if (s == NULL) {
        return tdc_fail(err, NOT_FOUND, "the model has no signature '%s'", signature);
    }
    struct tdc_block b = {0};
    if (!read_rows(s, output, &b)) {
        return tdc_fail(err, INTERNAL, "signature '%s' holds a shape that cannot be read", signature);
    }
    b = (struct tdc_block){.p = malloc(b.n)};
    if (b.p == NULL) {
        return tdc_fail(err, RESOURCE_EXHAUSTED, "no memory for a signature");
    }
    *rows = (struct tdc_tensor *)b.p;
    *n = (int)(output ? s->n_outputs : s->n_inputs);
    read_rows(s, output, &b);
    return 0;
}

int tdc_signature(struct tdc_client *c, const char *model, const char *signature, bool output,
                  struct tdc_tensor **rows, int *n, struct tdc_error *err)
{
    Tensorflow__Serving__GetModelMetadataRequest m = TENSORFLOW__SERVING__GET_MODEL_METADATA_REQUEST__INIT;
    Tensorflow__Serving__ModelSpec spec = TENSORFLOW__SERVING__MODEL_SPEC__INIT;
    char *fields[] = {(char *)"signature_def"};
    spec.name = (char *)model;
    m.model_spec = &spec;
    m.metadata_field = fields;
    m.n_metadata_field = 1;
    ProtobufCMessage *reply;
    int rc = tdc_exchange(c, "/tensorflow.serving.PredictionService/GetModelMetadata", &m.base,
                          &tensorflow__serving__get_model_metadata_response__descriptor, &reply, err);
    if (rc != 0) {
        return rc;
    }
    const Tensorflow__Serving__GetModelMetadataResponse *r =
        (const Tensorflow__Serving__GetModelMetadataResponse *)reply;
    const bool has = r->n_metadata > 0 && r->metadata[0]->value != NULL;
    map_pb *map = has ? (map_pb *)protobuf_c_message_unpack(
                            &tensorflow__serving__signature_def_map__descriptor, NULL,
                            r->metadata[0]->value->value.len, r->metadata[0]->value->value.data)
                      : NULL;
    rc = map != NULL ? take_rows(map, signature != NULL && *signature ? signature : "serving_default", output,
                                 rows, n, err)
                     : tdc_fail(err, INTERNAL, "the answer holds no signatures");
    if (map != NULL) {
        protobuf_c_message_free_unpacked(&map->base, NULL);
    }
    protobuf_c_message_free_unpacked(reply, NULL);
    return rc;
}

/* ---- tensord.v1.Models ---- */

static void read_names(const Tensord__V1__ListResponse *r, struct tdc_block *b)
{
    char **names = tdc_take(b, (r->n_models + 1) * sizeof *names);
    for (size_t i = 0; i < r->n_models; i++) {
        const char *name = tdc_take_text(b, r->models[i]->name);
        if (names != NULL) {
            names[i] = (char *)name;
        }
    }
    if (names != NULL) {
        names[r->n_models] = NULL;
    }
}

int tdc_models(struct tdc_client *c, char ***names, struct tdc_error *err)
{
    Tensord__V1__ListRequest m = TENSORD__V1__LIST_REQUEST__INIT;
    ProtobufCMessage *reply;
    const int rc = tdc_exchange(c, "/tensord.v1.Models/List", &m.base,
                                &tensord__v1__list_response__descriptor, &reply, err);
    if (rc != 0) {
        return rc;
    }
    const Tensord__V1__ListResponse *r = (const Tensord__V1__ListResponse *)reply;
    struct tdc_block b = {0};
    read_names(r, &b);
    b = (struct tdc_block){.p = malloc(b.n)};
    if (b.p != NULL) {
        *names = (char **)b.p;
        read_names(r, &b);
    }
    protobuf_c_message_free_unpacked(reply, NULL);
    return b.p != NULL ? 0 : tdc_fail(err, RESOURCE_EXHAUSTED, "no memory for the names");
}

int tdc_reload(struct tdc_client *c, const char *model, struct tdc_error *err)
{
    Tensord__V1__ReloadRequest m = TENSORD__V1__RELOAD_REQUEST__INIT;
    m.name = (char *)model;
    ProtobufCMessage *reply;
    const int rc = tdc_exchange(c, "/tensord.v1.Models/Reload", &m.base,
                                &tensord__v1__reload_response__descriptor, &reply, err);
    if (rc == 0) {
        protobuf_c_message_free_unpacked(reply, NULL);
    }
    return rc;
}
