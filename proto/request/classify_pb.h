/* proto/request/classify_pb.h - the messages of Classify, Regress and MultiInference of TensorFlow Serving.
 *
 *   Input   example_list = 1 { examples = 1 }
 *        or example_list_with_context = 2 { examples = 1, context = 2 }
 *
 * Examples stay serialized: the graph parses them. A context is put in front of each example's bytes, which
 * protobuf reads as the two messages merged.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_REQUEST_CLASSIFY_PB_H
#define TD_PROTO_REQUEST_CLASSIFY_PB_H

#include "proto/request/predict_pb.h"

/* A 1-D string tensor of the examples. INVALID_ARGUMENT "Input is empty." without any; RESOURCE_EXHAUSTED
 * when examples and repeated contexts take more than max_bytes. *out is the caller's. */
TD_MUST enum td_code td_input_read(struct td_wire w, uint64_t max_bytes, struct td_tensor *out,
                                   struct td_err *err);

/* ClassificationRequest and RegressionRequest: model_spec = 1, input = 2. */
struct td_examples_pb {
    struct td_model_spec spec;
    struct td_wire input;
};
TD_MUST enum td_code td_examples_read(struct td_wire w, struct td_arena *a, struct td_examples_pb *out,
                                      struct td_err *err);

/* MultiInferenceRequest: tasks = 1 { model_spec = 1, method_name = 2 }, input = 2. */
struct td_task_pb {
    struct td_model_spec spec;
    const char *method;
};
struct td_multi_pb {
    struct td_task_pb *task;
    int n_task;
    struct td_wire input;
};
TD_MUST enum td_code td_multi_read(struct td_wire w, struct td_arena *a, struct td_multi_pb *out,
                                   struct td_err *err);

/* What a classification or regression computed, checked: n examples. */
struct td_scores {
    int64_t n, n_classes;
    const struct td_tensor *classes; /* string [n, n_classes]; NULL: labels are "" */
    const struct td_tensor *scores;  /* float [n, n_classes]; NULL: scores are 0 */
    const struct td_tensor *values;  /* of a regression: float [n] or [n, 1]; else NULL */
};
/* ClassificationResult or RegressionResult as field `field`. */
TD_MUST enum td_code td_scores_write(struct td_sink *s, uint32_t field, const struct td_scores *r,
                                     struct td_err *err);

#endif
