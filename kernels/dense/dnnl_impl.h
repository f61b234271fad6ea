/* kernels/dense/dnnl_impl.h - a primitive with its weights, as dnnl.c (which makes and runs it) and
 * dnnl_split.c (which runs it in chunks) see it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_DNNL_IMPL_H
#define TD_KERNELS_CPU_DNNL_IMPL_H

#include "core/base/thread_pool.h"
#include "kernels/dense/dnnl.h"
#include "kernels/dense/dnnl_pack.h"
#include "kernels/dense/dnnl_parts.h"
#include "kernels/dense/dnnl_post.h"
#include "kernels/dense/low.h"

enum { TD_DNNL_CHUNKS = 64 };

/* Part of the output, for a thread of its own. */
struct td_dnnl_chunk {
    struct td_dnnl *d;
    int64_t x_at, y_at; /* elements */
};

struct td_dnnl_args; /* kernels/dense/dnnl_run.c */

/* Made when it is first wanted. */
struct td_dnnl_split {
    struct td_dnnl_parts parts;
    struct td_dnnl_chunk chunk[TD_DNNL_CHUNKS];
    struct td_dnnl *product; /* whose chunks these are, of a convolution that has none of its own; NULL */
};

struct td_dnnl {
    dnnl_primitive_t primitive, x_in, y_out; /* x_in, y_out: reorders of activations, mostly NULL */
    dnnl_memory_desc_t x, x_used, y, y_used, bias;
    dnnl_data_type_t x_type, y_type; /* forward; backward the other way round */
    dnnl_data_type_t type, given;    /* of the weights once they are packed, and as they come */
    struct td_low low;               /* x comes as floats, and is rounded to x_type by each run */
    size_t scratch_bytes;
    /* of a call: scratch, then the reordered activations, then the rounded ones */
    size_t x_at, y_at, low_at, workspace_bytes;
    bool backward;
    bool plain_gemm, transposed; /* matmul with weights not packed: dnnl_sgemm on them as they are */
    int64_t m, k, n;
    struct td_conv conv; /* unless it is a matmul */
    struct td_dnnl_posts posts;
    struct td_post post[TD_DNNL_POSTS];
    struct td_dnnl_weights weights;
    const struct td_dnnl *whole; /* this is a chunk of it, on its packed weights */
    struct td_dnnl_split split;
    struct td_dnnl_args *_Atomic args; /* of a run that is over, for the next; NULL: none */
};

/* The same as `whole` for so many rows, or of another image; NULL when oneDNN or memory lacks. */
struct td_dnnl *td_dnnl_chunk_matmul(const struct td_dnnl *whole, int64_t rows);
struct td_dnnl *td_dnnl_chunk_conv(const struct td_dnnl *whole, const struct td_conv *g);
/* A convolution that looks at single cells as the product [cells,ic] * [ic,oc], which packs the weights
 * itself; NULL likewise, and where it does not take the same posts. */
struct td_dnnl *td_dnnl_product_of(const struct td_dnnl *conv, int64_t cells);
/* What a run works on: packed weights, and, where the posts say so, what a sum of each column is worth. */
struct td_dnnl_operands {
    const void *x, *w;
    const float *steps;
    void *y;
};
/* Runs the primitive on this thread: scratch has scratch_bytes, post_in is that of td_call. */
bool td_dnnl_execute(const struct td_dnnl *d, const float *const *post_in, const struct td_dnnl_operands *at,
                     void *scratch);
void td_dnnl_args_free(struct td_dnnl_args *a);

bool td_dnnl_split_init(struct td_dnnl_split *s);
void td_dnnl_split_fini(struct td_dnnl_split *s);
/* How to run d this time; TOGETHER: with td_dnnl_split_run. */
enum td_parallel_way td_dnnl_split_way(struct td_dnnl *d, const struct td_call *c);
TD_MUST enum td_code td_dnnl_split_run(struct td_dnnl *d, struct td_call *c,
                                       const struct td_dnnl_operands *at, struct td_err *err);

#endif
