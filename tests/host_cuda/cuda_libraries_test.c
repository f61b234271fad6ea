/* tests/host_cuda/cuda_libraries_test.c - kernels/cuda/base/cublaslt.c and cudnn.c on the stand-ins: products
 * of all layouts with all epilogues, convolutions by several threads at once, and libraries that are not
 * there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#include "kernels/cuda/base/border.h"
#include "kernels/cuda/base/cublaslt.h"
#include "kernels/cuda/base/cudnn_conv.h"
#include "kernels/cuda/base/swap.h"
#include "kernels/cuda/nn/conv.h"
#include "tests/test.h"

int host_cuda_reports(void); /* host_cuda.h, which is C++ */

enum { MOST = 4096, SAID = 320, ROOM = 1 << 20 };

static float numbers(size_t i)
{
    return (float)(i * 37 % 101) / 50 - 1;
}

struct memory {
    struct td_cuda_stream *stream;
    float *a, *b, *bias, *y; /* on the device, MOST each */
    void *workspace;
};

static float *filled(struct td_cuda_stream *stream)
{
    float here[MOST];
    void *at;
    for (size_t i = 0; i < MOST; i++) {
        here[i] = numbers(i);
    }
    CHECK_INT(td_cuda_allocate(0, stream, sizeof here, &at), 0);
    CHECK_INT(td_cuda_copy(0, stream, TD_CUDA_TO_DEVICE, at, here, sizeof here), 0);
    CHECK_INT(td_cuda_stream_wait(0, stream), 0);
    return at;
}

static void open_memory(struct memory *m)
{
    CHECK_INT(td_cuda_stream_new(0, &m->stream), 0);
    m->a = filled(m->stream);
    m->b = filled(m->stream);
    m->bias = filled(m->stream);
    m->y = filled(m->stream);
    CHECK_INT(td_cuda_allocate(0, m->stream, ROOM, &m->workspace), 0);
}

static void close_memory(struct memory *m)
{
    void *const all[] = {m->a, m->b, m->bias, m->y, m->workspace};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        CHECK_INT(td_cuda_free(0, m->stream, all[i]), 0);
    }
    CHECK_INT(td_cuda_stream_wait(0, m->stream), 0);
    CHECK_INT(td_cuda_stream_free(m->stream), 0);
}

static void read_back(const struct memory *m, float *to, size_t n)
{
    CHECK_INT(td_cuda_copy(0, m->stream, TD_CUDA_TO_HOST, to, m->y, n * sizeof *to), 0);
    CHECK_INT(td_cuda_stream_wait(0, m->stream), 0);
}

static const struct td_cuda_conv CONVOLUTION = {
    .batch = 2,
    .ic = 4,
    .oc = 6,
    .groups = 2,
    .axis = {{.in = 1, .k = 1, .stride = 1, .dilation = 1, .out = 1},
             {.in = 6, .k = 3, .stride = 2, .dilation = 1, .out = 3, .before = 1},
             {.in = 5, .k = 2, .stride = 1, .dilation = 1, .out = 4}},
    .x = {.batch = 6 * 5 * 4, .axis = {6 * 5 * 4, 5 * 4, 4}, .channel = 1},
    .y = {.batch = 3 * 4 * 6, .axis = {3 * 4 * 6, 4 * 6, 6}, .channel = 1}};

/* ------------------------------------------------------------------ products */

