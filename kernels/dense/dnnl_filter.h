/* kernels/dense/dnnl_filter.h - a convolution's gradient towards its filter, by oneDNN.
 *
 *     x [batch,in..,ic]   dy [batch,out..,oc]   ->   dw [k..,ic/groups,oc]        channels last
 *
 * A state is made by a row's `prepare` for one set of shapes and may be run by many threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_DNNL_FILTER_H
#define TD_KERNELS_CPU_DNNL_FILTER_H

#include "core/graph/kernel.h"
#include "kernels/cpu/bfloat16.h"
#include "kernels/dense/conv_loops.h"

/* Fills in the offer: a state that td_dnnl_filter_run takes and td_dnnl_filter_free frees, and its workspace;
 * or the refusal. x and dy are floats, or of bfloat16 where `way` is TD_BFLOAT16_NATIVE; dw is of floats. */
TD_MUST enum td_code td_dnnl_filter_offer(const struct td_conv *g, const struct td_kernel_query *q,
                                          enum td_bfloat16_way way, struct td_kernel_offer *o,
                                          struct td_err *err);
/* Writes all of dw; c->workspace is what the offer asked for. Idle threads take parts of the batch. */
TD_MUST enum td_code td_dnnl_filter_run(const void *state, struct td_call *c, const void *x, const void *dy,
                                        float *dw, struct td_err *err);
/* Accepts NULL; the signature of td_kernel.release. */
void td_dnnl_filter_free(void *state);

#endif
