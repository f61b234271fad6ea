/* tests/unit/core/test_batchable.c - which graphs may be batched (core/batchable/batchable.h): for each rule
 * graphs that may and graphs that may not.
 *
 * A row is a claim, a graph (notation: tests/fuzz/op_graph.h) whose Placeholders are fed and whose last node
 * is fetched, and words of the reason when the answer is no. What is called row-wise is also run, on rows
 * together and apart.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/batchable/batchable.h"

#include "core/base/mem.h"
#include "kernels/ops.h"
#include "tests/fuzz/op_graph.h"
#include "tests/rows_apart.h"
#include "tests/test.h"

struct claim {
    const char *what, *graph;
    const char *why; /* NULL: row-wise; "[2,8]", "[2,]": for so many rows; else words of the reason why not */
};

static const struct claim claims[] =
    {
#include "tests/unit/core/batchable_claims.inc"
},
                          hostile[] = {
#include "tests/unit/core/batchable_hostile.inc"
};

enum { MOST = 8 };

struct subject {
    struct op_graph g;
    struct td_model *model;
    struct td_callable *f;
    struct td_shape shape[MOST];
    enum td_dtype dtype[MOST];
    int n_in, n_out;
};

static void subject_open(struct subject *s, const struct td_op_table *ops, const struct claim *c)
{
    struct td_err err = {0};
    struct td_value feeds[MOST], fetches[MOST];
    struct td_model_opts opts = {.ops = ops};
    s->n_in = s->n_out = 0;
    CHECK(op_graph_open(&s->g));
    CHECK_OK(op_graph_read(&s->g, c->graph, true, &err));
    CHECK_OK(td_graph_resolve(&s->g.graph, &s->g.lib, ops, &err));
    const struct td_graph *g = &s->g.graph;
    for (int i = 0; i < g->n_nodes; i++) {
        if (strcmp(g->nodes[i]->op_name, "Placeholder") == 0) {
            s->shape[s->n_in] = *td_attr_shape(g->nodes[i], "shape");
            s->dtype[s->n_in] = g->nodes[i]->out_type[0];
            feeds[s->n_in++] = (struct td_value){g->nodes[i], 0};
        }
    }
    struct td_node *last = g->nodes[g->n_nodes - 1];
    for (int i = 0; i < last->n_out && i < MOST; i++) {
        fetches[s->n_out++] = (struct td_value){last, i};
    }
    CHECK_OK(td_model_new(&opts, s->g.arena, &s->g.graph, &s->g.lib, &s->model, &err));
    s->g.arena = NULL;
    struct td_callable_opts how = {
        .name = "f", .feeds = feeds, .n_feeds = s->n_in, .fetches = fetches, .n_fetches = s->n_out};
    CHECK_OK(td_callable_new(s->model, &how, &s->f, &err));
}

static void subject_close(struct subject *s)
{
    td_model_unref(s->model);
    op_graph_close(&s->g);
}

/* ------------------------------------------------------------------ together and apart */

static void draw(struct td_tensor *t, unsigned seed)
{
    static const char *const words[] = {"ab", "7", "A b"};
    struct td_err err = {0};
    for (int64_t i = 0; i < td_tensor_count(t); i++) {
        unsigned v = (unsigned)i * 2654435761u + seed * 40503u;
        v ^= v >> 15;
        if (t->dtype == TD_FLOAT) {
            TD_DATA(t, float)[i] = (float)(v % 200) / 50 - 2;
        } else if (t->dtype == TD_STRING) {
            CHECK_OK(td_tensor_set_str(t, i, words[v % 3], strlen(words[v % 3]), &err));
        } else {
            memset((char *)t->data + (size_t)i * td_dtype_size(t->dtype), 0, td_dtype_size(t->dtype));
            *((unsigned char *)t->data + (size_t)i * td_dtype_size(t->dtype)) = (unsigned char)(v % 2);
        }
    }
}

/* As apart_verdict. */
static int verdict_of(struct subject *s, struct apart_split split)
{
    struct td_tensor all[MOST] = {{0}};
    struct td_err err = {0};
    for (int i = 0; i < s->n_in; i++) {
        s->shape[i].dim[0] = split.all;
        CHECK_OK(td_tensor_new(&all[i], s->dtype[i], &s->shape[i], &err));
        draw(&all[i], (unsigned)i + 1);
    }
    const int verdict = apart_verdict(s->f, all, s->n_in, s->n_out, split, &err);
    for (int i = 0; i < s->n_in; i++) {
        td_tensor_clear(&all[i]);
    }
    return verdict;
}

