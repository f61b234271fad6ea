/* server/request/warmup.h - replays a version's recorded requests before it is published, so that its first
 * client waits for no compilation.
 *
 *   VERSION/assets.extra/tf_serving_warmup_requests     TFRecord of tensorflow.serving.PredictionLog
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_REQUEST_WARMUP_H
#define TD_SERVER_REQUEST_WARMUP_H

#include "server/models/registry.h"

/* Runs every record `iterations` times (at least once), on the calling thread; no file: nothing to do. Names
 * of models in the records are not looked at. A record that fails, fails the whole: an error names the
 * record and the file, with DATA_LOSS for bytes that are no TFRecord, INVALID_ARGUMENT past 1000 records,
 * UNIMPLEMENTED for logs of streams and sessions. They run for the work at hand, and take no worker.
 * Statistics of s start at
 * zero afterwards. */
TD_MUST enum td_code td_warmup_run(struct td_registry *reg, struct td_servable *s, struct td_err *err);

#endif
