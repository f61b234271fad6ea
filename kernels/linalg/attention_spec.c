/* kernels/linalg/attention_spec.c - what an _Attention node says, as integers and back, and its sizes.
 *
 * The integers are those of the compiler's own rule; all the same they are read as if a file had brought
 * them: nothing that they say reaches beyond the inputs. A tensor's axis is as long as the canonical one,
 * or 1, and is that of one canonical axis alone.
 *
 * Sizes are found twice by the same code: with what the compiler knows of the shapes, and when all are known.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/graph/emit.h"
#include "kernels/linalg/attention.h"

/* ------------------------------------------------------------------ as integers */

static int64_t *put_axes(const struct td_attention_axes *a, int64_t *to)
{
    *to++ = a->rank;
    *to++ = a->n;
    for (int i = 0; i < a->n; i++) {
        *to++ = a->at[i];
    }
    return to;
}

int td_attention_write(const struct td_attention_form *f, int64_t *out)
{
    int64_t *to = out;
    *to++ = f->same_scores;
    *to++ = f->same_sum;
    *to++ = f->rank;
    *to++ = f->from;
    *to++ = f->to;
    *to++ = f->output_rank;
    for (int i = 0; i <= TD_ATTENTION_OUTPUT; i++) {
        to = put_axes(&f->axes[i], to);
    }
    *to++ = f->n_stages;
    for (int i = 0; i < f->n_stages; i++) {
        const struct td_attention_stage *s = &f->stage[i];
        *to++ = s->kind;
        *to++ = s->after;
        *to++ = s->operand;
        to = put_axes(&s->axes, to);
    }
    return (int)(to - out);
}

struct reader {
    const int64_t *at;
    int left;
    bool ok;
};

/* The next one, from..to; else no more is ok. */
static int take(struct reader *r, int64_t from, int64_t to)
{
    r->ok = r->ok && r->left > 0 && *r->at >= from && *r->at <= to;
    if (!r->ok) {
        return (int)from;
    }
    r->left--;
    return (int)*r->at++;
}

static void take_axes(struct reader *r, struct td_attention_axes *a)
{
    a->rank = take(r, 0, TD_MAX_RANK);
    a->n = take(r, 0, TD_MAX_RANK);
    uint32_t seen = 0;
    for (int i = 0; i < a->n; i++) {
        a->at[i] = take(r, -a->n, 0);
        r->ok = r->ok && (a->at[i] == 0 || (seen >> -a->at[i] & 1) == 0); /* or its steps would add up */
        seen |= 1U << -a->at[i];
    }
}

static void take_stage(struct reader *r, const struct td_node *n, struct td_attention_stage *s)
{
    s->kind = (enum td_attention_kind)take(r, 0, TD_ATTENTION_KINDS - 1);
    s->after = take(r, 0, 1);
    s->operand = take(r, -1, n->n_in - 1);
    take_axes(r, &s->axes);
    const bool chooses = s->kind == TD_ATTENTION_KEEP || s->kind == TD_ATTENTION_DROP;
    const enum td_dtype want = chooses ? TD_BOOL : td_dtype_of(n->in[0]);
    r->ok = r->ok && (s->operand < 0 ? !chooses : td_dtype_of(n->in[s->operand]) == want);
}

/* The output has each of its axes, the last one last. */
static bool is_whole(const struct td_attention_axes *a)
{
    bool all = a->n >= 2 && a->at[0] == -1;
    for (int i = 0; i < a->n; i++) {
        all = all && a->at[i] != 0;
    }
    return all;
}

bool td_attention_read(const struct td_node *n, struct td_attention_form *f)
{
    int count, numbers;
    struct reader r = {.at = td_attr_ints(n, "_form", &count), .ok = n->n_in >= TD_ATTENTION_TENSORS};
    const float *number = td_attr_floats(n, "_numbers", &numbers);
    r.left = count;
    f->same_scores = take(&r, 0, 1);
    f->same_sum = take(&r, 0, 1);
    f->rank = take(&r, 0, TD_MAX_RANK);
    f->from = take(&r, 0, TD_ATTENTION_STAGES);
    f->to = take(&r, 0, TD_ATTENTION_STAGES);
    f->output_rank = take(&r, 0, TD_MAX_RANK);
    for (int i = 0; i <= TD_ATTENTION_OUTPUT; i++) {
        take_axes(&r, &f->axes[i]);
    }
    f->n_stages = take(&r, 0, TD_ATTENTION_STAGES);
    for (int i = 0; r.ok && i < f->n_stages; i++) {
        take_stage(&r, n, &f->stage[i]);
        r.ok = r.ok && i < numbers;
        f->stage[i].number = r.ok ? number[i] : 0;
    }
    for (int i = 0; r.ok && i < TD_ATTENTION_TENSORS; i++) {
        r.ok = td_dtype_of(n->in[i]) == td_dtype_of(n->in[0]);
    }
    return r.ok && is_whole(&f->axes[TD_ATTENTION_OUTPUT]);
}

/* ------------------------------------------------------------------ axes */

