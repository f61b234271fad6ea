/* kernels/cuda/base/describe.h - which GPUs there are, and what each is.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_DESCRIBE_H
#define TD_KERNELS_CUDA_BASE_DESCRIBE_H

#include "core/run/device_module.h"

/* Of struct td_device_module. */
TD_MUST enum td_code td_cuda_device_number(int *n, struct td_err *err);
TD_MUST enum td_code td_cuda_device_describe(int number, struct td_device_facts *out, struct td_err *err);
/* FAILED_PRECONDITION: the kernels were not made for it. */
TD_MUST enum td_code td_cuda_device_check(int number, const struct td_device_facts *facts,
                                          struct td_err *err);

#endif
