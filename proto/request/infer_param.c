/* proto/request/infer_param.c - parameters by name: one chain of comparisons for requests, one for tensors.
 *
 * A value comes with the kind that its wire gave it; flag, text and whole say which kinds a name takes, and
 * phrase the refusal in the words of the wire it came by (JSON shows the value that was sent). What a
 * tensor's parameters say is collected one by one in a td_infer_place, in any order, and checked for what
 * needs or excludes what once all are in.
 *
 * Does not: parse JSON (proto/json/infer_json.c), know shared memory regions (server/request/shm.c), apply
 * anything.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/request/infer_param.h"

#include <limits.h>
#include <string.h>

#include "proto/request/predict_pb.h"

enum td_code td_infer_param_read(struct td_wire entry, struct td_arena *a, struct td_infer_param *out,
                                 struct td_err *err)
{
    struct td_wire value;
    struct td_field f;
    *out = (struct td_infer_param){.key = "", .text = ""};
    TD_TRY(td_map_entry_read(entry, a, &out->key, &value, err));
    for (;;) {
        TD_TRY(td_wire_next(&value, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        if (f.number == 1 && f.type == TD_WIRE_VARINT) {
            out->kind = TD_PARAM_FLAG;
            out->flag = f.value != 0;
        } else if (f.number == 2 && f.type == TD_WIRE_VARINT) {
            out->kind = TD_PARAM_INT;
            out->i = (int64_t)f.value;
        } else if (f.number == 3 && f.type == TD_WIRE_BYTES) {
            out->kind = TD_PARAM_TEXT;
            TD_TRY(td_wire_text(f.sub, a, &out->text, err));
        } else if (f.number == 4) {
            out->kind = TD_PARAM_OTHER;
        } else if (f.number == 5 && f.type == TD_WIRE_VARINT) {
            out->kind = TD_PARAM_UINT;
            out->u = f.value;
        }
    }
}

/* ---- values of a type ---- */

static enum td_code bad(const struct td_infer_param *p, const char *json, const char *pb, struct td_err *err)
{
    TD_FAIL_IF(p->json, err, INVALID_ARGUMENT, "'%s' must be %s, not %.*s", p->key, json, p->n_sent, p->sent);
    TD_FAIL(err, INVALID_ARGUMENT, "invalid value type for '%s' parameter, expected %s.", p->key, pb);
}

static enum td_code flag(const struct td_infer_param *p, bool *out, struct td_err *err)
{
    if (p->kind != TD_PARAM_FLAG) {
        return bad(p, "true or false", "bool_param", err);
    }
    *out = p->flag;
    return TD_OK;
}

static enum td_code text(const struct td_infer_param *p, const char **out, struct td_err *err)
{
    if (p->kind != TD_PARAM_TEXT) {
        return bad(p, "a JSON string", "string_param", err);
    }
    *out = p->text;
    return TD_OK;
}

static enum td_code whole(const struct td_infer_param *p, uint64_t *out, struct td_err *err)
{
    static const char rule[] = "a whole number, 0 or more";
    if (p->kind != TD_PARAM_INT && p->kind != TD_PARAM_UINT) {
        return bad(p, rule, "int64_param", err);
    }
    TD_FAIL_IF(p->kind == TD_PARAM_INT && p->i < 0, err, INVALID_ARGUMENT,
               "invalid value for '%s' parameter: %lld must be %s", p->key, (long long)p->i, rule);
    *out = p->kind == TD_PARAM_INT ? (uint64_t)p->i : p->u;
    return TD_OK;
}

/* ---- a request ---- */

static enum td_code sequence(const struct td_infer_param *p, struct td_err *err)
{
    if (strcmp(p->key, "sequence_id") == 0) {
        const bool ok = p->kind == TD_PARAM_INT || p->kind == TD_PARAM_UINT || p->kind == TD_PARAM_TEXT;
        return ok ? TD_OK : bad(p, "a whole number or a JSON string", "int64_param or string_param", err);
    }
    bool ignored;
    return flag(p, &ignored, err);
}

enum td_code td_infer_option_set(struct td_infer_options *o, const struct td_infer_param *p,
                                 struct td_err *err)
{
    if (strcmp(p->key, "signature_name") == 0) {
        return text(p, &o->signature, err);
    }
    if (strcmp(p->key, "binary_data_output") == 0) {
        return flag(p, &o->binary_output, err);
    }
    if (strcmp(p->key, "priority") == 0) {
        uint64_t v = 0;
        TD_TRY(whole(p, &v, err));
        o->priority = v < INT_MAX ? (int)v : INT_MAX;
        return TD_OK;
    }
    if (strcmp(p->key, "timeout") == 0) {
        return whole(p, &o->timeout_us, err);
    }
    if (strcmp(p->key, "sequence_id") == 0 || strcmp(p->key, "sequence_start") == 0 ||
        strcmp(p->key, "sequence_end") == 0) {
        return sequence(p, err);
    }
    TD_FAIL_IF(strncmp(p->key, "triton_", 7) == 0 &&
                   strcmp(p->key, "triton_enable_empty_final_response") != 0,
               err, INVALID_ARGUMENT,
               "parameter keys starting with 'triton_' are reserved for Triton usage and should not be "
               "specified, as '%s' is",
               p->key);
    return TD_OK;
}

/* ---- a tensor ---- */

enum td_code td_infer_place_set(struct td_infer_place *place, const char *name,
                                const struct td_infer_param *p, struct td_err *err)
{
    uint64_t n = 0;
    enum td_code rc = TD_OK;
    if (strcmp(p->key, "shared_memory_region") == 0) {
        rc = text(p, &place->region, err);
    } else if (strcmp(p->key, "shared_memory_offset") == 0) {
        rc = whole(p, &place->offset, err);
    } else if (strcmp(p->key, "shared_memory_byte_size") == 0) {
        place->sized = true;
        rc = whole(p, &place->bytes, err);
    } else if (strcmp(p->key, "binary_data_size") == 0) {
        place->in_body = true;
        rc = whole(p, &place->body_bytes, err);
    } else if (strcmp(p->key, "binary_data") == 0) {
        place->told = true;
        rc = flag(p, &place->binary, err);
    } else if (strcmp(p->key, "classification") == 0) {
        rc = whole(p, &n, err);
        place->classes = n < INT32_MAX ? (int64_t)n : INT32_MAX;
    }
    return rc ? td_err_wrap(err, "tensor '%s'", name) : TD_OK;
}

enum td_code td_infer_place_check(const struct td_infer_place *place, const char *name, struct td_err *err)
{
    const bool shared = place->region != NULL;
    TD_FAIL_IF(
        !shared && (place->sized || place->offset > 0), err, INVALID_ARGUMENT,
        "tensor '%s': 'shared_memory_byte_size' and 'shared_memory_offset' need 'shared_memory_region'",
        name);
    TD_FAIL_IF(shared && !place->sized, err, INVALID_ARGUMENT,
               "tensor '%s': 'shared_memory_region' needs 'shared_memory_byte_size'", name);
    TD_FAIL_IF(shared && place->in_body, err, INVALID_ARGUMENT,
               "tensor '%s': 'shared_memory_region' and 'binary_data_size' exclude each other", name);
    TD_FAIL_IF(shared && place->classes > 0, err, INVALID_ARGUMENT,
               "tensor '%s': 'shared_memory_region' and 'classification' exclude each other", name);
    return TD_OK;
}
