/* server/http/rest_shm.c - shared memory regions over HTTP: of the host and of its GPUs.
 *
 * The two kinds differ in the members of a body and of a row; a small table has a function for each, and
 * status, adding and removing are written once. A region's name is the target's. A handle of a GPU's memory
 * comes as base64, and is passed on as the bytes it is.
 *
 * Does not: open or read memory (server/request/shm.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "proto/json/json_read.h"
#include "server/http/rest.h"
#include "server/base/rest_json.h"
#include "server/request/shm.h"

static enum td_code add_row(void *list, const struct td_shm_row *row, struct td_err *err)
{
    (void)err;
    (void)json_array_append_new(list,
                                json_pack("{s:o, s:o, s:I, s:I}", "name", td_rest_json_text(row->name), "key",
                                          td_rest_json_text(row->key), "offset", (json_int_t)row->offset,
                                          "byte_size", (json_int_t)row->byte_size));
    return TD_OK;
}

static enum td_code add_cuda_row(void *list, const struct td_shm_row *row, struct td_err *err)
{
    (void)err;
    (void)json_array_append_new(list,
                                json_pack("{s:o, s:i, s:I}", "name", td_rest_json_text(row->name),
                                          "device_id", row->device, "byte_size", (json_int_t)row->byte_size));
    return TD_OK;
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

/* {"key", "offset", "byte_size"} */
static enum td_code add_region(struct td_shm *shm, const char *owner, const struct td_exchange *x,
                               const json_t *doc, struct td_err *err)
{
    const json_t *key = json_object_get(doc, "key");
    uint64_t offset = 0, byte_size = 0;
    TD_FAIL_IF(!json_is_string(key), err, INVALID_ARGUMENT,
               "shared memory region '%s': 'key' must be a JSON string", x->r.model);
    if (get_size(doc, "offset", false, &offset, err) || get_size(doc, "byte_size", true, &byte_size, err)) {
        return td_err_wrap(err, "shared memory region '%s'", x->r.model);
    }
    return td_shm_register(shm, owner, x->r.model, json_string_value(key), offset, byte_size, err);
}

/* {"raw_handle": {"b64": ".."}, "device_id", "byte_size"} */
static enum td_code add_cuda(struct td_shm *shm, const char *owner, const struct td_exchange *x,
                             const json_t *doc, struct td_err *err)
{
    const json_t *text = json_object_get(json_object_get(doc, "raw_handle"), "b64");
    const size_t len = json_is_string(text) ? json_string_length(text) : 0;
    uint64_t device = 0, byte_size = 0;
    size_t n = 0;
    char *handle = td_arena_alloc(x->r.arena, len + 1, 1);
    if (handle == NULL) {
        return td_no_memory(err, len, "a handle");
    }
    if (get_size(doc, "device_id", false, &device, err) ||
        get_size(doc, "byte_size", false, &byte_size, err)) {
        return td_err_wrap(err, "shared memory region '%s'", x->r.model);
    }
    TD_FAIL_IF(len > 0 && !td_json_base64(json_string_value(text), len, handle, &n), err, INVALID_ARGUMENT,
               "shared memory region '%s': failed to decode base64 of 'raw_handle'", x->r.model);
    const struct td_shm_handle h = {handle, n, (int64_t)device};
    return td_shm_register_cuda(shm, owner, x->r.model, &h, byte_size, err);
}

/* What the two kinds of memory differ in. */
static const struct kind {
    td_shm_row_fn *add_row;
    enum td_code (*add)(struct td_shm *shm, const char *owner, const struct td_exchange *x, const json_t *doc,
                        struct td_err *err);
} KINDS[] = {[TD_SHM_SYSTEM] = {add_row, add_region}, [TD_SHM_CUDA] = {add_cuda_row, add_cuda}};

static enum td_code check_served(const struct td_rest *rest, struct td_err *err)
{
    TD_FAIL_IF(rest->shm == NULL, err, UNIMPLEMENTED, "shared memory is not served here");
    return TD_OK;
}

static enum td_code status(struct td_rest *rest, struct td_exchange *x, enum td_shm_kind kind,
                           struct td_err *err)
{
    char owner[TD_OWNER_CHARS];
    td_rest_owner(rest, x, owner);
    TD_TRY(check_served(rest, err));
    json_t *list = json_array();
    if (td_shm_each(rest->shm, owner, kind, x->r.model, KINDS[kind].add_row, list, err)) {
        json_decref(list);
        return err->code;
    }
    return td_rest_put_json(&x->out, list, err);
}

static enum td_code add(struct td_rest *rest, struct td_exchange *x, enum td_shm_kind kind,
                        struct td_err *err)
{
    char owner[TD_OWNER_CHARS];
    json_t *doc = NULL;
    td_rest_owner(rest, x, owner);
    TD_TRY(check_served(rest, err));
    TD_TRY(td_rest_get_json(x->body, x->body_len, &doc, err));
    const enum td_code rc = KINDS[kind].add(rest->shm, owner, x, doc, err);
    json_decref(doc);
    return rc;
}

static enum td_code drop(struct td_rest *rest, struct td_exchange *x, enum td_shm_kind kind,
                         struct td_err *err)
{
    char owner[TD_OWNER_CHARS];
    td_rest_owner(rest, x, owner);
    TD_TRY(check_served(rest, err));
    td_shm_unregister(rest->shm, owner, kind, x->r.model);
    return TD_OK;
}

enum td_code td_rest_shm_status(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return status(rest, x, TD_SHM_SYSTEM, err);
}

enum td_code td_rest_shm_register(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return add(rest, x, TD_SHM_SYSTEM, err);
}

enum td_code td_rest_shm_unregister(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return drop(rest, x, TD_SHM_SYSTEM, err);
}

enum td_code td_rest_cuda_status(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return status(rest, x, TD_SHM_CUDA, err);
}

enum td_code td_rest_cuda_register(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return add(rest, x, TD_SHM_CUDA, err);
}

enum td_code td_rest_cuda_unregister(struct td_rest *rest, struct td_exchange *x, struct td_err *err)
{
    return drop(rest, x, TD_SHM_CUDA, err);
}
