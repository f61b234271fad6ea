/* tests/unit/kernels/test_recurrence.c - loops that are the steps of a cell (kernels/control/recurrence.h):
 * which are run as a whole, that they leave what the loop left, and the same bits on several threads.
 *
 * The loop: s [steps, 2, 3] made of x, h and c [2, units] of a number in the text; w and u are made of y.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "tests/unit/core/chain_make.h"
#include "tests/unit/core/pool_make.h"

#define T "{T:type=float} "
#define LIST "{element_dtype:type=float; shape_type:type=int32} "
#define ITEM "e = TensorListGetItem {element_dtype:type=float; Tshape:type=int32} (l, i, int32[2] -1 3)\n"
#define SUM                                                                                                  \
    ITEM "p = MatMul {T:type=float} (e:item:0, w)\nq = MatMul {T:type=float} (h, u)\na = AddV2 " T           \
         "(p:product:0, q:product:0)\n"
#define COUNT "k = AddV2 {T:type=int32} (i, int32[] 1)\n"

/* loop(i, list, w, u, h, c, results): `gates` is how wide w and u are for one unit; the result is all h, the
 * last h and c, and i, as one vector. */
static const char *loop(int gates, int units, const char *cond, const char *body)
{
    static char text[400000];
    (void)snprintf(
        text, sizeof text,
        "@go (i:int32, l:variant, w:float, u:float, h:float, c:float, r:variant) -> (b:bool) = [ %s ] "
        "(b:z:0)\n"
        "@body (i:int32, l:variant, w:float, u:float, h:float, c:float, r:variant) -> (j:int32, m:variant, "
        "v:float, t:float, g:float, d:float, y:variant) = [ " COUNT "%s\n" X "y = " PLACEHOLDER
        "s = Reshape {T:type=float; Tshape:type=int32} (x, int32[3] -1 2 3)\n"
        "l = TensorListFromTensor " LIST "(s, int32[2] 2 3)\n"
        "wf = Slice {T:type=float; Index:type=int32} (y, int32[2] 0 0, int32[2] 3 %d)\n"
        "uf = Slice {T:type=float; Index:type=int32} (y, int32[2] 3 0, int32[2] %d %d)\n"
        "sh = Shape {T:type=float; out_type:type=int32} (s)\n"
        "num = StridedSlice {T:type=int32; Index:type=int32; shrink_axis_mask:int=1} (sh, int32[1] 0, "
        "int32[1] 1, "
        "int32[1] 1)\n"
        "res = TensorListReserve " LIST "(int32[2] 2 %d, num)\n"
        "h0 = Fill {T:type=float; index_type:type=int32} (int32[2] 2 %d, float[] 0.25)\n"
        "n = While {T:list(type)=[int32,variant,float,float,float,float,variant]; cond:string='@go'; "
        "body:string='@body'} (int32[] 0, l, wf, uf, h0, h0, res)\n"
        "al = TensorListStack {element_dtype:type=float; num_elements:int=-1} (n:6, int32[2] 2 %d)\n"
        "f1 = Reshape {T:type=float; Tshape:type=int32} (al, int32[1] -1)\n"
        "f2 = Reshape {T:type=float; Tshape:type=int32} (n:4, int32[1] -1)\n"
        "f3 = Reshape {T:type=float; Tshape:type=int32} (n:5, int32[1] -1)\n"
        "ci = Cast {SrcT:type=int32; DstT:type=float} (n:0)\n"
        "f4 = Reshape {T:type=float; Tshape:type=int32} (ci, int32[1] 1)\n"
        "r = ConcatV2 {N:int=4; T:type=float; Tidx:type=int32} (f1, f2, f3, f4, int32[] 0)\n",
        cond, body, gates * units, units, gates * units, units, units, units);
    return text;
}

static const char *below(int n)
{
    static char text[128];
    (void)snprintf(text, sizeof text, "b = Less {T:type=int32} (i, int32[] %d)", n);
    return text;
}

