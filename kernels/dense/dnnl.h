/* kernels/dense/dnnl.h - oneDNN primitives with packed weights: matrix product and convolution of floats.
 *
 * A td_dnnl is made by a row's `prepare` for one set of shapes and may be run by many threads. Weights are
 * packed into the layout the primitive likes best; the packed copy is kept under the source buffer it came
 * from, to which a reference is held: a buffer with two references is never written (core/base/buffer.h), so
 * the same buffer means the same weights. Packed copies are shared by all primitives that want the same
 * layout of the same buffer.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_DNNL_H
#define TD_KERNELS_CPU_DNNL_H

#include "kernels/cpu/bfloat16.h"
#include "kernels/dense/conv_loops.h"
#include "kernels/dense/gemm_cpu.h"
#include "kernels/dense/low.h"

struct td_dnnl;

/* Each fills in an offer (core/graph/kernel.h) for the query's shapes: a state that td_dnnl_run takes and
 * td_dnnl_free frees, its workspace, as many of the query's posts as oneDNN can do; or the refusal: oneDNN
 * has no fast implementation, or the state would serve one run alone, which the making of it outweighs. Known
 * weights (q->value[1]) are packed at once.
 *
 * y [m,n] = x [m,k] * w, w [k,n], or [n,k] when g->tb says so; of g only sizes and tb are looked at. Where
 * low says so, x and w are rounded for it. */
TD_MUST enum td_code td_dnnl_matmul_offer(const struct td_gemm *g, const struct td_low *low,
                                          const struct td_kernel_query *q, bool posts,
                                          struct td_kernel_offer *o, struct td_err *err);
/* y = conv(x, w) as td_conv has it; posts not of channels-first tensors. Weights may be of bfloat16: x and y
 * are floats all the same, or, where `way` is TD_BFLOAT16_NATIVE, of bfloat16 as well. */
TD_MUST enum td_code td_dnnl_conv_offer(const struct td_conv *g, const struct td_kernel_query *q, bool posts,
                                        enum td_bfloat16_way way, struct td_kernel_offer *o,
                                        struct td_err *err);
/* y = conv(x, w) of floats, of which x and w are rounded for it. */
TD_MUST enum td_code td_dnnl_conv_low_offer(const struct td_conv *g, const struct td_low *low,
                                            const struct td_kernel_query *q, bool posts,
                                            struct td_kernel_offer *o, struct td_err *err);
/* dx = gradient of conv towards its input: x of the run is dy, y of the run is dx. */
TD_MUST enum td_code td_dnnl_deconv_offer(const struct td_conv *g, const struct td_kernel_query *q,
                                          enum td_bfloat16_way way, struct td_kernel_offer *o,
                                          struct td_err *err);

/* Operands of posts are c->post_in; c->workspace is what the offer asked for. Large ones are computed in
 * chunks, on idle threads too or to be stopped between them (dnnl_split.c): the same primitive for parts of
 * the output. */
TD_MUST enum td_code td_dnnl_run(const struct td_dnnl *d, struct td_call *c, const void *x,
                                 const struct td_tensor *w, void *y, struct td_err *err);
/* dnnl_sgemm on operands as they are; false when oneDNN does not serve (nothing is written then). */
bool td_dnnl_gemm(const struct td_gemm *g);
/* Accepts NULL; the signature of td_kernel.release. */
void td_dnnl_free(void *d);

#endif
