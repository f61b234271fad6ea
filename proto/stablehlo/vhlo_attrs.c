/* proto/stablehlo/vhlo_attrs.c - reads an attribute of VHLO: a code and what belongs to it.
 *
 * Enumerations are a number each (vhlo_enums.def). Structures become dictionaries of their fields:
 *
 *   output operand alias   output_tuple_indices, operand_index, operand_tuple_indices
 *   type extensions        bounds
 *   result accuracy        atol, rtol, ulps, mode
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/stablehlo/vhlo_attrs.h"

#include <string.h>

#include "proto/stablehlo/mlir_values.h"

enum code {
    ARRAY = 1,
    BOOLEAN = 2,
    DICTIONARY = 6,
    FLOAT = 8,
    INTEGER = 9,
    OUTPUT_OPERAND_ALIAS = 10,
    STRING = 14,
    TENSOR = 15,
    TYPE = 17,
    TYPE_EXTENSIONS = 18,
    RESULT_ACCURACY = 20
};

static const struct enumeration {
    unsigned code, value;
    const char *text;
} enumerations[] = {
#define X(code, value, text) {code, value, text},
#include "proto/stablehlo/vhlo_enums.def"
#undef X
};

static enum td_code read_enumeration(struct td_mlir_bytes *b, uint64_t code, struct td_hlo_attr *out,
                                     struct td_err *err)
{
    uint64_t value = 0;
    bool known = false;
    for (size_t i = 0; i < sizeof enumerations / sizeof *enumerations; i++) {
        const struct enumeration *e = &enumerations[i];
        if (e->code != code) {
            continue;
        }
        if (!known) {
            TD_TRY(td_mlir_varint(b, &value, err));
            known = true;
        }
        if (e->value == value) {
            out->kind = TD_HLO_STRING;
            out->str = (struct td_bytes){e->text, strlen(e->text)};
            return TD_OK;
        }
    }
    TD_FAIL_IF(known, err, UNIMPLEMENTED,
               "StableHLO module, byte %zu: value %llu of VHLO's enumeration %llu is newer than this reader",
               td_mlir_at(b), (unsigned long long)value, (unsigned long long)code);
    TD_FAIL(err, UNIMPLEMENTED,
            "StableHLO module, byte %zu: attribute %llu of VHLO is newer than this reader", td_mlir_at(b),
            (unsigned long long)code);
}

static enum td_code new_fields(struct td_mlir_pool *pool, const char *const *names, int n,
                               struct td_hlo_attr *out, struct td_hlo_attr **fields, struct td_err *err)
{
    TD_TRY(td_mlir_alloc(pool->f, (size_t)n, sizeof **fields, fields, err));
    for (int i = 0; i < n; i++) {
        (*fields)[i].name = names[i];
    }
    out->kind = TD_HLO_DICT;
    out->n = n;
    out->items = *fields;
    return TD_OK;
}

static enum td_code read_alias(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_hlo_attr *out,
                               struct td_err *err)
{
    static const char *const names[] = {"output_tuple_indices", "operand_index", "operand_tuple_indices"};
    struct td_hlo_attr *fields;
    TD_TRY(new_fields(pool, names, 3, out, &fields, err));
    TD_TRY(td_mlir_numbers(pool, b, &fields[0], err));
    fields[1].kind = TD_HLO_INT;
    TD_TRY(td_mlir_signed(b, &fields[1].i, err));
    return td_mlir_numbers(pool, b, &fields[2], err);
}

static enum td_code read_extensions(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                    struct td_hlo_attr *out, struct td_err *err)
{
    static const char *const names[] = {"bounds"};
    struct td_hlo_attr *fields;
    TD_TRY(new_fields(pool, names, 1, out, &fields, err));
    return td_mlir_numbers(pool, b, &fields[0], err);
}

static enum td_code read_accuracy(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_hlo_attr *out,
                                  struct td_err *err)
{
    static const char *const names[] = {"atol", "rtol", "ulps", "mode"};
    struct td_hlo_attr *fields;
    TD_TRY(new_fields(pool, names, 4, out, &fields, err));
    fields[0].kind = fields[1].kind = TD_HLO_FLOAT;
    TD_TRY(td_mlir_double(b, &fields[0].f, err));
    TD_TRY(td_mlir_double(b, &fields[1].f, err));
    fields[2].kind = TD_HLO_INT;
    TD_TRY(td_mlir_signed(b, &fields[2].i, err));
    return td_mlir_symbol(pool, b, &fields[3], err); /* an enumeration: a text here */
}

static enum td_code read_boolean(struct td_mlir_bytes *b, struct td_hlo_attr *out, struct td_err *err)
{
    uint64_t v;
    TD_TRY(td_mlir_varint(b, &v, err));
    TD_FAIL_IF(v > 1, err, INVALID_ARGUMENT, "StableHLO module, byte %zu: a boolean of %llu, want 0 or 1",
               td_mlir_at(b), (unsigned long long)v);
    out->kind = TD_HLO_BOOL;
    out->i = (int64_t)v;
    return TD_OK;
}

enum td_code td_vhlo_attrs_read(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_hlo_attr *out,
                                struct td_err *err)
{
    uint64_t code;
    TD_TRY(td_mlir_varint(b, &code, err));
    switch (code) {
    case ARRAY:
        return td_mlir_array(pool, b, out, err);
    case BOOLEAN:
        return read_boolean(b, out, err);
    case DICTIONARY:
        return td_mlir_dictionary(pool, b, out, err);
    case FLOAT:
        return td_mlir_float(pool, b, out, err);
    case INTEGER:
        return td_mlir_integer(pool, b, out, err);
    case OUTPUT_OPERAND_ALIAS:
        return read_alias(pool, b, out, err);
    case STRING:
        return td_mlir_string(pool, b, out, err);
    case TENSOR:
        return td_mlir_dense(pool, b, out, err);
    case TYPE:
        return td_mlir_type_attr(pool, b, out, err);
    case TYPE_EXTENSIONS:
        return read_extensions(pool, b, out, err);
    case RESULT_ACCURACY:
        return read_accuracy(pool, b, out, err);
    default:
        return read_enumeration(b, code, out, err);
    }
}