static struct td_shape image(int steps)
{
    return td_shape_vector((int64_t)steps * 6);
}

static struct td_shape weights(int gates, int units)
{
    return td_shape_matrix(3 + units, (int64_t)gates * units);
}

static void is_whole(const char *text, int want)
{
    struct passed t;
    passed(&t, text, "r", "hoist,identity,fold,inline");
    CHECK_INT(count(&t, "_Recurrence"), want);
    CHECK_INT(count(&t, "_Loop"), 1 - want);
    passed_close(&t);
}

#define LSTM                                                                                                 \
    SUM "s = Split {num_split:int=4; T:type=float} (int32[] 1, a:z:0)\nsi = Sigmoid " T                      \
        "(s:output:0)\nsf = Sigmoid " T "(s:output:1)\nsg = Tanh " T "(s:output:2)\nso = Sigmoid " T         \
        "(s:output:3)\nfc = Mul " T "(sf:y:0, c)\nig = Mul " T "(si:y:0, sg:y:0)\nd = AddV2 " T              \
        "(fc:z:0, ig:z:0)\ntd = Tanh " T "(d:z:0)\nh2 = Mul " T "(so:y:0, td:y:0)\n"                         \
        "o = TensorListSetItem {element_dtype:type=float} (r, i, h2:z:0)"                                    \
        " ] (k:z:0, l, w, u, h2:z:0, d:z:0, o:output_handle:0)"

TEST(an_lstm)
{
    const char *text = loop(4, 5, below(4), LSTM);
    is_whole(text, 1);
    same_results(text, "r", image(4), weights(4, 5));
    text = loop(4, 64, below(3), LSTM);
    same_results(text, "r", image(4),
                 weights(4, 64)); /* the last slice is not read, one result stays unset */
}

TEST(two_conditions)
{
    const char *both = "b1 = Less {T:type=int32} (i, int32[] 9)\nb2 = Less {T:type=int32} (i, int32[] 4)\n"
                       "b3 = LogicalAnd (b1:z:0, b2:z:0)\nb = Identity {T:type=bool} (b3:z:0)";
    char text[8192];
    (void)snprintf(text, sizeof text, "%s", loop(4, 5, both, LSTM));
    char *z = strstr(text, "(b:z:0)"); /* an Identity's output has another name */
    CHECK(z != NULL);
    char rest[8192];
    (void)snprintf(rest, sizeof rest, "%s", z + strlen("(b:z:0)"));
    (void)snprintf(z, sizeof text - (size_t)(z - text), "(b:output:0)%s", rest);
    is_whole(text, 1);
    same_results(text, "r", image(4), weights(4, 5));
}

/* Of each op, where tanh stands otherwise. */
TEST(other_squashes)
{
    static const char *const squash[] = {
        "h2 = Relu " T "(a:z:0)\nho = Identity " T "(h2:activations:0)\n",
        "h2 = Elu " T "(a:z:0)\nho = Identity " T "(h2:activations:0)\n",
        "h2 = Softsign " T "(a:z:0)\nho = Identity " T "(h2:activations:0)\n",
        "h2 = Sigmoid " T "(a:z:0)\nho = Identity " T "(h2:y:0)\n",
        "x5 = Mul " T "(a:z:0, float[] 0.2)\nx6 = AddV2 " T "(x5:z:0, float[] 0.5)\nx7 = Minimum " T
        "(x6:z:0, float[] 1)\nh2 = Maximum " T "(x7:z:0, float[] 0)\nho = Identity " T "(h2:z:0)\n",
        "x5 = AddV2 " T "(a:z:0, float[] 3)\nx6 = Relu6 " T "(x5:z:0)\nh2 = RealDiv " T
        "(x6:activations:0, float[] 6)\nho = Identity " T "(h2:z:0)\n"};
    for (size_t k = 0; k < sizeof squash / sizeof *squash; k++) {
        char body[4096];
        (void)snprintf(body, sizeof body,
                       SUM "%so = TensorListSetItem {element_dtype:type=float} (r, i, ho:output:0)"
                           " ] (k:z:0, l, w, u, ho:output:0, c, o:output_handle:0)",
                       squash[k]);
        const char *text = loop(1, 5, below(4), body);
        is_whole(text, 1);
        same_results(text, "r", image(4), weights(1, 5));
    }
}

