/* core/batchable/batchable_rule.c - what rules share: questions about a step's inputs, and placing its
 * outputs.
 *
 * Each rule finds the axis that the rows have in the output; td_batchable_put then checks it against the
 * shapes that the op's own shape function gave at each number of rows, so that what is cut off or repeated
 * shows there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_rule.h"

#include "core/base/check.h"
#include "core/batchable/batchable_impl.h"

/* ------------------------------------------------------------------ shapes at the probes */

struct td_shape *td_batchable_out_shape(const struct td_batchable_step *s, int o, int probe)
{
    return &s->bound[probe]->shape[s->step->out0 + o];
}

static int64_t entries(const struct td_batchable_step *s, const struct td_shape *const *shape, int axis)
{
    const int64_t *probe = s->trace->work->probe;
    int64_t k = axis < shape[0]->rank ? shape[0]->dim[axis] / probe[0] : 0;
    for (int p = 0; p < TD_BATCHABLE_PROBES && k > 0; p++) {
        int64_t want;
        bool fits = axis < shape[p]->rank && !__builtin_mul_overflow(k, probe[p], &want);
        k = fits && shape[p]->dim[axis] == want ? k : 0;
    }
    return k;
}

int64_t td_batchable_per_row(const struct td_batchable_step *s, int i, int axis)
{
    const struct td_shape *shape[TD_BATCHABLE_PROBES];
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        shape[p] = &s->in_shape[p][i];
    }
    return entries(s, shape, axis);
}

/* All dimensions but `axis` (-1: really all) known, and the same at all probes. */
static bool steady(const struct td_shape *const *shape, int axis)
{
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        if (!td_shape_known(shape[p]) || shape[p]->rank != shape[0]->rank) {
            return false;
        }
        for (int d = 0; d < shape[0]->rank; d++) {
            if (d != axis && shape[p]->dim[d] != shape[0]->dim[d]) {
                return false;
            }
        }
    }
    return true;
}

bool td_batchable_put(struct td_batchable_step *s, int o, int axis, int64_t pre, int64_t k)
{
    const struct td_shape *shape[TD_BATCHABLE_PROBES];
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        shape[p] = td_batchable_out_shape(s, o, p);
        if (!td_shape_known(shape[p])) {
            return td_batchable_no(s, "the shape of its output %d is not known before it runs", o);
        }
    }
    int64_t have = axis < 0 ? 0 : entries(s, shape, axis);
    if (have == 0 || pre < 1 || have % pre != 0 || (k != 0 && have != k) || !steady(shape, axis)) {
        return td_batchable_no(s, "its output %d of shape %s for %lld rows does not keep them", o,
                               TD_SHAPE_STR(shape[0]), (long long)s->trace->work->probe[0]);
    }
    s->out[o] = (struct td_batchable_value){.kind = TD_VALUE_ROW, .axis = axis, .pre = pre};
    return true;
}

bool td_batchable_spans(const struct td_batchable_step *s, int i, int back)
{
    const struct td_shape *shape = &s->in_shape[0][i];
    return shape->rank < 0 || (back < shape->rank && shape->dim[shape->rank - 1 - back] != 1);
}

