/* proto/stablehlo/hlo_blocks.h - operations, their regions and the values that run between them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_STABLEHLO_HLO_BLOCKS_H
#define TD_PROTO_STABLEHLO_HLO_BLOCKS_H

#include "proto/stablehlo/mlir_pool.h"

/* The functions of the module that the file's IR section is, in its order. */
TD_MUST enum td_code td_hlo_blocks_read(struct td_mlir_pool *pool, struct td_hlo_module *out,
                                        struct td_err *err);

#endif
