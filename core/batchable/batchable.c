/* core/batchable/batchable.c - walks a plan and says of every value where the rows of the batch are in it.
 *
 * The plan is walked at four numbers of rows at once: each has a bound plan (core/run/bound_plan.h) that
 * gives shapes and the values that follow from shapes. Beside them goes what is said of each value
 * (core/batchable/batchable_rule.h). A pure step of CONST inputs gives CONST; numbers of N go by the `sizes`
 * of the op's rule; all else goes by its `rows`, and without a rule the rows are MIX. An effect without a
 * rule refuses the whole callable, since it would happen once for several requests.
 *
 * The range of N becomes smaller as questions are asked. When it leaves a probe out, what the walk has seen
 * there is of no use: the walk is given up, and another begins with probes in the smaller range.
 *
 * Functions and loop bodies are walked in the same way, from what is said of their arguments
 * (core/batchable/batchable_function.c). The work is bounded by a budget of steps, by depth and by the number
 * of walks, so that nested loops of a hostile model end as "no".
 *
 * Threads: all state is the call's own; the callable's plan is immutable.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/check.h"
#include "core/base/mem.h"
#include "core/batchable/batchable_fused.h"
#include "core/batchable/batchable_impl.h"
#include "core/function/callable_impl.h"

enum { ARENA_BYTES = 64 << 20, MAX_STEPS = 200000, MAX_DEPTH = 32, MAX_WALKS = 16 };

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
    const struct td_tensor *t = &s->bound[probe]->known[s->step->in[i]];
    bool deref = s->step->deref != NULL && s->step->deref[i];
    return deref || t->dtype == TD_DTYPE_NONE ? NULL : t;
}

bool td_batchable_same_value(const struct td_tensor *a, const struct td_tensor *b)
{
    if (a->dtype != b->dtype || !td_shape_equal(&a->shape, &b->shape)) {
        return false;
    }
    return a->data == b->data || td_tensor_count(a) == 0 ||
           (!td_dtype_is_object(a->dtype) && memcmp(a->data, b->data, td_tensor_bytes(a)) == 0);
}

/* ------------------------------------------------------------------ one step */

static void fill_outputs(struct td_batchable_step *s, struct td_batchable_value value)
{
    for (int i = 0; i < s->n_out; i++) {
        s->out[i] = value;
    }
}

static bool has_effect(const struct td_step *s)
{
    return ((s->flags & TD_OP_STATEFUL) && !(s->flags & TD_OP_HANDLE)) || (s->n_out == 0 && s->n_in > 0);
}

/* CONST when all are, SIZE when no other is among them; else the first of UNSET and MIX; else ROW. */
static struct td_batchable_value weigh_inputs(const struct td_batchable_step *s)
{
    struct td_batchable_value sum = {.kind = TD_VALUE_CONST};
    for (int i = 0; i < s->n_in; i++) {
        const enum td_batchable_kind kind = s->in[i].kind;
        if (kind == TD_VALUE_UNSET || kind == TD_VALUE_MIX) {
            return s->in[i];
        }
        if (kind != TD_VALUE_CONST && sum.kind != TD_VALUE_ROW) {
            sum.kind = kind == TD_VALUE_SIZE ? TD_VALUE_SIZE : TD_VALUE_ROW;
        }
    }
    return sum;
}

static const struct td_batchable_rule *rule_of(const struct td_node *n)
{
    static const struct td_batchable_rule loop = {.rows = td_batchable_lifted_loop, .any_input = true};
    static const struct td_batchable_rule fused = {.rows = td_batchable_fused};
    return n->op == NULL                                 ? NULL
           : n->loop != NULL && n->op->batchable == NULL ? &loop
           : n->fused != NULL                            ? &fused
                                                         : td_batchable_rule_of(n->op);
}

/* What made a number of N one that is not followed: the first of the inputs that was not, or this step. */
static const char *blame(struct td_batchable_step *s)
{
    for (int i = 0; i < s->n_in; i++) {
        if (s->in[i].kind == TD_VALUE_SIZE && s->in[i].why != NULL) {
            return s->in[i].why;
        }
    }
    return reason(s->trace->work, s->node, s->why);
}

