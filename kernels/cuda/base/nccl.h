/* kernels/cuda/base/nccl.h - sums over the GPUs of several processes by NCCL, as core/run/device_module.h has
 * them (struct td_device_groups).
 *
 * A group has a stream of its own, so that sums go on beside what runs compute:
 *
 *   the run's stream   gradients a, b ..|.. the rest of the backward pass ..|.. updates
 *                                       v event                             ^ mark's event
 *   the group's                         sum of a, b in one group of calls --+
 *
 * The library is looked for when the first group is asked for: it is large, and only such jobs want it.
 *
 * Threads: one at a time for a group's calls, but for abort: any, while another one waits for the device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_NCCL_H
#define TD_KERNELS_CUDA_BASE_NCCL_H

#include "core/run/device_module.h"

extern const struct td_device_groups td_nccl_groups;

/* The same with files of other names, for tests: version's. */
int td_nccl_version_of(const char *const *names, char *said, size_t room);

#endif
