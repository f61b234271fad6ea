/* proto/stablehlo/mlir_values.h - the parts of attributes that VHLO and builtin write alike: strings, numbers
 * of a type, dense tensors, arrays, dictionaries.
 *
 * *out has its name already, all else is zero.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_STABLEHLO_MLIR_VALUES_H
#define TD_PROTO_STABLEHLO_MLIR_VALUES_H

#include "proto/stablehlo/mlir_pool.h"

/* The string of the table that the next varint of b means. */
TD_MUST enum td_code td_mlir_string(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                    struct td_hlo_attr *out, struct td_err *err);
/* Another attribute, which is a string: a symbol. */
TD_MUST enum td_code td_mlir_symbol(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                    struct td_hlo_attr *out, struct td_err *err);
/* A type alone. */
TD_MUST enum td_code td_mlir_type_attr(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                       struct td_hlo_attr *out, struct td_err *err);
/* A type, and a value of it: INT, or BOOL where the type is i1. */
TD_MUST enum td_code td_mlir_integer(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                     struct td_hlo_attr *out, struct td_err *err);
/* The same, FLOAT; NaN where tensord has no such type. */
TD_MUST enum td_code td_mlir_float(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                   struct td_hlo_attr *out, struct td_err *err);
/* 64 bits of a double, as a varint. */
TD_MUST enum td_code td_mlir_double(struct td_mlir_bytes *b, double *v, struct td_err *err);
/* A type, and the bytes of a tensor of it. */
TD_MUST enum td_code td_mlir_dense(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                   struct td_hlo_attr *out, struct td_err *err);
/* The bytes raw are out's elements: out->type is set. */
TD_MUST enum td_code td_mlir_dense_is(struct td_mlir_pool *pool, struct td_mlir_bytes raw,
                                      struct td_hlo_attr *out, struct td_err *err);
/* A count and as many attributes. */
TD_MUST enum td_code td_mlir_array(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                   struct td_hlo_attr *out, struct td_err *err);
/* A count and as many pairs of a name, a string's attribute, and a value. What another dialect annotates
 * is left out. */
TD_MUST enum td_code td_mlir_dictionary(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                        struct td_hlo_attr *out, struct td_err *err);
/* A count and as many signed varints: an array of INT. */
TD_MUST enum td_code td_mlir_numbers(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                     struct td_hlo_attr *out, struct td_err *err);

#endif
