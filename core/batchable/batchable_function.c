/* core/batchable/batchable_function.c - rows through functions, conditionals and loops.
 *
 * A branch taken by a constant is a call; a branch that is the same for all rows, but not known here, gives
 * what both branches agree on. A loop goes round until its variables stay what they are:
 *
 *     variables = what goes in
 *     repeat: variables = variables joined with body(variables)
 *
 * Joining only loses knowledge (a counter becomes "some constant", two axes become MIX), so it ends. Then the
 * condition must be the same for all rows, for any number of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable_impl.h"

#include <string.h>

#include "core/compile/loop.h"
#include "core/base/mem.h"
#include "core/function/callable_impl.h"

enum { MAX_ROUNDS = 16 };

/* ------------------------------------------------------------------ values in and out */

static void face_of_input(const struct td_batchable_step *s, int i, struct td_batchable_face *face)
{
    face->value = s->in[i];
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        const struct td_tensor *t = td_batchable_known(s, i, p);
        face->shape[p] = s->in_shape[p][i];
        if (t != NULL) {
            td_tensor_ref(&face->known[p], t);
        }
    }
}

static void face_copy(struct td_batchable_face *to, const struct td_batchable_face *from)
{
    *to = *from;
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        to->known[p] = (struct td_tensor){0};
        if (from->known[p].dtype != TD_DTYPE_NONE) {
            td_tensor_ref(&to->known[p], &from->known[p]);
        }
    }
}

static struct td_batchable_face *faces_of_inputs(const struct td_batchable_step *s, int from)
{
    struct td_batchable_face *faces = td_calloc((size_t)(s->n_in - from) + 1, sizeof *faces);
    for (int i = from; faces != NULL && i < s->n_in; i++) {
        face_of_input(s, i, &faces[i - from]);
    }
    return faces;
}

static void faces_free(struct td_batchable_face *faces, int n)
{
    if (faces != NULL) {
        td_batchable_face_clear(faces, n);
        td_free(faces);
    }
}

static void put_output(struct td_batchable_step *s, int o, const struct td_batchable_face *face)
{
    s->out[o] = face->value;
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        struct td_tensor *known = &s->bound[p]->known[s->step->out0 + o];
        *td_batchable_out_shape(s, o, p) = face->shape[p];
        if (known->dtype == TD_DTYPE_NONE && face->known[p].dtype != TD_DTYPE_NONE) {
            td_tensor_ref(known, &face->known[p]);
        }
    }
}

/* ------------------------------------------------------------------ joining */

static bool forget_values(struct td_batchable_face *a)
{
    bool had = false;
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        had |= a->known[p].dtype != TD_DTYPE_NONE;
        td_tensor_clear(&a->known[p]);
    }
    return had;
}

static bool same_values(const struct td_batchable_face *a, const struct td_batchable_face *b)
{
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        if (a->known[p].dtype == TD_DTYPE_NONE || !td_batchable_same_value(&a->known[p], &b->known[p])) {
            return false;
        }
    }
    return true;
}

static bool same_shapes(const struct td_batchable_face *a, const struct td_batchable_face *b)
{
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        if (!td_shape_equal(&a->shape[p], &b->shape[p])) {
            return false;
        }
    }
    return true;
}

static bool become_mix(struct td_batchable_face *a, const char *why)
{
    forget_values(a);
    a->value = (struct td_batchable_value){.kind = TD_VALUE_MIX, .why = why};
    return true;
}

/* Keeps the dimensions that are the same in both. True when that changed a's. */
static bool join_shapes(struct td_batchable_face *a, const struct td_batchable_face *b)
{
    bool changed = false;
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        struct td_shape *x = &a->shape[p];
        const struct td_shape *y = &b->shape[p];
        if (x->rank != y->rank) {
            changed |= x->rank >= 0;
            *x = td_shape_unknown();
        }
        for (int d = 0; d < x->rank; d++) {
            if (x->dim[d] != y->dim[d] && x->dim[d] >= 0) {
                x->dim[d] = -1;
                changed = true;
            }
        }
    }
    return changed;
}

