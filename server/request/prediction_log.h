/* server/request/prediction_log.h - a request and its answer as TensorFlow Serving's PredictionLog, for the
 * log of requests (server/base/request_log.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_REQUEST_PREDICTION_LOG_H
#define TD_SERVER_REQUEST_PREDICTION_LOG_H

#include "server/sched/request.h"

/* Of one that went well and is not dropped yet: has it logged, if it is to be. Predict and v2's Infer are
 * PredictLogs, Classify and Regress their own, whatever wire they came over; others are not logged. */
void td_prediction_log(const struct td_request *q);

#endif
