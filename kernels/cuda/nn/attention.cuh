/* kernels/cuda/nn/attention.cuh - what the kernels of attention share: where a batch entry's tensors begin, and
 * what a stage has for a score.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_ATTENTION_CUH
#define TD_KERNELS_CUDA_NN_ATTENTION_CUH

#include "kernels/cuda/base/launch.cuh"
#include "kernels/cuda/nn/attention.h"

struct td_cuda_attention_bases {
    int64_t query, key, value, out, stage[TD_CUDA_ATTENTION_STAGES];
};

__device__ inline int64_t td_cuda_attention_batch_at(const td_cuda_attention &a,
                                                     const td_cuda_attention_steps &s, int64_t batch)
{
    int64_t at = 0;
    for (int k = 2; k < a.rank; k++) {
        const int64_t up = batch / a.dim[k];
        at += (batch - up * a.dim[k]) * s.at[k];
        batch = up;
    }
    return at;
}

/* By the first threads of a block; *b is shared, and the block waits behind it. */
__device__ inline void td_cuda_attention_find(const td_cuda_attention &a, int64_t batch,
                                              td_cuda_attention_bases *b)
{
    const int i = threadIdx.x;
    if (i < a.n_stages) {
        b->stage[i] = td_cuda_attention_batch_at(a, a.stage[i].step, batch);
    }
    if (i == 0) {
        b->query = td_cuda_attention_batch_at(a, a.of_query, batch);
        b->key = td_cuda_attention_batch_at(a, a.of_key, batch);
        b->value = td_cuda_attention_batch_at(a, a.of_value, batch);
        b->out = td_cuda_attention_batch_at(a, a.of_out, batch);
    }
}

/* Whether KEEP or DROP leaves the score as it is. */
__device__ inline bool td_cuda_attention_chosen(const td_cuda_attention_stage &g, int64_t at)
{
    const bool set = static_cast<const unsigned char *>(g.operand)[at] != 0;
    return set == (g.kind == TD_CUDA_ATTENTION_KEEP);
}

/* What the other stages add, or multiply with. */
template <class T> __device__ inline float td_cuda_attention_operand(const td_cuda_attention_stage &g, int64_t at)
{
    return g.operand != nullptr ? td_cuda_load(static_cast<const T *>(g.operand)[at]) : g.number;
}

#endif