/* The axis of a tensor of that rank which is the canonical one; -1: it has none. */
static int axis_of(const struct td_attention_axes *a, int canonical, int rank)
{
    const int back = canonical >= a->n ? canonical + 1 : a->at[canonical] == 0 ? rank + 1 : -a->at[canonical];
    return rank - back;
}

static int64_t dim_of(const struct td_attention_axes *a, int canonical, const struct td_shape *s)
{
    const int axis = axis_of(a, canonical, s->rank);
    return axis < 0 ? 1 : s->dim[axis];
}

/* How many canonical axes it takes to hold all of the tensor's. */
static int rank_for(const struct td_attention_axes *a, const struct td_shape *s)
{
    return a->rank != 0 ? a->n : s->rank;
}

static enum td_code no_fit(const struct td_node *n, const struct td_shape *a, const struct td_shape *b,
                           struct td_err *err)
{
    return td_fail(err, TD_INVALID_ARGUMENT, "%s: Incompatible shapes: %s vs. %s", TD_NODE_STR(n),
                   TD_SHAPE_STR(a), TD_SHAPE_STR(b));
}

/* *dim, of the tensor so far, and that of another; -1: not known. False: they do not fit. */
static bool meet(int64_t *dim, int64_t other, bool same)
{
    if (same || *dim == other) {
        const bool fits = *dim < 0 || other < 0 || *dim == other;
        *dim = *dim < 0 ? other : *dim;
        return fits;
    }
    if (*dim == 1 || other < 0) {
        *dim = *dim == 1 ? other : *dim;
        return true;
    }
    const bool fits = *dim < 0 || other == 1;
    *dim = *dim < 0 && other != 1 ? other : *dim;
    return fits;
}

/* ------------------------------------------------------------------ sizes */

struct fitting {
    const struct td_node *n;
    const struct td_attention_form *f;
    const struct td_shape *in;
    struct td_attention_sizes *s;
    struct td_err *err;
    bool had[TD_MAX_RANK]; /* by canonical axis: of the tensors so far one has it */
};

static enum td_code check_rank(const struct fitting *x, int i)
{
    const struct td_attention_axes *a = &x->f->axes[i];
    const struct td_shape *s = &x->in[i];
    TD_FAIL_IF(a->rank != 0 && s->rank != a->rank, x->err, INVALID_ARGUMENT,
               "%s: Expected input %d to have rank %d, got shape %s", TD_NODE_STR(x->n), i, a->rank,
               TD_SHAPE_STR(s));
    TD_FAIL_IF(axis_of(a, 0, s->rank) < 0 || axis_of(a, 1, s->rank) < 0, x->err, INVALID_ARGUMENT,
               "%s: In[%d] ndims must be >= 2: %d", TD_NODE_STR(x->n), i, s->rank);
    return TD_OK;
}

/* Input i joins the canonical axes from `from` on. */
static enum td_code join(struct fitting *x, const struct td_attention_axes *a, int i, int from, bool same)
{
    for (int k = from; k < x->s->rank; k++) {
        const bool has = axis_of(a, k, x->in[i].rank) >= 0;
        if (!meet(&x->s->dim[k], dim_of(a, k, &x->in[i]), same && has && x->had[k])) {
            return no_fit(x->n, &x->in[0], &x->in[i], x->err);
        }
        x->had[k] = x->had[k] || has;
    }
    return TD_OK;
}

/* An axis that two tensors are summed along. */
static enum td_code meet_inside(const struct fitting *x, int i, int axis, int64_t *dim)
{
    const int64_t other = dim_of(&x->f->axes[i], axis, &x->in[i]);
    TD_FAIL_IF(!meet(dim, other, true), x->err, INVALID_ARGUMENT,
               "%s: Matrix size-incompatible: %lld and In[%d]: %s", TD_NODE_STR(x->n), (long long)*dim, i,
               TD_SHAPE_STR(&x->in[i]));
    return TD_OK;
}

static enum td_code join_stages(struct fitting *x, bool after)
{
    for (int i = 0; i < x->f->n_stages; i++) {
        const struct td_attention_stage *g = &x->f->stage[i];
        if (g->operand >= 0 && g->after == after) {
            TD_TRY(join(x, &g->axes, g->operand, 0, false));
        }
    }
    return TD_OK;
}

