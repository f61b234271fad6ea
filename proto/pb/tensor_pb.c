/* proto/pb/tensor_pb.c - tensors from and to the bytes of a TensorProto.
 *
 * Every dtype has one typed field (value_kind): its number, how its scalars stand on the wire and how many
 * make an element. Decoding fills scalars from the front ("units": two of them an element of a complex type)
 * and finishes by the fill rule. The wire is read twice, first for dtype, shape and content, then for the
 * values, so that they are copied once, into a tensor whose size was checked. Values beyond the shape's count
 * are dropped.
 *
 * Encoding computes the exact size, takes one block of it from the sink, and writes with plain stores.
 * tensor_content is the memory of the tensor; the typed form of integers is varints.
 *
 * Does not: read tensors that lie in several blocks (td_wire_tensor of proto/pb/wire.c), compress repeated
 * values.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/tensor_pb.h"

#include <string.h>

#include "core/base/mem.h"
#include "proto/pb/pb_reader.h"
#include "proto/pb/shape_pb.h"

enum field { F_DTYPE = 1, F_SHAPE = 2, F_CONTENT = 4, F_STRING = 8 };

struct value_kind {
    uint32_t field; /* 0: the dtype has no values in a TensorProto here */
    enum td_wire_type wire;
    int units; /* scalars an element */
};

static struct value_kind kind_of(enum td_dtype t)
{
    switch (t) {
    case TD_FLOAT:
        return (struct value_kind){5, TD_WIRE_FIXED32, 1};
    case TD_DOUBLE:
        return (struct value_kind){6, TD_WIRE_FIXED64, 1};
    case TD_STRING:
        return (struct value_kind){F_STRING, TD_WIRE_BYTES, 1};
    case TD_COMPLEX64:
        return (struct value_kind){9, TD_WIRE_FIXED32, 2};
    case TD_INT64:
        return (struct value_kind){10, TD_WIRE_VARINT, 1};
    case TD_BOOL:
        return (struct value_kind){11, TD_WIRE_VARINT, 1};
    case TD_COMPLEX128:
        return (struct value_kind){12, TD_WIRE_FIXED64, 2};
    case TD_HALF:
    case TD_BFLOAT16:
        return (struct value_kind){13, TD_WIRE_VARINT, 1};
    case TD_UINT32:
        return (struct value_kind){16, TD_WIRE_VARINT, 1};
    case TD_UINT64:
        return (struct value_kind){17, TD_WIRE_VARINT, 1};
    case TD_VARIANT:
    case TD_RESOURCE:
        return (struct value_kind){0};
    default:
        return (struct value_kind){7, TD_WIRE_VARINT, 1};
    }
}

/* ---- decoding */

struct decoder {
    struct td_tensor *t;
    struct value_kind kind;
    size_t unit_bytes;
    int64_t n, done; /* units wanted and filled */
};

static void put_int(struct decoder *d, uint64_t v)
{
    char *to = (char *)d->t->data + (size_t)d->done * d->unit_bytes;
    if (d->done == d->n) {
        return;
    }
    v = d->t->dtype == TD_BOOL ? v != 0 : v;
    memcpy(to, &v, d->unit_bytes); /* little-endian: the low bytes */
    d->done++;
}

/* n units of fixed size. */
static void put_block(struct decoder *d, const void *units, size_t n)
{
    size_t room = (size_t)(d->n - d->done);
    n = n < room ? n : room;
    if (n > 0) {
        memcpy((char *)d->t->data + (size_t)d->done * d->unit_bytes, units, n * d->unit_bytes);
        d->done += (int64_t)n;
    }
}

static enum td_code put_str(struct decoder *d, const void *p, size_t n, struct td_err *err)
{
    if (d->done == d->n) {
        return TD_OK;
    }
    return td_tensor_set_str(d->t, d->done++, (const char *)p, n, err);
}

/* The fill rule: no value at all means zeros, too few mean that the last repeats. */
static void fill_rest(struct decoder *d)
{
    size_t size = d->unit_bytes * (size_t)d->kind.units;
    int64_t have = d->done / d->kind.units, want = d->n / d->kind.units;
    char *data = d->t->data;
    if (have == want) {
        return;
    }
    if (have == 0) {
        memset(data, 0, (size_t)want * size);
        return;
    }
    for (int64_t i = have; i < want; i++) {
        memcpy(data + (size_t)i * size, data + (size_t)(have - 1) * size, size);
    }
}

