/* core/batchable/batchable.c - walks a plan and keeps, for every value, where the rows of the batch are.
 *
 * The plan is walked at several numbers of rows at once: each has a layout walk (core/run/bound_plan.h) that
 * gives shapes and the values that follow from shapes. Beside them goes one place a value
 * (core/batchable/batchable_rule.h). A step whose outputs are known at every probe needs no rule: what is
 * equal everywhere is CONST, else SIZE. Nor does a pure step of CONST inputs. All others go by the rule of
 * their op, and without one the rows are MIX. An effect without a rule refuses the whole callable, since it
 * would happen once for several requests.
 *
 * Functions and loop bodies are walked in the same way, from the places of their arguments
 * (core/batchable/batchable_function.c). The work is bounded by a budget of steps and by depth, so that
 * nested loops of a hostile model end as "no".
 *
 * Threads: all state is the call's own; the callable's plan is immutable.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/function/callable_impl.h"
#include "core/batchable/batchable_function.h"
#include "core/batchable/batchable_fused.h"

enum { ARENA_BYTES = 64 << 20, MAX_STEPS = 200000, MAX_DEPTH = 32 };

/* Two primes tell a dimension of N from one of another size; 1 shows what squeezing and broadcasting make of
 * a single row; the large one passes the thresholds that graphs have, and is a multiple of what they ask a
 * number of rows to be a multiple of (2 to 6, 8, 10, 12, .. 128), which the primes are not. */
const int64_t td_batchable_probe[TD_BATCHABLE_PROBES] = {5, 7, 1, 1920};

/* ------------------------------------------------------------------ saying no */

bool td_batchable_no(struct td_batchable_step *s, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(s->why, sizeof s->why, fmt, args);
    va_end(args);
    return false;
}

static const char *reason(struct td_batchable_work *w, const struct td_node *n, const char *why)
{
    char text[512];
    snprintf(text, sizeof text, "%s: %s", TD_NODE_STR(n), why);
    const char *kept = td_arena_strdup(w->arena, text);
    return kept != NULL ? kept : "no memory for the reason";
}

static void refuse(struct td_batchable_work *w, const struct td_node *n, const char *why)
{
    if (w->refused == NULL) {
        w->refused = reason(w, n, why);
    }
}

/* ------------------------------------------------------------------ values known at all probes */

const struct td_tensor *td_batchable_known(const struct td_batchable_step *s, int i, int probe)
{
    const struct td_tensor *t = &s->layout[probe]->known[s->step->in[i]];
    bool deref = s->step->deref != NULL && s->step->deref[i];
    return deref || t->dtype == TD_DTYPE_NONE ? NULL : t;
}

static bool known_everywhere(const struct td_batchable_trace *t, int v)
{
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        if (t->layout[p]->known[v].dtype == TD_DTYPE_NONE) {
            return false;
        }
    }
    return true;
}

bool td_batchable_same_value(const struct td_tensor *a, const struct td_tensor *b)
{
    if (a->dtype != b->dtype || !td_shape_equal(&a->shape, &b->shape)) {
        return false;
    }
    return a->data == b->data || td_tensor_count(a) == 0 ||
           (!td_dtype_is_object(a->dtype) && memcmp(a->data, b->data, td_tensor_bytes(a)) == 0);
}

/* Element i of a known number, a lone one for every i; false when it is not one. */
static bool number_at(const struct td_tensor *t, int64_t count, int64_t i, double *out)
{
    const int64_t n = td_tensor_count(t), at = n == 1 ? 0 : i;
    if (n != 1 && n != count) {
        return false;
    }
    if (td_dtype_in(t->dtype, TD_SET_INTS)) {
        *out = (double)td_tensor_int(t, at);
        return true;
    }
    *out = t->dtype == TD_FLOAT ? TD_DATA(t, float)[at] : t->dtype == TD_DOUBLE ? TD_DATA(t, double)[at] : 0;
    return t->dtype == TD_FLOAT || t->dtype == TD_DOUBLE;
}

