/* server/request/device_restart.h - a GPU that an error has made unusable serves again: on command.
 *
 * Its versions go on where they are, with the plans that they have; weights are sent again when a run wants
 * them. What runs had computed there and assigned to a variable, and nobody had brought to the host, is lost:
 * such variables are told, and reading one is DATA_LOSS until it is assigned, or its version loaded again. A
 * version is not loaded anew by itself: its other variables may be worth more than what the files have.
 *
 * Regions of CUDA shared memory on it are unregistered. shm may be NULL.
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_REQUEST_DEVICE_RESTART_H
#define TD_SERVER_REQUEST_DEVICE_RESTART_H

#include <jansson.h>

#include "server/models/devices.h"
#include "server/models/registry.h"
#include "server/request/shm.h"

/* *out is new: {"restarted": NAME, "regions": 0, "lost": [{"model": .., "version": "1", "variables": [..]}]};
 * regions: of shared memory, that were unregistered. NOT_FOUND;
 * FAILED_PRECONDITION: it is in service; UNAVAILABLE: it stays out of service. */
TD_MUST enum td_code td_device_restart(const struct td_devices *d, struct td_registry *r, struct td_shm *shm,
                                       const char *name, json_t **out, struct td_err *err);

#endif
