/* clients/tensord_debug.c - tensord.v1.Debug and tensord.v1.Models.Functions and Devices on the client's
 * side.
 *
 * A DebugRequest is a PredictRequest with one more field behind it, so the messages of Predict are made
 * (tdc_send), packed, and the options appended as bytes of that field. Answers are documents of JSON, handed
 * over as text that the caller frees.
 *
 * Holds no state. Does not: read the documents (clients/tensorctl_debug.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "clients/tensord_messages.h"
#include "proto/schema/tensord.pb-c.h"

#define RESOURCE_EXHAUSTED 8
#define INTERNAL 13

/* A copy that tdc_free frees. */
static int take(const char *text, char **out, struct tdc_error *err)
{
    *out = strdup(text);
    return *out != NULL ? 0 : tdc_fail(err, RESOURCE_EXHAUSTED, "no memory for the answer");
}

struct debug {
    const char *options;
    char **json;
};

/* A DebugRequest is a PredictRequest with `string options = 4` behind it. Room for the field: tag, length,
 * bytes. */
static size_t put_options(uint8_t *to, const char *options)
{
    size_t n = strlen(options), at = 0;
    to[at++] = 4 << 3 | 2;
    for (size_t left = n; at == 1 || left > 0; left >>= 7) {
        to[at++] = (uint8_t)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
    }
    memcpy(to + at, options, n);
    return at + n;
}

static int debug(struct tdc_client *c, const Tensorflow__Serving__PredictRequest *m, void *ctx,
                 struct tdc_error *err)
{
    const struct debug *d = ctx;
    const size_t n = protobuf_c_message_get_packed_size(&m->base);
    uint8_t *bytes = malloc(n + strlen(d->options) + 16);
    if (bytes == NULL) {
        return tdc_fail(err, RESOURCE_EXHAUSTED, "no memory for a request of %zu bytes", n);
    }
    protobuf_c_message_pack(&m->base, bytes);
    void *answer = NULL;
    size_t len = 0;
    int rc = tdc_call(c, "/tensord.v1.Debug/Run", bytes, n + put_options(bytes + n, d->options), &answer,
                      &len, err);
    free(bytes);
    if (rc != 0) {
        return rc;
    }
    Tensord__V1__DebugResponse *r = tensord__v1__debug_response__unpack(NULL, len, answer);
    tdc_free(answer);
    rc = r != NULL ? take(r->json, d->json, err) : tdc_fail(err, INTERNAL, "the answer is no DebugResponse");
    if (r != NULL) {
        tensord__v1__debug_response__free_unpacked(r, NULL);
    }
    return rc;
}

int tdc_debug(struct tdc_client *c, const struct tdc_ask *ask, const char *options, char **json,
              struct tdc_error *err)
{
    return tdc_send(c, ask, debug, &(struct debug){options, json}, err);
}

int tdc_functions(struct tdc_client *c, const struct tdc_ask *ask, char **json, struct tdc_error *err)
{
    Tensord__V1__FunctionsRequest m = TENSORD__V1__FUNCTIONS_REQUEST__INIT;
    Tensorflow__Serving__ModelSpec spec;
    Google__Protobuf__Int64Value number;
    tdc_fill_spec(ask, &spec, &number);
    m.model_spec = &spec;
    ProtobufCMessage *reply;
    int rc = tdc_exchange(c, "/tensord.v1.Models/Functions", &m.base,
                          &tensord__v1__functions_response__descriptor, &reply, err);
    if (rc == 0) {
        rc = take(((const Tensord__V1__FunctionsResponse *)reply)->json, json, err);
        protobuf_c_message_free_unpacked(reply, NULL);
    }
    return rc;
}

int tdc_devices(struct tdc_client *c, char **json, struct tdc_error *err)
{
    Tensord__V1__DevicesRequest m = TENSORD__V1__DEVICES_REQUEST__INIT;
    ProtobufCMessage *reply;
    int rc = tdc_exchange(c, "/tensord.v1.Models/Devices", &m.base,
                          &tensord__v1__devices_response__descriptor, &reply, err);
    if (rc == 0) {
        rc = take(((const Tensord__V1__DevicesResponse *)reply)->json, json, err);
        protobuf_c_message_free_unpacked(reply, NULL);
    }
    return rc;
}

int tdc_restart_device(struct tdc_client *c, const char *name, char **json, struct tdc_error *err)
{
    Tensord__V1__RestartDeviceRequest m = TENSORD__V1__RESTART_DEVICE_REQUEST__INIT;
    m.device = (char *)name;
    ProtobufCMessage *reply;
    int rc = tdc_exchange(c, "/tensord.v1.Models/RestartDevice", &m.base,
                          &tensord__v1__restart_device_response__descriptor, &reply, err);
    if (rc == 0) {
        rc = take(((const Tensord__V1__RestartDeviceResponse *)reply)->json, json, err);
        protobuf_c_message_free_unpacked(reply, NULL);
    }
    return rc;
}