/* Two values with a difference of d at each probe are either equal for all N or unequal for all N: the
 * difference is the same everywhere, or grows evenly and is 0 for no N. */
static bool decided(const double d[TD_BATCHABLE_PROBES])
{
    const double slope = (d[1] - d[0]) / (double)(td_batchable_probe[1] - td_batchable_probe[0]);
    const double base = d[0] - slope * (double)td_batchable_probe[0];
    for (int p = 2; p < TD_BATCHABLE_PROBES; p++) {
        if (fabs(base + slope * (double)td_batchable_probe[p] - d[p]) > 1e-6) {
            return false;
        }
    }
    const double root = fabs(slope) < 1e-9 ? 0 : -base / slope, most = 1e12;
    return root < 0.5 || root > most || fabs(root - (double)(int64_t)(root + 0.5)) > 1e-6;
}

static bool always_compares_so(const struct td_batchable_trace *t, const struct td_step *s)
{
    const int a = s->in[0], b = s->in[1];
    if (t->value[a].kind == TD_VALUE_CONST && t->value[b].kind == TD_VALUE_CONST) {
        return true;
    }
    const int64_t n = td_tensor_count(&t->layout[0]->known[s->out0]);
    for (int64_t i = 0; i < n; i++) {
        double d[TD_BATCHABLE_PROBES], x, y;
        for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
            if (!number_at(&t->layout[p]->known[a], n, i, &x) ||
                !number_at(&t->layout[p]->known[b], n, i, &y)) {
                return false;
            }
            d[p] = x - y;
        }
        if (!decided(d)) {
            return false;
        }
    }
    return true;
}

/* Whether the value is known to be the same at all probes. */
static bool same_everywhere(const struct td_batchable_trace *t, int v)
{
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        const struct td_tensor *known = &t->layout[p]->known[v];
        if (known->dtype == TD_DTYPE_NONE || !td_batchable_same_value(&t->layout[0]->known[v], known)) {
            return false;
        }
    }
    return true;
}

/* Whether the step's known output, which is equal at all probes, is so for every N: "N = 4", "N % 4 = 2" and
 * "8 < N and N < 64" are false at each probe, and true between them. Such a value counts as SIZE, and so does
 * what follows from it. */
static bool always(const struct td_batchable_trace *t, const struct td_step *s)
{
    const char *op = s->node->op_name;
    const bool joins = strcmp(op, "LogicalAnd") == 0 || strcmp(op, "LogicalOr") == 0 ||
                       strcmp(op, "All") == 0 || strcmp(op, "Any") == 0;
    for (int i = 0; i < s->n_in; i++) {
        if (t->value[s->in[i]].kind == TD_VALUE_SIZE && (joins || same_everywhere(t, s->in[i]))) {
            return false;
        }
    }
    const bool compares = strcmp(op, "Equal") == 0 || strcmp(op, "NotEqual") == 0;
    return !compares || s->n_in != 2 || always_compares_so(t, s);
}

static bool place_known(struct td_batchable_trace *t, const struct td_step *s, int v)
{
    const bool same = same_everywhere(t, v) && always(t, s);
    bool same_shape = true;
    for (int p = 1; p < TD_BATCHABLE_PROBES; p++) {
        same_shape &= td_shape_equal(&t->layout[0]->known[v].shape, &t->layout[p]->known[v].shape);
    }
    t->value[v] = (struct td_batchable_value){.kind = same ? TD_VALUE_CONST : TD_VALUE_SIZE};
    return same_shape;
}

/* True when all outputs are known and need no rule: a known value whose shape grows with N may have rows all
 * the same. */
static bool follows_from_shapes(struct td_batchable_trace *t, const struct td_step *s)
{
    bool all = s->n_out > 0;
    for (int i = 0; i < s->n_out && all; i++) {
        all = known_everywhere(t, s->out0 + i) && place_known(t, s, s->out0 + i);
    }
    return all;
}

