/* server/debug/debug_value.h - one tensor as the debugger shows it, and how two of them differ.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_DEBUG_DEBUG_VALUE_H
#define TD_SERVER_DEBUG_DEBUG_VALUE_H

#include "core/base/tensor.h"
#include "proto/bytes/sink.h"

enum td_debug_values { TD_VALUES_NONE, TD_VALUES_SUMMARY, TD_VALUES_FULL };

struct td_debug_stat {
    int64_t nan, inf, finite; /* elements; all 0 of types that are no numbers */
    double min, max, mean;    /* of the finite ones; complex numbers have none */
    bool ordered;             /* min, max and mean mean something */
};
void td_debug_stat(const struct td_tensor *t, struct td_debug_stat *out);

/* Appends what printf would write, at most 1,000 bytes. */
TD_MUST enum td_code td_debug_put(struct td_sink *s, struct td_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Text as a JSON string; bytes that are not UTF-8 become '?'. */
TD_MUST enum td_code td_debug_put_text(struct td_sink *s, const char *text, size_t n, struct td_err *err);
/* {"dtype", "shape", "min", "max", "mean", "nan", "inf", "value"}, without its closing brace: the last two as
 * `values` asks for them. A value that has no JSON form, or more than a million elements, is null. */
TD_MUST enum td_code td_debug_put_value(struct td_sink *s, const struct td_tensor *t,
                                        enum td_debug_values values, struct td_err *err);

/* How b differs from a. Integers, strings and truth values differ when they are not equal; numbers x of a and
 * y of b when |x - y| > atol + rtol |y|, or when only one is NaN or they are not the same infinity. */
struct td_debug_diff {
    bool type_or_shape; /* differ: nothing else was compared */
    int64_t n;          /* elements that differ */
    int64_t first;      /* the first such element */
    double a, b;        /* its values; 0 of strings */
    double max_abs;     /* the largest |x - y| of all finite elements */
};
void td_debug_diff(const struct td_tensor *a, const struct td_tensor *b, double rtol, double atol,
                   struct td_debug_diff *out);

#endif
