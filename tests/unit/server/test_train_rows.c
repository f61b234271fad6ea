/* tests/unit/server/test_train_rows.c - JSON lines: what is read of them, and what is wrong with them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/rows.h"

#include <unistd.h>

#include "proto/bytes/mapping.h"
#include "tests/unit/server/train_rows.h"

static const struct make_info X3[] = {{"x", TD_FLOAT, 2, {-1, 3}}, {0}};
static const struct make_info Y1[] = {{"y", TD_FLOAT, 2, {-1, 1}}, {0}};
static const struct make_info K4[] = {{"y", TD_FLOAT, 2, {-1, 4}}, {0}};
static const struct make_info MANY[] = {{"flag", TD_BOOL, 1, {-1}},
                                        {"ids", TD_INT64, 2, {-1, -1}},
                                        {"img", TD_FLOAT, 3, {-1, 2, 2}},
                                        {"s", TD_STRING, 2, {-1, 2}},
                                        {0}};

TEST(rows_become_batches)
{
    setup("", "'loss':{'name':'mse'},'shuffle':false", X3, Y1);
    opens("a.jsonl",
          "\xef\xbb\xbf{'inputs':[1,2,3],'targets':4}\r\n\n  \n{'targets':[5],'other':[{'a':null}],'inputs':"
          "{'x':[6,-7.5,8e2]},'sample_weight':0.5}\n{'inputs':[0,0,0],'targets':1,'sample_weight':"
          "{'y':2,'z':3}}");
    CHECK_INT(td_rows_count(rows), 3);
    first_batch(8);
    CHECK(batch.rows == 3 && batch.all_rows == 3 && batch.n == 3);
    is_floats(0, "[3,3]", (const float[]){1, 2, 3, 6, -7.5f, 800, 0, 0, 0});
    is_floats(1, "[3,1]", (const float[]){4, 5, 1});
    is_floats(2, "[3]", (const float[]){1, 0.5f, 2});
    done();
}

TEST(inputs_of_every_kind)
{
    setup("'method':{'supervised':{'hyperparameters':{'batch_size':2}}},",
          "'loss':{'name':'mse'},'shuffle':false,'padding':{'ids':-1}", MANY, Y1);
    opens("a.jsonl",
          "{'inputs':{'flag':true,'ids':[9007199254740993],'img':[[1,2],[3,4]],'s':['a','"
          "\\u00e9\\ud83d\\ude00']},"
          "'targets':1}\n{'inputs':{'flag':false,'ids':[1,2,3],'img':[[5,6],[7,8]],'s':[{'b64':'AAE='},'']},"
          "'targets':1}\n{'inputs':{'flag':false,'ids':[],'img':[[5,6],[7,8]],'s':['','']},'targets':1}\n");
    first_batch(3);
    CHECK_STR(TD_SHAPE_STR(&batch.tensor[0].shape), "[3]");
    CHECK(TD_DATA(&batch.tensor[0], td_bool)[0] == 1 && TD_DATA(&batch.tensor[0], td_bool)[1] == 0);
    is_ints(1, "[3,3]", (const int64_t[]){9007199254740993, -1, -1, 1, 2, 3, -1, -1, -1});
    is_floats(2, "[3,2,2]", (const float[]){1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8});
    size_t n;
    CHECK_STR(td_tensor_str(&batch.tensor[3], 1, &n), "\xc3\xa9\xf0\x9f\x98\x80");
    CHECK(memcmp(td_tensor_str(&batch.tensor[3], 2, &n), "\0\1", 2) == 0 && n == 2);
    done();
}

TEST(classes_and_their_weights)
{
    setup(
        "",
        "'loss':{'name':'sparse_categorical_crossentropy','ignore_class':-1,'class_weight':{'1':2,'3':0.5}},"
        "'shuffle':false",
        X3, K4);
    opens("a.jsonl", "{'inputs':[1,2,3],'targets':1}\n{'inputs':[1,2,3],'targets':[3.0],'sample_weight':3}\n"
                     "{'inputs':[1,2,3],'targets':-1}\n");
    first_batch(3);
    is_ints(1, "[3]", (const int64_t[]){1, 3, -1});
    is_floats(2, "[3]", (const float[]){2, 1.5f, 1});
    done();
    setup("", "'loss':{'name':'categorical_crossentropy','class_weight':{'1':2}},'shuffle':false", X3, K4);
    opens("a.jsonl",
          "{'inputs':[1,2,3],'targets':[0,1,0,0]}\n{'inputs':[1,2,3],'targets':[0.2,0.1,0.4,0.3]}\n");
    first_batch(3);
    is_floats(2, "[2]", (const float[]){2, 1});
    done();
}

TEST(positions_have_weights_of_their_own)
{
    static const struct make_info tags[] = {{"y", TD_FLOAT, 3, {-1, -1, 5}}, {0}};
    setup("", "'loss':{'name':'sparse_categorical_crossentropy','class_weight':{'4':10}},'shuffle':false", X3,
          tags);
    opens("a.jsonl",
          "{'inputs':[1,2,3],'targets':[0,4],'sample_weight':[1,2]}\n{'inputs':[1,2,3],'targets':[1,2],"
          "'sample_weight':3}\n");
    first_batch(2);
    is_ints(1, "[2,2]", (const int64_t[]){0, 4, 1, 2});
    is_floats(2, "[2,2]", (const float[]){1, 20, 3, 3});
    td_batch_clear(&batch);
    td_rows_close(rows);
    refuses("a.jsonl", "{'inputs':[1,2,3],'targets':[0,4],'sample_weight':[1,2,3]}\n",
            "row 1: sample_weight.y is of shape [3], want a number or shape [2]");
    refuses("a.jsonl", "{'inputs':[1,2,3],'targets':[0,4]}\n{'inputs':[1,2,3],'targets':[1]}\n",
            "row 2: targets is of shape [1], other rows of its batch of [2]");
    done();
}

TEST(a_train_signature_looks_among_the_targets)
{
    static const struct make_info in[] = {{"x", TD_FLOAT, 2, {-1, 2}}, {"y", TD_INT64, 1, {-1}}, {0}};
    static const struct make_info out[] = {{"loss", TD_FLOAT, 0, {0}}, {0}};
    setup("", "'train_signature':'train','shuffle':false", in, out);
    opens("a.jsonl",
          "{'inputs':{'x':[1,2]},'targets':{'y':3,'note':'n'}}\n{'targets':{'y':4},'inputs':[5,6]}\n"
          "{'inputs':{'x':[7,8],'y':9},'targets':{'y':0}}\n");
    first_batch(3);
    is_floats(0, "[3,2]", (const float[]){1, 2, 5, 6, 7, 8});
    is_ints(1, "[3]", (const int64_t[]){3, 4, 9});
    td_batch_clear(&batch);
    td_rows_close(rows);
    refuses("a.jsonl", "{'inputs':{'x':[1,2]},'targets':3}\n", "row 1: input y is missing");
    done();
}

#define GOOD "{'inputs':[1,2,3],'targets':1}\n"
static const struct {
    const char *text, *words;
} WRONG[] = {
    {"", "empty"},
    {"\n\n  \n", "empty"},
    {GOOD "\n[1]", "line 3: a JSON list"},
    {"3", "line 1: a JSON value"},
    {GOOD "{'inputs':[1,2,3],'tar\n" GOOD, "line 2: the text ends inside a string at column"},
    {"{'inputs':[1,2,3],'targets':1,}", "line 1: no key in quotes"},
    {"{'inputs':[1,2,3],'targets':1} x", "line 1: text after the end of the value at column 32"},
    {"{'inputs':[1,2,3],'targets':1,'inputs':[1,2,3]}", "line 1: the key \"inputs\" is given twice"},
    {"{'inputs':[1,2,3],'targets':1,'a':{'b':1,'\\u0062':2}}", "line 1: the key \"\\u0062\" is given twice"},
    {"{'inputs':[1,2,NaN],'targets':1}", "line 1: no value that JSON has at column 16"},
    {"{'inputs':[1,2,3],'targets':-Infinity}", "line 1: no value that JSON has"},
    {"{'inputs':[1,2,03],'targets':1}", "line 1: no comma or ]"},
    {"{'inputs':[1,2,3.],'targets':1}", "line 1: no value"},
    {"{'inputs':[1,2,3],'targets':1,'a':'\\ud800'}", "line 1: half a surrogate pair"},
    {"{'inputs':[1,2,3],'targets':1,'a':'\\ude00'}", "line 1: half a surrogate pair"},
    {"{'inputs':[1,2,3],'targets':1,'a':'\\x'}", "line 1: an escape that JSON has not"},
    {"{'inputs':[1,2,3],'targets':1,'a':'\x01'}", "line 1: a control character"},
    {"{'inputs':[1,2,3],'targets':1,'a':'\xff'}", "line 1: a byte that is not UTF-8"},
    {"{'inputs':[1,2,3],'targets':1,'a':'\xed\xa0\x80'}", "line 1: a byte that is not UTF-8"},
    {"\x1f\x8b\x08", "line 1: the file is gzip"},
    {GOOD GOOD "{'inputs':[1,2,3]}", "row 3: targets is missing"},
    {"{'targets':1}", "row 1: input x is missing"},
    {"{'inputs':{},'targets':1}", "row 1: input x is missing"},
    {"{'inputs':{'x':[1,2,3],'z':1},'targets':1}", "row 1: inputs.z: the signature has no such input"},
    {"{'inputs':[1,2,3,4],'targets':1}", "row 1: input x is of shape [4], want [3]"},
    {"{'inputs':[[1,2],[3]],'targets':1}", "row 1: input x: Encountered list at unexpected size"},
    {"{'inputs':[1,'two',3],'targets':1}", "row 1: input x: JSON Value: \"two\""},
    {"{'inputs':[1e999,2,3],'targets':1}", "row 1: input x: number 1 is beyond what float holds"},
    {"{'inputs':[1,2,1e39],'targets':1}", "row 1: input x: number 3 is beyond what float holds"},
    {"{'inputs':null,'targets':1}", "row 1: input x: JSON Value: null"},
    {"{'inputs':[1,2,3],'targets':[1,2]}", "row 1: targets is of shape [2], want [1]"},
    {"{'inputs':[1,2,3],'targets':'a'}", "row 1: targets: JSON Value"},
    {"{'inputs':[1,2,3],'targets':1,'sample_weight':[1]}",
     "row 1: sample_weight.y is of shape [1], want a number"},
    {"{'inputs':[1,2,3],'targets':1,'sample_weight':'a'}", "row 1: sample_weight: JSON Value"},
    {"{'inputs':[1,2,3],'targets':1,'sample_weight':1e40}", "row 1: sample_weight is beyond"},
};

TEST(what_is_wrong_is_named_with_its_row)
{
    setup("", "'loss':{'name':'mse'}", X3, Y1);
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        refuses("a.jsonl", WRONG[i].text, WRONG[i].words);
    }
    CHECK(open_text("a.jsonl", "{\"a\":\0}", 7) != TD_OK); /* a NUL */
    done();
}

