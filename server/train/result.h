/* server/train/result.h - the version that a job makes: the served version's directory again, with tuned
 * values in its checkpoint.
 *
 *   begin -> put, put, .. -> finish      stage_dir is complete and on disk; renaming it is the caller's
 *        \____________ abandon ______    nothing is left
 *
 * saved_model.pb, assets and whatever else lies there are copied; only variables/ is written anew. Each key
 * of the checkpoint is there again, under the same dtype, shape and slices, with its bytes or the new value;
 * where an export holds a variable under two keys, the new value goes under both.
 *
 * Threads: one at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_RESULT_H
#define TD_SERVER_TRAIN_RESULT_H

#include "server/models/servable.h"

struct td_result;

/* Returns new. stage_dir (its parent must exist) is removed first where one was left by an earlier attempt. s
 * is borrowed until the end. */
TD_MUST enum td_code td_result_begin(struct td_servable *s, const char *stage_dir, struct td_result **out,
                                     struct td_err *err);
/* The whole value of the variable with that checkpoint key, with or without /.ATTRIBUTES/VARIABLE_VALUE; its
 * bytes must not change until the end. r is a struct td_result: this is a td_step_value_fn. */
TD_MUST enum td_code td_result_put(void *r, const char *key, const struct td_tensor *value,
                                   struct td_err *err);
/* Writes all of it. RESOURCE_EXHAUSTED when the disk is full; INTERNAL for a value whose key, dtype or shape
 * the checkpoint does not have. Frees r; on failure stage_dir is gone. */
TD_MUST enum td_code td_result_finish(struct td_result *r, struct td_err *err);
void td_result_abandon(struct td_result *r); /* accepts NULL */

#endif
