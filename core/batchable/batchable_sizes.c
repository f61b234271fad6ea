/* core/batchable/batchable_sizes.c - numbers that follow from N, as small tensors of expressions.
 *
 * Graphs compute the shapes they ask for: they take dimensions apart, multiply and join them. Three
 * ready-made ways of doing so are followed here. Arithmetic is done on expressions (core/batchable/affine.h),
 * element by element or from element to element. Ops that only move elements about are run by their own
 * kernel, on labels in place of the elements: the labels that come out say which element is where.
 *
 * Does not: follow floats, or numbers past int64.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "core/batchable/batchable_impl.h"
#include "core/run/lone.h"

enum { MAX_SIZES = 512, MAX_INPUTS = 64, FIRST_LABEL = 1 << 20 };

/* ------------------------------------------------------------------ outputs */

static bool bounds_of(enum td_dtype dtype, int64_t *least, int64_t *most)
{
    *least = dtype == TD_INT32 ? INT32_MIN : dtype == TD_INT64 ? INT64_MIN : 0;
    *most = dtype == TD_INT32 ? INT32_MAX : dtype == TD_INT64 ? INT64_MAX : 1;
    return dtype == TD_INT32 || dtype == TD_INT64 || dtype == TD_BOOL;
}

bool td_batchable_put_sizes(struct td_batchable_step *s, int o, const struct td_affine *sizes, int64_t n)
{
    int64_t least, most;
    bool steady = true;
    struct td_affine *kept = td_arena_alloc(s->trace->work->arena, (size_t)n + 1, sizeof *kept);
    if (kept == NULL || !bounds_of(s->node->out_type[o], &least, &most)) {
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        kept[i] = sizes[i];
        kept[i].opaque |= s->node->out_type[o] == TD_BOOL && kept[i].slope != 0;
        if (!kept[i].opaque && !td_row_range_within(td_batchable_range(s), kept[i], least, most)) {
            kept[i] = (struct td_affine){.opaque = true};
        }
        steady = steady && td_affine_is(kept[i], kept[i].base, 0);
    }
    s->out[o] = steady ? (struct td_batchable_value){.kind = TD_VALUE_CONST}
                       : (struct td_batchable_value){.kind = TD_VALUE_SIZE, .sizes = kept, .n_sizes = n};
    return true;
}

static bool agrees_at(const struct td_batchable_value *v, const struct td_tensor *t, int64_t rows)
{
    if (td_tensor_count(t) != v->n_sizes || !td_dtype_in(t->dtype, TD_SET_INTS | TD_BIT(TD_BOOL))) {
        return false;
    }
    for (int64_t i = 0; i < v->n_sizes; i++) {
        const struct td_affine x = v->sizes[i];
        if (!x.opaque && x.base + x.slope * rows != td_tensor_int(t, i)) {
            return false;
        }
    }
    return true;
}

bool td_batchable_agrees(const struct td_batchable_step *s, int o)
{
    const struct td_batchable_value *v = &s->out[o];
    const struct td_tensor *first = &s->bound[0]->known[s->step->out0 + o];
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        const struct td_tensor *t = &s->bound[p]->known[s->step->out0 + o];
        if (t->dtype == TD_DTYPE_NONE || first->dtype == TD_DTYPE_NONE) {
            continue;
        }
        if ((v->kind == TD_VALUE_CONST && !td_dtype_is_object(t->dtype) &&
             !td_batchable_same_value(t, first)) ||
            (v->kind == TD_VALUE_SIZE && v->sizes != NULL && !agrees_at(v, t, s->trace->work->probe[p]))) {
            return false;
        }
    }
    return true;
}

bool td_batchable_same_sizes(const struct td_batchable_value *a, const struct td_batchable_value *b)
{
    bool same = a->sizes != NULL && b->sizes != NULL && a->n_sizes == b->n_sizes;
    for (int64_t i = 0; same && i < a->n_sizes; i++) {
        same = td_affine_equal(a->sizes[i], b->sizes[i]);
    }
    return same;
}

/* ------------------------------------------------------------------ arithmetic */

/* Number of elements of a shape; -1 when it is too large to be followed, or not known. */
static int64_t small_count(const struct td_shape *shape)
{
    const int64_t n = td_shape_known(shape) ? td_shape_count(shape) : -1;
    return n <= MAX_SIZES ? n : -1;
}

/* Input i holds its elements as expressions. */
static bool is_followed(const struct td_batchable_step *s, int i)
{
    const struct td_batchable_value *x = &s->in[i];
    return (x->kind == TD_VALUE_CONST && td_batchable_known(s, i, 0) != NULL) ||
           (x->kind == TD_VALUE_SIZE && x->sizes != NULL);
}

static struct td_affine combined(struct td_batchable_step *s, td_affine_fn *number, struct td_affine x,
                                 struct td_affine y)
{
    struct td_affine z = {.opaque = true};
    if (x.opaque || y.opaque || !number(td_batchable_range(s), x, y, &z)) {
        z = (struct td_affine){.opaque = true};
    }
    return z;
}

static struct td_affine element(const struct td_batchable_step *s, int i, int64_t k)
{
    struct td_affine x;
    return td_batchable_size(s, i, k, &x) ? x : (struct td_affine){.opaque = true};
}

/* Where element i of a tensor of shape y comes from in x, which broadcasts to it. */
static int64_t broadcast_index(const struct td_shape *x, const struct td_shape *y, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int d = y->rank - 1, k = x->rank - 1; k >= 0; d--, k--) {
        at += x->dim[k] == 1 ? 0 : i % y->dim[d] * step;
        i /= y->dim[d];
        step *= x->dim[k];
    }
    return at;
}