static void fill_strings(struct decoder *d)
{
    td_objp *e = d->t->data;
    for (int64_t i = d->done; d->done > 0 && i < d->n; i++) {
        e[i] = td_obj_ref(e[d->done - 1]);
    }
}

static void finish(struct decoder *d)
{
    if (d->t->dtype == TD_STRING) {
        fill_strings(d);
    } else {
        fill_rest(d);
    }
}

/* DT_STRING as raw content: varint lengths of all elements, then their bytes. */
static enum td_code content_strings(struct decoder *d, const uint8_t *p, size_t n, struct td_err *err)
{
    const uint8_t *end = p + n, *lengths = p;
    uint64_t len, sum = 0;
    for (int64_t i = 0; i < d->n; i++) {
        TD_FAIL_IF(!td_scan_varint(&p, end, &len) || len > n - sum, err, INVALID_ARGUMENT,
                   "TensorProto of string %s: length %lld in tensor_content (%zu bytes) is cut or too large",
                   TD_SHAPE_STR(&d->t->shape), (long long)i, n);
        sum += len;
    }
    TD_FAIL_IF(sum != (uint64_t)(end - p), err, INVALID_ARGUMENT,
               "TensorProto of string %s: tensor_content holds %zu bytes of text, its lengths say %llu",
               TD_SHAPE_STR(&d->t->shape), (size_t)(end - p), (unsigned long long)sum);
    for (int64_t i = 0; i < d->n; i++) {
        if (!td_scan_varint(&lengths, end, &len)) {
            break;
        }
        TD_TRY(put_str(d, p, (size_t)len, err));
        p += len;
    }
    return TD_OK;
}

static enum td_code put_content(struct decoder *d, const uint8_t *p, size_t n, struct td_err *err)
{
    if (d->t->dtype == TD_STRING) {
        return content_strings(d, p, n, err);
    }
    size_t want = td_tensor_bytes(d->t);
    TD_FAIL_IF(n != want, err, INVALID_ARGUMENT,
               "TensorProto of %s %s: tensor_content has %zu bytes, want %zu", td_dtype_name(d->t->dtype),
               TD_SHAPE_STR(&d->t->shape), n, want);
    put_block(d, p, n / d->unit_bytes);
    if (d->t->dtype == TD_BOOL) { /* a bool that is neither 0 nor 1 would mislead kernels */
        td_bool *b = d->t->data;
        for (int64_t i = 0; i < d->n; i++) {
            b[i] = b[i] != 0;
        }
    }
    return TD_OK;
}

/* Checks dtype and size, then allocates. */
static enum td_code begin(struct decoder *d, int number, const struct td_shape *shape, uint64_t max_bytes,
                          struct td_err *err)
{
    TD_FAIL_IF(number == 0, err, INVALID_ARGUMENT, "TensorProto: dtype is not set, want a DataType");
    TD_FAIL_IF(!td_dtype_valid(number), err, UNIMPLEMENTED, "TensorProto: dtype number %d is not supported",
               number);
    enum td_dtype t = (enum td_dtype)number;
    d->kind = kind_of(t);
    TD_FAIL_IF(d->kind.field == 0, err, UNIMPLEMENTED,
               "TensorProto of %s %s: such values cannot be given as bytes", td_dtype_name(t),
               TD_SHAPE_STR(shape));
    TD_FAIL_IF(!td_shape_known(shape), err, INVALID_ARGUMENT,
               "TensorProto of %s: shape %s has a negative dimension", td_dtype_name(t), TD_SHAPE_STR(shape));
    size_t bytes;
    int64_t count = td_shape_count(shape);
    TD_FAIL_IF(count < 0 || !td_size_mul((size_t)count, td_dtype_size(t), &bytes) || bytes > max_bytes, err,
               INVALID_ARGUMENT, "TensorProto of %s %s: more than the %llu bytes allowed", td_dtype_name(t),
               TD_SHAPE_STR(shape), (unsigned long long)max_bytes);
    TD_TRY(td_tensor_new(d->t, t, shape, err));
    d->unit_bytes = td_dtype_size(t) / (size_t)d->kind.units;
    d->n = count * d->kind.units;
    return TD_OK;
}

/* ---- from the wire */

struct scanned { /* what the first pass finds */
    uint64_t dtype;
    struct td_shape shape;
    const uint8_t *content;
    size_t content_len;
};

