/* kernels/dense/dnnl_base.h - what the dnnl files share: the engine, a thread's stream, memory objects,
 * reorders.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CPU_DNNL_BASE_H
#define TD_KERNELS_CPU_DNNL_BASE_H

#include <dnnl.h>
#include <stdbool.h>

/* The calling thread's stream, or NULL when oneDNN does not start. */
dnnl_stream_t td_dnnl_base_stream(void);
/* The process's engine, started by the first who asks; NULL when oneDNN does not start. */
dnnl_engine_t td_dnnl_base_engine(void);
/* Bytes as an object of oneDNN, to be destroyed; NULL when there is no memory. */
dnnl_memory_t td_dnnl_base_memory(const dnnl_memory_desc_t *md, const void *data);
/* *out stays NULL where both layouts are one. False when oneDNN cannot. */
bool td_dnnl_base_reorder_new(dnnl_primitive_t *out, const dnnl_memory_desc_t *from,
                              const dnnl_memory_desc_t *to);
/* A reorder that also multiplies by scales: one for each place of the dimensions in `mask`, which are given
 * to each run. False where oneDNN has no fast one; *out is NULL then. */
bool td_dnnl_base_scaling_new(dnnl_primitive_t *out, const dnnl_memory_desc_t *from,
                              const dnnl_memory_desc_t *to, int mask);
bool td_dnnl_base_scaling(dnnl_primitive_t r, const dnnl_memory_desc_t *from, const void *x,
                          const dnnl_memory_desc_t *to, void *y, const float *scale, int64_t n);
bool td_dnnl_base_reorder(dnnl_primitive_t r, const dnnl_memory_desc_t *from, const void *x,
                          const dnnl_memory_desc_t *to, void *y);

/* False when the implementation behind pd is one that other code of ours equals: the reference loops, and
 * (as `plain` for matrix products) the one that calls the same sgemm as td_dnnl_gemm, for which a packed
 * copy would be a waste. */
bool td_dnnl_base_is_fast(const_dnnl_primitive_desc_t pd, const char *plain);
/* Attributes of a primitive whose scratch the caller brings, to be destroyed; NULL: there is no memory. */
dnnl_primitive_attr_t td_dnnl_base_user_scratch(void);

#endif
