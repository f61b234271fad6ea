/* proto/pb/textpb.h - protobuf's text format: saved_model.pbtxt and TF Serving's configuration files.
 *
 *   ProtobufCMessage *m;   a Tensorflow__Serving__ModelServerConfig
 *   td_textpb_parse(&tensorflow__serving__model_server_config__descriptor, text, n, false, &m, &err)
 *
 * Knows nested { } and < >, lists in [ ], strings with escapes that may follow one another, enums by name,
 * maps as repeated entries, comments, and an Any written out as [type.googleapis.com/tensorflow.AssetFileDef]
 * { }. Does not: expand other types of Any, extensions. Errors read "Error parsing text-format
 * PACKAGE.MESSAGE: LINE:COLUMN: what was expected".
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_PB_TEXTPB_H
#define TD_PROTO_PB_TEXTPB_H

#include <protobuf-c/protobuf-c.h>

#include "proto/bytes/sink.h"

#define TD_TEXTPB_DEPTH 64

/* Appends the serialized message to out, whose limit bounds it. skip_unknown: fields without a name in d are
 * read and dropped (our schemas are partial); else they are errors. */
TD_MUST enum td_code td_textpb_to_bytes(const ProtobufCMessageDescriptor *d, const char *text, size_t n,
                                        bool skip_unknown, struct td_sink *out, struct td_err *err);
/* The same as an unpacked message, returned new: td_guard_free it (proto/pb/guard.h). At most 64 MiB of
 * text-made bytes. */
TD_MUST enum td_code td_textpb_parse(const ProtobufCMessageDescriptor *d, const char *text, size_t n,
                                     bool skip_unknown, ProtobufCMessage **out, struct td_err *err);

#endif
