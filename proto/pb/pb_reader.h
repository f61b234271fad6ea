/* proto/pb/pb_reader.h - what the readers of a graph share: nodes and functions (proto/model/graph_pb.h), op
 * definitions (proto/model/opdef_pb.h) and attribute values (proto/model/attr_pb.h).
 *
 * A graph is read where it lies, field by field (proto/pb/scan.h), straight into the arena: thousands of
 * nodes with some ten thousand attributes, of which protobuf-c would build a message each. Fields of an
 * unexpected wire type are skipped, as unknown ones are; a singular field given twice counts with its last
 * value.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_PB_PB_READER_H
#define TD_PROTO_PB_PB_READER_H

#include "core/base/arena.h"
#include "core/base/status.h"
#include "proto/pb/scan.h"

struct td_pb_reader {
    struct td_arena *arena; /* takes all that is read */
    uint64_t tensor_bytes;  /* what tensors may still take; falls as they are read */
    int depth;              /* attribute values that are open: functions nest them */
    struct td_pb_word {
        const char *s;
        size_t n;
    } names[256]; /* copied lately; see td_pb_name */
};

/* The bytes of f, copied; a NUL follows them. */
TD_MUST enum td_code td_pb_text(struct td_pb_reader *r, const struct td_scan_field *f, const char **out,
                                struct td_err *err);
/* The same for words that come again and again (ops, devices, attributes): one copy serves many. */
TD_MUST enum td_code td_pb_name(struct td_pb_reader *r, const struct td_scan_field *f, const char **out,
                                struct td_err *err);
/* Room for n elements, zeroed; of one where n is 0. */
TD_MUST enum td_code td_pb_room(struct td_pb_reader *r, size_t n, size_t size, void *out, struct td_err *err);
/* INVALID_ARGUMENT for bytes that are not such a message. */
TD_MUST enum td_code td_pb_malformed(const char *message, struct td_err *err);

/* Key and value of a map's entry; false for malformed bytes. */
bool td_pb_entry(const struct td_scan_field *entry, struct td_scan_field *key, struct td_scan_field *value);
static inline bool td_pb_is_bytes(const struct td_scan_field *f, uint32_t number)
{
    return f->number == number && f->type == TD_WIRE_BYTES;
}

#endif
