/* kernels/cuda/module.c - tensord_cuda.so: the entry, and the table that it hands out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/module.h"

#include "kernels/cuda/base/describe.h"
#include "kernels/cuda/base/device.h"
#include "kernels/cuda/base/nccl.h"
#include "kernels/cuda/rows.h"

const struct td_device_module *td_device_module(const struct td_module_host *host)
{
    static struct td_device_module module = {.version = TD_DEVICE_MODULE_VERSION,
                                             .build = TENSORD_VERSION,
                                             .count = td_cuda_device_number,
                                             .describe = td_cuda_device_describe,
                                             .open = td_cuda_device_open,
                                             .close = td_cuda_device_close,
                                             .restart = td_cuda_device_restart,
                                             .counts = td_cuda_device_count,
                                             .library = td_cuda_device_library,
                                             .families = td_cuda_families,
                                             .groups = &td_nccl_groups};
    td_cuda_host = host;
    module.layout = td_device_module_layout();
    return &module;
}
