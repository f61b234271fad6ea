/* tests/unit/proto/test_attr_pb.c - AttrValue messages, byte by byte: the forms that an encoder may choose,
 * and what no encoder writes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/attr_pb.h"

#include "core/base/mem.h"
#include "proto/pb/wire.h"
#include "tests/test.h"

/* Reads a copy that ends where the bytes end, for the address sanitizer. The attribute is the arena's. */
static enum td_code read_bytes(struct td_arena *arena, const void *bytes, size_t n, struct td_attr *out,
                               struct td_err *err)
{
    struct td_pb_reader r = {.arena = arena, .tensor_bytes = 1 << 20};
    uint8_t *copy = td_calloc(n, 1);
    if (n > 0) {
        memcpy(copy, bytes, n);
    }
    enum td_code rc = td_attr_read(&r, "a", &(struct td_scan_field){.p = copy, .len = n}, out, err);
    td_free(copy);
    return rc;
}

#define READ(bytes) read_bytes(arena, bytes, sizeof bytes - 1, &a, &err)
#define SETUP                                                                                                \
    struct td_arena *arena = td_arena_new(1 << 20);                                                          \
    struct td_err err = {0};                                                                                 \
    struct td_attr a;

TEST(lists_come_packed_and_one_by_one)
{
    SETUP
    CHECK_OK(READ("\x0a\x05\x1a\x03\x01\xac\x02")); /* list { i: [1, 300] } */
    CHECK(a.kind == TD_ATTR_INT && a.is_list && a.n == 2 && a.i[0] == 1 && a.i[1] == 300);
    CHECK_OK(READ("\x0a\x05\x18\x01\x18\xac\x02"));
    CHECK(a.n == 2 && a.i[0] == 1 && a.i[1] == 300);
    CHECK_OK(READ("\x0a\x08\x1a\x02\x07\x08\x18\x09\x1a\x00")); /* both */
    CHECK(a.n == 3 && a.i[1] == 8 && a.i[2] == 9);
    CHECK_OK(READ("\x0a\x06\x22\x04\x00\x00\xc0\x3f")); /* f: 1.5 */
    CHECK(a.kind == TD_ATTR_FLOAT && a.n == 1 && a.f[0] == 1.5f);
    CHECK_OK(READ("\x0a\x05\x25\x00\x00\xc0\x3f"));
    CHECK(a.n == 1 && a.f[0] == 1.5f);
    CHECK_OK(READ("\x0a\x04\x2a\x02\x00\x02")); /* b */
    CHECK(a.kind == TD_ATTR_BOOL && a.n == 2 && !a.b[0] && a.b[1]);
    CHECK_OK(READ("\x0a\x03\x32\x01\x67")); /* type: DT_INT32_REF */
    CHECK(a.kind == TD_ATTR_TYPE && a.n == 1 && a.type[0] == TD_INT32);
    CHECK_OK(READ("\x0a\x00"));
    CHECK(a.kind == TD_ATTR_NONE && a.is_list && a.n == 0);
    td_arena_free(arena);
}

TEST(the_last_member_counts)
{
    SETUP
    CHECK_OK(READ("\x18\x07\x25\x00\x00\xc0\x3f")); /* i: 7, f: 1.5 */
    CHECK(a.kind == TD_ATTR_FLOAT && !a.is_list && a.f[0] == 1.5f);
    CHECK_OK(READ("\x18\x07\x1a\x01\x08\x58\x01")); /* i as bytes, and field 11: not known, skipped */
    CHECK(a.kind == TD_ATTR_INT && a.i[0] == 7);
    CHECK_OK(READ(""));
    CHECK(a.kind == TD_ATTR_NONE && a.n == 0);
    td_arena_free(arena);
}

TEST(bytes_that_are_no_value)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *text;
    } rows[] = {
        {"\x18", 1, "malformed"}, /* a varint without its value */
        {"\x12\x05"
         "ab",
         4, "malformed"},                                         /* longer than the message */
        {"\x0a\x04\x1a\x02\x01\x80", 6, "malformed"},             /* a packed varint that is cut */
        {"\x0a\x07\x22\x05\x00\x00\xc0\x3f\x00", 9, "malformed"}, /* a packed float and a quarter */
        {"\x0a\x04\x18\x01\x28\x01", 6, "more than one kind"},
        {"\x30\x63", 2, "99 is not a DataType"},
        {"\x3a\x04\x12\x02\x08\x80", 6, "malformed"}, /* a dim without its size's end */
        {"\x42\x02\x08\x01\x00", 5, "malformed"},
        {"\x52\x02\x12\x05", 4, "malformed"}, /* a function's attribute */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        SETUP
        CHECK_INT(read_bytes(arena, rows[i].bytes, rows[i].n, &a, &err), TD_INVALID_ARGUMENT);
        if (strstr(err.msg, rows[i].text) == NULL) {
            CHECK_STR(err.msg, rows[i].text);
        }
        td_arena_free(arena);
    }
}

/* func { name: "g" attr { key: "k" value { func { ... } } } }, so many deep. */
static struct td_sink nested(int depth)
{
    struct td_sink s = {0};
    struct td_err err = {0};
    for (int i = 0; i < depth; i++) {
        struct td_sink outer = {0};
        const size_t func = td_put_mark(&outer);
        CHECK_OK(td_put_text(&outer, 1, "g", &err));
        const size_t entry = td_put_mark(&outer);
        CHECK_OK(td_put_text(&outer, 1, "k", &err));
        CHECK_OK(td_put_bytes(&outer, 2, s.p, s.n, &err));
        CHECK_OK(td_put_end(&outer, 2, entry, &err));
        CHECK_OK(td_put_end(&outer, 10, func, &err));
        td_sink_fini(&s);
        s = outer;
    }
    return s;
}

TEST(functions_nest_so_deep_and_no_deeper)
{
    for (int depth = 31; depth <= 33; depth += 2) {
        SETUP
        struct td_sink s = nested(depth);
        CHECK_INT(read_bytes(arena, s.p, s.n, &a, &err), depth < 32 ? TD_OK : TD_INVALID_ARGUMENT);
        CHECK(depth < 32 || strstr(err.msg, "functions nest deeper than 32") != NULL);
        td_sink_fini(&s);
        td_arena_free(arena);
    }
}

TEST_MAIN(RUN(lists_come_packed_and_one_by_one) RUN(the_last_member_counts) RUN(bytes_that_are_no_value)
              RUN(functions_nest_so_deep_and_no_deeper))
