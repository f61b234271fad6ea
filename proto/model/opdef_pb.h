/* proto/model/opdef_pb.h - OpDef messages (of functions, and of the ops that a file describes) into
 * core/graph/op.h definitions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_MODEL_OPDEF_PB_H
#define TD_PROTO_MODEL_OPDEF_PB_H

#include "core/graph/graph.h"
#include "proto/pb/pb_reader.h"

/* Everything of *out is copied to the arena. INVALID_ARGUMENT names op and argument or attribute. */
TD_MUST enum td_code td_opdef_read(struct td_pb_reader *r, const struct td_scan_field *op,
                                   struct td_op_def *out, struct td_err *err);
/* lib->file_ops from a serialized OpList, a meta graph's stripped_op_list. */
TD_MUST enum td_code td_file_ops_from_bytes(const void *bytes, size_t n, struct td_library *lib,
                                            struct td_err *err);

#endif
