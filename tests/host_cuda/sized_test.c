/* tests/host_cuda/sized_test.c - steps on the host-run device whose results are as large as values say
 * (struct td_kernel_sized), beside the host: the same sizes and the same bits; and which of them go there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/function/placement.h"
#include "tests/host_cuda/same_bits.h"

enum { LARGE = 5000 }; /* elements: more than two tiles of any kernel */

static const enum td_dtype made_types[] = {TD_DOUBLE, TD_HALF,   TD_BFLOAT16, TD_INT8,   TD_UINT8,
                                           TD_INT16,  TD_UINT16, TD_INT32,    TD_UINT32, TD_INT64,
                                           TD_UINT64, TD_BOOL,   TD_COMPLEX64};
enum { MADE_TYPES = sizeof made_types / sizeof *made_types, REALS = MADE_TYPES - 1 };

/* ------------------------------------------------------------------ Where */

#define WHERE "r = Where {T:type=%s} (m)"

TEST(what_is_not_zero_is_found_where_it_is)
{
    static const int64_t dims[][4] = {{1}, {LARGE}, {7, 300}, {3, 2, 5}, {2, 31, 1, 64}};
    static const int ranks[] = {1, 1, 2, 3, 4};
    setup();
    for (int k = 0; k < MADE_TYPES; k++) {
        for (int s = 0; s < 5; s++) {
            same_of_one(graph(X MADE("m", "x") WHERE, made_types[k]),
                        whole(shape_of(ranks[s], dims[s]), 0, 3), makes(made_types[k]) + SIZED);
        }
    }
}

TEST(all_and_none_are_found)
{
    setup();
    same_of_one(graph(X NEGATED("m", "x") WHERE, TD_FLOAT), whole(td_shape_vector(LARGE), 1, 1),
                MAKES + SIZED);
    same_of_one(graph(X NEGATED("m", "x") WHERE, TD_FLOAT), whole(td_shape_vector(LARGE), 0, 1),
                MAKES + SIZED);
}

/* -0, NaN and what is flushed. */
TEST(zeros_are_what_the_host_takes_for_zeros)
{
    struct td_tensor x = floats(td_shape_vector(6));
    const float of[6] = {0.0F, -0.0F, NAN, 1e-42F, 1e-30F, -INFINITY};
    setup();
    memcpy(x.data, of, sizeof of);
    same(graph(X NEGATED("m", "x") WHERE, TD_FLOAT), &x, MAKES + SIZED);
    same(graph(X MADE("m", "x") WHERE, TD_DOUBLE), &x, makes(TD_DOUBLE) + SIZED);
    same(graph(X MADE("m", "x") WHERE, TD_HALF), &x, makes(TD_HALF) + SIZED);
    td_tensor_clear(&x);
}

/* ------------------------------------------------------------------ where steps go */

TEST(what_the_host_has_stays_there)
{
    setup();
    same_of_one(graph(X "r = Where {T:type=float} (x)", TD_FLOAT), whole(td_shape_vector(9), 0, 2), 0);
    same_of_one(graph(X "r = Unique {T:type=float; out_idx:type=int32} (x)", TD_FLOAT),
                whole(td_shape_vector(9), 0, 2), 0);
}

/* What comes of one sized step is read by the next where it is. */
TEST(results_stay_there_for_what_comes_behind)
{
    setup();
    same_of_one(
        X NEGATED("m",
                  "x") "w = Where {T:type=float} (m)\n"
                       "a = AddV2 {T:type=int64} (w, w)\n"
                       "u = UniqueV2 {T:type=int64; Taxis:type=int32; out_idx:type=int64} (a, int32[1] 1)\n"
                       "r = AddV2 {T:type=int64} (u:1, u:1)",
        whole(shape_of(2, (int64_t[]){40, 40}), 0, 2), 3 * MAKES + 2 * SIZED);
}

TEST(nothing_at_all_stays_on_the_host)
{
    setup();
    same_of_one(graph(X NEGATED("m", "x") WHERE, TD_FLOAT), whole(td_shape_vector(0), 0, 2), MAKES);
}

static void note_why(void *ctx, const struct td_placement *p)
{
    if (strcmp(p->node->op_name, "Where") == 0) {
        CHECK(p->fate == TD_FATE_STEP && strcmp(p->kernel, "where.cuda") == 0);
        snprintf(ctx, TEXT, "%s", p->why);
    }
}