static enum td_code scan_head(const void *bytes, size_t n, struct scanned *out, struct td_err *err)
{
    struct td_scan s = td_scan_make(bytes, n);
    struct td_scan_field f;
    while (td_scan_next(&s, &f)) {
        if (f.number == F_DTYPE && f.type == TD_WIRE_VARINT) {
            out->dtype = f.u64;
        } else if (f.number == F_SHAPE && f.type == TD_WIRE_BYTES) {
            TD_TRY(td_shape_from_bytes(f.p, f.len, &out->shape, err));
        } else if (f.number == F_CONTENT && f.type == TD_WIRE_BYTES) {
            out->content = f.p;
            out->content_len = f.len;
        }
    }
    return s.bad ? td_pb_malformed("TensorProto", err) : TD_OK;
}

/* One occurrence of the value field: a packed run, one scalar, or one string. */
static enum td_code put_field(struct decoder *d, const struct td_scan_field *f, struct td_err *err)
{
    if (d->kind.wire == TD_WIRE_BYTES) {
        return f->type == TD_WIRE_BYTES ? put_str(d, f->p, f->len, err) : td_pb_malformed("TensorProto", err);
    }
    if (f->type == d->kind.wire) {
        put_int(d, f->u64);
        return TD_OK;
    }
    if (f->type != TD_WIRE_BYTES) {
        return td_pb_malformed("TensorProto", err);
    }
    if (d->kind.wire != TD_WIRE_VARINT) {
        put_block(d, f->p, f->len / d->unit_bytes);
        return f->len % d->unit_bytes ? td_pb_malformed("TensorProto", err) : TD_OK;
    }
    const uint8_t *p = f->p, *end = f->p + f->len;
    while (p < end) {
        uint64_t v;
        if (!td_scan_varint(&p, end, &v)) {
            return td_pb_malformed("TensorProto", err);
        }
        put_int(d, v);
    }
    return TD_OK;
}

static enum td_code put_fields(struct decoder *d, const void *bytes, size_t n, struct td_err *err)
{
    struct td_scan s = td_scan_make(bytes, n);
    struct td_scan_field f;
    while (td_scan_next(&s, &f)) {
        if (f.number == d->kind.field) {
            TD_TRY(put_field(d, &f, err));
        }
    }
    return TD_OK; /* the first pass has seen that the bytes are well formed */
}

/* -1 and what else does not fit an int is no dtype. */
static int dtype_number(uint64_t v)
{
    return v > 1000 ? 1000 : (int)v;
}

enum td_code td_tensor_from_bytes(const void *bytes, size_t n, uint64_t max_bytes, struct td_tensor *out,
                                  struct td_err *err)
{
    struct scanned head = {.shape = {.rank = 0}};
    struct td_tensor t = {0};
    struct decoder d = {.t = &t};
    TD_TRY(scan_head(bytes, n, &head, err));
    TD_FAIL_IF(head.shape.rank < 0, err, INVALID_ARGUMENT,
               "TensorProto: its shape has an unknown rank, want a full shape");
    TD_TRY(begin(&d, dtype_number(head.dtype), &head.shape, max_bytes, err));
    enum td_code rc = head.content_len ? put_content(&d, head.content, head.content_len, err)
                                       : put_fields(&d, bytes, n, err);
    if (rc) {
        td_tensor_clear(&t);
        return rc;
    }
    finish(&d);
    *out = t;
    return TD_OK;
}

/* ---- encoding: sizes first, then one block of exactly that many bytes */

static size_t varint_size(uint64_t v)
{
    size_t n = 1;
    for (; v >= 0x80; v >>= 7) {
        n++;
    }
    return n;
}

static char *write_varint(char *p, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) {
        *p++ = (char)(v | 0x80);
    }
    *p++ = (char)v;
    return p;
}

static size_t dim_size(int64_t dim) /* bytes of one Dim message without its head; size 0 is left out */
{
    return dim ? 1 + varint_size((uint64_t)dim) : 0;
}

static size_t shape_size(const struct td_shape *s)
{
    size_t sum = 0;
    for (int i = 0; i < s->rank; i++) {
        sum += 2 + dim_size(s->dim[i]);
    }
    return sum;
}

/* Scalar i of the typed field as a varint: int_val and half_val are int32, sign-extended. */
static uint64_t varint_value(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_HALF:
    case TD_BFLOAT16:
        return ((const uint16_t *)t->data)[i];
    case TD_UINT64:
        return ((const uint64_t *)t->data)[i];
    case TD_QINT8:
        return (uint64_t)((const int8_t *)t->data)[i];
    case TD_QUINT8:
        return ((const uint8_t *)t->data)[i];
    case TD_QINT16:
        return (uint64_t)((const int16_t *)t->data)[i];
    case TD_QUINT16:
        return ((const uint16_t *)t->data)[i];
    case TD_QINT32:
        return (uint64_t)((const int32_t *)t->data)[i];
    default:
        return (uint64_t)td_tensor_int(t, i);
    }
}

