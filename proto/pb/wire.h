/* proto/pb/wire.h - the protobuf wire format: a bounded reader over scattered bytes, and writers into a
 * td_sink.
 *
 * A message arrives from a socket as several blocks; the reader walks them in place, so that a large field is
 * copied at most once, to where it belongs. A reader is plain data: a position and the number of bytes it may
 * still read; copying it remembers a place. Nothing recurses: a caller opens exactly the nested messages it
 * knows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_PB_WIRE_H
#define TD_PROTO_PB_WIRE_H

#include <stdint.h>

#include "core/base/arena.h"
#include "proto/pb/tensor_pb.h"

struct td_seg {
    const uint8_t *p;
    size_t n;
};

struct td_wire {
    const struct td_seg *seg; /* the block that holds the next byte; borrowed */
    size_t at;                /* offset in it */
    uint64_t left;            /* bytes of this message not read yet; the blocks hold at least these */
};

enum td_wire_type { TD_WIRE_VARINT = 0, TD_WIRE_FIXED64 = 1, TD_WIRE_BYTES = 2, TD_WIRE_FIXED32 = 5 };

struct td_field {
    uint32_t number; /* 0: the message has ended */
    enum td_wire_type type;
    uint64_t value;     /* of a varint or fixed field */
    struct td_wire sub; /* of a bytes field */
};

void td_wire_init(struct td_wire *w, const struct td_seg *seg, size_t n_seg);
/* The next field; groups are skipped. INVALID_ARGUMENT for bytes that are no message. */
TD_MUST enum td_code td_wire_next(struct td_wire *w, struct td_field *f, struct td_err *err);
/* Moves past n <= w->left bytes. */
void td_wire_advance(struct td_wire *w, uint64_t n);
/* Copies all that is left to dst, which has room for w.left bytes. */
void td_wire_copy(struct td_wire w, void *dst);
/* The bytes that are left as one block: in place where they lie together (*owned NULL), else copied (td_free
 * *owned). */
TD_MUST enum td_code td_wire_gather(struct td_wire w, const void **bytes, void **owned, struct td_err *err);
/* A string field with a NUL behind it, in the arena. INVALID_ARGUMENT for one that holds a NUL itself, or is
 * no UTF-8, which protobuf demands of texts: they come up again in JSON, in metrics and in files. */
TD_MUST enum td_code td_wire_text(struct td_wire w, struct td_arena *a, const char **out, struct td_err *err);
/* One element of a packed varint field: false when it is cut short (ask w->left > 0 before). */
bool td_wire_varint(struct td_wire *w, uint64_t *value);
/* One element of a packed fixed field of n = 4 or 8 bytes; false when it is cut short. */
bool td_wire_fixed(struct td_wire *w, size_t n, uint64_t *value);

/* A TensorProto. Bytes of a plain tensor_content, and of a packed float_val or double_val, go straight to the
 * tensor; other forms take td_tensor_from_bytes. */
TD_MUST enum td_code td_wire_tensor(struct td_wire w, uint64_t max_bytes, struct td_tensor *out,
                                    struct td_err *err);

/* The same without its bytes: *out has dtype and shape alone, as they are said. dtype NONE, or a shape of
 * unknown rank: only td_wire_tensor can tell, and will most likely refuse it. */
TD_MUST enum td_code td_wire_tensor_head(struct td_wire w, struct td_tensor *out, struct td_err *err);

/* Writers. Zero values are written too where called: proto3 callers leave them out themselves. */
size_t td_wire_varint_size(uint64_t v);
TD_MUST enum td_code td_put_varint(struct td_sink *s, uint64_t v, struct td_err *err);
TD_MUST enum td_code td_put_int(struct td_sink *s, uint32_t field, int64_t v, struct td_err *err);
TD_MUST enum td_code td_put_float(struct td_sink *s, uint32_t field, float v, struct td_err *err);
TD_MUST enum td_code td_put_double(struct td_sink *s, uint32_t field, double v, struct td_err *err);
TD_MUST enum td_code td_put_bytes(struct td_sink *s, uint32_t field, const void *p, size_t n,
                                  struct td_err *err);
TD_MUST enum td_code td_put_text(struct td_sink *s, uint32_t field, const char *text, struct td_err *err);
/* The head of a bytes field whose n bytes follow. */
TD_MUST enum td_code td_put_head(struct td_sink *s, uint32_t field, size_t n, struct td_err *err);
/* A nested message of unknown size: mark, write its fields, end. end moves them to make room for the length.
 */
size_t td_put_mark(const struct td_sink *s);
TD_MUST enum td_code td_put_end(struct td_sink *s, uint32_t field, size_t mark, struct td_err *err);

#endif
