/* tests/unit/kernels/test_layer_norm.c - rows that are normalised as one node (kernels/nn/layer_norm.h): how
 * that may be spelt, what only resembles it and stays, and that the node is what its nodes were.
 *
 * x is of any number of rows of 8 numbers, z the same as three axes; gamma and beta are made of constants.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/chain_make.h"
#include "tests/unit/core/pool_make.h"

#define T "{T:type=float} "
#define MEAN "Mean {T:type=float; Tidx:type=int32; keep_dims:bool=true} "
#define ROWS X "z = Reshape {T:type=float; Tshape:type=int32} (x, int32[3] -1 3 8)\n"
#define GAMMA "g = Range {Tidx:type=float} (float[] 0.5, float[] 2.5, float[] 0.25)\n"
#define BETA "b = Range {Tidx:type=float} (float[] -1, float[] 3, float[] 0.5)\n"
#define MOMENTS                                                                                              \
    "m = " MEAN "(z, int32[1] 2)\nd2 = SquaredDifference " T "(z, m)\nv = " MEAN "(d2, int32[1] -1)\n"
#define R "a = AddV2 " T "(v, float[] 0.001)\nr = Rsqrt " T "(a)\n"
#define RG GAMMA "rg = Mul " T "(r, g)\n"

static void comes_to(const char *text, int want)
{
    struct passed t;
    passed(&t, text, "w", NULL);
    const int found = count(&t, "_LayerNorm");
    if (found != want) {
        fprintf(stderr, "%s\nis a norm %d times\n", text, found);
    }
    CHECK_INT(found, want);
    CHECK_INT(want > 0 ? count(&t, "Mean") : 0, 0);
    passed_close(&t);
    same_results(text, "w", td_shape_matrix(6, 8), td_shape_scalar());
    same_results(text, "w", td_shape_matrix(300, 8), td_shape_scalar());
}

TEST(as_keras_spells_it)
{
    comes_to(ROWS MOMENTS R RG BETA "n = Neg " T "(m)\nmr = Mul " T "(n, rg)\no = AddV2 " T
                                    "(mr, b)\nxr = Mul " T "(z, rg)\nw = AddV2 " T "(xr, o)\n",
             1);
    comes_to(ROWS MOMENTS R "n = Neg " T "(m)\nmr = Mul " T "(n, r)\nxr = Mul " T "(z, r)\nw = AddV2 " T
                            "(xr, mr)\n",
             1);
}

TEST(as_batch_normalization_spells_it)
{
    comes_to(ROWS MOMENTS R RG BETA "mr = Mul " T "(m, rg)\no = Sub " T "(b, mr)\nxr = Mul " T
                                    "(z, rg)\nw = AddV2 " T "(xr, o)\n",
             1);
    comes_to(ROWS MOMENTS R RG "mr = Mul " T "(m, rg)\nxr = Mul " T "(z, rg)\nw = Sub " T "(xr, mr)\n", 1);
}

TEST(by_hand)
{
    comes_to(ROWS MOMENTS R GAMMA BETA "d = Sub " T "(z, m)\nn = Mul " T "(d, r)\ng1 = Mul " T
                                       "(g, n)\nw = AddV2 " T "(g1, b)\n",
             1);
    comes_to(ROWS "m = " MEAN "(z, int32[1] 2)\nd = Sub " T "(z, m)\nd2 = Square " T "(d)\nv = " MEAN
                  "(d2, int32[1] 2)\na = AddV2 " T "(float[] 0.001, v)\nr = Sqrt " T "(a)\n" BETA
                  "q = RealDiv " T "(d, r)\nw = AddV2 " T "(q, b)\n",
             1);
}

TEST(by_the_mean_of_squares)
{
    comes_to(ROWS "d2 = Mul " T "(z, z)\nv = " MEAN "(d2, int32[1] 2)\n" R "n = Mul " T "(z, r)\n" GAMMA
                  "w = Mul " T "(n, g)\n",
             1);
    comes_to(ROWS "d2 = Square " T "(z)\nv = " MEAN "(d2, int32[1] 2)\n" R RG "w = Mul " T "(rg, z)\n", 1);
}

#define HALF "h = Cast {SrcT:type=float; DstT:type=half} (z0)\n"

/* The casts of a layer that computes in float beside others that do not: rows stay halves outside of it. */
TEST(casts_are_its_own)
{
    const char *const text =
        X "z0 = Reshape {T:type=float; Tshape:type=int32} (x, int32[3] -1 3 8)\n" HALF
          "z = Cast {SrcT:type=half; DstT:type=float} (h)\n" MOMENTS R RG BETA "mr = Mul " T
          "(m, rg)\no = Sub " T "(b, mr)\nxr = Mul " T "(z, rg)\ns = AddV2 " T
          "(xr, o)\nw = Cast {SrcT:type=float; DstT:type=half} (s)\n";
    struct passed t;
    passed(&t, text, "w", NULL);
    CHECK_INT(count(&t, "_LayerNorm"), 1);
    CHECK_INT(count(&t, "Cast"), 1);
    const struct td_node *n = result(&t);
    CHECK_STR(n->op_name, "_LayerNorm");
    CHECK_INT(td_dtype_of(n->in[0]), TD_HALF);
    CHECK_INT(n->out_type[0], TD_HALF);
    passed_close(&t);
}

