/* tests/unit/server/test_train_formats.c - training files as CSV and TFRecord, and pictures in all of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/rows.h"

#include "kernels/media/picture.h"
#include "proto/bytes/tfrecord.h"
#include "tests/unit/server/train_make.h"
#include "tests/unit/server/train_rows.h"

static const struct make_info XS[] = {{"b", TD_BOOL, 1, {-1}},
                                      {"m", TD_FLOAT, 3, {-1, 2, 2}},
                                      {"s", TD_STRING, 1, {-1}},
                                      {"x", TD_FLOAT, 2, {-1, 3}},
                                      {0}};
static const struct make_info X3[] = {{"x", TD_FLOAT, 2, {-1, 3}}, {0}};
static const struct make_info Y1[] = {{"y", TD_FLOAT, 2, {-1, 1}}, {0}};
static const struct make_info TWO[] = {{"kind", TD_FLOAT, 2, {-1, 4}}, {"price", TD_FLOAT, 1, {-1}}, {0}};
#define TWO_LOSSES                                                                                           \
    "'loss':[{'name':'sparse_categorical_crossentropy','output':'kind','target':'targets.kind'},"            \
    "{'name':'mse','output':'price','target':'targets.price'}],'shuffle':false"

/* ------------------------------------------------------------------ CSV */

TEST(csv_cells_are_values)
{
    setup("", "'loss':{'name':'mse'},'shuffle':false", XS, Y1);
    opens("A.CSV", "\xef\xbb\xbf"
                   "s,x[0],x[2],x[1],m,b,targets,note,sample_weight\r\n"
                   "plain, 1,3,2,'[[1,2],[3,4]]',True,9,n,\r\n\n"
                   "'with, comma and ''quote''\nand line',+4,6,5e1,'[[5,6],[7,8]]',0,[8],,0.5");
    CHECK_INT(td_rows_count(rows), 2);
    first_batch(4);
    CHECK(TD_DATA(&batch.tensor[0], td_bool)[0] == 1 && TD_DATA(&batch.tensor[0], td_bool)[1] == 0);
    is_floats(1, "[2,2,2]", (const float[]){1, 2, 3, 4, 5, 6, 7, 8});
    size_t n;
    CHECK_STR(td_tensor_str(&batch.tensor[2], 0, &n), "plain");
    CHECK_STR(td_tensor_str(&batch.tensor[2], 1, &n), "with, comma and \"quote\"\nand line");
    is_floats(3, "[2,3]", (const float[]){1, 2, 3, 4, 50, 6});
    is_floats(4, "[2,1]", (const float[]){9, 8});
    is_floats(5, "[2]", (const float[]){1, 0.5f});
    done();
}

TEST(csv_columns_are_targets_by_key)
{
    setup("", TWO_LOSSES, X3, TWO);
    opens("a.csv", "price,x,targets.kind,sample_weight.kind,sample_weight\n1.5,'[1,2,3]',3,2,4\n");
    first_batch(1);
    is_ints(1, "[1]", (const int64_t[]){3});
    is_floats(2, "[1,1]", (const float[]){1.5f});
    is_floats(3, "[1]", (const float[]){2});
    is_floats(4, "[1]", (const float[]){4});
    done();
}