TEST(no_round_at_all)
{
    const char *text =
        loop(1, 5, below(0),
             SUM "h2 = Tanh " T "(a:z:0)\no = TensorListSetItem {element_dtype:type=float} (r, i, h2:y:0)"
                 " ] (k:z:0, l, w, u, h2:y:0, c, o:output_handle:0)");
    is_whole(text, 1);
    same_results(text, "r", image(4), weights(1, 5));
}

TEST(a_gru)
{
    const char *body = ITEM
        "p = MatMul {T:type=float} (e:item:0, w)\nq = MatMul {T:type=float} (h, u)\n"
        "s = Split {num_split:int=3; T:type=float} (int32[] -1, p:product:0)\n"
        "v = Split {num_split:int=3; T:type=float} (int32[] -1, q:product:0)\n"
        "za = AddV2 " T "(s:output:0, v:output:0)\nz = Sigmoid " T "(za:z:0)\nra = AddV2 " T
        "(s:output:1, v:output:1)\nrr = Sigmoid " T "(ra:z:0)\nrh = Mul " T
        "(rr:y:0, v:output:2)\nha = AddV2 " T "(s:output:2, rh:z:0)\nhh = Tanh " T "(ha:z:0)\nzh = Mul " T
        "(z:y:0, h)\nmz = Sub " T "(float[] 1, z:y:0)\nmh = Mul " T "(mz:z:0, hh:y:0)\nh2 = AddV2 " T
        "(zh:z:0, mh:z:0)\no = TensorListSetItem {element_dtype:type=float} (r, i, h2:z:0)"
        " ] (k:z:0, l, w, u, h2:z:0, c, o:output_handle:0)";
    const char *text = loop(3, 5, below(4), body);
    is_whole(text, 1);
    same_results(text, "r", image(4), weights(3, 5));
    text = loop(3, 64, below(4), body);
    same_results(text, "r", image(4), weights(3, 64));
}

#define GRU_END                                                                                              \
    "zh = Mul " T "(z:y:0, h)\nmz = Sub " T "(float[] 1, z:y:0)\nmh = Mul " T                                \
    "(mz:z:0, hh:y:0)\nh2 = AddV2 " T "(zh:z:0, mh:z:0)\no = TensorListSetItem "                             \
    "{element_dtype:type=float} (r, i, h2:z:0) ] (k:z:0, l, w, u, h2:z:0, c, o:output_handle:0)"

/* u [units, 3 * units]: two gates of it are multiplied with h, the third with r h, as Keras has it. */
TEST(a_gru_with_its_reset_before_the_product)
{
    static const int units[] = {5, 64};
    for (int k = 0; k < 2; k++) {
        char body[4096];
        (void)snprintf(body, sizeof body,
                       ITEM "p = MatMul {T:type=float} (e:item:0, w)\n"
                            "u1 = Slice {T:type=float; Index:type=int32} (u, int32[2] 0 0, int32[2] -1 %d)\n"
                            "u2 = Slice {T:type=float; Index:type=int32} (u, int32[2] 0 %d, int32[2] -1 -1)\n"
                            "q = MatMul {T:type=float} (h, u1:output:0)\n"
                            "s = Split {num_split:int=3; T:type=float} (int32[] -1, p:product:0)\n"
                            "v = Split {num_split:int=2; T:type=float} (int32[] -1, q:product:0)\n"
                            "za = AddV2 " T "(s:output:0, v:output:0)\nz = Sigmoid " T
                            "(za:z:0)\nra = AddV2 " T "(s:output:1, v:output:1)\nrr = Sigmoid " T
                            "(ra:z:0)\nrh = Mul " T
                            "(rr:y:0, h)\nqh = MatMul {T:type=float} (rh:z:0, u2:output:0)\nha = AddV2 " T
                            "(s:output:2, qh:product:0)\nhh = Tanh " T "(ha:z:0)\n" GRU_END,
                       2 * units[k], 2 * units[k]);
        const char *text = loop(3, units[k], below(4), body);
        is_whole(text, 1);
        same_results(text, "r", image(4), weights(3, units[k]));
    }
}

