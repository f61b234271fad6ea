/* proto/stablehlo/vhlo_attrs.h - what an attribute of VHLO says.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_STABLEHLO_VHLO_ATTRS_H
#define TD_PROTO_STABLEHLO_VHLO_ATTRS_H

#include "proto/stablehlo/mlir_pool.h"

/* *out has its name already, all else is zero. */
TD_MUST enum td_code td_vhlo_attrs_read(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                        struct td_hlo_attr *out, struct td_err *err);

#endif
