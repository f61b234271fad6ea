/* tests/unit/kernels/test_gemm.c - kernels/dense/gemm_few.c: against the plain product, and rows alone
 * against rows together; kernels/dense/gemm_panels.c: against gemm_few.c, bit for bit;
 * kernels/dense/dnnl_pack.c: what is packed, when, and where.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/base/mem.h"
#include "kernels/dense/dnnl_pack.h"
#include "kernels/dense/gemm_cpu.h"
#include "kernels/dense/gemm_panels.h"
#include "kernels/dense/panel_pack.h"
#include "kernels/dense/tile_posts.h"
#include "tests/test.h"

enum { MOST = 17, GAP = 3 };

static float *numbers(int64_t n, int seed)
{
    float *p = td_calloc((size_t)n + 1, sizeof *p);
    CHECK(p != NULL);
    for (int64_t i = 0; i < n; i++) {
        p[i] = (float)((i * 37 + seed) % 101) / 50 - 1;
    }
    return p;
}

/* One product of m rows against the reference, and against each row by itself. */
static void check(int64_t m, int64_t k, int64_t n, enum td_trans tb, bool add)
{
    float *a = numbers(m * (k + GAP), 1), *b = numbers(k * n + 64, 2), *c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = numbers(m * (n + GAP), 3);
    }
    struct td_gemm g = {.tb = tb,
                        .m = m,
                        .n = n,
                        .k = k,
                        .a = a,
                        .b = b,
                        .c = c[0],
                        .lda = k + GAP,
                        .ldb = tb == TD_PLAIN ? n : k,
                        .ldc = n + GAP,
                        .add = add};
    td_gemm_small(&g);
    g.c = c[1];
    td_gemm_plain(TD_FLOAT, &g);
    for (int64_t i = 0; i < m; i++) {
        struct td_gemm row = g;
        row.m = 1;
        row.a = a + i * g.lda;
        row.c = c[2] + i * g.ldc;
        td_gemm_small(&row);
    }
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n + GAP; j++) {
            int64_t at = i * g.ldc + j;
            CHECK(fabsf(c[0][at] - c[1][at]) <= 1e-5f * (float)(k + 1));
            CHECK(c[0][at] == c[2][at]);
        }
    }
    for (int i = 0; i < 3; i++) {
        td_free(c[i]);
    }
    td_free(a);
    td_free(b);
}

TEST(rows_together_are_what_they_are_alone)
{
    static const int64_t ks[] = {0, 1, 3, 4, 7, 64, 130}, ns[] = {4, 7, 8, 9, 16, 1, 65, 1024, 1029, 2100};
    for (int64_t m = 1; m <= MOST; m++) {
        for (size_t k = 0; k < sizeof ks / sizeof ks[0]; k++) {
            for (size_t n = 0; n < sizeof ns / sizeof ns[0]; n += 1 + (m > 4)) {
                check(m, ks[k], ns[n], TD_PLAIN, (m + (int64_t)n) % 2 == 0);
            }
        }
        check(m, 37, 21, TD_TRANSPOSED, false);
        check(m, 37, 21, TD_TRANSPOSED, true);
    }
}

/* b [k,n] in panels, with one row of zeros more than k. */
static float *in_panels(const float *b, int64_t k, int64_t n)
{
    float *p = td_calloc((size_t)((k + 1) * (n + TD_PANEL)), sizeof *p);
    CHECK(p != NULL);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < k; i++) {
            p[j / TD_PANEL * (k + 1) * TD_PANEL + i * TD_PANEL + j % TD_PANEL] = b[i * n + j];
        }
    }
    return p;
}

static void check_panels(int64_t m, int64_t k, int64_t n)
{
    float *a = numbers(m * (k + GAP), 1), *b = numbers(k * n, 2), *p = in_panels(b, k, n), *c[2];
    for (int i = 0; i < 2; i++) {
        c[i] = numbers(m * (n + GAP), 3);
    }
    struct td_gemm g = {
        .m = m, .n = n, .k = k, .a = a, .b = b, .c = c[0], .lda = k + GAP, .ldb = n, .ldc = n + GAP};
    td_gemm_small(&g);
    g.b = p;
    g.ldb = k + 1;
    g.c = c[1];
    td_gemm_panels(&g, p);
    for (int64_t i = 0; i < m * (n + GAP); i++) { /* what lies between the rows stays */
        CHECK(c[0][i] == c[1][i]);
    }
    td_free(a);
    td_free(b);
    td_free(p);
    td_free(c[0]);
    td_free(c[1]);
}

