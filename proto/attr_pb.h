/* proto/attr_pb.h - AttrValue messages into core/attr.h attributes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_ATTR_PB_H
#define TD_PROTO_ATTR_PB_H

#include "core/arena.h"
#include "core/attr.h"
#include "proto/tensorflow.pb-c.h"

struct td_attr_reader {
    struct td_arena *arena;
    uint64_t tensor_bytes; /* what tensors may still take; falls as they are read */
};

/* One value into *out; name is borrowed for ever (the arena's). A value that is not set has kind NONE. */
TD_MUST enum td_code td_attr_from_proto(struct td_attr_reader *r, const char *name,
                                        const Tensorflow__AttrValue *v, struct td_attr *out,
                                        struct td_err *err);
/* A map of them, as nodes have it; protobuf-c gives the entries of every such map the same layout.
 * INVALID_ARGUMENT for a name given twice. */
TD_MUST enum td_code td_attrs_from_proto(struct td_attr_reader *r,
                                         Tensorflow__NodeDef__AttrEntry *const *entries, size_t n,
                                         struct td_attr **out, int *n_out, struct td_err *err);

#endif
