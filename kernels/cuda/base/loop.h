/* kernels/cuda/base/loop.h - launchers of loop.cu: what conditional nodes in a recording go by. They return
 * CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_LOOP_H
#define TD_KERNELS_CUDA_BASE_LOOP_H

#include "core/base/device_nodes.h"
#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets a loop's condition: whether another round begins. */
int td_cuda_loop_test(uint64_t condition, const struct td_device_loop *l, struct td_cuda_stream *stream);
/* to [bytes] = from, unless l says that the round is not to be over. */
int td_cuda_loop_carry(const struct td_device_loop *l, void *to, const void *from, size_t bytes,
                       struct td_cuda_stream *stream);
/* Sets a Switch's condition to the number of the body; or those of n Ifs, one of them to 1. */
int td_cuda_branch_choose(const uint64_t *conditions, bool is_switch, const struct td_device_branch *b,
                          struct td_cuda_stream *stream);
/* Sets an If's condition, and what p has for a loop. */
int td_cuda_pass_test(uint64_t condition, const struct td_device_pass *p, struct td_cuda_stream *stream);
/* to [bytes] = from where *fresh is not 0. */
int td_cuda_pass_copy(const uint32_t *fresh, void *to, const void *from, size_t bytes,
                      struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