TEST(panels_give_what_rows_give)
{
    static const int64_t ks[] = {1, 5, 16, 300, 1601};
    static const int64_t ns[] = {1, 4, 8, 16, 31, 32, 40, 64, 65, 127, 128, 200};
    for (int64_t m = 1; m <= MOST; m++) {
        for (size_t k = 0; k < sizeof ks / sizeof ks[0]; k++) {
            for (size_t n = 0; n < sizeof ns / sizeof ns[0]; n += 1 + (ks[k] > 1000)) {
                check_panels(m, ks[k], ns[n]);
            }
        }
    }
}

/* What a post does to y, as a formula. */
static float posted(const struct td_post *p, const float *with, int64_t at, int64_t channel, float y)
{
    switch (p->kind) {
    case TD_POST_RELU:
        return y < 0 ? 0 : y;
    case TD_POST_RELU6:
        return y < 0 ? 0 : y > 6 ? 6 : y;
    case TD_POST_SIGMOID:
        return 1 / (1 + expf(-y));
    case TD_POST_TANH:
        return tanhf(y);
    case TD_POST_SWISH:
        return y / (1 + expf(-y));
    case TD_POST_GELU_ERF:
        return y * (1 + erff(y / sqrtf(2))) / 2;
    case TD_POST_ADD:
        return y + with[at];
    default:
        return y + with[channel];
    }
}

/* Columns [64, N) and the last rows of a product in panels, as a thread has them, with two posts. */
static void check_posts(int64_t m, struct td_post second)
{
    enum { K = 900, N = 150, FIRST = 2 };
    float *a = numbers(m * K, 1), *b = numbers(K * N, 2), *p = in_panels(b, K, N), *x = numbers(m * N, 5);
    float *plain = numbers(m * N, 3), *y = numbers(m * N, 3), *shift = numbers(N, 4);
    const float *with[] = {shift, x};
    struct td_tile_posts posts = {
        .post = {{.kind = TD_POST_BIAS}, second}, .n = 2, .channels = N, .operand = with, .y = y};
    struct td_gemm g = {.m = m, .n = N, .k = K, .a = a, .b = b, .c = plain, .lda = K, .ldb = N, .ldc = N};
    td_gemm_small(&g);
    g.m -= FIRST;
    g.a = a + FIRST * K;
    g.n = N - TD_PANEL;
    g.b = p + TD_PANEL * (K + 1);
    g.ldb = K + 1;
    g.c = y + FIRST * N + TD_PANEL;
    g.posts = &posts;
    float *before = numbers(m * N, 3);
    td_gemm_panels(&g, NULL);
    for (int64_t i = 0; i < m * N; i++) {
        if (i / N < FIRST || i % N < TD_PANEL) { /* another's */
            CHECK(y[i] == before[i]);
            continue;
        }
        const float want = posted(&second, x, i, i % N, plain[i] + shift[i % N]);
        CHECK(fabsf(y[i] - want) <= 1e-5f * (1 + fabsf(want)));
    }
    float *const all[] = {a, b, p, x, plain, y, shift, before};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        td_free(all[i]);
    }
}

TEST(panels_do_their_posts)
{
    static const struct td_post posts[] = {{.kind = TD_POST_RELU},
                                           {.kind = TD_POST_RELU6},
                                           {.kind = TD_POST_SIGMOID},
                                           {.kind = TD_POST_TANH},
                                           {.kind = TD_POST_SWISH},
                                           {.kind = TD_POST_GELU_ERF},
                                           {.kind = TD_POST_ADD, .operand = TD_POST_ELEMENT}};
    for (size_t i = 0; i < sizeof posts / sizeof posts[0]; i++) {
        check_posts(3, posts[i]); /* one row of its own */
        check_posts(4, posts[i]);
        check_posts(30, posts[i]);
    }
}

