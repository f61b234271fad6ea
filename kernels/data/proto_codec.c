/* kernels/data/proto_codec.c - EncodeProto and DecodeProtoV2: fields of protobuf messages as tensors.
 *
 *   encode: sizes [batch..., fields], values[f] [batch..., most] -> bytes [batch...]
 *   decode: bytes [batch...] -> sizes [batch..., fields], values[f] [batch..., most]
 *           (most is 1 of a single field)
 *
 * Fields are described by proto_fields.h. Nested messages are strings. The text format is not read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "core/base/work.h"
#include "kernels/ops.h"
#include "kernels/data/proto_fields.h"
#include "kernels/text/strbuf.h"
#include "proto/pb/scan.h"

#include <stdlib.h>
#include <string.h>

struct column {
    struct td_proto_field field;
    int i; /* position in field_names */
};

/* Field i of the node, of a type that tensors of dtype hold. */
static enum td_code find_field(const struct td_node *n, int i, enum td_dtype dtype, struct td_proto_field *f,
                               struct td_err *err)
{
    int count;
    const struct td_bytes *names = td_attr_strs(n, "field_names", &count);
    const char *message = td_attr_str(n, "message_type");
    TD_TRY(td_proto_field_find(td_attr_bytes(n, "descriptor_source"), message, names[i].p, f, err));
    TD_FAIL_IF(!td_proto_type_fits(f->type, dtype), err, INVALID_ARGUMENT,
               "%s: Incompatible type for field %.100s of %.100s: %s", TD_NODE_STR(n), names[i].p, message,
               td_dtype_name(dtype));
    return TD_OK;
}

static enum td_code find_fields(const struct td_node *n, const char *types, struct td_err *err)
{
    int n_types;
    const enum td_dtype *type = td_attr_types(n, types, &n_types);
    struct td_proto_field f;
    TD_FAIL_IF(td_attr_len(n, "field_names") != n_types, err, INVALID_ARGUMENT,
               "%s: field_names and %s attributes must have the same length: %d vs. %d", TD_NODE_STR(n),
               types, td_attr_len(n, "field_names"), n_types);
    for (int i = 0; i < n_types; i++) {
        TD_TRY(find_field(n, i, type[i], &f, err));
    }
    return TD_OK;
}

static enum td_wire_type wire_of(enum td_proto_type t)
{
    switch (t) {
    case TD_PROTO_DOUBLE:
    case TD_PROTO_FIXED64:
    case TD_PROTO_SFIXED64:
        return TD_WIRE_FIXED64;
    case TD_PROTO_FLOAT:
    case TD_PROTO_FIXED32:
    case TD_PROTO_SFIXED32:
        return TD_WIRE_FIXED32;
    case TD_PROTO_STRING:
    case TD_PROTO_BYTES:
    case TD_PROTO_MESSAGE:
        return TD_WIRE_BYTES;
    default:
        return TD_WIRE_VARINT;
    }
}

/* ------------------------------------------------------------------ EncodeProto */

static enum td_code encode_infer(struct td_infer *c, struct td_err *err)
{
    TD_TRY(find_fields(c->node, "Tinput_types", err));
    const struct td_shape *sizes = &c->in[0];
    if (sizes->rank < 0) {
        return TD_OK;
    }
    TD_FAIL_IF(sizes->rank < 1 ||
                   (sizes->dim[sizes->rank - 1] >= 0 && sizes->dim[sizes->rank - 1] != c->n_in - 1),
               err, INVALID_ARGUMENT, "%s: sizes should be batch_size + [len(field_names)], got %s",
               TD_NODE_STR(c->node), TD_SHAPE_STR(sizes));
    c->out[0] = *sizes;
    c->out[0].rank--;
    for (int i = 1; i < c->n_in; i++) {
        struct td_shape lead = c->in[i];
        TD_FAIL_IF(lead.rank >= 0 && lead.rank < 2, err, INVALID_ARGUMENT,
                   "%s: Invalid shape for field value. Saw shape %s but it should be at least a matrix.",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(&lead));
        lead.rank -= lead.rank > 0;
        TD_FAIL_IF(!td_shape_compatible(&lead, &c->out[0]), err, INVALID_ARGUMENT,
                   "%s: Values must match up to the last dimension: %s of the values, %s of the sizes",
                   TD_NODE_STR(c->node), TD_SHAPE_STR(&lead), TD_SHAPE_STR(&c->out[0]));
    }
    return TD_OK;
}