/* x and h side by side before one product, as TF1 has it; rows that end stay as they are, and give zeros. */
#define ROWS_END(units)                                                                                      \
    "m = GreaterEqual {T:type=int32} (i, int32[2] 4 2)\nzf = Fill {T:type=float; index_type:type=int32} "    \
    "(int32[2] 2 " units ", float[] 0)\nhs = Select " T "(m:z:0, h, h2:z:0)\nos = Select " T                 \
    "(m:z:0, zf:output:0, h2:z:0)\no = TensorListSetItem {element_dtype:type=float} (r, i, os:output:0)\n"
#define BESIDE                                                                                               \
    ITEM "wu = ConcatV2 {N:int=2; T:type=float; Tidx:type=int32} (w, u, int32[] 0)\n"                        \
         "eh = ConcatV2 {N:int=2; T:type=float; Tidx:type=int32} (e:item:0, h, int32[] 1)\n"                 \
         "a = MatMul {T:type=float} (eh:output:0, wu:output:0)\n"

TEST(an_lstm_of_tf1_with_rows_that_end)
{
    const char *body =
        BESIDE "b = BiasAdd {T:type=float} (a:product:0, float[20] 0.5 -0.5 0.25)\n"
               "s = Split {num_split:int=4; T:type=float} (int32[] 1, b:output:0)\nsi = Sigmoid " T
               "(s:output:0)\nfb = AddV2 " T "(s:output:2, float[] 1)\nsf = Sigmoid " T
               "(fb:z:0)\nsg = Tanh " T "(s:output:1)\nso = Sigmoid " T "(s:output:3)\nfc = Mul " T
               "(c, sf:y:0)\nig = Mul " T "(si:y:0, sg:y:0)\nd = AddV2 " T "(fc:z:0, ig:z:0)\ntd = Tanh " T
               "(d:z:0)\nh2 = Mul " T "(td:y:0, so:y:0)\n" ROWS_END(
                   "5") "cs = Select " T
                        "(m:z:0, c, d:z:0) ] (k:z:0, l, w, u, hs:output:0, cs:output:0, o:output_handle:0)";
    const char *text = loop(4, 5, below(4), body);
    is_whole(text, 1);
    same_results(text, "r", image(4), weights(4, 5));
}

TEST(what_is_no_cell_stays_a_loop)
{
    const char *end = "o = TensorListSetItem {element_dtype:type=float} (r, i, h2:y:0)"
                      " ] (k:z:0, l, w, u, h2:y:0, %s, o:output_handle:0)";
    char body[4096], tail[512];
    (void)snprintf(tail, sizeof tail, end, "c");
    (void)snprintf(body, sizeof body, SUM "h2 = Tanh " T "(a:z:0)\n%s", tail);
    is_whole(loop(1, 5, below(4), body), 1);
    (void)snprintf(body, sizeof body, SUM "h2 = Sin " T "(a:z:0)\n%s", tail);
    is_whole(loop(1, 5, below(4), body), 0); /* it squashes nothing */
    (void)snprintf(tail, sizeof tail, end, "f:z:0");
    (void)snprintf(body, sizeof body, SUM "h2 = Tanh " T "(a:z:0)\nf = Mul " T "(c, float[] 2)\n%s", tail);
    is_whole(loop(1, 5, below(4), body), 0); /* something else is computed */
    (void)snprintf(tail, sizeof tail, end, "c");
    (void)snprintf(body, sizeof body, SUM "h2 = Tanh " T "(a:z:0)\n%s", tail);
    is_whole(loop(1, 5, "b = LessEqual {T:type=int32} (i, int32[] 3)", body), 0);
    /* h is multiplied by what it is not */
    (void)snprintf(body, sizeof body,
                   ITEM
                   "p = MatMul {T:type=float} (e:item:0, w)\nq = MatMul {T:type=float} (c, u)\na = AddV2 " T
                   "(p:product:0, q:product:0)\nh2 = Tanh " T "(a:z:0)\n%s",
                   tail);
    is_whole(loop(1, 5, below(4), body), 0);
}

