/* server/models/inspect.h - what is in a SavedModel or a checkpoint, as JSON documents for people.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_INSPECT_H
#define TD_SERVER_MODELS_INSPECT_H

#include "server/models/servable.h"

/* {"directory","tensorflow_version","tags":[..],"signatures":{KEY:{"method","inputs":{..},"outputs":{..},
 * "unsupported_ops":[..],"gradients":{OUTPUT:..}}},"functions":n,"variable_bytes":n,"ops":{NAME:count}}, and
 * of each output {"differentiable","inputs":[..],"variables":n,"blocked_inputs":[..],"blocked_variables":n,
 * "why"}, what does not apply left out. Returns new (free); NULL without memory. */
char *td_inspect_model_json(struct td_servable *s);
/* {"tensors":[{"name","dtype","shape","bytes"}],"bytes":n} of the bundle DIR/variables/variables, or of the
 * prefix DIR. */
TD_MUST enum td_code td_inspect_checkpoint_json(const char *dir, char **out, struct td_err *err);

#endif