static double expected(const struct td_cublaslt_product *p, int64_t batch, int64_t i, int64_t j)
{
    double sum = 0;
    for (int64_t k = 0; k < p->k; k++) {
        const int64_t a = batch * p->a_step + (p->ta ? k * p->m + i : i * p->k + k);
        const int64_t b = batch * p->b_step + (p->tb ? j * p->k + k : k * p->n + j);
        sum += (double)numbers((size_t)a) * (double)numbers((size_t)b);
    }
    const enum td_cublaslt_epilogue e = p->epilogue;
    sum += p->adds ? (double)numbers((size_t)((batch * p->m + i) * p->n + j)) : 0;
    sum += e == TD_CUBLASLT_BIAS || e == TD_CUBLASLT_BIAS_RELU || e == TD_CUBLASLT_BIAS_GELU
               ? (double)numbers((size_t)j)
               : 0;
    return e == TD_CUBLASLT_RELU || e == TD_CUBLASLT_BIAS_RELU ? fmax(sum, 0)
           : e == TD_CUBLASLT_GELU || e == TD_CUBLASLT_BIAS_GELU
               ? 0.5 * sum * (1 + tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)))
               : sum;
}

/* How far the farthest element is from what it should be. */
static double multiply(const struct td_cublaslt *lt, const struct memory *m,
                       const struct td_cublaslt_product *p, int choice)
{
    struct td_cublaslt_plan *plan = NULL;
    struct td_err err = {0};
    float y[MOST];
    double farthest = 0;
    const char *const refusal = td_cublaslt_plan_make(lt, p, choice, &plan);
    CHECK(refusal == NULL && td_cublaslt_plan_workspace(plan) <= ROOM);
    const struct td_cublaslt_call call = {.a = m->a,
                                          .b = m->b,
                                          .bias = m->bias,
                                          .added = m->bias,
                                          .y = m->y,
                                          .workspace = m->workspace,
                                          .stream = m->stream};
    CHECK_OK(td_cublaslt_multiply(plan, &call, &err));
    read_back(m, y, (size_t)(p->batches * p->m * p->n));
    td_cublaslt_plan_free(plan);
    for (int64_t e = 0; e < p->batches * p->m * p->n; e++) {
        const int64_t batch = e / (p->m * p->n), i = e / p->n % p->m, j = e % p->n;
        farthest = fmax(farthest, fabs((double)y[e] - expected(p, batch, i, j)));
    }
    return farthest;
}

static struct td_cublaslt *open_cublaslt(bool tf32)
{
    char said[SAID];
    struct td_cublaslt *lt =
        td_cublaslt_open(&(struct td_cublaslt_opts){.tf32 = tf32, .most_workspace = ROOM}, said, sizeof said);
    CHECK(lt != NULL);
    CHECK_STR(said, tf32 ? "cuBLASLt 13.0.99 (libcublasLt.so.13) with TF32"
                         : "cuBLASLt 13.0.99 (libcublasLt.so.13)");
    return lt;
}

TEST(products_of_all_layouts_and_epilogues_are_made)
{
    struct td_cublaslt *lt = open_cublaslt(false);
    struct memory m;
    open_memory(&m);
    for (int i = 0; i < 4 * 6 * 4 * 2; i++) {
        const int batches = i / 24 % 4;
        struct td_cublaslt_product p = {.type = TD_CUDA_FLOAT,
                                        .m = 5 + i % 3,
                                        .n = 7,
                                        .k = 11,
                                        .batches = batches < 2 ? 1 : 3,
                                        .adds = i >= 96,
                                        .ta = i % 2 != 0,
                                        .tb = i / 2 % 2 != 0,
                                        .epilogue = (enum td_cublaslt_epilogue)(i / 4 % 6)};
        p.a_step = batches == 2 ? 0 : p.m * p.k;
        p.b_step = batches == 3 ? 0 : p.n * p.k;
        CHECK(multiply(lt, &m, &p, i % 2) < 1e-5);
    }
    close_memory(&m);
    td_cublaslt_close(lt);
}

TEST(a_product_of_vectors_is_one_too)
{
    struct td_cublaslt *lt = open_cublaslt(false);
    struct memory m;
    open_memory(&m);
    for (int i = 0; i < 8; i++) {
        const struct td_cublaslt_product p = {.type = TD_CUDA_FLOAT,
                                              .m = i & 1 ? 1 : 6,
                                              .n = i & 2 ? 1 : 9,
                                              .k = i & 4 ? 1 : 300,
                                              .batches = 1};
        CHECK(multiply(lt, &m, &p, 0) < 1e-4);
    }
    close_memory(&m);
    td_cublaslt_close(lt);
}

