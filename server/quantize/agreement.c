/* server/quantize/agreement.c - each recorded request answered by two versions of a model, and the answers
 * compared row by row.
 *
 * Does not: run requests side by side; the two take turns on the calling thread, so that they meet the same
 * machine.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/quantize/agreement.h"

#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/timings.h"
#include "server/quantize/recorded.h"

enum { FLOATS, LOW, BOTH };
enum { TIMED_RUNS = 4 };

/* *ns: the least of a few runs, of which the first make the plan and pack the weights. */
static enum td_code run_timed(struct td_servable *s, const struct td_recorded_request *q,
                              struct td_recorded_answer *a, int64_t *ns, struct td_err *err)
{
    *ns = INT64_MAX;
    for (int i = 0; i < TIMED_RUNS; i++) {
        td_recorded_answer_drop(a);
        const int64_t from = td_now_ns();
        TD_TRY(td_recorded_run(s, q, NULL, a, err));
        const int64_t spent = td_now_ns() - from;
        *ns = spent < *ns ? spent : *ns;
    }
    return TD_OK;
}

static const struct td_tensor *chosen(const struct td_recorded_answer *a, const char *output)
{
    for (int i = 0; i < a->n; i++) {
        const bool named = output == NULL || strcmp(a->out[i].name, output) == 0;
        if (named && a->out[i].t.dtype == TD_FLOAT) {
            return &a->out[i].t;
        }
    }
    return NULL;
}

static int64_t class_of(const float *row, int64_t n)
{
    if (n == 1) {
        return row[0] > 0.5f;
    }
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

static int64_t row_length(const struct td_tensor *y)
{
    return y->shape.rank > 0 ? y->shape.dim[y->shape.rank - 1] : 1;
}

static int64_t rows_of(const struct td_tensor *y)
{
    return row_length(y) > 0 ? td_tensor_count(y) / row_length(y) : 0;
}

static enum td_code compare(const struct td_tensor *y, const struct td_tensor *low,
                            const struct td_recorded_request *q, struct td_agreement *out, struct td_err *err)
{
    const int64_t total = td_tensor_count(y), last = row_length(y), rows = rows_of(y);
    TD_FAIL_IF(td_tensor_count(low) != total, err, INTERNAL, "the two answers differ in shape");
    TD_FAIL_IF(q->n_labels > 0 && q->n_labels != rows, err, INVALID_ARGUMENT, "%d labels of %lld rows",
               q->n_labels, (long long)rows);
    const float *a = y->data, *b = low->data;
    for (int64_t i = 0; i < total; i++) {
        out->largest = fmax(out->largest, fabs((double)a[i]));
        out->largest_error = fmax(out->largest_error, fabs((double)a[i] - (double)b[i]));
    }
    for (int64_t r = 0; r < rows; r++) {
        const int64_t in_floats = class_of(a + r * last, last), in_low = class_of(b + r * last, last);
        out->agree += in_floats == in_low;
        if (q->n_labels > 0) {
            out->by[FLOATS].right += in_floats == q->label[r];
            out->by[LOW].right += in_low == q->label[r];
            out->labelled++;
        }
    }
    out->rows += rows;
    return TD_OK;
}

static enum td_code ask(struct td_servable *const s[BOTH], const struct td_recorded_request *q,
                        const char *output, struct td_agreement *out, struct td_err *err)
{
    struct td_recorded_answer a[BOTH] = {{0}};
    int64_t ns[BOTH];
    enum td_code rc = TD_OK;
    for (int i = 0; rc == TD_OK && i < BOTH; i++) {
        rc = run_timed(s[i], q, &a[i], &ns[i], err);
    }
    const struct td_tensor *y = chosen(&a[FLOATS], output), *low = chosen(&a[LOW], output);
    if (rc == TD_OK && (y == NULL || low == NULL)) {
        rc = td_fail(err, TD_INVALID_ARGUMENT, "there is no output%s%.200s of floats",
                     output == NULL ? "" : " ", output == NULL ? "" : output);
    }
    rc = rc ? rc : compare(y, low, q, out, err);
    for (int i = 0; rc == TD_OK && i < BOTH && rows_of(y) > 0; i++) {
        const double each = (double)ns[i] / (double)rows_of(y), least = out->by[i].ns_per_row;
        out->by[i].ns_per_row = least == 0 || each < least ? each : least;
    }
    td_recorded_answer_drop(&a[FLOATS]);
    td_recorded_answer_drop(&a[LOW]);
    return rc;
}

static enum td_code ask_all(struct td_servable *const s[BOTH], const char *requests, const char *output,
                            struct td_agreement *out, struct td_err *err)
{
    struct td_recorded *file;
    const struct td_recorded_request *q;
    TD_TRY(td_recorded_open(requests, s[FLOATS], &file, err));
    enum td_code rc = td_recorded_next(file, &q, err);
    for (int n = 1; rc == TD_OK && q != NULL; n++) {
        rc = ask(s, q, output, out, err) ? td_err_wrap(err, "%s: request %d", requests, n)
                                         : td_recorded_next(file, &q, err);
    }
    td_recorded_close(file);
    TD_TRY(rc);
    TD_FAIL_IF(out->rows == 0, err, INVALID_ARGUMENT, "%s holds no rows", requests);
    return TD_OK;
}

enum td_code td_agreement_of(const char *dir, const struct td_servable_opts *opts,
                             const struct td_precision *p, const char *requests, const char *output,
                             struct td_agreement *out, struct td_err *err)
{
    struct td_servable *s[BOTH] = {NULL};
    struct td_precision *floats; /* int8 of no weights */
    *out = (struct td_agreement){0};
    TD_TRY(td_precision_new(TD_PRECISION_INT8, NULL, 0, &floats, err));
    const struct td_precision *const of[BOTH] = {floats, p};
    enum td_code rc = TD_OK;
    for (int i = 0; rc == TD_OK && i < BOTH; i++) {
        struct td_servable_opts o = *opts;
        o.precision = of[i];
        rc = td_servable_load("model", 1, dir, &o, &s[i], err);
    }
    rc = rc ? rc : ask_all(s, requests, output, out, err);
    for (int i = 0; i < BOTH; i++) {
        td_servable_unref(s[i]);
    }
    td_precision_unref(floats);
    return rc;
}
