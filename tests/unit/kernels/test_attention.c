/* tests/unit/kernels/test_attention.c - attention as one node (kernels/linalg/attention.h): what is taken for
 * it, that it is what its nodes were, also where numbers are none, and the same bits on several threads.
 *
 * x is the query, y key and value: [rows, heads, queries or keys, 4].
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cpu/bfloat16.h"
#include "kernels/linalg/attention.h"
#include "tests/unit/core/chain_make.h"
#include "tests/unit/core/pool_make.h"

#define T "{T:type=float} "
#define SCORES "s = BatchMatMulV2 {T:type=float; adj_y:bool=true} (x, y)\n"
#define V "v = Mul " T "(y, float[] 0.5)\n"
#define SOFTMAX(of) "p = Softmax " T "(" of ")\n"
#define SUM V "r = BatchMatMulV2 " T "(p, v)\n"
/* positive where y is, [rows, 1, 1, keys] */
#define KEYS_OF_Y                                                                                            \
    "ys = Sum {T:type=float; Tidx:type=int32; keep_dims:bool=true} (y, int32[2] 1 3)\n"                      \
    "yt = Transpose " T "(ys, int32[4] 0 1 3 2)\n"
#define KEEP_OF_Y KEYS_OF_Y "k = Greater " T "(yt, float[] 2.5)\n"

static void is_attention(const char *text, int want, struct td_shape x, struct td_shape y)
{
    struct passed t;
    passed(&t, text, "r", NULL);
    const int found = count(&t, "_Attention");
    if (found != want) {
        fprintf(stderr, "%s\nis attention %d times\n", text, found);
    }
    CHECK_INT(found, want);
    CHECK_INT(want == 1 ? count(&t, "Softmax") : 0, 0);
    passed_close(&t);
    same_results(text, "r", x, y);
}

static void holds(const char *text, int want)
{
    is_attention(text, want, shape4(2, 3, 5, 4), shape4(2, 3, 7, 4));
    is_attention(text, want, shape4(1, 1, 1, 4), shape4(1, 1, 7, 4));
    is_attention(text, want, shape4(1, 2, 50, 4), shape4(1, 2, 300, 4));
}

TEST(products_of_any_kind)
{
    holds(XY SCORES SOFTMAX("s") SUM, 1);
    holds(XY "s = Einsum {T:type=float; N:int=2; equation:string='abtc,absc->abts'} (x, y)\n" SOFTMAX("s") V
          "r = Einsum {T:type=float; N:int=2; equation:string='abts,absc->atbc'} (p, v)\n",
          1);
    holds(XY "s = Einsum {T:type=float; N:int=2; equation:string='...tc,...sc->...ts'} (x, y)\n" SOFTMAX("s")
              V "r = Einsum {T:type=float; N:int=2; equation:string='...ts,...sc->...tc'} (p, v)\n",
          1);
    holds(XY "m = BatchMatMulV2 {T:type=float; adj_y:bool=true} (y, x)\n" /* keys on the left */
             "s = Transpose " T "(m, int32[4] 0 1 3 2)\n" SOFTMAX("s") SUM,
          1);
    holds(XY SCORES SOFTMAX("s") V
          "q = BatchMatMulV2 {T:type=float; adj_x:bool=true; adj_y:bool=true} (v, p)\n"
          "r = Transpose " T "(q, int32[4] 0 1 3 2)\n", /* values on the left */
          1);
}

TEST(transposes_around_it_go)
{
    const char *text =
        XY "a = Transpose " T "(x, int32[4] 0 2 1 3)\nb = Transpose " T "(y, int32[4] 0 2 1 3)\n"
           "s = BatchMatMulV2 {T:type=float; adj_y:bool=true} (a, b)\n" SOFTMAX(
               "s") "v = Mul " T "(y, float[] 0.5)\nw = Transpose " T "(v, int32[4] 0 2 1 3)\n"
                    "o = BatchMatMulV2 " T "(p, w)\nr = Transpose " T "(o, int32[4] 0 2 1 3)\n";
    struct passed t;
    passed(&t, text, "r", NULL);
    CHECK_INT(count(&t, "_Attention"), 1);
    CHECK_INT(count(&t, "Transpose"), 0);
    passed_close(&t);
    same_results(text, "r", shape4(2, 5, 3, 4), shape4(2, 7, 3, 4));
}

