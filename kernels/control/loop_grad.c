/* kernels/control/loop_grad.c - a loop runs backwards as another loop, over what it kept of each round.
 *
 *   v = While(v; cond, body)    becomes
 *
 *   v, n, kept.. = While(v, 0, []..; cond, body')        body': also counts rounds, pushes on the lists
 *   dv = StatelessWhile(n, dv, kept.., lasting..; n > 0, back)
 *                                                        back:  pops, then one round's gradient; n - 1
 *
 * Variables that the body returns as they are last: weights, handles, inputs that every round reads. The
 * backward loop is given them as they are, and sums up their gradients. Of the other variables those carry a
 * gradient from round to round that core/grad/reach.h says; one to which nothing leads in a round is zero
 * before it.
 *
 * A list is pushed on in place, since nobody else holds it. What is kept is bytes of the round's own, so that
 * keeping costs no copy.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/loop_grad.h"

#include <string.h>

#include "core/grad/reach.h"
#include "kernels/control/branch_grad.h"
#include "kernels/control/switch_grad.h"
#include "kernels/formula/formula.h"

struct loop {
    struct td_grad *g;
    struct td_grad_context *ctx;
    struct td_arena *arena;
    struct td_err *err;
    const char *cond, *body; /* their functions */
    struct td_ir ir;         /* of the body */
    int n;                   /* variables */
    bool *lasting, *state;   /* by variable */
    /* by variable: the gradient behind a round, fed; that before it (of a lasting one: what the round adds to
     * it); no node: none */
    struct td_value *seed, *back;
    struct td_value *start; /* by variable: what `seed` is behind the last round */
    struct td_grad_kept kept;
    struct td_handed handed; /* what is kept, and which of it was alive */
    int n_state;             /* that the backward loop has */
};

static void *room(struct loop *x, int n, size_t size)
{
    void *p = td_arena_alloc(x->arena, (size_t)n + 1, size);
    if (p == NULL && x->g->e->rc == TD_OK) {
        x->g->e->rc = td_no_memory(x->err, (size_t)n * size, "the gradient of a loop");
    }
    return p;
}

static bool fine(struct loop *x, enum td_code rc)
{
    x->g->e->rc = x->g->e->rc ? x->g->e->rc : rc;
    return x->g->e->rc == TD_OK;
}

static struct td_emitter emit_into(struct loop *x, struct td_ir *ir)
{
    struct td_emitter e = td_grad_emitter(x->ctx, ir, NULL, x->err);
    e.at = x->g->node;
    return e;
}

static struct td_value feed_of(const struct loop *x, int i)
{
    return (struct td_value){x->ir.feeds[i], 0};
}

/* ------------------------------------------------------------------ which variables */

static bool is_feed(const struct loop *x, int i)
{
    return x->ir.fetches[i].node == x->ir.feeds[i];
}

static void choose(struct loop *x)
{
    bool *wanted = room(x, x->n, sizeof *wanted), *arrived = room(x, x->n, sizeof *arrived);
    for (int i = 0; x->g->e->rc == TD_OK && i < x->n; i++) {
        wanted[i] = td_grad_wants(x->g, i);
        arrived[i] = td_grad_arrived(x->g, i);
        x->lasting[i] = is_feed(x, i);
    }
    if (x->g->e->rc || !fine(x, td_grad_loop_state(&x->ir, wanted, arrived, x->state, x->err))) {
        return;
    }
    for (int i = 0; i < x->n; i++) {
        if (x->state[i] && !x->lasting[i] && x->g->node->out_type[i] == TD_RESOURCE) {
            td_emit_fail(x->g->e, TD_UNIMPLEMENTED,
                         "no gradient for %s: its variable %d is a resource that changes from round to round",
                         TD_NODE_STR(x->g->node), i);
            return;
        }
    }
}

/* ------------------------------------------------------------------ one round, differentiated */