static const struct {
    const char *text, *words;
} WRONG[] = {
    {"", "empty"},
    {"x,targets\n", "empty"},
    {"x;targets\n'[1,2,3]';1\n",
     "line 1: the header has no column for input x (columns are separated by commas)"},
    {"x[0],x[2],targets\n1,2,3\n", "line 1: the header has no column for input x[1]"},
    {"x,x,targets\n1,2,3\n", "line 1: column 2, 'x', is given twice"},
    {"x,x[0],targets\n1,2,3\n", "line 1: column 2, 'x[0]', is given twice"},
    {"x,label\n1,2\n", "line 1: the header has no column for targets"},
    {"x,targets\n\n'[1,2,3]',1\n'[1,2,3]'\n", "row 4: 1 cells, the header has 2"},
    {"x,targets\n'[1,2]',1\n", "row 2: input x is of shape [2], want [3]"},
    {"x,targets\n'[1,2,3]',\n", "row 2: targets is empty"},
    {"x,targets\n'[1,2,3]','1,5'\n", "row 2: targets is '1,5', want one value"},
    {"x,targets\n'[1,2,3]',abc\n", "row 2: targets: "},
    {"x,targets\n'[1,2,3]',nan\n", "row 2: targets: "},
    {"x,targets\n'[1,2,3]',NaN\n", "row 2: targets: number 1 is beyond"},
    {"x[0],x[1],x[2],targets\n1,,3,4\n", "row 2: input x[1] is empty"},
    {"x,targets\n'[1,2,3]',1\n'[1,2,3],2\n", "row 3: column 1: a quote is not closed"},
    {"x,targets\n'[1,2,3]'x,1\n", "row 2: column 1: text after a closing quote"},
    {"x,targets\n'[1,2,3]',1'2'\n", "row 2: column 2: a quote inside a cell"},
    {"PK\x03\x04\n", "line 1: the file is a ZIP archive"},
};

TEST(what_is_wrong_with_csv_is_named)
{
    setup("", "'loss':{'name':'mse'}", X3, Y1);
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        refuses("a.csv", WRONG[i].text, WRONG[i].words);
    }
    done();
}

/* ------------------------------------------------------------------ TFRecord */

static struct td_sink file; /* records */
static struct td_err err;

