/* server/train_log.h - where a job without a server tells its events: lines on the terminal, and a file of
 * them, from which the list that the API would answer is made.
 *
 *   WORK_DIR/events.jsonl    {"key":..,"event":{..}} a line, in the order in which they were told
 *
 * Threads: one at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_LOG_H
#define TD_SERVER_TRAIN_LOG_H

#include "server/train/trainer.h"

struct td_train_log;

/* Returns new. goes_on: events of an earlier process count as told; else they are dropped. */
TD_MUST enum td_code td_train_log_open(const char *work_dir, bool goes_on, struct td_train_log **out,
                                       struct td_err *err);
struct td_train_sink td_train_log_sink(struct td_train_log *l);
/* An event of the command's own. */
TD_MUST enum td_code td_train_log_tell(struct td_train_log *l, const char *key, const char *level,
                                       const char *message, struct td_err *err);
/* {"object":"list","data":[..],..}, newest first, into a new file at path in place of one that is there. */
TD_MUST enum td_code td_train_log_list(struct td_train_log *l, const char *path, struct td_err *err);
void td_train_log_close(struct td_train_log *l); /* accepts NULL */

#endif
