/* proto/pb/summary_pb.h - tensorflow.Summary messages, which TensorBoard reads.
 *
 *   Summary{1: Value{1 tag, 2 simple_value, 4 image, 5 histo, 6 audio, 8 tensor, 9 metadata}, ..}
 *
 * Histograms are counted as TensorFlow counts them: bucket limits 1e-12 * 1.1^k up to 1e20, their negatives,
 * and zero; a value counts below the first limit above it, and runs of empty buckets are written as one.
 * (tensorflow/core/lib/histogram/histogram.cc)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_PB_SUMMARY_PB_H
#define TD_PROTO_PB_SUMMARY_PB_H

#include "proto/bytes/sink.h"

#define TD_SUMMARY_LIMIT ((size_t)1 << 28) /* bytes of a message */

enum { TD_HISTOGRAM_SIDE = 775 }; /* limits on each side of zero, with room */

struct td_histogram {
    int n;
    double limit[2 * TD_HISTOGRAM_SIDE + 2], count[2 * TD_HISTOGRAM_SIDE + 2];
    double min, max, num, sum, squares;
};
void td_histogram_init(struct td_histogram *h);
void td_histogram_add(struct td_histogram *h, double v); /* finite */

/* Appends a Value: its tag and the fields that inner holds; inner is emptied. */
TD_MUST enum td_code td_summary_value(struct td_sink *s, const char *tag, size_t tag_len,
                                      struct td_sink *inner, struct td_err *err);
TD_MUST enum td_code td_summary_scalar(struct td_sink *s, const char *tag, size_t tag_len, float v,
                                       struct td_err *err);
/* Joins h's empty buckets: it takes no more values afterwards. */
TD_MUST enum td_code td_summary_histogram(struct td_sink *s, const char *tag, size_t tag_len,
                                          struct td_histogram *h, struct td_err *err);

#endif
