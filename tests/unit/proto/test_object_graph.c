/* tests/unit/proto/test_object_graph.c - variables with their keys, and functions, of an object graph.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/object_graph.h"

#include "proto/schema/tensorflow.pb-c.h"
#include "proto/pb/textpb.h"
#include "tests/test.h"

static const char saved[] =
    "nodes { children { node_id: 1 local_name: 'layers' } children { node_id: 3 local_name: 'opt' } "
    "user_object { identifier: '_generic_user_object' } }"
    "nodes { children { node_id: 2 local_name: 'a/b.c' } }"
    "nodes { variable { dtype: DT_FLOAT shape { dim { size: 3 } } trainable: true name: 'kernel' } }"
    "nodes { slot_variables { original_variable_node_id: 2 slot_name: 'm' slot_variable_node_id: 4 } }"
    "nodes { variable { dtype: DT_FLOAT name: 'kernel/m' } }"
    "nodes { function { concrete_functions: 'f_1' } }"
    "concrete_functions { key: 'f_1' value { bound_inputs: 2 canonicalized_input_signature { tuple_value {"
    "  values { tuple_value { values { tensor_spec_value { name: 'x' dtype: DT_INT32 shape { dim { size: -1 "
    "} } } } } }"
    "  values { dict_value { fields { key: 'b' value { tensor_spec_value { name: 'b' dtype: DT_BOOL } } }"
    "                        fields { key: 'a' value { tensor_spec_value { name: 'a' dtype: DT_STRING } } } "
    "} } } }"
    "  output_signature { tensor_spec_value { dtype: DT_FLOAT } } } }";

static const char tracked[] =
    "nodes { children { node_id: 3 local_name: 'opt' } children { node_id: 1 local_name: 'layers' } }"
    "nodes { children { node_id: 2 local_name: 'a/b.c' } }"
    "nodes { attributes { name: 'VARIABLE_VALUE' checkpoint_key: 'the/key' } }"
    "nodes { slot_variables { original_variable_node_id: 2 slot_name: 'm' slot_variable_node_id: 4 } }"
    "nodes { attributes { name: 'VARIABLE_VALUE' checkpoint_key: 'the/slot' } }";

static struct td_sink bytes_of(const ProtobufCMessageDescriptor *d, const char *text)
{
    struct td_err err = {0};
    struct td_sink s = {0};
    CHECK_OK(td_textpb_to_bytes(d, text, strlen(text), false, &s, &err));
    return s;
}

static struct td_object_graph *read_graph(bool with_keys)
{
    struct td_err err = {0};
    struct td_object_graph *g;
    struct td_sink s = bytes_of(&tensorflow__saved_object_graph__descriptor, saved);
    struct td_sink t = bytes_of(&tensorflow__trackable_object_graph__descriptor, with_keys ? tracked : "");
    CHECK_OK(td_object_graph_read((struct td_bytes){s.p, s.n}, (struct td_bytes){t.p, t.n}, &g, &err));
    td_sink_fini(&s);
    td_sink_fini(&t);
    return g;
}

TEST(variables_get_the_keys_of_the_checkpoint)
{
    struct td_object_graph *g = read_graph(true);
    CHECK_INT(g->n_nodes, 6);
    CHECK_STR(g->nodes[2].text, "kernel");
    CHECK_STR(g->nodes[2].key, "the/key");
    CHECK_STR(g->nodes[4].key, "the/slot");
    CHECK(g->nodes[2].trainable && g->nodes[2].dtype == TD_FLOAT && g->nodes[2].shape.dim[0] == 3);
    CHECK(g->nodes[4].path == NULL && !g->nodes[4].trainable);
    td_object_graph_free(g);
}

TEST(without_it_keys_are_escaped_paths)
{
    struct td_object_graph *g = read_graph(false);
    CHECK_STR(g->nodes[2].path, "layers/a.Sb..c");
    CHECK_STR(g->nodes[2].key, "layers/a.Sb..c/.ATTRIBUTES/VARIABLE_VALUE");
    td_object_graph_free(g);
}

TEST(functions_list_their_tensors_flat)
{
    struct td_object_graph *g = read_graph(false);
    const struct td_concrete *f = td_object_graph_function(g, "f_1");
    CHECK(f != NULL && f->n_in == 3 && f->n_out == 1 && f->n_bound == 1 && f->bound[0] == 2);
    CHECK_STR(f->in[0].name, "x");
    CHECK_STR(f->in[1].name, "a"); /* dictionaries go by sorted key */
    CHECK_INT(f->in[2].dtype, TD_BOOL);
    CHECK(td_object_graph_function(g, "f_2") == NULL);
    CHECK_STR(g->nodes[5].functions[0], "f_1");
    td_object_graph_free(g);
}

TEST(nodes_that_do_not_exist_are_refused)
{
    static const char *const bad[] = {"nodes { children { node_id: 5 local_name: 'x' } }",
                                      "nodes { children { node_id: -1 local_name: 'x' } }",
                                      "nodes { slot_variables { slot_variable_node_id: 9 } }",
                                      "concrete_functions { key: 'f' value { bound_inputs: 0 } }"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct td_err err = {0};
        struct td_object_graph *g;
        struct td_sink s = bytes_of(&tensorflow__saved_object_graph__descriptor, bad[i]);
        CHECK_INT(td_object_graph_read((struct td_bytes){s.p, s.n}, (struct td_bytes){"", 0}, &g, &err),
                  TD_INVALID_ARGUMENT);
        td_sink_fini(&s);
    }
}

TEST_MAIN(RUN(variables_get_the_keys_of_the_checkpoint) RUN(without_it_keys_are_escaped_paths)
              RUN(functions_list_their_tensors_flat) RUN(nodes_that_do_not_exist_are_refused))
