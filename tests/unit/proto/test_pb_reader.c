/* tests/unit/proto/test_pb_reader.c - what the readers of a graph share, and shapes, byte by byte; and that
 * proto/schema/loader.proto gives the fields it takes the numbers that they have in
 * proto/schema/tensorflow.proto.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/pb_reader.h"

#include "core/base/mem.h"
#include "proto/schema/loader.pb-c.h"
#include "proto/pb/shape_pb.h"
#include "proto/schema/tensorflow.pb-c.h"
#include "tests/test.h"

static struct td_scan_field field_of(const char *text, size_t n)
{
    return (struct td_scan_field){.type = TD_WIRE_BYTES, .p = (const uint8_t *)text, .len = n};
}

TEST(words_are_copied_once)
{
    struct td_err err = {0};
    struct td_pb_reader r = {.arena = td_arena_new(1 << 20)};
    const char *a, *b, *other, *empty;
    char word[] = "MatMul";
    const struct td_scan_field first = field_of(word, 6);
    CHECK_OK(td_pb_name(&r, &first, &a, &err));
    CHECK_STR(a, "MatMul");
    CHECK_OK(td_pb_name(&r, &first, &b, &err));
    CHECK(a == b && a != word);
    word[1] = 'o';
    CHECK_OK(td_pb_name(&r, &first, &other, &err));
    CHECK_STR(other, "MotMul");
    CHECK_STR(a, "MatMul");
    const struct td_scan_field none = field_of("", 0);
    CHECK_OK(td_pb_name(&r, &none, &empty, &err));
    CHECK_STR(empty, "");
    td_arena_free(r.arena);
}

TEST(what_has_no_room_is_told)
{
    struct td_err err = {0};
    struct td_pb_reader r = {.arena = td_arena_new(64)};
    int64_t *n;
    const char *text;
    CHECK_OK(td_pb_room(&r, 0, sizeof *n, &n, &err));
    CHECK_INT(n[0], 0);
    CHECK_INT(td_pb_room(&r, SIZE_MAX / 4, sizeof *n, &n, &err), TD_RESOURCE_EXHAUSTED);
    const char long_text[100] = "x";
    const struct td_scan_field f = field_of(long_text, sizeof long_text);
    CHECK_INT(td_pb_text(&r, &f, &text, &err), TD_RESOURCE_EXHAUSTED);
    td_arena_free(r.arena);
}

TEST(entries_have_their_last_key_and_value)
{
    struct td_scan_field key, value;
    const char both[] = "\x0a\x01"
                        "a\x12\x02vw";
    struct td_scan_field f = field_of(both, sizeof both - 1);
    CHECK(td_pb_entry(&f, &key, &value));
    CHECK(key.len == 1 && key.p[0] == 'a' && value.len == 2 && value.p[1] == 'w');
    const char twice[] = "\x12\x01"
                         "v\x0a\x01"
                         "a\x0a\x01"
                         "b\x18\x05"; /* and a field that is not known */
    f = field_of(twice, sizeof twice - 1);
    CHECK(td_pb_entry(&f, &key, &value));
    CHECK(key.p[0] == 'b' && value.p[0] == 'v');
    f = field_of("", 0);
    CHECK(td_pb_entry(&f, &key, &value));
    CHECK(key.len == 0 && value.len == 0);
    f = field_of("\x0a\x05"
                 "a",
                 3);
    CHECK(!td_pb_entry(&f, &key, &value));
}

/* Reads a copy that ends where the bytes end, for the address sanitizer. */
static enum td_code read_shape(const char *bytes, size_t n, struct td_shape *out, struct td_err *err)
{
    uint8_t *copy = td_calloc(n + 1, 1);
    memcpy(copy + 1, bytes, n);
    const enum td_code rc = td_shape_from_bytes(copy + 1, n, out, err);
    td_free(copy);
    return rc;
}

