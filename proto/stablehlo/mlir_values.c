/* proto/stablehlo/mlir_values.c - reads what attributes are made of.
 *
 * An integer of up to 8 bits is a byte, of up to 64 bits a signed varint of its bits, whichever sign the
 * writer gave them: what lies above the type's width is dropped, and the sign comes from the type. A float
 * is the integer of its bits.
 *
 * A dense tensor's bytes are its elements, or one that stands for all. Booleans are packed, eight in a byte;
 * writers of the first versions left a byte each, which are packed here, in the arena: these bytes are as
 * many as the elements, which packed ones never are but for a single one.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/stablehlo/mlir_values.h"

#include <math.h>
#include <string.h>

enum td_code td_mlir_string(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_hlo_attr *out,
                            struct td_err *err)
{
    int i;
    TD_TRY(td_mlir_index(b, "string", pool->f->n_strings, &i, err));
    out->kind = TD_HLO_STRING;
    out->str = pool->f->strings[i];
    return TD_OK;
}

enum td_code td_mlir_symbol(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_hlo_attr *out,
                            struct td_err *err)
{
    const struct td_hlo_attr *name;
    TD_TRY(td_mlir_attr_of(pool, b, &name, err));
    TD_FAIL_IF(name->kind != TD_HLO_STRING, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: a symbol's name is no string", td_mlir_at(b));
    out->kind = TD_HLO_STRING;
    out->str = name->str;
    return TD_OK;
}

/* The value's bits, those above are zero. */
static enum td_code read_bits(struct td_mlir_bytes *b, int bits, uint64_t *v, struct td_err *err)
{
    if (bits <= 8) {
        uint8_t byte;
        TD_TRY(td_mlir_byte(b, &byte, err));
        *v = byte;
    } else {
        int64_t wide;
        TD_TRY(td_mlir_signed(b, &wide, err));
        *v = (uint64_t)wide;
    }
    *v &= bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    return TD_OK;
}

enum td_code td_mlir_type_attr(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_hlo_attr *out,
                               struct td_err *err)
{
    const struct td_mlir_type *t;
    TD_TRY(td_mlir_type_of(pool, b, &t, err));
    out->kind = TD_HLO_TYPE;
    out->type = t->t;
    return TD_OK;
}

