/* server/http/rest.h - the HTTP API: which handler answers a request, and what handlers share.
 *
 * A handler fills in x->out (and x->status, when it is not 200) or fails; a failure becomes {"error": "text"}
 * with the status that its code has. Handlers live in rest_predict.c, rest_examples.c, rest_models.c,
 * rest_metadata.c and rest_health.c, and are listed in routes.def.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_HTTP_REST_H
#define TD_SERVER_HTTP_REST_H

#include "server/base/access.h"
#include "server/http/http.h"
#include "proto/json/json_tensor.h"
#include "server/request/request.h"

struct td_rest {
    struct td_registry *registry; /* borrowed */
    struct td_access *access;     /* borrowed; NULL: no tokens are asked for */
    bool open_management;         /* management answers other hosts than this one */
    bool debug_api;               /* :debug is answered */
    struct td_shm *shm;           /* borrowed; NULL: no tensors in shared memory */
    atomic_bool draining;         /* readyz says no */
    const char *
        /* where TF Serving's monitoring configuration wants the metrics; NULL nowhere else */
        monitoring_path;
    int64_t started_at; /* seconds since the epoch */
};

/* What the target names. Texts are the arena's. */
struct td_route_args {
    struct td_arena *arena;
    const char *model; /* "" none */
    bool has_version;
    int64_t version;
    const char *label; /* NULL none */
    const char *id;    /* "" none */
    enum td_api api;   /* what is asked for */
    bool *held;        /* set by a handler that will answer later */
    const char *query; /* behind the '?', undecoded; "" none */
};

typedef enum td_code td_rest_fn(struct td_rest *rest, struct td_exchange *x, const struct td_route_args *args,
                                struct td_err *err);

/* For struct td_http_opts; app is a struct td_rest. */
void td_rest_handle(void *app, struct td_exchange *x);
bool td_rest_may_block(void *app, const struct td_exchange *x);
void td_rest_fail(void *app, struct td_exchange *x, const struct td_err *err);

/* The servable that the target names. NOT_FOUND and INVALID_ARGUMENT as td_registry_find. */
TD_MUST enum td_code td_rest_find(struct td_rest *rest, const struct td_route_args *args,
                                  struct td_servable **out, struct td_err *err);
/* A request for it, with the exchange's deadline and stop word; td_request_fini it. */
TD_MUST enum td_code td_rest_request(struct td_exchange *x, const struct td_route_args *args,
                                     struct td_request *r, struct td_err *err);

/* r's servable and signature (r->signature), then its inputs, out of a Predict body. */
TD_MUST enum td_code td_rest_resolve(struct td_rest *rest, struct td_request *r,
                                     const struct td_route_args *args, struct td_err *err);
TD_MUST enum td_code td_rest_inputs(struct td_request *r, const struct td_json_body *body,
                                    struct td_err *err);

#define ROUTE(method, pattern, handler, traits) td_rest_fn handler;
#include "server/http/routes.def"
#undef ROUTE

#endif
