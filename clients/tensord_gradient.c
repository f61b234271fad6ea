/* clients/tensord_gradient.c - tensord.v1.Debug.Gradient on the client's side.
 *
 * A GradientRequest begins with the fields of a PredictRequest, and protobuf reads two messages one behind
 * the other as both merged: so the PredictRequest (tdc_send) is packed, and behind it what the gradient needs
 * besides.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "clients/tensord_messages.h"
#include "proto/schema/tensord.pb-c.h"

#define INVALID_ARGUMENT 3
#define RESOURCE_EXHAUSTED 8
#define INTERNAL 13

typedef Tensord__V1__GradientRequest request;
typedef Tensord__V1__GradientRequest__OutputGradientsEntry seed_entry;
typedef Tensord__V1__GradientRequest__VectorEntry vector_entry;

struct job {
    const struct tdc_gradient_ask *what;
    struct tdc_gradients *out;
};

/* What lies behind the maps of a request while it is packed. */
struct maps {
    struct tdc_sent *sent;
    seed_entry *seed, **seeds;
    vector_entry *vector, **vectors;
    int n;
};

static void free_maps(struct maps *m)
{
    for (int i = 0; m->sent != NULL && i < m->n; i++) {
        free(m->sent[i].strings);
    }
    free(m->sent);
    free(m->seed);
    free(m->seeds);
    free(m->vector);
    free(m->vectors);
}

static bool fill_maps(struct maps *m, const struct tdc_gradient_ask *a, request *r)
{
    const size_t n_seed = (size_t)a->n_output_gradients, n_vector = (size_t)a->n_vectors;
    *m = (struct maps){.sent = calloc(n_seed + n_vector + 1, sizeof *m->sent),
                       .seed = calloc(n_seed + 1, sizeof *m->seed),
                       .seeds = calloc(n_seed + 1, sizeof *m->seeds),
                       .vector = calloc(n_vector + 1, sizeof *m->vector),
                       .vectors = calloc(n_vector + 1, sizeof *m->vectors)};
    bool ok =
        m->sent != NULL && m->seed != NULL && m->seeds != NULL && m->vector != NULL && m->vectors != NULL;
    for (size_t i = 0; ok && i < n_seed; i++) {
        struct tdc_sent *sent = &m->sent[m->n++];
        m->seed[i] = (seed_entry)TENSORD__V1__GRADIENT_REQUEST__OUTPUT_GRADIENTS_ENTRY__INIT;
        m->seed[i].key = (char *)a->output_gradients[i].name;
        m->seed[i].value = &sent->tensor;
        m->seeds[i] = &m->seed[i];
        ok = tdc_write_tensor(sent, &a->output_gradients[i]);
    }
    for (size_t i = 0; ok && i < n_vector; i++) {
        struct tdc_sent *sent = &m->sent[m->n++];
        m->vector[i] = (vector_entry)TENSORD__V1__GRADIENT_REQUEST__VECTOR_ENTRY__INIT;
        m->vector[i].key = (char *)a->vectors[i].name;
        m->vector[i].value = &sent->tensor;
        m->vectors[i] = &m->vector[i];
        ok = tdc_write_tensor(sent, &a->vectors[i]);
    }
    r->output_gradients = m->seeds;
    r->n_output_gradients = n_seed;
    r->vector = m->vectors;
    r->n_vector = n_vector;
    return ok;
}

/* The two messages one behind the other; freed with free(), NULL without memory. */
static uint8_t *pack(const Tensorflow__Serving__PredictRequest *first, const request *second, size_t *n)
{
    *n = protobuf_c_message_get_packed_size(&first->base) + protobuf_c_message_get_packed_size(&second->base);
    uint8_t *bytes = malloc(*n + 1);
    if (bytes != NULL) {
        const size_t at = protobuf_c_message_pack(&first->base, bytes);
        protobuf_c_message_pack(&second->base, bytes + at);
    }
    return bytes;
}

