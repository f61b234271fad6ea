/* proto/model/attr_pb.h - AttrValue messages into core/graph/attr.h attributes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_MODEL_ATTR_PB_H
#define TD_PROTO_MODEL_ATTR_PB_H

#include "core/graph/attr.h"
#include "proto/pb/pb_reader.h"

/* The AttrValue that value holds, into *out; name is borrowed for ever (the arena's). A value that is not set
 * has kind NONE. */
TD_MUST enum td_code td_attr_read(struct td_pb_reader *r, const char *name, const struct td_scan_field *value,
                                  struct td_attr *out, struct td_err *err);
/* Room for the n attributes of one node or function. INVALID_ARGUMENT for more than 1024. */
TD_MUST enum td_code td_attrs_room(struct td_pb_reader *r, size_t n, struct td_attr **out,
                                   struct td_err *err);
/* An entry of a map of attributes becomes attrs[*n], and *n one more. _output_shapes is left out: it is
 * large, and shapes are inferred here. INVALID_ARGUMENT for a name given twice. */
TD_MUST enum td_code td_attr_add(struct td_pb_reader *r, const struct td_scan_field *entry,
                                 struct td_attr *attrs, int *n, struct td_err *err);

#endif
