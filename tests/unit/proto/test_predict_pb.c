/* tests/unit/proto/test_predict_pb.c - reading Serving requests from whole and scattered bytes, and writing
 * answers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/test.h"

#include "core/base/mem.h"
#include "proto/request/classify_pb.h"
#include "proto/pb/guard.h"
#include "proto/request/predict_pb.h"
#include "proto/schema/serving.pb-c.h"

#define BYTES(text) (text), sizeof(text) - 1

/* model_spec { name: "echo" version { value: 3 } signature_name: "s" }, inputs { "x": float[3] as content },
 * output_filter: "y" */
static const char request[] = "\x0a\x0d\x0a\x04"
                              "echo\x12\x02\x08\x03\x1a\x01s"
                              "\x12\x1b\x0a\x01x\x12\x16\x08\x01\x12\x04\x12\x02\x08\x03\x22\x0c"
                              "\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x40\x40"
                              "\x1a\x01y";

static struct td_arena *arena;

static enum td_code read_blocks(const char *bytes, size_t n, size_t block, struct td_predict_pb *out,
                                struct td_err *err)
{
    static struct td_seg seg[512];
    size_t n_seg = 0;
    for (size_t at = 0; at < n; at += block) {
        seg[n_seg++] = (struct td_seg){(const uint8_t *)bytes + at, n - at < block ? n - at : block};
        seg[n_seg++] = (struct td_seg){(const uint8_t *)"", 0}; /* empty blocks happen too */
    }
    struct td_wire w;
    td_wire_init(&w, seg, n_seg);
    arena = td_arena_new((size_t)1 << 20);
    return td_predict_read(w, arena, out, err);
}

TEST(a_request_reads_alike_however_it_is_cut)
{
    for (size_t block = 1; block <= sizeof request; block++) {
        struct td_err err = {0};
        struct td_predict_pb p;
        CHECK_OK(read_blocks(BYTES(request), block, &p, &err));
        CHECK(p.spec.present && p.spec.has_version && p.spec.label == NULL);
        CHECK_STR(p.spec.name, "echo");
        CHECK_STR(p.spec.signature, "s");
        CHECK_INT(p.spec.version, 3);
        CHECK_INT(p.n_filter, 1);
        CHECK_STR(p.filter[0], "y");
        CHECK_INT(p.n_in, 1);
        CHECK_STR(p.in[0].name, "x");
        struct td_tensor t = {0};
        CHECK_OK(td_wire_tensor(p.in[0].tensor, 1000, &t, &err));
        CHECK_INT(t.dtype, TD_FLOAT);
        CHECK_INT(t.shape.rank, 1);
        CHECK_INT(t.shape.dim[0], 3);
        CHECK(TD_DATA(&t, float)[0] == 1 && TD_DATA(&t, float)[1] == 2 && TD_DATA(&t, float)[2] == 3);
        td_tensor_clear(&t);
        td_arena_free(arena);
    }
}

TEST(every_cut_request_is_refused_or_shorter)
{
    for (size_t n = 0; n < sizeof request - 1; n++) {
        struct td_err err = {0};
        struct td_predict_pb p;
        if (read_blocks(request, n, 7, &p, &err)) {
            CHECK_INT(err.code, TD_INVALID_ARGUMENT);
        } else {
            CHECK(n == 0 || n == 15 || n == 44);
        }
        td_arena_free(arena);
    }
}

TEST(a_repeated_name_counts_once_and_last)
{
    struct td_err err = {0};
    struct td_predict_pb p;
    struct td_tensor t = {0};
    CHECK_OK(read_blocks(BYTES("\x12\x09\x0a\x01x\x12\x04\x08\x03\x3a\x00"
                               "\x12\x0a\x0a\x01x\x12\x05\x08\x03\x3a\x01\x2a"),
                         3, &p, &err));
    CHECK_INT(p.n_in, 1);
    CHECK_OK(td_wire_tensor(p.in[0].tensor, 1000, &t, &err));
    CHECK_INT(TD_DATA(&t, int32_t)[0], 42);
    td_tensor_clear(&t);
    td_arena_free(arena);
}

