/* proto/graph_pb.h - GraphDef, FunctionDef, OpDef and AttrValue into core/graph.h structures.
 *
 * Everything lands in the arena of the graph and library given; nothing keeps pointing into the messages.
 * td_graph_resolve links the result afterwards. Constants are checked as a SavedModel loader must: they have
 * a value, of full shape, of their own dtype. Reference dtypes (+100) become their base.
 *
 * Functions get one "_Arg" node an argument (attributes T and index, named like the argument). Functions
 * whose arguments are lists (N*T, list(type)) are left out: whoever calls one finds an op without definition.
 * The attribute _output_shapes is left out as well: it is large, and shapes are inferred here.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_GRAPH_PB_H
#define TD_PROTO_GRAPH_PB_H

#include "core/graph.h"

struct Tensorflow__GraphDef;
struct Tensorflow__OpList;
struct Tensorflow__AttrValue;
struct Tensorflow__TensorShapeProto;

/* tensor_bytes bounds the sum of all constants. FAILED_PRECONDITION for a bad constant, else
 * INVALID_ARGUMENT; texts name node and attribute. */
TD_MUST enum td_code td_graph_from_proto(const struct Tensorflow__GraphDef *def, uint64_t tensor_bytes,
                                         struct td_graph *g, struct td_library *lib, struct td_err *err);
/* lib->file_ops from stripped_op_list (NULL: none). */
TD_MUST enum td_code td_file_ops_from_proto(const struct Tensorflow__OpList *ops, struct td_library *lib,
                                            struct td_err *err);

/* An absent message, or unknown_rank, is an unknown rank. */
TD_MUST enum td_code td_shape_from_proto(const struct Tensorflow__TensorShapeProto *p, struct td_shape *out,
                                         struct td_err *err);
/* A DataType number as a dtype: base of references; TD_DTYPE_NONE for 0 and for types that have no place here
 * (float8, int4); INVALID_ARGUMENT for a number that is no type. */
TD_MUST enum td_code td_dtype_from_number(int number, enum td_dtype *out, struct td_err *err);

#endif
