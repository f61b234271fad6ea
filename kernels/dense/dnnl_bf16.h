/* kernels/dense/dnnl_bf16.h - products of matrices of bfloat16 by the processor's own instructions, in
 * oneDNN.
 *
 *     z [batch.., m, n] = x [batch.., m, k] y [batch.., k, n]         all as they lie; sums are floats
 *
 * A state is made by a row's `prepare` for one set of shapes and may be run by many threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_DNNL_BF16_H
#define TD_KERNELS_CPU_DNNL_BF16_H

#include "core/graph/kernel.h"
#include "kernels/dense/gemm_cpu.h"

/* Equal products, z's one after the other. */
struct td_dnnl_products {
    struct td_gemm one; /* sizes, strides and transposition of each; its pointers are not looked at */
    int n_batch;
    const int64_t *batch;           /* n_batch sizes */
    const int64_t *x_step, *y_step; /* elements an index of each; 0: the same matrix for all */
};

/* Fills in the offer: a state that td_dnnl_bf16_run takes and td_dnnl_bf16_free frees, and its workspace; or
 * the refusal. */
TD_MUST enum td_code td_dnnl_bf16_offer(const struct td_dnnl_products *p, const struct td_kernel_query *q,
                                        struct td_kernel_offer *o, struct td_err *err);
/* Writes all of z; c->workspace is what the offer asked for. Idle threads take rows of each product. */
TD_MUST enum td_code td_dnnl_bf16_run(const void *state, struct td_call *c, const td_bf16 *x,
                                      const td_bf16 *y, td_bf16 *z, struct td_err *err);
/* Accepts NULL; the signature of td_kernel.release. */
void td_dnnl_bf16_free(void *state);

#endif