static enum td_code want_rank(const struct fitting *x, int rank, int want, const char *what)
{
    TD_FAIL_IF(want != 0 && rank != want, x->err, INVALID_ARGUMENT,
               "%s: %s have rank %d, not %d, of inputs shaped %s, %s and %s", TD_NODE_STR(x->n), what, rank,
               want, TD_SHAPE_STR(&x->in[0]), TD_SHAPE_STR(&x->in[1]), TD_SHAPE_STR(&x->in[2]));
    return TD_OK;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* Ranks grow from the product on, by the stages and the value. */
static enum td_code find_rank(const struct fitting *x)
{
    const struct td_attention_form *f = x->f;
    int rank = 0;
    for (int i = 0; i < TD_ATTENTION_TENSORS; i++) {
        TD_TRY(check_rank(x, i));
        rank = i == TD_ATTENTION_VALUE ? rank : larger(rank, rank_for(&f->axes[i], &x->in[i]));
    }
    for (int i = 0; i <= f->n_stages; i++) {
        TD_TRY(want_rank(x, rank, i == f->from || i == f->to ? f->rank : 0, "scores"));
        if (i < f->n_stages && f->stage[i].operand >= 0) {
            rank = larger(rank, rank_for(&f->stage[i].axes, &x->in[f->stage[i].operand]));
        }
    }
    rank = larger(rank, rank_for(&f->axes[TD_ATTENTION_VALUE], &x->in[TD_ATTENTION_VALUE]));
    x->s->rank = larger(rank, f->axes[TD_ATTENTION_OUTPUT].n);
    return want_rank(x, rank, f->output_rank, "sums");
}

/* The canonical axes: query and key, the masks, then value. */
static enum td_code find_dims(struct fitting *x)
{
    struct td_attention_sizes *s = x->s;
    const struct td_attention_axes *axes = x->f->axes, *query = &axes[TD_ATTENTION_QUERY];
    const struct td_shape *q = &x->in[TD_ATTENTION_QUERY];
    TD_TRY(find_rank(x));
    for (int k = 0; k < s->rank; k++) {
        s->dim[k] = k == 0 ? 1 : dim_of(query, k, q);
        x->had[k] = axis_of(query, k, q->rank) >= 0;
    }
    s->dim[0] = dim_of(&axes[TD_ATTENTION_KEY], 1, &x->in[TD_ATTENTION_KEY]);
    s->depth = dim_of(query, 0, q);
    s->width = dim_of(&axes[TD_ATTENTION_VALUE], 0, &x->in[TD_ATTENTION_VALUE]);
    TD_TRY(meet_inside(x, TD_ATTENTION_KEY, 0, &s->depth));
    TD_TRY(join(x, &axes[TD_ATTENTION_KEY], TD_ATTENTION_KEY, 2, x->f->same_scores));
    TD_TRY(join_stages(x, false));
    const bool one = s->dim[0] == 1;
    TD_TRY(join_stages(x, true));
    s->copies = one ? s->dim[0] : 1;
    TD_TRY(meet_inside(x, TD_ATTENTION_VALUE, 1, &s->dim[0]));
    return join(x, &axes[TD_ATTENTION_VALUE], TD_ATTENTION_VALUE, 2, x->f->same_sum);
}

static void find_output(const struct fitting *x)
{
    struct td_attention_sizes *s = x->s;
    const struct td_attention_axes *a = &x->f->axes[TD_ATTENTION_OUTPUT];
    s->output = td_shape_of_rank(s->rank);
    for (int k = 0; k < s->rank; k++) {
        s->output.dim[axis_of(a, k, s->rank)] = k == 0 ? s->width : s->dim[k];
    }
}

static void find_steps(const struct td_attention_axes *a, const struct td_shape *shape, int rank,
                       int64_t *step)
{
    for (int k = 0; k < rank; k++) {
        const int axis = axis_of(a, k, shape->rank);
        step[k] = axis < 0 || shape->dim[axis] == 1 ? 0 : td_shape_range(shape, axis + 1, shape->rank);
    }
}

enum td_code td_attention_sizes_of(const struct td_node *n, const struct td_attention_form *f,
                                   const struct td_shape *in, struct td_attention_sizes *s,
                                   struct td_err *err)
{
    struct fitting x = {n, f, in, s, err, {false}};
    bool known = true;
    s->output = td_shape_unknown();
    for (int i = 0; i < n->n_in; i++) {
        if (in[i].rank < 0) {
            return TD_OK;
        }
        known = known && td_shape_known(&in[i]);
    }
    TD_TRY(find_dims(&x));
    find_output(&x);
    TD_TRY(td_shape_make(&s->output, s->output.dim, s->output.rank, err));
    if (!known) {
        return TD_OK;
    }
    for (int i = 0; i < TD_ATTENTION_TENSORS; i++) {
        find_steps(&f->axes[i], &in[i], s->rank, s->step[i]);
    }
    find_steps(&f->axes[TD_ATTENTION_OUTPUT], &s->output, s->rank, s->step[TD_ATTENTION_OUTPUT]);
    for (int i = 0; i < f->n_stages; i++) {
        if (f->stage[i].operand >= 0) {
            find_steps(&f->stage[i].axes, &in[f->stage[i].operand], s->rank, s->stage_step[i]);
        }
    }
    s->batches = td_shape_count(&s->output) > 0; /* of nothing, however large the axes are */
    for (int k = 2; k < s->rank && s->batches > 0; k++) {
        s->batches *= s->dim[k];
    }
    return TD_OK;
}

int64_t td_attention_batch_at(const struct td_attention_sizes *s, const int64_t *step, int64_t b)
{
    int64_t at = 0;
    for (int k = 2; k < s->rank; k++) {
        at += b % s->dim[k] * step[k];
        b /= s->dim[k];
    }
    return at;
}
