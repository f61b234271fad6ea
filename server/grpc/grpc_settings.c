/* server/grpc/grpc_settings.c - GRPCInferenceService: trace and log settings.
 *
 * A request without settings asks what holds; one with some changes them first, all in one call. They are
 * listed in arrays of at most MAX_CHANGES on the stack, with texts in an arena that is gone when the handler
 * returns.
 *
 * Does not: keep settings (server/base/trace.c, server/base/log_settings.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "server/grpc/grpc_rpc.h"
#include "server/base/log_settings.h"
#include "server/base/trace.h"

td_rpc_fn td_rpc_trace, td_rpc_logging;

#define MAX_CHANGES 64 /* settings of a request */
#define MAX_VALUES 64  /* values of a setting */

/* ---- trace ---- */

/* TraceSettingRequest { settings = 1 map<string, { value = 1 repeated }>, model_name = 2 } */
struct trace_request {
    const char *model;
    struct td_trace_change change[MAX_CHANGES];
    int n;
};

static enum td_code read_values(struct td_wire w, struct td_arena *a, struct td_trace_change *c,
                                struct td_err *err)
{
    struct td_field f;
    const char **list = td_arena_alloc(a, MAX_VALUES, sizeof *list);
    if (list == NULL) {
        return td_no_memory(err, MAX_VALUES * sizeof *list, "trace settings");
    }
    c->value = list;
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_FAIL_IF(c->n == MAX_VALUES, err, INVALID_ARGUMENT,
                       "trace setting '%.100s' has more than %d values", c->key, MAX_VALUES);
            TD_TRY(td_wire_text(f.sub, a, &list[c->n++], err));
        }
    } while (f.number != 0);
    return TD_OK;
}

static enum td_code read_trace(struct td_wire w, struct td_arena *a, struct trace_request *out,
                               struct td_err *err)
{
    struct td_field f;
    *out = (struct trace_request){.model = ""};
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 2 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, &out->model, err));
        } else if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            struct td_wire value;
            TD_FAIL_IF(out->n == MAX_CHANGES, err, INVALID_ARGUMENT, "more than %d trace settings",
                       MAX_CHANGES);
            struct td_trace_change *c = &out->change[out->n++];
            TD_TRY(td_map_entry_read(f.sub, a, &c->key, &value, err));
            TD_TRY(read_values(value, a, c, err));
        }
    } while (f.number != 0);
    return TD_OK;
}

/* TraceSettingResponse { settings = 1 map<string, { value = 1 repeated }> } */
static enum td_code write_setting(void *sink, const char *key, const char *const *texts, int n,
                                  struct td_err *err)
{
    struct td_sink *s = sink;
    const size_t entry = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, key, err));
    const size_t value = td_put_mark(s);
    for (int i = 0; i < n; i++) {
        TD_TRY(td_put_text(s, 1, texts[i], err));
    }
    TD_TRY(td_put_end(s, 2, value, err));
    return td_put_end(s, 1, entry, err);
}

static enum td_code check_model(struct td_rpc *r, const char *model, struct td_err *err)
{
    struct td_version_status *rows = NULL;
    struct td_err unknown = {0};
    int n = 0;
    const bool known =
        *model == '\0' || td_registry_status(r->registry, model, 0, &rows, &n, &unknown) == TD_OK;
    td_free(rows);
    TD_FAIL_IF(!known, err, NOT_FOUND, "Request for unknown model: '%s' is not found", model);
    return TD_OK;
}

static enum td_code trace(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct trace_request q;
    TD_TRY(read_trace(r->in, a, &q, err));
    TD_TRY(check_model(r, q.model, err));
    TD_TRY(q.n > 0 ? td_trace_set(q.model, q.change, q.n, err) : TD_OK);
    return td_trace_each(q.model, write_setting, &r->reply, err);
}

/* ---- log ---- */

/* LogSettingsRequest { settings = 1 map<string, { bool_param = 1, uint32_param = 2, string_param = 3 }> } */
static enum td_code read_log(struct td_wire entry, struct td_arena *a, struct td_log_setting *out,
                             struct td_err *err)
{
    struct td_wire value;
    struct td_field f;
    *out = (struct td_log_setting){.key = ""};
    TD_TRY(td_map_entry_read(entry, a, &out->key, &value, err));
    do {
        TD_TRY(td_wire_next(&value, &f, err));
        if (f.number == 1 && f.type == TD_WIRE_VARINT) {
            out->is_flag = true;
            out->flag = f.value != 0;
        } else if (f.number == 2 && f.type == TD_WIRE_VARINT) {
            out->number = (uint32_t)f.value;
        } else if (f.number == 3 && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_wire_text(f.sub, a, &out->text, err));
        }
    } while (f.number != 0);
    return TD_OK;
}

static enum td_code write_log(struct td_sink *s, const struct td_log_setting *l, struct td_err *err)
{
    const size_t entry = td_put_mark(s);
    TD_TRY(td_put_text(s, 1, l->key, err));
    const size_t value = td_put_mark(s);
    if (l->text != NULL) {
        TD_TRY(td_put_text(s, 3, l->text, err));
    } else {
        TD_TRY(l->is_flag ? td_put_int(s, 1, l->flag, err) : td_put_int(s, 2, l->number, err));
    }
    TD_TRY(td_put_end(s, 2, value, err));
    return td_put_end(s, 1, entry, err);
}

static enum td_code logging(struct td_rpc *r, struct td_arena *a, struct td_err *err)
{
    struct td_log_setting list[MAX_CHANGES], now[TD_LOG_N_SETTINGS];
    struct td_wire w = r->in;
    struct td_field f;
    int n = 0;
    do {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 1 && f.type == TD_WIRE_BYTES) {
            TD_FAIL_IF(n == MAX_CHANGES, err, INVALID_ARGUMENT, "more than %d log settings", MAX_CHANGES);
            TD_TRY(read_log(f.sub, a, &list[n++], err));
        }
    } while (f.number != 0);
    TD_TRY(td_log_settings_set(list, n, err));
    td_log_settings_get(now);
    for (int i = 0; i < TD_LOG_N_SETTINGS; i++) {
        TD_TRY(write_log(&r->reply, &now[i], err));
    }
    return TD_OK;
}

enum td_code td_rpc_trace(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, trace, err);
}

enum td_code td_rpc_logging(struct td_rpc *r, struct td_err *err)
{
    return td_rpc_with_arena(r, logging, err);
}