static bool join_lists(struct td_batchable_face *a, const struct td_batchable_face *b)
{
    struct td_batchable_value was = a->value;
    if (!td_batchable_join_items(&a->value, &b->value)) {
        return become_mix(a, "a list holds elements of different shapes or with the rows at different axes");
    }
    a->value.length = was.length == b->value.length ? was.length : -1;
    return a->value.item != was.item || a->value.length != was.length ||
           (a->value.item_shape == NULL) != (was.item_shape == NULL);
}

/* a becomes what covers both. True when it was not that before. */
static bool join(struct td_batchable_face *a, const struct td_batchable_face *b)
{
    enum td_batchable_kind x = a->value.kind, y = b->value.kind;
    if (y == TD_VALUE_UNSET || x == TD_VALUE_MIX) {
        return false;
    }
    if (x == TD_VALUE_UNSET) {
        forget_values(a);
        face_copy(a, b);
        return true;
    }
    if (y == TD_VALUE_MIX) {
        return become_mix(a, b->value.why);
    }
    if (x != y || (x == TD_VALUE_SIZE && !td_batchable_same_sizes(&a->value, &b->value))) {
        return become_mix(a, "a value has the rows on one way through a loop or branch, and not on another");
    }
    if (x == TD_VALUE_LIST) {
        return join_lists(a, b);
    }
    if (x == TD_VALUE_ROW &&
        (a->value.axis != b->value.axis || a->value.pre != b->value.pre || !same_shapes(a, b))) {
        return become_mix(a, "the rows are at different axes on two ways through a loop or branch");
    }
    bool forgot = !same_values(a, b) && forget_values(a);
    return join_shapes(a, b) || forgot;
}

/* ------------------------------------------------------------------ calls */

static bool walk(struct td_batchable_step *s, struct td_callable *f, const struct td_batchable_face *in,
                 int n_in, struct td_batchable_face *out, int n_out)
{
    struct td_err err = {0};
    return td_batchable_walk(s->trace->work, f, in, n_in, out, n_out, &err) == TD_OK ||
           td_batchable_no(s, "%.150s", err.msg);
}

static bool find(struct td_batchable_step *s, const char *attr, int i, int n_in, int n_out,
                 struct td_callable **out)
{
    struct td_err err = {0};
    const struct td_func_ref *ref = td_attr_func(s->node, attr, i);
    if (ref == NULL) {
        return td_batchable_no(s, "it has no function '%s'", attr);
    }
    return td_model_function(s->trace->work->model, ref->name, n_in, n_out, out, &err) == TD_OK ||
           td_batchable_no(s, "%.150s", err.msg);
}

/* Walks function i of attr with inputs [from, n_in) and joins its results into sum[n_out]. */
static bool join_call(struct td_batchable_step *s, const char *attr, int i, int from,
                      struct td_batchable_face *sum)
{
    struct td_callable *f;
    if (!find(s, attr, i, s->n_in - from, s->n_out, &f)) {
        return false;
    }
    struct td_batchable_face *in = faces_of_inputs(s, from),
                             *out = td_calloc((size_t)s->n_out + 1, sizeof *out);
    bool ok = in != NULL && out != NULL ? walk(s, f, in, s->n_in - from, out, s->n_out)
                                        : td_batchable_no(s, "no memory");
    for (int o = 0; ok && o < s->n_out; o++) {
        join(&sum[o], &out[o]);
    }
    faces_free(in, s->n_in - from);
    faces_free(out, s->n_out);
    return ok;
}

bool td_batchable_calls(struct td_batchable_step *s, struct td_batchable_choice c, int from)
{
    struct td_batchable_face *sum = td_calloc((size_t)s->n_out + 1, sizeof *sum);
    bool ok = sum != NULL || td_batchable_no(s, "no memory");
    for (int i = c.first; ok && i < c.last; i++) {
        ok =
            c.attr[1] != NULL ? join_call(s, c.attr[i], 0, from, sum) : join_call(s, c.attr[0], i, from, sum);
    }
    for (int o = 0; ok && o < s->n_out; o++) {
        put_output(s, o, &sum[o]);
    }
    faces_free(sum, s->n_out);
    return ok;
}

