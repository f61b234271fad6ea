/* proto/stablehlo/mlir_types.c - reads types, a code and what belongs to it.
 *
 *   a tensor     dims (signed varints; below 0: not known), element's type; with an encoding before these
 *   a tuple      types         a function     types of arguments, types of results
 *   quantized    flags, stored type, expressed type, scale and zero point: of the whole or of each slice
 *
 * The two dialects say the same with other codes. A dimension that has a bound (an encoding of type
 * extensions) is one that is not known; any other encoding changes what the tensor holds, and is not
 * supported.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/stablehlo/mlir_types.h"

#include <assert.h>
#include <string.h>

enum vhlo_code {
    VHLO_COMPLEX = 1,
    VHLO_FUNCTION = 8,
    VHLO_TENSOR = 20,
    VHLO_TENSOR_ENCODED = 21,
    VHLO_TOKEN = 22,
    VHLO_TUPLE = 23,
    VHLO_QUANTIZED = 24,
    VHLO_UNRANKED = 25,
    VHLO_WITNESS = 26,
    VHLO_QUANTIZED_PER_AXIS = 30,
    VHLO_NONE = 33,
    VHLO_BUFFER = 41,
    VHLO_FUTURE = 42
};

enum builtin_code {
    BUILTIN_INTEGER = 0,
    BUILTIN_INDEX = 1,
    BUILTIN_FUNCTION = 2,
    BUILTIN_BF16 = 3,
    BUILTIN_F16 = 4,
    BUILTIN_F32 = 5,
    BUILTIN_F64 = 6,
    BUILTIN_COMPLEX = 9,
    BUILTIN_NONE = 12,
    BUILTIN_TENSOR = 13,
    BUILTIN_TENSOR_ENCODED = 14,
    BUILTIN_TUPLE = 15,
    BUILTIN_UNRANKED = 18
};

static const struct scalar {
    unsigned code;
    enum td_dtype dtype;
    int bits, number;
    const char *text;
} scalars[] = {
#define X(code, dtype, bits, number, text) {code, TD_##dtype, bits, TD_MLIR_##number, text},
#define TD_NONE TD_DTYPE_NONE
#include "proto/stablehlo/vhlo_scalars.def"
#undef TD_NONE
#undef X
};

static bool scalar_of_code(uint64_t code, struct td_mlir_type *out)
{
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
        const struct scalar *s = &scalars[i];
        if (s->code == code) {
            *out = (struct td_mlir_type){
                .t = {.kind = TD_HLO_TENSOR,
                      .dtype = s->dtype,
                      .shape = td_shape_scalar(),
                      .unsupported = s->dtype == TD_DTYPE_NONE ? s->text : NULL},
                .number = s->number,
                .bits = s->bits,
            };
            return true;
        }
    }
    return false;
}

static enum td_code read_complex(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_mlir_type *out,
                                 struct td_err *err)
{
    const struct td_mlir_type *part;
    TD_TRY(td_mlir_type_of(pool, b, &part, err));
    TD_FAIL_IF(part->number == TD_MLIR_NO_NUMBER, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: complex numbers of what is no number", td_mlir_at(b));
    enum td_dtype dtype = part->t.dtype == TD_FLOAT    ? TD_COMPLEX64
                          : part->t.dtype == TD_DOUBLE ? TD_COMPLEX128
                                                       : TD_DTYPE_NONE;
    *out = (struct td_mlir_type){
        .t = {.kind = TD_HLO_TENSOR,
              .dtype = dtype,
              .shape = td_shape_scalar(),
              .unsupported = dtype == TD_DTYPE_NONE ? "complex numbers of neither f32 nor f64" : NULL},
        .number = TD_MLIR_COMPLEX,
    };
    return TD_OK;
}

static enum td_code read_shape(struct td_mlir_bytes *b, struct td_hlo_type *t, struct td_err *err)
{
    int rank;
    int64_t dims[TD_MAX_RANK];
    TD_TRY(td_mlir_count(b, "dimensions", &rank, err));
    for (int i = 0; i < rank; i++) {
        int64_t dim;
        TD_TRY(td_mlir_signed(b, &dim, err));
        if (i < TD_MAX_RANK) {
            dims[i] = dim < 0 ? -1 : dim;
        }
    }
    if (rank > TD_MAX_RANK) {
        t->shape = td_shape_unknown();
        t->unsupported = "rank above 12";
        return TD_OK;
    }
    if (td_shape_make(&t->shape, dims, rank, err)) {
        return td_err_wrap(err, "StableHLO module, byte %zu", td_mlir_at(b));
    }
    return TD_OK;
}

static_assert(TD_MAX_RANK == 12, "the text above says it");

/* Adds the type of its elements to *t. */
static enum td_code read_element(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_hlo_type *t,
                                 struct td_err *err)
{
    const struct td_mlir_type *element;
    TD_TRY(td_mlir_type_of(pool, b, &element, err));
    TD_FAIL_IF(element->number == TD_MLIR_NO_NUMBER && element->t.unsupported == NULL, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: a tensor of what is no number", td_mlir_at(b));
    t->kind = TD_HLO_TENSOR;
    t->dtype = element->t.dtype;
    t->unsupported = t->unsupported != NULL ? t->unsupported : element->t.unsupported;
    return TD_OK;
}

/* VHLO's type extensions, which bound dimensions: anything else is not known. */
static bool only_bounds(const struct td_mlir_pool *pool, int attr)
{
    const struct td_mlir_entry *e = &pool->f->attrs[attr];
    enum { TYPE_EXTENSIONS = 18 << 1 | 1 }; /* as the varint of one byte that it is */
    return pool->f->dialects[e->dialect].kind == TD_MLIR_VHLO && e->coded && td_mlir_left(&e->data) > 0 &&
           *e->data.p == TYPE_EXTENSIONS;
}

static enum td_code read_tensor(struct td_mlir_pool *pool, struct td_mlir_bytes *b, bool encoded,
                                struct td_mlir_type *out, struct td_err *err)
{
    *out = (struct td_mlir_type){0};
    if (encoded) {
        int attr;
        TD_TRY(td_mlir_index(b, "attribute", pool->f->n_attrs, &attr, err));
        out->t.unsupported = only_bounds(pool, attr) ? NULL : "a tensor with an encoding";
    }
    TD_TRY(read_shape(b, &out->t, err));
    return read_element(pool, b, &out->t, err);
}

static enum td_code read_unranked(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                  struct td_mlir_type *out, struct td_err *err)
{
    *out = (struct td_mlir_type){.t = {.shape = td_shape_unknown()}};
    return read_element(pool, b, &out->t, err);
}

static enum td_code read_tuple(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_mlir_type *out,
                               struct td_err *err)
{
    *out = (struct td_mlir_type){.t = {.kind = TD_HLO_TUPLE}};
    return td_mlir_types_of(pool, b, &out->t.parts, &out->t.n_parts, err);
}

static enum td_code read_function(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                  struct td_mlir_type *out, struct td_err *err)
{
    *out = (struct td_mlir_type){.t = {.kind = TD_HLO_FUNCTION}};
    TD_TRY(td_mlir_types_of(pool, b, &out->t.parts, &out->t.n_parts,
                            err)); /* of the arguments: its block says it */
    return td_mlir_types_of(pool, b, &out->t.parts, &out->t.n_parts, err);
}

static enum td_code skip_signed(struct td_mlir_bytes *b, int n, struct td_err *err)
{
    for (int i = 0; i < n; i++) {
        int64_t v;
        TD_TRY(td_mlir_signed(b, &v, err));
    }
    return TD_OK;
}

static enum td_code read_quantized(struct td_mlir_bytes *b, bool per_axis, struct td_mlir_type *out,
                                   struct td_err *err)
{
    *out = (struct td_mlir_type){
        .t = {.kind = TD_HLO_TENSOR, .shape = td_shape_scalar(), .unsupported = "!quant.uniform"}};
    if (!per_axis) { /* flags, two types, scale, zero point, range */
        return skip_signed(b, 7, err);
    }
    TD_TRY(skip_signed(b, 6, err)); /* flags, two types, axis, range */
    for (int i = 0; i < 2; i++) {   /* scales, zero points */
        int n;
        TD_TRY(td_mlir_count(b, "scales or zero points", &n, err));
        TD_TRY(skip_signed(b, n, err));
    }
    return TD_OK;
}

/* *out was cleared. */
static enum td_code other(int kind, const char *text, struct td_mlir_type *out)
{
    *out = (struct td_mlir_type){.t = {.kind = kind, .unsupported = text}};
    return TD_OK;
}

enum td_code td_mlir_types_vhlo(struct td_mlir_pool *pool, struct td_mlir_bytes *b, struct td_mlir_type *out,
                                struct td_err *err)
{
    uint64_t code;
    TD_TRY(td_mlir_varint(b, &code, err));
    if (scalar_of_code(code, out)) {
        return TD_OK;
    }
    switch (code) {
    case VHLO_COMPLEX:
        return read_complex(pool, b, out, err);
    case VHLO_FUNCTION:
        return read_function(pool, b, out, err);
    case VHLO_TENSOR:
    case VHLO_TENSOR_ENCODED:
        return read_tensor(pool, b, code == VHLO_TENSOR_ENCODED, out, err);
    case VHLO_TOKEN:
        return other(TD_HLO_TOKEN, NULL, out);
    case VHLO_TUPLE:
        return read_tuple(pool, b, out, err);
    case VHLO_QUANTIZED:
    case VHLO_QUANTIZED_PER_AXIS:
        return read_quantized(b, code == VHLO_QUANTIZED_PER_AXIS, out, err);
    case VHLO_UNRANKED:
        return read_unranked(pool, b, out, err);
    case VHLO_WITNESS:
        return other(TD_HLO_OTHER, NULL, out);
    case VHLO_NONE:
        return other(TD_HLO_NONE, NULL, out);
    case VHLO_BUFFER:
        TD_TRY(read_tensor(pool, b, false, out, err));
        return other(TD_HLO_OTHER, NULL, out);
    case VHLO_FUTURE:
        TD_TRY(read_tuple(pool, b, out, err));
        return other(TD_HLO_OTHER, NULL, out);
    default:
        TD_FAIL(err, UNIMPLEMENTED, "StableHLO module, byte %zu: type %llu of VHLO is newer than this reader",
                td_mlir_at(b), (unsigned long long)code);
    }
}

/* i32, ui8, si64: a width and how it is signed (0: not said, 1: signed, 2: not signed). */
static enum td_code read_integer(struct td_mlir_bytes *b, struct td_mlir_type *out, struct td_err *err)
{
    uint64_t v;
    TD_TRY(td_mlir_varint(b, &v, err));
    bool is_unsigned = (v & 3) == 2 || v >> 2 == 1;
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
        const struct scalar *s = &scalars[i];
        if ((uint64_t)s->bits == v >> 2 && s->number == (is_unsigned ? TD_MLIR_UNSIGNED : TD_MLIR_SIGNED)) {
            scalar_of_code(s->code, out);
            return TD_OK;
        }
    }
    TD_FAIL(err, UNIMPLEMENTED, "StableHLO module, byte %zu: an integer of %llu bits", td_mlir_at(b),
            (unsigned long long)(v >> 2));
}