TEST(scales_and_masks)
{
    holds(XY SCORES "a = Mul " T "(s, float[] 0.125)\n" SOFTMAX("a") SUM, 1);
    holds(XY SCORES "a = RealDiv " T "(s, float[] 3)\n" KEYS_OF_Y "b = AddV2 " T "(yt, a)\n" SOFTMAX("b") SUM,
          1);
    holds(XY SCORES KEYS_OF_Y "a = Sub " T "(s, yt)\nb = Mul " T "(a, float[] 2)\n" SOFTMAX("b") SUM, 1);
    holds(XY SCORES KEEP_OF_Y "a = SelectV2 " T "(k, s, float[] -1000000)\n" SOFTMAX("a") SUM, 1);
    holds(XY SCORES KEEP_OF_Y "a = SelectV2 " T "(k, float[] -1000000, s)\n" SOFTMAX("a") SUM, 1);
    holds(XY SCORES KEEP_OF_Y "a = SelectV2 " T "(k, s, float[] -1000000)\n" SOFTMAX("a") V
          "c = SelectV2 " T "(k, p, float[] 0)\nr = BatchMatMulV2 " T "(c, v)\n",
          1);
}

/* As Keras writes it: where (true of the scores' shape and the mask, scores, c). */
#define KERAS(and)                                                                                           \
    XY "s = Einsum {T:type=float; N:int=2; equation:string='abtc,absc->abts'} (x, y)\n" KEEP_OF_Y            \
       "h = Shape " T "(s)\nf = Fill {T:type=bool; index_type:type=int32} (h, bool[] 1)\n"                   \
       "l = LogicalAnd {} (f, k)\n" and                                                                      \
        SOFTMAX("a") SUM

TEST(masks_that_are_joined)
{
    const char *text = KERAS("a = SelectV2 " T "(l, s, float[] -1000000)\n");
    holds(text, 1);
    struct passed t;
    passed(&t, text, "r", NULL);
    CHECK_INT(count(&t, "Fill") + count(&t, "Einsum"), 0);
    passed_close(&t);
    text = KERAS("n = StridedSlice {T:type=int32; Index:type=int32} (h, int32[1] 2, int32[1] 4, int32[1] 1)\n"
                 "g = Fill {T:type=bool; index_type:type=int32} (n, bool[] 1)\n"
                 "c = MatrixBandPart {T:type=bool; Tindex:type=int32} (g, int32[] -1, int32[] 0)\n"
                 "j = LogicalAnd {} (l, c)\na = SelectV2 " T "(j, s, float[] -1000000)\n");
    holds(text, 1);
    passed(&t, text, "r", NULL);
    CHECK_INT(count(&t, "Einsum"), 0); /* the shape is told by those of x and y */
    passed_close(&t);
}

TEST(a_causal_mask_asks_for_the_shape)
{
    const char *const causal =
        "h = Shape " T "(s)\nn = StridedSlice {T:type=int32; Index:type=int32} (h, int32[1] -2, int32[1] 4, "
        "int32[1] 1)\ng = Fill {T:type=bool; index_type:type=int32} (n, bool[] 1)\n"
        "c = MatrixBandPart {T:type=bool; Tindex:type=int32} (g, int32[] -1, int32[] 0)\n"
        "a = SelectV2 " T "(c, s, float[] -1000000)\n" SOFTMAX("a") SUM;
    const char *const products[] = {
        SCORES, "m = BatchMatMulV2 {T:type=float; adj_y:bool=true} (y, x)\ns = Transpose " T
                "(m, int32[4] 0 1 3 2)\n"};
    for (int i = 0; i < 2; i++) {
        char text[2048];
        (void)snprintf(text, sizeof text, XY "%s%s", products[i], causal);
        holds(text, 1);
        is_attention(text, 1, shape4(2, 1, 5, 4), shape4(1, 1, 7, 4));
    }
}

