/* proto/request/predict_pb.h - PredictRequest and PredictResponse of TensorFlow Serving <-> named tensors.
 *
 *   PredictRequest    model_spec = 1, inputs = 2 map<string, TensorProto>, output_filter = 3
 *   PredictResponse   outputs = 1 map<string, TensorProto>, model_spec = 2
 *
 * Reading takes two steps, so that an unknown model is told before its tensors are copied: td_predict_read
 * finds the parts, td_wire_tensor makes each tensor. Everything read lives in the arena or borrows the
 * message's bytes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_REQUEST_PREDICT_PB_H
#define TD_PROTO_REQUEST_PREDICT_PB_H

#include "proto/pb/wire.h"

struct td_model_spec {
    bool present;
    const char *name; /* "" absent */
    bool has_version;
    int64_t version;
    const char *label;     /* NULL absent */
    const char *signature; /* "" absent */
};
TD_MUST enum td_code td_model_spec_read(struct td_wire w, struct td_arena *a, struct td_model_spec *out,
                                        struct td_err *err);
/* As field `field` of the message being written; signature may be "". */
TD_MUST enum td_code td_model_spec_write(struct td_sink *s, uint32_t field, const char *name,
                                         const char *signature, int64_t version, struct td_err *err);

struct td_named_wire {
    const char *name;
    uint64_t hash; /* of it */
    struct td_wire tensor;
};
struct td_predict_pb {
    struct td_model_spec spec;
    /* a name occurs once; the last entry of the message counts, as in any proto map */
    struct td_named_wire *in;
    int n_in;
    const char **filter;
    int n_filter;
};
TD_MUST enum td_code td_predict_read(struct td_wire w, struct td_arena *a, struct td_predict_pb *out,
                                     struct td_err *err);

struct td_predict_answer {
    const struct td_named *out;
    int n_out;
    const char *name, *signature;
    int64_t version;
    bool as_content; /* tensor_content instead of typed fields */
};
/* *s must be zeroed; it grows once, to the exact size. */
TD_MUST enum td_code td_predict_write(const struct td_predict_answer *p, struct td_sink *s,
                                      struct td_err *err);

/* One map<string, bytes-like> entry {key = 1, value = 2}. */
TD_MUST enum td_code td_map_entry_read(struct td_wire w, struct td_arena *a, const char **key,
                                       struct td_wire *value, struct td_err *err);

#endif
