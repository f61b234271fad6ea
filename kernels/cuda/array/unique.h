/* kernels/cuda/array/unique.h - launchers of unique.cu; each returns CUDA's error number.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_ARRAY_UNIQUE_H
#define TD_KERNELS_CUDA_ARRAY_UNIQUE_H

#include "kernels/cuda/base/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x [outer, n, inner] as n slices along the middle axis, n < 2^30. Elements are `bytes` bits and bytes: those
 * that have none of `exponent` are zero (0: all are as they are), those whose bits without the sign are above
 * `infinity` equal nothing (0: none), and of truths all that are not zero are one. */
struct td_cuda_unique {
    const void *x;
    int64_t outer, n, inner;
    uint64_t exponent, infinity;
    int bytes; /* 1, 2, 4 or 8 */
    bool truth;
    uint32_t mask;  /* of the table, whose slots are a power of two, twice as many as slices at least */
    int32_t *table; /* [mask + 1]: 1 + the first slice of a group; 0: free */
    int32_t *slot;  /* [n]: of the slice's group; -1: it equals nothing. Later: the groups' first slices */
    int32_t *first; /* [n]: the first slice that is equal */
    struct td_cuda_ranks ranks; /* marked: what is the first of its group */
};
size_t td_cuda_unique_bytes(int64_t n);
/* Gives s its room, n being set. */
void td_cuda_unique_in(struct td_cuda_unique *s, void *workspace);
/* Finds the groups. *groups: how many. */
int td_cuda_unique_find(const struct td_cuda_unique *s, int64_t *groups, struct td_cuda_stream *stream);
/* s->slot[g] = the first slice of group g, and which [n] = the group of each slice: groups are numbered as
 * they come. counts [groups] = how many slices each has; NULL: nobody asks. Both are int32 or, `wide`,
 * int64. */
int td_cuda_unique_tell(const struct td_cuda_unique *s, int64_t groups, void *which, void *counts, bool wide,
                        struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
