/* tests/unit/core/test_grad_split.c - core/grad/split.c, body.c, reach.c: what a backward part needs of the
 * forward one, and parts as functions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/reach.h"
#include "core/grad/split.h"
#include "tests/unit/core/pass_make.h"

/* An IR of the value z by its feeds x and y, differentiated by those named in `wrt`, and split. */
struct split {
    struct passed t;
    struct td_model *model;
    struct td_library lib;
    struct td_grad_context ctx;
    struct td_value seed, result[2];
    struct td_grad_kept kept;
};

static void start(struct split *s, const char *text)
{
    *s = (struct split){0};
    passed_open(&s->t, text, "z");
    struct td_err *err = &s->t.err;
    const struct td_model_opts opts = {.ops = s->t.ops};
    CHECK_INT(td_model_new(&opts, NULL, &s->t.g.graph, &s->t.g.lib, &s->model, err), TD_OK);
    CHECK_INT(td_library_extend(&s->t.g.lib, s->t.g.arena, &s->lib, err), TD_OK);
    const struct td_op_def *seed = td_op_of_role(s->t.ops, TD_ROLE_GRADIENT_SEED);
    s->ctx = (struct td_grad_context){.model = s->model, .lib = &s->lib, .formulas = seed->op->formulas};
    CHECK_INT(td_ir_build(&s->t.ir, s->t.g.arena, &s->t.g.graph, &s->lib, &s->t.how, TD_IR_INLINE, err),
              TD_OK);
    CHECK_INT(td_ir_sort(&s->t.ir, err), TD_OK);
}

static void finish(struct split *s)
{
    td_model_unref(s->model);
    passed_close(&s->t);
}

/* lasting: which of the feeds; wrt: by which of them. */
static void split(struct split *s, const char *text, const char *wrt, const char *lasting, bool recompute)
{
    start(s, text);
    struct td_ir *ir = &s->t.ir;
    struct td_err *err = &s->t.err;
    struct td_grad_value found[2];
    struct td_value sources[2];
    bool last[2] = {false, false};
    int n = 0;
    struct td_emitter e = td_grad_emitter(&s->ctx, ir, NULL, err);
    s->seed = td_grad_feed(&e, "seed", TD_FLOAT);
    CHECK_INT(td_emit_close(&e), TD_OK);
    for (int i = 0; i < ir->n_feeds; i++) {
        last[i] = strstr(lasting, ir->feeds[i]->name) != NULL;
        if (strstr(wrt, ir->feeds[i]->name) != NULL) {
            sources[n++] = (struct td_value){ir->feeds[i], 0};
        }
    }
    const struct td_grad_query q = {
        .targets = ir->fetches, .seeds = &s->seed, .n_targets = 1, .sources = sources, .n_sources = n};
    test_check_ok(__FILE__, __LINE__, text, td_grad_backward(&s->ctx, ir, &q, found, err), err);
    for (int i = 0; i < n; i++) {
        s->result[i] = found[i].dense;
    }
    const struct td_grad_cut cut = {.seeds = &s->seed,
                                    .n_seeds = 1,
                                    .results = s->result,
                                    .n_results = n,
                                    .lasting = last,
                                    .recompute = recompute};
    test_check_ok(__FILE__, __LINE__, text, td_grad_split(&s->ctx, ir, &cut, &s->kept, err), err);
}

static bool keeps(const struct split *s, const char *name)
{
    for (int i = 0; i < s->kept.n_values; i++) {
        if (strcmp(s->kept.values[i].node->name, name) == 0) {
            return true;
        }
    }
    return false;
}

#define SIN_OF_PRODUCT                                                                                       \
    XY "w = Exp {T:type=float} (y)\n"                                                                        \
       "m = MatMul {T:type=float} (x, w)\n"                                                                  \
       "z = Sin {T:type=float} (m)\n"

TEST(what_follows_from_lasting_feeds_is_made_again)
{
    struct split s;
    split(&s, SIN_OF_PRODUCT, "x", "y", false);
    CHECK_INT(s.kept.n_values, 1);
    CHECK(keeps(&s, "m"));
    CHECK_INT(s.kept.n_feeds, 1);
    CHECK_STR(s.t.ir.feeds[s.kept.feeds[0]]->name, "y");
    finish(&s);
}

TEST(what_follows_from_other_feeds_is_kept)
{
    struct split s;
    split(&s, SIN_OF_PRODUCT, "x", "", false);
    CHECK_INT(s.kept.n_values, 2);
    CHECK(keeps(&s, "m") && keeps(&s, "w"));
    CHECK_INT(s.kept.n_feeds, 0);
    finish(&s);
}

TEST(recomputing_keeps_feeds_alone)
{
    struct split s;
    split(&s, SIN_OF_PRODUCT, "x", "", true);
    CHECK_INT(s.kept.n_values, 2);
    CHECK(keeps(&s, "x") && keeps(&s, "y"));
    finish(&s);
}

TEST(what_a_random_op_made_is_never_made_again)
{
    struct split s;
    split(&s,
          XY "n = Shape {T:type=float} (x)\n"
             "r = RandomUniform {T:type=int32; dtype:type=float} (n)\n"
             "z = Mul {T:type=float} (x, r)\n",
          "x", "xy", true);
    CHECK_INT(s.kept.n_values, 1);
    CHECK(keeps(&s, "r"));
    finish(&s);
}

