/* kernels/cuda/nn/attention.cuh - what the kernels of attention share: where a batch entry's tensors begin,
 * what a stage does to a score, and what a row comes to in the end.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_ATTENTION_CUH
#define TD_KERNELS_CUDA_NN_ATTENTION_CUH

#include <cmath>

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
template <class T>
__device__ inline float td_cuda_attention_operand(const td_cuda_attention_stage &g, int64_t at)
{
    return g.operand != nullptr ? td_cuda_load(static_cast<const T *>(g.operand)[at]) : g.number;
}

template <class T>
__device__ inline float td_cuda_attention_stage_one(const td_cuda_attention_stage &g, int64_t at, float x)
{
    if (g.kind >= TD_CUDA_ATTENTION_KEEP) {
        return td_cuda_attention_chosen(g, at) ? x : g.number;
    }
    const float by = td_cuda_attention_operand<T>(g, at);
    return g.kind == TD_CUDA_ATTENTION_ADD   ? x + by
           : g.kind == TD_CUDA_ATTENTION_SUB ? x - by
           : g.kind == TD_CUDA_ATTENTION_MUL ? x * by
                                             : x / by;
}

/* The stages before or after the softmax, of the score of query t and key s. */
template <class T>
__device__ inline float td_cuda_attention_staged(const td_cuda_attention &a, const td_cuda_attention_bases &b,
                                                 bool after, int64_t t, int64_t s, float x)
{
    for (int i = 0; i < a.n_stages; i++) {
        if (a.stage[i].after == after) {
            x = td_cuda_attention_stage_one<T>(
                a.stage[i], b.stage[i] + t * a.stage[i].step.at[1] + s * a.stage[i].step.at[0], x);
        }
    }
    return x;
}

/* Whether a row of that sum is to be made anew: its weights are no numbers, but there are stages behind the
 * softmax, which may leave such out. */
__device__ inline bool td_cuda_attention_again(const td_cuda_attention &a, float sum)
{
    bool any_after = false;
    for (int i = 0; i < a.n_stages; i++) {
        any_after = any_after || a.stage[i].after;
    }
    return any_after && !(sum > 0);
}

/* Column d of its result. */
template <class T>
__device__ TD_NOT_INLINE void td_cuda_attention_put_again(const td_cuda_attention &a,
                                                          const td_cuda_attention_bases &b, int64_t t,
                                                          int64_t d)
{
    const T *const value = static_cast<const T *>(a.value) + b.value + d * a.of_value.at[0];
    float sum = 0;
    for (int64_t s = 0; s < a.dim[0]; s++) {
        sum += td_cuda_attention_staged<T>(a, b, true, t, s, NAN) * td_cuda_load(value[s * a.of_value.at[1]]);
    }
    static_cast<T *>(a.out)[b.out + t * a.of_out.at[1] + d * a.of_out.at[0]] = td_cuda_store<T>::of(sum);
}

#endif