TEST(rows_without_an_answer)
{
    holds(XY SCORES KEEP_OF_Y "z = Log " T "(float[] 0)\na = SelectV2 " T "(k, s, z)\n" SOFTMAX("a") SUM, 1);
    holds(XY SCORES "a = Log " T "(yt)\nb = AddV2 " T "(s, a)\n" KEYS_OF_Y SOFTMAX("b") SUM, 1);
    holds(XY SCORES KEEP_OF_Y "z = Log " T "(float[] 0)\na = SelectV2 " T "(k, s, z)\n" SOFTMAX("a") V
          "c = SelectV2 " T "(k, p, float[] 0)\nr = BatchMatMulV2 " T "(c, v)\n",
          1);
    holds(XY "z = Sqrt " T "(x)\ns = BatchMatMulV2 {T:type=float; adj_y:bool=true} (z, y)\n" SOFTMAX("s") SUM,
          1);
}

TEST(what_is_read_elsewhere_stays)
{
    holds(XY SCORES SOFTMAX("s") V "o = BatchMatMulV2 " T "(p, v)\n"
                                   "m = Max {T:type=float; Tidx:type=int32} (p, int32[4] 0 1 2 3)\n"
                                   "r = AddV2 " T "(o, m)\n",
          0);
    holds(XY SCORES SOFTMAX("s") V "o = BatchMatMulV2 " T "(p, v)\n"
                                   "m = Max {T:type=float; Tidx:type=int32} (s, int32[4] 0 1 2 3)\n"
                                   "r = AddV2 " T "(o, m)\n",
          0);
    is_attention(X "s = MatMul " T "(x, float[4,6] 1 2 3)\n" SOFTMAX("s") /* layers */
                 "r = MatMul " T "(p, float[6,3] 1 2 3 4)\n",
                 0, td_shape_matrix(3, 4), td_shape_scalar());
}

/* Letters that only one side of the scores has, and a value without them. */
TEST(axes_that_one_operand_has)
{
    static const char *const scores[] = {"atc,absc->abts", "abtc,asc->abts", "btc,absc->abts"},
                             *const sum[] = {"abts,absc->abtc", "abts,asc->abtc", "abts,absc->abtc"};
    const struct td_shape three = {.rank = 3, .dim = {2, 5, 4}}, keys = {.rank = 3, .dim = {2, 7, 4}},
                          heads = {.rank = 3, .dim = {3, 5, 4}};
    const struct td_shape x[] = {three, shape4(2, 3, 5, 4), heads},
                          y[] = {shape4(2, 3, 7, 4), keys, shape4(2, 3, 7, 4)};
    for (int i = 0; i < 3; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text,
                       XY "s = Einsum {T:type=float; N:int=2; equation:string='%s'} (x, y)\n" SOFTMAX("s") V
                       "r = Einsum {T:type=float; N:int=2; equation:string='%s'} (p, v)\n",
                       scores[i], sum[i]);
        is_attention(text, 1, x[i], y[i]);
    }
}

/* Behind a Transpose, which says how many axes there are, masks and value may have more. */
TEST(masks_and_values_of_more_axes)
{
    const char *const scores = "m = BatchMatMulV2 {T:type=float; adj_y:bool=true} (y, x)\n"
                               "s = Transpose " T "(m, int32[2] 1 0)\n";
    char text[1024];
    (void)snprintf(text, sizeof text, XY "%sb = AddV2 " T "(s, float[2,1,6] 1 2 3 4)\n" SOFTMAX("b") SUM,
                   scores);
    is_attention(text, 1, td_shape_matrix(3, 4), td_shape_matrix(6, 4));
    (void)snprintf(text, sizeof text,
                   XY "%s" SOFTMAX("s") "v = Mul " T "(y, float[2,1,1] 0.5 2)\n"
                                        "r = BatchMatMulV2 " T "(p, v)\n",
                   scores);
    is_attention(text, 1, td_shape_matrix(3, 4), td_shape_matrix(6, 4));
}