/* ------------------------------------------------------------------ one step */

static void fill_outputs(struct td_batchable_trace *t, const struct td_step *s,
                         struct td_batchable_value place)
{
    for (int i = 0; i < s->n_out; i++) {
        bool size = place.kind == TD_VALUE_MIX && known_everywhere(t, s->out0 + i);
        t->value[s->out0 + i] = size ? (struct td_batchable_value){.kind = TD_VALUE_SIZE} : place;
    }
}

static bool has_effect(const struct td_step *s)
{
    return ((s->flags & TD_OP_STATEFUL) && !(s->flags & TD_OP_HANDLE)) || (s->n_out == 0 && s->n_in > 0);
}

/* CONST when all are; else the first of UNSET and MIX among them; else ROW: a rule has to say. */
static struct td_batchable_value weigh_inputs(const struct td_batchable_step *s)
{
    struct td_batchable_value sum = {.kind = TD_VALUE_CONST};
    for (int i = 0; i < s->n_in; i++) {
        if (s->in[i].kind == TD_VALUE_UNSET || s->in[i].kind == TD_VALUE_MIX) {
            return s->in[i];
        }
        if (s->in[i].kind != TD_VALUE_CONST) {
            sum.kind = TD_VALUE_ROW;
        }
    }
    return sum;
}

static const struct td_batchable_rule *rule_of(const struct td_node *n)
{
    static const struct td_batchable_rule loop = {.rows = td_batchable_lifted_loop, .any_input = true};
    static const struct td_batchable_rule fused = {.rows = td_batchable_fused};
    return n->op == NULL      ? NULL
           : n->loop != NULL  ? &loop
           : n->fused != NULL ? &fused
                              : td_batchable_rule_of(n->op);
}

static void judge(struct td_batchable_trace *t, struct td_batchable_step *s)
{
    const struct td_batchable_rule *rule = rule_of(s->node);
    struct td_batchable_value sum = weigh_inputs(s);
    if (rule == NULL && has_effect(s->step)) {
        refuse(t->work, s->node,
               "it has an effect or a state of its own, which requests in one batch would share");
    }
    if ((rule == NULL || !rule->any_input) && sum.kind != TD_VALUE_ROW) {
        if (sum.kind == TD_VALUE_MIX && has_effect(s->step) && t->work->refused == NULL) {
            t->work->refused = sum.why;
        }
        fill_outputs(t, s->step, sum);
        return;
    }
    snprintf(s->why, sizeof s->why, "it is not known to keep rows apart");
    if (rule == NULL || !rule->rows(s)) {
        if (s->refuse || has_effect(s->step)) {
            refuse(t->work, s->node, s->why);
        }
        fill_outputs(
            t, s->step,
            (struct td_batchable_value){.kind = TD_VALUE_MIX, .why = reason(t->work, s->node, s->why)});
    }
}

static void walk_step(struct td_batchable_trace *t, int k)
{
    const struct td_step *step = &t->plan->steps[k];
    struct td_batchable_step s = {.trace = t,
                                  .step = step,
                                  .node = step->node,
                                  .n_in = step->n_in,
                                  .n_out = step->n_out,
                                  .in = t->in,
                                  .out = t->value + step->out0};
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        s.in_shape[p] = td_bound_walk_step(t->walk[p], k);
        s.layout[p] = t->layout[p];
    }
    for (int i = 0; i < step->n_in; i++) {
        t->in[i] = t->value[step->in[i]];
    }
    if (!follows_from_shapes(t, step)) {
        for (int i = 0; i < step->n_out; i++) {
            s.out[i] = (struct td_batchable_value){0};
        }
        judge(t, &s);
    }
}

/* ------------------------------------------------------------------ one callable */

