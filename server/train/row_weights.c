/* server/train/row_weights.c - weights of a row, from what it says and from its target's classes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/row_weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

static int by_class(const void *a, const void *b)
{
    const int64_t x = ((const struct td_class_weight *)a)->class,
                  y = ((const struct td_class_weight *)b)->class;
    return x < y ? -1 : x > y;
}

enum td_code td_row_weights_set_classes(struct td_row_cells *c, const struct td_job_spec *spec,
                                        struct td_err *err)
{
    for (int i = 0; i < c->n; i++) {
        struct td_row_cell *cell = &c->cell[i];
        if (cell->field->kind != TD_ROW_WEIGHT || spec->loss[cell->field->loss].n_class_weights == 0) {
            continue;
        }
        const struct td_loss_spec *loss = &spec->loss[cell->field->loss];
        const size_t n = (size_t)loss->n_class_weights;
        cell->class_weight = td_calloc(n, sizeof *cell->class_weight);
        if (cell->class_weight == NULL) {
            return td_no_memory(err, n * sizeof *cell->class_weight, "class weights");
        }
        memcpy(cell->class_weight, loss->class_weight, n * sizeof *cell->class_weight);
        qsort(cell->class_weight, n, sizeof *cell->class_weight, by_class);
        cell->n_class_weights = loss->n_class_weights;
    }
    return TD_OK;
}

/* The class at position i of a target's last row; n values lie behind one another at each position. */
static int64_t class_at(const struct td_row_cell *target, int64_t i, int64_t n)
{
    const size_t first = target->g.n - (size_t)td_shape_count(&target->last);
    if (target->field->rule == TD_TARGET_CLASS) {
        return ((const int64_t *)(const void *)target->g.data)[first + (size_t)i];
    }
    const float *v = (const float *)(const void *)target->g.data + first + i * n;
    if (n == 1) {
        return fabsf(v[0]) < 0x1p62f ? (int64_t)v[0] : -1;
    }
    int64_t best = 0;
    for (int64_t k = 1; k < n; k++) {
        best = v[k] > v[best] ? k : best;
    }
    return best;
}

static double weight_of(const struct td_row_cell *cell, int64_t class)
{
    const struct td_class_weight key = {.class = class};
    const struct td_class_weight *w = bsearch(&key, cell->class_weight, (size_t)cell->n_class_weights,
                                              sizeof *cell->class_weight, by_class);
    return w != NULL ? w->weight : 1;
}

/* The positions of the row: one each value of the loss. */
static struct td_shape positions_of(const struct td_row_cell *cell, const struct td_row_cell *target)
{
    if (cell->row.rank == 0) {
        return td_shape_scalar();
    }
    struct td_shape p = target->last;
    p.rank -= target->field->rule == TD_TARGET_CLASS || p.rank == 0 ? 0 : 1;
    return p;
}

static enum td_code check_given(const struct td_row_cell *cell, const struct td_shape *positions,
                                struct td_err *err)
{
    if (!cell->seen) {
        return TD_OK;
    }
    const double *v = (const double *)(const void *)cell->weight.data;
    for (size_t i = 0; i < cell->weight.n; i++) {
        TD_FAIL_IF(!isfinite((double)(float)v[i]), err, INVALID_ARGUMENT,
                   "sample_weight is beyond what float holds");
    }
    const struct td_shape *shape = &cell->weight_shape;
    TD_FAIL_IF(shape->rank > 0 && !td_shape_equal(shape, positions), err, INVALID_ARGUMENT,
               "%s is of shape %s, want a number%s%s", cell->field->name, TD_SHAPE_STR(shape),
               positions->rank > 0 ? " or shape " : "", positions->rank > 0 ? TD_SHAPE_STR(positions) : "");
    return TD_OK;
}

enum td_code td_row_weights_put(struct td_row_cells *c, int i, struct td_err *err)
{
    struct td_row_cell *cell = &c->cell[i];
    const struct td_row_cell *target = &c->cell[cell->field->target];
    const struct td_shape positions = positions_of(cell, target);
    const int64_t n = td_shape_count(&positions), all = td_shape_count(&target->last);
    const int64_t each = target->field->rule == TD_TARGET_CLASS || n == 0 ? 1 : all / n;
    const double *given = (const double *)(const void *)cell->weight.data;
    TD_TRY(check_given(cell, &positions, err));
    TD_FAIL_IF(cell->n_class_weights > 0 && target->field->rule == TD_TARGET_CLASS && n != all, err,
               INVALID_ARGUMENT, "class_weight (%s) needs one class a row, %s has %" PRId64,
               cell->field->name, target->field->name, all);
    TD_TRY(td_gather_reserve(&cell->g, (size_t)n, err));
    float *to = (float *)(void *)cell->g.data + cell->g.n;
    for (int64_t k = 0; k < n; k++) {
        const double w = !cell->seen ? 1 : given[cell->weight_shape.rank > 0 ? k : 0];
        /* as Keras: float32 weights multiplied */
        to[k] =
            (float)w * (cell->n_class_weights > 0 ? (float)weight_of(cell, class_at(target, k, each)) : 1);
    }
    cell->g.n += (size_t)n;
    cell->last = positions;
    if (!cell->fixed) {
        cell->shape[c->rows] = positions;
    }
    return TD_OK;
}