bool td_batchable_elements(struct td_batchable_step *s)
{
    struct td_affine z[MAX_SIZES];
    const struct td_shape *y = td_batchable_out_shape(s, 0, 0);
    const int64_t n = small_count(y);
    td_affine_fn *number = td_batchable_rule_of(s->node->op)->number;
    if (n < 0 || s->n_in < 1 || s->n_in > 2 || !is_followed(s, 0) || !is_followed(s, s->n_in - 1)) {
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        const struct td_affine a = element(s, 0, broadcast_index(&s->in_shape[0][0], y, i));
        const int last = s->n_in - 1;
        z[i] = combined(s, number, a, element(s, last, broadcast_index(&s->in_shape[0][last], y, i)));
    }
    return td_batchable_put_sizes(s, 0, z, n);
}

/* Where element i of shape x goes when the axes of the mask are reduced. */
static int64_t reduced_index(const struct td_shape *x, uint32_t axes, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int d = x->rank - 1; d >= 0; d--) {
        if ((axes >> d & 1) == 0) {
            at += i % x->dim[d] * step;
            step *= x->dim[d];
        }
        i /= x->dim[d];
    }
    return at;
}

bool td_batchable_folds(struct td_batchable_step *s)
{
    struct td_affine z[MAX_SIZES];
    bool begun[MAX_SIZES] = {false};
    const struct td_shape *x = &s->in_shape[0][0];
    const int64_t n = small_count(x), n_out = small_count(td_batchable_out_shape(s, 0, 0));
    td_affine_fn *number = td_batchable_rule_of(s->node->op)->number;
    uint32_t axes;
    if (n < 1 || n_out < 1 || n_out > n || !is_followed(s, 0) || !td_batchable_axes(s, &axes)) {
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = reduced_index(x, axes, i);
        const struct td_affine e = element(s, 0, i);
        z[at] = begun[at] ? combined(s, number, z[at], e) : e;
        begun[at] = true;
    }
    return td_batchable_put_sizes(s, 0, z, n_out);
}

/* ------------------------------------------------------------------ moving */

struct moving {
    struct td_tensor label[MAX_INPUTS];
    struct td_affine what[MAX_SIZES]; /* by label, from FIRST_LABEL on */
    int64_t n;
    struct td_tensor made[MAX_INPUTS];
};

/* In place of input i: the same shape, a label in each element. */
static bool put_labels(struct td_batchable_step *s, struct moving *m, int i)
{
    struct td_err ignored = {0};
    const enum td_dtype dtype = s->node->in[i].node->out_type[s->node->in[i].port];
    const int64_t n = small_count(&s->in_shape[0][i]);
    if (n < 0 || m->n + n > MAX_SIZES || !is_followed(s, i) || (dtype != TD_INT32 && dtype != TD_INT64) ||
        td_tensor_new(&m->label[i], dtype, &s->in_shape[0][i], &ignored)) {
        return false;
    }
    for (int64_t k = 0; k < n; k++) {
        const int64_t label = FIRST_LABEL + m->n;
        m->what[m->n++] = element(s, i, k);
        if (dtype == TD_INT32) {
            TD_DATA(&m->label[i], int32_t)[k] = (int32_t)label;
        } else {
            TD_DATA(&m->label[i], int64_t)[k] = label;
        }
    }
    return true;
}

static bool read_labels(struct td_batchable_step *s, const struct moving *m, int o)
{
    struct td_affine z[MAX_SIZES];
    const struct td_tensor *t = &m->made[o];
    const int64_t n = td_tensor_count(t);
    if (n > MAX_SIZES || !td_dtype_in(t->dtype, TD_SET_INDEX)) {
        return false;
    }
    for (int64_t k = 0; k < n; k++) {
        const int64_t label = td_tensor_int(t, k) - FIRST_LABEL;
        if (label < 0 || label >= m->n) {
            return false; /* not moved but made */
        }
        z[k] = m->what[label];
    }
    return td_batchable_put_sizes(s, o, z, n);
}

static bool run_on_labels(struct td_batchable_step *s, struct moving *m, const struct td_batchable_rule *rule)
{
    const struct td_tensor *in[MAX_INPUTS];
    struct td_err ignored = {0};
    bool ok = true;
    for (int i = 0; ok && i < s->n_in; i++) {
        const bool moved = i >= rule->lead && i < s->n_in - rule->trail;
        in[i] = moved ? &m->label[i] : td_batchable_known(s, i, 0);
        ok = moved ? put_labels(s, m, i) : s->in[i].kind == TD_VALUE_CONST && in[i] != NULL;
    }
    const struct td_lone one = {.model = s->trace->plan->model,
                                .node = s->node,
                                .rows = s->step->rows,
                                .n_rows = s->step->n_rows,
                                .ahead = true};
    ok = ok && td_lone_run(&one, in, m->made, &ignored) == TD_OK;
    for (int o = 0; ok && o < s->n_out; o++) {
        ok = read_labels(s, m, o);
    }
    return ok;
}

bool td_batchable_moves(struct td_batchable_step *s)
{
    const struct td_batchable_rule *rule = td_batchable_rule_of(s->node->op);
    if (s->n_in > MAX_INPUTS || s->n_out > MAX_INPUTS || s->step->n_rows == 0) {
        return false;
    }
    struct moving *m = td_calloc(1, sizeof *m);
    const bool ok = m != NULL && run_on_labels(s, m, rule);
    for (int i = 0; m != NULL && i < MAX_INPUTS; i++) {
        td_tensor_clear(&m->label[i]);
        td_tensor_clear(&m->made[i]);
    }
    td_free(m);
    return ok;
}
