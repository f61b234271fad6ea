/* proto/model/graph_pb.h - GraphDef and its functions into core/graph/graph.h structures.
 *
 * Everything lands in the arena of the graph and library given; nothing keeps pointing into the bytes.
 * td_graph_resolve links the result afterwards. Constants are checked as a SavedModel loader must: they have
 * a value, of full shape, of their own dtype. Reference dtypes (+100) become their base.
 *
 * Functions get one "_Arg" node an argument (attributes T and index, named like the argument). Those with
 * attributes of their own are templates (core/graph/instantiate.h). The attribute _output_shapes is left out:
 * it is large, and shapes are inferred here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_MODEL_GRAPH_PB_H
#define TD_PROTO_MODEL_GRAPH_PB_H

#include "core/graph/graph.h"

/* A serialized GraphDef, in n_parts that follow one another as protobuf merges them (most files have one).
 * tensor_bytes bounds the sum of all constants. FAILED_PRECONDITION for a bad constant, RESOURCE_EXHAUSTED
 * past the arena's limit, else INVALID_ARGUMENT (also for a graph that says it is too new); texts name node
 * and attribute. */
TD_MUST enum td_code td_graph_from_bytes(const struct td_bytes *parts, int n_parts, uint64_t tensor_bytes,
                                         struct td_graph *g, struct td_library *lib, struct td_err *err);

#endif
