/* server/grpc/grpc_document.h - a document of the HTTP API as a message of tensord.v1: members go to the
 * fields of their names.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRPC_GRPC_DOCUMENT_H
#define TD_SERVER_GRPC_GRPC_DOCUMENT_H

#include <jansson.h>
#include <protobuf-c/protobuf-c.h>

#include "proto/bytes/sink.h"

/* Appends the fields of a message of type d. Members without a field of their name are left out, as is null;
 * an object or list where the field is a string becomes its JSON text. INTERNAL names a member whose kind is
 * not its field's. */
TD_MUST enum td_code td_grpc_put_document(struct td_sink *s, const ProtobufCMessageDescriptor *d,
                                          const json_t *doc, struct td_err *err);

#endif
