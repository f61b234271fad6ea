/* proto/request/logged_pb.h - PredictionLog of TensorFlow Serving: a request and its answer as they were
 * recorded.
 *
 *   PredictionLog   classify_log = 2, regress_log = 3, multi_inference_log = 4, session_run_log = 5,
 *                   predict_log = 6, predict_streamed_log = 7; each has request = 1
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_REQUEST_LOGGED_PB_H
#define TD_PROTO_REQUEST_LOGGED_PB_H

#include "proto/pb/wire.h"

enum td_logged_kind {
    TD_LOGGED_NOTHING = 0,
    TD_LOGGED_CLASSIFY = 2,
    TD_LOGGED_REGRESS,
    TD_LOGGED_MULTI_INFERENCE,
    TD_LOGGED_SESSION_RUN,
    TD_LOGGED_PREDICT,
    TD_LOGGED_PREDICT_STREAMED
};
struct td_logged {
    enum td_logged_kind kind;
    struct td_wire request; /* empty when there is none; borrows the record */
};
/* One choice: the last of the record counts. */
TD_MUST enum td_code td_logged_read(struct td_wire record, struct td_logged *out, struct td_err *err);

#endif
