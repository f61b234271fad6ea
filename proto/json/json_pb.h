/* proto/json/json_pb.h - JSON into a protobuf-c message, field by field along its descriptor.
 *
 * As protobuf's JSON form has it: fields by the name in the .proto file or in lowerCamelCase, 64-bit integers
 * as numbers or in quotes, enums by name or number, maps as objects, null for what is not given. Keys that
 * the descriptor lacks are errors, or skipped where the caller says so, as the text form's are
 * (proto/pb/textpb.h): our .proto files hold only part of their originals. The inverse of
 * proto/json/pb_json.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_JSON_PB_H
#define TD_PROTO_JSON_JSON_PB_H

#include <protobuf-c/protobuf-c.h>

#include "core/base/status.h"

/* text[n] must be NUL. *out is returned new; td_guard_free it. INVALID_ARGUMENT "Error parsing JSON TYPE:
 * ..." names the field, or the offset in the text. skip_unknown: members without a name in d are passed over.
 */
TD_MUST enum td_code td_json_pb_parse(const ProtobufCMessageDescriptor *d, const char *text, size_t n,
                                      bool skip_unknown, ProtobufCMessage **out, struct td_err *err);

#endif