/* One key, which what is multiplied behind the softmax has several of. */
TEST(a_mask_behind_the_softmax_has_more_keys)
{
    is_attention(XY "a = Sum {T:type=float; Tidx:type=int32; keep_dims:bool=true} (y, int32[1] 2)\n"
                    "s = BatchMatMulV2 {T:type=float; adj_y:bool=true} (x, a)\n" SOFTMAX("s") KEYS_OF_Y
                 "c = Mul " T "(p, yt)\n" V "r = BatchMatMulV2 " T "(c, v)\n",
                 1, shape4(2, 3, 5, 4), shape4(2, 3, 7, 4));
}

/* Of the shape that the scores had before they were turned, ones are no mask that says nothing. */
TEST(ones_of_another_shape_are_a_mask)
{
    is_attention(XY "m = BatchMatMulV2 {T:type=float; adj_y:bool=true} (y, x)\nh = Shape " T "(m)\n"
                    "f = Fill {T:type=bool; index_type:type=int32} (h, bool[] 1)\n"
                    "s = Transpose " T "(m, int32[4] 0 1 3 2)\n"
                    "a = SelectV2 " T "(f, s, float[] -1000000)\n" SOFTMAX(
                        "a") "v = Mul " T "(x, float[] 0.5)\nr = BatchMatMulV2 " T "(p, v)\n",
                 1, shape4(2, 3, 5, 4), shape4(2, 3, 1, 4));
}

/* ------------------------------------------------------------------ long graphs */

enum { LINKS = 3000, SHORT = 80 };

static void add_products(struct chain *c, char name, int n)
{
    for (int i = 1; i < n; i++) {
        chain_add(c, "%c%d = Mul " T "(%c%d, float[] 2)\n", name, i, name, i - 1);
    }
}

TEST(masks_joined_without_end_are_left)
{
    static struct chain c;
    chain_add(&c, XY SCORES "g = Greater " T "(y, float[] 2.5)\nk0 = Greater " T "(y, float[] 2.5)\n");
    for (int i = 1; i < LINKS; i++) {
        chain_add(&c, "k%d = LogicalAnd {} (k%d, g)\n", i, i - 1);
    }
    chain_add(&c, "a = SelectV2 " T "(k%d, s, float[] -1000000)\n" SOFTMAX("a") SUM, LINKS - 1);
    chain_compiles(&c, "attention", "_Attention");
}

/* What is given up in one operand is not begun again in the other. */
TEST(stages_without_end_are_left)
{
    static struct chain c;
    chain_add(&c, XY "h0 = Relu " T "(x)\nk0 = Relu " T "(x)\n");
    add_products(&c, 'h', SHORT);
    add_products(&c, 'k', LINKS);
    chain_add(&c, "a = AddV2 " T "(h%d, k%d)\n" SOFTMAX("a") SUM, SHORT - 1, LINKS - 1);
    chain_compiles(&c, "attention", "_Attention");
}

TEST(matrices_alone)
{
    is_attention(XY "s = MatMul {T:type=float; transpose_b:bool=true} (x, y)\n" SOFTMAX("s") V "r = MatMul " T
                                                                                               "(p, v)\n",
                 1, td_shape_matrix(3, 4), td_shape_matrix(6, 4));
}

/* ------------------------------------------------------------------ shapes that do not fit, made-up nodes */