TEST(label_and_version_are_one_choice)
{
    struct td_err err = {0};
    struct td_predict_pb p;
    CHECK_OK(read_blocks(BYTES("\x0a\x0c\x12\x02\x08\x05\x22\x06"
                               "canary"),
                         100, &p, &err));
    CHECK(!p.spec.has_version);
    CHECK_STR(p.spec.label, "canary");
    td_arena_free(arena);
    CHECK_OK(read_blocks(BYTES("\x0a\x07\x22\x01"
                               "c\x12\x02\x08\x05"),
                         100, &p, &err));
    CHECK(p.spec.has_version && p.spec.label == NULL);
    td_arena_free(arena);
    CHECK_INT(read_blocks(BYTES("\x0a\x09\x22\x07"
                                "canary\x00"),
                          100, &p, &err),
              TD_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "text 'canary...' holds a NUL byte") != NULL);
    td_arena_free(arena);
}

TEST(unknown_fields_and_groups_are_skipped)
{
    struct td_err err = {0};
    struct td_predict_pb p;
    /* client_id = 6 bytes, group 20 holding a varint and a group, fixed64 21, fixed32 22, then the model's
     * name */
    CHECK_OK(read_blocks(BYTES("\x32\x02zz\xa3\x01\x08\x05\xab\x01\xac\x01\xa4\x01\xa9\x01"
                               "12345678\xb5\x01"
                               "1234"
                               "\x0a\x03\x0a\x01m"),
                         2, &p, &err));
    CHECK_STR(p.spec.name, "m");
    td_arena_free(arena);
    CHECK_INT(read_blocks(BYTES("\xa3\x01\x08\x05"), 2, &p, &err), TD_INVALID_ARGUMENT);
    td_arena_free(arena);
    err = (struct td_err){0};
    CHECK_INT(read_blocks(BYTES("\xa4\x01"), 2, &p, &err), TD_INVALID_ARGUMENT);
    td_arena_free(arena);
}

static enum td_code tensor(const char *bytes, size_t n, struct td_tensor *out, struct td_err *err)
{
    const struct td_seg seg = {(const uint8_t *)bytes, n};
    struct td_wire w;
    td_wire_init(&w, &seg, 1);
    *err = (struct td_err){0};
    return td_wire_tensor(w, 1 << 20, out, err);
}