/* Gradients behind the loop, and feeds for those behind a round. */
static void seed(struct loop *x)
{
    struct td_emitter e = emit_into(x, &x->ir);
    for (int i = 0; i < x->n && x->g->e->rc == TD_OK; i++) {
        if (!x->state[i]) {
            continue;
        }
        const struct td_value out = {x->g->node, i};
        const bool arrived = td_grad_arrived(x->g, i);
        if (arrived) {
            x->start[i] = td_grad_at(x->g, i);
        } else if (td_dtype_of(out) != TD_RESOURCE) {
            x->start[i] = td_control_zeros(x->g->e, out, td_dtype_of(out));
        }
        if (!x->lasting[i]) {
            x->seed[i] = td_grad_feed(&e, "gradient", td_dtype_of(x->start[i]));
        }
    }
    fine(x, td_emit_close(&e));
}

/* What the round adds to a lasting variable's gradient, summed with what later rounds added. */
static void add_up(struct loop *x, struct td_emitter *e, int i)
{
    if (x->back[i].node == NULL) {
        return;
    }
    const enum td_dtype dtype = td_dtype_of(x->back[i]);
    if (x->start[i].node == NULL) { /* a handle's: now its dtype is known */
        x->start[i] = td_control_zeros(x->g->e, td_grad_in(x->g, i), dtype);
    }
    x->seed[i] = td_grad_feed(e, "gradient", dtype);
    x->back[i] = x->ctx->formulas->add_n(e, (struct td_value[]){x->seed[i], x->back[i]}, 2);
}

static void differentiate(struct loop *x)
{
    struct td_value *targets = room(x, x->n, sizeof *targets), *seeds = room(x, x->n, sizeof *seeds),
                    *sources = room(x, x->n, sizeof *sources);
    struct td_grad_value *found = room(x, x->n, sizeof *found);
    struct td_grad_query q = {.targets = targets, .seeds = seeds, .sources = sources};
    if (x->g->e->rc) {
        return;
    }
    for (int i = 0; i < x->n; i++) {
        if (x->state[i]) {
            sources[q.n_sources++] = feed_of(x, i);
        }
        if (x->state[i] && !x->lasting[i]) {
            seeds[q.n_targets] = x->seed[i];
            targets[q.n_targets++] = x->ir.fetches[i];
        }
    }
    if (!fine(x, td_grad_backward(x->ctx, &x->ir, &q, found, x->err))) {
        return;
    }
    struct td_emitter e = emit_into(x, &x->ir);
    for (int i = 0, s = 0; i < x->n; i++) {
        if (!x->state[i]) {
            continue;
        }
        x->back[i] = td_grad_dense(x->ctx, &e, &found[s++]);
        if (x->lasting[i]) {
            add_up(x, &e, i);
        } else if (x->back[i].node == NULL) {
            x->back[i] = td_control_zeros(&e, feed_of(x, i), td_dtype_of(x->seed[i]));
        }
        x->n_state += x->seed[i].node != NULL;
    }
    fine(x, td_emit_close(&e));
}

static void split(struct loop *x)
{
    struct td_value *seeds = room(x, x->n, sizeof *seeds);
    struct td_grad_cut cut = {.seeds = seeds,
                              .results = x->back,
                              .n_results = x->n,
                              .lasting = x->lasting,
                              .recompute = x->ctx->recompute};
    for (int i = 0; x->g->e->rc == TD_OK && i < x->n; i++) {
        if (x->seed[i].node != NULL) {
            seeds[cut.n_seeds++] = x->seed[i];
        }
    }
    if (x->g->e->rc || !fine(x, td_grad_split(x->ctx, &x->ir, &cut, &x->kept, x->err))) {
        return;
    }
    struct td_emitter e = emit_into(x, &x->ir);
    td_handed_out(&e, &x->ir, &x->kept, &x->handed);
    fine(x, td_emit_close(&e));
    for (int i = 0; i < x->kept.n_values; i++) {
        if (td_dtype_of(x->kept.values[i]) == TD_RESOURCE) {
            td_emit_fail(
                x->g->e, TD_UNIMPLEMENTED,
                "no gradient for %s: the backward loop would need the resource that %s makes in each "
                "round",
                TD_NODE_STR(x->g->node), TD_NODE_STR(x->kept.values[i].node));
        }
    }
}

/* ------------------------------------------------------------------ the forward loop */

