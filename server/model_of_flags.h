/* server/model_of_flags.h - the one model that flags or the positional argument name.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODEL_OF_FLAGS_H
#define TD_SERVER_MODEL_OF_FLAGS_H

#include "server/base/options.h"
#include "server/models/config.h"

/* *out is freed by td_model_configs_free. INVALID_ARGUMENT where none is named. */
TD_MUST enum td_code td_model_of_flags(const struct td_options *o, struct td_model_config **out, int *n,
                                       struct td_err *err);

#endif
