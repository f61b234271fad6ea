/* tests/unit/test_thin.c - what the loader's parser no longer sees, and that it sees all else.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/thin.h"

#include "core/mem.h"
#include "proto/guard.h"
#include "proto/tensorflow.pb-c.h"
#include "proto/textpb.h"
#include "tests/test.h"

#define NODE                                                                                                 \
    "{ name: 'n' op: 'Add' attr { key: '_output_shapes' value { list { shape { dim { size: -1 } dim { "      \
    "size: 3 } } } } } "                                                                                     \
    "attr { key: 'T' value { type: DT_FLOAT } } attr { key: '_output_shapes_too' value { i: 7 } } }"

static const char text[] = "saved_model_schema_version: 1 meta_graphs { graph_def { node " NODE
                           " library { function { signature { name: 'f' } node_def " NODE " } } } }";

static struct td_sink bytes_of_text(void)
{
    struct td_err err = {0};
    struct td_sink s = {.limit = 1 << 20};
    CHECK_OK(td_textpb_to_bytes(&tensorflow__saved_model__descriptor, text, sizeof text - 1, true, &s, &err));
    return s;
}

static void check_node(const Tensorflow__NodeDef *n)
{
    CHECK_INT(n->n_attr, 3);
    for (size_t i = 0; i < n->n_attr; i++) {
        const bool hidden = strcmp(n->attr[i]->key, "_output_shapes") == 0;
        CHECK_INT(n->attr[i]->value == NULL, hidden);
        CHECK_INT(n->attr[i]->base.n_unknown_fields, hidden);
    }
}

TEST(output_shapes_are_hidden_in_the_graph_and_in_functions)
{
    struct td_err err = {0};
    ProtobufCMessage *message;
    struct td_sink s = bytes_of_text();
    const size_t n = s.n;
    td_thin_saved_model(s.p, s.n);
    CHECK_OK(td_guard_unpack(&tensorflow__saved_model__descriptor, s.p, n, 1 << 20, &message, &err));
    const Tensorflow__GraphDef *g = ((Tensorflow__SavedModel *)message)->meta_graphs[0]->graph_def;
    check_node(g->node[0]);
    check_node(g->library->function[0]->node_def[0]);
    td_guard_free(message);
    td_sink_fini(&s);
}

TEST(cut_bytes_stay_within_their_end)
{
    struct td_sink s = bytes_of_text();
    for (size_t n = 0; n <= s.n; n++) {
        char *cut = td_calloc(n + 1, 1); /* for the address sanitizer */
        memcpy(cut, s.p, n);
        td_thin_saved_model(cut, n);
        td_free(cut);
    }
    td_sink_fini(&s);
}

TEST_MAIN(RUN(output_shapes_are_hidden_in_the_graph_and_in_functions) RUN(cut_bytes_stay_within_their_end))
