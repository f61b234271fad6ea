/* server/start_sandbox.h - what --sandbox lets the daemon read and write, out of its options and models.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_START_SANDBOX_H
#define TD_SERVER_START_SANDBOX_H

#include "server/base/options.h"
#include "server/base/sandbox.h"
#include "server/models/config.h"

/* Enters the sandbox, before there is a second thread; *out, a static thing, is NULL without --sandbox. */
TD_MUST enum td_code td_start_sandbox(const struct td_options *o, const char *state_dir,
                                      const struct td_model_config *models, int n, struct td_sandbox **out,
                                      struct td_err *err);
/* PERMISSION_DENIED names the first model whose folder lies outside. */
TD_MUST enum td_code td_sandbox_check_models(const struct td_sandbox *s, const struct td_model_config *models,
                                             int n, struct td_err *err);

#endif
