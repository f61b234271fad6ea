/* server/base/metrics_text.h - Prometheus' text format: labels, lines, histograms.
 *
 * A value of a label is written with quotes, backslashes and newlines escaped, cut at TD_LABEL_VALUE bytes
 * (at the start of a character), and with '?' for its bytes beyond ASCII where it is no UTF-8: a scraper
 * refuses the whole text otherwise. Nothing here is kept; any thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_METRICS_TEXT_H
#define TD_SERVER_BASE_METRICS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "proto/bytes/sink.h"

#define TD_LABEL_VALUE 1000 /* bytes of a value, escapes not counted */
#define TD_LABEL_NAME 40    /* bytes of a name, which are the program's own */
#define TD_LABELS_MOST 6    /* in a line, beside le */
#define TD_LABELS_TEXT (TD_LABELS_MOST * (TD_LABEL_NAME + 2 * TD_LABEL_VALUE + 8))
#define TD_MAX_BOUNDS 64 /* of a histogram */

struct td_labels { /* a="b",c="d"; zeros are none */
    int count;
    size_t n; /* bytes of text */
    char text[TD_LABELS_TEXT];
};
/* Appends name="value"; one past TD_LABELS_MOST is left out. */
void td_labels_add(struct td_labels *l, const char *name, const char *value);
/* Those of pairs of name and value that end with NULL. */
void td_labels_set(struct td_labels *l, const char *const *pairs);

/* Bounds: first, first * growth, first * growth^2, .., and one more bucket above them all. */
struct td_bounds {
    double first, growth;
    int n; /* at most TD_MAX_BOUNDS */
};
/* The bucket that a value falls into: from 0 to b->n. */
int td_bounds_bucket(const struct td_bounds *b, int64_t value);

/* The two lines in front of a metric's samples. type: "counter", "gauge", "histogram". */
TD_MUST enum td_code td_metrics_put_head(struct td_sink *out, const char *name, const char *type,
                                         const char *help, struct td_err *err);
/* One sample. labels: as td_labels has them, "" none. */
TD_MUST enum td_code td_metrics_put_sample(struct td_sink *out, const char *name, const char *labels,
                                           double value, struct td_err *err);
/* The same with pairs that end with NULL; NULL none. */
TD_MUST enum td_code td_metrics_put(struct td_sink *out, const char *name, const char *const *labels,
                                    double value, struct td_err *err);
/* All samples of a histogram: b->n + 1 buckets, each with what fell into it alone. */
TD_MUST enum td_code td_metrics_put_histogram(struct td_sink *out, const char *name, const char *labels,
                                              const struct td_bounds *b, const uint64_t *buckets,
                                              uint64_t sum, struct td_err *err);

#endif