static enum td_code put_varint(struct td_strbuf *b, uint64_t v, struct td_err *err)
{
    for (; v >= 0x80; v >>= 7) {
        TD_TRY(td_strbuf_putc(b, (char)(v | 0x80), err));
    }
    return td_strbuf_putc(b, (char)v, err);
}

/* Element i as the number that goes on the wire. */
static uint64_t number_at(const struct td_tensor *t, int64_t i, enum td_proto_type type)
{
    uint64_t v = 0;
    if (t->dtype == TD_FLOAT || t->dtype == TD_DOUBLE) {
        float single = t->dtype == TD_FLOAT ? TD_DATA(t, float)[i] : (float)TD_DATA(t, double)[i];
        memcpy(&v, type == TD_PROTO_FLOAT ? (void *)&single : (void *)&TD_DATA(t, double)[i],
               type == TD_PROTO_FLOAT ? 4 : 8);
        return v;
    }
    v = t->dtype == TD_UINT64 ? TD_DATA(t, uint64_t)[i]
        : t->dtype == TD_BOOL ? TD_DATA(t, td_bool)[i]
                              : (uint64_t)td_tensor_int(t, i);
    bool zigzag = type == TD_PROTO_SINT32 || type == TD_PROTO_SINT64;
    return zigzag ? v << 1 ^ (0 - (v >> 63)) : v;
}

static enum td_code put_value(struct td_strbuf *b, const struct td_tensor *t, int64_t i,
                              enum td_proto_type type, struct td_err *err)
{
    if (t->dtype == TD_STRING) {
        size_t n;
        const char *s = td_tensor_str(t, i, &n);
        TD_TRY(put_varint(b, n, err));
        return td_strbuf_put(b, s, n, err);
    }
    uint64_t v = number_at(t, i, type); /* little-endian: its low bytes come first */
    enum td_wire_type wire = wire_of(type);
    return wire == TD_WIRE_VARINT ? put_varint(b, v, err)
                                  : td_strbuf_put(b, &v, wire == TD_WIRE_FIXED64 ? 8 : 4, err);
}

/* Values [from, from + n) of a field. scratch takes the body of a packed field, whose length comes first. */
static enum td_code put_field(struct td_strbuf *b, struct td_strbuf *scratch, const struct td_proto_field *f,
                              const struct td_tensor *t, int64_t from, int64_t n, struct td_err *err)
{
    uint64_t tag = (uint64_t)f->number << 3;
    if (f->packed) {
        scratch->n = 0;
        for (int64_t i = 0; i < n; i++) {
            TD_TRY(put_value(scratch, t, from + i, f->type, err));
        }
        TD_TRY(put_varint(b, tag | TD_WIRE_BYTES, err));
        TD_TRY(put_varint(b, scratch->n, err));
        return td_strbuf_put(b, scratch->p, scratch->n, err);
    }
    for (int64_t i = 0; i < n; i++) {
        TD_TRY(put_varint(b, tag | wire_of(f->type), err));
        TD_TRY(put_value(b, t, from + i, f->type, err));
    }
    return TD_OK;
}

static enum td_code encode_message(struct td_call *c, const struct column *cols, int n, int64_t m,
                                   struct td_strbuf *b, struct td_strbuf *scratch, struct td_err *err)
{
    b->n = 0;
    for (int k = 0; k < n; k++) {
        const struct td_tensor *t = c->in[1 + cols[k].i];
        int64_t most = t->shape.dim[t->shape.rank - 1], size = td_tensor_int(c->in[0], m * n + cols[k].i);
        TD_FAIL_IF(size > most, err, INVALID_ARGUMENT,
                   "%s: Size to write must not be larger than value tensor; but saw: %lld > %lld at message "
                   "%lld field %d",
                   TD_NODE_STR(c->node), (long long)size, (long long)most, (long long)m, cols[k].i);
        if (size != 0) {
            TD_TRY(put_field(b, scratch, &cols[k].field, t, m * most, size > 0 ? size : 0, err));
        }
    }
    return TD_OK;
}

static int by_number(const void *a, const void *b)
{
    const struct column *x = a, *y = b;
    return (x->field.number > y->field.number) - (x->field.number < y->field.number);
}