TEST(targets_keep_their_rules)
{
    setup("", "'loss':{'name':'sparse_categorical_crossentropy'}", X3, K4);
    refuses("a.jsonl", GOOD "{'inputs':[1,2,3],'targets':7}",
            "row 2: targets is 7, want a class, an integer from 0 to 3");
    refuses("a.jsonl", "{'inputs':[1,2,3],'targets':1.5}", "row 1: targets is 1.5");
    refuses("a.jsonl", "{'inputs':[1,2,3],'targets':-1}", "row 1: targets is -1");
    refuses("a.jsonl", "{'inputs':[1,2,3],'targets':[1,2]}", "row 1: targets is of shape [2]");
    done();
    setup("", "'loss':{'name':'categorical_crossentropy'}", X3, K4);
    refuses("a.jsonl", "{'inputs':[1,2,3],'targets':[1,0,0,0,0]}",
            "row 1: targets is of shape [5], want [4]");
    done();
    setup("", "'loss':{'name':'binary_crossentropy'}", X3, Y1);
    refuses("a.jsonl", "{'inputs':[1,2,3],'targets':2}", "row 1: targets is 2, want a number from 0 to 1");
    done();
    setup("", "'loss':{'name':'hinge'}", X3, Y1);
    refuses("a.jsonl", "{'inputs':[1,2,3],'targets':0.5}", "row 1: targets is 0.5, want 0 or 1, or -1 or 1");
    opens("a.jsonl", "{'inputs':[1,2,3],'targets':-1}");
    done();
    setup("", "'loss':{'name':'mse','target':'targets.k'}", X3, Y1);
    refuses("a.jsonl", "{'inputs':[1,2,3],'targets':{'j':1}}", "row 1: targets.k is missing");
    refuses("a.jsonl", "{'inputs':[1,2,3],'targets':1}", "row 1: targets.k is missing");
    done();
}

