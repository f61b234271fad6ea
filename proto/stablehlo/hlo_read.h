/* proto/stablehlo/hlo_read.h - reads a StableHLO portable artifact: MLIR bytecode of the VHLO dialect.
 *
 * The format: https://mlir.llvm.org/docs/BytecodeFormat (versions 0 to 6), its attributes and types as the
 * VHLO and builtin dialects write theirs. The bytes are a model file's, and hostile: every count is held
 * against the bytes that are left before it is believed, nesting is bounded, references forward are checked,
 * and what is made counts against the arena's limit.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_STABLEHLO_HLO_READ_H
#define TD_PROTO_STABLEHLO_HLO_READ_H

#include "proto/stablehlo/module.h"

/* *out, in arena a, of the bytes, which must live as long. INVALID_ARGUMENT or DATA_LOSS says what is
 * wrong and at which byte; UNIMPLEMENTED names the dialect, the op or the attribute that is newer than
 * this reader. */
TD_MUST enum td_code td_hlo_read(struct td_arena *a, struct td_bytes bytes, struct td_hlo_module *out,
                                 struct td_err *err);

#endif
