/* proto/json/json_tensor.h - the bodies of TF Serving's REST API: JSON to named tensors and back, in one
 * streaming pass.
 *
 *   {"signature_name": "s", "instances": [ ... ]}    row form: one element per example
 *   {"signature_name": "s", "inputs": ... }          columnar form: whole tensors
 *
 * td_json_body finds the parts first, since signature_name (and with it the dtypes) may come last;
 * td_json_inputs then reads values straight into tensors of the wanted dtypes. No tree is built and nesting
 * is bounded by TD_MAX_RANK.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_JSON_TENSOR_H
#define TD_PROTO_JSON_JSON_TENSOR_H

#include "core/base/arena.h"
#include "core/base/tensor.h"
#include "proto/bytes/sink.h"
#include "proto/json/json_read.h"

enum td_json_form { TD_JSON_NO_FORM, TD_JSON_ROWS, TD_JSON_COLUMNS };

struct td_json_body {
    const char *signature; /* the arena's; "" when not given */
    enum td_json_form form;
    struct td_json value; /* at the value of instances or inputs; borrows the text */
    struct td_json root;  /* at the first member of the top-level object, for keys of other APIs */
};
/* text[n] must be NUL and text must outlive the body. Bytes after the first complete object are ignored, as
 * are unknown keys. NO_FORM when neither key is there. */
TD_MUST enum td_code td_json_body(const char *text, size_t n, struct td_arena *arena,
                                  struct td_json_body *out, struct td_err *err);
/* The same of a body of which a value was read ahead (NULL: none was), which has been shown all of it. */
TD_MUST enum td_code td_json_body_ahead(const char *text, size_t n, struct td_json_ahead *ahead,
                                        struct td_arena *arena, struct td_json_body *out, struct td_err *err);
/* The value of a top-level key, or false. */
bool td_json_body_find(const struct td_json_body *b, const char *key, struct td_json *value);

/* An input that the signature declares. */
struct td_json_field {
    const char *name;
    enum td_dtype dtype; /* wanted */
    bool optional;       /* has a default: may be missing */
};
/* Fills out[0..*n_out) with the tensors given, names borrowed from fields; out has room for n_fields. Nothing
 * is left to clear on failure. INVALID_ARGUMENT in TF Serving's words. */
TD_MUST enum td_code td_json_inputs(const struct td_json_body *b, const struct td_json_field *fields,
                                    int n_fields, struct td_named *out, int *n_out, struct td_err *err);

/* {"predictions": [...]} or {"outputs": ...}. Outputs whose name ends in _bytes are written as base64.
 * INVALID_ARGUMENT when rows cannot be told apart. */
TD_MUST enum td_code td_json_outputs(struct td_sink *s, const struct td_named *out, int n,
                                     enum td_json_form form, struct td_err *err);
/* {"name": value, ..}; a tensor of no dtype is null, and (lenient) one of a dtype that JSON has no form
 * for. */
TD_MUST enum td_code td_json_put_object(struct td_sink *s, const struct td_named *t, int n, bool lenient,
                                        struct td_err *err);
/* Elements from i on of dims[axis..rank) of t as nested lists. */
TD_MUST enum td_code td_json_put_dims(struct td_sink *s, const struct td_tensor *t, int axis, int64_t i,
                                      bool b64, struct td_err *err);

#endif
