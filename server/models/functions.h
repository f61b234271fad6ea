/* server/models/functions.h - what the signatures of a version have compiled so far, as the document of GET
 * .../functions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_FUNCTIONS_H
#define TD_SERVER_MODELS_FUNCTIONS_H

#include <jansson.h>

#include "server/models/servable.h"

/* {"functions": [..]}: one element a public signature, with its gradients that are kept. New reference; NULL
 * without memory. */
json_t *td_functions_json(struct td_servable *s);

#endif
