/* proto/model/call_module.h - nodes XlaCallModule become calls of functions.
 *
 * Models exported from JAX (jax2tf, Keras with JAX, torch_xla) hold their computation in one attribute of
 * such a node: a StableHLO module (proto/stablehlo/hlo_read.h). Each becomes a PartitionedCall of the
 * function that its main became (proto/hlo_graph/hlo_translate.h), and the engine need not know where that
 * came from.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_MODEL_CALL_MODULE_H
#define TD_PROTO_MODEL_CALL_MODULE_H

#include "core/graph/graph.h"

/* All such nodes of g and of lib, both resolved, which get further nodes and functions. A module with
 * something that is not supported stays a node of an unknown op, whose name says what, for whoever reaches
 * it. INVALID_ARGUMENT or DATA_LOSS names a node whose module is no such thing or does not fit it. */
TD_MUST enum td_code td_call_modules(struct td_graph *g, struct td_library *lib,
                                     const struct td_op_table *ops, struct td_err *err);

#endif
