/* kernels/media/summary.h - the output of an op that writes a serialized tensorflow.Summary.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_MEDIA_SUMMARY_H
#define TD_KERNELS_MEDIA_SUMMARY_H

#include "core/graph/op.h"
#include "proto/pb/summary_pb.h"
#include "proto/pb/wire.h"

/* Output 0 becomes the message, unless rc is a failure; s is freed in any case. */
TD_MUST enum td_code td_summary_out(struct td_call *c, struct td_sink *s, enum td_code rc,
                                    struct td_err *err);

#endif
