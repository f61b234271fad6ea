/* kernels/media/summary.h - pieces of serialized tensorflow.Summary messages.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MEDIA_SUMMARY_H
#define TD_KERNELS_MEDIA_SUMMARY_H

#include "core/graph/op.h"
#include "proto/pb/wire.h"

#define TD_SUMMARY_LIMIT ((size_t)1 << 28) /* bytes of a message */

TD_MUST enum td_code td_summary_varint(struct td_sink *s, uint64_t v, struct td_err *err);
/* A field of n bytes: a string, or a message. */
TD_MUST enum td_code td_summary_bytes(struct td_sink *s, int field, const void *p, size_t n,
                                      struct td_err *err);
/* Appends inner as a Value with its tag in front; inner is emptied. */
TD_MUST enum td_code td_summary_value(struct td_sink *s, const char *tag, size_t tag_len,
                                      struct td_sink *inner, struct td_err *err);
/* Output 0 becomes the message, unless rc is a failure; s is freed in any case. */
TD_MUST enum td_code td_summary_out(struct td_call *c, struct td_sink *s, enum td_code rc,
                                    struct td_err *err);

#endif
