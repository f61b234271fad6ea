/* proto/pb/wire.c - the reader over scattered blocks, tensors read through it, and the writers of fields.
 *
 * Invariant (wire_check): seg/at of a reader with left > 0 lie on a readable byte or at the end of a block
 * that another follows; step() moves over ends of blocks before a byte is looked at.
 *
 * A nested message is the same kind of reader with a smaller `left`, so bounds need no stack. Groups are
 * skipped by counting their ends, at most 100 deep.
 *
 * A TensorProto is first read for its head. When it is plain (dtype, shape, and one run of bytes of exactly
 * the tensor's size: tensor_content, or a packed float_val or double_val) those bytes are copied once, from
 * the blocks to the tensor. Everything else, faults too, is gathered into one block for proto/pb/tensor_pb.c,
 * which has the rules and the error texts.
 *
 * td_put_end writes the length of a nested message behind its fields and moves them: right for small
 * messages. Large tensors have their size computed before (td_tensor_pb_size, td_put_head).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/wire.h"

#include <string.h>

#include "core/base/check.h"
#include "core/base/utf8.h"
#include "core/base/mem.h"

/* Groups are obsolete, but a message may still carry unknown ones; deeper nesting than protobuf's own limit
 * is refused. */
#define MAX_GROUP_DEPTH 100

void td_wire_init(struct td_wire *w, const struct td_seg *seg, size_t n_seg)
{
    *w = (struct td_wire){.seg = seg};
    for (size_t i = 0; i < n_seg; i++) {
        w->left += seg[i].n;
    }
}

TD_CHECK_FN enum td_code wire_check(const struct td_wire *w, struct td_err *err)
{
    TD_WANT(w->left == 0 || w->at < w->seg->n, err,
            "a reader with %llu bytes left is at byte %zu of a block of %zu", (unsigned long long)w->left,
            w->at, w->seg->n);
    return TD_OK;
}

static void step(struct td_wire *w)
{
    while (w->left > 0 && w->at == w->seg->n) {
        w->seg++;
        w->at = 0;
    }
    TD_HOLDS(wire_check, w);
}

void td_wire_advance(struct td_wire *w, uint64_t n)
{
    w->left -= n;
    while (n > w->seg->n - w->at) {
        n -= w->seg->n - w->at;
        w->seg++;
        w->at = 0;
    }
    w->at += n;
}

bool td_wire_varint(struct td_wire *w, uint64_t *value)
{
    uint64_t v = 0;
    for (int shift = 0; shift < 70 && w->left > 0; shift += 7) {
        step(w);
        uint8_t b = w->seg->p[w->at++];
        w->left--;
        if (shift < 64) {
            v |= (uint64_t)(b & 0x7f) << shift;
        }
        if (b < 0x80) {
            *value = v;
            return true;
        }
    }
    return false;
}

bool td_wire_fixed(struct td_wire *w, size_t n, uint64_t *value)
{
    if (w->left < n) {
        return false;
    }
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        step(w);
        v |= (uint64_t)w->seg->p[w->at++] << (8 * i);
        w->left--;
    }
    *value = v;
    return true;
}

/* Reads the value of a field whose tag was read. */
static bool body(struct td_wire *w, struct td_field *f)
{
    switch (f->type) {
    case TD_WIRE_VARINT:
        return td_wire_varint(w, &f->value);
    case TD_WIRE_FIXED64:
        return td_wire_fixed(w, 8, &f->value);
    case TD_WIRE_FIXED32:
        return td_wire_fixed(w, 4, &f->value);
    case TD_WIRE_BYTES:
        if (!td_wire_varint(w, &f->value) || f->value > w->left) {
            return false;
        }
        step(w);
        f->sub = *w;
        f->sub.left = f->value;
        if (f->value > 0) {
            td_wire_advance(w, f->value);
        }
        return true;
    default:
        return false;
    }
}

enum td_code td_wire_next(struct td_wire *w, struct td_field *f, struct td_err *err)
{
    int depth = 0;
    while (w->left > 0) {
        uint64_t tag;
        bool ok = td_wire_varint(w, &tag) && tag >> 3 > 0 && tag >> 3 < (1u << 29);
        unsigned type = tag & 7;
        if (ok && (type == 3 || type == 4)) {
            depth += type == 3 ? 1 : -1;
            TD_FAIL_IF(depth < 0 || depth > MAX_GROUP_DEPTH, err, INVALID_ARGUMENT,
                       "reading a message: group of field %u is not balanced or too deep",
                       (unsigned)(tag >> 3));
            continue;
        }
        f->number = ok ? (uint32_t)(tag >> 3) : 0;
        f->type = (enum td_wire_type)type;
        TD_FAIL_IF(!ok || !body(w, f), err, INVALID_ARGUMENT,
                   "reading a message: field %u of wire type %u is cut short or malformed", f->number, type);
        if (depth == 0) {
            return TD_OK;
        }
    }
    TD_FAIL_IF(depth > 0, err, INVALID_ARGUMENT, "reading a message: a group has no end");
    f->number = 0;
    return TD_OK;
}

