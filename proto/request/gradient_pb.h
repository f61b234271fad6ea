/* proto/request/gradient_pb.h - tensord.v1.GradientRequest and GradientResponse <-> names and named tensors.
 *
 *   GradientRequest    model_spec = 1, inputs = 2, target = 3, wrt = 4, kind = 5, output_gradients = 6,
 *                      vector = 7, unconnected = 8, recompute = 9
 *   GradientResponse   gradients = 1, unconnected = 2, outputs = 3, model_spec = 4
 *
 * As in predict_pb.h reading takes two steps: the tensors are made when the model is known.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_REQUEST_GRADIENT_PB_H
#define TD_PROTO_REQUEST_GRADIENT_PB_H

#include "proto/request/predict_pb.h"

#define TD_GRADIENT_PB_MOST 4096 /* of each list and map */

/* A map's entries; a name occurs once, the last entry of the message counts. */
struct td_wire_map {
    struct td_named_wire *at;
    const char **name; /* theirs */
    int n;
};
struct td_gradient_pb {
    struct td_predict_pb predict; /* spec and inputs */
    const char **target, **wrt;
    int n_target, n_wrt;
    struct td_wire_map output_gradients, vector;
    const char *kind, *unconnected; /* "" absent */
    bool recompute;
};
TD_MUST enum td_code td_gradient_pb_read(struct td_wire w, struct td_arena *a, struct td_gradient_pb *out,
                                         struct td_err *err);

struct td_gradient_pb_answer {
    const struct td_named *gradients; /* of no dtype: unconnected */
    int n_gradients;
    const struct td_named *outputs;
    int n_outputs;
    const char *name, *signature;
    int64_t version;
    bool as_content; /* tensor_content instead of typed fields */
};
TD_MUST enum td_code td_gradient_pb_write(const struct td_gradient_pb_answer *p, struct td_sink *s,
                                          struct td_err *err);

#endif
