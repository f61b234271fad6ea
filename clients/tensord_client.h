/* clients/tensord_client.h - a small C client of tensord and TensorFlow Serving over gRPC.
 *
 *   struct tdc_error err;
 *   struct tdc_client *c = tdc_open("127.0.0.1:8500", NULL, &err);
 *   struct tdc_tensor x = {.name = "x", .dtype = 1, .rank = 1, .dims = {3}, .data = floats, .bytes = 12}, *y;
 *   int n, rc = tdc_predict(c, &(struct tdc_ask){.model = "half_plus_two", .inputs = &x, .n_inputs = 1},
 *                           &y, &n, &err);
 *
 * Calls block until their answer or the time-out; a client may be used from any number of threads. Every call
 * that can fail returns 0 or a gRPC status code and fills in err.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CLIENTS_TENSORD_CLIENT_H
#define TD_CLIENTS_TENSORD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TDC_MAX_RANK 32

struct tdc_client;
struct tdc_error {
    int code;
    char text[1100];
    char why[40], param[260]; /* of fine-tuning's errors: its code and the field; "": none */
};

/* target: "host:port" or "unix:/path". token: sent as a bearer token; NULL none. Returns new, NULL on
 * failure. Connecting happens with the first call. */
struct tdc_client *tdc_open(const char *target, const char *token, struct tdc_error *err);
void tdc_close(struct tdc_client *c);                       /* accepts NULL; no call may be running */
void tdc_set_timeout(struct tdc_client *c, double seconds); /* of calls to come; default 60; 0 none */

/* Any unary method: path "/package.Service/Method", serialized messages. *reply is freed with tdc_free. */
int tdc_call(struct tdc_client *c, const char *path, const void *request, size_t n, void **reply,
             size_t *n_reply, struct tdc_error *err);
void tdc_free(void *p);

/* Any streaming method: messages go out with tdc_stream_send, tdc_stream_done says that they were all, and
 * answers come in with tdc_stream_receive until *bytes is NULL. It has no time-out. One thread at a time. */
struct tdc_stream;
struct tdc_stream *tdc_stream_open(struct tdc_client *c, const char *path,
                                   struct tdc_error *err); /* or NULL */
/* False when the server has ended the call: tdc_stream_receive says why. */
bool tdc_stream_send(struct tdc_stream *s, const void *bytes, size_t n);
bool tdc_stream_done(struct tdc_stream *s);
/* *bytes is freed with tdc_free; NULL: the call has ended well. */
int tdc_stream_receive(struct tdc_stream *s, void **bytes, size_t *n, struct tdc_error *err);
void tdc_stream_close(struct tdc_stream *s); /* accepts NULL; a call under way is cancelled */

/* A named tensor. dtype is TensorFlow's DataType number. data: dense row-major elements; of a string tensor
 * (7) an array of struct tdc_bytes. */
struct tdc_bytes {
    const void *p;
    size_t n;
};
struct tdc_tensor {
    const char *name;
    int dtype, rank;
    int64_t dims[TDC_MAX_RANK];
    const void *data;
    size_t bytes; /* of data */
};
size_t tdc_dtype_size(int dtype);              /* bytes an element; 0 of unknown types and of strings */
const char *tdc_dtype_name(int dtype);         /* "float"; "?" of unknown types */
int64_t tdc_count(const struct tdc_tensor *t); /* elements */

struct tdc_ask {
    const char *model;
    int64_t version;       /* 0: latest */
    const char *label;     /* NULL none */
    const char *signature; /* NULL: the default one */
    const struct tdc_tensor *inputs;
    int n_inputs;
    const char *const *outputs; /* names of the outputs wanted; NULL all */
    int n_outputs;
};
/* *outputs is one block, freed with tdc_free; names and data lie in it. *version, if not NULL, gets the
 * answering one. */
int tdc_predict(struct tdc_client *c, const struct tdc_ask *ask, struct tdc_tensor **outputs, int *n_outputs,
                int64_t *version, struct tdc_error *err);

struct tdc_gradient_ask {
    const char *const *targets; /* outputs: their sum is differentiated */
    int n_targets;
    const char *const *wrt; /* inputs, and "var:NAME" for variables; a pattern with * and ? names several */
    int n_wrt;
    const char *kind;                          /* NULL: "gradient"; "jacobian", "hessian", "hvp" */
    const struct tdc_tensor *output_gradients; /* by name of the target; ones for the others */
    int n_output_gradients;
    const struct tdc_tensor *vectors; /* of hvp: by name of the source */
    int n_vectors;
    bool zeros; /* for a source that nothing leads to; else its tensor has dtype 0 */
    bool recompute;
};
struct tdc_gradients { /* each list is one block, freed with tdc_free */
    struct tdc_tensor *gradients, *outputs;
    int n_gradients, n_outputs;
    int64_t version;
};
/* ask: as for tdc_predict, but that its outputs do not count. */
int tdc_gradient(struct tdc_client *c, const struct tdc_ask *ask, const struct tdc_gradient_ask *what,
                 struct tdc_gradients *out, struct tdc_error *err);

/* As tdc_predict, with a JSON object of options ("mode", "watch", ...); *json is the document, freed with
 * tdc_free. */
int tdc_debug(struct tdc_client *c, const struct tdc_ask *ask, const char *options, char **json,
              struct tdc_error *err);
/* What the signatures of a model have compiled: a JSON document, freed with tdc_free. */
int tdc_functions(struct tdc_client *c, const struct tdc_ask *ask, char **json, struct tdc_error *err);

/* The devices that a server's models run on: a JSON document, freed with tdc_free. */
int tdc_devices(struct tdc_client *c, char **json, struct tdc_error *err);
/* Restarts one of them, by name: a JSON document, freed with tdc_free. */
int tdc_restart_device(struct tdc_client *c, const char *name, char **json, struct tdc_error *err);

struct tdc_status {
    int64_t version;
    int state, code;
    char text[1100];
};
/* *rows is freed with tdc_free. */
int tdc_model_status(struct tdc_client *c, const char *model, struct tdc_status **rows, int *n,
                     struct tdc_error *err);
const char *tdc_state_name(int state);

/* Declared inputs (output = false) or outputs of a signature; data is NULL and dims are -1 where unknown,
 * rank -1 of an unknown rank. *rows is one block, freed with tdc_free. */
int tdc_signature(struct tdc_client *c, const char *model, const char *signature, bool output,
                  struct tdc_tensor **rows, int *n, struct tdc_error *err);
/* The names of all models. *names is one block, NULL-terminated, freed with tdc_free. */
int tdc_models(struct tdc_client *c, char ***names, struct tdc_error *err);
/* grpc.health.v1 of a model, "" of the server: *serves is true when it, or every model, has a version that
 * serves. NOT_FOUND (5) of a model that is not there. */
int tdc_health(struct tdc_client *c, const char *model, bool *serves, struct tdc_error *err);
/* Looks for new versions of a model ("": of all) now; returns when they are loaded or have failed. */
int tdc_reload(struct tdc_client *c, const char *model, struct tdc_error *err);

#endif
