/* server/base/request_log.h - records of requests, for models whose logging_config asks for them: TFRecord
 * files below --request_log_dir, written by a thread of their own.
 *
 *   td_request_log_start      where, and how much                   server/main.c
 *   td_request_log_replace    which models, how often               server/models/registry.c
 *   td_request_log_due        is this request to be logged?         server/request/prediction_log.c
 *   td_request_log_put        its record: queued, or dropped
 *
 * A request never waits for the disk: past TD_REQUEST_LOG_QUEUE bytes that wait, records are dropped, and
 * counted (:tensorflow:serving:request_log_count, by status). A disk that is full costs records, nothing
 * else.
 *
 * Files are PREFIX-NNNNN.tfrecord, for their owner only; an existing one is never written to. A new one is
 * begun by each process and after TD_REQUEST_LOG_FILE bytes.
 *
 * Threads: any; start and stop are the main thread's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_REQUEST_LOG_H
#define TD_SERVER_BASE_REQUEST_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/bytes/sink.h"

#define TD_REQUEST_LOG_QUEUE ((size_t)64 << 20)
#define TD_REQUEST_LOG_FILE ((int64_t)256 << 20)

struct td_request_log; /* of a model; lives until the stop */

/* dir: "" none. quota: bytes that all files there may take together; 0: no limit. */
TD_MUST enum td_code td_request_log_start(const char *dir, int64_t quota, struct td_err *err);
/* Writes what waits, and ends the thread. */
void td_request_log_stop(void);

/* A prefix as a configuration has it: relative to the directory, or absolute and beneath it. Returns where in
 * it the relative part begins, NULL with a sentence in err. model: for the sentence. */
const char *td_request_log_prefix(const char *model, const char *prefix, struct td_err *err);

/* What holds from now on: models that are not named are not logged. Texts are copied; rate is from 0 to 1. */
struct td_request_log_setting {
    const char *model, *prefix;
    double rate;
};
TD_MUST enum td_code td_request_log_replace(const struct td_request_log_setting *settings, int n,
                                            struct td_err *err);

/* Drawn by the model's rate; NULL: not this one. *rate: the model's. Cheap while no model is logged. */
struct td_request_log *td_request_log_due(const char *model, double *rate);
/* Takes the record's bytes. */
void td_request_log_put(struct td_request_log *l, struct td_sink *takes_record);
/* A record that could not be made. */
void td_request_log_lost(struct td_request_log *l, enum td_code code);

#endif
