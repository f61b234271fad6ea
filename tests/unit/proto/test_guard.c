/* tests/unit/proto/test_guard.c - what the scan in front of protobuf-c lets through.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/guard.h"

#include "proto/schema/tensorflow.pb-c.h"
#include "proto/pb/wire.h"
#include "tests/test.h"

enum { MIB = 1 << 20 };

/* A StructuredValue of lists in lists. */
static void nest(struct td_sink *out, int depth)
{
    struct td_err err = {0};
    size_t marks[300];
    for (int i = 0; i < depth; i++) {
        marks[i] = td_put_mark(out);
    }
    for (int i = depth - 1; i >= 0; i--) { /* list_value { values { ... } } */
        CHECK_OK(td_put_end(out, i % 2 ? 1 : 51, marks[i], &err));
    }
}

TEST(nesting_up_to_the_limit_passes)
{
    struct td_err err = {0};
    struct td_sink s = {0};
    ProtobufCMessage *m;
    nest(&s, TD_GUARD_DEPTH - 2);
    CHECK_OK(td_guard_unpack(&tensorflow__structured_value__descriptor, s.p, s.n, MIB, &m, &err));
    td_guard_free(m);
    s.n = 0;
    nest(&s, TD_GUARD_DEPTH + 2);
    CHECK_INT(td_guard_unpack(&tensorflow__structured_value__descriptor, s.p, s.n, MIB, &m, &err),
              TD_INVALID_ARGUMENT);
    CHECK_STR(err.msg, "Parsing tensorflow.StructuredValue: messages nest deeper than 100");
    td_sink_fini(&s);
}

TEST(memory_is_bounded_before_it_is_taken)
{
    struct td_err err = {0};
    char nodes[2000];
    ProtobufCMessage *m;
    for (size_t i = 0; i < sizeof nodes; i += 2) { /* a thousand empty NodeDefs */
        nodes[i] = 0x0a;
        nodes[i + 1] = 0;
    }
    CHECK_INT(td_guard_unpack(&tensorflow__graph_def__descriptor, nodes, sizeof nodes, 10000, &m, &err),
              TD_RESOURCE_EXHAUSTED);
    err = (struct td_err){0};
    CHECK_OK(td_guard_unpack(&tensorflow__graph_def__descriptor, nodes, sizeof nodes, MIB, &m, &err));
    CHECK_INT(((Tensorflow__GraphDef *)m)->n_node, 1000);
    td_guard_free(m);
}

TEST(malformed_bytes_are_refused)
{
    static const char *const bad[] = {"\x0a", "\x0a\x05zz", "\x0b", "\x07",
                                      "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct td_err err = {0};
        ProtobufCMessage *m;
        CHECK_INT(td_guard_unpack(&tensorflow__graph_def__descriptor, bad[i], strlen(bad[i]), MIB, &m, &err),
                  TD_INVALID_ARGUMENT);
    }
}

TEST(a_singular_field_may_not_repeat_for_ever)
{
    struct td_err err = {0};
    char bytes[4000];
    ProtobufCMessage *m;
    for (size_t i = 0; i < sizeof bytes; i += 2) { /* versions {} */
        bytes[i] = 4 << 3 | 2;
        bytes[i + 1] = 0;
    }
    CHECK_INT(td_guard_unpack(&tensorflow__graph_def__descriptor, bytes, sizeof bytes, MIB, &m, &err),
              TD_INVALID_ARGUMENT);
}

/* A NodeDef's name. What files hold is taken as it is. */
TEST(texts_that_clients_send_are_utf8)
{
    static const char *const names[] = {"\x0a\x02\xc3\xa9", "\x0a\x02\xc3("};
    ProtobufCMessage *m;
    for (int i = 0; i < 2; i++) {
        struct td_err err = {0};
        CHECK_OK(td_guard_unpack(&tensorflow__node_def__descriptor, names[i], 4, MIB, &m, &err));
        td_guard_free(m);
        CHECK_INT(td_guard_unpack_sent(&tensorflow__node_def__descriptor, names[i], 4, MIB, &m, &err),
                  i == 0 ? TD_OK : TD_INVALID_ARGUMENT);
        if (i == 0) {
            td_guard_free(m);
        } else {
            CHECK_STR(err.msg, "Parsing tensorflow.NodeDef: a text that is no UTF-8 in tensorflow.NodeDef");
        }
    }
}

TEST(no_bytes_are_an_empty_message)
{
    struct td_err err = {0};
    ProtobufCMessage *m;
    CHECK_OK(td_guard_unpack(&tensorflow__graph_def__descriptor, NULL, 0, MIB, &m, &err));
    td_guard_free(m);
    td_guard_free(NULL);
}

TEST_MAIN(RUN(nesting_up_to_the_limit_passes) RUN(memory_is_bounded_before_it_is_taken)
              RUN(malformed_bytes_are_refused) RUN(a_singular_field_may_not_repeat_for_ever)
                  RUN(texts_that_clients_send_are_utf8) RUN(no_bytes_are_an_empty_message))
