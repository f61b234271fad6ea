/* core/channels.h - channels-first convolutions and pools as channels-last ones.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_CHANNELS_H
#define TD_CORE_CHANNELS_H

#include "core/turn.h"

/* Conv2D, MaxPool and their like in a channels-first data format: each becomes Transpose, the same op
 * channels last, Transpose. Those that could not mean the same (pools along the channels, sizes that are no
 * constants) stay. */
TD_MUST enum td_code td_channels_last(const struct td_turner *t);

#endif
