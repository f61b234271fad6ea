/* server/http/rest_shm.c - shared memory regions over HTTP: of the host and of its GPUs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "proto/json/json_read.h"
#include "server/http/rest.h"
#include "server/base/rest_json.h"
#include "server/request/shm.h"

static enum td_code shm_of(const struct td_rest *rest, struct td_shm **out, struct td_err *err)
{
    TD_FAIL_IF(rest->shm == NULL, err, UNIMPLEMENTED, "shared memory is not served here");
    *out = rest->shm;
    return TD_OK;
}

static enum td_code add_row(void *list, const struct td_shm_row *row, struct td_err *err)
{
    (void)err;
    (void)json_array_append_new(list,
                                json_pack("{s:o, s:o, s:I, s:I}", "name", td_rest_json_text(row->name), "key",
                                          td_rest_json_text(row->key), "offset", (json_int_t)row->offset,
                                          "byte_size", (json_int_t)row->byte_size));
    return TD_OK;
}

enum td_code td_rest_shm_status(struct td_rest *rest, struct td_exchange *x, const struct td_route_args *args,
                                struct td_err *err)
{
    struct td_shm *shm = NULL;
    TD_TRY(shm_of(rest, &shm, err));
    json_t *list = json_array();
    if (td_shm_each(shm, TD_SHM_SYSTEM, args->model, add_row, list, err)) {
        json_decref(list);
        return err->code;
    }
    return td_rest_put_json(&x->out, list, err);
}

/* A whole number of the body; absent: what *out holds. */
static enum td_code get_size(const json_t *doc, const char *key, bool must, uint64_t *out, struct td_err *err)
{
    const json_t *v = json_object_get(doc, key);
    if ((v == NULL && must) || (v != NULL && (!json_is_integer(v) || json_integer_value(v) < 0))) {
        char sent[48] = "absent";
        const size_t n = v != NULL ? json_dumpb(v, sent, sizeof sent - 1, JSON_ENCODE_ANY | JSON_COMPACT) : 6;
        sent[n < sizeof sent ? n : 0] = '\0';
        TD_FAIL(err, INVALID_ARGUMENT, "'%s' must be a whole number, 0 or more, not %s", key, sent);
    }
    *out = v != NULL ? (uint64_t)json_integer_value(v) : *out;
    return TD_OK;
}

static enum td_code add_region(struct td_shm *shm, const char *name, const json_t *doc, struct td_err *err)
{
    const json_t *key = json_object_get(doc, "key");
    uint64_t offset = 0, byte_size = 0;
    TD_FAIL_IF(!json_is_string(key), err, INVALID_ARGUMENT,
               "shared memory region '%s': 'key' must be a JSON string", name);
    if (get_size(doc, "offset", false, &offset, err) || get_size(doc, "byte_size", true, &byte_size, err)) {
        return td_err_wrap(err, "shared memory region '%s'", name);
    }
    return td_shm_register(shm, name, json_string_value(key), offset, byte_size, err);
}

enum td_code td_rest_shm_register(struct td_rest *rest, struct td_exchange *x,
                                  const struct td_route_args *args, struct td_err *err)
{
    struct td_shm *shm = NULL;
    json_t *doc = NULL;
    TD_TRY(shm_of(rest, &shm, err));
    TD_TRY(td_rest_get_json(x->body, x->body_len, &doc, err));
    const enum td_code rc = add_region(shm, args->model, doc, err);
    json_decref(doc);
    return rc;
}

enum td_code td_rest_shm_unregister(struct td_rest *rest, struct td_exchange *x,
                                    const struct td_route_args *args, struct td_err *err)
{
    struct td_shm *shm = NULL;
    (void)x;
    TD_TRY(shm_of(rest, &shm, err));
    td_shm_unregister(shm, TD_SHM_SYSTEM, args->model);
    return TD_OK;
}

/* ------------------------------------------------------------------ memory on GPUs */

static enum td_code add_cuda_row(void *list, const struct td_shm_row *row, struct td_err *err)
{
    (void)err;
    (void)json_array_append_new(list,
                                json_pack("{s:o, s:i, s:I}", "name", td_rest_json_text(row->name),
                                          "device_id", row->device, "byte_size", (json_int_t)row->byte_size));
    return TD_OK;
}

enum td_code td_rest_cuda_status(struct td_rest *rest, struct td_exchange *x,
                                 const struct td_route_args *args, struct td_err *err)
{
    struct td_shm *shm = NULL;
    TD_TRY(shm_of(rest, &shm, err));
    json_t *list = json_array();
    if (td_shm_each(shm, TD_SHM_CUDA, args->model, add_cuda_row, list, err)) {
        json_decref(list);
        return err->code;
    }
    return td_rest_put_json(&x->out, list, err);
}

/* {"raw_handle": {"b64": ".."}, "device_id", "byte_size"} */
static enum td_code add_cuda(struct td_shm *shm, const struct td_route_args *args, const json_t *doc,
                             struct td_err *err)
{
    const json_t *text = json_object_get(json_object_get(doc, "raw_handle"), "b64");
    const size_t len = json_is_string(text) ? json_string_length(text) : 0;
    uint64_t device = 0, byte_size = 0;
    size_t n = 0;
    char *handle = td_arena_alloc(args->arena, len + 1, 1);
    if (handle == NULL) {
        return td_no_memory(err, len, "a handle");
    }
    if (get_size(doc, "device_id", false, &device, err) ||
        get_size(doc, "byte_size", false, &byte_size, err)) {
        return td_err_wrap(err, "shared memory region '%s'", args->model);
    }
    TD_FAIL_IF(len > 0 && !td_json_base64(json_string_value(text), len, handle, &n), err, INVALID_ARGUMENT,
               "shared memory region '%s': failed to decode base64 of 'raw_handle'", args->model);
    return td_shm_register_cuda(shm, args->model, handle, n, (int64_t)device, byte_size, err);
}

enum td_code td_rest_cuda_register(struct td_rest *rest, struct td_exchange *x,
                                   const struct td_route_args *args, struct td_err *err)
{
    struct td_shm *shm = NULL;
    json_t *doc = NULL;
    TD_TRY(shm_of(rest, &shm, err));
    TD_TRY(td_rest_get_json(x->body, x->body_len, &doc, err));
    const enum td_code rc = add_cuda(shm, args, doc, err);
    json_decref(doc);
    return rc;
}

enum td_code td_rest_cuda_unregister(struct td_rest *rest, struct td_exchange *x,
                                     const struct td_route_args *args, struct td_err *err)
{
    struct td_shm *shm = NULL;
    (void)x;
    TD_TRY(shm_of(rest, &shm, err));
    td_shm_unregister(shm, TD_SHM_CUDA, args->model);
    return TD_OK;
}
