/* server/request/classify.h - classification and regression, whatever wire they came over.
 *
 * Both feed serialized Examples to a signature's only input, `inputs`, and read `classes` and `scores`, or
 * `outputs`, with TensorFlow Serving's checks and words.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_REQUEST_CLASSIFY_H
#define TD_SERVER_REQUEST_CLASSIFY_H

#include "proto/request/classify_pb.h"
#include "server/sched/request.h"

enum td_task { TD_TASK_CLASSIFY, TD_TASK_REGRESS };

/* Finds model and signature (r->servable, r->sig) and checks that the signature can do the task. A front end
 * may call it early, to tell an unknown model before it decodes examples; td_classify_run does it if need be.
 */
TD_MUST enum td_code td_classify_resolve(struct td_request *r, struct td_registry *reg, enum td_task task,
                                         struct td_err *err);
/* Between resolving and reading scores the request runs, here or elsewhere: bind makes its inputs and filter
 * of a 1-D string tensor of serialized Examples (taken, on failure too); scores reads its outputs (*out
 * borrows from them). */
TD_MUST enum td_code td_classify_bind(struct td_request *r, enum td_task task,
                                      struct td_tensor *takes_examples, struct td_err *err);
TD_MUST enum td_code td_classify_scores(const struct td_request *r, enum td_task task, struct td_scores *out,
                                        struct td_err *err);
/* All of it. Runs the task on a 1-D string tensor of serialized Examples (taken, on failure too). *out
 * borrows from r->out. */
TD_MUST enum td_code td_classify_run(struct td_request *r, struct td_registry *reg, enum td_task task,
                                     struct td_tensor *takes_examples, struct td_scores *out,
                                     struct td_err *err);

/* The tasks of a MultiInference: different signatures of one model, each to classify or regress. */
TD_MUST enum td_code td_classify_check_tasks(const struct td_multi_pb *p, struct td_err *err);
enum td_task td_classify_task(const struct td_task_pb *t);

#endif