#define LSTM_END                                                                                             \
    "fc = Mul " T "(sf:y:0, c)\nig = Mul " T "(si:y:0, sg:y:0)\nd = AddV2 " T                                \
    "(fc:z:0, ig:z:0)\ntd = Tanh " T "(d:z:0)\nh2 = Mul " T                                                  \
    "(so:y:0, td:y:0)\no = TensorListSetItem {element_dtype:type=float} (r, i, "                             \
    "h2:z:0) ] (k:z:0, l, w, u, h2:z:0, d:z:0, o:output_handle:0)"
#define COLUMNS(name, from, to)                                                                              \
    name " = StridedSlice {T:type=float; Index:type=int32; begin_mask:int=1; end_mask:int=1} (a:z:0, "       \
         "int32[2] 0 " from ", int32[2] 0 " to ", int32[2] 1 1)\n"

/* Gates as slices of columns, of two units each; the last one's end. */
static const char *sliced(const char *end)
{
    static char body[4096];
    (void)snprintf(body, sizeof body,
                   SUM COLUMNS("s0", "0", "2") COLUMNS("s1", "2", "4") COLUMNS("s2", "4", "6")
                       COLUMNS("s3", "6", "%s") "si = Sigmoid " T "(s0:output:0)\nsf = Sigmoid " T
                                                "(s1:output:0)\nsg = Tanh " T "(s2:output:0)\nso = Sigmoid " T
                                                "(s3:output:0)\n" LSTM_END,
                   end);
    return loop(4, 2, below(4), body);
}

TEST(slices_that_count_from_the_end_are_no_gates)
{
    is_whole(sliced("8"), 1);
    same_results(sliced("8"), "r", image(4), weights(4, 2));
    is_whole(sliced("-1"), 0); /* one column, for both units */
    same_results(sliced("-1"), "r", image(4), weights(4, 2));
}

#define HARD(name, of, slope, offset)                                                                        \
    name "1 = Mul " T "(s:output:" of ", float[] " slope ")\n" name "2 = AddV2 " T "(" name                  \
         "1:z:0, float[] " offset ")\n" name "3 = Minimum " T "(" name "2:z:0, float[] 1)\n" name            \
         "4 = Maximum " T "(" name "3:z:0, float[] 0)\n"

/* All hard squashes of a cell are one, also where its slope is 0. */
TEST(hard_squashes_that_differ_stay_a_loop)
{
    static const char *const slope[] = {"0", "0.25"};
    for (int k = 0; k < 2; k++) {
        char body[4096];
        (void)snprintf(
            body, sizeof body,
            SUM "s = Split {num_split:int=4; T:type=float} (int32[] 1, a:z:0)\n" HARD(
                "x", "0", "0.25", "0.75") HARD("v", "1", "0.25", "0.75")
                HARD("n", "3", "%s",
                     "0.25") "si = Identity " T "(x4:z:0)\nsf = Identity " T "(v4:z:0)\nsg = Tanh " T
                             "(s:output:2)\nso = Identity " T "(n4:z:0)\nfc = Mul " T
                             "(sf:output:0, c)\nig = Mul " T "(si:output:0, sg:y:0)\nd = AddV2 " T
                             "(fc:z:0, ig:z:0)\ntd = Tanh " T "(d:z:0)\nh2 = Mul " T
                             "(so:output:0, td:y:0)\no = TensorListSetItem {element_dtype:type=float} (r, i, "
                             "h2:z:0) ] (k:z:0, l, w, u, h2:z:0, d:z:0, o:output_handle:0)",
            slope[k]);
        const char *text = loop(4, 5, below(4), body);
        is_whole(text, 0);
        same_results(text, "r", image(4), weights(4, 5));
    }
}