TEST(tensors_that_do_not_add_up_are_refused)
{
    struct td_err err;
    struct td_tensor t = {0};
    CHECK_INT(tensor(BYTES("\x08\x01\x12\x04\x12\x02\x08\x03\x22\x04"
                           "1234"),
                     &t, &err),
              TD_INVALID_ARGUMENT);
    CHECK(tensor(BYTES("\x08\x63\x12\x04\x12\x02\x08\x03"), &t, &err) != TD_OK);
    CHECK(tensor(BYTES("\x08\x01\x12\x08\x12\x06\x08\xff\xff\xff\xff\x0f"), &t, &err) != TD_OK);
    CHECK(tensor(BYTES("\x08\x01\x12\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), &t, &err) !=
          TD_OK);
    CHECK_INT(tensor(BYTES("\x08\x0a\x12\x04\x12\x02\x08\x02\x22\x02\x07\x00"), &t, &err), TD_OK);
    CHECK_INT(TD_DATA(&t, td_bool)[0], 1); /* any byte but 0 is true, and becomes 1 */
    td_tensor_clear(&t);
}

TEST(an_answer_is_what_protobuf_reads)
{
    for (int as_content = 0; as_content < 2; as_content++) {
        struct td_err err = {0};
        struct td_named out[2] = {{.name = "a"}, {.name = "b"}};
        const struct td_shape shape = td_shape_vector(3), scalar = td_shape_scalar();
        CHECK_OK(td_tensor_new(&out[0].t, TD_INT64, &shape, &err));
        for (int i = 0; i < 3; i++) {
            TD_DATA(&out[0].t, int64_t)[i] = i - 1;
        }
        CHECK_OK(td_tensor_new(&out[1].t, TD_STRING, &scalar, &err));
        CHECK_OK(td_tensor_set_str(&out[1].t, 0, "text", 4, &err));
        struct td_sink s = {0};
        const struct td_predict_answer answer = {
            .out = out, .n_out = 2, .name = "m", .signature = "sig", .version = 12, .as_content = as_content};
        CHECK_OK(td_predict_write(&answer, &s, &err));
        CHECK_INT(s.n, s.cap);
        ProtobufCMessage *m;
        CHECK_OK(
            td_guard_unpack(&tensorflow__serving__predict_response__descriptor, s.p, s.n, 1 << 20, &m, &err));
        const Tensorflow__Serving__PredictResponse *r = (const Tensorflow__Serving__PredictResponse *)m;
        CHECK_STR(r->model_spec->name, "m");
        CHECK_STR(r->model_spec->signature_name, "sig");
        CHECK_INT(r->model_spec->version->value, 12);
        CHECK_INT(r->n_outputs, 2);
        CHECK_STR(r->outputs[0]->key, "a");
        CHECK_INT(r->outputs[0]->value->n_int64_val, as_content ? 0 : 3);
        CHECK_INT(r->outputs[0]->value->tensor_content.len, as_content ? 24 : 0);
        CHECK_INT(r->outputs[1]->value->n_string_val, 1);
        td_guard_free(m);
        td_sink_fini(&s);
        td_tensor_clear(&out[0].t);
        td_tensor_clear(&out[1].t);
    }
}

static enum td_code input(const char *bytes, size_t n, uint64_t max, struct td_tensor *t, struct td_err *err)
{
    const struct td_seg seg = {(const uint8_t *)bytes, n};
    struct td_wire w;
    td_wire_init(&w, &seg, 1);
    *err = (struct td_err){0};
    return td_input_read(w, max, t, err);
}

TEST(examples_get_their_context)
{
    struct td_err err;
    struct td_tensor t = {0};
    size_t n;
    CHECK_INT(input(BYTES("\x12\x0a\x12\x02ZZ\x0a\x02"
                          "ab\x0a\x00"),
                    100, &t, &err),
              TD_OK);
    CHECK_INT(t.shape.dim[0], 2);
    CHECK_STR(td_tensor_str(&t, 0, &n), "ZZab");
    CHECK_STR(td_tensor_str(&t, 1, &n), "ZZ");
    td_tensor_clear(&t);
    CHECK_INT(input(BYTES("\x0a\x06\x12\x02ZZ\x0a\x00"), 100, &t, &err),
              TD_OK); /* a plain list has no context */
    CHECK_STR(td_tensor_str(&t, 0, &n), "");
    td_tensor_clear(&t);
    CHECK_INT(input("", 0, 100, &t, &err), TD_INVALID_ARGUMENT);
    CHECK_STR(err.msg, "Input is empty.");
    CHECK_INT(input(BYTES("\x12\x0a\x12\x02ZZ\x0a\x02"
                          "ab\x0a\x00"),
                    5, &t, &err),
              TD_RESOURCE_EXHAUSTED);
}

TEST_MAIN(RUN(a_request_reads_alike_however_it_is_cut) RUN(every_cut_request_is_refused_or_shorter)
              RUN(a_repeated_name_counts_once_and_last) RUN(label_and_version_are_one_choice)
                  RUN(unknown_fields_and_groups_are_skipped) RUN(tensors_that_do_not_add_up_are_refused)
                      RUN(an_answer_is_what_protobuf_reads) RUN(examples_get_their_context))
