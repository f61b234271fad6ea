/* server/grpc/grpc_debug.c - tensord.v1.Debug.Run, tensord.v1.Models.Functions and Devices: documents of the
 * HTTP API as one string.
 *
 * Debug.Run is a PredictRequest with one more field: the JSON of what to look at, read by the code that reads
 * :debug's body. The answers are the text of a JSON document in field 1. The run is this thread's, past the
 * workers; it is refused unless the server was started with --enable_debug_api.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "server/debug/debug.h"
#include "server/request/device_restart.h"
#include "server/models/devices_json.h"
#include "server/models/functions.h"
#include "server/grpc/grpc_rpc.h"
#include "server/base/rest_json.h"

td_rpc_fn td_rpc_debug_run, td_rpc_models_functions, td_rpc_models_devices, td_rpc_models_restart_device;

/* Field `number` of the message as text; "" when it is not there. */
static enum td_code read_text(struct td_wire in, uint32_t number, struct td_arena *a, const char **out,
                              struct td_err *err)
{
    struct td_field f;
    *out = "";
    do {
        TD_TRY(td_wire_next(&in, &f, err));
        if (f.number == number && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, out, err));
        }
    } while (f.number != 0);
    return TD_OK;
}

static enum td_code reply_text(struct td_rpc *r, const struct td_sink *text, struct td_err *err)
{
    r->reply.limit = INT32_MAX;
    return td_put_bytes(&r->reply, 1, text->p == NULL ? "" : text->p, text->n, err);
}

/* Takes the reference. */
static enum td_code reply_json(struct td_rpc *r, json_t *doc, struct td_err *err)
{
    struct td_sink text = {0};
    enum td_code rc = td_rest_put_json(&text, doc, err);
    rc = rc ? rc : reply_text(r, &text, err);
    td_sink_fini(&text);
    return rc;
}

enum td_code td_rpc_debug_run(struct td_rpc *r, struct td_err *err)
{
    struct td_request *q = &r->q;
    struct td_predict_pb p;
    struct td_json_body body;
    struct td_debug_opts opts;
    const char *options;
    TD_FAIL_IF(
        !r->opts->debug_api, err, PERMISSION_DENIED,
        "debugging shows weights and intermediate values, so it is off until the server is started with "
        "--enable_debug_api");
    TD_TRY(td_rpc_open(r, err));
    TD_TRY(td_predict_read(r->in, q->arena, &p, err));
    TD_TRY(read_text(r->in, 4, q->arena, &options, err));
    options = *options ? options : "{}";
    TD_TRY(td_json_body(options, strlen(options), q->arena, &body, err));
    TD_TRY(td_debug_read(&body, q->arena, &opts, err));
    TD_TRY(td_rpc_ask_for(q, &p.spec, err));
    TD_TRY(td_request_resolve(q, r->registry, err));
    if (opts.mode != TD_DEBUG_PLACEMENT) {
        TD_TRY(td_rpc_inputs(r, &p, err));
    }
    struct td_servable_call call = td_request_call(q, r->registry);
    call.check_method = false;
    struct td_sink text = {0};
    enum td_code rc = td_debug_run(q->servable, &call, &opts, &text, err);
    rc = rc ? rc : reply_text(r, &text, err);
    td_sink_fini(&text);
    return rc;
}

enum td_code td_rpc_models_functions(struct td_rpc *r, struct td_err *err)
{
    struct td_request *q = &r->q;
    struct td_model_spec spec = {.name = "", .signature = ""};
    struct td_wire in = r->in;
    struct td_field f;
    TD_TRY(td_rpc_open(r, err));
    do {
        TD_TRY(td_wire_next(&in, &f, err));
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_model_spec_read(f.sub, q->arena, &spec, err));
        }
    } while (f.number != 0);
    TD_TRY(td_rpc_ask_for(q, &spec, err));
    TD_TRY(td_request_find(q, r->registry, err));
    return reply_json(r, td_functions_json(q->servable), err);
}

enum td_code td_rpc_models_devices(struct td_rpc *r, struct td_err *err)
{
    return reply_json(r, td_devices_json(r->opts->devices), err);
}

enum td_code td_rpc_models_restart_device(struct td_rpc *r, struct td_err *err)
{
    const char *name = "";
    json_t *done = NULL;
    TD_TRY(td_rpc_open(r, err));
    TD_TRY(read_text(r->in, 1, r->q.arena, &name, err));
    TD_TRY(td_device_restart(r->opts->devices, r->registry, r->opts->shm, name, &done, err));
    return reply_json(r, done, err);
}
