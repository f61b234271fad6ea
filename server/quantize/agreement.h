/* server/quantize/agreement.h - how well, and how fast, a model answers in two precisions.
 *
 * The class of a row is the index of the largest along an output's last axis; of an axis of one element,
 * whether that is above 0.5.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_QUANTIZE_AGREEMENT_H
#define TD_SERVER_QUANTIZE_AGREEMENT_H

#include "core/run/precision.h"
#include "server/models/servable.h"

struct td_agreement {
    int64_t rows, labelled;
    struct {
        int64_t right;             /* of those that are labelled */
        double ns_per_row;         /* the least of all requests */
    } by[2];                       /* in floats, and in the precision */
    int64_t agree;                 /* rows of one class in both */
    double largest_error, largest; /* of any element: difference, and value in floats */
};

/* Runs all requests of the file on the version in dir in floats and in the precision p. output: whose classes
 * count; NULL: the first of floats. INVALID_ARGUMENT when there is none, or labels are not as many as
 * rows. */
TD_MUST enum td_code td_agreement_of(const char *dir, const struct td_servable_opts *opts,
                                     const struct td_precision *p, const char *requests, const char *output,
                                     struct td_agreement *out, struct td_err *err);

#endif