static bool scalar_of_text(const char *text, struct td_mlir_type *out)
{
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
        if (strcmp(scalars[i].text, text) == 0) {
            return scalar_of_code(scalars[i].code, out);
        }
    }
    return false;
}

enum td_code td_mlir_types_builtin(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                   struct td_mlir_type *out, struct td_err *err)
{
    static const char *const texts[] = {
        [BUILTIN_INDEX] = "index", [BUILTIN_BF16] = "bf16", [BUILTIN_F16] = "f16",
        [BUILTIN_F32] = "f32",     [BUILTIN_F64] = "f64",
    };
    uint64_t code;
    TD_TRY(td_mlir_varint(b, &code, err));
    if (code <= BUILTIN_F64 && texts[code] != NULL && scalar_of_text(texts[code], out)) {
        return TD_OK;
    }
    switch (code) {
    case BUILTIN_INTEGER:
        return read_integer(b, out, err);
    case BUILTIN_FUNCTION:
        return read_function(pool, b, out, err);
    case BUILTIN_COMPLEX:
        return read_complex(pool, b, out, err);
    case BUILTIN_NONE:
        return other(TD_HLO_NONE, NULL, out);
    case BUILTIN_TENSOR:
    case BUILTIN_TENSOR_ENCODED:
        return read_tensor(pool, b, code == BUILTIN_TENSOR_ENCODED, out, err);
    case BUILTIN_TUPLE:
        return read_tuple(pool, b, out, err);
    case BUILTIN_UNRANKED:
        return read_unranked(pool, b, out, err);
    default:
        TD_FAIL(err, UNIMPLEMENTED, "StableHLO module, byte %zu: type %llu of MLIR's builtin dialect",
                td_mlir_at(b), (unsigned long long)code);
    }
}
