/* server/models/config_view.h - the configuration of a model as those who ask see it: its config.pbtxt,
 * completed from the signature; without a file, made of the signature alone.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_CONFIG_VIEW_H
#define TD_SERVER_MODELS_CONFIG_VIEW_H

#include "proto/bytes/sink.h"
#include "server/models/registry.h"

/* What a model without a config.pbtxt, whose tensors all have rows, says of their number. It takes more. */
#define TD_CONFIG_VIEW_ROWS 1000

/* Appends an inference.ModelConfig. name is the one the client used; sig is what that shows, or NULL. The
 * version policy is the one in force, which r knows. */
TD_MUST enum td_code td_config_view_write(struct td_registry *r, const struct td_servable *s,
                                          const char *name, const struct td_signature *sig,
                                          struct td_sink *out, struct td_err *err);
/* The same as JSON. */
TD_MUST enum td_code td_config_view_json(struct td_registry *r, const struct td_servable *s, const char *name,
                                         const struct td_signature *sig, struct td_sink *out,
                                         struct td_err *err);

#endif
