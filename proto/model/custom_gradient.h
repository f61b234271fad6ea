/* proto/model/custom_gradient.h - what the object graph tells of the gradient functions in a file
 * (tf.custom_gradient, saved with experimental_custom_gradients).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_MODEL_CUSTOM_GRADIENT_H
#define TD_PROTO_MODEL_CUSTOM_GRADIENT_H

#include "core/graph/graph.h"

/* Completes lib->gradients, whose names were read with the functions; those that the object graph
 * (serialized, borrowed) does not tell enough of are dropped. */
TD_MUST enum td_code td_custom_gradients_complete(struct td_bytes object_graph, struct td_library *lib,
                                                  struct td_err *err);

#endif