TEST(with_tf32_factors_have_fewer_bits)
{
    const struct td_cublaslt_product p = {.type = TD_CUDA_FLOAT, .m = 8, .n = 8, .k = 64, .batches = 1};
    struct td_cublaslt *exact = open_cublaslt(false), *rounding = open_cublaslt(true);
    struct memory m;
    open_memory(&m);
    CHECK(multiply(exact, &m, &p, 0) < 1e-5);
    const double off = multiply(rounding, &m, &p, 0);
    CHECK(off > 1e-5 && off < 1e-1);
    close_memory(&m);
    td_cublaslt_close(exact);
    td_cublaslt_close(rounding);
}

TEST(plans_are_made_for_the_librarys_device_and_no_other)
{
    char said[SAID];
    struct td_cublaslt_plan *product = NULL;
    struct td_cudnn_plan *convolution = NULL;
    const struct td_cublaslt_product p = {.type = TD_CUDA_HALF, .m = 2, .n = 2, .k = 2, .batches = 1};
    struct td_cublaslt *lt = td_cublaslt_open(&(struct td_cublaslt_opts){.device = 1}, said, sizeof said);
    struct td_cudnn *dnn = td_cudnn_open(&(struct td_cudnn_opts){.device = 1}, said, sizeof said);
    CHECK_INT(td_cuda_use(0), 0);
    CHECK(td_cublaslt_plan_make(lt, &p, 0, &product) == NULL);
    CHECK_INT(td_cuda_use(0), 0);
    CHECK(td_cudnn_plan_make(dnn, TD_CUDNN_INPUT_GRAD, TD_CUDA_HALF, &CONVOLUTION, 0, &convolution) == NULL);
    CHECK_INT(host_cuda_reports(), 0);
    td_cublaslt_plan_free(product);
    td_cudnn_plan_free(convolution);
    td_cublaslt_close(lt);
    td_cudnn_close(dnn);
}

TEST(what_cannot_be_multiplied_is_refused)
{
    struct td_cublaslt *lt = open_cublaslt(false);
    struct td_cublaslt_plan *plan = NULL;
    struct td_cublaslt_product p = {.type = TD_CUDA_FLOAT, .m = 2, .n = 2, .batches = 1};
    CHECK_STR(td_cublaslt_plan_make(lt, &p, 0, &plan), "there is nothing to multiply");
    p.k = 2;
    CHECK_STR(td_cublaslt_plan_make(lt, &p, 9, &plan), "cuBLASLt has no algorithm more for such a product");
    p.batches = (int64_t)1 << 40;
    CHECK_STR(td_cublaslt_plan_make(lt, &p, 0, &plan), "more batches than cuBLASLt counts");
    td_cublaslt_close(lt);
}

/* ------------------------------------------------------------------ convolutions */

enum { THREADS = 4, ROUNDS = 12, X = 2 * 6 * 5 * 4, W = 3 * 2 * 2 * 6, Y = 2 * 3 * 4 * 6 };

typedef int own_convolution(enum td_cuda_type type, const struct td_cuda_conv *s, const void *a,
                            const void *b, void *y, struct td_cuda_stream *stream);

struct rounds {
    struct td_cudnn *dnn;
    int wrong;
};

