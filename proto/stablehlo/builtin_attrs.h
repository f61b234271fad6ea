/* proto/stablehlo/builtin_attrs.h - what an attribute of MLIR's builtin dialect says.
 *
 * The artifact's module itself, its operations' dictionaries and their names are builtin's; what these hold
 * is VHLO's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_STABLEHLO_BUILTIN_ATTRS_H
#define TD_PROTO_STABLEHLO_BUILTIN_ATTRS_H

#include "proto/stablehlo/mlir_pool.h"

/* *out has its name already, all else is zero. A location is UNIT: nobody asks for one. */
TD_MUST enum td_code td_builtin_attrs_read(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                           struct td_hlo_attr *out, struct td_err *err);

#endif