static enum td_code open_walks(struct td_batchable_trace *t, const struct td_batchable_face *in, int n_in,
                               struct td_err *err)
{
    struct td_shape *feeds = td_calloc((size_t)n_in + 1, sizeof *feeds);
    enum td_code rc = feeds == NULL ? td_no_memory(err, sizeof *feeds, "batch analysis") : TD_OK;
    for (int p = 0; p < TD_BATCHABLE_PROBES && rc == TD_OK; p++) {
        for (int i = 0; i < n_in; i++) {
            feeds[i] = in[i].shape[p];
        }
        rc = td_bound_walk_new(t->plan, feeds, &t->walk[p], err);
        if (rc == TD_OK) {
            t->layout[p] = td_bound_walk_plan(t->walk[p]);
            for (int i = 0; i < n_in; i++) {
                if (in[i].known[p].dtype != TD_DTYPE_NONE) {
                    td_tensor_ref(&t->layout[p]->known[i], &in[i].known[p]);
                }
            }
        }
    }
    td_free(feeds);
    return rc;
}

static void fetch(const struct td_batchable_trace *t, struct td_batchable_face *out)
{
    for (int i = 0; i < t->plan->n_fetches; i++) {
        int v = t->plan->fetches[i];
        out[i].value = t->value[v];
        for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
            out[i].shape[p] = t->layout[p]->shape[v];
            if (t->layout[p]->known[v].dtype != TD_DTYPE_NONE) {
                td_tensor_ref(&out[i].known[p], &t->layout[p]->known[v]);
            }
        }
    }
}

void td_batchable_face_clear(struct td_batchable_face *face, int n)
{
    for (int i = 0; i < n; i++) {
        for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
            td_tensor_clear(&face[i].known[p]);
        }
        face[i] = (struct td_batchable_face){0};
    }
}

static enum td_code walk_plan(struct td_batchable_trace *t, const struct td_batchable_face *in,
                              struct td_batchable_face *out, struct td_err *err)
{
    size_t n = (size_t)t->plan->n_values + 1;
    t->value = td_calloc(n, sizeof *t->value);
    t->in = td_calloc((size_t)t->plan->max_in + 1, sizeof *t->in);
    if (t->value == NULL || t->in == NULL) {
        return td_no_memory(err, n * sizeof *t->value, "batch analysis");
    }
    TD_TRY(open_walks(t, in, t->plan->n_feeds, err));
    for (int i = 0; i < t->plan->n_feeds; i++) {
        t->value[i] = in[i].value;
    }
    for (int i = 0; i < t->plan->n_consts; i++) {
        t->value[t->plan->first_const + i].kind = TD_VALUE_CONST;
    }
    for (int k = 0; k < t->plan->n_steps && t->work->refused == NULL; k++) {
        walk_step(t, k);
    }
    fetch(t, out);
    return TD_OK;
}

struct td_shape *td_batchable_shapes(struct td_batchable_step *s)
{
    return td_arena_alloc(s->trace->work->arena, TD_BATCHABLE_PROBES, sizeof(struct td_shape));
}

enum td_code td_batchable_walk(struct td_batchable_work *w, struct td_callable *f,
                               const struct td_batchable_face *in, int n_in, struct td_batchable_face *out,
                               int n_out, struct td_err *err)
{
    struct td_batchable_trace t = {.work = w};
    TD_TRY(td_callable_plan(f, &t.plan, err));
    TD_FAIL_IF(t.plan->n_feeds != n_in || t.plan->n_fetches != n_out, err, INVALID_ARGUMENT,
               "a function of %d arguments and %d results is called with %d and %d", t.plan->n_feeds,
               t.plan->n_fetches, n_in, n_out);
    w->steps_left -= t.plan->n_steps + 1;
    if (w->depth >= MAX_DEPTH || w->steps_left < 0) {
        w->refused =
            w->refused != NULL ? w->refused : "its functions and loops are nested too deep to be judged";
        return TD_OK;
    }
    w->depth++;
    enum td_code rc = walk_plan(&t, in, out, err);
    w->depth--;
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        td_bound_walk_free(t.walk[p]);
    }
    td_free(t.value);
    td_free(t.in);
    return rc;
}