TEST(nesting_and_length_have_limits)
{
    setup("", "'loss':{'name':'mse'}", X3, Y1);
    char *text = malloc(300000);
    size_t n = (size_t)snprintf(text, 100, "{\"inputs\":[1,2,3],\"targets\":1}\n{\"inputs\":");
    memset(text + n, '[', 100000);
    memset(text + n + 100000, ']', 100000);
    CHECK(open_text("a.jsonl", text, n + 200000) != TD_OK);
    CHECK(strstr(f.err.msg, "line 2: lists and objects are nested more than 64 deep") != NULL);
    free(text);
    snprintf(path, sizeof path, "%s/long.jsonl", dir.path);
    FILE *file = fopen(path, "wb");
    fputs("{\"inputs\":[1,2,3],\"targets\":1}\n", file);
    fclose(file);
    CHECK_INT(truncate(path, (off_t)TD_ROW_BYTES + 100), 0); /* one row of NULs */
    const struct td_rows_opts o = {.path = path,
                                   .name = path,
                                   .param = "training_file",
                                   .scratch = dir.path,
                                   .layout = layout,
                                   .spec = spec};
    f = (struct td_fault){.err.code = TD_OK};
    CHECK(td_rows_open(&o, &rows, &f) != TD_OK);
    CHECK(strstr(f.err.msg, "row 2: longer than 64 MiB") != NULL);
    done();
}