/* A number that is a matrix or more gives what it is added to more axes. */
TEST(numbers_with_axes_stay_a_loop)
{
    char body[4096];
    (void)snprintf(body, sizeof body,
                   SUM "s = Split {num_split:int=4; T:type=float} (int32[] 1, a:z:0)\nfb = AddV2 " T
                       "(s:output:1, float[1,1,1] 1)\nsi = Sigmoid " T "(s:output:0)\nsf = Sigmoid " T
                       "(fb:z:0)\nsg = Tanh " T "(s:output:2)\nso = Sigmoid " T "(s:output:3)\n" LSTM_END);
    is_whole(loop(4, 5, below(1), body), 0);
}

/* ------------------------------------------------------------------ long graphs */

enum { LINKS = 3000 };

TEST(sums_without_end_are_no_cells)
{
    static struct chain body, c;
    chain_add(&body, SUM "a0 = AddV2 " T "(a:z:0, float[] 1)\n");
    for (int i = 1; i < LINKS; i++) {
        chain_add(&body, "a%d = AddV2 " T "(a%d:z:0, a:z:0)\n", i, i - 1);
    }
    chain_add(&body,
              "h2 = Tanh " T "(a%d:z:0)\no = TensorListSetItem {element_dtype:type=float} (r, i, h2:y:0)"
              " ] (k:z:0, l, w, u, h2:y:0, c, o:output_handle:0)",
              LINKS - 1);
    chain_add(&c, "%s", loop(1, 5, below(4), body.text));
    chain_compiles(&c, "hoist,identity,fold,inline", "_Recurrence");
}

/* ------------------------------------------------------------------ several threads */

enum { ROUNDS = 14 };

TEST(the_same_bits_on_several_threads)
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct made_pool pool;
    const struct td_shape x = image(40), y = weights(4, 256);
    struct td_tensor in[2] = {ramp(&x, -1.5f, 0.25f), ramp(&y, -0.02f, 0.002f)}, want, got;
    const struct td_run_opts opts = {.pool = &pool.pool};
    passed_open(&t, loop(4, 256, below(40), LSTM), "r");
    const struct td_model_opts how = {.ops = t.ops};
    CHECK_INT(td_model_new(&how, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    CHECK_INT(td_callable_run(f, in, &want, NULL, &t.err), TD_OK);
    pool_start(&pool);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK_INT(td_callable_run(f, in, &got, &opts, &t.err), TD_OK);
        CHECK_INT(memcmp(got.data, want.data, td_tensor_bytes(&want)), 0);
        td_tensor_clear(&got);
    }
    pool_stop(&pool);
    CHECK(pool.started > 0);
    td_tensor_clear(&want);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
    td_model_unref(m);
    passed_close(&t);
}
TEST_MAIN(RUN(an_lstm) RUN(an_lstm_of_tf1_with_rows_that_end) RUN(a_gru_with_its_reset_before_the_product)
              RUN(two_conditions) RUN(other_squashes) RUN(no_round_at_all) RUN(a_gru)
                  RUN(what_is_no_cell_stays_a_loop) RUN(slices_that_count_from_the_end_are_no_gates)
                      RUN(hard_squashes_that_differ_stay_a_loop) RUN(numbers_with_axes_stay_a_loop)
                          RUN(sums_without_end_are_no_cells) RUN(the_same_bits_on_several_threads))