/* One kind of convolution by the library and by our own: how far apart the farthest elements are. */
static double convolve(struct td_cudnn *dnn, const struct memory *m, const struct td_cuda_conv *s,
                       enum td_cudnn_which which, int choice)
{
    static own_convolution *const own[] = {td_cuda_conv_forward, td_cuda_conv_input, td_cuda_conv_filter};
    static const size_t sizes[] = {Y, X, W};
    struct td_cudnn_plan *plan = NULL;
    struct td_err err = {0};
    float ours[MOST], theirs[MOST];
    double farthest = 0;
    if (td_cudnn_plan_make(dnn, which, TD_CUDA_FLOAT, s, choice, &plan) != NULL) {
        return 1e9;
    }
    CHECK(td_cudnn_plan_workspace(plan) <= ROOM);
    const struct td_cudnn_call call = {
        .a = m->a, .b = m->b, .y = m->y, .workspace = m->workspace, .stream = m->stream};
    const enum td_code rc = td_cudnn_convolve(plan, &call, &err);
    read_back(m, theirs, sizes[which]);
    td_cudnn_plan_free(plan);
    CHECK_INT(own[which](TD_CUDA_FLOAT, s, m->a, m->b, m->y, m->stream), 0);
    read_back(m, ours, sizes[which]);
    for (size_t i = 0; i < sizes[which]; i++) {
        farthest = fmax(farthest, fabs((double)ours[i] - (double)theirs[i]));
    }
    return rc == TD_OK ? farthest : 1e9;
}

/* A bias, a sum, a ReLU and a sigmoid: `first` on, n of them. */
static struct td_cuda_posts posts_of(const struct memory *m, int first, int n)
{
    const struct td_cuda_post all[] = {
        {.kind = TD_CUDA_POST_ADD, .operand = TD_CUDA_POST_CHANNEL, .at = m->bias},
        {.kind = TD_CUDA_POST_ADD, .operand = TD_CUDA_POST_ELEMENT, .at = m->b + 64},
        {.kind = TD_CUDA_POST_RELU},
        {.kind = TD_CUDA_POST_SIGMOID}};
    struct td_cuda_posts posts = {.n = n};
    memcpy(posts.post, all + first, (size_t)n * sizeof *all);
    return posts;
}

/* A convolution that is to do `wanted` behind itself: how many of them the library takes, and how far it is
 * then from our own with as many. */
static double convolve_on(struct td_cudnn *dnn, const struct memory *m, const struct td_cuda_conv *s,
                          const struct td_cuda_posts *wanted, int choice, int *taken)
{
    struct td_cuda_conv with = *s;
    struct td_cudnn_plan *plan = NULL;
    struct td_err err = {0};
    float ours[MOST], theirs[MOST];
    double farthest = 0;
    with.posts = *wanted;
    *taken = -1;
    if (td_cudnn_plan_make(dnn, TD_CUDNN_FORWARD, TD_CUDA_FLOAT, &with, choice, &plan) != NULL) {
        return 1e9;
    }
    with.posts.n = *taken = td_cudnn_plan_posts(plan)->n;
    CHECK(td_cudnn_plan_workspace(plan) <= ROOM);
    const struct td_cudnn_call call = {.a = m->a,
                                       .b = m->b,
                                       .posts = &with.posts,
                                       .y = m->y,
                                       .workspace = m->workspace,
                                       .stream = m->stream};
    for (int i = 0; i < 2; i++) { /* a refusal is remembered */
        CHECK_OK(td_cudnn_convolve(plan, &call, &err));
    }
    read_back(m, theirs, Y);
    td_cudnn_plan_free(plan);
    CHECK_INT(td_cuda_conv_forward(TD_CUDA_FLOAT, &with, m->a, m->b, m->y, m->stream), 0);
    read_back(m, ours, Y);
    for (size_t i = 0; i < Y; i++) {
        farthest = fmax(farthest, fabs((double)ours[i] - (double)theirs[i]));
    }
    return farthest;
}

static void *go_round(void *arg)
{
    struct rounds *t = arg;
    struct memory m;
    open_memory(&m);
    for (int i = 0; i < ROUNDS; i++) {
        t->wrong += !(convolve(t->dnn, &m, &CONVOLUTION, (enum td_cudnn_which)(i % 3), i / 3 % 2) < 1e-4);
    }
    close_memory(&m);
    return NULL;
}