void td_wire_copy(struct td_wire w, void *dst)
{
    char *to = dst;
    while (w.left > 0) {
        step(&w);
        size_t n = w.seg->n - w.at;
        n = n < w.left ? n : (size_t)w.left;
        memcpy(to, w.seg->p + w.at, n);
        to += n;
        td_wire_advance(&w, n);
    }
}

enum td_code td_wire_gather(struct td_wire w, const void **bytes, void **owned, struct td_err *err)
{
    *owned = NULL;
    *bytes = "";
    if (w.left == 0) {
        return TD_OK;
    }
    step(&w);
    if (w.left <= w.seg->n - w.at) {
        *bytes = w.seg->p + w.at;
        return TD_OK;
    }
    *owned = td_realloc(NULL, (size_t)w.left, 1);
    if (*owned == NULL) {
        return td_no_memory(err, (size_t)w.left, "a request field");
    }
    td_wire_copy(w, *owned);
    *bytes = *owned;
    return TD_OK;
}

enum td_code td_wire_text(struct td_wire w, struct td_arena *a, const char **out, struct td_err *err)
{
    char *p = td_arena_alloc(a, (size_t)w.left + 1, 1);
    if (p == NULL) {
        return td_no_memory(err, (size_t)w.left, "a request text");
    }
    td_wire_copy(w, p);
    TD_FAIL_IF(strlen(p) != w.left, err, INVALID_ARGUMENT,
               "reading a message: text '%.100s...' holds a NUL byte", p);
    TD_FAIL_IF(!td_utf8(p, (size_t)w.left), err, INVALID_ARGUMENT,
               "reading a message: a text of %llu bytes is no UTF-8", (unsigned long long)w.left);
    *out = p;
    return TD_OK;
}

/* ---- TensorProto ---- */

struct head {
    enum td_dtype dtype;
    struct td_shape shape;
    struct td_wire content; /* tensor_content, or the one packed run of float_val or double_val */
    uint32_t values;        /* the field that content is of; 0 none */
    bool odd;               /* something only the full reader knows, */
    bool odd_shape;         /* the shape among it */
};

static enum td_code read_shape(struct td_wire w, struct head *h, struct td_err *err)
{
    struct td_field f;
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        if (f.number != 2 || f.type != TD_WIRE_BYTES || h->shape.rank == TD_MAX_RANK) {
            h->odd = h->odd_shape = true;
            continue;
        }
        int64_t size = 0;
        struct td_wire dim = f.sub;
        do {
            TD_TRY(td_wire_next(&dim, &f, err));
            if (f.number == 1 && f.type == TD_WIRE_VARINT) {
                size = (int64_t)f.value;
            }
        } while (f.number != 0);
        h->shape.dim[h->shape.rank++] = size;
        h->odd_shape = h->odd_shape || size < 0;
        h->odd = h->odd || size < 0;
    }
}

static enum td_code read_head(struct td_wire w, struct head *h, struct td_err *err)
{
    struct td_field f;
    bool shaped = false;
    for (;;) {
        TD_TRY(td_wire_next(&w, &f, err));
        if (f.number == 0) {
            return TD_OK;
        }
        if (f.number == 1 && f.type == TD_WIRE_VARINT) {
            h->dtype = td_dtype_valid((int)f.value) ? (enum td_dtype)f.value : TD_DTYPE_NONE;
        } else if (f.number == 2 && f.type == TD_WIRE_BYTES && !shaped) {
            shaped = true;
            TD_TRY(read_shape(f.sub, h, err));
        } else if ((f.number == 4 || f.number == 5 || f.number == 6) && f.type == TD_WIRE_BYTES) {
            h->odd = h->odd ||
                     (h->values != 0 && (h->values != 4 || f.number != 4)); /* of contents the last counts */
            h->content = f.sub;
            h->values = f.number;
        } else if (f.number != 3) {
            h->odd = true; /* typed fields, a second shape */
            h->odd_shape = h->odd_shape || f.number == 2;
        }
    }
}