TEST(what_resembles_it_is_left)
{
    const char *const end = "d = Sub " T "(z, m)\nn = Mul " T "(d, r)\n";
    char text[4096];
    (void)snprintf(text, sizeof text, "%s%sw = Mul " T "(n, v)\n", ROWS MOMENTS R, end); /* read outside */
    comes_to(text, 0);
    (void)snprintf(text, sizeof text, "%sw = Mul " T "(z, r)\n", ROWS MOMENTS R); /* not centred, by that */
    comes_to(text, 0);
    (void)snprintf(text, sizeof text, "%sd = AddV2 " T "(z, m)\nw = Mul " T "(d, r)\n", ROWS MOMENTS R);
    comes_to(text, 0);
    (void)snprintf(text, sizeof text,
                   ROWS "m = " MEAN "(z, int32[1] 1)\nd2 = SquaredDifference " T "(z, m)\nv = " MEAN
                        "(d2, int32[1] 2)\n" R "%sw = Neg " T "(n)\n",
                   end); /* along two axes */
    comes_to(text, 0);
}

static enum td_code asked(const char *text, struct td_shape shape, const char *off)
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct td_tensor out, in = ramp(&shape, 0, 1);
    passed_open(&t, text, "w");
    const struct td_model_opts how = {.ops = t.ops, .passes_off = off};
    CHECK_INT(td_model_new(&how, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    enum td_code rc = td_callable_new(m, &t.how, &f, &t.err);
    rc = rc ? rc : td_callable_run(f, &in, &out, NULL, &t.err);
    if (rc == TD_OK) {
        td_tensor_clear(&out);
    }
    td_tensor_clear(&in);
    td_model_unref(m);
    passed_close(&t);
    return rc;
}

/* A layer with x as it comes: along axis `axis`, scale and offset of 8. */
static const char *of_any_shape(const char *axis)
{
    static char text[4096];
    (void)snprintf(text, sizeof text,
                   X "m = " MEAN "(x, int32[1] %s)\nd2 = SquaredDifference " T "(x, m)\nv = " MEAN
                     "(d2, int32[1] %s)\n" R RG BETA "mr = Mul " T "(m, rg)\no = Sub " T
                     "(b, mr)\nxr = Mul " T "(x, rg)\nw = AddV2 " T "(xr, o)\n",
                   axis, axis);
    struct passed t;
    passed(&t, text, "w", NULL);
    CHECK_INT(count(&t, "_LayerNorm"), 1);
    passed_close(&t);
    return text;
}

/* What shapes are is seen when it runs: rows may lie along any axis, and vectors be longer than they. */
TEST(shapes_that_no_one_told)
{
    static const char *const axes[] = {"-1", "2", "1", "0", "-2"};
    const struct td_shape shapes[] = {shape4(2, 3, 5, 8),    shape4(2, 3, 5, 1),    shape4(1, 1, 300, 8),
                                      shape4(2, 3, 5, 7),    td_shape_matrix(6, 8), td_shape_matrix(6, 1),
                                      td_shape_matrix(0, 8), td_shape_vector(8),    td_shape_vector(1),
                                      td_shape_scalar(),     shape4(2, 3, 0, 8)};
    for (size_t a = 0; a < sizeof axes / sizeof *axes; a++) {
        const char *const text = of_any_shape(axes[a]);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const enum td_code rc = asked(text, shapes[i], NULL);
            CHECK_INT(rc, asked(text, shapes[i], "all"));
            if (rc == TD_OK) {
                same_results(text, "w", shapes[i], td_shape_scalar());
            }
        }
    }
}

/* A tensor that is added is no offset, and a number no scale: they stay behind it. */
TEST(what_is_no_vector_stays_behind)
{
    comes_to(ROWS MOMENTS R "d = Sub " T "(z, m)\nn = Mul " T "(d, r)\nw = AddV2 " T "(n, z)\n", 1);
    comes_to(ROWS MOMENTS R "d = Sub " T "(z, m)\nn = Mul " T "(d, r)\nw = Mul " T "(n, float[] 3)\n", 1);
}

