/* server/request/prediction_log.h - a request and its answer as TensorFlow Serving's PredictionLog, for the
 * log of requests (server/base/request_log.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_REQUEST_PREDICTION_LOG_H
#define TD_SERVER_REQUEST_PREDICTION_LOG_H

#include "proto/pb/wire.h"
#include "server/sched/request.h"

/* Of one that went well and is not dropped yet: has it logged, if it is to be. Predict and v2's Infer are
 * PredictLogs, Classify and Regress their own, whatever wire they came over; gradients are not logged. */
void td_prediction_log(const struct td_request *q);
/* The same of a MultiInference, which is logged as it came and as it is answered: both messages, borrowed.
 * signature: its first task's. */
void td_prediction_log_multi(const struct td_request *q, const char *signature, struct td_wire request,
                             const void *response, size_t n);

#endif