static bool batches_right(struct subject *s, const struct td_batchable *rows)
{
    return verdict_of(s, apart_split_of(rows)) == 1;
}

/* ------------------------------------------------------------------ claims */

static bool says_so(const struct claim *c, const struct td_batchable *rows)
{
    long long least = 1, most = 0;
    const bool ranged = c->why != NULL && sscanf(c->why, "[%lld,%lld]", &least, &most) > 0;
    if (c->why != NULL && !ranged) {
        return !rows->rowwise && strstr(rows->why, c->why) != NULL;
    }
    return rows->rowwise && (!ranged || rows->min_rows == least) && (most == 0 || rows->max_rows == most);
}

static int check_claim(const struct td_op_table *ops, const struct claim *c,
                       bool (*right)(struct subject *s, const struct td_batchable *rows))
{
    static struct subject s;
    struct td_batchable rows;
    struct td_err err = {0};
    bool wrong = true;
    subject_open(&s, ops, c);
    CHECK_OK(td_batchable_prove(s.f, s.shape, s.n_in, &rows, &err));
    if (!says_so(c, &rows)) {
        fprintf(stderr, "%s: %s [%lld, %lld], want %s\n", c->what, rows.rowwise ? "row-wise" : rows.why,
                (long long)rows.min_rows, (long long)rows.max_rows, c->why ? c->why : "row-wise");
    } else if (rows.rowwise && !right(&s, &rows)) {
        fprintf(stderr, "%s: called row-wise, but rows together and apart differ\n", c->what);
    } else {
        wrong = false;
    }
    subject_close(&s);
    return wrong;
}

TEST(row_wise_graphs_are_told_from_others)
{
    struct td_op_table *ops = NULL;
    struct td_err err = {0};
    int wrong = 0;
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        wrong += check_claim(ops, &claims[i], batches_right);
    }
    td_op_table_free(ops);
    CHECK_INT(wrong, 0);
}

/* The smallest and the largest batches of the range, one that is just too large, and one of too few rows. */
static bool range_is_right(struct subject *s, const struct td_batchable *rows)
{
    enum { MOST_RUN = 2000000 };
    const int64_t least = rows->min_rows, most = rows->max_rows;
    bool right = verdict_of(s, (struct apart_split){least, 2 * least}) == 1;
    for (int64_t n = 2 * least + 1; n < 12 && n <= most; n++) {
        right = right && verdict_of(s, (struct apart_split){least, n}) == 1;
    }
    if (most < MOST_RUN) {
        right = right && verdict_of(s, (struct apart_split){least, most}) == 1 &&
                verdict_of(s, (struct apart_split){most - least, most}) == 1 &&
                verdict_of(s, (struct apart_split){least, most + 1}) != 1;
    }
    return right && (least == 1 || verdict_of(s, (struct apart_split){1, 2 * least + 1}) != 1);
}

TEST(hostile_use_of_the_number_of_rows_is_never_batched_wrongly)
{
    struct td_op_table *ops = NULL;
    struct td_err err = {0};
    int wrong = 0;
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        wrong += check_claim(ops, &hostile[i], range_is_right);
    }
    td_op_table_free(ops);
    CHECK_INT(wrong, 0);
}

/* Memory that runs out while a graph with a loop is judged is an error or a "no", never a "yes" or a leak. */
TEST(lack_of_memory_is_survived)
{
    struct td_op_table *ops = NULL;
    struct td_err err = {0};
    static struct subject s;
    struct td_batchable rows;
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
    subject_open(&s, ops, &claims[0]);
    CHECK_OK(td_batchable_prove(s.f, s.shape, s.n_in, &rows, &err)); /* compiled now */
    for (long n = 1; n < 4000; n++) {
        struct td_err failed = {0};
        td_mem_fail_at(n);
        enum td_code rc = td_batchable_prove(s.f, s.shape, s.n_in, &rows, &failed);
        td_mem_fail_at(0);
        if (rc == TD_OK && rows.rowwise) {
            break;
        }
        CHECK(rc == TD_OK || failed.msg[0] != 0);
        CHECK(n < 3999);
    }
    subject_close(&s);
    td_op_table_free(ops);
}

TEST_MAIN(RUN(row_wise_graphs_are_told_from_others)
              RUN(hostile_use_of_the_number_of_rows_is_never_batched_wrongly) RUN(lack_of_memory_is_survived))
