/* proto/pb/descriptors.h - the descriptors of all our .proto files, for server reflection.
 *
 * The bytes are a FileDescriptorSet that protoc-c writes at build time (proto/schema/descriptors.cmake makes
 * C of it).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_PB_DESCRIPTORS_H
#define TD_PROTO_PB_DESCRIPTORS_H

#include <stddef.h>

#include "proto/bytes/sink.h"

extern const unsigned char td_descriptors_bytes[];
extern const size_t td_descriptors_size;

/* Appends file_descriptor_proto = 1 fields: the file that is named so, or that defines the message, enum,
 * service, method, field, oneof or enum value of that full name, and all it imports. NOT_FOUND. */
TD_MUST enum td_code td_descriptors_file(const char *name, struct td_sink *s, struct td_err *err);
TD_MUST enum td_code td_descriptors_symbol(const char *symbol, struct td_sink *s, struct td_err *err);

#endif