/* ------------------------------------------------------------------ order */

/* n rows, x = [i, i, i], target i. */
static void open_counted(int64_t n)
{
    char *text = malloc((size_t)n * 64);
    size_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        at += (size_t)snprintf(text + at, 64, "{\"inputs\":[%lld,1,1],\"targets\":%lld}\n%s", (long long)i,
                               (long long)i, i % 7 == 0 ? "\n" : "");
    }
    CHECK_INT(open_text("n.jsonl", text, at), TD_OK);
    free(text);
}

/* Marks rows of an epoch in seen, in order; returns how many. */
static int64_t walk(const struct td_epoch *e, int64_t *order)
{
    struct td_batches *b;
    int64_t n = 0;
    CHECK_INT(td_batches_open(e, &b, &f), TD_OK);
    for (;;) {
        CHECK_INT(td_batches_next(b, &batch, &f), TD_OK);
        if (batch.all_rows == 0) {
            break;
        }
        for (int64_t i = 0; i < batch.rows; i++) {
            order[n++] = (int64_t)TD_DATA(&batch.tensor[1], float)[i];
        }
        td_batch_clear(&batch);
    }
    td_batches_close(b);
    return n;
}

TEST(an_epoch_is_a_permutation_that_resumes)
{
    enum { N = 1003 };
    static int64_t a[N], b[N], c[N], part[3][N];
    static int seen[N];
    setup("", "'loss':{'name':'mse'}", X3, Y1);
    open_counted(N);
    struct td_epoch e = {.rows = rows, .batch_size = 32, .seed = 5, .shuffle = true};
    CHECK_INT(walk(&e, a), N);
    for (int i = 0; i < N; i++) {
        seen[a[i]]++;
    }
    int same = 0;
    for (int i = 0; i < N; i++) {
        CHECK_INT(seen[i], 1);
        same += a[i] == i;
    }
    CHECK(same < 20);
    e.from_batch = 10;
    CHECK_INT(walk(&e, b), N - 320);
    CHECK(memcmp(a + 320, b, (N - 320) * sizeof *a) == 0);
    e.from_batch = 0;
    e.epoch = 1;
    CHECK_INT(walk(&e, c), N);
    CHECK(memcmp(a, c, sizeof a) != 0);
    /* three parts together are the whole, batch by batch */
    e.epoch = 0;
    e.n_parts = 3;
    int64_t n[3], at[3] = {0};
    for (e.part = 0; e.part < 3; e.part++) {
        n[e.part] = walk(&e, part[e.part]);
    }
    CHECK_INT(n[0] + n[1] + n[2], N);
    for (int i = 0; i < N; i += 32) {
        const int rows_of = N - i < 32 ? N - i : 32;
        for (int k = 0, p = 0; p < 3; p++) {
            for (int to = rows_of * (p + 1) / 3; k < to; k++) {
                CHECK_INT(part[p][at[p]++], a[i + k]);
            }
        }
    }
    e = (struct td_epoch){.rows = rows, .batch_size = 32};
    CHECK_INT(walk(&e, a), N);
    for (int i = 0; i < N; i++) {
        CHECK_INT(a[i], i);
    }
    done();
}