static void put_varint(struct td_sink *s, uint64_t v)
{
    char c;
    do {
        c = (char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        CHECK_OK(td_sink_put(s, &c, 1, &err));
        v >>= 7;
    } while (v > 0);
}

/* A field of bytes. */
static void put_bytes(struct td_sink *s, int number, const void *p, size_t n)
{
    put_varint(s, (uint64_t)number << 3 | 2);
    put_varint(s, n);
    CHECK_OK(td_sink_put(s, p, n, &err));
}

/* Into the features: name -> a list (1 bytes, 2 float, 3 int64) whose bytes are given. */
static void put_feature(struct td_sink *features, const char *name, int kind, const struct td_sink *list)
{
    struct td_sink feature = {0}, entry = {0};
    put_bytes(&feature, kind, list->p, list->n);
    put_bytes(&entry, 1, name, strlen(name));
    put_bytes(&entry, 2, feature.p, feature.n);
    put_bytes(features, 1, entry.p, entry.n);
    td_sink_fini(&feature);
    td_sink_fini(&entry);
}

static void put_floats(struct td_sink *features, const char *name, const float *v, int n)
{
    struct td_sink list = {0};
    put_bytes(&list, 1, v, (size_t)n * 4);
    put_feature(features, name, 2, &list);
    td_sink_fini(&list);
}

static void put_ints(struct td_sink *features, const char *name, const int64_t *v, int n)
{
    struct td_sink list = {0}, packed = {0};
    for (int i = 0; i < n; i++) {
        put_varint(&packed, (uint64_t)v[i]);
    }
    put_bytes(&list, 1, packed.p, packed.n);
    put_feature(features, name, 3, &list);
    td_sink_fini(&packed);
    td_sink_fini(&list);
}

static void put_string(struct td_sink *features, const char *name, const void *p, size_t n)
{
    struct td_sink list = {0};
    put_bytes(&list, 1, p, n);
    put_feature(features, name, 1, &list);
    td_sink_fini(&list);
}

/* The example as a record of the file. */
static void put_record(struct td_sink *features)
{
    struct td_sink example = {0};
    put_bytes(&example, 1, features->p, features->n);
    CHECK_OK(td_tfrecord_put(&file, example.p, example.n, &err));
    td_sink_fini(&example);
    td_sink_fini(features);
    *features = (struct td_sink){0};
}

TEST(records_are_rows)
{
    struct td_sink f1 = {0};
    setup("", "'loss':{'name':'mse'},'shuffle':false", XS, Y1);
    for (int i = 0; i < 2; i++) {
        put_ints(&f1, "b", (const int64_t[]){i}, 1);
        put_floats(&f1, "m", (const float[]){1, 2, 3, (float)i}, 4);
        put_string(&f1, "s", "a\0b", 3);
        put_ints(&f1, "x", (const int64_t[]){-1, 2, 3}, 3);
        put_floats(&f1, "targets", (const float[]){7}, 1);
        if (i == 1) {
            put_floats(&f1, "sample_weight", (const float[]){0.25f}, 1);
        }
        put_record(&f1);
    }
    CHECK_INT(open_text("a.TFRecord", file.p, file.n), TD_OK);
    first_batch(4);
    CHECK(TD_DATA(&batch.tensor[0], td_bool)[1] == 1);
    is_floats(1, "[2,2,2]", (const float[]){1, 2, 3, 0, 1, 2, 3, 1});
    size_t n;
    CHECK(memcmp(td_tensor_str(&batch.tensor[2], 0, &n), "a\0b", 3) == 0 && n == 3);
    is_floats(3, "[2,3]", (const float[]){-1, 2, 3, -1, 2, 3});
    is_floats(5, "[2]", (const float[]){1, 0.25f});
    done();
    td_sink_fini(&file);
}

TEST(records_of_examples_train_models_of_examples)
{
    static const struct make_info in[] = {{"examples", TD_STRING, 1, {-1}}, {0}};
    struct td_sink f1 = {0};
    setup("", TWO_LOSSES, in, TWO);
    put_ints(&f1, "kind", (const int64_t[]){2}, 1);
    put_floats(&f1, "targets.price", (const float[]){3}, 1);
    put_floats(&f1, "price", (const float[]){4}, 1);
    put_floats(&f1, "sample_weight.price", (const float[]){5}, 1);
    put_floats(&f1, "sample_weight", (const float[]){6}, 1);
    put_record(&f1);
    CHECK_INT(open_text("a.tfrecord", file.p, file.n), TD_OK);
    first_batch(1);
    size_t n;
    CHECK(memcmp(td_tensor_str(&batch.tensor[0], 0, &n), file.p + 12, file.n - 16) == 0 && n == file.n - 16);
    is_ints(1, "[1]", (const int64_t[]){2});
    is_floats(2, "[1,1]", (const float[]){3});
    is_floats(3, "[1]", (const float[]){6});
    is_floats(4, "[1]", (const float[]){5});
    done();
    td_sink_fini(&file);
}

TEST(what_is_wrong_with_records_is_named)
{
    struct td_sink f1 = {0};
    setup("", "'loss':{'name':'sparse_categorical_crossentropy','output':'kind'}", X3, TWO);
    put_floats(&f1, "x", (const float[]){1, 2, 3}, 3);
    put_ints(&f1, "targets", (const int64_t[]){3}, 1);
    put_record(&f1);
    const size_t good = file.n;
    put_floats(&f1, "x", (const float[]){1, 2, 3}, 3);
    put_record(&f1);
    refuses_bytes("a.tfrecord", file.p, file.n, "row 2: targets is missing");
    refuses_bytes("a.tfrecord", file.p, file.n - 1, "row 2: the record is cut off");
    refuses_bytes("a.tfrecord", file.p, good + 5, "row 2: the record is cut off");
    file.p[good + 13] ^= 1;
    refuses_bytes("a.tfrecord", file.p, file.n, "row 2: the checksum of the record is wrong");
    file.p[good] ^= 1;
    refuses_bytes("a.tfrecord", file.p, file.n, "row 2: the checksum of the record's length is wrong");
    file.n = good;
    put_floats(&f1, "x", (const float[]){1, 2}, 2);
    put_record(&f1);
    refuses_bytes("a.tfrecord", file.p, file.n, "row 2: input x has 2 values, want shape [3]");
    file.n = good;
    put_string(&f1, "x", "abc", 3);
    put_record(&f1);
    refuses_bytes("a.tfrecord", file.p, file.n, "row 2: input x has bytes, want float");
    file.n = good;
    put_floats(&f1, "x", (const float[]){1, 2, 3}, 3);
    put_floats(&f1, "targets", (const float[]){1.5f}, 1);
    put_record(&f1);
    refuses_bytes("a.tfrecord", file.p, file.n, "row 2: targets is 1.5, want a class");
    file.n = good;
    CHECK_OK(td_tfrecord_put(&file, "\xff\xff", 2, &err));
    refuses_bytes("a.tfrecord", file.p, file.n, "row 2: the record is no tf.Example");
    refuses_bytes("a.tfrecord", "{}", 2, "row 1: the record is cut off");
    refuses_bytes("a.tfrecord", "{\"inputs\":[1,2,3]}", 18,
                  "row 1: the checksum of the record's length is wrong");
    done();
    td_sink_fini(&file);
}

/* ------------------------------------------------------------------ pictures */

static void base64(const uint8_t *p, size_t n, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t v =
            (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
        for (int k = 0; k < 4; k++) {
            *out++ = (size_t)k > n - i ? '=' : digits[v >> (18 - 6 * k) & 63];
        }
    }
    *out = '\0';
}

TEST(pictures_are_decoded)
{
    static const uint8_t pixels[2 * 3 * 3] = {0, 51, 255, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255};
    static const struct make_info bytes[] = {{"img", TD_UINT8, 4, {-1, 2, 3, 3}}, {0}};
    static const struct make_info floats[] = {{"img", TD_FLOAT, 4, {-1, -1, -1, 3}}, {0}};
    const struct td_picture p = {.frames = 1, .height = 2, .width = 3, .channels = 3};
    struct td_picture_out png = {0};
    char b64[4096], text[9000];
    CHECK_OK(td_png_encode(pixels, &p, -1, &png, &err));
    CHECK(png.len < 2000);
    base64(png.data, png.len, b64);
    snprintf(text, sizeof text,
             "{'inputs':{'b64':'%s'},'targets':1}\n{'targets':1,'inputs':{'img':{'b64':'%s'}}}\n", b64, b64);
    setup("", "'loss':{'name':'mse'},'shuffle':false", bytes, Y1);
    opens("a.jsonl", text);
    first_batch(2);
    CHECK_STR(TD_SHAPE_STR(&batch.tensor[0].shape), "[2,2,3,3]");
    CHECK(memcmp(batch.tensor[0].data, pixels, sizeof pixels) == 0);
    CHECK(memcmp((char *)batch.tensor[0].data + sizeof pixels, pixels, sizeof pixels) == 0);
    td_batch_clear(&batch);
    td_rows_close(rows);
    refuses("a.jsonl", "{'inputs':{'b64':'AAAA'},'targets':1}",
            "row 1: input img: b64 is neither a JPEG nor a PNG");
    refuses("a.jsonl", "{'inputs':{'b64':'A*=='},'targets':1}", "row 1: input img: b64 is not base64");
    done();
    setup("", "'loss':{'name':'mse'},'shuffle':false", floats, Y1);
    opens("a.jsonl", text);
    first_batch(1);
    CHECK(TD_DATA(&batch.tensor[0], float)[1] == 51.0f * (1.0f / 255.0f) &&
          TD_DATA(&batch.tensor[0], float)[2] == 1.0f);
    done();
    static const struct make_info large[] = {{"img", TD_UINT8, 4, {-1, 4, 3, 3}}, {0}};
    setup("", "'loss':{'name':'mse'},'shuffle':false", large, Y1);
    refuses("a.jsonl", text, "row 1: input img is of shape [2,3,3], want [4,3,3]");
    done();
    struct td_sink f1 = {0};
    setup("", "'loss':{'name':'mse'},'shuffle':false", bytes, Y1);
    put_string(&f1, "img", png.data, png.len);
    put_ints(&f1, "targets", (const int64_t[]){1}, 1);
    put_record(&f1);
    CHECK_INT(open_text("a.tfrecord", file.p, file.n), TD_OK);
    first_batch(1);
    CHECK(memcmp(batch.tensor[0].data, pixels, sizeof pixels) == 0);
    done();
    td_sink_fini(&file);
    td_free(png.data);
}

TEST_MAIN(RUN(csv_cells_are_values) RUN(csv_columns_are_targets_by_key) RUN(what_is_wrong_with_csv_is_named)
              RUN(records_are_rows) RUN(records_of_examples_train_models_of_examples)
                  RUN(what_is_wrong_with_records_is_named) RUN(pictures_are_decoded))