TEST(placement_says_when_a_step_goes_there)
{
    struct td_tensor x = whole(td_shape_vector(9), 0, 2), r;
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    char why[TEXT] = "";
    setup();
    passed_open_with(&t, device_ops(), X NEGATED("m", "x") "r = Where {T:type=float} (m)", "r");
    const struct td_model_opts opts = {.ops = t.ops, .device = device};
    CHECK_INT(td_model_new(&opts, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    CHECK_INT(td_callable_run(f, &x, &r, NULL, &t.err), TD_OK);
    CHECK_INT(td_placement_each(f, note_why, why, &t.err), TD_OK);
    CHECK_STR(why, "runs there if a value that it reads lies there alone");
    td_tensor_clear(&r);
    td_tensor_clear(&x);
    td_model_unref(m);
    passed_close(&t);
}

/* ------------------------------------------------------------------ parts of weights */

static uint64_t sent(void)
{
    struct td_device_counts c;
    td_cuda_device_count(device, &c);
    return c.copied[TD_COPY_TO_DEVICE];
}

/* The rows are the host's, and go there once, as the weight would. */
TEST(rows_of_weights_are_sent_once)
{
    struct td_tensor x = whole(td_shape_vector(800), 0, 9), r;
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    setup();
    passed_open_with(&t, device_ops(),
                     X "p = _Rows {T:type=float; from:int=100; to:int=900} (float[4000] 1 2 3)\n"
                       "r = Mul {T:type=float} (p, x)",
                     "r");
    const struct td_model_opts opts = {.ops = t.ops, .device = device, .passes_off = "fold"};
    CHECK_INT(td_model_new(&opts, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    for (int run = 0; run < 2; run++) {
        const uint64_t before = sent();
        CHECK_INT(td_callable_run(f, &x, &r, NULL, &t.err), TD_OK);
        CHECK_INT(sent() - before, (run == 0 ? 2 : 1) * 800 * 4);
        td_tensor_clear(&r);
    }
    td_tensor_clear(&x);
    td_model_unref(m);
    passed_close(&t);
}

/* ------------------------------------------------------------------ DynamicPartition */

#define PARTS "p = Cast {SrcT:type=float; DstT:type=int32} (y)\n"
#define PARTITION(n)                                                                                         \
    XY MADE("m", "x") PARTS "s = DynamicPartition {num_partitions:int=" n "; T:type=%s} (m, p)\n"
#define PORT(i) "r = Identity {T:type=%s} (s:" i ")"

TEST(rows_go_to_their_parts_in_order)
{
    setup();
    for (int k = 0; k < MADE_TYPES; k++) {
        for (int i = 0; i < 4; i++) {
            static const char *const formats[] = {PARTITION("3") PORT("0"), PARTITION("3") PORT("1"),
                                                  PARTITION("3") PORT("2"), PARTITION("40") PORT("39")};
            const int parts = i < 3 ? 3 : 40;
            same_of_two(graph(formats[i], made_types[k]), whole(td_shape_matrix(70, 3), 0, 100),
                        whole(td_shape_vector(70), 0, parts), makes(made_types[k]) + MAKES + SIZED);
        }
    }
    same_of_two(graph(PARTITION("3") PORT("1"), TD_INT32), whole(td_shape_vector(LARGE), 0, 1000),
                whole(td_shape_vector(LARGE), 0, 3), makes(TD_INT32) + MAKES + SIZED);
    same_of_two(graph(PARTITION("3") PORT("1"), TD_INT32),
                whole(shape_of(3, (int64_t[]){20, 30, 2}), 0, 1000), whole(td_shape_matrix(20, 30), 0, 2),
                makes(TD_INT32) + MAKES + SIZED);
}

TEST(parts_may_have_all_or_nothing)
{
    setup();
    same_of_two(graph(PARTITION("3") PORT("1"), TD_INT64), whole(td_shape_vector(LARGE), 0, 9),
                whole(td_shape_vector(LARGE), 1, 1), makes(TD_INT64) + MAKES + SIZED);
    same_of_two(graph(PARTITION("3") PORT("2"), TD_INT64), whole(td_shape_vector(LARGE), 0, 9),
                whole(td_shape_vector(LARGE), 1, 1), makes(TD_INT64) + MAKES + SIZED);
    same_of_two(graph(PARTITION("3") PORT("1"), TD_INT64), whole(td_shape_matrix(5, 0), 0, 9),
                whole(td_shape_vector(5), 1, 1), makes(TD_INT64) + MAKES + SIZED);
}

TEST(parts_that_are_not_there_are_refused)
{
    setup();
    refused(graph(PARTITION("3") PORT("1"), TD_INT64), whole(td_shape_vector(LARGE), 0, 9),
            whole(td_shape_vector(LARGE), 0, 4));
    refused(graph(PARTITION("3") PORT("1"), TD_INT64), whole(td_shape_vector(9), 0, 9),
            whole(td_shape_vector(9), -1, 1));
}

/* ------------------------------------------------------------------ DynamicStitch */

#define STITCH(op) XY MADE("m", "x") PARTS "r = " op " {N:int=2; T:type=%s} (p, int32[2] 1 300, m, %s[2] 0 1)"
#define STITCH_ROWS                                                                                          \
    XY MADE("m", "x") PARTS "n = Neg {T:type=%s} (m)\n"                                                      \
                            "r = DynamicStitch {N:int=2; T:type=%s} (p, p, m, n)"

TEST(rows_are_put_together_the_last_one_staying)
{
    setup();
    for (int k = 0; k < MADE_TYPES; k++) {
        if (made_types[k] != TD_BOOL) {
            same_of_two(graph(STITCH("DynamicStitch"), made_types[k]), whole(td_shape_vector(70), 0, 100),
                        whole(td_shape_vector(70), 0, 90), makes(made_types[k]) + MAKES + SIZED);
        }
    }
    same_of_two(graph(STITCH("ParallelDynamicStitch"), TD_INT64), whole(td_shape_vector(LARGE), 0, 100),
                whole(td_shape_vector(LARGE), 0, 900), makes(TD_INT64) + MAKES + SIZED);
    same_of_two(graph(STITCH_ROWS, TD_DOUBLE), whole(td_shape_matrix(3000, 5), 0, 100),
                whole(td_shape_vector(3000), 0, 100000), makes(TD_DOUBLE) + 2 * MAKES + SIZED);
    same_of_two(graph(STITCH_ROWS, TD_DOUBLE), whole(shape_of(3, (int64_t[]){3, 30, 5}), 0, 100),
                whole(td_shape_matrix(3, 30), 0, 2), makes(TD_DOUBLE) + 2 * MAKES + SIZED);
    same_of_two(graph(STITCH_ROWS, TD_DOUBLE), whole(td_shape_vector(1), 1, 100),
                whole(td_shape_vector(1), 0, 1), makes(TD_DOUBLE) + 2 * MAKES + SIZED);
}

TEST(places_below_zero_are_refused)
{
    setup();
    refused(graph(STITCH("DynamicStitch"), TD_INT64), whole(td_shape_vector(70), 0, 100),
            whole(td_shape_vector(70), -2, 30));
}

/* ------------------------------------------------------------------ Unique */

#define UNIQUE(index, port, type)                                                                            \
    X MADE("m", "x") "s = UniqueWithCounts {T:type=%s; out_idx:type=" index "} (m)\n"                        \
                     "r = Identity {T:type=" type "} (s:" port ")"
#define ALONG(axis, port, type)                                                                              \
    X MADE(                                                                                                  \
        "m",                                                                                                 \
        "x") "s = UniqueWithCountsV2 {T:type=%s; Taxis:type=int32; out_idx:type=int32} (m, int32[1] " axis   \
             ")\n"                                                                                           \
             "r = Identity {T:type=" type "} (s:" port ")"

TEST(groups_are_numbered_as_they_come)
{
    static const int levels[] = {2, 100, 100000};
    setup();
    for (int k = 0; k < REALS; k++) {
        for (int i = 0; i < 3; i++) {
            const enum td_dtype t = made_types[k];
            const int64_t n = k % 4 == 0 ? LARGE : 300;
            same_of_one(graph(UNIQUE("int32", "0", "%s"), t), whole(td_shape_vector(n), 0, levels[i]),
                        makes(t) + SIZED);
            same_of_one(graph(UNIQUE("int32", "1", "int32"), t), whole(td_shape_vector(n), 0, levels[i]),
                        makes(t) + SIZED);
            same_of_one(graph(UNIQUE("int64", "2", "int64"), t), whole(td_shape_vector(n), 0, levels[i]),
                        makes(t) + SIZED);
        }
    }
}

TEST(slices_are_told_apart_along_an_axis)
{
    setup();
    for (int k = 0; k < REALS; k += 3) {
        const enum td_dtype t = made_types[k];
        same_of_one(graph(ALONG("0", "0", "%s"), t), whole(td_shape_matrix(LARGE, 3), 0, 5),
                    makes(t) + SIZED);
        same_of_one(graph(ALONG("1", "0", "%s"), t), whole(td_shape_matrix(2, 400), 0, 9), makes(t) + SIZED);
        same_of_one(graph(ALONG("-2", "0", "%s"), t), whole(shape_of(3, (int64_t[]){2, 300, 2}), 0, 2),
                    makes(t) + SIZED);
        same_of_one(graph(ALONG("1", "1", "int32"), t), whole(td_shape_matrix(2, 400), 0, 9),
                    makes(t) + SIZED);
        same_of_one(graph(ALONG("1", "2", "int32"), t), whole(td_shape_matrix(2, 400), 0, 9),
                    makes(t) + SIZED);
    }
}

/* NaN equals nothing; zeros and what is flushed are one, but for halves, of which zeros are two. */
TEST(numbers_are_equal_as_on_the_host)
{
    struct td_tensor x = floats(td_shape_vector(10));
    const float of[10] = {0.0F, -0.0F, NAN, NAN, 1e-42F, 1.0F, -1e-42F, INFINITY, INFINITY, 1.0F};
    setup();
    memcpy(x.data, of, sizeof of);
    same(graph(X NEGATED("m", "x") "s = Unique {T:type=float; out_idx:type=int32} (m)\n"
                                   "r = Identity {T:type=int32} (s:1)",
               TD_FLOAT),
         &x, MAKES + SIZED);
    same(graph(UNIQUE("int32", "1", "int32"), TD_DOUBLE), &x, makes(TD_DOUBLE) + SIZED);
    same(graph(UNIQUE("int32", "1", "int32"), TD_HALF), &x, makes(TD_HALF) + SIZED);
    same(graph(UNIQUE("int32", "1", "int32"), TD_BFLOAT16), &x, makes(TD_BFLOAT16) + SIZED);
    td_tensor_clear(&x);
}

/* ------------------------------------------------------------------ SparseSlice */

/* n entries of a tensor of `across` columns, row-major; shuffled: the same in another order. */
static struct td_tensor entries(int64_t n, int64_t across, bool shuffled)
{
    struct td_tensor x = floats(td_shape_matrix(n, 2));
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = shuffled ? (i * 7 + 3) % n : i;
        TD_DATA(&x, float)[2 * i] = (float)(at / across);
        TD_DATA(&x, float)[2 * i + 1] = (float)(at % across);
    }
    return x;
}

#define CUT(start, size)                                                                                     \
    XY "i = Cast {SrcT:type=float; DstT:type=int64} (x)\n" NEGATED(                                          \
        "v", "y") "s = SparseSlice {T:type=float} (i, v, "                                                   \
                  "int64[2] 1000 40, int64[2] " start ", int64[2] " size ")\n"
#define CUT_GRAD                                                                                             \
    CUT("3 5", "90 20")                                                                                      \
    "g = Neg {T:type=float} (s:1)\nr = SparseSliceGrad {T:type=float} (g, i, int64[2] 3 5, s)"

TEST(parts_of_sparse_tensors_are_the_hosts)
{
    static const char *const cases[] = {
        CUT("3 5", "90 20") "r = Identity {T:type=int64} (s)",
        CUT("3 5", "90 20") "r = Identity {T:type=float} (s:1)",
        CUT("-2 5", "9000 90") "r = Identity {T:type=int64} (s)",
        CUT("0 0", "1000 40") "r = Identity {T:type=int64} (s)",
        CUT("-2 5", "9000 90") "r = Identity {T:type=int64} (s:2)",
        CUT("990 0", "5 5") "r = Identity {T:type=float} (s:1)",
    };
    static const int64_t sizes[] = {1, 700, LARGE};
    setup();
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 3; k++) {
            same_of_two(cases[i], entries(sizes[k], 40, k == 1), whole(td_shape_vector(sizes[k]), 0, 100),
                        2 * MAKES + SIZED);
        }
    }
}

/* Entries in any order are gone through by one thread. */
TEST(gradients_go_to_where_the_part_was)
{
    setup();
    for (int i = 0; i < 2; i++) {
        same_of_two(CUT_GRAD, entries(700, 40, i == 1), whole(td_shape_vector(700), 0, 100),
                    4 * MAKES + SIZED);
        same_of_two(CUT_GRAD, entries(LARGE, 40, i == 1), whole(td_shape_vector(LARGE), 0, 100),
                    4 * MAKES + SIZED);
    }
}

/* Gradients of 50 segments, whose rows go to some of a table's; x: indices, y: ids of the segments. */
#define PICKED(op, t, index, out)                                                                            \
    XY "i0 = Cast {SrcT:type=float; DstT:type=" index "} (x)\nj0 = Cast {SrcT:type=float; DstT:type=int32} " \
       "(y)\n"                                                                                               \
       "i = AddV2 {T:type=" index "} (i0, i0)\nj = Neg {T:type=int32} (j0)\n"                                \
       "g0 = Range {Tidx:type=float} (float[] 0, float[] 150, float[] 1)\n"                                  \
       "g1 = Sqrt {T:type=float} (g0)\ng2 = Cast {SrcT:type=float; DstT:type=" t "} (g1)\n"                  \
       "g = Reshape {T:type=" t "; Tshape:type=int32} (g2, int32[2] 50 3)\n"                                 \
       "s = " op " {T:type=" t "; Tidx:type=" index "; Tsegmentids:type=int32} (g, i, j, int32[] 1000)\n"    \
       "r = Identity {T:type=" out "} (s:"

static void picked(const char *text, int n)
{
    struct outcome want, got;
    struct td_tensor in[2] = {whole(td_shape_vector(n), 0, 500), whole(td_shape_vector(n), -49, 50)};
    compute(text, NULL, in, &want);
    const uint64_t before = launches();
    compute(text, device, in, &got);
    CHECK_INT(got.rc, TD_OK);
    CHECK_INT(want.rc, TD_OK);
    CHECK(launches() - before >= SIZED + 2 * MAKES);
    CHECK(td_tensor_same(&want.r, &got.r));
    td_tensor_clear(&want.r);
    td_tensor_clear(&got.r);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

TEST(gradients_go_to_the_rows_that_were_picked)
{
    static const int counts[] = {1, 2, 700, LARGE};
    setup();
    for (int k = 0; k < 4; k++) {
        picked(PICKED("SparseSegmentSumGradV2", "float", "int32", "float") "0)\n", counts[k]);
        picked(PICKED("SparseSegmentMeanGradV2", "float", "int64", "float") "0)\n", counts[k]);
        picked(PICKED("SparseSegmentSqrtNGradV2", "double", "int32", "double") "0)\n", counts[k]);
        picked(PICKED("SparseSegmentSqrtNGradV2", "half", "int64", "half") "0)\n", counts[k]);
        picked(PICKED("SparseSegmentSumGradV2", "float", "int32", "int32") "1)\n", counts[k]);
        picked(PICKED("SparseSegmentMeanGradV2", "float", "int64", "int64") "1)\n", counts[k]);
    }
}

TEST(rows_that_cannot_be_picked_are_refused)
{
    static const char text[] = PICKED("SparseSegmentMeanGradV2", "float", "int32", "float") "0)\n";
    setup();
    refused(text, whole(td_shape_vector(9), 500, 1), whole(td_shape_vector(9), -49, 50));
    refused(text, whole(td_shape_vector(9), -1, 1), whole(td_shape_vector(9), -49, 50));
    refused(text, whole(td_shape_vector(9), 0, 500), whole(td_shape_vector(9), -50, 1));
}

#define SPLIT(axis, parts, port, t)                                                                          \
    XY "i = Cast {SrcT:type=float; DstT:type=int64} (x)\n" NEGATED(                                          \
        "v", "y") "s = SparseSplit {T:type=float; num_split:int=" parts "} (int64[] " axis                   \
                  ", i, v, int64[2] 1000 40)\nr = Identity {T:type=" t "} (s:" port ")"

TEST(all_parts_of_sparse_tensors_are_the_hosts)
{
    static const char *const cases[] = {
        SPLIT("1", "3", "0", "int64"),  SPLIT("1", "3", "1", "int64"),  SPLIT("1", "3", "5", "float"),
        SPLIT("-1", "3", "6", "int64"), SPLIT("1", "3", "8", "int64"),  SPLIT("0", "7", "1", "int64"),
        SPLIT("0", "7", "7", "float"),  SPLIT("0", "7", "13", "float"), SPLIT("1", "40", "39", "int64"),
    };
    static const int64_t sizes[] = {1, 700, LARGE};
    setup();
    for (int i = 0; i < 9; i++) {
        for (int k = 0; k < 3; k++) {
            same_of_two(cases[i], entries(sizes[k], 40, k == 1), whole(td_shape_vector(sizes[k]), 0, 100),
                        2 * MAKES + SIZED);
        }
    }
}

TEST(parts_that_cannot_be_are_refused)
{
    setup();
    refused(SPLIT("1", "41", "0", "int64"), entries(70, 40, false), whole(td_shape_vector(70), 0, 100));
    refused(SPLIT("2", "4", "0", "int64"), entries(70, 40, false), whole(td_shape_vector(70), 0, 100));
    refused(SPLIT("1", "4", "0", "int64"), entries(70, 70, false), whole(td_shape_vector(70), 0, 100));
    refused(CUT("3 5", "-1 20") "r = Identity {T:type=int64} (s)", entries(70, 40, false),
            whole(td_shape_vector(70), 0, 100));
    refused(CUT("0 0", "90 20") "r = SparseSliceGrad {T:type=float} (s:1, i, int64[2] 1 1, s)",
            entries(700, 40, false), whole(td_shape_vector(700), 0, 100));
}

/* ------------------------------------------------------------------ *FillEmptyRows */

#define FILLED(port, t)                                                                                      \
    XY "i = Cast {SrcT:type=float; DstT:type=int64} (x)\n" MADE(                                             \
        "v", "y") "s = SparseFillEmptyRows {T:type=%s} (i, v, int64[2] 900 40, %s[] 7)\n"                    \
                  "r = Identity {T:type=" t "} (s" port ")"
#define FILLED_RAGGED(rows, port, t)                                                                         \
    XY "i = Cast {SrcT:type=float; DstT:type=int64} (x)\n" MADE(                                             \
        "v", "y") "s = RaggedFillEmptyRows {T:type=%s} (i, v, int64[] " rows ", %s[] 7)\n"                   \
                  "r = Identity {T:type=" t "} (s" port ")"

TEST(empty_rows_get_the_value_that_is_given)
{
    static const char *const cases[] = {
        FILLED("", "int64"),
        FILLED(":1", "%s"),
        FILLED(":2", "bool"),
        FILLED(":3", "int64"),
        FILLED_RAGGED("9000", "", "int64"),
        FILLED_RAGGED("9000", ":1", "%s"),
        FILLED_RAGGED("900", ":2", "bool"),
        FILLED_RAGGED("900", ":3", "int64"),
    };
    static const int64_t sizes[] = {1, 700, LARGE};
    setup();
    for (int i = 0; i < 8; i++) {
        for (int k = 0; k < 3; k++) {
            const enum td_dtype t = made_types[(3 * i + k) % REALS];
            const struct td_shape s = i < 4 ? td_shape_matrix(sizes[k], 2) : td_shape_vector(sizes[k]);
            same_of_two(graph(cases[i], t), whole(s, 0, 900), whole(td_shape_vector(sizes[k]), 0, 100),
                        makes(t) + MAKES + SIZED);
        }
    }
}

TEST(entries_of_no_row_are_refused)
{
    setup();
    refused(graph(FILLED_RAGGED("900", "", "int64"), TD_INT64), whole(td_shape_vector(700), 300, 900),
            whole(td_shape_vector(700), 0, 100));
}

TEST_MAIN(
    RUN(what_is_not_zero_is_found_where_it_is) RUN(all_and_none_are_found)
        RUN(zeros_are_what_the_host_takes_for_zeros) RUN(what_the_host_has_stays_there)
            RUN(results_stay_there_for_what_comes_behind) RUN(nothing_at_all_stays_on_the_host)
                RUN(placement_says_when_a_step_goes_there) RUN(rows_of_weights_are_sent_once)
                    RUN(rows_go_to_their_parts_in_order) RUN(parts_may_have_all_or_nothing)
                        RUN(parts_that_are_not_there_are_refused)
                            RUN(rows_are_put_together_the_last_one_staying) RUN(places_below_zero_are_refused)
                                RUN(groups_are_numbered_as_they_come) RUN(slices_are_told_apart_along_an_axis)
                                    RUN(numbers_are_equal_as_on_the_host)
                                        RUN(empty_rows_get_the_value_that_is_given)
                                            RUN(entries_of_no_row_are_refused)
                                                RUN(parts_of_sparse_tensors_are_the_hosts)
                                                    RUN(all_parts_of_sparse_tensors_are_the_hosts)
                                                        RUN(gradients_go_to_the_rows_that_were_picked)
                                                            RUN(rows_that_cannot_be_picked_are_refused)
                                                                RUN(gradients_go_to_where_the_part_was)
                                                                    RUN(parts_that_cannot_be_are_refused)

)