/* No rule has placed the outputs: of numbers of N alone they are numbers of N alone; else rows may mix. */
static void give_up(struct td_batchable_step *s, enum td_batchable_kind inputs)
{
    const bool effect = has_effect(s->step), size = inputs == TD_VALUE_SIZE && !effect;
    if (s->refuse || effect) {
        refuse(s->trace->work, s->node, s->why);
    }
    fill_outputs(s, size ? (struct td_batchable_value){.kind = TD_VALUE_SIZE, .why = blame(s)}
                         : (struct td_batchable_value){.kind = TD_VALUE_MIX,
                                                       .why = reason(s->trace->work, s->node, s->why)});
}

static void judge(struct td_batchable_step *s)
{
    struct td_batchable_work *w = s->trace->work;
    const struct td_batchable_rule *rule = rule_of(s->node);
    const struct td_batchable_value sum = weigh_inputs(s);
    if (rule == NULL && has_effect(s->step)) {
        refuse(w, s->node, "it has an effect or a state of its own, which requests in one batch would share");
    }
    if ((rule == NULL || !rule->any_input) && sum.kind != TD_VALUE_ROW && sum.kind != TD_VALUE_SIZE) {
        if (sum.kind == TD_VALUE_MIX && has_effect(s->step) && w->refused == NULL) {
            w->refused = sum.why;
        }
        fill_outputs(s, sum);
        return;
    }
    if (rule != NULL && sum.kind == TD_VALUE_SIZE && rule->sizes != NULL && rule->sizes(s)) {
        return;
    }
    snprintf(s->why, sizeof s->why, "it is not known to keep rows apart");
    if (rule == NULL || !rule->rows(s)) {
        give_up(s, sum.kind);
    }
}