TEST(a_matrix_of_any_element_is_swapped)
{
    enum { ROWS = 70, COLUMNS = 45 };
    struct memory m;
    unsigned char here[2][ROWS * COLUMNS * 16];
    void *x, *y;
    open_memory(&m);
    CHECK_INT(td_cuda_allocate(0, m.stream, sizeof here[0], &x), 0);
    CHECK_INT(td_cuda_allocate(0, m.stream, sizeof here[1], &y), 0);
    for (size_t i = 0; i < sizeof here[0]; i++) {
        here[0][i] = (unsigned char)(i * 37 % 251);
    }
    CHECK_INT(td_cuda_copy(0, m.stream, TD_CUDA_TO_DEVICE, x, here[0], sizeof here[0]), 0);
    for (size_t bytes = 1; bytes <= 16; bytes *= 2) {
        CHECK_INT(td_cuda_swap(bytes, ROWS, COLUMNS, x, y, m.stream), 0);
        CHECK_INT(td_cuda_copy(0, m.stream, TD_CUDA_TO_HOST, here[1], y, ROWS * COLUMNS * bytes), 0);
        CHECK_INT(td_cuda_stream_wait(0, m.stream), 0);
        for (size_t i = 0; i < ROWS * COLUMNS; i++) {
            CHECK(memcmp(&here[1][(i % COLUMNS * ROWS + i / COLUMNS) * bytes], &here[0][i * bytes], bytes) ==
                  0);
        }
    }
    CHECK_INT(td_cuda_free(0, m.stream, x), 0);
    CHECK_INT(td_cuda_free(0, m.stream, y), 0);
    close_memory(&m);
}

static struct td_cudnn *open_cudnn(void)
{
    char said[SAID];
    struct td_cudnn *dnn = td_cudnn_open(&(struct td_cudnn_opts){.most_workspace = ROOM}, said, sizeof said);
    CHECK(dnn != NULL);
    CHECK_STR(said, "cuDNN 9.0.99 (libcudnn.so.9)");
    return dnn;
}

