/* proto/opdef_pb.h - OpDef messages (of functions, and of the ops that a file describes) into core/op.h
 * definitions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_OPDEF_PB_H
#define TD_PROTO_OPDEF_PB_H

#include "core/arena.h"
#include "core/op.h"
#include "proto/tensorflow.pb-c.h"

/* Everything of *out is copied to the arena. INVALID_ARGUMENT names op and argument or attribute. */
TD_MUST enum td_code td_opdef_from_proto(const Tensorflow__OpDef *p, struct td_arena *a,
                                         struct td_op_def *out, struct td_err *err);

#endif
