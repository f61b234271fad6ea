/* proto/stablehlo/hlo_op_attrs.h - the attributes of an operation: its properties and its dictionary,
 * levelled.
 *
 * Operations that say the same refer to the same properties and dictionary; what is made of these is kept and
 * shared.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_STABLEHLO_HLO_OP_ATTRS_H
#define TD_PROTO_STABLEHLO_HLO_OP_ATTRS_H

#include "proto/stablehlo/mlir_pool.h"
#include "proto/stablehlo/vhlo_ops.h"

struct td_hlo_op_attrs_made;
struct td_hlo_op_attrs {
    struct td_mlir_pool *pool;
    struct td_hlo_op_attrs_made *of_properties, *of_dictionaries; /* the last one made of each */
};

/* What an operation's bytes refer to. */
struct td_hlo_op_refs {
    const struct td_vhlo_op *op; /* NULL: not VHLO's, its properties cannot be read and are left out */
    int dictionary, properties;  /* -1: none */
};

TD_MUST enum td_code td_hlo_op_attrs_init(struct td_hlo_op_attrs *a, struct td_mlir_pool *pool,
                                          struct td_err *err);
TD_MUST enum td_code td_hlo_op_attrs_get(struct td_hlo_op_attrs *a, const struct td_hlo_op_refs *refs,
                                         const struct td_hlo_attr **attrs, int *n, struct td_err *err);

#endif
