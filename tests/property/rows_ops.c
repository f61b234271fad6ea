/* tests/property/rows_ops.c - holds the rules of core/batchable/batchable.c against every op that has a
 * recipe (tests/fuzz/op_recipes.inc).
 *
 * Of each recipe each value, and each pair of values, is fed with rows (elements drawn from those of the
 * recipe) while the others stay constant, and each output of the last node is fetched alone. What is called
 * row-wise is run on rows together and apart. Prints what differs, and how much was tried.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable.h"
#include "kernels/ops.h"
#include "tests/fuzz/op_draw.h"
#include "tests/rows_apart.h"
#include "tests/test.h"

enum { VALUES = 24, DRAWS = 3 };

struct tally {
    int yes, no, ran, wrong, closed;
};

struct subject {
    struct op_graph g;
    struct td_model *model;
    struct td_node *value[VALUES], *last;
    int n_values;
};

static uint64_t seed = 88172645463325252u;

static uint64_t draw(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

static bool open_subject(struct subject *s, const struct td_op_table *ops, const char *graph)
{
    struct td_err err = {0};
    struct td_model_opts opts = {.ops = ops};
    *s = (struct subject){0};
    if (!op_graph_open(&s->g) || op_graph_read(&s->g, graph, true, &err) ||
        td_graph_resolve(&s->g.graph, &s->g.lib, ops, &err) ||
        td_model_new(&opts, s->g.arena, &s->g.graph, &s->g.lib, &s->model, &err)) {
        return false;
    }
    s->g.arena = NULL;
    const struct td_graph *g = &s->g.graph;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct td_tensor *t =
            strncmp(g->nodes[i]->name, "value", 5) == 0 ? td_attr_tensor(g->nodes[i], "value") : NULL;
        if (t != NULL && t->shape.rank > 0 && td_tensor_count(t) > 0 && s->n_values < VALUES) {
            s->value[s->n_values++] = g->nodes[i];
        }
    }
    s->last = g->nodes[g->n_nodes - 1];
    return true;
}

static void close_subject(struct subject *s)
{
    td_model_unref(s->model);
    op_graph_close(&s->g);
}

/* Rows of the value's shape, of its elements in any order. */
static bool draw_rows(const struct td_node *n, int64_t rows, struct td_tensor *t)
{
    const struct td_tensor *from = td_attr_tensor(n, "value");
    struct td_shape shape = from->shape;
    struct td_err err = {0};
    size_t size = td_dtype_size(from->dtype);
    shape.dim[0] = rows;
    if (td_tensor_new(t, from->dtype, &shape, &err)) {
        return false;
    }
    for (int64_t i = 0; i < td_tensor_count(t); i++) {
        uint64_t at = draw((uint64_t)td_tensor_count(from));
        td_elems_copy(from->dtype, (char *)t->data + (size_t)i * size, (char *)from->data + at * size, 1);
    }
    return true;
}

static int try_rows(struct td_callable *f, struct td_node *const *fed, int n, struct apart_split split)
{
    struct td_tensor all[2] = {{0}};
    struct td_err err = {0};
    int verdict = 1;
    for (int i = 0; i < n && verdict == 1; i++) {
        verdict = draw_rows(fed[i], split.all, &all[i]);
    }
    verdict = verdict == 1 ? apart_verdict(f, all, n, 1, split, &err) : verdict;
    for (int i = 0; i < n; i++) {
        td_tensor_clear(&all[i]);
    }
    return verdict;
}

/* Feeds fed[n], fetches output o alone. */
static void check_output(struct subject *s, struct td_node *const *fed, int n, int o, struct tally *t)
{
    struct td_value feeds[2], fetch = {s->last, o};
    struct td_shape shape[2];
    for (int i = 0; i < n; i++) {
        feeds[i] = (struct td_value){fed[i], 0};
        shape[i] = td_attr_tensor(fed[i], "value")->shape;
    }
    struct td_callable_opts how = {
        .name = "f", .feeds = feeds, .n_feeds = n, .fetches = &fetch, .n_fetches = 1, .once = true};
    struct td_callable *f = NULL;
    struct td_err err = {0};
    struct td_batchable rows = {0};
    if (td_callable_new(s->model, &how, &f, &err) || td_batchable_prove(f, shape, n, &rows, &err) ||
        !rows.rowwise) {
        t->no++;
        td_callable_drop(f);
        return;
    }
    t->yes++;
    int same = 1, ran = 0;
    for (int k = 0; k < DRAWS && same >= 0; k++) {
        same = try_rows(f, fed, n, apart_split_of(&rows));
        ran |= same != 0;
    }
    t->ran += ran;
    if (same < 0) {
        printf("%s output %d, rows in %s%s%s: differs\n", s->last->op_name, o, fed[0]->name,
               n > 1 ? " and " : "", n > 1 ? fed[1]->name : "");
        t->wrong++;
    }
    td_callable_drop(f);
}

static void check_recipe(struct subject *s, struct tally *t)
{
    for (int i = 0; i < s->n_values; i++) {
        for (int j = i; j < s->n_values; j++) {
            struct td_node *fed[2] = {s->value[i], s->value[j]};
            for (int o = 0; o < s->last->n_out; o++) {
                check_output(s, fed, i == j ? 1 : 2, o, t);
            }
        }
    }
}

TEST(rules_of_ops_hold_on_their_recipes)
{
    struct td_op_table *ops = NULL;
    struct td_err err = {0};
    struct tally t = {0};
    const char *op, *graph;
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    for (int i = 0; (graph = op_recipe(i, &op)) != NULL; i++) {
        static struct subject s;
        if (open_subject(&s, ops, graph)) {
            check_recipe(&s, &t);
        } else {
            t.closed++;
        }
        close_subject(&s);
    }
    td_op_table_free(ops);
    printf("%d cases row-wise (%d of them ran), %d not, %d wrong\n", t.yes, t.ran, t.no, t.wrong);
    printf("SKIPPED %d cases that did not run, %d recipes that are no model\n", t.yes - t.ran, t.closed);
    CHECK_INT(t.wrong, 0);
    CHECK(t.ran > 0);
}

TEST_MAIN(RUN(rules_of_ops_hold_on_their_recipes))
