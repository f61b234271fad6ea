/* proto/pb/tensor_pb.h - TensorProto <-> td_tensor.
 *
 * Serialized TensorProto bytes are checked for nesting, dtype, shape and size before anything is allocated.
 * Typed fields follow TensorFlow's fill rule: m values for n elements: 0 -> zeros, m < n -> the last one
 * repeats.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_PB_TENSOR_PB_H
#define TD_PROTO_PB_TENSOR_PB_H

#include "core/base/tensor.h"
#include "proto/bytes/sink.h"

/* INVALID_ARGUMENT names dtype, shape and byte counts. max_bytes bounds the tensor. *out is the caller's. */
TD_MUST enum td_code td_tensor_from_bytes(const void *bytes, size_t n, uint64_t max_bytes,
                                          struct td_tensor *out, struct td_err *err);

/* Appends the serialized TensorProto of t (without its own length): typed fields, or tensor_content. */
TD_MUST enum td_code td_tensor_to_bytes(const struct td_tensor *t, bool as_content, struct td_sink *s,
                                        struct td_err *err);
/* Exact size that td_tensor_to_bytes will append. */
size_t td_tensor_pb_size(const struct td_tensor *t, bool as_content);

#endif