static const char *freeze(struct loop *x, struct td_ir *ir, const struct td_grad_part *part)
{
    const char *name = "";
    if (x->g->e->rc == TD_OK) {
        fine(x, td_grad_freeze(x->ctx, ir, part, &name, x->err));
    }
    return name;
}

/* The condition, of a loop with so many further variables. */
static const char *make_cond(struct loop *x)
{
    const int more = 1 + x->handed.n;
    struct td_ir ir;
    struct td_value *args = room(x, x->n + more, sizeof *args);
    if (x->g->e->rc || !fine(x, td_grad_open(x->ctx, x->arena, x->cond, &ir, x->err))) {
        return "";
    }
    struct td_emitter e = emit_into(x, &ir);
    for (int i = 0; i < x->n + more; i++) {
        args[i] = i < x->n    ? (struct td_value){ir.feeds[i], 0}
                  : i == x->n ? td_grad_feed(&e, "round", TD_INT32)
                              : td_grad_feed(&e, "kept", TD_VARIANT);
    }
    fine(x, td_emit_close(&e));
    return freeze(x, &ir,
                  &(struct td_grad_part){.of = x->cond,
                                         .args = args,
                                         .n_args = x->n + more,
                                         .rets = ir.fetches,
                                         .n_rets = 1,
                                         .roots = ir.roots,
                                         .n_roots = ir.n_roots});
}

static const char *make_body(struct loop *x)
{
    const int n = x->n + 1 + x->handed.n;
    struct td_value *args = room(x, n, sizeof *args), *rets = room(x, n, sizeof *rets);
    if (x->g->e->rc) {
        return "";
    }
    struct td_emitter e = emit_into(x, &x->ir);
    for (int i = 0; i < x->n; i++) {
        args[i] = feed_of(x, i);
        rets[i] = x->ir.fetches[i];
    }
    args[x->n] = td_grad_feed(&e, "round", TD_INT32);
    rets[x->n] = td_f_add(&e, args[x->n], td_f_int(&e, 1));
    for (int i = 0; i < x->handed.n; i++) {
        const int at = x->n + 1 + i;
        args[at] = td_grad_feed(&e, "kept", TD_VARIANT);
        rets[at] = td_f_2(&e, "TensorListPushBack", args[at], x->handed.out[i]);
    }
    fine(x, td_emit_close(&e));
    return freeze(x, &x->ir,
                  &(struct td_grad_part){.of = x->body,
                                         .args = args,
                                         .n_args = n,
                                         .rets = rets,
                                         .n_rets = n,
                                         .roots = x->ir.roots,
                                         .n_roots = x->ir.n_roots});
}

static int list_attrs(struct loop *x, const char *cond, const char *body, struct td_attr *attrs)
{
    struct td_func_ref *f = room(x, 2, sizeof *f);
    if (f != NULL) {
        f[0].name = cond;
        f[1].name = body;
    }
    attrs[0] = (struct td_attr){.name = "cond", .kind = TD_ATTR_FUNC, .n = 1, .func = f};
    attrs[1] = (struct td_attr){.name = "body", .kind = TD_ATTR_FUNC, .n = 1, .func = f + 1};
    return 2;
}

static void emit_forward(struct loop *x)
{
    struct td_node *n = x->g->node;
    struct td_emitter *e = x->g->e;
    struct td_attr attrs[2];
    const char *cond = make_cond(x), *body = make_body(x);
    struct td_value *in = room(x, x->n + 1 + x->handed.n, sizeof *in);
    int n_in = 0;
    if (e->rc) {
        return;
    }
    for (int i = 0; i < x->n; i++) {
        in[n_in++] = n->in[i];
    }
    in[n_in++] = td_f_int(e, 0);
    for (int i = 0; i < x->handed.n; i++) {
        in[n_in++] = td_emit(e, "EmptyTensorList", TD_IN(td_f_int(e, -1), td_f_int(e, -1)),
                             TD_ATTRS(TD_ATTR_OF_TYPE("element_dtype", td_dtype_of(x->handed.out[i]))));
    }
    td_emit_again(e, n, n->def, in, n_in, attrs, list_attrs(x, cond, body, attrs));
}

/* ------------------------------------------------------------------ the backward loop
 *
 * Variables: rounds left, gradients, lists, lasting ones. */

