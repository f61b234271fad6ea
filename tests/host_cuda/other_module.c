/* tests/host_cuda/other_module.c - a device module of another build: OTHER is what differs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_module.h"

enum { VERSION = 1, LAYOUT = 2, BUILD = 3 };

__attribute__((visibility("default"))) td_device_module_entry td_device_module;

const struct td_device_module *td_device_module(const struct td_module_host *host)
{
    static struct td_device_module module;
    (void)host;
    module = (struct td_device_module){.version = TD_DEVICE_MODULE_VERSION + (OTHER == VERSION),
                                       .layout = td_device_module_layout() + (OTHER == LAYOUT),
                                       .build = OTHER == BUILD ? "0.0.1" : TENSORD_VERSION};
    return &module;
}
