/* server/request/predict.h - the parts of a PredictRequest into a request: what the gRPC wire and the warm-up
 * records share.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_REQUEST_PREDICT_H
#define TD_SERVER_REQUEST_PREDICT_H

#include "proto/request/predict_pb.h"
#include "server/sched/request.h"

/* Makes q->in and q->filter of the message, once names, dtypes and sizes are seen to fit (td_request_expect;
 * q->sig is found); all take max_bytes at most. Afterwards the message's
 * bytes are not needed any more but for names in q's arena. INVALID_ARGUMENT "tensor parsing error: NAME". */
TD_MUST enum td_code td_predict_inputs(struct td_request *q, struct td_registry *reg,
                                       const struct td_predict_pb *p, uint64_t max_bytes, struct td_err *err);

#endif
