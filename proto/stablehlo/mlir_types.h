/* proto/stablehlo/mlir_types.h - what an entry of the table of types says: VHLO's and builtin's encodings.
 *
 * A number alone ("f32") is a scalar tensor's type here. Types without a number that tensord computes with
 * are read too, and say why in unsupported: a module may hold one where it is not run.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_STABLEHLO_MLIR_TYPES_H
#define TD_PROTO_STABLEHLO_MLIR_TYPES_H

#include "proto/stablehlo/mlir_pool.h"

TD_MUST enum td_code td_mlir_types_vhlo(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                        struct td_mlir_type *out, struct td_err *err);
TD_MUST enum td_code td_mlir_types_builtin(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                                           struct td_mlir_type *out, struct td_err *err);

#endif