TEST(shapes)
{
    struct td_err err = {0};
    struct td_shape s;
    CHECK_OK(read_shape("", 0, &s, &err));
    CHECK_INT(s.rank, 0);
    CHECK_OK(read_shape("\x12\x02\x08\x03\x12\x00", 6, &s, &err)); /* a dim without a size has none */
    CHECK(s.rank == 2 && s.dim[0] == 3 && s.dim[1] == 0);
    CHECK_OK(read_shape("\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13, &s, &err));
    CHECK(s.rank == 1 && s.dim[0] == -1);
    CHECK_OK(read_shape("\x12\x02\x08\x03\x18\x01", 6, &s, &err)); /* unknown_rank */
    CHECK(s.rank < 0);
    CHECK_OK(read_shape("\x12\x06\x08\x04\x12\x02"
                        "ab",
                        8, &s, &err)); /* a dim's name */
    CHECK(s.rank == 1 && s.dim[0] == 4);
    char deep[2 * (TD_MAX_RANK + 1)];
    for (size_t i = 0; i < sizeof deep; i += 2) {
        deep[i] = 0x12;
        deep[i + 1] = 0;
    }
    CHECK_OK(read_shape(deep, sizeof deep - 2, &s, &err));
    CHECK_INT(s.rank, TD_MAX_RANK);
    CHECK_INT(read_shape(deep, sizeof deep, &s, &err), TD_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "rank") != NULL);
    CHECK_INT(read_shape("\x12\x02\x08\x80", 4, &s, &err), TD_INVALID_ARGUMENT);
    CHECK_INT(read_shape("\x12\x05\x08", 3, &s, &err), TD_INVALID_ARGUMENT);
    /* -2 is no size */
    CHECK_INT(read_shape("\x12\x0b\x08\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 13, &s, &err),
              TD_INVALID_ARGUMENT);
}

TEST(types)
{
    struct td_err err = {0};
    enum td_dtype t;
    CHECK_OK(td_dtype_from_number(1, &t, &err));
    CHECK_INT(t, TD_FLOAT);
    CHECK_OK(td_dtype_from_number(103, &t, &err)); /* a reference */
    CHECK_INT(t, TD_INT32);
    CHECK_OK(td_dtype_from_number(24, &t, &err)); /* float8 has no place here */
    CHECK_INT(t, TD_DTYPE_NONE);
    CHECK_INT(td_dtype_from_number(34, &t, &err), TD_INVALID_ARGUMENT);
    CHECK_INT(td_dtype_from_number(-1, &t, &err), TD_INVALID_ARGUMENT);
    CHECK_INT(td_dtype_from_number(134, &t, &err), TD_INVALID_ARGUMENT);
}

/* Every field of the loader's message is the whole one's: by name, number, and kind or bytes for a
 * message. */
static void check_subset(const ProtobufCMessageDescriptor *part, const ProtobufCMessageDescriptor *whole)
{
    CHECK(part->n_fields > 0);
    for (unsigned i = 0; i < part->n_fields; i++) {
        const ProtobufCFieldDescriptor *f = &part->fields[i];
        const ProtobufCFieldDescriptor *w = protobuf_c_message_descriptor_get_field_by_name(whole, f->name);
        CHECK(w != NULL);
        CHECK_INT(f->id, w->id);
        CHECK_INT(f->label, w->label);
        CHECK(f->type == w->type || (f->type == PROTOBUF_C_TYPE_BYTES && w->type == PROTOBUF_C_TYPE_MESSAGE));
    }
}

TEST(the_loader_reads_the_numbers_of_tensorflow)
{
    check_subset(&tensord__loader__meta_graph_def__descriptor, &tensorflow__meta_graph_def__descriptor);
    check_subset(&tensord__loader__signature_def__descriptor, &tensorflow__signature_def__descriptor);
    check_subset(&tensord__loader__meta_info_def__descriptor,
                 &tensorflow__meta_graph_def__meta_info_def__descriptor);
    check_subset(&tensord__loader__signature_def__defaults_entry__descriptor,
                 &tensorflow__signature_def__defaults_entry__descriptor);
}

TEST_MAIN(RUN(words_are_copied_once) RUN(what_has_no_room_is_told) RUN(entries_have_their_last_key_and_value)
              RUN(shapes) RUN(types) RUN(the_loader_reads_the_numbers_of_tensorflow))
