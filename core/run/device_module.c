/* core/run/device_module.c - the engine's functions, for modules.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_module.h"

#include "core/base/disk.h"
#include "core/base/mem.h"
#include "core/run/lone.h"

const struct td_module_host td_module_host = {
#define CALL(type, name, parameters, given) .name = name,
#include "core/run/device_module.def"
};
