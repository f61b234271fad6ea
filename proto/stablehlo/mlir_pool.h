/* proto/stablehlo/mlir_pool.h - the attributes and types of a bytecode file, read when first asked for.
 *
 * Each is read once and then shared: what refers to it a million times holds a million pointers or shallow
 * copies, and a list of lists of lists grows by its entries, not by their product. Nesting is bounded by
 * TD_MLIR_MAX_NESTING, which also ends an entry that holds itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_STABLEHLO_MLIR_POOL_H
#define TD_PROTO_STABLEHLO_MLIR_POOL_H

#include "proto/stablehlo/mlir_file.h"
#include "proto/stablehlo/module.h"

enum { TD_MLIR_MAX_NESTING = 64 };

struct td_mlir_type {
    struct td_hlo_type t; /* of a number alone: a scalar's */
    /* NO_NUMBER: a tensor, a tuple, ... COMPLEX is a tensor's element only. */
    enum { TD_MLIR_NO_NUMBER, TD_MLIR_SIGNED, TD_MLIR_UNSIGNED, TD_MLIR_FLOATING, TD_MLIR_COMPLEX } number;
    int bits;
};

struct td_mlir_pool {
    const struct td_mlir_file *f;
    const struct td_mlir_type **types; /* NULL: not read yet */
    const struct td_hlo_attr **attrs;
    int depth;
};

TD_MUST enum td_code td_mlir_pool_init(struct td_mlir_pool *pool, const struct td_mlir_file *f,
                                       struct td_err *err);
/* i is below the file's n_types, n_attrs. */
TD_MUST enum td_code td_mlir_type_at(struct td_mlir_pool *pool, int i, const struct td_mlir_type **out,
                                     struct td_err *err);
TD_MUST enum td_code td_mlir_attr_at(struct td_mlir_pool *pool, int i, const struct td_hlo_attr **out,
                                     struct td_err *err);
/* The one that the next varint of b refers to. */
TD_MUST enum td_code td_mlir_type_of(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                     const struct td_mlir_type **out, struct td_err *err);
TD_MUST enum td_code td_mlir_attr_of(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                     const struct td_hlo_attr **out, struct td_err *err);
/* A count and as many types, in the arena. */
TD_MUST enum td_code td_mlir_types_of(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                      const struct td_hlo_type **out, int *n, struct td_err *err);

#endif