/* ------------------------------------------------------------------ the verdict */

/* A feed whose leading dimension is the number of rows. */
static bool feed_face(const struct td_shape *in, struct td_batchable_face *face)
{
    face->value = (struct td_batchable_value){.kind = TD_VALUE_ROW, .pre = 1};
    for (int d = 1; d < in->rank; d++) {
        if (in->dim[d] < 0) {
            return false;
        }
    }
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        face->shape[p] = *in;
        face->shape[p].dim[0] = td_batchable_probe[p];
    }
    return in->rank > 0;
}

static void judge_fetch(const struct td_batchable_face *f, int i, struct td_batchable *out)
{
    switch (f->value.kind) {
    case TD_VALUE_MIX:
        snprintf(out->why, sizeof out->why, "%s", f->value.why);
        break;
    case TD_VALUE_ROW:
        out->rowwise = f->value.axis == 0 && f->value.pre == 1 && f->shape[0].dim[0] == td_batchable_probe[0];
        if (!out->rowwise) {
            snprintf(out->why, sizeof out->why,
                     "output %d has shape %.150s for %lld rows, not one leading entry a row", i,
                     TD_SHAPE_STR(&f->shape[0]), (long long)td_batchable_probe[0]);
        }
        break;
    default:
        snprintf(out->why, sizeof out->why, "output %d of shape %.150s does not have the rows of the inputs",
                 i, TD_SHAPE_STR(&f->shape[0]));
    }
}

static enum td_code judge_callable(struct td_batchable_work *w, struct td_callable *f,
                                   const struct td_batchable_face *in, int n_in, struct td_batchable *out,
                                   struct td_err *err)
{
    const struct td_plan *plan;
    TD_TRY(td_callable_plan(f, &plan, err));
    struct td_batchable_face *result = td_calloc((size_t)plan->n_fetches + 1, sizeof *result);
    if (result == NULL) {
        return td_no_memory(err, sizeof *result, "batch analysis");
    }
    enum td_code rc = td_batchable_walk(w, f, in, n_in, result, plan->n_fetches, err);
    out->rowwise = rc == TD_OK && w->refused == NULL && plan->n_fetches > 0;
    snprintf(out->why, sizeof out->why, "%s",
             w->refused != NULL     ? w->refused
             : plan->n_fetches == 0 ? "it has no outputs"
                                    : "");
    for (int i = 0; i < plan->n_fetches && out->rowwise; i++) {
        out->rowwise = false;
        judge_fetch(&result[i], i, out);
    }
    td_batchable_face_clear(result, plan->n_fetches);
    td_free(result);
    return rc;
}

enum td_code td_batchable_prove(struct td_callable *f, const struct td_shape *in, int n_in,
                                struct td_batchable *out, struct td_err *err)
{
    *out = (struct td_batchable){0};
    struct td_batchable_work w = {
        .model = td_callable_model(f), .steps_left = MAX_STEPS, .arena = td_arena_new(ARENA_BYTES)};
    struct td_batchable_face *faces = td_calloc((size_t)n_in + 1, sizeof *faces);
    enum td_code rc =
        faces == NULL || w.arena == NULL ? td_no_memory(err, sizeof *faces, "batch analysis") : TD_OK;
    bool feeds = n_in > 0;
    if (!feeds) {
        snprintf(out->why, sizeof out->why, "it has no inputs");
    }
    for (int i = 0; rc == TD_OK && feeds && i < n_in; i++) {
        feeds = feed_face(&in[i], &faces[i]);
        if (!feeds) {
            snprintf(out->why, sizeof out->why, "input %d of shape %s has no rows", i, TD_SHAPE_STR(&in[i]));
        }
    }
    if (rc == TD_OK && feeds) {
        rc = judge_callable(&w, f, faces, n_in, out, err);
    }
    td_free(faces);
    td_arena_free(w.arena);
    return rc;
}
