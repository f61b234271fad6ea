/* server/http/rest.h - the HTTP API: which handler answers a request, and what handlers share.
 *
 * A handler fills in x->out (and x->status, when it is not 200) or fails; a failure becomes {"error": "text"}
 * with the status that its code has. One of an inference only decodes: it leaves x->r with its inputs and
 * with encode set, and the request runs when it returns. Handlers live in rest_predict.c, rest_examples.c,
 * rest_infer.c, rest_models.c, rest_metadata.c, rest_health.c and others, and are listed in routes.def.
 *
 *   td_rest_begin    of an upload: its reader (server/http/rest_files.c)
 *   td_rest_route    target -> x->route
 *   td_rest_handle   names of the target -> x->r, token -> the handler -> td_request_start, or the answer
 *   the end          encode (of the handler), or the error -> metrics -> td_exchange_finish
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_HTTP_REST_H
#define TD_SERVER_HTTP_REST_H

#include "server/base/access.h"
#include "server/base/local_only.h"
#include "server/http/http.h"
#include "proto/json/json_tensor.h"
#include "server/sched/request.h"

struct td_rest {
    struct td_registry *registry; /* borrowed */
    struct td_access *access;     /* borrowed; NULL: no tokens are asked for */
    bool open_management;         /* management answers other hosts than this one */
    bool debug_api;               /* :debug is answered */
    struct td_shm *shm;           /* borrowed; NULL: no tensors in shared memory */
    atomic_bool draining;         /* readyz says no */
    /* where TF Serving's monitoring configuration wants the metrics; NULL: nowhere else */
    const char *monitoring_path;
    int64_t started_at;                 /* seconds since the epoch */
    struct td_connections *connections; /* borrowed, for metrics; NULL: none are counted */
    struct td_open_calls *calls;        /* the same */
    struct td_jobs *jobs;               /* borrowed; NULL: there is no fine-tuning */
    const struct td_devices *devices;   /* borrowed */
    struct td_thread_pool *pool;        /* borrowed: help with large bodies; NULL: none */
    atomic_int n_uploads, n_followers;  /* under way */
    atomic_int n_apart;                 /* requests on threads of their own */
    int max_apart;                      /* --max_waiting_commands; 0: there are no such threads */
    double wait_s;                      /* those that wait for models do no longer; 0: no limit */
};

/* x->r is open, and has what the target names: model ("" none), version, label. */
typedef enum td_code td_rest_fn(struct td_rest *rest, struct td_exchange *x, struct td_err *err);

/* For struct td_http_opts; app is a struct td_rest. */
void td_rest_begin(void *app, struct td_exchange *x);
enum td_quickness td_rest_route(void *app, struct td_exchange *x);
void td_rest_handle(void *app, struct td_exchange *x);
void td_rest_fail(void *app, struct td_exchange *x, const struct td_err *err);

/* Whether it may manage without a token, where none are asked for: see server/base/local_only.h. */
TD_MUST enum td_code td_rest_local_only(const struct td_rest *rest, const struct td_exchange *x,
                                        enum td_local_body body, struct td_err *err);
/* The same of its connection, Host and headers alone, whatever token it has. */
TD_MUST enum td_code td_rest_from_here(const struct td_exchange *x, struct td_err *err);
/* Whether the exchange's token allows the scope; model: "" when none is named. */
TD_MUST enum td_code td_rest_admit(struct td_rest *rest, const struct td_exchange *x, enum td_scope scope,
                                   const char *model, struct td_err *err);
/* Whether it allows the model to be seen at all: for lists of models. */
bool td_rest_sees(struct td_rest *rest, const struct td_exchange *x, const char *model);
/* Whose files, jobs and regions the exchange's are. */
void td_rest_owner(const struct td_rest *rest, const struct td_exchange *x, char owner[TD_OWNER_CHARS]);
/* What a name of the target says, percent-decoded in the request's arena; NULL without memory. */
const char *td_rest_decoded(const struct td_exchange *x, struct td_route_span s);
/* The value of a query's parameter, decoded in the same place; *out is NULL when it is not there. */
TD_MUST enum td_code td_rest_query(const struct td_exchange *x, const char *name, const char **out,
                                   struct td_err *err);
/* x->r's servable and signature (r.signature), then its inputs, out of a Predict body. */
TD_MUST enum td_code td_rest_resolve(struct td_rest *rest, struct td_exchange *x, struct td_err *err);
TD_MUST enum td_code td_rest_inputs(struct td_request *r, const struct td_json_body *body,
                                    struct td_err *err);
/* The inputs of the model's default signature (few requests are of another one), for who reads a large
 * body ahead (proto/json/json_ahead.h); in the request's arena. NULL, and *n is 0: it is small, or the model
 * is not known, which is said when it is resolved. */
const struct td_json_field *td_rest_fields_ahead(struct td_rest *rest, struct td_exchange *x, int *n);

#define ROUTE(method, pattern, handler, traits) td_rest_fn handler;
#include "server/http/routes.def"
#undef ROUTE

#endif