enum td_code td_wire_tensor_head(struct td_wire w, struct td_tensor *out, struct td_err *err)
{
    struct head h = {.shape = td_shape_scalar()};
    TD_TRY(read_head(w, &h, err));
    *out = (struct td_tensor){.dtype = h.dtype, .shape = h.shape};
    if (h.odd_shape) {
        out->shape.rank = -1;
    }
    return TD_OK;
}

enum td_code td_wire_tensor(struct td_wire w, uint64_t max_bytes, struct td_tensor *out, struct td_err *err)
{
    struct head h = {.shape = td_shape_scalar()};
    TD_TRY(read_head(w, &h, err));
    int64_t n = h.odd ? -1 : td_shape_count(&h.shape);
    size_t bytes = 0;
    /* bool needs its bytes looked at; whatever is wrong or unusual is left to the full reader and its error
     * texts */
    const bool fits = h.values == 4 || h.values == (h.dtype == TD_FLOAT ? 5 : h.dtype == TD_DOUBLE ? 6 : 0);
    bool plain = n > 0 && fits && td_dtype_in(h.dtype, TD_SET_PLAIN & ~TD_BIT(TD_BOOL)) &&
                 td_size_mul((size_t)n, td_dtype_size(h.dtype), &bytes) && bytes == h.content.left &&
                 bytes <= max_bytes;
    if (plain) {
        TD_TRY(td_tensor_new(out, h.dtype, &h.shape, err));
        td_wire_copy(h.content, out->data);
        return TD_OK;
    }
    const void *p;
    void *owned;
    TD_TRY(td_wire_gather(w, &p, &owned, err));
    enum td_code rc = td_tensor_from_bytes(p, (size_t)w.left, max_bytes, out, err);
    td_free(owned);
    return rc;
}

/* ---- writers ---- */

size_t td_wire_varint_size(uint64_t v)
{
    size_t n = 1;
    for (; v >= 0x80; v >>= 7) {
        n++;
    }
    return n;
}

static size_t varint_bytes(uint64_t v, uint8_t out[10])
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7) {
        out[n++] = (uint8_t)(v | 0x80);
    }
    out[n++] = (uint8_t)v;
    return n;
}

enum td_code td_put_varint(struct td_sink *s, uint64_t v, struct td_err *err)
{
    uint8_t b[10];
    return td_sink_put(s, b, varint_bytes(v, b), err);
}

enum td_code td_put_int(struct td_sink *s, uint32_t field, int64_t v, struct td_err *err)
{
    uint8_t b[20];
    size_t n = varint_bytes((uint64_t)field << 3 | TD_WIRE_VARINT, b);
    n += varint_bytes((uint64_t)v, b + n);
    return td_sink_put(s, b, n, err);
}

enum td_code td_put_float(struct td_sink *s, uint32_t field, float v, struct td_err *err)
{
    uint8_t b[14];
    size_t n = varint_bytes((uint64_t)field << 3 | TD_WIRE_FIXED32, b);
    memcpy(b + n, &v, 4);
    return td_sink_put(s, b, n + 4, err);
}

enum td_code td_put_double(struct td_sink *s, uint32_t field, double v, struct td_err *err)
{
    uint8_t b[18];
    size_t n = varint_bytes((uint64_t)field << 3 | TD_WIRE_FIXED64, b);
    memcpy(b + n, &v, 8);
    return td_sink_put(s, b, n + 8, err);
}

enum td_code td_put_head(struct td_sink *s, uint32_t field, size_t len, struct td_err *err)
{
    uint8_t b[20];
    size_t n = varint_bytes((uint64_t)field << 3 | TD_WIRE_BYTES, b);
    n += varint_bytes(len, b + n);
    return td_sink_put(s, b, n, err);
}

enum td_code td_put_bytes(struct td_sink *s, uint32_t field, const void *p, size_t n, struct td_err *err)
{
    TD_TRY(td_put_head(s, field, n, err));
    return td_sink_put(s, p, n, err);
}

enum td_code td_put_text(struct td_sink *s, uint32_t field, const char *text, struct td_err *err)
{
    return td_put_bytes(s, field, text, strlen(text), err);
}

size_t td_put_mark(const struct td_sink *s)
{
    return s->n;
}

enum td_code td_put_end(struct td_sink *s, uint32_t field, size_t mark, struct td_err *err)
{
    uint8_t head[20];
    size_t len = s->n - mark;
    size_t n = varint_bytes((uint64_t)field << 3 | TD_WIRE_BYTES, head);
    n += varint_bytes(len, head + n);
    TD_TRY(td_sink_put(s, head, n, err)); /* makes room; its bytes are overwritten below */
    memmove(s->p + mark + n, s->p + mark, len);
    memcpy(s->p + mark, head, n);
    return TD_OK;
}
