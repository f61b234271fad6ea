/* proto/json/infer_json.h - inference requests and answers of the Open Inference Protocol over HTTP: one JSON
 * object, then the bytes of its binary tensors, in the order of the object's lists.
 *
 *   {"id": "7", "parameters": {"signature_name": "s", "binary_data_output": true},
 *    "inputs":  [{"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]},
 *                {"name": "z", "shape": [2], "datatype": "FP32", "parameters": {"binary_data_size": 8}}],
 *    "outputs": [{"name": "y", "parameters": {"binary_data": true, "classification": 3}}]}
 *
 * Data may be nested or flat: only the number of elements counts. Beyond the protocol FP16 and BF16 travel as
 * JSON numbers, and strings that are not UTF-8 as {"b64": "..."}, both ways. What is read borrows the body's
 * bytes or lives in the arena; no tree is built.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_INFER_JSON_H
#define TD_PROTO_JSON_INFER_JSON_H

#include "proto/request/infer_pb.h"
#include "proto/json/json_ahead.h"

struct td_infer_json_in {
    struct td_infer_in raw; /* name, datatype, shape, place, and its bytes when they are in the body */
    struct td_json data;    /* its value in JSON; at NULL: none */
    struct td_seg seg;      /* what raw.data reads */
};
struct td_infer_json {
    const char *id;
    struct td_infer_options opts;
    struct td_infer_json_in *in;
    int n_in;
    struct td_infer_out *out; /* outputs wanted, each told whether to be binary; none: all */
    int n_out;
    struct td_json_ahead ahead; /* of one of in, until its tensor is made */
};
/* What is known of the model by the time that the text is read: the inputs that it may want. */
struct td_infer_json_known {
    const struct td_json_field *fields;
    int n_fields;
    struct td_thread_pool *pool; /* reads large data; NULL: nobody helps, and nothing is read ahead */
};

/* Reads body[0..n), whose first n_json bytes are the object; body[n] must be NUL. Large data of a known
 * input is read at once. *out stays where it is, and is td_infer_json_fini's also after an error:
 * INVALID_ARGUMENT. */
TD_MUST enum td_code td_infer_json_read(const char *body, size_t n, size_t n_json, struct td_arena *a,
                                        const struct td_infer_json_known *known, struct td_infer_json *out,
                                        struct td_err *err);
void td_infer_json_fini(struct td_infer_json *p); /* accepts a zeroed one */
/* The tensor of one input that is not in shared memory; *out is the caller's. */
TD_MUST enum td_code td_infer_json_tensor(const struct td_infer_json_in *in, uint64_t max_bytes,
                                          struct td_tensor *out, struct td_err *err);

struct td_infer_json_answer {
    const char *model, *id;
    int64_t version;
    const struct td_named *out;
    const bool *binary; /* of each output */
    int n_out;
    const struct td_infer_out *asked; /* what was wanted of each; NULL: nothing special */
};
/* *n_json: the bytes of the JSON object when binary tensors follow it, else 0. */
TD_MUST enum td_code td_infer_json_write(const struct td_infer_json_answer *p, struct td_sink *s,
                                         size_t *n_json, struct td_err *err);

#endif
