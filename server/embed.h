/* server/embed.h - inside of the C API: for programs that build it in.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_EMBED_H
#define TD_SERVER_EMBED_H

#include "core/run/engine.h"

struct td_device;

/* Where tensord_load's models run from now on; NULL, the default: the host. Borrowed. Not to be changed while
 * threads load. */
extern const struct td_device *td_embed_device;
/* Adds a module's ops and kernels to the engine of each model that is loaded from now on; NULL: nothing. */
extern enum td_code (*td_embed_module)(struct td_engine *e, struct td_err *err);

#endif