static size_t packed_size(const struct td_tensor *t, struct value_kind k)
{
    int64_t n = td_tensor_count(t);
    size_t sum = 0;
    if (k.wire != TD_WIRE_VARINT) {
        return td_tensor_bytes(t);
    }
    for (int64_t i = 0; i < n; i++) {
        sum += varint_size(varint_value(t, i));
    }
    return sum;
}

static size_t strings_size(const struct td_tensor *t)
{
    int64_t n = td_tensor_count(t);
    size_t sum = 0, len;
    for (int64_t i = 0; i < n; i++) {
        (void)td_tensor_str(t, i, &len);
        sum += 1 + varint_size(len) + len;
    }
    return sum;
}

/* Bytes after the packed field's head: raw content or scalars. */
static size_t body_size(const struct td_tensor *t, bool as_content)
{
    return as_content ? td_tensor_bytes(t) : packed_size(t, kind_of(t->dtype));
}

static size_t field_tag(const struct td_tensor *t, bool as_content)
{
    return (size_t)(as_content ? F_CONTENT : kind_of(t->dtype).field) << 3 | TD_WIRE_BYTES;
}

size_t td_tensor_pb_size(const struct td_tensor *t, bool as_content)
{
    size_t shape = shape_size(&t->shape);
    size_t sum = 2 + 1 + varint_size(shape) + shape;
    if (kind_of(t->dtype).field == 0 || td_tensor_count(t) == 0) {
        return sum;
    }
    if (t->dtype == TD_STRING) {
        return sum + strings_size(t);
    }
    size_t body = body_size(t, as_content);
    return sum + varint_size(field_tag(t, as_content)) + varint_size(body) + body;
}

static char *write_shape(char *p, const struct td_shape *s)
{
    *p++ = F_SHAPE << 3 | TD_WIRE_BYTES;
    p = write_varint(p, shape_size(s));
    for (int i = 0; i < s->rank; i++) {
        *p++ = 2 << 3 | TD_WIRE_BYTES;
        p = write_varint(p, dim_size(s->dim[i]));
        if (s->dim[i]) {
            *p++ = 1 << 3 | TD_WIRE_VARINT;
            p = write_varint(p, (uint64_t)s->dim[i]);
        }
    }
    return p;
}

static void write_strings(char *p, const struct td_tensor *t)
{
    int64_t n = td_tensor_count(t);
    for (int64_t i = 0; i < n; i++) {
        size_t len;
        const char *s = td_tensor_str(t, i, &len);
        *p++ = F_STRING << 3 | TD_WIRE_BYTES;
        p = write_varint(p, len);
        if (len > 0) {
            memcpy(p, s, len);
        }
        p += len;
    }
}

static void write_values(char *p, const struct td_tensor *t, bool as_content)
{
    int64_t n = td_tensor_count(t);
    p = write_varint(p, field_tag(t, as_content));
    p = write_varint(p, body_size(t, as_content));
    if (as_content || kind_of(t->dtype).wire != TD_WIRE_VARINT) {
        memcpy(p, t->data, td_tensor_bytes(t));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        p = write_varint(p, varint_value(t, i));
    }
}

enum td_code td_tensor_to_bytes(const struct td_tensor *t, bool as_content, struct td_sink *s,
                                struct td_err *err)
{
    char *p;
    TD_FAIL_IF(kind_of(t->dtype).field == 0 || t->dtype == TD_DTYPE_NONE, err, UNIMPLEMENTED,
               "Encoding a tensor of %s %s: such values cannot be given as bytes", td_dtype_name(t->dtype),
               TD_SHAPE_STR(&t->shape));
    TD_TRY(td_sink_grow(s, td_tensor_pb_size(t, as_content), &p, err));
    *p++ = F_DTYPE << 3 | TD_WIRE_VARINT;
    *p++ = (char)t->dtype;
    p = write_shape(p, &t->shape);
    if (td_tensor_count(t) == 0) {
        return TD_OK;
    }
    if (t->dtype == TD_STRING) {
        write_strings(p, t);
    } else {
        write_values(p, t, as_content);
    }
    return TD_OK;
}
