/* proto/pb/guard.h - the only way serialized protobuf becomes a protobuf-c message.
 *
 * protobuf-c recurses once a nesting level and allocates as the bytes tell it to. td_guard_unpack first walks
 * the bytes without recursion, along the message's descriptor, and refuses nesting beyond TD_GUARD_DEPTH,
 * malformed or cut fields, and messages whose unpacked form would pass max_bytes. A text that holds a NUL
 * ends there for whoever reads it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_PB_GUARD_H
#define TD_PROTO_PB_GUARD_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

#define TD_GUARD_DEPTH 100 /* protobuf's own default */

/* Checks, then unpacks. *out is returned new; td_guard_free it. Cast it to the generated struct.
 * INVALID_ARGUMENT for malformed or too deep, RESOURCE_EXHAUSTED for too big; both name the message type. */
TD_MUST enum td_code td_guard_unpack(const ProtobufCMessageDescriptor *d, const void *bytes, size_t n,
                                     uint64_t max_bytes, ProtobufCMessage **out, struct td_err *err);
/* The same of what a client sent: INVALID_ARGUMENT also for a text that is no UTF-8, which protobuf does not
 * allow, and which would come up again in JSON, in metrics and in files. */
TD_MUST enum td_code td_guard_unpack_sent(const ProtobufCMessageDescriptor *d, const void *bytes, size_t n,
                                          uint64_t max_bytes, ProtobufCMessage **out, struct td_err *err);
/* Accepts NULL. For any generated struct: td_guard_free(&m->base). */
void td_guard_free(ProtobufCMessage *m);

#endif