static int n_back(const struct loop *x)
{
    return 1 + x->n_state + x->handed.n + x->kept.n_feeds;
}

/* Feeds for them in an IR of its own. */
static void feed_back(struct loop *x, struct td_emitter *e, struct td_value *args)
{
    int n = 0;
    args[n++] = td_grad_feed(e, "rounds", TD_INT32);
    for (int i = 0; i < x->n; i++) {
        if (x->seed[i].node != NULL) {
            args[n++] = td_grad_feed(e, "gradient", td_dtype_of(x->seed[i]));
        }
    }
    for (int i = 0; i < x->handed.n; i++) {
        args[n++] = td_grad_feed(e, "kept", TD_VARIANT);
    }
    for (int i = 0; i < x->kept.n_feeds; i++) {
        args[n++] = td_grad_feed(e, "lasting", td_dtype_of(feed_of(x, x->kept.feeds[i])));
    }
}

static const char *make_back_cond(struct loop *x)
{
    struct td_ir ir = {.arena = x->arena};
    struct td_emitter e = emit_into(x, &ir);
    struct td_value *args = room(x, n_back(x), sizeof *args);
    if (x->g->e->rc) {
        return "";
    }
    feed_back(x, &e, args);
    const struct td_value more = td_f_2(&e, "Greater", args[0], td_f_int(&e, 0));
    fine(x, td_emit_close(&e));
    return freeze(
        x, &ir,
        &(struct td_grad_part){.of = x->cond, .args = args, .n_args = n_back(x), .rets = &more, .n_rets = 1});
}

/* One round's gradients as a function: gradients, what was kept, lasting variables -> gradients. */
static const char *make_round(struct loop *x)
{
    struct td_value *args = room(x, n_back(x), sizeof *args), *rets = room(x, x->n, sizeof *rets);
    struct td_grad_part part = {.of = x->body, .args = args, .rets = rets};
    if (x->g->e->rc) {
        return "";
    }
    struct td_emitter e = emit_into(x, &x->ir);
    td_handed_in(&e, &x->ir, &x->handed, x->back, x->n);
    fine(x, td_emit_close(&e));
    for (int i = 0; i < x->n; i++) {
        if (x->seed[i].node != NULL) {
            args[part.n_args++] = x->seed[i];
            rets[part.n_rets++] = x->back[i];
        }
    }
    for (int i = 0; i < x->handed.n; i++) {
        args[part.n_args++] = x->handed.in[i];
    }
    for (int i = 0; i < x->kept.n_feeds; i++) {
        args[part.n_args++] = feed_of(x, x->kept.feeds[i]);
    }
    return freeze(x, &x->ir, &part);
}

static struct td_value call_round(struct loop *x, struct td_emitter *e, const char *round,
                                  const struct td_value *in, int n_in)
{
    struct td_func_ref f = {.name = round};
    enum td_dtype *out = room(x, x->n_state, sizeof *out);
    for (int i = 0; out != NULL && i < x->n_state; i++) {
        out[i] = td_dtype_of(in[i]);
    }
    return td_emit(e, "PartitionedCall", in, n_in,
                   TD_ATTRS({.name = "Tout",
                             .kind = TD_ATTR_TYPE,
                             .is_list = true,
                             .n = out == NULL ? 0 : x->n_state,
                             .type = out},
                            {.name = "f", .kind = TD_ATTR_FUNC, .n = 1, .func = &f}));
}

