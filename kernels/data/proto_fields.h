/* kernels/data/proto_fields.h - descriptions of protobuf messages' fields, for EncodeProto and DecodeProtoV2.
 *
 * A message is found among TensorFlow's own example and tensor messages ("local://"), or in a serialized
 * FileDescriptorSet that the node carries ("bytes://...").
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_DATA_PROTO_FIELDS_H
#define TD_KERNELS_DATA_PROTO_FIELDS_H

#include "core/graph/attr.h"
#include "core/base/status.h"

/* Numbers of FieldDescriptorProto.Type. */
enum td_proto_type {
    TD_PROTO_DOUBLE = 1,
    TD_PROTO_FLOAT = 2,
    TD_PROTO_INT64 = 3,
    TD_PROTO_UINT64 = 4,
    TD_PROTO_INT32 = 5,
    TD_PROTO_FIXED64 = 6,
    TD_PROTO_FIXED32 = 7,
    TD_PROTO_BOOL = 8,
    TD_PROTO_STRING = 9,
    TD_PROTO_MESSAGE = 11,
    TD_PROTO_BYTES = 12,
    TD_PROTO_UINT32 = 13,
    TD_PROTO_ENUM = 14,
    TD_PROTO_SFIXED32 = 15,
    TD_PROTO_SFIXED64 = 16,
    TD_PROTO_SINT32 = 17,
    TD_PROTO_SINT64 = 18
};

struct td_proto_field {
    uint32_t number;
    enum td_proto_type type;
    bool repeated, packed;
};

/* Field `name` of `message` ("tensorflow.Feature") in the descriptors of `source`. INVALID_ARGUMENT for an
 * unknown message or field, UNIMPLEMENTED for another kind of source. */
TD_MUST enum td_code td_proto_field_find(struct td_bytes source, const char *message, const char *name,
                                         struct td_proto_field *out, struct td_err *err);
/* Whether tensors of dtype hold values of the type. */
bool td_proto_type_fits(enum td_proto_type type, enum td_dtype dtype);

#endif
