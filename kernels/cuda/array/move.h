/* kernels/cuda/array/move.h - launcher of move.cu; it returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_ARRAY_MOVE_H
#define TD_KERNELS_CUDA_ARRAY_MOVE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cuda/base/indices.h"
#include "kernels/cuda/base/runtime.h"
#include "kernels/cuda/base/steps.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[b] = x[a] for n elements of 1, 2, 4, 8 or 16 bytes, at the steps' places. x and y share no byte. */
int td_cuda_move(size_t bytes, const struct td_cuda_steps *steps, const void *x, void *y, int64_t n,
                 struct td_cuda_stream *stream);

/* Where x begins, or y: at the indices that entries of `at` are, each of an axis of `dim`, its neighbours
 * `step` elements apart. One that is not there is refused, and nothing is moved.
 *   INDEX     a negative one counts from the axis' end
 *   WITHIN    dim is the last that there is
 *   CLAMPED   the same; one that is not there is the next that is */
enum td_cuda_begin_kind { TD_CUDA_BEGIN_INDEX, TD_CUDA_BEGIN_WITHIN, TD_CUDA_BEGIN_CLAMPED };
struct td_cuda_begin {
    struct td_cuda_indices at;
    enum td_cuda_begin_kind kind;
    bool of_y;
    int n;
    int entry[TD_CUDA_DIMS];
    int64_t dim[TD_CUDA_DIMS], step[TD_CUDA_DIMS];
    int32_t *fault;
};
int td_cuda_move_from(size_t bytes, const struct td_cuda_steps *steps, const struct td_cuda_begin *from,
                      const void *x, void *y, int64_t n, struct td_cuda_stream *stream);

/* y[i] = the value, whose bytes are the first of `value`, for n elements of 1, 2, 4, 8 or 16 bytes. */
int td_cuda_fill(size_t bytes, const unsigned char value[16], void *y, int64_t n,
                 struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
