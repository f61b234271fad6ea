/* kernels/cuda/nn/attention.h - launcher of attention.cu; it returns CUDA's error number. Half and bfloat16
 * go to attention_mma.cu, and floats where factors may be rounded to TF32.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CUDA_NN_ATTENTION_H
#define TD_KERNELS_CUDA_NN_ATTENTION_H

#include "kernels/cuda/base/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TD_CUDA_ATTENTION_RANK = 12, TD_CUDA_ATTENTION_STAGES = 8 };

/* enum td_attention_kind of kernels/linalg/attention.h, which is not for .cu files. */
enum td_cuda_attention_kind {
    TD_CUDA_ATTENTION_ADD,
    TD_CUDA_ATTENTION_SUB,
    TD_CUDA_ATTENTION_MUL,
    TD_CUDA_ATTENTION_DIV,
    TD_CUDA_ATTENTION_KEEP,
    TD_CUDA_ATTENTION_DROP
};

/* How far apart neighbours along each canonical axis are, in elements. */
struct td_cuda_attention_steps {
    int64_t at[TD_CUDA_ATTENTION_RANK];
};

struct td_cuda_attention_stage {
    int kind;
    bool after; /* the softmax: what the scores' exponentials are multiplied with, or chosen by */
    float number;
    const void *operand; /* of the tensors' type; KEEP, DROP: of bool. NULL: the number */
    struct td_cuda_attention_steps step;
};

/* As kernels/linalg/attention.h has it: all of float, half or bfloat16. dim: S, T, then the batch,
 * `batches` in all; what comes out is times `copies`. */
struct td_cuda_attention {
    enum td_cuda_type type;
    bool tf32; /* factors of floats may be rounded to it */
    int rank, n_stages;
    int64_t dim[TD_CUDA_ATTENTION_RANK], depth, width, batches;
    float copies;
    const void *query, *key, *value;
    void *out;
    struct td_cuda_attention_steps of_query, of_key, of_value, of_out;
    struct td_cuda_attention_stage stage[TD_CUDA_ATTENTION_STAGES];
};
int td_cuda_attend(const struct td_cuda_attention *a, struct td_cuda_stream *stream);

#ifdef __cplusplus
}
#endif
#endif