enum td_code td_mlir_integer(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_hlo_attr *out,
                             struct td_err *err)
{
    const struct td_mlir_type *t;
    uint64_t v;
    TD_TRY(td_mlir_type_of(pool, b, &t, err));
    TD_FAIL_IF(t->number != TD_MLIR_SIGNED && t->number != TD_MLIR_UNSIGNED, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: an integer's type is none of integers", td_mlir_at(b));
    TD_TRY(read_bits(b, t->bits, &v, err));
    bool negative = t->number == TD_MLIR_SIGNED && (v >> (t->bits - 1) & 1) != 0;
    if (negative && t->bits < 64) {
        v |= UINT64_MAX << t->bits;
    }
    out->kind = t->bits == 1 ? TD_HLO_BOOL : TD_HLO_INT;
    out->type = t->t;
    out->i = (int64_t)v;
    return TD_OK;
}

/* Of 1 + exponent + fraction bits, as IEEE lays them out. */
static double to_double(uint64_t v, int exponent, int fraction)
{
    uint64_t mantissa = v & (((uint64_t)1 << fraction) - 1);
    int top = (1 << exponent) - 1, e = (int)(v >> fraction) & top, bias = top >> 1;
    double sign = v >> (exponent + fraction) & 1 ? -1 : 1;
    if (e == top) {
        return mantissa != 0 ? (double)NAN : sign * (double)INFINITY;
    }
    if (e == 0) {
        return sign * ldexp((double)mantissa, 1 - bias - fraction);
    }
    return sign * ldexp((double)(mantissa | (uint64_t)1 << fraction), e - bias - fraction);
}

enum td_code td_mlir_double(struct td_mlir_bytes *b, double *v, struct td_err *err)
{
    int64_t bits;
    TD_TRY(td_mlir_signed(b, &bits, err));
    memcpy(v, &bits, sizeof *v);
    return TD_OK;
}

enum td_code td_mlir_float(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_hlo_attr *out,
                           struct td_err *err)
{
    const struct td_mlir_type *t;
    uint64_t v;
    TD_TRY(td_mlir_type_of(pool, b, &t, err));
    TD_FAIL_IF(t->number != TD_MLIR_FLOATING, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: a float's type is none of floats", td_mlir_at(b));
    TD_TRY(read_bits(b, t->bits, &v, err));
    out->kind = TD_HLO_FLOAT;
    out->type = t->t;
    switch (t->t.dtype) {
    case TD_DOUBLE:
        memcpy(&out->f, &v, sizeof v);
        break;
    case TD_FLOAT:
        out->f = to_double(v, 8, 23);
        break;
    case TD_HALF:
        out->f = to_double(v, 5, 10);
        break;
    case TD_BFLOAT16:
        out->f = to_double(v, 8, 7);
        break;
    default:
        out->f = (double)NAN;
    }
    return TD_OK;
}

/* n booleans of a byte each, as bits. */
static enum td_code pack(struct td_mlir_pool *pool, const uint8_t *bytes, size_t n, struct td_hlo_attr *out,
                         struct td_err *err)
{
    uint8_t *bits;
    TD_TRY(td_mlir_alloc(pool->f, n / 8 + 1, 1, &bits, err));
    for (size_t i = 0; i < n; i++) {
        bits[i / 8] |= (uint8_t)((bytes[i] != 0) << (i % 8));
    }
    out->raw = (struct td_bytes){(const char *)bits, n / 8 + (n % 8 != 0)};
    return TD_OK;
}

enum td_code td_mlir_dense_is(struct td_mlir_pool *pool, struct td_mlir_bytes raw, struct td_hlo_attr *out,
                              struct td_err *err)
{
    size_t len = td_mlir_left(&raw);
    out->kind = TD_HLO_DENSE;
    out->raw = (struct td_bytes){(const char *)raw.p, len};
    if (out->type.unsupported != NULL) {
        return TD_OK;
    }
    int64_t n = td_shape_count(&out->type.shape);
    TD_FAIL_IF(n < 0, err, INVALID_ARGUMENT, "StableHLO module, byte %zu: a constant of shape %s",
               td_mlir_at(&raw), TD_SHAPE_STR(&out->type.shape));
    bool is_bool = out->type.dtype == TD_BOOL;
    uint64_t size = is_bool ? 1 : td_dtype_size(out->type.dtype), count = (uint64_t)n;
    if (is_bool && len == count && count > 1) {
        return pack(pool, raw.p, len, out, err);
    }
    if (is_bool ? len == count / 8 + (count % 8 != 0) : len % size == 0 && len / size == count) {
        return TD_OK;
    }
    TD_FAIL_IF(len != size, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: %zu bytes for a constant of shape %s", td_mlir_at(&raw), len,
               TD_SHAPE_STR(&out->type.shape));
    out->splat = true;
    return TD_OK;
}

enum td_code td_mlir_dense(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_hlo_attr *out,
                           struct td_err *err)
{
    const struct td_mlir_type *t;
    struct td_mlir_bytes raw;
    TD_TRY(td_mlir_type_of(pool, b, &t, err));
    TD_FAIL_IF(t->t.kind != TD_HLO_TENSOR, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: a constant's type is no tensor's", td_mlir_at(b));
    TD_TRY(td_mlir_blob(b, "a constant", &raw, err));
    out->type = t->t;
    return td_mlir_dense_is(pool, raw, out, err);
}

static enum td_code new_items(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_hlo_attr **items,
                              int *n, struct td_err *err)
{
    TD_TRY(td_mlir_count(b, "items", n, err));
    return td_mlir_alloc(pool->f, (size_t)*n, sizeof **items, items, err);
}

enum td_code td_mlir_array(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_hlo_attr *out,
                           struct td_err *err)
{
    struct td_hlo_attr *items;
    TD_TRY(new_items(pool, b, &items, &out->n, err));
    for (int i = 0; i < out->n; i++) {
        const struct td_hlo_attr *item;
        TD_TRY(td_mlir_attr_of(pool, b, &item, err));
        items[i] = *item;
    }
    out->kind = TD_HLO_ARRAY;
    out->items = items;
    return TD_OK;
}

static bool is_foreign(const struct td_mlir_file *f, int attr)
{
    enum td_mlir_dialect kind = f->dialects[f->attrs[attr].dialect].kind;
    return kind != TD_MLIR_VHLO && kind != TD_MLIR_BUILTIN;
}

enum td_code td_mlir_dictionary(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_hlo_attr *out,
                                struct td_err *err)
{
    struct td_hlo_attr *items;
    int n;
    TD_TRY(new_items(pool, b, &items, &n, err));
    for (int i = 0; i < n; i++) {
        struct td_hlo_attr name;
        const struct td_hlo_attr *value;
        int attr;
        TD_TRY(td_mlir_symbol(pool, b, &name, err));
        TD_FAIL_IF(strlen(name.str.p) != name.str.len, err, INVALID_ARGUMENT,
                   "StableHLO module, byte %zu: the name '%s' goes on behind a NUL", td_mlir_at(b),
                   name.str.p);
        TD_TRY(td_mlir_index(b, "attribute", pool->f->n_attrs, &attr, err));
        if (is_foreign(pool->f, attr)) {
            continue;
        }
        TD_TRY(td_mlir_attr_at(pool, attr, &value, err));
        items[out->n] = *value;
        items[out->n++].name = name.str.p;
    }
    out->kind = TD_HLO_DICT;
    out->items = items;
    return TD_OK;
}

enum td_code td_mlir_numbers(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_hlo_attr *out,
                             struct td_err *err)
{
    struct td_hlo_attr *items;
    TD_TRY(new_items(pool, b, &items, &out->n, err));
    for (int i = 0; i < out->n; i++) {
        items[i] = (struct td_hlo_attr){.name = "", .kind = TD_HLO_INT};
        TD_TRY(td_mlir_signed(b, &items[i].i, err));
    }
    out->kind = TD_HLO_ARRAY;
    out->items = items;
    return TD_OK;
}