static enum td_code asked(const char *text, struct td_shape x, struct td_shape y, const char *off)
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct td_tensor in[2] = {ramp(&x, -1.5F, 0.25F), ramp(&y, 0.5F, 0.125F)}, out;
    passed_open(&t, text, "r");
    const struct td_model_opts how = {.ops = t.ops, .passes_off = off};
    CHECK_INT(td_model_new(&how, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    enum td_code rc = td_callable_new(m, &t.how, &f, &t.err);
    rc = rc ? rc : td_callable_run(f, in, &out, NULL, &t.err);
    if (rc == TD_OK) {
        td_tensor_clear(&out);
    }
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
    td_model_unref(m);
    passed_close(&t);
    return rc;
}

TEST(shapes_are_refused_as_before)
{
    const struct {
        struct td_shape x, y;
    } row[] = {{shape4(2, 3, 5, 4), shape4(2, 3, 7, 3)},    {shape4(2, 3, 5, 4), shape4(3, 3, 7, 4)},
               {shape4(2, 3, 5, 4), shape4(2, 1, 7, 4)},    {shape4(2, 3, 5, 4), td_shape_vector(4)},
               {shape4(2, 3, 5, 4), td_shape_matrix(7, 4)}, {shape4(2, 3, 0, 4), shape4(2, 3, 7, 4)},
               {shape4(2, 3, 5, 4), shape4(2, 3, 0, 4)},    {shape4(2, 3, 5, 0), shape4(2, 3, 7, 0)}};
    static const char *const text[] = {
        XY SCORES SOFTMAX("s") SUM,
        XY "s = Einsum {T:type=float; N:int=2; equation:string='abtc,absc->abts'} (x, y)\n" SOFTMAX("s") V
        "r = Einsum {T:type=float; N:int=2; equation:string='abts,absc->atbc'} (p, v)\n"};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        for (int k = 0; k < 2; k++) {
            CHECK_INT(asked(text[k], row[i].x, row[i].y, NULL), asked(text[k], row[i].x, row[i].y, "all"));
        }
    }
}

TEST(a_node_of_a_file_is_refused)
{
    const char *text = XY "r = _Attention {T:type=float; Ts:list(type)=[]} (x, y, y)\n";
    CHECK(asked(text, shape4(1, 1, 2, 4), shape4(1, 1, 2, 4), NULL) != TD_OK);
}

/* The last element that the tensor's steps reach, its first two axes being so long. */
static int64_t reach(const struct td_attention_sizes *s, int tensor, int64_t last, int64_t before)
{
    int64_t at = 0;
    for (int k = 0; k < s->rank; k++) {
        at += ((k == 0 ? last : k == 1 ? before : s->dim[k]) - 1) * s->step[tensor][k];
    }
    return at;
}

/* A node of three floats that reads so many numbers. */
static bool reads(int64_t *form, int count, struct td_attention_form *f)
{
    float numbers[TD_ATTENTION_STAGES] = {0};
    enum td_dtype type = TD_FLOAT;
    struct td_node from = {.out_type = &type, .n_out = 1};
    struct td_value in[] = {{&from, 0}, {&from, 0}, {&from, 0}};
    struct td_attr attrs[] = {
        TD_ATTR_OF_INTS("_form", form, count),
        {.name = "_numbers", .kind = TD_ATTR_FLOAT, .is_list = true, .n = TD_ATTENTION_STAGES, .f = numbers}};
    const struct td_node n = {.op_name = "_Attention", .n_in = 3, .in = in, .attrs = attrs, .n_attrs = 2};
    struct td_shape shape[] = {shape4(2, 3, 5, 4), shape4(2, 3, 7, 4), shape4(2, 3, 7, 6)};
    struct td_attention_sizes s;
    struct td_err err = {0};
    const bool ok = td_attention_read(&n, f);
    if (ok && td_attention_sizes_of(&n, f, shape, &s, &err) == TD_OK) {
        CHECK_INT(reach(&s, TD_ATTENTION_OUTPUT, s.width, s.dim[1]), td_shape_count(&s.output) - 1);
        CHECK(reach(&s, TD_ATTENTION_QUERY, s.depth, s.dim[1]) < td_shape_count(&shape[0]));
        CHECK(reach(&s, TD_ATTENTION_KEY, s.depth, s.dim[0]) < td_shape_count(&shape[1]));
        CHECK(reach(&s, TD_ATTENTION_VALUE, s.width, s.dim[0]) < td_shape_count(&shape[2]));
    }
    return ok;
}

