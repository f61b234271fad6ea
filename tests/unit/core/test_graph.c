/* tests/unit/core/test_graph.c - names of nodes, tensors and functions; attributes read plainly.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/graph_make.h"

TEST(tensor_names_are_read_strictly)
{
    static const struct {
        const char *text;
        int port; /* -1: refused */
        enum td_code code;
        const char *words;
    } rows[] = {
        {"one", 0, TD_OK, ""},
        {"one:0", 0, TD_OK, ""},
        {"pair:1", 1, TD_OK, ""},
        {"pair:01", 1, TD_OK, ""},
        {"one:1", -1, TD_INVALID_ARGUMENT, "tensor 'one:1': node 'one' (One) has 1 outputs"},
        {"one:", -1, TD_INVALID_ARGUMENT, "is not of the form node:port"},
        {"one:x", -1, TD_INVALID_ARGUMENT, "is not of the form node:port"},
        {"one:-1", -1, TD_INVALID_ARGUMENT, "is not of the form node:port"},
        {"one:99999999999999999999", -1, TD_INVALID_ARGUMENT, "has 1 outputs"},
        {"on", -1, TD_NOT_FOUND, "tensor 'on': the graph has no node of that name"},
        {"one1", -1, TD_NOT_FOUND, "no node of that name"},
        {"", -1, TD_NOT_FOUND, "no node of that name"},
        {"mystery:5", -1, TD_UNIMPLEMENTED, "Op type not registered 'Mystery'"},
    };
    struct made m;
    made_start(&m);
    made_add(&m.graph, "one", "One", "");
    made_add(&m.graph, "p", "True", "");
    made_add(&m.graph, "pair", "Switch", "one p");
    made_add(&m.graph, "mystery", "Mystery", "");
    CHECK_INT(made_resolve(&m), TD_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct td_value v = {NULL, -1};
        struct td_err err = {0};
        CHECK_INT(td_graph_value(&m.graph, rows[i].text, &v, &err), rows[i].code);
        CHECK_INT(v.port, rows[i].port);
        if (strstr(err.msg, rows[i].words) == NULL) {
            CHECK_STR(err.msg, rows[i].words);
        }
    }
    made_end(&m);
}

TEST(every_one_of_many_names_is_found)
{
    struct made m;
    char name[40];
    enum { MANY = 5000 };
    made_start(&m);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "scope_%d/node", i);
        made_add(&m.graph, name, "One", "");
    }
    CHECK(td_graph_find(&m.graph, "scope_1/node", 12) == NULL); /* no index before it is resolved */
    CHECK_INT(made_resolve(&m), TD_OK);
    for (int i = 0; i < MANY; i++) {
        int len = snprintf(name, sizeof name, "scope_%d/node", i);
        const struct td_node *n = td_graph_find(&m.graph, name, (size_t)len);
        CHECK(n != NULL && n->id == i);
        CHECK(td_graph_find(&m.graph, name, (size_t)len - 1) == NULL);
    }
    made_end(&m);
}

TEST(functions_are_found_whatever_their_order)
{
    struct made m;
    static const char *const names[] = {"m", "a", "z", "a1", "A"};
    made_start(&m);
    for (int i = 0; i < 5; i++) {
        made_function(&m, names[i], 1, "a", TD_FLOAT);
    }
    CHECK_INT(made_resolve(&m), TD_OK);
    for (int i = 0; i < 5; i++) {
        const struct td_function *f = td_library_find(&m.lib, names[i]);
        CHECK(f != NULL && strcmp(f->name, names[i]) == 0 && f->resolved);
    }
    CHECK(td_library_find(&m.lib, "b") == NULL && td_library_find(NULL, "a") == NULL);
    made_end(&m);
}

TEST(attributes_that_are_not_there_read_as_nothing)
{
    int64_t ints[] = {4, 5};
    struct td_attr attrs[] = {{.name = "i", .kind = TD_ATTR_INT, .is_list = true, .n = 2, .i = ints},
                              {.name = "empty", .kind = TD_ATTR_NONE, .is_list = true}};
    struct td_node n = {.name = "n", .op_name = "Op", .attrs = attrs, .n_attrs = 2};
    int count;
    CHECK(td_attr_int(&n, "i") == 4 && td_attr_len(&n, "i") == 2 && td_attr_ints(&n, "i", &count)[1] == 5 &&
          count == 2);
    static const char *const absent[] = {"none", "empty", "i"};
    for (int k = 0; k < 3; k++) { /* "i" read as what it is not */
        CHECK(td_attr_float(&n, absent[k]) == 0 && !td_attr_bool(&n, absent[k]));
        CHECK(td_attr_type(&n, absent[k]) == TD_DTYPE_NONE && td_attr_shape(&n, absent[k])->rank == -1);
        CHECK_STR(td_attr_str(&n, absent[k]), "");
        CHECK(td_attr_tensor(&n, absent[k]) == NULL && td_attr_func(&n, absent[k], 0) == NULL);
        CHECK(td_attr_strs(&n, absent[k], &count) == NULL && count == 0);
    }
    CHECK(td_attr_len(&n, "none") == 0 && td_attr_int(&n, "empty") == 0);
}

TEST(a_graph_ends_with_its_arena)
{
    struct td_arena *arena = td_arena_new(1 << 16);
    struct td_graph g;
    struct td_node *n;
    struct td_err err = {0};
    td_graph_init(&g, arena, "");
    enum td_code rc = TD_OK;
    for (int i = 0; rc == TD_OK && i < 10000; i++) {
        rc = td_graph_add(&g, "name", "Op", "", &n, &err);
    }
    CHECK_INT(rc, TD_RESOURCE_EXHAUSTED);
    CHECK(err.msg[0] != 0);
    td_arena_free(arena);
}

TEST(long_names_are_cut_in_texts)
{
    char name[1000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    struct td_node n = {.name = name, .op_name = name, .function = name};
    CHECK(strlen(TD_NODE_STR(&n)) < 256);
    n.function = "";
    CHECK(strlen(TD_NODE_STR(&n)) < 256);
}

TEST_MAIN(RUN(tensor_names_are_read_strictly) RUN(every_one_of_many_names_is_found)
              RUN(functions_are_found_whatever_their_order) RUN(attributes_that_are_not_there_read_as_nothing)
                  RUN(a_graph_ends_with_its_arena) RUN(long_names_are_cut_in_texts))
