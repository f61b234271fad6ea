/* proto/json/pb_json.h - a protobuf-c message as JSON, field by field along its descriptor.
 *
 * Names are those of the .proto file; every scalar is written, also where it has its default; messages and
 * choices that are not set are left out; enums go by name, maps as objects, 64-bit integers as numbers. That
 * is how Triton writes a model's configuration.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_PB_JSON_H
#define TD_PROTO_JSON_PB_JSON_H

#include <protobuf-c/protobuf-c.h>

#include "proto/bytes/sink.h"

TD_MUST enum td_code td_pb_json_write(const ProtobufCMessage *m, struct td_sink *s, struct td_err *err);

#endif
