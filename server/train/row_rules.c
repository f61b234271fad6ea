/* server/train/row_rules.c - values against the rules of server/train/layout.h.
 *
 * Numbers that the dtype turned into infinity are refused here, since no reader looks at each of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/row_rules.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Whether element i is a finite number; true of those that are no floats. */
static bool is_finite(const struct td_gather *g, size_t i)
{
    const void *data = g->data;
    switch (g->dtype) {
    case TD_DOUBLE:
        return isfinite(((const double *)data)[i]);
    case TD_HALF:
        return isfinite(td_half_to_float(((const td_half *)data)[i]));
    case TD_BFLOAT16:
        return isfinite(td_bf16_to_float(((const td_bf16 *)data)[i]));
    default:
        return g->dtype != TD_FLOAT || isfinite(((const float *)data)[i]);
    }
}

/* The same of float32 elements [from, n): without branches, as vector code. */
static bool are_finite(const struct td_gather *g, size_t from)
{
    const float *v = (const float *)(const void *)g->data;
    uint32_t bad = 0;
    for (size_t i = from; i < g->n; i++) {
        bad |= (td_float_bits(v[i]) & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

/* Of elements [from, n): numbers that the dtype cannot hold became infinite. */
static enum td_code check_finite(const struct td_row_cell *cell, size_t from, struct td_err *err)
{
    const struct td_gather *g = &cell->g;
    char who[160];
    if (!td_dtype_in(g->dtype, TD_SET_FLOATS) || (g->dtype == TD_FLOAT && are_finite(g, from))) {
        return TD_OK;
    }
    for (size_t i = from; i < g->n; i++) {
        TD_FAIL_IF(!is_finite(g, i), err, INVALID_ARGUMENT, "%s: number %zu is beyond what %s holds",
                   td_row_cells_who(cell->field, who), i - from + 1, td_dtype_name(g->dtype));
    }
    return TD_OK;
}

/* "targets", or "targets[3]" of several. */
static const char *which(const struct td_row_cell *cell, int64_t i, int64_t n, char *buf)
{
    const size_t at = strlen(td_row_cells_who(cell->field, buf));
    if (n > 1) {
        (void)snprintf(buf + at, 200 - at, "[%" PRId64 "]", i);
    }
    return buf;
}

/* The numbers read into the scratch, as classes. */
static enum td_code put_classes(struct td_row_cells *c, struct td_row_cell *cell, struct td_err *err)
{
    const struct td_row_field *field = cell->field;
    const double *v = (const double *)(const void *)c->numbers.data;
    const int64_t n = (int64_t)c->numbers.n;
    TD_TRY(td_gather_reserve(&cell->g, (size_t)n, err));
    int64_t *to = (int64_t *)(void *)cell->g.data + cell->g.n;
    for (int64_t i = 0; i < n; i++) {
        const bool whole = fabs(v[i]) < 0x1p53 && v[i] == floor(v[i]);
        to[i] = whole ? (int64_t)v[i] : 0;
        const bool ignored = whole && field->has_ignore && to[i] == field->ignore_class;
        const bool inside = to[i] >= 0 && (field->n_classes < 0 || to[i] < field->n_classes);
        if (!whole || (!inside && !ignored)) {
            char who[200], top[40] = "0 up";
            if (field->n_classes >= 0) {
                (void)snprintf(top, sizeof top, "0 to %" PRId64, field->n_classes - 1);
            }
            TD_FAIL(err, INVALID_ARGUMENT, "%s is %.17g, want a class, an integer from %s",
                    which(cell, i, n, who), v[i], top);
        }
    }
    cell->g.n += (size_t)n;
    return TD_OK;
}

/* Elements [from, n) of a float target against its rule. */
static enum td_code check_rule(const struct td_row_cell *cell, size_t from, struct td_err *err)
{
    const float *v = (const float *)(const void *)cell->g.data;
    const enum td_target_rule rule = cell->field->rule;
    char who[200];
    if (rule != TD_TARGET_PROBABILITY && rule != TD_TARGET_SIGN) {
        return TD_OK;
    }
    for (size_t i = from; i < cell->g.n; i++) {
        const bool probability = v[i] >= 0 && v[i] <= 1, sign = v[i] == 0 || fabsf(v[i]) == 1;
        TD_FAIL_IF(rule == TD_TARGET_PROBABILITY ? !probability : !sign, err, INVALID_ARGUMENT,
                   "%s is %.9g, want %s", which(cell, (int64_t)(i - from), (int64_t)(cell->g.n - from), who),
                   (double)v[i],
                   rule == TD_TARGET_PROBABILITY ? "a number from 0 to 1" : "0 or 1, or -1 or 1");
    }
    return TD_OK;
}

enum td_code td_row_rules_check(struct td_row_cells *c, struct td_row_cell *cell, size_t from,
                                struct td_err *err)
{
    if (cell->field->kind == TD_ROW_TARGET && cell->field->rule == TD_TARGET_CLASS) {
        return put_classes(c, cell, err);
    }
    TD_TRY(check_finite(cell, from, err));
    return cell->field->kind == TD_ROW_TARGET ? check_rule(cell, from, err) : TD_OK;
}