TEST(numbers_of_a_node_are_checked)
{
    int64_t form[TD_ATTENTION_MOST_FORM];
    struct td_attention_form f = {.n_stages = 1, .stage = {{.kind = TD_ATTENTION_MUL, .operand = -1}}}, g;
    for (int i = 0; i <= TD_ATTENTION_OUTPUT; i++) {
        f.axes[i] = (struct td_attention_axes){.n = 2, .at = {-1, -2}};
    }
    const int count = td_attention_write(&f, form);
    CHECK(reads(form, count, &g));
    CHECK(!reads(form, count - 1, &g));
    for (int i = 0; i < count; i++) {
        const int64_t was = form[i];
        for (int64_t v = -15; v < 15; v++) {
            form[i] = v;
            (void)reads(form, count, &g);
        }
        form[i] = 1000;
        CHECK(!reads(form, count, &g));
        form[i] = was;
    }
    f.axes[TD_ATTENTION_OUTPUT] = (struct td_attention_axes){.n = 2, .at = {-2, -1}};
    CHECK(!reads(form, td_attention_write(&f, form), &g));
    f.axes[TD_ATTENTION_OUTPUT] = (struct td_attention_axes){.n = 3, .at = {-1, -2, -2}};
    CHECK(!reads(form, td_attention_write(&f, form), &g));
}

/* ------------------------------------------------------------------ other types */

#define OPERANDS                                                                                             \
    XY "q = Cast {SrcT:type=float; DstT:type=%1$s} (x)\n"                                                    \
       "k = Cast {SrcT:type=float; DstT:type=%1$s} (y)\n"                                                    \
       "c = Cast {SrcT:type=float; DstT:type=%1$s} (float[] 0.5)\n"                                          \
       "s = BatchMatMulV2 {T:type=%1$s; adj_y:bool=true} (q, k)\n"                                           \
       "n = Sum {T:type=%1$s; Tidx:type=int32; keep_dims:bool=true} (k, int32[2] 1 3)\n"                     \
       "m = Transpose {T:type=%1$s} (n, int32[4] 0 1 3 2)\n"                                                 \
       "v = Mul {T:type=%1$s} (k, c)\n"
#define SUMMED                                                                                               \
    "o = BatchMatMulV2 {T:type=%1$s} (p, v)\n"                                                               \
    "r = Cast {SrcT:type=%1$s; DstT:type=float} (o)\n"

/* As layers that compute in the type have it, and as those do that make floats of scores. */
static const char *const of_type[] = {OPERANDS
                                      "a = Mul {T:type=%1$s} (s, c)\nb = AddV2 {T:type=%1$s} (a, m)\n"
                                      "p = Softmax {T:type=%1$s} (b)\n" SUMMED,
                                      OPERANDS "sf = Cast {SrcT:type=%1$s; DstT:type=float} (s)\n"
                                               "mf = Cast {SrcT:type=%1$s; DstT:type=float} (m)\n"
                                               "a = Mul {T:type=float} (sf, float[] 0.5)\n"
                                               "b = AddV2 {T:type=float} (a, mf)\n"
                                               "pf = Softmax {T:type=float} (b)\n"
                                               "p = Cast {SrcT:type=float; DstT:type=%1$s} (pf)\n" SUMMED};

static void agrees(const char *text, const struct td_tensor *in, float off)
{
    for (int k = TD_KERNELS_FAST; k <= TD_KERNELS_OPENBLAS; k++) {
        struct td_tensor want = run_with(text, "r", "all", (enum td_kernel_choice)k, in);
        struct td_tensor got = run_with(text, "r", NULL, (enum td_kernel_choice)k, in);
        for (int64_t e = 0; e < td_tensor_count(&want); e++) {
            const float a = TD_DATA(&want, float)[e], b = TD_DATA(&got, float)[e];
            CHECK(fabsf(a - b) <= off * (1 + fabsf(a)));
        }
        td_tensor_clear(&want);
        td_tensor_clear(&got);
    }
}