TEST(batches_may_be_left_unread)
{
    setup("", "'loss':{'name':'mse'}", X3, Y1);
    open_counted(100);
    struct td_batches *b;
    const struct td_epoch e = {.rows = rows, .batch_size = 8};
    CHECK_INT(td_batches_open(&e, &b, &f), TD_OK);
    td_batches_close(b);
    CHECK_INT(td_batches_open(&e, &b, &f), TD_OK);
    CHECK_INT(td_batches_next(b, &batch, &f), TD_OK);
    td_batches_close(b);
    done();
}

TEST(a_file_that_changes_is_an_error)
{
    td_mapping_install_handler();
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        setup("", "'loss':{'name':'mse'}", X3, Y1);
        open_counted(1000);
        CHECK_INT(truncate(path, 100), 0);
        struct td_batches *b;
        const struct td_epoch e = {.rows = rows, .batch_size = 1000, .shuffle = shuffle != 0};
        CHECK_INT(td_batches_open(&e, &b, &f), TD_OK);
        CHECK(td_batches_next(b, &batch, &f) != TD_OK);
        CHECK(strstr(f.err.msg, "shorter") != NULL);
        CHECK_STR(f.code, "invalid_training_file");
        td_batches_close(b);
        done();
    }
}

TEST(the_row_of_an_uneven_batch_is_named)
{
    static const struct make_info in[] = {{"ids", TD_INT64, 2, {-1, -1}}, {0}};
    setup("'method':{'supervised':{'hyperparameters':{'batch_size':2}}},", "'loss':{'name':'mse'}", in, Y1);
    opens("a.jsonl", "{'inputs':[1,2],'targets':1}\n\n{'inputs':[1],'targets':1}\n");
    struct td_batches *b;
    const struct td_epoch e = {.rows = rows, .batch_size = 2};
    CHECK_INT(td_batches_open(&e, &b, &f), TD_OK);
    CHECK(td_batches_next(b, &batch, &f) != TD_OK);
    CHECK_STR(f.err.msg,
              "row 3: input ids is of shape [1], other rows of its batch of [2] (tensord.padding makes "
              "rows equally long)");
    td_batches_close(b);
    done();
    setup("'method':{'supervised':{'hyperparameters':{'batch_size':2}}},",
          "'loss':{'name':'mse'},'shuffle':false", in, Y1);
    refuses("a.jsonl", "{'inputs':[1,2],'targets':1}\n\n{'inputs':[1],'targets':1}\n",
            "row 3: input ids is of shape");
    done();
}

TEST_MAIN(RUN(rows_become_batches) RUN(inputs_of_every_kind) RUN(classes_and_their_weights)
              RUN(positions_have_weights_of_their_own) RUN(a_train_signature_looks_among_the_targets)
                  RUN(what_is_wrong_is_named_with_its_row) RUN(targets_keep_their_rules)
                      RUN(nesting_and_length_have_limits) RUN(an_epoch_is_a_permutation_that_resumes)
                          RUN(batches_may_be_left_unread) RUN(a_file_that_changes_is_an_error)
                              RUN(the_row_of_an_uneven_batch_is_named))
