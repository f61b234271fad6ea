/* kernels/data/parse_lists.c - feature lists of sequence examples into output tensors, in two passes over
 * each list: measure, then copy.
 *
 * Measuring walks all rows for the number of values and steps and for the longest of each; that is every
 * output's shape. Copying walks them again and writes values in order, with their indices (row, step, place),
 * or splits, or into a block of zeros with as many steps as the longest row. Both walks go through next(),
 * which also says which row a list is cut in.
 *
 * Does not: find the lists (kernels/data/parse_columns.c reads cells), decode features
 * (kernels/data/example_reader.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/data/parse_lists.h"

#include "core/base/mem.h"

#include <string.h>

struct size {
    int64_t values, steps; /* of all rows */
    int64_t longest_row, longest_step;
};

/* A row's list, feature by feature. */
struct walk {
    const struct td_parse *p;
    const struct td_cells *k;
    int64_t row;
    struct td_example_span list;    /* what is left of it */
    struct td_example_span feature; /* of the step that was read last, */
    int64_t n;                      /* which has n values */
};

static struct walk walk_row(const struct td_parse *p, const struct td_cells *k, int64_t row)
{
    return (struct walk){.p = p, .k = k, .row = row, .list = k->cell[row * k->stride]};
}

/* Reads the next feature; *more is false at the end. */
static enum td_code next(struct walk *w, bool *more, struct td_err *err)
{
    char where[200];
    bool absent;
    int got = w->list.p ? td_example_list_next(&w->list, &w->feature) : 0;
    w->n = 0;
    *more = got > 0;
    TD_FAIL_IF(got < 0, err, INVALID_ARGUMENT,
               "%s.  Can't parse serialized Example: the feature list is cut short",
               td_parse_where(w->p, w->k->key, w->row, where, sizeof(where)));
    return *more ? td_parse_count(w->p, w->k, w->row, w->feature, &w->n, &absent, err) : TD_OK;
}

static enum td_code measure(const struct td_parse *p, const struct td_cells *k, struct size *s,
                            struct td_err *err)
{
    *s = (struct size){0};
    for (int64_t row = 0; row < p->rows; row++) {
        struct walk w = walk_row(p, k, row);
        int64_t steps = 0;
        bool more;
        for (;; steps++) {
            TD_TRY(next(&w, &more, err));
            if (!more) {
                break;
            }
            s->values += w.n;
            s->longest_step = w.n > s->longest_step ? w.n : s->longest_step;
        }
        s->steps += steps;
        s->longest_row = steps > s->longest_row ? steps : s->longest_row;
    }
    return TD_OK;
}

