/* server/models/devices_json.h - the devices as the document of GET /v1/devices.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_DEVICES_JSON_H
#define TD_SERVER_MODELS_DEVICES_JSON_H

#include <jansson.h>

#include "server/models/devices.h"

/* {"devices": [..], "missing": why there is none, "versions": {..}}; docs/gpu.md has one. New reference; NULL
 * without memory. */
json_t *td_devices_json(const struct td_devices *d);

#endif