enum td_code td_batchable_check(const struct td_batchable_step *s, int o, struct td_err *err)
{
    const struct td_batchable_value *v = &s->out[o];
    const struct td_shape *shape[TD_BATCHABLE_PROBES];
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        shape[p] = td_batchable_out_shape(s, o, p);
    }
    if (v->kind == TD_VALUE_ROW) {
        const int64_t k = v->axis >= 0 ? entries(s, shape, v->axis) : 0;
        TD_WANT(k > 0 && v->pre > 0 && k % v->pre == 0 && steady(shape, v->axis), err,
                "output %d of %s, of shape %s for %lld rows, does not have them at axis %d in %lld blocks", o,
                TD_NODE_STR(s->node), TD_SHAPE_STR(shape[0]), (long long)s->trace->work->probe[0], v->axis,
                (long long)v->pre);
    }
    if (v->kind == TD_VALUE_SIZE && v->sizes != NULL) {
        TD_WANT(steady(shape, -1) && td_shape_count(shape[0]) == v->n_sizes, err,
                "output %d of %s, of shape %s, is said to have %lld elements", o, TD_NODE_STR(s->node),
                TD_SHAPE_STR(shape[0]), (long long)v->n_sizes);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ inputs */

bool td_batchable_size(const struct td_batchable_step *s, int i, int64_t k, struct td_affine *out)
{
    const struct td_batchable_value *x = &s->in[i];
    if (x->kind == TD_VALUE_SIZE && x->sizes != NULL && k >= 0 && k < x->n_sizes) {
        *out = x->sizes[k];
        return !out->opaque;
    }
    const struct td_tensor *t = x->kind == TD_VALUE_CONST ? td_batchable_known(s, i, 0) : NULL;
    if (t == NULL || !td_dtype_in(t->dtype, TD_SET_INTS | TD_BIT(TD_BOOL)) || k < 0 ||
        k >= td_tensor_count(t)) {
        return false;
    }
    *out = td_affine_const(td_tensor_int(t, k));
    return true;
}

bool td_batchable_int(const struct td_batchable_step *s, int i, int64_t k, int64_t *out)
{
    struct td_affine x;
    if (!td_batchable_size(s, i, k, &x) || x.slope != 0) {
        return false;
    }
    *out = x.base;
    return true;
}

struct td_row_range *td_batchable_range(const struct td_batchable_step *s)
{
    return &s->trace->work->range;
}

bool td_batchable_consts(struct td_batchable_step *s, int but)
{
    for (int i = 0; i < s->n_in; i++) {
        const struct td_batchable_value *x = &s->in[i];
        if (i != but && x->kind == TD_VALUE_SIZE) {
            return td_batchable_no(s, "its input %d follows from the number of rows%s%.120s", i,
                                   x->why != NULL ? "; " : "", x->why != NULL ? x->why : "");
        }
        if (i != but && x->kind != TD_VALUE_CONST) {
            return td_batchable_no(s, "its input %d differs by row, and is read for all rows", i);
        }
    }
    return true;
}

bool td_batchable_as_input(struct td_batchable_step *s, int o, int i, int axis)
{
    return td_batchable_put(s, o, axis, s->in[i].pre, td_batchable_per_row(s, i, s->in[i].axis));
}

bool td_batchable_alone(struct td_batchable_step *s, int i)
{
    return td_batchable_consts(s, i) &&
           (s->in[i].kind == TD_VALUE_ROW || td_batchable_no(s, "its input %d has no rows", i));
}

bool td_batchable_same_rows(struct td_batchable_step *s, int i, int j)
{
    const struct td_batchable_value *a = &s->in[i], *b = &s->in[j];
    return (a->kind == TD_VALUE_ROW && b->kind == TD_VALUE_ROW && a->pre == b->pre &&
            td_batchable_per_row(s, i, a->axis) == td_batchable_per_row(s, j, b->axis)) ||
           td_batchable_no(s, "its inputs %d and %d do not have the same rows", i, j);
}

bool td_batchable_pass_on(struct td_batchable_step *s, int o, int i)
{
    s->out[o] = s->in[i];
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        *td_batchable_out_shape(s, o, p) = s->in_shape[p][i];
    }
    return true;
}

/* ------------------------------------------------------------------ lists */

bool td_batchable_join_items(struct td_batchable_value *a, const struct td_batchable_value *b)
{
    if (a->item == TD_VALUE_UNSET || b->item == TD_VALUE_UNSET) {
        if (a->item == TD_VALUE_UNSET) {
            int64_t length = a->length;
            *a = *b;
            a->length = length;
        }
        return true;
    }
    bool same = a->item == b->item && (a->item == TD_VALUE_CONST || (a->axis == b->axis && a->pre == b->pre));
    bool shapes = a->item_shape != NULL && b->item_shape != NULL;
    for (int p = 0; p < TD_BATCHABLE_PROBES && shapes; p++) {
        shapes = td_shape_equal(&a->item_shape[p], &b->item_shape[p]);
    }
    if (!shapes) {
        a->item_shape = NULL;
    }
    return same && (shapes || a->item == TD_VALUE_CONST);
}
