/* proto/model/graph_write.h - nodes and attributes of core/graph as NodeDef and AttrValue messages: the other
 * way round of proto/model/graph_pb.h and attr_pb.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_MODEL_GRAPH_WRITE_H
#define TD_PROTO_MODEL_GRAPH_WRITE_H

#include "core/graph/graph.h"
#include "proto/bytes/sink.h"

/* Appends a as an AttrValue, without its own length. */
TD_MUST enum td_code td_attr_write(struct td_sink *s, const struct td_attr *a, struct td_err *err);
/* Appends n, a resolved node of a main graph, as field `field` of a message (GraphDef.node is 1). Its inputs
 * are written from its edges. Attributes that have the default of n's definition are left out, as
 * TensorFlow's exporter does, so that readers which do not know them yet are not disturbed. */
TD_MUST enum td_code td_node_write(struct td_sink *s, uint32_t field, const struct td_node *n,
                                   struct td_err *err);
/* Appends shape as a TensorShapeProto, without its own length. */
TD_MUST enum td_code td_shape_write(struct td_sink *s, const struct td_shape *shape, struct td_err *err);

#endif
