/* proto/stablehlo/hlo_read.c - from an artifact's bytes to its module, in the order of what needs what: the
 * file's tables (mlir_file.h), what they refer to on demand (mlir_pool.h), the operations (hlo_blocks.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/stablehlo/hlo_read.h"

#include <string.h>

#include "proto/stablehlo/hlo_blocks.h"

enum td_code td_hlo_read(struct td_arena *a, struct td_bytes bytes, struct td_hlo_module *out,
                         struct td_err *err)
{
    static const char producer[] = "StableHLO_v";
    struct td_mlir_file f;
    struct td_mlir_pool pool;
    TD_TRY(td_mlir_file_read(a, bytes, &f, err));
    TD_TRY(td_mlir_pool_init(&pool, &f, err));
    *out = (struct td_hlo_module){.version = ""};
    if (strncmp(f.producer, producer, sizeof producer - 1) == 0) {
        out->version = f.producer + sizeof producer - 1;
    }
    return td_hlo_blocks_read(&pool, out, err);
}
