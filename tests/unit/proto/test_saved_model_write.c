/* tests/unit/proto/test_saved_model_write.c - graphs written, read again, and written again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/saved_model_write.h"

#include "core/base/mem.h"
#include "kernels/ops.h"
#include "proto/model/attr_pb.h"
#include "proto/model/graph_write.h"
#include "proto/pb/wire.h"
#include "tests/test.h"

static struct td_op_table *ops;

static void open_ops(void)
{
    struct td_err err = {0};
    CHECK_OK(td_op_table_new(td_op_families, &ops, &err));
}

static struct td_new_model all_of(const struct td_saved_model *m)
{
    static const struct td_new_variable variable = {.name = "w:0",
                                                    .initializer = "w/Assign",
                                                    .snapshot = "w/Read:0",
                                                    .initial_value = "w/zeros:0",
                                                    .is_resource = true,
                                                    .trainable = true};
    return (struct td_new_model){.dir = DIGITS_DIR,
                                 .tags = "serve",
                                 .lib = m->lib,
                                 .nodes = m->graph->nodes,
                                 .n_nodes = m->graph->n_nodes,
                                 .signatures = m->signatures,
                                 .n_signatures = m->n_signatures,
                                 .filename_tensor = m->filename_tensor,
                                 .save_tensor = m->save_tensor,
                                 .restore_op = m->restore_op,
                                 .init_op = m->init_op,
                                 .assets = m->assets,
                                 .n_assets = m->n_assets,
                                 .variables = &variable,
                                 .n_variables = 1};
}

static struct td_sink write_model(const struct td_saved_model *m)
{
    struct td_err err = {0};
    struct td_sink s = {0};
    const struct td_new_model made = all_of(m);
    CHECK_OK(td_saved_model_write(&made, &s, &err));
    return s;
}

static struct td_saved_model *read_model(const struct td_sink *s)
{
    struct td_err err = {0};
    struct td_saved_model *m = NULL;
    CHECK_OK(td_saved_model_parse("memory", s->p, s->n, "serve", ops, &m, &err));
    return m;
}

static void check_nodes(const struct td_graph *a, const struct td_graph *b)
{
    CHECK_INT(a->n_nodes, b->n_nodes);
    for (int i = 0; i < a->n_nodes; i++) {
        const struct td_node *x = a->nodes[i], *y = b->nodes[i];
        CHECK_STR(x->name, y->name);
        CHECK_STR(x->op_name, y->op_name);
        CHECK_INT(x->n_in, y->n_in);
        CHECK_INT(x->n_control, y->n_control);
        CHECK_INT(x->n_attrs, y->n_attrs);
        for (int k = 0; k < x->n_in; k++) {
            CHECK_STR(x->in[k].node->name, y->in[k].node->name);
            CHECK_INT(x->in[k].port, y->in[k].port);
        }
    }
}

TEST(a_model_that_is_written_is_read_as_it_was)
{
    struct td_err err = {0};
    struct td_saved_model *m = NULL;
    open_ops();
    CHECK_OK(td_saved_model_read(DIGITS_DIR, NULL, ops, &m, &err));
    struct td_sink s = write_model(m);
    struct td_saved_model *again = read_model(&s);
    check_nodes(m->graph, again->graph);
    CHECK_INT(again->n_signatures, m->n_signatures);
    for (int i = 0; i < m->n_signatures; i++) {
        CHECK_STR(again->signatures[i].key, m->signatures[i].key);
        CHECK_INT(again->signatures[i].n_in, m->signatures[i].n_in);
        CHECK_INT(again->signatures[i].n_out, m->signatures[i].n_out);
    }
    CHECK_STR(again->restore_op, m->restore_op);
    CHECK_STR(again->filename_tensor, m->filename_tensor);
    CHECK_STR(again->save_tensor, m->save_tensor);
    CHECK_STR(again->init_op, m->init_op);
    CHECK_STR(again->tf_version, m->tf_version);
    CHECK_INT(again->n_trainable, 1);
    CHECK_STR(again->trainable[0], "w:0");
    CHECK_INT(again->object_graph.len, 0);
    td_sink_fini(&s);
    td_saved_model_free(again);
    td_saved_model_free(m);
    td_op_table_free(ops);
}

TEST(what_is_read_is_written_as_the_same_bytes)
{
    struct td_err err = {0};
    struct td_saved_model *m = NULL;
    open_ops();
    CHECK_OK(td_saved_model_read(DIGITS_DIR, NULL, ops, &m, &err));
    struct td_sink first = write_model(m);
    struct td_saved_model *again = read_model(&first);
    struct td_sink second = write_model(again);
    CHECK_INT(second.n, first.n);
    CHECK(memcmp(second.p, first.p, first.n) == 0);
    td_sink_fini(&first);
    td_sink_fini(&second);
    td_saved_model_free(again);
    td_saved_model_free(m);
    td_op_table_free(ops);
}

/* Of the functions only those that the nodes need, and those that these need. */
TEST(functions_that_nothing_calls_are_left_behind)
{
    struct td_err err = {0};
    struct td_saved_model *m = NULL;
    open_ops();
    CHECK_OK(td_saved_model_read(DIGITS_DIR, NULL, ops, &m, &err));
    struct td_new_model made = all_of(m);
    struct td_sink s = {0};
    int n = 0;
    struct td_node **few = td_calloc((size_t)m->graph->n_nodes, sizeof(void *));
    CHECK(few != NULL);
    for (int i = 0; i < m->graph->n_nodes; i++) {
        if (m->graph->nodes[i]->n_in == 0 && m->graph->nodes[i]->n_control == 0) {
            few[n++] = m->graph->nodes[i];
        }
    }
    made.nodes = few;
    made.n_nodes = n;
    made.n_signatures = 0;
    made.restore_op = made.init_op = NULL;
    CHECK(m->lib->n_functions > 0);
    CHECK_OK(td_saved_model_write(&made, &s, &err));
    struct td_saved_model *again = read_model(&s);
    CHECK_INT(again->lib->n_functions, 0);
    CHECK(again->restore_op == NULL && again->init_op == NULL);
    td_sink_fini(&s);
    td_free(few);
    td_saved_model_free(again);
    td_saved_model_free(m);
    td_op_table_free(ops);
}