/* The probes bear the outputs out, and lie where the claim is made. */
static void check_outputs(struct td_batchable_step *s)
{
    struct td_batchable_work *w = s->trace->work;
    for (int p = 0; p < TD_BATCHABLE_PROBES && w->refused == NULL; p++) {
        if (w->probe[p] < w->range.lo || w->probe[p] > w->range.hi) {
            refuse(w, s->node, "the numbers of rows it was looked at with are not those it is for");
            w->again = true;
        }
    }
    for (int i = 0; i < s->n_out && !w->again; i++) {
        TD_HOLDS(td_batchable_check, s, i);
        if (!td_batchable_agrees(s, i)) {
            refuse(w, s->node, "its numbers are not what they were taken to be");
        }
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
        s.bound[p] = t->bound[p];
    }
    for (int i = 0; i < step->n_in; i++) {
        t->in[i] = t->value[step->in[i]];
    }
    fill_outputs(&s, (struct td_batchable_value){0});
    judge(&s);
    check_outputs(&s);
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
            t->bound[p] = td_bound_walk_plan(t->walk[p]);
            for (int i = 0; i < n_in; i++) {
                if (in[i].known[p].dtype != TD_DTYPE_NONE) {
                    td_tensor_ref(&t->bound[p]->known[i], &in[i].known[p]);
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
            out[i].shape[p] = t->bound[p]->shape[v];
            if (t->bound[p]->known[v].dtype != TD_DTYPE_NONE) {
                td_tensor_ref(&out[i].known[p], &t->bound[p]->known[v]);
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
static bool feed_face(const struct td_batchable_work *w, const struct td_shape *in,
                      struct td_batchable_face *face)
{
    *face = (struct td_batchable_face){.value = {.kind = TD_VALUE_ROW, .pre = 1}};
    for (int d = 1; d < in->rank; d++) {
        if (in->dim[d] < 0) {
            return false;
        }
    }
    for (int p = 0; p < TD_BATCHABLE_PROBES; p++) {
        face->shape[p] = *in;
        face->shape[p].dim[0] = w->probe[p];
    }
    return in->rank > 0;
}

static void judge_fetch(const struct td_batchable_work *w, const struct td_batchable_face *f, int i,
                        struct td_batchable *out)
{
    switch (f->value.kind) {
    case TD_VALUE_MIX:
        snprintf(out->why, sizeof out->why, "%s", f->value.why);
        break;
    case TD_VALUE_ROW:
        out->rowwise = f->value.axis == 0 && f->value.pre == 1 && f->shape[0].dim[0] == w->probe[0];
        if (!out->rowwise) {
            snprintf(out->why, sizeof out->why,
                     "output %d has shape %.150s for %lld rows, not one leading entry a row", i,
                     TD_SHAPE_STR(&f->shape[0]), (long long)w->probe[0]);
        }
        break;
    default:
        snprintf(out->why, sizeof out->why,
                 "output %d of shape %.100s does not have the rows of the inputs%s%.100s", i,
                 TD_SHAPE_STR(&f->shape[0]), f->value.why != NULL ? "; " : "",
                 f->value.why != NULL ? f->value.why : "");
    }
}

static void judge_fetches(const struct td_batchable_work *w, const struct td_batchable_face *result, int n,
                          struct td_batchable *out)
{
    *out = (struct td_batchable){.min_rows = w->range.lo, .max_rows = w->range.hi};
    if (w->range.hi / 2 < w->range.lo) {
        snprintf(out->why, sizeof out->why, "what it does changes from one number of rows to the next");
        return;
    }
    snprintf(out->why, sizeof out->why, "%s",
             w->refused != NULL ? w->refused
             : n == 0           ? "it has no outputs"
                                : "");
    out->rowwise = w->refused == NULL && n > 0;
    for (int i = 0; i < n && out->rowwise; i++) {
        out->rowwise = false;
        judge_fetch(w, &result[i], i, out);
    }
}

/* One walk, at probes of the range. */
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
    if (rc == TD_OK) {
        judge_fetches(w, result, plan->n_fetches, out);
    }
    td_batchable_face_clear(result, plan->n_fetches);
    td_free(result);
    return rc;
}

/* Four numbers of the range, or fewer where it has no more; the usual ones where they lie in it. Two primes
 * tell a dimension of N from one of another size; 1 shows what becomes of a single row; the large one is a
 * multiple of what graphs ask a number of rows to be a multiple of. */
static void choose_probes(struct td_batchable_work *w)
{
    const int64_t lo = w->range.lo, hi = w->range.hi, mid = lo + (hi - lo) / 2;
    const int64_t wanted[] = {5, 7, 1, 1920, lo + 1, lo, hi, mid, lo + 2};
    int n = 0;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0] && n < TD_BATCHABLE_PROBES; i++) {
        bool is_new = wanted[i] >= lo && wanted[i] <= hi;
        for (int k = 0; k < n; k++) {
            is_new = is_new && w->probe[k] != wanted[i];
        }
        w->probe[n] = is_new ? wanted[i] : w->probe[n];
        n += is_new;
    }
    for (; n < TD_BATCHABLE_PROBES; n++) {
        w->probe[n] = w->probe[n - 1];
    }
}

/* Walks until the probes of a walk lie in the range that it ends with. */
static enum td_code prove_in_range(struct td_batchable_work *w, struct td_callable *f,
                                   const struct td_shape *in, int n_in, struct td_batchable *out,
                                   struct td_err *err)
{
    struct td_batchable_face *faces = td_calloc((size_t)n_in + 1, sizeof *faces);
    enum td_code rc = faces == NULL ? td_no_memory(err, sizeof *faces, "batch analysis") : TD_OK;
    bool ends = rc != TD_OK;
    for (int walks = 0; !ends; walks++) {
        choose_probes(w);
        w->refused = walks < MAX_WALKS ? NULL : "it asks too much of the number of rows";
        w->again = false;
        w->depth = 0;
        for (int i = 0; i < n_in && !ends; i++) {
            ends = !feed_face(w, &in[i], &faces[i]);
            if (ends) {
                snprintf(out->why, sizeof out->why, "input %d of shape %s has no rows", i,
                         TD_SHAPE_STR(&in[i]));
            }
        }
        rc = ends ? TD_OK : judge_callable(w, f, faces, n_in, out, err);
        ends = ends || rc != TD_OK || !w->again || w->range.hi / 2 < w->range.lo;
    }
    td_free(faces);
    return rc;
}

enum td_code td_batchable_prove(struct td_callable *f, const struct td_shape *in, int n_in,
                                struct td_batchable *out, struct td_err *err)
{
    *out = (struct td_batchable){0};
    struct td_batchable_work w = {.model = td_callable_model(f),
                                  .range = {1, TD_MOST_ROWS},
                                  .steps_left = MAX_STEPS,
                                  .arena = td_arena_new(ARENA_BYTES)};
    if (w.arena == NULL) {
        return td_no_memory(err, ARENA_BYTES, "batch analysis");
    }
    enum td_code rc = TD_OK;
    if (n_in > 0) {
        rc = prove_in_range(&w, f, in, n_in, out, err);
    } else {
        snprintf(out->why, sizeof out->why, "it has no inputs");
    }
    td_arena_free(w.arena);
    return rc;
}