/* By nodes and as one: a rounding behind each node, or none before the end. */
TEST(half_and_bfloat16)
{
    static const char *const names[] = {"half", "bfloat16"};
    const struct td_shape x = shape4(2, 3, 5, 4), y = shape4(2, 3, 70, 4);
    struct td_tensor in[2] = {ramp(&x, -0.5F, 0.0625F), ramp(&y, 0.5F, 0.0625F)};
    for (int i = 0; i < 4; i++) {
        char text[2048];
        struct passed t;
        (void)snprintf(text, sizeof text, of_type[i / 2], names[i % 2]);
        for (int way = TD_BFLOAT16_NATIVE; way >= TD_BFLOAT16_AS_FLOAT; way--) { /* the last remains */
            td_bfloat16_set((enum td_bfloat16_way)way);
            passed(&t, text, "r", NULL);
            CHECK_INT(count(&t, "_Attention"), i % 2 == 0 || way != TD_BFLOAT16_NATIVE);
            passed_close(&t);
        }
        agrees(text, in, i % 2 == 0 ? 4e-3F : 4e-2F);
    }
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

/* What is summed in another type than the scores have, or masked by what was never of theirs. */
TEST(casts_that_are_no_rounding_are_left)
{
    is_attention(XY "h = Cast {SrcT:type=float; DstT:type=half} (x)\n"
                    "k = Cast {SrcT:type=float; DstT:type=half} (y)\n"
                    "s = BatchMatMulV2 {T:type=half; adj_y:bool=true} (h, k)\n"
                    "sf = Cast {SrcT:type=half; DstT:type=float} (s)\n" SOFTMAX("sf") SUM,
                 0, shape4(2, 3, 5, 4), shape4(2, 3, 7, 4));
    is_attention(XY KEYS_OF_Y "h = Cast {SrcT:type=float; DstT:type=half} (x)\n"
                              "k = Cast {SrcT:type=float; DstT:type=half} (y)\n"
                              "s = BatchMatMulV2 {T:type=half; adj_y:bool=true} (h, k)\n"
                              "sf = Cast {SrcT:type=half; DstT:type=float} (s)\nb = AddV2 " T
                              "(sf, yt)\n" SOFTMAX("b") "ph = Cast {SrcT:type=float; DstT:type=half} (p)\n"
                                                        "o = BatchMatMulV2 {T:type=half} (ph, k)\n"
                                                        "r = Cast {SrcT:type=half; DstT:type=float} (o)\n",
                 0, shape4(2, 3, 5, 4), shape4(2, 3, 7, 4));
}

/* ------------------------------------------------------------------ several threads */

enum { ROUNDS = 8 };

TEST(the_same_bits_on_several_threads)
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct made_pool pool;
    const struct td_shape x = shape4(2, 3, 130, 32), y = shape4(2, 3, 300, 32);
    struct td_tensor in[2] = {ramp(&x, -1.5F, 0.25F), ramp(&y, 0.5F, 0.125F)}, want, got;
    const struct td_run_opts opts = {.pool = &pool.pool};
    passed_open(&t, XY SCORES "a = Mul " T "(s, float[] 0.01)\n" SOFTMAX("a") SUM, "r");
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

TEST_MAIN(RUN(products_of_any_kind) RUN(transposes_around_it_go) RUN(scales_and_masks)
              RUN(masks_that_are_joined) RUN(a_causal_mask_asks_for_the_shape) RUN(rows_without_an_answer)
                  RUN(what_is_read_elsewhere_stays) RUN(masks_joined_without_end_are_left)
                      RUN(stages_without_end_are_left) RUN(matrices_alone) RUN(axes_that_one_operand_has)
                          RUN(masks_and_values_of_more_axes) RUN(a_mask_behind_the_softmax_has_more_keys)
                              RUN(ones_of_another_shape_are_a_mask) RUN(shapes_are_refused_as_before)
                                  RUN(a_node_of_a_file_is_refused) RUN(numbers_of_a_node_are_checked)
                                      RUN(half_and_bfloat16) RUN(casts_that_are_no_rounding_are_left)
                                          RUN(the_same_bits_on_several_threads))
