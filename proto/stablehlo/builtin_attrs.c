/* proto/stablehlo/builtin_attrs.c - reads an attribute of MLIR's builtin dialect: a code and what belongs to
 * it.
 *
 * Not read: affine maps, sparse and string tensors, references to resources, which no writer of StableHLO
 * leaves.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/stablehlo/builtin_attrs.h"

#include "proto/stablehlo/mlir_values.h"

enum code {
    ARRAY = 0,
    DICTIONARY = 1,
    STRING = 2,
    STRING_TYPED = 3,
    FLAT_SYMBOL = 4,
    TYPE = 6,
    UNIT = 7,
    INTEGER = 8,
    FLOAT = 9,
    FIRST_LOCATION = 10,
    LAST_LOCATION = 15,
    DENSE_ARRAY = 17,
    DENSE = 18,
    LOCATION_RANGE = 22
};

static enum td_code read_typed_string(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                      struct td_hlo_attr *out, struct td_err *err)
{
    int type;
    TD_TRY(td_mlir_string(pool, b, out, err));
    return td_mlir_index(b, "type", pool->f->n_types, &type, err);
}

/* array<i64: 1, 2>: as a dense tensor of rank 1, but that booleans have a byte each. */
static enum td_code read_dense_array(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                     struct td_hlo_attr *out, struct td_err *err)
{
    const struct td_mlir_type *t;
    uint64_t n;
    struct td_mlir_bytes raw;
    TD_TRY(td_mlir_type_of(pool, b, &t, err));
    TD_TRY(td_mlir_varint(b, &n, err));
    TD_TRY(td_mlir_blob(b, "an array", &raw, err));
    TD_FAIL_IF(t->number == TD_MLIR_NO_NUMBER || n > td_mlir_left(&raw), err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: an array of %llu elements in %zu bytes", td_mlir_at(b),
               (unsigned long long)n, td_mlir_left(&raw));
    out->type = t->t;
    out->type.shape = td_shape_vector((int64_t)n);
    return td_mlir_dense_is(pool, raw, out, err);
}

static enum td_code read_other(struct td_mlir_bytes *b, uint64_t code, struct td_hlo_attr *out,
                               struct td_err *err)
{
    bool location = (code >= FIRST_LOCATION && code <= LAST_LOCATION) || code == LOCATION_RANGE;
    TD_FAIL_IF(!location, err, UNIMPLEMENTED,
               "StableHLO module, byte %zu: attribute %llu of MLIR's builtin dialect", td_mlir_at(b),
               (unsigned long long)code);
    out->kind = TD_HLO_UNIT;
    b->p = b->end;
    return TD_OK;
}

enum td_code td_builtin_attrs_read(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                   struct td_hlo_attr *out, struct td_err *err)
{
    uint64_t code;
    TD_TRY(td_mlir_varint(b, &code, err));
    switch (code) {
    case ARRAY:
        return td_mlir_array(pool, b, out, err);
    case DICTIONARY:
        return td_mlir_dictionary(pool, b, out, err);
    case STRING:
        return td_mlir_string(pool, b, out, err);
    case STRING_TYPED:
        return read_typed_string(pool, b, out, err);
    case FLAT_SYMBOL:
        return td_mlir_symbol(pool, b, out, err);
    case TYPE:
        return td_mlir_type_attr(pool, b, out, err);
    case UNIT:
        out->kind = TD_HLO_UNIT;
        return TD_OK;
    case INTEGER:
        return td_mlir_integer(pool, b, out, err);
    case FLOAT:
        return td_mlir_float(pool, b, out, err);
    case DENSE_ARRAY:
        return read_dense_array(pool, b, out, err);
    case DENSE:
        return td_mlir_dense(pool, b, out, err);
    default:
        return read_other(b, code, out, err);
    }
}
