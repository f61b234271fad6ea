/* server/train/head.h - a new head: Dense layers in place of what is above a node, as a version of its own
 * that is then trained as any other is.
 *
 *   "head":{"at":"dense_1/Relu:0","layers":[{"units":32,"activation":"relu"},{"units":3,"dropout":0.2}]}
 *
 *   x -> [dropout] -> x kernel + bias -> activation -> .. -> output        a layer: Keras 3's Dense
 *
 * The result is a SavedModel with untrained layers. What belongs to training alone is marked in it, so that
 * it is there when the result is trained again: dropout is an Identity with an attribute (step_draw.c). What
 * belongs to this job alone is told apart: l1 and l2 of a layer's kernel become regularizers of the job.
 *
 * Layer i, from 0, has variables "head/dense_i/kernel" [in, units] and "head/dense_i/bias" [units]
 * ("head_1/.." where the model has variables of that name). They start with what Keras's initializers draw
 * when given the seeds `seed + 3 i` and `seed + 3 i + 1`; its dropout draws as Keras's Dropout does with
 * `seed + 3 i + 2`.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_HEAD_H
#define TD_SERVER_TRAIN_HEAD_H

#include "server/models/servable.h"
#include "server/train/spec.h"

/* Writes s with the spec's head into dir, which must not be there. On failure some of it may be. */
TD_MUST enum td_code td_head_write(struct td_servable *s, const struct td_job_spec *spec, const char *dir,
                                   struct td_fault *f);
/* What can be told beforehand of a job with a head, nothing written: the cut, the layers, targets of losses
 * and metrics at the new output, patterns. */
TD_MUST enum td_code td_head_check(struct td_servable *s, const struct td_job_spec *spec, struct td_fault *f);
/* *out: the spec of the job as it is with the head in place, l1 and l2 of layers among its regularizers. It
 * shares everything with spec, whose arena takes what is new; s is the version without the head. */
TD_MUST enum td_code td_head_spec(struct td_servable *s, const struct td_job_spec *spec,
                                  struct td_job_spec *out, struct td_fault *f);

/* The attribute of an Identity that is dropout in training: the rate, and what its seed is the job's plus. */
#define TD_DROPOUT_RATE "_tensord_dropout"
#define TD_DROPOUT_SEED "_tensord_dropout_seed"

#endif
