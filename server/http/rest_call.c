/* server/http/rest_call.c - see rest_call.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/http/rest_call.h"

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "server/base/clock.h"

static void drop(struct td_rest_call *c)
{
    td_request_fini(&c->r);
    td_free(c);
}

/* Returns new, for the model that args name (copied). */
static enum td_code make(struct td_rest *rest, struct td_exchange *x, const struct td_route_args *args,
                         struct td_rest_call **out, struct td_err *err)
{
    struct td_rest_call *c = td_calloc(1, sizeof *c);
    if (c == NULL) {
        return td_no_memory(err, sizeof *c, "a request");
    }
    c->rest = rest;
    c->x = x;
    c->held = args->held;
    c->from_ns = td_clock_ns();
    if (td_rest_request(x, args, &c->r, err)) {
        td_free(c);
        return err->code;
    }
    c->r.model = td_arena_strdup(c->r.arena, args->model);
    c->r.label = args->label != NULL ? td_arena_strdup(c->r.arena, args->label) : NULL;
    if (c->r.model == NULL || (args->label != NULL && c->r.label == NULL)) {
        drop(c);
        return td_no_memory(err, 1, "a request");
    }
    *out = c;
    return TD_OK;
}

static void hold(struct td_request *r)
{
    struct td_rest_call *c = (struct td_rest_call *)r;
    *c->held = true;
    td_exchange_hold(c->x);
}

static void answer_later(struct td_request *r, struct td_err *err)
{
    struct td_rest_call *c = (struct td_rest_call *)r;
    struct td_exchange *x = c->x;
    err->code = err->code ? err->code : c->encode(c, err);
    if (err->code != TD_OK) {
        td_rest_fail(c->rest, x, err);
    }
    td_metrics_request(td_metrics_model(r->model), r->api, TD_ENTRY_REST, err->code,
                       td_clock_us_since(c->from_ns));
    drop(c);
    td_exchange_finish(x);
}

enum td_code td_rest_call_run(struct td_rest *rest, struct td_exchange *x, const struct td_route_args *args,
                              td_rest_decode_fn *decode, td_rest_encode_fn *encode, struct td_err *err)
{
    bool later = false;
    struct td_rest_call *c = NULL;
    TD_TRY(make(rest, x, args, &c, err));
    c->encode = encode;
    c->r.borrowed = true;
    c->r.queued = hold;
    c->r.done = answer_later;
    enum td_code rc = decode(c, args, err);
    rc = rc ? rc : td_request_start(&c->r, rest->registry, &later, err);
    if (!later) {
        rc = rc ? rc : encode(c, err);
        drop(c);
    }
    return rc;
}