static int take_gradients(const Tensord__V1__GradientResponse *r, struct tdc_gradients *out,
                          struct tdc_error *err)
{
    const size_t n = r->n_gradients + r->n_unconnected;
    struct tdc_answered *from = calloc(n + r->n_outputs + 1, sizeof *from), *outputs = from + n;
    if (from == NULL) {
        return tdc_fail(err, RESOURCE_EXHAUSTED, "no memory for the answer");
    }
    for (size_t i = 0; i < r->n_gradients; i++) {
        from[i] = (struct tdc_answered){.name = r->gradients[i]->key, .tensor = r->gradients[i]->value};
    }
    for (size_t i = 0; i < r->n_unconnected; i++) {
        from[r->n_gradients + i] = (struct tdc_answered){.name = r->unconnected[i], .none = true};
    }
    for (size_t i = 0; i < r->n_outputs; i++) {
        outputs[i] = (struct tdc_answered){.name = r->outputs[i]->key, .tensor = r->outputs[i]->value};
    }
    *out = (struct tdc_gradients){.n_gradients = (int)n, .n_outputs = (int)r->n_outputs};
    out->version =
        r->model_spec != NULL && r->model_spec->version != NULL ? r->model_spec->version->value : 0;
    int rc = tdc_take_tensors(from, n, &out->gradients, err);
    rc = rc != 0 ? rc : tdc_take_tensors(outputs, r->n_outputs, &out->outputs, err);
    if (rc != 0) {
        tdc_free(out->gradients);
        *out = (struct tdc_gradients){0};
    }
    free(from);
    return rc;
}

static int send_packed(struct tdc_client *c, const Tensorflow__Serving__PredictRequest *m, const request *r,
                       struct tdc_gradients *out, struct tdc_error *err)
{
    size_t n, len = 0;
    void *answer = NULL;
    uint8_t *bytes = pack(m, r, &n);
    if (bytes == NULL) {
        return tdc_fail(err, RESOURCE_EXHAUSTED, "no memory for a request of %zu bytes", n);
    }
    int rc = tdc_call(c, "/tensord.v1.Debug/Gradient", bytes, n, &answer, &len, err);
    free(bytes);
    if (rc != 0) {
        return rc;
    }
    Tensord__V1__GradientResponse *reply = tensord__v1__gradient_response__unpack(NULL, len, answer);
    tdc_free(answer);
    rc = reply != NULL ? take_gradients(reply, out, err)
                       : tdc_fail(err, INTERNAL, "the answer is no GradientResponse");
    if (reply != NULL) {
        tensord__v1__gradient_response__free_unpacked(reply, NULL);
    }
    return rc;
}

static int send(struct tdc_client *c, const Tensorflow__Serving__PredictRequest *m, void *ctx,
                struct tdc_error *err)
{
    const struct job *job = ctx;
    const struct tdc_gradient_ask *a = job->what;
    request r = TENSORD__V1__GRADIENT_REQUEST__INIT;
    struct maps maps;
    r.target = (char **)a->targets;
    r.n_target = (size_t)a->n_targets;
    r.wrt = (char **)a->wrt;
    r.n_wrt = (size_t)a->n_wrt;
    r.kind = (char *)(a->kind != NULL ? a->kind : "");
    r.unconnected = (char *)(a->zeros ? "zero" : "none");
    r.recompute = a->recompute;
    const int rc = fill_maps(&maps, a, &r)
                       ? send_packed(c, m, &r, job->out, err)
                       : tdc_fail(err, INVALID_ARGUMENT,
                                  "a gradient or vector has too many dimensions, or memory is short");
    free_maps(&maps);
    return rc;
}

int tdc_gradient(struct tdc_client *c, const struct tdc_ask *ask, const struct tdc_gradient_ask *what,
                 struct tdc_gradients *out, struct tdc_error *err)
{
    struct tdc_ask first = *ask;
    first.n_outputs = 0;
    *out = (struct tdc_gradients){0};
    return tdc_send(c, &first, send, &(struct job){what, out}, err);
}
