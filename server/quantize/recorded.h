/* server/quantize/recorded.h - recorded requests to a model, one after the other.
 *
 *   FILE            TFRecord of tensorflow.serving.PredictionLog: as the log of requests, or a warm-up file
 *   FILE.jsonl      a body of TensorFlow Serving's REST API a line, with "labels" beside "inputs" or
 *                   "instances" where they are known: the class of each row
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_QUANTIZE_RECORDED_H
#define TD_SERVER_QUANTIZE_RECORDED_H

#include "server/models/servable.h"

struct td_recorded;

/* Returns new. s: whose requests they are, borrowed: its signatures say the dtypes of JSON. NOT_FOUND,
 * PERMISSION_DENIED. */
TD_MUST enum td_code td_recorded_open(const char *path, struct td_servable *s, struct td_recorded **out,
                                      struct td_err *err);
void td_recorded_close(struct td_recorded *r); /* accepts NULL */

struct td_recorded_request {
    const char *signature; /* "": the default one */
    const struct td_named *in;
    int n_in;
    const int64_t *label; /* n_labels */
    int n_labels;
};
/* The next one, borrowed until the call after; *out NULL: there are no more. Errors name file and record:
 * INVALID_ARGUMENT, DATA_LOSS, RESOURCE_EXHAUSTED for one above 256 MiB, UNIMPLEMENTED for records of other
 * calls than Predict, Classify and Regress. */
TD_MUST enum td_code td_recorded_next(struct td_recorded *r, const struct td_recorded_request **out,
                                      struct td_err *err);

struct td_recorded_answer {
    struct td_named *out;
    int n;
};
/* Runs q on s. *out: to be dropped, on failure too. INVALID_ARGUMENT: s has no such signature. opts: NULL:
 * none. */
TD_MUST enum td_code td_recorded_run(struct td_servable *s, const struct td_recorded_request *q,
                                     const struct td_run_opts *opts, struct td_recorded_answer *out,
                                     struct td_err *err);
void td_recorded_answer_drop(struct td_recorded_answer *a); /* a zeroed one, too */

#endif