/* Packs a square matrix, as it lies or transposed, and compares element by element. */
static void check_pack(const struct td_tensor *t, bool transposed, struct td_dnnl_weights *w)
{
    struct td_err err = {0};
    struct td_dnnl_pack *pack;
    int64_t depth;
    const int64_t n = t->shape.dim[0];
    CHECK(td_dnnl_weights_init(w) && td_panel_pack_set(w, n, n, transposed, &depth));
    CHECK(td_dnnl_weights_known(w, t, &err) == TD_OK);
    CHECK(td_dnnl_weights_meet(w, t, NULL, &pack, &err) == TD_OK && pack != NULL && depth == n);
    const float *x = t->data, *p = td_dnnl_pack_data(pack);
    for (int64_t k = 0; k < n; k++) {
        for (int64_t j = 0; j < n; j++) {
            CHECK(p[j / TD_PANEL * n * TD_PANEL + k * TD_PANEL + j % TD_PANEL] ==
                  x[transposed ? j * n + k : k * n + j]);
        }
    }
    td_dnnl_pack_drop(pack);
}

/* A layer's gradient reads the weights that the layer reads, transposed: of a square matrix both copies have
 * one layout. */
TEST(a_square_matrix_and_its_transpose_are_two_packs)
{
    enum { N = 128 };
    struct td_err err = {0};
    struct td_tensor t;
    struct td_dnnl_weights as_it_lies = {0}, transposed = {0};
    CHECK(td_tensor_new(&t, TD_FLOAT, &(struct td_shape){.rank = 2, .dim = {N, N}}, &err) == TD_OK);
    for (int64_t i = 0; i < N * N; i++) {
        TD_DATA(&t, float)[i] = (float)i;
    }
    check_pack(&t, false, &as_it_lies);
    check_pack(&t, true, &transposed);
    td_dnnl_weights_fini(&as_it_lies);
    td_dnnl_weights_fini(&transposed);
    td_tensor_clear(&t);
}

static struct td_tensor square(int64_t n, int first)
{
    struct td_err err = {0};
    struct td_tensor t;
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, &(struct td_shape){.rank = 2, .dim = {n, n}}, &err));
    for (int64_t i = 0; i < n * n; i++) {
        TD_DATA(&t, float)[i] = (float)((i + first) % 1009) / 7;
    }
    return t;
}

/* Meets t; whether it had a packed copy. */
static bool met(struct td_dnnl_weights *w, const struct td_tensor *t, const float *scale)
{
    struct td_err err = {0};
    struct td_dnnl_pack *pack;
    CHECK_OK(td_dnnl_weights_meet(w, t, scale, &pack, &err));
    td_dnnl_pack_drop(pack);
    return pack != NULL;
}

TEST(the_first_weights_are_packed_at_once_and_what_moves_is_not)
{
    enum { N = 192, STEPS = 8 };
    struct td_dnnl_weights w = {0};
    struct td_tensor t[STEPS];
    int64_t depth;
    const int64_t before = td_budget_noted(TD_MEMORY_PACKED);
    CHECK(td_dnnl_weights_init(&w) && td_panel_pack_set(&w, N, N, false, &depth));
    for (int i = 0; i < STEPS; i++) { /* as training would */
        t[i] = square(N, i);
        CHECK_INT(met(&w, &t[i], NULL), i == 0);
    }
    CHECK_INT(td_budget_noted(TD_MEMORY_PACKED), before);
    for (int i = 0; i < STEPS; i++) { /* none is held */
        CHECK(td_buffer_unique(t[i].buf));
        td_tensor_clear(&t[i]);
    }
    td_dnnl_weights_fini(&w);
}

/* Of so many copies of middling size all bytes come back. */
TEST(slabs_go_with_what_lies_in_them)
{
    enum { N = 256, MANY = 40 };
    struct td_dnnl_weights w[MANY] = {0};
    struct td_tensor t[MANY];
    struct td_err err = {0};
    int64_t depth;
    for (int i = 0; i < MANY; i++) {
        t[i] = square(N, i);
    }
    const uint64_t before = td_buffer_live_bytes();
    for (int i = 0; i < MANY; i++) {
        CHECK(td_dnnl_weights_init(&w[i]) && td_panel_pack_set(&w[i], N, N, false, &depth));
        CHECK_OK(td_dnnl_weights_known(&w[i], &t[i], &err));
    }
    CHECK(td_buffer_live_bytes() - before >= MANY * N * N * sizeof(float));
    for (int i = 0; i < MANY; i++) {
        struct td_dnnl_pack *pack;
        CHECK_OK(td_dnnl_weights_meet(&w[i], &t[i], NULL, &pack, &err));
        CHECK(((const float *)td_dnnl_pack_data(pack))[1] == TD_DATA(&t[i], float)[1]);
        td_dnnl_pack_drop(pack);
        td_dnnl_weights_fini(&w[i]);
    }
    CHECK_INT(td_buffer_live_bytes(), before);
    for (int i = 0; i < MANY; i++) {
        td_tensor_clear(&t[i]);
    }
}