/* The gradient asks for the shapes of both operands, since one may be broadcast. */
TEST(shapes_are_kept_and_not_what_they_are_of)
{
    struct split s;
    split(&s, XY "a = Exp {T:type=float} (x)\nz = AddV2 {T:type=float} (a, y)\n", "y", "", false);
    for (int i = 0; i < s.kept.n_values; i++) {
        CHECK_INT(td_dtype_of(s.kept.values[i]), TD_INT32);
    }
    CHECK(s.kept.n_values > 0);
    finish(&s);
}

TEST(shapes_of_what_is_there_are_asked_for_again)
{
    struct split s;
    split(&s, XY "z = Mul {T:type=float} (x, y)\n", "xy", "", false);
    CHECK_INT(s.kept.n_values, 2);
    CHECK(keeps(&s, "x") && keeps(&s, "y"));
    finish(&s);
}

TEST(the_parts_are_functions_that_compute_what_the_whole_does)
{
    struct split s;
    split(&s, SIN_OF_PRODUCT, "x", "y", false);
    struct td_ir *ir = &s.t.ir;
    const char *forward, *backward;
    const struct td_value rets[] = {ir->fetches[0], s.kept.values[0]};
    const struct td_value args[] = {{ir->feeds[0], 0}, {ir->feeds[1], 0}};
    const struct td_value back[] = {s.seed, s.kept.values[0], args[1]};
    CHECK_INT(td_grad_freeze(
                  &s.ctx, ir,
                  &(struct td_grad_part){.of = "f", .args = args, .n_args = 2, .rets = rets, .n_rets = 2},
                  &forward, &s.t.err),
              TD_OK);
    CHECK_INT(td_grad_freeze(&s.ctx, ir,
                             &(struct td_grad_part){
                                 .of = forward, .args = back, .n_args = 3, .rets = s.result, .n_rets = 1},
                             &backward, &s.t.err),
              TD_OK);
    CHECK_STR(forward, "gradients/f/0");
    CHECK_STR(backward, "gradients/f/1");
    const struct td_function *f = td_library_find(&s.lib, backward);
    CHECK(f != NULL && f->n_args == 3 && f->n_rets == 1);
    int sines = 0, products = 0;
    for (int i = 0; i < f->body.n_nodes; i++) {
        CHECK_INT(f->body.nodes[i]->id, i);
        sines += strcmp(f->body.nodes[i]->op_name, "Sin") == 0;
        products += strcmp(f->body.nodes[i]->op_name, "MatMul") == 0;
    }
    CHECK_INT(sines, 0);
    CHECK_INT(products, 1); /* the gradient's own */
    finish(&s);
}

/* a is wanted and b has arrived; c is between them in a second round, d leads nowhere. */
TEST(a_gradient_stands_at_what_lies_between_rounds_away)
{
    struct op_graph g;
    struct td_err err = {0};
    CHECK(op_graph_open(&g));
    struct td_op_table *ops;
    CHECK_INT(td_op_table_new(td_op_families, &ops, &err), TD_OK);
    CHECK_INT(op_graph_read(&g,
                            "a = " PLACEHOLDER "b = " PLACEHOLDER "c = " PLACEHOLDER "d = " PLACEHOLDER
                            "a1 = Sin {T:type=float} (a)\n"
                            "b1 = Cos {T:type=float} (c)\n"
                            "c1 = Exp {T:type=float} (a)\n"
                            "d1 = AddV2 {T:type=float} (d, a)\n",
                            true, &err),
              TD_OK);
    CHECK_INT(td_graph_resolve(&g.graph, &g.lib, ops, &err), TD_OK);
    struct td_value feeds[4], fetches[4];
    static const char *const names[] = {"a", "b", "c", "d", "a1", "b1", "c1", "d1"};
    for (int i = 0; i < 4; i++) {
        CHECK_INT(td_graph_value(&g.graph, names[i], &feeds[i], &err), TD_OK);
        CHECK_INT(td_graph_value(&g.graph, names[4 + i], &fetches[i], &err), TD_OK);
    }
    struct td_ir ir;
    const struct td_callable_opts how = {.feeds = feeds, .n_feeds = 4, .fetches = fetches, .n_fetches = 4};
    CHECK_INT(td_ir_build(&ir, g.arena, &g.graph, &g.lib, &how, 0, &err), TD_OK);
    CHECK_INT(td_ir_sort(&ir, &err), TD_OK);
    bool state[4];
    CHECK_INT(td_grad_loop_state(&ir, (const bool[]){true, false, false, false},
                                 (const bool[]){false, true, false, false}, state, &err),
              TD_OK);
    CHECK(state[0] && state[1] && state[2] && !state[3]);
    op_graph_close(&g);
    td_op_table_free(ops);
}

TEST_MAIN(RUN(what_follows_from_lasting_feeds_is_made_again) RUN(what_follows_from_other_feeds_is_kept)
              RUN(recomputing_keeps_feeds_alone) RUN(what_a_random_op_made_is_never_made_again)
                  RUN(shapes_are_kept_and_not_what_they_are_of)
                      RUN(shapes_of_what_is_there_are_asked_for_again)
                          RUN(the_parts_are_functions_that_compute_what_the_whole_does)
                              RUN(a_gradient_stands_at_what_lies_between_rounds_away))