TEST(convolutions_by_several_threads_are_those_of_our_own)
{
    struct td_cudnn *dnn = open_cudnn();
    struct rounds rounds[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        rounds[i] = (struct rounds){.dnn = dnn};
        CHECK_INT(pthread_create(&threads[i], NULL, go_round, &rounds[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK_INT(pthread_join(threads[i], NULL), 0);
        CHECK_INT(rounds[i].wrong, 0);
    }
    td_cudnn_close(dnn);
}

TEST(a_convolution_does_what_the_library_has_behind_it)
{
    static const struct {
        int first, n, choice, taken;
    } cases[] = {{0, 0, 0, 0},  {0, 1, 0, 1}, /* without a ReLU by one algorithm; the others leave it */
                 {0, 1, 1, 0},  {0, 1, 2, 0}, {0, 1, 3, -1}, {0, 2, 0, 2},
                 {0, 2, 1, 0},  {0, 3, 0, 3}, {0, 3, 1, 3}, /* any algorithm */
                 {0, 3, 2, -1}, {0, 4, 1, 3}, {1, 2, 0, 0}, /* no bias comes first */
                 {2, 1, 0, 0}};
    struct td_cudnn *dnn = open_cudnn();
    struct memory m;
    open_memory(&m);
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        const struct td_cuda_posts wanted = posts_of(&m, cases[i / 2].first, cases[i / 2].n);
        struct td_cuda_conv s = CONVOLUTION;
        s.groups = i % 2 != 0 ? 2 : 1; /* groups are refused when it is called, and go on as two steps */
        int taken;
        const double off = convolve_on(dnn, &m, &s, &wanted, cases[i / 2].choice, &taken);
        CHECK_INT(taken, cases[i / 2].taken);
        CHECK(taken < 0 || off < 1e-4);
    }
    CHECK_INT(host_cuda_reports(), 0);
    close_memory(&m);
    td_cudnn_close(dnn);
}

/* More padding behind than before, before than behind, on one axis or both. */
TEST(uneven_padding_is_a_border)
{
    static const struct {
        int64_t in_h, before_h, in_w, before_w;
    } cases[] = {{6, 0, 5, 0}, {5, 2, 5, 0}, {6, 1, 4, 0}, {6, 1, 4, 1},
                 {6, 0, 4, 0}, {4, 2, 3, 2}, {4, 1, 3, 2}};
    struct td_cudnn *dnn = open_cudnn();
    struct memory m;
    open_memory(&m);
    for (size_t i = 0; i < 6 * (sizeof cases / sizeof *cases); i++) {
        struct td_cuda_conv s = CONVOLUTION;
        s.axis[1].in = cases[i / 6].in_h;
        s.axis[1].before = cases[i / 6].before_h;
        s.axis[2].in = cases[i / 6].in_w;
        s.axis[2].before = cases[i / 6].before_w;
        const int64_t line = s.axis[2].in * s.ic;
        s.x = (struct td_cuda_cells){
            .batch = s.axis[1].in * line, .axis = {s.axis[1].in * line, line, s.ic}, .channel = 1};
        CHECK(convolve(dnn, &m, &s, (enum td_cudnn_which)(i % 3), (int)(i / 3 % 2)) < 1e-4);
    }
    CHECK_INT(host_cuda_reports(), 0);
    close_memory(&m);
    td_cudnn_close(dnn);
}

/* Pieces of 2 to 16 bytes. */
TEST(a_border_is_added_and_cut)
{
    enum { TALL = 5, WIDE = 6, MOST_CELLS = 2 * TALL * WIDE * 8 };
    struct memory m;
    open_memory(&m);
    for (int64_t channels = 1; channels <= 8; channels++) {
        const struct td_cuda_border s = {.batch = 2,
                                         .h = 3,
                                         .w = 4,
                                         .channels = channels,
                                         .top = 1,
                                         .left = 2,
                                         .tall = TALL,
                                         .wide = WIDE};
        float with[MOST_CELLS], cut[MOST_CELLS];
        CHECK_INT(td_cuda_border_add(sizeof(float), &s, m.a, m.y, m.stream), 0);
        read_back(&m, with, (size_t)(2 * TALL * WIDE * channels));
        for (int64_t i = 0; i < 2 * TALL * WIDE * channels; i++) {
            const int64_t c = i % channels, w = i / channels % WIDE - 2, h = i / channels / WIDE % TALL - 1;
            const bool inside = w >= 0 && w < 4 && h >= 0 && h < 3;
            const int64_t from = ((i / channels / (TALL * WIDE) * 3 + h) * 4 + w) * channels + c;
            CHECK(with[i] == (inside ? numbers((size_t)from) : 0));
        }
        CHECK_INT(td_cuda_border_cut(sizeof(float), &s, m.y, m.workspace, m.stream), 0);
        CHECK_INT(td_cuda_copy(0, m.stream, TD_CUDA_TO_HOST, cut, m.workspace, sizeof cut), 0);
        CHECK_INT(td_cuda_stream_wait(0, m.stream), 0);
        for (int64_t i = 0; i < 2 * 3 * 4 * channels; i++) {
            CHECK(cut[i] == numbers((size_t)i));
        }
    }
    close_memory(&m);
}

/* As where a plan is recorded while other runs have all handles that there are. */
TEST(a_handle_can_be_made_while_a_stream_is_recorded)
{
    struct memory m;
    struct td_cuda_graph *graph;
    open_memory(&m);
    CHECK_INT(td_cuda_capture_begin(0, m.stream), 0);
    struct td_cudnn *dnn = open_cudnn();
    CHECK_INT(td_cuda_capture_end(0, m.stream, &graph), 0);
    CHECK_INT(td_cuda_graph_free(0, graph), 0);
    td_cudnn_close(dnn);
    close_memory(&m);
}

static void check_refused(struct td_cudnn *dnn, enum td_cuda_type type, const struct td_cuda_conv *s,
                          const char *why)
{
    struct td_cudnn_plan *plan = NULL;
    CHECK_STR(td_cudnn_plan_make(dnn, TD_CUDNN_FORWARD, type, s, 0, &plan), why);
}

TEST(convolutions_that_are_not_the_librarys_are_refused)
{
    struct td_cudnn *dnn = open_cudnn();
    struct td_cuda_conv s = CONVOLUTION;
    check_refused(dnn, TD_CUDA_DOUBLE, &s, "cuDNN takes no double in this layout");
    s.axis[0].k = 2;
    check_refused(dnn, TD_CUDA_FLOAT, &s, "it has three axes");
    s = CONVOLUTION;
    s.x.channel = 30;
    check_refused(dnn, TD_CUDA_FLOAT, &s, "channels do not come last");
    s = CONVOLUTION;
    s.axis[1].before = 1 << 20; /* and fewer rows behind */
    check_refused(dnn, TD_CUDA_FLOAT, &s, "with a border it takes more than a workspace");
    s.axis[1].before = s.axis[2].before = INT_MAX;
    s.batch = INT_MAX;
    check_refused(dnn, TD_CUDA_FLOAT, &s, "with a border it takes more than a workspace");
    s = CONVOLUTION;
    s.batch = 0;
    check_refused(dnn, TD_CUDA_FLOAT, &s, "there is nothing to convolve, or more than cuDNN counts");
    s = CONVOLUTION;
    s.axis[2] = (struct td_cuda_axis){.in = 5, .k = 2, .stride = 1, .dilation = 2, .out = 3};
    s.y = (struct td_cuda_cells){.batch = 3 * 3 * 6, .axis = {3 * 3 * 6, 3 * 6, 6}, .channel = 1};
    check_refused(dnn, TD_CUDA_FLOAT, &s, "cuDNN has no algorithm more for such a convolution");
    td_cudnn_close(dnn);
}

/* ------------------------------------------------------------------ libraries */

TEST(libraries_that_are_missing_or_something_else_are_told)
{
    static const char *const none[] = {"libnothing.so.1", "libnothing.so.0", NULL};
    static const char *const other[] = {"libnothing.so.1", "libc.so.6", NULL};
    char said[SAID];
    CHECK(td_cublaslt_open(&(struct td_cublaslt_opts){.names = none}, said, sizeof said) == NULL);
    CHECK_STR(said, "libnothing.so.1: cannot open shared object file: No such file or directory");
    CHECK(td_cublaslt_open(&(struct td_cublaslt_opts){.names = other}, said, sizeof said) == NULL);
    CHECK_STR(said, "libc.so.6 has no function cublasLtCreate");
    CHECK(td_cudnn_open(&(struct td_cudnn_opts){.names = none}, said, sizeof said) == NULL);
    CHECK_STR(said, "libnothing.so.1: cannot open shared object file: No such file or directory");
    CHECK(td_cudnn_open(&(struct td_cudnn_opts){.names = other}, said, sizeof said) == NULL);
    CHECK_STR(said, "libc.so.6 has no function cudnnGetVersion");
}

TEST_MAIN(RUN(products_of_all_layouts_and_epilogues_are_made) RUN(a_product_of_vectors_is_one_too)
              RUN(with_tf32_factors_have_fewer_bits) RUN(what_cannot_be_multiplied_is_refused)
                  RUN(plans_are_made_for_the_librarys_device_and_no_other)
                      RUN(a_matrix_of_any_element_is_swapped)
                          RUN(convolutions_by_several_threads_are_those_of_our_own)
                              RUN(a_convolution_does_what_the_library_has_behind_it)
                                  RUN(uneven_padding_is_a_border) RUN(a_border_is_added_and_cut)
                                      RUN(a_handle_can_be_made_while_a_stream_is_recorded)
                                          RUN(convolutions_that_are_not_the_librarys_are_refused)
                                              RUN(libraries_that_are_missing_or_something_else_are_told))
