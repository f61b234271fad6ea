/* proto/pb/summary_pb.c - Values and histograms of tensorflow.Summary.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/summary_pb.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "proto/pb/wire.h"

/* ------------------------------------------------------------------ values */

/* Value{..}: the tag and what inner holds. */
static enum td_code value_message(struct td_sink *value, const char *tag, size_t tag_len,
                                  const struct td_sink *inner, struct td_err *err)
{
    TD_TRY(tag_len > 0 ? td_put_bytes(value, 1, tag, tag_len, err) : TD_OK);
    return td_sink_put(value, inner->p, inner->n, err);
}

enum td_code td_summary_value(struct td_sink *s, const char *tag, size_t tag_len, struct td_sink *inner,
                              struct td_err *err)
{
    struct td_sink value = {.limit = TD_SUMMARY_LIMIT};
    enum td_code rc = value_message(&value, tag, tag_len, inner, err);
    if (rc == TD_OK) {
        rc = td_put_bytes(s, 1, value.p, value.n, err);
    }
    td_sink_fini(&value);
    inner->n = 0;
    return rc;
}

enum td_code td_summary_scalar(struct td_sink *s, const char *tag, size_t tag_len, float v,
                               struct td_err *err)
{
    struct td_sink inner = {.limit = TD_SUMMARY_LIMIT};
    enum td_code rc = td_put_float(&inner, 2, v, err);
    if (rc == TD_OK) {
        rc = td_summary_value(s, tag, tag_len, &inner, err);
    }
    td_sink_fini(&inner);
    return rc;
}

/* ------------------------------------------------------------------ histograms */

void td_histogram_init(struct td_histogram *h)
{
    double side[TD_HISTOGRAM_SIDE];
    int k = 0;
    for (double v = 1.0e-12; v < 1.0e20 && k < TD_HISTOGRAM_SIDE; v *= 1.1) {
        side[k++] = v;
    }
    memset(h, 0, sizeof *h);
    h->limit[h->n++] = -DBL_MAX;
    for (int i = k - 1; i >= 0; i--) {
        h->limit[h->n++] = -side[i];
    }
    h->limit[h->n++] = 0;
    for (int i = 0; i < k; i++) {
        h->limit[h->n++] = side[i];
    }
    h->limit[h->n++] = DBL_MAX;
    h->min = DBL_MAX;
    h->max = -DBL_MAX;
}

void td_histogram_add(struct td_histogram *h, double v)
{
    int lo = 0, hi = h->n - 1;
    while (lo < hi) {
        int mid = (lo + hi) / 2;
        if (h->limit[mid] > v) {
            hi = mid;
        } else {
            lo = mid + 1;
        }
    }
    h->count[lo] += 1;
    h->min = v < h->min ? v : h->min;
    h->max = v > h->max ? v : h->max;
    h->num += 1;
    h->sum += v;
    h->squares += v * v;
}

/* Joins runs of empty buckets, in place; the arrays written hold at least one bucket. */
static void compact(struct td_histogram *h)
{
    int n = 0;
    for (int i = 0; i < h->n;) {
        double end = h->limit[i], count = h->count[i];
        for (i++; count <= 0 && i < h->n && h->count[i] <= 0; i++) {
            end = h->limit[i];
        }
        h->limit[n] = end;
        h->count[n++] = count;
    }
    h->n = n;
}

/* HistogramProto{..} */
static enum td_code message(struct td_sink *m, const struct td_histogram *h, struct td_err *err)
{
    const double head[5] = {h->min, h->max, h->num, h->sum, h->squares};
    for (uint32_t i = 0; i < 5; i++) {
        TD_TRY(head[i] != 0 || signbit(head[i]) ? td_put_double(m, i + 1, head[i], err) : TD_OK);
    }
    TD_TRY(td_put_bytes(m, 6, h->limit, (size_t)h->n * sizeof *h->limit, err));
    return td_put_bytes(m, 7, h->count, (size_t)h->n * sizeof *h->count, err);
}

enum td_code td_summary_histogram(struct td_sink *s, const char *tag, size_t tag_len, struct td_histogram *h,
                                  struct td_err *err)
{
    struct td_sink m = {.limit = TD_SUMMARY_LIMIT}, inner = {.limit = TD_SUMMARY_LIMIT};
    compact(h);
    enum td_code rc = message(&m, h, err);
    rc = rc ? rc : td_put_bytes(&inner, 5, m.p, m.n, err);
    rc = rc ? rc : td_summary_value(s, tag, tag_len, &inner, err);
    td_sink_fini(&m);
    td_sink_fini(&inner);
    return rc;
}
