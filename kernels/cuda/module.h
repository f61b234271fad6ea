/* kernels/cuda/module.h - the CUDA module's side of core/run/device_module.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_MODULE_H
#define TD_KERNELS_CUDA_MODULE_H

#include "core/run/device_module.h"

extern const struct td_module_host *td_cuda_host;

__attribute__((visibility("default"))) td_device_module_entry td_device_module;

#endif