/* ------------------------------------------------------------------ attributes */

static void check_attr(const struct td_attr *a)
{
    struct td_err err = {0};
    struct td_sink first = {0}, second = {0};
    struct td_attr back;
    struct td_arena *arena = td_arena_new(1 << 20);
    struct td_pb_reader r = {.arena = arena, .tensor_bytes = 1 << 16};
    CHECK(arena != NULL);
    CHECK_OK(td_attr_write(&first, a, &err));
    const struct td_scan_field f = {.type = TD_WIRE_BYTES, .p = (const uint8_t *)first.p, .len = first.n};
    CHECK_OK(td_attr_read(&r, a->name, &f, &back, &err));
    CHECK_INT(back.kind, a->kind);
    CHECK_INT(back.n, a->n);
    CHECK_INT(back.is_list, a->is_list);
    CHECK_OK(td_attr_write(&second, &back, &err));
    CHECK_INT(second.n, first.n);
    CHECK(memcmp(first.p, second.p, first.n) == 0);
    td_sink_fini(&first);
    td_sink_fini(&second);
    td_arena_free(arena);
}

TEST(attributes_of_each_kind_come_back)
{
    struct td_bytes texts[] = {{"a", 1}, {"", 0}};
    int64_t numbers[] = {-1, 0, 1LL << 40};
    float floats[] = {-0.5F, 0};
    bool flags[] = {true, false};
    enum td_dtype types[] = {TD_FLOAT, TD_STRING};
    struct td_shape shapes[] = {{.rank = 2, .dim = {-1, 0}}, {.rank = 0}, {.rank = -1}};
    struct td_attr inner[] = {{.name = "n", .kind = TD_ATTR_INT, .n = 1, .i = numbers}};
    struct td_func_ref functions[] = {{"f", inner, 1}, {"g", NULL, 0}};
    for (int list = 0; list < 2; list++) {
        const struct td_attr attrs[] = {
            {.name = "s", .kind = TD_ATTR_STRING, .n = list ? 2 : 1, .str = texts},
            {.name = "i", .kind = TD_ATTR_INT, .n = list ? 3 : 1, .i = numbers},
            {.name = "f", .kind = TD_ATTR_FLOAT, .n = list ? 2 : 1, .f = floats},
            {.name = "b", .kind = TD_ATTR_BOOL, .n = list ? 2 : 1, .b = flags},
            {.name = "t", .kind = TD_ATTR_TYPE, .n = list ? 2 : 1, .type = types},
            {.name = "h", .kind = TD_ATTR_SHAPE, .n = list ? 3 : 1, .shape = shapes},
            {.name = "c", .kind = TD_ATTR_FUNC, .n = list ? 2 : 1, .func = functions},
        };
        for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++) {
            struct td_attr a = attrs[i];
            a.is_list = list;
            check_attr(&a);
        }
    }
}

TEST(the_original_s_file_must_be_there)
{
    struct td_err err = {0};
    struct td_saved_model *m = NULL;
    open_ops();
    CHECK_OK(td_saved_model_read(DIGITS_DIR, NULL, ops, &m, &err));
    struct td_new_model made = all_of(m);
    struct td_sink s = {0};
    made.dir = "/nowhere";
    CHECK_INT(td_saved_model_write(&made, &s, &err), TD_NOT_FOUND);
    td_sink_fini(&s);
    td_saved_model_free(m);
    td_op_table_free(ops);
}

TEST_MAIN(RUN(a_model_that_is_written_is_read_as_it_was) RUN(what_is_read_is_written_as_the_same_bytes)
              RUN(functions_that_nothing_calls_are_left_behind) RUN(attributes_of_each_kind_come_back)
                  RUN(the_original_s_file_must_be_there))