/* A filter [3,3,16,32] into blocks of 8 channels, times a scale a channel: what multiplying first would
 * give. */
TEST(a_reorder_multiplies_as_a_loop_does)
{
    enum { H = 3, IN = 16, OUT = 32, COUNT = H * H * IN * OUT };
    struct td_err err = {0};
    struct td_dnnl_weights w = {0};
    struct td_tensor t;
    struct td_dnnl_pack *pack;
    dnnl_memory_desc_t used;
    dnnl_dims_t dims = {OUT, IN, H, H}, steps = {1, OUT, H * IN * OUT, IN * OUT};
    float scale[OUT];
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, &(struct td_shape){.rank = 4, .dim = {H, H, IN, OUT}}, &err));
    for (int i = 0; i < COUNT; i++) {
        TD_DATA(&t, float)[i] = (float)(i * 37 % 1009) / 313;
    }
    for (int i = 0; i < OUT; i++) {
        scale[i] = 0.1f + (float)i / 7;
    }
    CHECK(td_dnnl_weights_init(&w));
    CHECK(dnnl_memory_desc_init_by_strides(&w.plain, 4, dims, dnnl_f32, steps) == dnnl_success &&
          dnnl_memory_desc_init_by_tag(&used, 4, dims, dnnl_f32, dnnl_ABcd8b8a) == dnnl_success);
    CHECK(td_dnnl_weights_set(&w, &used, OUT, false) && w.scales);
    CHECK_OK(td_dnnl_weights_meet(&w, &t, scale, &pack, &err));
    const float *p = td_dnnl_pack_data(pack);
    for (int at = 0; at < COUNT; at++) {
        const int o = at % OUT, i = at / OUT % IN, place = at / OUT / IN;
        const int packed = ((o / 8 * (IN / 8) + i / 8) * H * H + place) * 64 + i % 8 * 8 + o % 8;
        CHECK(p[packed] == TD_DATA(&t, float)[at] * scale[o]);
    }
    td_dnnl_pack_drop(pack);
    scale[5] = 9;
    CHECK(!met(&w, &t, scale)); /* another scale is another copy */
    td_dnnl_weights_fini(&w);
    td_tensor_clear(&t);
}

TEST(few_rows_of_large_weights_are_ours)
{
    CHECK(td_gemm_is_few(&(struct td_gemm){.m = 2, .k = 1024, .n = 1024}));
    CHECK(td_gemm_is_few(&(struct td_gemm){.m = 1, .k = 16, .n = 16}));
    CHECK(!td_gemm_is_few(&(struct td_gemm){.m = 2, .k = 1024, .n = 1024, .ta = TD_TRANSPOSED}));
    CHECK(!td_gemm_is_few(&(struct td_gemm){.m = 16, .k = 1024, .n = 1024}));
    CHECK(!td_gemm_is_small(&(struct td_gemm){.m = 2, .k = 1024, .n = 1024}));
}

/* Where two NaN meet in a sum either may stay: only that it is one is the same. */
TEST(rows_with_nan_are_together_what_they_are_alone)
{
    for (int64_t n = 1; n <= 40; n++) {
        float *b = numbers(4 * n + 64, 2), c[2 * 40], a[8] = {NAN, 1, 2, 3, -NAN, -NAN, -NAN, NAN};
        td_gemm_small(
            &(struct td_gemm){.m = 2, .k = 4, .n = n, .a = a, .b = b, .c = c, .lda = 4, .ldb = n, .ldc = n});
        for (int64_t j = 0; j < 2 * n; j++) {
            CHECK(isnan(c[j]));
        }
        td_free(b);
    }
}

TEST_MAIN(RUN(rows_together_are_what_they_are_alone) RUN(rows_with_nan_are_together_what_they_are_alone)
              RUN(panels_give_what_rows_give) RUN(panels_do_their_posts)
                  RUN(a_square_matrix_and_its_transpose_are_two_packs) RUN(few_rows_of_large_weights_are_ours)
                      RUN(the_first_weights_are_packed_at_once_and_what_moves_is_not)
                          RUN(slabs_go_with_what_lies_in_them) RUN(a_reorder_multiplies_as_a_loop_does))
