/* kernels/cuda/base/indices.h - tensors of indices as kernels take them, and what slices are moved in.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_BASE_INDICES_H
#define TD_KERNELS_CUDA_BASE_INDICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum td_cuda_index {
    TD_CUDA_INDEX_32,
    TD_CUDA_INDEX_64,
    TD_CUDA_INDEX_16,
    TD_CUDA_INDEX_8,
    TD_CUDA_INDEX_U8
};
struct td_cuda_indices {
    const void *at;
    enum td_cuda_index type;
};

/* Tuples of `depth` indices into axes of these sizes. */
enum { TD_CUDA_DEPTH = 12 };
struct td_cuda_tuples {
    int depth;
    int64_t dim[TD_CUDA_DEPTH];
};

struct td_tensor;
struct td_node;
struct td_shape;
struct td_cuda_indices td_cuda_indices_of(const struct td_tensor *t);
/* Of a tensor of that shape. */
void td_cuda_tuples_of(const struct td_shape *s, int64_t depth, struct td_cuda_tuples *out);
/* Attribute bad_indices_policy: tuples outside mean nothing; and why a row does not take what it says. */
bool td_cuda_ignores_bad(const struct td_node *n);
const char *td_cuda_refuses_policy(const struct td_node *n);

/* In how many bytes at a time slices of so many are best moved between a and b. */
static inline size_t td_cuda_unit(size_t slice, const void *a, const void *b)
{
    size_t unit = 16;
    while (((slice | (size_t)(uintptr_t)a | (size_t)(uintptr_t)b) & (unit - 1)) != 0) {
        unit /= 2;
    }
    return unit;
}

#ifdef __cplusplus
}
#endif
#endif