/* Every message of the batch; both buffers are scratch. */
static enum td_code encode_messages(struct td_call *c, const struct column *cols, struct td_tensor *y,
                                    struct td_strbuf *b, struct td_strbuf *scratch, struct td_err *err)
{
    for (int64_t m = 0, count = td_tensor_count(y); m < count && !td_work_spent(256); m++) {
        TD_TRY(encode_message(c, cols, c->n_in - 1, m, b, scratch, err));
        TD_TRY(td_tensor_set_str(y, m, b->n ? b->p : "", b->n, err));
    }
    return TD_OK;
}

static enum td_code encode_run(struct td_call *c, struct td_err *err)
{
    int n = c->n_in - 1;
    void *cols;
    struct td_tensor *y;
    TD_TRY(td_scratch(c, (size_t)n * sizeof(struct column) + 1, &cols, err));
    for (int i = 0; i < n; i++) {
        struct column *col = (struct column *)cols + i;
        col->i = i;
        TD_TRY(find_field(c->node, i, c->in[1 + i]->dtype, &col->field, err));
    }
    if (n > 0) {
        qsort(cols, (size_t)n, sizeof(struct column), by_number);
    }
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_strbuf b = {0}, scratch = {0};
    enum td_code rc = encode_messages(c, cols, y, &b, &scratch, err);
    td_strbuf_fini(&b);
    td_strbuf_fini(&scratch);
    return rc;
}

/* ------------------------------------------------------------------ DecodeProtoV2 */

static enum td_code decode_infer(struct td_infer *c, struct td_err *err)
{
    const char *format = td_attr_str(c->node, "message_format");
    bool text = strcmp(format, "text") == 0;
    TD_FAIL_IF(!text && strcmp(format, "binary") != 0, err, INVALID_ARGUMENT,
               "%s: format must be one of binary or text", TD_NODE_STR(c->node));
    TD_FAIL_IF(text, err, UNIMPLEMENTED, "%s: message_format text is not read", TD_NODE_STR(c->node));
    TD_TRY(find_fields(c->node, "output_types", err));
    struct td_shape fields = td_shape_vector(c->n_out - 1), some = td_shape_vector(-1);
    TD_FAIL_IF(td_shape_count(&c->in[0]) == 0, err, INVALID_ARGUMENT,
               "%s: Bufs argument must contain at least one value", TD_NODE_STR(c->node));
    TD_TRY(td_shape_concat(&c->in[0], &fields, &c->out[0], err));
    for (int i = 1; i < c->n_out; i++) {
        TD_TRY(td_shape_concat(&c->in[0], &some, &c->out[i], err));
    }
    return TD_OK;
}

static void set_number(struct td_tensor *y, int64_t at, uint64_t v, enum td_proto_type type)
{
    bool zigzag = type == TD_PROTO_SINT32 || type == TD_PROTO_SINT64;
    float single;
    v = zigzag ? v >> 1 ^ (0 - (v & 1)) : v;
    memcpy(&single, &v, 4);
    if (y->dtype == TD_DOUBLE && type == TD_PROTO_FLOAT) {
        TD_DATA(y, double)[at] = (double)single;
    } else if (y->dtype == TD_BOOL) {
        TD_DATA(y, td_bool)[at] = v != 0;
    } else {
        v = y->dtype == TD_UINT64 && type == TD_PROTO_UINT32 ? (uint32_t)v : v;
        memcpy((char *)y->data + (size_t)at * td_dtype_size(y->dtype), &v, td_dtype_size(y->dtype));
    }
}

/* Values in one field: one, or those of a packed body. -1: the wire type does not fit. With y they are stored
 * from element `at` on, the last one alone when the field is single. */
static int64_t take_packed(const struct td_proto_field *f, const struct td_scan_field *s, struct td_tensor *y,
                           int64_t at)
{
    const uint8_t *p = s->p, *end = s->p + s->len;
    enum td_wire_type wire = wire_of(f->type);
    int64_t n = 0;
    for (; p < end; n++) {
        uint64_t v = 0;
        size_t width = wire == TD_WIRE_FIXED64 ? 8 : 4;
        if (wire == TD_WIRE_VARINT) {
            if (!td_scan_varint(&p, end, &v)) {
                return -1;
            }
        } else if ((size_t)(end - p) < width) {
            return -1;
        } else {
            memcpy(&v, p, width);
            p += width;
        }
        if (y) {
            set_number(y, at + (f->repeated ? n : 0), v, f->type);
        }
    }
    return n;
}

