/* proto/request/infer_pb.h - ModelInferRequest and ModelInferResponse of the Open Inference Protocol <->
 * named tensors.
 *
 *   ModelInferRequest   model_name = 1, model_version = 2, id = 3, parameters = 4,
 *                       inputs = 5 { name = 1, datatype = 2, shape = 3, parameters = 4, contents = 5 },
 *                       outputs = 6 { name = 1, parameters = 2 }, raw_input_contents = 7
 *   ModelInferResponse  model_name = 1, model_version = 2, id = 3, parameters = 4,
 *                       outputs = 5, raw_output_contents = 6
 *
 * Tensors come raw (little-endian elements; strings each behind a 4-byte length) or as typed contents;
 * answers are raw, because clients read nothing else. Everything read lives in the arena or borrows the
 * message's bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_REQUEST_INFER_PB_H
#define TD_PROTO_REQUEST_INFER_PB_H

#include "proto/request/infer_param.h"

/* "FP32" <-> TD_FLOAT; TD_DTYPE_NONE and NULL where the protocol has no such type. */
enum td_dtype td_v2_dtype(const char *name);
const char *td_v2_name(enum td_dtype t);

struct td_infer_in {
    const char *name, *datatype;
    struct td_shape shape;
    struct td_infer_place place;
    bool typed;          /* it has contents */
    struct td_wire data; /* its contents, or its raw bytes; nothing when its place is shared memory */
};
/* An output that is wanted. */
struct td_infer_out {
    const char *name;
    struct td_infer_place place;
};
struct td_infer_pb {
    const char *model, *version, *id; /* "" absent */
    struct td_infer_options opts;
    struct td_infer_in *in;
    int n_in;
    struct td_infer_out *out; /* none: all */
    int n_out;
};
TD_MUST enum td_code td_infer_read(struct td_wire w, struct td_arena *a, struct td_infer_pb *out,
                                   struct td_err *err);
/* The tensor of one input; *out is the caller's. */
TD_MUST enum td_code td_infer_tensor(const struct td_infer_in *in, uint64_t max_bytes, struct td_tensor *out,
                                     struct td_err *err);

struct td_infer_answer {
    const char *model, *id;
    int64_t version;
    const struct td_named *out;
    int n_out;
    const struct td_infer_out *asked; /* what was wanted of each; NULL: nothing special */
    bool final;                       /* say that no further answer to the request follows */
};
TD_MUST enum td_code td_infer_write(const struct td_infer_answer *p, struct td_sink *s, struct td_err *err);

/* The bytes of a tensor as raw contents: their number, and they themselves appended. Any dtype of td_v2_name.
 */
size_t td_v2_raw_size(const struct td_tensor *t);
TD_MUST enum td_code td_v2_raw_write(const struct td_tensor *t, struct td_sink *s, struct td_err *err);

#endif