bool td_batchable_choose(struct td_batchable_step *s, struct td_batchable_choice *c)
{
    const struct td_tensor *t = td_batchable_known(s, 0, 0);
    if (s->in[0].kind == TD_VALUE_UNSET) {
        c->last = c->first; /* not yet: nothing comes out */
        return true;
    }
    if (s->in[0].kind != TD_VALUE_CONST) {
        return td_batchable_no(s, s->in[0].kind == TD_VALUE_SIZE
                                      ? "the number of rows decides which branch runs"
                                      : "the rows decide which branch runs");
    }
    if (t != NULL && t->shape.rank == 0 && td_dtype_in(t->dtype, TD_SET_INTS | TD_BIT(TD_BOOL))) {
        int64_t v = td_tensor_int(t, 0), most = c->last - 1;
        bool two = c->attr[1] != NULL;
        c->first = two ? v == 0 : (int)(v < 0 || v > most ? most : v);
        c->last = c->first + 1;
    }
    return true;
}

/* ------------------------------------------------------------------ loops */

/* Walks f from values[from[k]]; from NULL: from values themselves. */
static bool walk_picked(struct td_batchable_step *s, struct td_callable *f,
                        const struct td_batchable_face *values, const int *from, int n_in,
                        struct td_batchable_face *out, int n_out)
{
    struct td_batchable_face *in = td_calloc((size_t)n_in + 1, sizeof *in);
    if (in == NULL) {
        return td_batchable_no(s, "no memory");
    }
    for (int k = 0; k < n_in; k++) {
        in[k] = values[from == NULL ? k : from[k]]; /* borrowed for the walk */
    }
    bool ok = walk(s, f, in, n_in, out, n_out);
    td_free(in);
    return ok;
}

static bool go_round(struct td_batchable_step *s, const struct td_loop_parts *l,
                     struct td_batchable_face *values, bool *changed)
{
    struct td_batchable_face *next = td_calloc((size_t)l->n_vars + 1, sizeof *next);
    bool ok = next != NULL ? walk_picked(s, l->body, values, l->body_from, l->n_body_feeds, next, l->n_vars)
                           : td_batchable_no(s, "no memory");
    *changed = false;
    for (int i = 0; ok && i < l->n_vars; i++) {
        *changed |= join(&values[i], &next[i]);
    }
    faces_free(next, l->n_vars);
    return ok;
}

static bool ends_alike(struct td_batchable_step *s, const struct td_loop_parts *l,
                       const struct td_batchable_face *values)
{
    struct td_batchable_face cond = {0};
    bool ok = walk_picked(s, l->cond, values, l->cond_from, l->n_cond_feeds, &cond, 1);
    ok = ok && (cond.value.kind == TD_VALUE_CONST ||
                td_batchable_no(s, "how often it runs follows from the rows or their number"));
    td_batchable_face_clear(&cond, 1);
    return ok;
}

static bool loop(struct td_batchable_step *s, const struct td_loop_parts *l)
{
    struct td_batchable_face *values = faces_of_inputs(s, 0);
    bool ok = values != NULL || td_batchable_no(s, "no memory"), changed = true;
    for (int round = 0; ok && changed && s->trace->work->refused == NULL; round++) {
        ok = round < MAX_ROUNDS ? go_round(s, l, values, &changed)
                                : td_batchable_no(s, "its variables do not come to rest");
    }
    ok = ok && ends_alike(s, l, values);
    for (int o = 0; ok && o < s->n_out; o++) {
        put_output(s, o, &values[o]);
    }
    faces_free(values, s->n_in);
    return ok;
}

bool td_batchable_loop_of(struct td_batchable_step *s, const char *cond, const char *body)
{
    struct td_loop_parts l = {.n_vars = s->n_in, .n_cond_feeds = s->n_in, .n_body_feeds = s->n_in};
    return s->n_in == s->n_out && find(s, cond, 0, s->n_in, 1, &l.cond) &&
           find(s, body, 0, s->n_in, s->n_in, &l.body) && loop(s, &l);
}

bool td_batchable_lifted_loop(struct td_batchable_step *s)
{
    struct td_loop_parts l = td_loop_parts(s->node->loop);
    return loop(s, &l);
}