static enum td_code take_field(const struct td_proto_field *f, const struct td_scan_field *s,
                               struct td_tensor *y, int64_t at, int64_t *n, struct td_err *err)
{
    enum td_wire_type wire = wire_of(f->type);
    *n = 1;
    if (s->type != wire) {
        *n = s->type == TD_WIRE_BYTES ? take_packed(f, s, y, at) : -1;
        TD_FAIL_IF(*n < 0, err, DATA_LOSS, "field %u is cut short, or of another wire type", f->number);
        return TD_OK;
    }
    if (y && wire == TD_WIRE_BYTES) {
        return td_tensor_set_str(y, at, (const char *)s->p, s->len, err);
    }
    if (y) {
        set_number(y, at, s->u64, f->type);
    }
    return TD_OK;
}

/* Values of field f in message m: counted, and stored from element `at` of y on when y is given. */
static enum td_code scan_message(const struct td_call *c, int64_t m, const struct td_proto_field *f,
                                 struct td_tensor *y, int64_t at, int64_t *count, struct td_err *err)
{
    size_t len;
    const char *bytes = td_tensor_str(c->in[0], m, &len);
    struct td_scan s = td_scan_make(bytes, len);
    struct td_scan_field field;
    *count = 0;
    while (td_scan_next(&s, &field)) {
        if (field.number == f->number) {
            int64_t n;
            TD_TRY(take_field(f, &field, y, at + (f->repeated ? *count : 0), &n, err));
            *count = f->repeated ? *count + n : 1;
        }
    }
    TD_FAIL_IF(s.bad, err, DATA_LOSS, "%s: Unable to parse binary protobuf of message %lld",
               TD_NODE_STR(c->node), (long long)m);
    return TD_OK;
}

static enum td_code decode_field(struct td_call *c, int i, struct td_tensor *sizes, struct td_err *err)
{
    struct td_proto_field f;
    struct td_tensor *y;
    struct td_shape shape, last = td_shape_vector(0);
    int64_t n = td_tensor_count(c->in[0]), fields = c->n_out - 1, count;
    TD_TRY(find_field(c->node, i, c->node->out_type[1 + i], &f, err));
    last.dim[0] = 1;
    for (int64_t m = 0; m < n; m++) {
        TD_TRY(scan_message(c, m, &f, NULL, 0, &count, err));
        TD_DATA(sizes, int32_t)[m * fields + i] = (int32_t)count;
        last.dim[0] = count > last.dim[0] ? count : last.dim[0];
    }
    TD_TRY(td_shape_concat(&c->in[0]->shape, &last, &shape, err));
    TD_TRY(td_out(c, 1 + i, &shape, &y, err));
    if (y->dtype != TD_STRING && td_tensor_bytes(y)) {
        memset(y->data, 0, td_tensor_bytes(y));
    }
    for (int64_t m = 0; m < n && !td_work_spent(256); m++) {
        TD_TRY(scan_message(c, m, &f, y, m * last.dim[0], &count, err));
    }
    return TD_OK;
}

static enum td_code decode_run(struct td_call *c, struct td_err *err)
{
    struct td_tensor *sizes;
    TD_TRY(td_out(c, 0, NULL, &sizes, err));
    for (int i = 0; i + 1 < c->n_out; i++) {
        TD_TRY(decode_field(c, i, sizes, err));
    }
    return TD_OK;
}

const struct td_op td_ops_proto_codec[] = {
    {.name = "EncodeProto",
     .sig = "(sizes:int32, values:Tinput_types) -> (bytes:string) {field_names:list(string); "
            "message_type:string; "
            "descriptor_source:string='local://'; Tinput_types:list(type)}",
     .infer = encode_infer,
     .kernels = TD_KERNEL("proto_codec.cpu", encode_run, {0}),
     .grad = td_not_differentiable},
    {.name = "DecodeProtoV2",
     .sig = "(bytes:string) -> (sizes:int32, values:output_types) {message_type:string; "
            "field_names:list(string); "
            "output_types:list(type); descriptor_source:string='local://'; message_format:string='binary'; "
            "sanitize:bool=false}",
     .infer = decode_infer,
     .kernels = TD_KERNEL("proto_codec.cpu", decode_run, {0}),
     .grad = td_not_differentiable},
    {.name = NULL},
};
