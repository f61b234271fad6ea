/* server/models/model_warmup.h - the warm-up requests of a config.pbtxt (model_warmup), run before a version
 * serves.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_MODEL_WARMUP_H
#define TD_SERVER_MODELS_MODEL_WARMUP_H

#include "server/models/servable.h"

/* Runs each of them as often as it says, against the default signature. A request that fails makes this fail:
 * the version is then not to serve. */
TD_MUST enum td_code td_model_warmup_run(struct td_servable *s, struct td_err *err);

#endif