static const char *make_back_body(struct loop *x, const char *round)
{
    const int n = n_back(x), lists = 1 + x->n_state, rest = lists + x->handed.n;
    struct td_ir ir = {.arena = x->arena};
    struct td_emitter e = emit_into(x, &ir);
    struct td_value *args = room(x, n, sizeof *args), *rets = room(x, n, sizeof *rets),
                    *in = room(x, n, sizeof *in);
    if (x->g->e->rc) {
        return "";
    }
    feed_back(x, &e, args);
    memcpy(rets, args, (size_t)n * sizeof *rets);
    memcpy(in, args + 1, (size_t)(n - 1) * sizeof *in);
    rets[0] = td_f_sub(&e, args[0], td_f_int(&e, 1));
    for (int i = lists; i < rest; i++) {
        rets[i] = td_emit(&e, "TensorListPopBack", TD_IN(args[i], td_f_int(&e, -1)),
                          TD_ATTRS(TD_ATTR_OF_TYPE("element_dtype", td_dtype_of(x->handed.out[i - lists]))));
        in[i - 1] = td_f_port(rets[i], 1);
    }
    const struct td_value out = call_round(x, &e, round, in, n - 1);
    for (int i = 0; i < x->n_state; i++) {
        rets[1 + i] = td_f_port(out, i);
    }
    fine(x, td_emit_close(&e));
    return freeze(
        x, &ir, &(struct td_grad_part){.of = x->body, .args = args, .n_args = n, .rets = rets, .n_rets = n});
}

static void emit_backward(struct loop *x)
{
    struct td_emitter *e = x->g->e;
    struct td_attr attrs[2];
    struct td_value *in = room(x, n_back(x), sizeof *in);
    const char *cond = make_back_cond(x), *body = make_back_body(x, make_round(x));
    int n_in = 0;
    if (e->rc) {
        return;
    }
    in[n_in++] = (struct td_value){x->g->node, x->n};
    for (int i = 0; i < x->n; i++) {
        if (x->seed[i].node != NULL) {
            in[n_in++] = x->start[i];
        }
    }
    for (int i = 0; i < x->handed.n; i++) {
        in[n_in++] = (struct td_value){x->g->node, x->n + 1 + i};
    }
    for (int i = 0; i < x->kept.n_feeds; i++) {
        in[n_in++] = td_grad_in(x->g, x->kept.feeds[i]);
    }
    const struct td_value out =
        td_emit(e, "StatelessWhile", in, n_in, attrs, list_attrs(x, cond, body, attrs));
    for (int i = 0, o = 1; i < x->n; i++) {
        if (x->seed[i].node != NULL) {
            x->start[i] = td_f_port(out, o++);
        }
    }
}

/* ------------------------------------------------------------------ the ops */

static bool start(struct loop *x)
{
    const struct td_node *n = x->g->node;
    const struct td_func_ref *cond = td_attr_func(n, "cond", 0), *body = td_attr_func(n, "body", 0);
    x->ctx = td_grad_context_of(x->g);
    x->arena = td_grad_ir_of(x->g)->arena;
    x->err = x->g->e->err;
    x->n = n->n_in;
    x->cond = cond == NULL ? "" : cond->name;
    x->body = body == NULL ? "" : body->name;
    x->lasting = room(x, x->n, sizeof *x->lasting);
    x->state = room(x, x->n, sizeof *x->state);
    x->seed = room(x, x->n, sizeof *x->seed);
    x->back = room(x, x->n, sizeof *x->back);
    x->start = room(x, x->n, sizeof *x->start);
    if (x->g->e->rc || !fine(x, td_grad_open(x->ctx, x->arena, x->body, &x->ir, x->err))) {
        return false;
    }
    if (x->ir.n_feeds != x->n || x->ir.n_fetches != x->n || n->n_out != x->n) {
        td_emit_fail(x->g->e, TD_INVALID_ARGUMENT,
                     "%s has %d variables; its body '%s' takes %d and returns %d", TD_NODE_STR(n), x->n,
                     x->body, x->ir.n_feeds, x->ir.n_fetches);
    }
    return x->g->e->rc == TD_OK;
}

void td_while_grad(struct td_grad *g)
{
    struct loop x = {.g = g};
    if (!start(&x)) {
        return;
    }
    choose(&x);
    seed(&x);
    differentiate(&x);
    if (g->e->rc == TD_OK && x.n_state > 0) {
        split(&x);
        emit_forward(&x);
        emit_backward(&x);
    }
    bool *given = room(&x, x.n, sizeof *given);
    for (int i = 0; g->e->rc == TD_OK && i < x.n; i++) {
        given[i] = x.state[i] && x.start[i].node != NULL;
        td_grad_give(g, i, given[i] ? x.start[i] : td_no_value);
    }
    if (g->e->rc == TD_OK) {
        td_control_give_zeros(g, 0, given, x.n);
    }
}