enum td_code td_lists_sparse(const struct td_parse *p, const struct td_cells *k, int out_indices,
                             int out_values, int out_shape, struct td_err *err)
{
    struct td_tensor *indices, *values, *shape;
    struct size s;
    int rank = p->single ? 2 : 3;
    int64_t at = 0;
    TD_TRY(measure(p, k, &s, err));
    TD_TRY(td_out(p->c, out_indices, &(struct td_shape){2, {s.values, rank}}, &indices, err));
    TD_TRY(td_out(p->c, out_values, &(struct td_shape){1, {s.values}}, &values, err));
    TD_TRY(td_out(p->c, out_shape, &(struct td_shape){1, {rank}}, &shape, err));
    TD_DATA(shape, int64_t)[0] = p->rows;
    TD_DATA(shape, int64_t)[rank - 2] = s.longest_row;
    TD_DATA(shape, int64_t)[rank - 1] = s.longest_step;
    for (int64_t row = 0; row < p->rows; row++) {
        struct walk w = walk_row(p, k, row);
        for (int64_t step = 0;; step++) {
            bool more;
            TD_TRY(next(&w, &more, err));
            if (!more) {
                break;
            }
            TD_TRY(w.n ? td_example_copy(w.feature, values, at, err) : TD_OK);
            for (int64_t i = 0; i < w.n; i++, at++) {
                int64_t *ix = TD_DATA(indices, int64_t) + at * rank;
                ix[0] = row;
                ix[rank - 2] = step;
                ix[rank - 1] = i;
            }
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ dense */

/* The row that w walks: steps of `shape`, from element `at` of y on. */
static enum td_code dense_row(struct walk *w, const struct td_shape *shape, struct td_tensor *y, int64_t at,
                              int64_t *steps, struct td_err *err)
{
    int64_t want = td_shape_count(shape);
    char where[200];
    for (*steps = 0;; (*steps)++) {
        bool more;
        TD_TRY(next(w, &more, err));
        if (!more) {
            return TD_OK;
        }
        TD_FAIL_IF(
            w->n != want, err, INVALID_ARGUMENT,
            "%s.  Number of %s values != expected at step %lld.  values size: %lld but output shape: %s",
            td_parse_where(w->p, w->k->key, w->row, where, sizeof(where)), td_dtype_name(w->k->dtype),
            (long long)*steps, (long long)w->n, TD_SHAPE_STR(shape));
        TD_TRY(w->n ? td_example_copy(w->feature, y, at + *steps * want, err) : TD_OK);
    }
}

enum td_code td_lists_dense(const struct td_parse *p, const struct td_cells *k, const struct td_shape *shape,
                            bool may_miss, int out, int out_lengths, struct td_err *err)
{
    struct td_tensor *y, *lengths = NULL;
    struct size s;
    struct td_shape full, lead = p->single ? td_shape_scalar() : td_shape_vector(p->rows);
    char where[200];
    TD_TRY(measure(p, k, &s, err));
    if (out_lengths >= 0) {
        TD_TRY(td_out(p->c, out_lengths, &lead, &lengths, err));
    }
    full = lead;
    full.dim[full.rank++] = s.longest_row;
    TD_TRY(td_shape_concat(&full, shape, &full, err));
    TD_TRY(td_out(p->c, out, &full, &y, err));
    if (!td_dtype_is_object(y->dtype) && td_tensor_bytes(y)) {
        memset(y->data, 0, td_tensor_bytes(y));
    }
    for (int64_t row = 0; row < p->rows; row++) {
        int64_t steps;
        struct walk w = walk_row(p, k, row);
        TD_FAIL_IF(
            !k->cell[row * k->stride].p && !may_miss, err, INVALID_ARGUMENT,
            "%s.  Feature list '%.100s' is required but could not be found.  Did you mean to include it in "
            "feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?",
            td_parse_where(p, k->key, row, where, sizeof(where)), k->key.p);
        TD_TRY(dense_row(&w, shape, y, row * s.longest_row * td_shape_count(shape), &steps, err));
        if (lengths) {
            TD_DATA(lengths, int64_t)[row] = steps;
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ ragged */

enum td_code td_lists_ragged(const struct td_parse *p, const struct td_cells *k, int out_values,
                             int out_outer, int out_inner, struct td_err *err)
{
    struct td_tensor *values, *outer, *inner;
    struct size s;
    int64_t at = 0, steps = 0;
    TD_TRY(measure(p, k, &s, err));
    TD_TRY(td_out(p->c, out_values, &(struct td_shape){1, {s.values}}, &values, err));
    struct td_shape outer_shape = p->single ? td_shape_scalar() : td_shape_vector(p->rows + 1);
    TD_TRY(td_out(p->c, out_outer, &outer_shape, &outer, err));
    TD_TRY(td_out(p->c, out_inner, &(struct td_shape){1, {s.steps + 1}}, &inner, err));
    TD_FAIL_IF(inner->dtype == TD_INT32 && (s.values > INT32_MAX || s.steps > INT32_MAX), err,
               INVALID_ARGUMENT, "%s: feature list %.100s holds more than splits of type int32 can count",
               TD_NODE_STR(p->c->node), k->key.p);
    td_tensor_set_int(inner, 0, 0);
    td_tensor_set_int(outer, 0, 0);
    for (int64_t row = 0; row < p->rows; row++) {
        struct walk w = walk_row(p, k, row);
        if (!p->single) {
            td_tensor_set_int(outer, row, steps);
        }
        for (;;) {
            bool more;
            TD_TRY(next(&w, &more, err));
            if (!more) {
                break;
            }
            TD_TRY(w.n ? td_example_copy(w.feature, values, at, err) : TD_OK);
            at += w.n;
            td_tensor_set_int(inner, ++steps, at);
        }
    }
    if (!p->single) {
        td_tensor_set_int(outer, p->rows, steps);
    }
    return TD_OK;
}
