/* server/train/progress.h - a job's saved progress: named tensors in a TensorFlow checkpoint, the newest of
 * which is always whole.
 *
 *   WORK_DIR/progress-N/state.index, state.data-00000-of-00001      N counts the saves
 *   WORK_DIR/.progress-N/..                                         while one is written
 *
 * A save is written aside, synced, renamed, and only then are older ones removed: a process that is killed,
 * or a power cut, leaves the one before or the new one. What was left half written is removed at the next
 * begin. tf.train.load_checkpoint reads it.
 *
 * Threads: one at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_PROGRESS_H
#define TD_SERVER_TRAIN_PROGRESS_H

#include "core/base/tensor.h"

/* ---- saving */
struct td_progress_writer;
/* Returns new. work_dir must exist. RESOURCE_EXHAUSTED when the disk is full, here and below. */
TD_MUST enum td_code td_progress_begin(const char *work_dir, struct td_progress_writer **out,
                                       struct td_err *err);
TD_MUST enum td_code td_progress_put(struct td_progress_writer *w, const char *name,
                                     const struct td_tensor *t, struct td_err *err);
TD_MUST enum td_code td_progress_put_ints(struct td_progress_writer *w, const char *name, const int64_t *v,
                                          int n, struct td_err *err);
TD_MUST enum td_code td_progress_put_reals(struct td_progress_writer *w, const char *name, const double *v,
                                           int n, struct td_err *err);
TD_MUST enum td_code td_progress_put_text(struct td_progress_writer *w, const char *name, const char *text,
                                          struct td_err *err);
/* It is the progress, on disk, when this returns. Frees w, also on failure (the one before stays). */
TD_MUST enum td_code td_progress_commit(struct td_progress_writer *w, struct td_err *err);
void td_progress_abandon(struct td_progress_writer *w); /* accepts NULL */

/* ---- going on */
struct td_progress;
/* The newest; *out is NULL when there is none. */
TD_MUST enum td_code td_progress_open(const char *work_dir, struct td_progress **out, struct td_err *err);
void td_progress_close(struct td_progress *p); /* accepts NULL; tensors read from it stay valid */
/* Entry i in the order of names, borrowed; NULL past the end. */
const char *td_progress_name(const struct td_progress *p, int i);
/* *out is the caller's. NOT_FOUND. */
TD_MUST enum td_code td_progress_get(struct td_progress *p, const char *name, struct td_tensor *out,
                                     struct td_err *err);
/* Exactly n of them; else INVALID_ARGUMENT. */
TD_MUST enum td_code td_progress_get_ints(struct td_progress *p, const char *name, int64_t *v, int n,
                                          struct td_err *err);
TD_MUST enum td_code td_progress_get_reals(struct td_progress *p, const char *name, double *v, int n,
                                           struct td_err *err);
/* Whether the text of that name is this one. */
TD_MUST enum td_code td_progress_same_text(struct td_progress *p, const char *name, const char *text,
                                           bool *same, struct td_err *err);
/* Removes all progress of work_dir: the job has ended. */
TD_MUST enum td_code td_progress_remove(const char *work_dir, struct td_err *err);

#endif