TEST(the_shape_of_what_will_be_gone_keeps_it)
{
    comes_to(ROWS MOMENTS R "d = Sub " T "(z, m)\nn = Mul " T "(d, r)\n"
                            "s = Shape {T:type=float; out_type:type=int32} (d2)\n"
                            "f = Fill {T:type=float; index_type:type=int32} (s, float[] 2)\n"
                            "w = AddV2 " T "(n, f)\n",
             0);
}

TEST(sums_without_end_are_left)
{
    static struct chain c;
    chain_add(&c,
              X "z0 = Reshape {T:type=float; Tshape:type=int32} (x, int32[3] -1 3 8)\nr = Rsqrt " T "(z0)\n");
    for (int i = 1; i < 4000; i++) {
        chain_add(&c, "z%d = AddV2 " T "(z%d, r)\n", i, i - 1);
    }
    chain_add(&c, "s = Rsqrt " T "(z3999)\nr1 = Mul " T "(s, z3999)\n");
    c.text[c.n] = 0;
    struct passed t;
    passed(&t, c.text, "r1", "norm");
    CHECK_INT(count(&t, "_LayerNorm"), 0);
    passed_close(&t);
}

#define OF_A_FILE(more, types, in)                                                                           \
    X BETA "w = _LayerNorm {T:type=float; Ts:list(type)=[" types "]; Tout:type=float" more "} (" in ")\n"
#define TOLD "; _epsilon:float=0.5; _centred:bool=true; _offset:bool=true"

TEST(a_node_of_a_file_is_checked)
{
    CHECK_INT(asked(OF_A_FILE(TOLD, "float", "x, b"), td_shape_matrix(2, 8), NULL), TD_OK);
    CHECK(asked(OF_A_FILE("", "", "x"), td_shape_matrix(2, 8), NULL) != TD_OK);
    CHECK(asked(OF_A_FILE(TOLD, "", "x"), td_shape_matrix(2, 8), NULL) != TD_OK);
    CHECK(asked(OF_A_FILE(TOLD, "int32", "x, int32[8] 1 2 3 4 5 6 7 8"), td_shape_matrix(2, 8), NULL) !=
          TD_OK);
    CHECK(asked(OF_A_FILE(TOLD, "float", "x, b"), td_shape_matrix(2, 7), NULL) != TD_OK);
    CHECK(asked(OF_A_FILE(TOLD, "float", "x, b"), td_shape_scalar(), NULL) != TD_OK);
}

enum { ROUNDS = 5 };

TEST(the_same_bits_on_several_threads)
{
    const char *const text = ROWS MOMENTS R RG BETA "mr = Mul " T "(m, rg)\no = Sub " T "(b, mr)\nxr = Mul " T
                                                    "(z, rg)\nw = AddV2 " T "(xr, o)\n";
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    struct made_pool pool;
    const struct td_shape shape = td_shape_matrix(30000, 8);
    struct td_tensor in = ramp(&shape, -1, 0.5F), want, got;
    const struct td_run_opts opts = {.pool = &pool.pool};
    passed_open(&t, text, "w");
    const struct td_model_opts how = {.ops = t.ops};
    CHECK_INT(td_model_new(&how, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    CHECK_INT(td_callable_run(f, &in, &want, NULL, &t.err), TD_OK);
    pool_start(&pool);
    for (int round = 0; round < ROUNDS; round++) {
        CHECK_INT(td_callable_run(f, &in, &got, &opts, &t.err), TD_OK);
        CHECK_INT(memcmp(got.data, want.data, td_tensor_bytes(&want)), 0);
        td_tensor_clear(&got);
    }
    pool_stop(&pool);
    CHECK(pool.started > 0);
    td_tensor_clear(&want);
    td_tensor_clear(&in);
    td_model_unref(m);
    passed_close(&t);
}

TEST_MAIN(RUN(as_keras_spells_it) RUN(as_batch_normalization_spells_it) RUN(by_hand)
              RUN(by_the_mean_of_squares) RUN(casts_are_its_own) RUN(what_resembles_it_is_left)
                  RUN(what_is_no_vector_stays_behind) RUN(shapes_that_no_one_told)
                      RUN(the_shape_of_what_will_be_gone_keeps_it) RUN(sums_without_end_are_left)
                          RUN(a_node_of_a_file_is_checked) RUN(the_same_bits_on_several_threads))
