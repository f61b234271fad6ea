/* core/compile/channels_last.h - channels-first convolutions and pools as channels-last ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_COMPILE_CHANNELS_LAST_H
#define TD_CORE_COMPILE_CHANNELS_LAST_H

#include "core/compile/ir.h"
#include "core/compile/permute.h"

/* Nodes of ops that row member `channels` describes, in a channels-first data format: each becomes Transpose,
 * the same op channels last, Transpose. Those that could not mean the same (pools along the channels, sizes
 * that are no constants) stay. */
TD_MUST enum td_code td_channels_last(struct td_ir *ir, struct td_emitter *e);

#endif
