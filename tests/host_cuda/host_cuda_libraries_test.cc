/* tests/host_cuda/host_cuda_libraries_test.cc - the stand-ins of cuBLASLt and cuDNN tell every wrong call
 * that they can see, and compute what a right one asks for. Each case is the right call with one thing
 * wrong.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/cublaslt_api.h"
#include "kernels/cuda/base/cudnn_api.h"
#include "tests/host_cuda/stand_in_test.h"

#include <functional>
#include <thread>

extern "C" {
#define CALL(type, name, parameters) type name parameters;
#include "kernels/cuda/base/cublaslt_api.def"
#define CALL(type, name, parameters) type name parameters;
#include "kernels/cuda/base/cudnn_api.def"
}

enum { MANY = 4096 };

static cudaStream_t stream()
{
    static cudaStream_t s;
    if (s == nullptr) {
        CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    }
    return s;
}

/* ------------------------------------------------------------------ cuBLASLt */

/* D [4,3] = A [4,5] * B [5,3] of each of two batches, column by column, and a bias. */
struct product {
    enum { M = 4, N = 3, K = 5 };
    int compute = TD_CUBLASLT_COMPUTE_32F, scale = TD_CUBLASLT_R_32F, type[4] = {0, 0, 0, 0};
    int32_t ta = 0, tb = 0, epilogue = TD_CUBLASLT_EPILOGUE_BIAS, batches[4] = {2, 2, 2, 2};
    uint64_t rows[4] = {M, K, M, M}, columns[4] = {K, N, N, N};
    int64_t ld[4] = {M, K, M, M}, step[4] = {M * K, K *N, M *N, M *N};
    size_t attribute_bytes = sizeof(int32_t), workspace_given = 1024;
    uint64_t most = 1 << 20;
    int choice = 0, wanted = 8;
    float alpha = 1, beta = 0;
    const float *a = nullptr, *b = nullptr, *bias = nullptr, *c = nullptr;
    float *d = nullptr;
    void *workspace = nullptr;
    cudaStream_t queue = stream();
    std::function<void(product *)> before_call; /* when the algorithm was chosen */
    void *handle = nullptr, *desc = nullptr, *layout[4] = {};
};

static void set_desc(product *p, int attribute, int32_t value)
{
    (void)cublasLtMatmulDescSetAttribute(p->desc, attribute, &value, p->attribute_bytes);
}

static void describe(product *p)
{
    CHECK_INT(cublasLtMatmulDescCreate(&p->desc, p->compute, p->scale), 0);
    set_desc(p, TD_CUBLASLT_DESC_TRANSA, p->ta);
    if (p->attribute_bytes != sizeof(int32_t)) {
        return;
    }
    set_desc(p, TD_CUBLASLT_DESC_TRANSB, p->tb);
    set_desc(p, TD_CUBLASLT_DESC_EPILOGUE, p->epilogue);
    CHECK_INT(
        cublasLtMatmulDescSetAttribute(p->desc, TD_CUBLASLT_DESC_BIAS_POINTER, &p->bias, sizeof p->bias), 0);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(cublasLtMatrixLayoutCreate(&p->layout[i], p->type[i], p->rows[i], p->columns[i], p->ld[i]),
                  0);
        CHECK_INT(cublasLtMatrixLayoutSetAttribute(p->layout[i], TD_CUBLASLT_LAYOUT_BATCH_COUNT,
                                                   &p->batches[i], sizeof p->batches[i]),
                  0);
        CHECK_INT(cublasLtMatrixLayoutSetAttribute(p->layout[i], TD_CUBLASLT_LAYOUT_BATCH_OFFSET, &p->step[i],
                                                   sizeof p->step[i]),
                  0);
    }
}

/* Advice and the call, unless the former fails. */
static void multiply(product *p)
{
    td_cublaslt_found found[8];
    void *preference;
    int n = 0;
    CHECK_INT(cublasLtMatmulPreferenceCreate(&preference), 0);
    CHECK_INT(cublasLtMatmulPreferenceSetAttribute(preference, TD_CUBLASLT_PREF_MAX_WORKSPACE_BYTES, &p->most,
                                                   sizeof p->most),
              0);
    const int status =
        cublasLtMatmulAlgoGetHeuristic(p->handle, p->desc, p->layout[0], p->layout[1], p->layout[2],
                                       p->layout[3], preference, p->wanted, found, &n);
    CHECK_INT(cublasLtMatmulPreferenceDestroy(preference), 0);
    if (status != 0) {
        return;
    }
    td_cublaslt_algo *algo = &found[p->choice].algo;
    if (p->before_call) {
        p->before_call(p);
    }
    (void)cublasLtMatmul(p->handle, p->desc, &p->alpha, p->a, p->layout[0], p->b, p->layout[1], &p->beta,
                         p->c, p->layout[2], p->d, p->layout[3], p->choice < 4 ? algo : nullptr, p->workspace,
                         p->workspace_given, disguised(p->queue));
}

/* The product with one thing wrong; what D is then, when nothing was. */
static std::vector<float> try_product(const std::function<void(product *)> &spoil, const char *words)
{
    product p;
    const int before = host_cuda_reports();
    float *const room = new_array<float>(MANY);
    p.a = new_array_of(small_numbers(MANY));
    p.b = new_array_of(small_numbers(MANY));
    p.bias = new_array_of(small_numbers(MANY));
    p.d = new_array_of(small_numbers(MANY));
    p.c = p.d;
    p.workspace = room;
    CHECK_INT(cublasLtCreate(&p.handle), 0);
    void *const made = p.handle;
    const std::vector<const void *> owned = {p.a, p.b, p.bias, p.d, room};
    spoil(&p);
    describe(&p);
    if (host_cuda_reports() == before) {
        multiply(&p);
    }
    CHECK_CUDA(words[0] == '\0' ? cudaStreamSynchronize(stream()) : cudaSuccess);
    check_report(before, words);
    for (int i = 0; i < 4; i++) {
        CHECK_INT(p.layout[i] == nullptr ? 0 : cublasLtMatrixLayoutDestroy(p.layout[i]), 0);
    }
    CHECK_INT(cublasLtMatmulDescDestroy(p.desc), 0);
    CHECK_INT(cublasLtDestroy(made), 0);
    const std::vector<float> d =
        words[0] == '\0' ? read_array(p.d, 2 * product::M * product::N) : std::vector<float>();
    for (const void *x : owned) {
        CHECK_CUDA(cudaFree(const_cast<void *>(x)));
    }
    return d;
}

TEST(a_right_product_is_made)
{
    for (const bool relu : {false, true}) {
        for (const int choice : {0, 2, 3, 10}) { /* from 10 on: C is added */
            const std::vector<float> x = small_numbers(MANY),
                                     d = try_product(
                                         [&](product *p) {
                                             p->choice = choice % 10;
                                             p->beta = choice >= 10 ? 1 : 0;
                                             p->c = choice >= 10 ? new_array_of(x) : p->c;
                                             p->workspace_given = choice == 3 ? 65536 : 1024;
                                             p->workspace =
                                                 choice == 3 ? new_array<float>(16384) : p->workspace;
                                             p->epilogue |= relu ? 2 : 0;
                                         },
                                         "");
            for (int e = 0; e < 2 * product::M * product::N; e++) {
                const int batch = e / (product::M * product::N), i = e % product::M,
                          j = e / product::M % product::N;
                float want = x[i];
                for (int k = 0; k < product::K; k++) {
                    want += x[batch * product::M * product::K + k * product::M + i] *
                            x[batch * product::K * product::N + j * product::K + k];
                }
                want += choice >= 10 ? x[e] : 0;
                CHECK(d[e] == (relu && want < 0 ? 0 : want));
            }
        }
    }
}

TEST(wrong_descriptors_of_a_product_are_told)
{
    const struct {
        std::function<void(product *)> spoil;
        const char *words;
    } cases[] = {
        {[](product *p) { p->handle = p; }, "no such handle"},
        {[](product *p) { p->attribute_bytes = 8; }, "an attribute of 4 bytes is given as 8"},
        {[](product *p) { p->compute = 64; }, "are not computed as 64"},
        {[](product *p) { p->scale = TD_CUBLASLT_R_16F; }, "alpha and beta are of type 2"},
        {[](product *p) { p->type[1] = TD_CUBLASLT_R_16F; }, "the matrices are of types 0, 2, 0 and 0"},
        {[](product *p) { p->type[0] = p->type[1] = p->type[2] = p->type[3] = 3; }, "matrices of type 3"},
        {[](product *p) { p->ta = TD_CUBLASLT_OP_T; }, "A 4 x 5^T and B 5 x 3 do not make D 4 x 3"},
        {[](product *p) { p->tb = 7; }, "operations 0 and 7"},
        {[](product *p) { p->epilogue = 128; }, "epilogue 128"},
        {[](product *p) { p->ld[1] = 3; }, "B has a leading dimension of 3, and 5 rows"},
        {[](product *p) { p->rows[0] = 0; }, "A is 0 x 5"},
        {[](product *p) { p->batches[1] = 3; }, "B has 3 batches, D 2"},
        {[](product *p) { p->step[0] = 7; }, "A's batches are 7 elements apart, and have 20"},
        {[](product *p) { p->step[2] = p->step[3] = 0; }, "D's batches are 0 elements apart"},
        {[](product *p) { p->ld[2] = 9; }, "C's layout is not D's"},
        {[](product *p) { p->wanted = 0; }, "no algorithm is wanted"},
    };
    for (const auto &c : cases) {
        (void)try_product(c.spoil, c.words);
    }
}

TEST(wrong_calls_of_a_product_are_told)
{
    const struct {
        std::function<void(product *)> spoil;
        const char *words;
    } cases[] = {
        {[](product *p) { p->alpha = 2; }, "alpha is not 1, or beta neither 0 nor 1"},
        {[](product *p) { p->beta = 2; }, "alpha is not 1, or beta neither 0 nor 1"},
        {[](product *p) { p->choice = 5; }, "the algorithm was not advised"},
        {[](product *p) { p->choice = 1; }, "the algorithm was said not to work"},
        {[](product *p) { p->before_call = [](product *q) { set_desc(q, TD_CUBLASLT_DESC_EPILOGUE, 6); }; },
         "the algorithm was advised for another product"},
        {[](product *p) { p->workspace_given = 1000; }, "wants a workspace of 1024 bytes, 1000 are given"},
        {[](product *p) { p->workspace = nullptr; }, "the workspace is NULL"},
        {[](product *p) { p->workspace = static_cast<char *>(p->workspace) + 16; },
         "the workspace is aligned to 16 bytes, 256 are wanted"},
        {[](product *p) { p->workspace_given = MANY * sizeof(float) + 1; },
         "the workspace wants 16385 bytes, and its allocation has 16384 from there on"},
        {[](product *p) { p->workspace = p->d; }, "D and the workspace share bytes"},
        {[](product *p) { p->a += 1; }, "A is aligned to 4 bytes, 256 are wanted"},
        {[](product *p) { p->b += MANY; }, "B is no memory of the device's"},
        {[](product *p) { p->bias = nullptr; }, "the bias is NULL"},
        {[](product *p) { p->c = p->a; }, "C is not D, and nothing is added"},
        {[](product *p) {
             p->beta = 1;
             p->c = p->a + 1;
         },
         "C is aligned to 4 bytes, 256 are wanted"},
        {[](product *p) {
             p->beta = 1;
             p->c = nullptr;
         },
         "C is NULL"},
        {[](product *p) { p->c = p->d = const_cast<float *>(p->b); }, "D and B share bytes"},
        {[](product *p) { p->step[0] = MANY; }, "A wants 16464 bytes, and its allocation has 16384"},
        {[](product *p) { p->queue = nullptr; }, "it is no stream of one's own"},
        {[](product *p) { p->queue = reinterpret_cast<cudaStream_t>(p); }, "it is no stream of one's own"},
    };
    for (const auto &c : cases) {
        (void)try_product(c.spoil, c.words);
    }
    int before = host_cuda_reports();
    static float here[MANY];
    check_report(before, "");
    (void)try_product(
        [](product *p) { p->a = here + (64 - (reinterpret_cast<uintptr_t>(here) / 4) % 64) % 64; },
        "A is no memory of the device's");
    void *handle, *desc;
    before = host_cuda_reports();
    CHECK_INT(cublasLtCreate(&handle), 0);
    CHECK_INT(cublasLtMatmulDescCreate(&desc, 68, 0), 0);
    CHECK_INT(cublasLtDestroy(handle), 0);
    check_report(before, "1 descriptors, layouts and preferences were not destroyed");
    CHECK_INT(cublasLtMatmulDescDestroy(desc), 0);
    before = host_cuda_reports();
    CHECK(cublasLtMatmulDescDestroy(desc) != 0);
    check_report(before, "no such object");
}

TEST(tf32_rounds_factors)
{
    const auto one_third = [](product *p) {
        std::vector<float> x(MANY, 1.0f / 3);
        CHECK_CUDA(
            cudaMemcpy(const_cast<float *>(p->a), x.data(), MANY * sizeof(float), cudaMemcpyHostToDevice));
        p->epilogue = TD_CUBLASLT_EPILOGUE_DEFAULT;
    };
    const std::vector<float> exact = try_product(one_third, "");
    const std::vector<float> rounded = try_product(
        [&](product *p) {
            one_third(p);
            p->compute = TD_CUBLASLT_COMPUTE_32F_FAST_TF32;
        },
        "");
    bool differs = false;
    for (size_t i = 0; i < exact.size(); i++) {
        const float d = exact[i] - rounded[i];
        differs = differs || d != 0;
        CHECK(d < 0.01f && d > -0.01f);
    }
    CHECK(differs);
}

/* ------------------------------------------------------------------ cuDNN */

/* x [2,5,4,6], filters 3 x 2 of 3 to 4 channels in two groups, padding 1 and 0, steps of 2 and 1. */
struct convolution {
    int x[6] = {TD_CUDNN_NHWC, TD_CUDNN_FLOAT, 2, 6, 5, 4},
        w[6] = {TD_CUDNN_FLOAT, TD_CUDNN_NHWC, 4, 3, 3, 2};
    int y[6] = {TD_CUDNN_NHWC, TD_CUDNN_FLOAT, 2, 4, 3, 3};
    int pad[2] = {1, 0}, stride[2] = {2, 1}, dilation[2] = {1, 1}, mode = TD_CUDNN_CROSS_CORRELATION;
    int compute = TD_CUDNN_FLOAT, groups = 2, math = TD_CUDNN_FMA_MATH, algo = 1;
    bool set_x = true, set_stream = true;
    float alpha = 1, beta = 0;
    const float *of_x = nullptr, *of_w = nullptr;
    float *of_y = nullptr;
    void *workspace = nullptr;
    size_t workspace_given = 2048;
    cudaStream_t queue = stream();
    void *handle = nullptr, *desc[6] = {}; /* x, w, y, the convolution, the bias, the activation */
    bool of_other_thread = false;
    bool behind = false; /* with a bias, a sum and an activation, of one group */
    int bias[6] = {TD_CUDNN_NHWC, TD_CUDNN_FLOAT, 1, 4, 1, 1}, act = TD_CUDNN_RELU;
    int nan = TD_CUDNN_NOT_PROPAGATE_NAN, z = 2; /* the latter: which of desc describes it */
    float alpha_z = 1;
    const float *of_z = nullptr, *of_bias = nullptr;
};

static void describe(convolution *c)
{
    CHECK_INT(cudnnCreateTensorDescriptor(&c->desc[0]), 0);
    CHECK_INT(cudnnCreateFilterDescriptor(&c->desc[1]), 0);
    CHECK_INT(cudnnCreateTensorDescriptor(&c->desc[2]), 0);
    CHECK_INT(cudnnCreateConvolutionDescriptor(&c->desc[3]), 0);
    if (c->set_x) {
        CHECK_INT(
            cudnnSetTensor4dDescriptor(c->desc[0], c->x[0], c->x[1], c->x[2], c->x[3], c->x[4], c->x[5]), 0);
    }
    CHECK_INT(cudnnSetFilter4dDescriptor(c->desc[1], c->w[0], c->w[1], c->w[2], c->w[3], c->w[4], c->w[5]),
              0);
    CHECK_INT(cudnnSetTensor4dDescriptor(c->desc[2], c->y[0], c->y[1], c->y[2], c->y[3], c->y[4], c->y[5]),
              0);
    CHECK_INT(cudnnSetConvolution2dDescriptor(c->desc[3], c->pad[0], c->pad[1], c->stride[0], c->stride[1],
                                              c->dilation[0], c->dilation[1], c->mode, c->compute),
              0);
    CHECK_INT(cudnnSetConvolutionGroupCount(c->desc[3], c->groups), 0);
    CHECK_INT(cudnnSetConvolutionMathType(c->desc[3], c->math), 0);
    CHECK_INT(cudnnCreateTensorDescriptor(&c->desc[4]), 0);
    CHECK_INT(cudnnCreateActivationDescriptor(&c->desc[5]), 0);
    CHECK_INT(cudnnSetTensor4dDescriptor(c->desc[4], c->bias[0], c->bias[1], c->bias[2], c->bias[3],
                                         c->bias[4], c->bias[5]),
              0);
    CHECK_INT(cudnnSetActivationDescriptor(c->desc[5], c->act, c->nan, 0), 0);
}

static void convolve(convolution *c)
{
    if (c->set_stream && cudnnSetStream(c->handle, disguised(c->queue)) != 0) {
        return;
    }
    const auto call = [c] {
        if (c->behind) {
            (void)cudnnConvolutionBiasActivationForward(
                c->handle, &c->alpha, c->desc[0], c->of_x, c->desc[1], c->of_w, c->desc[3], c->algo,
                c->workspace, c->workspace_given, &c->alpha_z, c->z < 0 ? c : c->desc[c->z], c->of_z,
                c->desc[4], c->of_bias, c->desc[5], c->desc[2], c->of_y);
            return;
        }
        (void)cudnnConvolutionForward(c->handle, &c->alpha, c->desc[0], c->of_x, c->desc[1], c->of_w,
                                      c->desc[3], c->algo, c->workspace, c->workspace_given, &c->beta,
                                      c->desc[2], c->of_y);
    };
    if (c->of_other_thread) {
        std::thread(call).join();
    } else {
        call();
    }
}

static std::vector<float> try_convolution(const std::function<void(convolution *)> &spoil, const char *words)
{
    convolution c;
    const int before = host_cuda_reports();
    c.of_x = new_array_of(small_numbers(MANY));
    c.of_w = new_array_of(small_numbers(MANY));
    c.of_y = new_array_of(small_numbers(MANY));
    c.workspace = new_array<float>(MANY);
    CHECK_INT(cudnnCreate(&c.handle), 0);
    void *const made = c.handle;
    c.of_z = new_array_of(small_numbers(MANY));
    c.of_bias = new_array_of(small_numbers(MANY));
    const std::vector<const void *> owned = {c.of_x, c.of_w, c.of_y, c.workspace, c.of_z, c.of_bias};
    spoil(&c);
    describe(&c);
    convolve(&c);
    CHECK_CUDA(words[0] == '\0' ? cudaStreamSynchronize(stream()) : cudaSuccess);
    check_report(before, words);
    CHECK_INT(cudnnDestroyTensorDescriptor(c.desc[0]), 0);
    CHECK_INT(cudnnDestroyFilterDescriptor(c.desc[1]), 0);
    CHECK_INT(cudnnDestroyTensorDescriptor(c.desc[2]), 0);
    CHECK_INT(cudnnDestroyConvolutionDescriptor(c.desc[3]), 0);
    CHECK_INT(cudnnDestroyTensorDescriptor(c.desc[4]), 0);
    CHECK_INT(cudnnDestroyActivationDescriptor(c.desc[5]), 0);
    CHECK_INT(cudnnDestroy(made), 0);
    const std::vector<float> y = words[0] == '\0' ? read_array(c.of_y, 2 * 3 * 3 * 4) : std::vector<float>();
    for (const void *x : owned) {
        CHECK_CUDA(cudaFree(const_cast<void *>(x)));
    }
    return y;
}

TEST(a_right_convolution_is_made)
{
    const std::vector<float> x = small_numbers(MANY), y = try_convolution([](convolution *) {}, "");
    for (int e = 0; e < 2 * 3 * 3 * 4; e++) {
        const int o = e % 4, column = e / 4 % 3, row = e / 12 % 3, n = e / 36;
        float want = 0;
        for (int tap = 0; tap < 6; tap++) {
            const int h = row * 2 - 1 + tap / 2, w = column + tap % 2;
            for (int i = 0; h >= 0 && h < 5 && i < 3; i++) {
                want += x[((n * 5 + h) * 4 + w) * 6 + o / 2 * 3 + i] * x[(o * 6 + tap) * 3 + i];
            }
        }
        CHECK(y[e] == want);
    }
}

/* A convolution of one group, with what comes behind it. */
static std::vector<float> try_behind(const std::function<void(convolution *)> &spoil, const char *words)
{
    return try_convolution(
        [&](convolution *c) {
            c->behind = true;
            c->groups = 1;
            c->w[3] = 6;
            spoil(c);
        },
        words);
}

TEST(a_bias_a_sum_and_an_activation_are_done_behind_a_convolution)
{
    const auto plain = [](convolution *c) {
        c->groups = 1;
        c->w[3] = 6;
    };
    const std::vector<float> x = small_numbers(MANY), bare = try_convolution(plain, "");
    for (int i = 0; i < 6; i++) {
        const bool relu = i % 2 != 0, sum = i / 2 > 0, in_place = i / 2 == 2;
        const std::vector<float> y = try_behind(
            [&](convolution *c) {
                c->act = relu ? TD_CUDNN_RELU : TD_CUDNN_IDENTITY;
                c->alpha_z = sum ? 1 : 0;
                c->of_z = in_place || !sum ? c->of_y : c->of_z;
            },
            "");
        for (size_t e = 0; e < bare.size(); e++) {
            const float want = bare[e] + x[e % 4] + (sum ? x[e] : 0);
            CHECK(y[e] == (relu && want < 0 ? 0 : want));
        }
    }
    (void)try_behind([](convolution *c) { c->groups = 2, c->w[3] = 3; }, ""); /* refused, and no fault */
    (void)try_behind([](convolution *c) { c->algo = 0; }, "");
}

TEST(wrong_calls_of_a_convolution_with_an_activation_are_told)
{
    const struct {
        std::function<void(convolution *)> spoil;
        const char *words;
    } cases[] = {
        {[](convolution *c) { c->z = -1; }, "no such descriptor for z"},
        {[](convolution *c) { c->z = 0; }, "z is described as another tensor than y"},
        {[](convolution *c) { c->bias[0] = 0; }, "the bias has format 0"},
        {[](convolution *c) { c->bias[1] = TD_CUDNN_HALF; }, "the bias is of type 2 and 1 x 1 x 1 x 4"},
        {[](convolution *c) { c->bias[3] = 5; }, "the bias is of type 0 and 1 x 1 x 1 x 5, for 4 channels"},
        {[](convolution *c) { c->bias[2] = 2; }, "the bias is of type 0 and 2 x 1 x 1 x 4, for 4 channels"},
        {[](convolution *c) { c->act = 2; }, "the activation has mode 2"},
        {[](convolution *c) { c->nan = 1; }, "the activation is to hand NaN on"},
        {[](convolution *c) { c->act = TD_CUDNN_IDENTITY, c->algo = 0; }, "algorithm 0 without a ReLU"},
        {[](convolution *c) { c->alpha = 2; }, "alpha is not 1, or that of z neither 0 nor 1"},
        {[](convolution *c) { c->alpha_z = 2; }, "alpha is not 1, or that of z neither 0 nor 1"},
        {[](convolution *c) { c->of_z = nullptr; }, "z, its alpha or the bias is NULL"},
        {[](convolution *c) { c->of_bias = nullptr; }, "z, its alpha or the bias is NULL"},
        {[](convolution *c) { c->of_bias += 1; }, "the bias is aligned to 4 bytes, 16 are wanted"},
        {[](convolution *c) { c->of_bias = c->of_y; }, "y and the bias share bytes"},
        {[](convolution *c) { c->of_z = c->of_y + 4; }, "y and z share bytes"},
        {[](convolution *c) { c->of_z += MANY - 4; }, "z wants 288 bytes, and its allocation has 16"},
        {[](convolution *c) { c->workspace_given = 100; }, "algorithm 1 wants a workspace of 2048 bytes"},
    };
    for (const auto &c : cases) {
        (void)try_behind(c.spoil, c.words);
    }
}

TEST(wrong_descriptors_of_a_convolution_are_told)
{
    const struct {
        std::function<void(convolution *)> spoil;
        const char *words;
    } cases[] = {
        {[](convolution *c) { c->set_x = false; }, "x was not set"},
        {[](convolution *c) { c->x[0] = 0; }, "x has format 0"},
        {[](convolution *c) { c->w[1] = 0; }, "w has format 0"},
        {[](convolution *c) { c->y[1] = 1; }, "y is of type 1"},
        {[](convolution *c) { c->y[1] = TD_CUDNN_HALF; }, "x, w and y are of types 0, 0 and 2"},
        {[](convolution *c) { c->x[2] = 0; }, "x has no elements"},
        {[](convolution *c) { c->w[3] = 6; }, "6 channels, filters of 6 to 4 in 2 groups, and 4 channels"},
        {[](convolution *c) { c->groups = 0; }, "in 0 groups"},
        {[](convolution *c) { c->y[4] = 4; }, "y is 2 of 4 x 3, and would be 2 of 3 x 3"},
        {[](convolution *c) { c->pad[1] = 1; }, "y is 2 of 3 x 3, and would be 2 of 3 x 5"},
        {[](convolution *c) { c->stride[0] = 0; }, "steps 0,1"},
        {[](convolution *c) { c->mode = 0; }, "the convolution has mode 0"},
        {[](convolution *c) { c->compute = TD_CUDNN_HALF; }, "computes in type 2"},
        {[](convolution *c) { c->math = TD_CUDNN_TENSOR_OP_MATH; }, "tensors of type 0 with mathematics 1"},
    };
    for (const auto &c : cases) {
        (void)try_convolution(c.spoil, c.words);
    }
}

TEST(wrong_calls_of_a_convolution_are_told)
{
    const struct {
        std::function<void(convolution *)> spoil;
        const char *words;
    } cases[] = {
        {[](convolution *c) { c->set_stream = false; }, "the handle's stream was not set by its caller"},
        {[](convolution *c) { c->of_other_thread = true; }, "the handle's stream was not set by its caller"},
        {[](convolution *c) { c->queue = nullptr; }, "it is no stream of one's own"},
        {[](convolution *c) { c->alpha = 2; }, "alpha is not 1, or beta not 0"},
        {[](convolution *c) { c->algo = 2; }, "algorithm 2 does not do this"},
        {[](convolution *c) { c->workspace_given = 100; },
         "algorithm 1 wants a workspace of 2048 bytes, 100 are given"},
        {[](convolution *c) { c->workspace = nullptr; }, "the workspace is NULL"},
        {[](convolution *c) { c->of_x += 1; }, "x is aligned to 4 bytes, 16 are wanted"},
        {[](convolution *c) { c->of_w = nullptr; }, "w is NULL"},
        {[](convolution *c) { c->of_y += MANY - 4; },
         "y wants 288 bytes, and its allocation has 16 from there on"},
        {[](convolution *c) { c->of_y = const_cast<float *>(c->of_x); }, "y and x share bytes"},
        {[](convolution *c) { c->workspace = c->of_y; }, "share bytes"},
    };
    for (const auto &c : cases) {
        (void)try_convolution(c.spoil, c.words);
    }
    (void)try_convolution([](convolution *c) { c->handle = c; }, "no such handle");
}

TEST_MAIN(RUN(a_right_product_is_made) RUN(wrong_descriptors_of_a_product_are_told)
              RUN(wrong_calls_of_a_product_are_told) RUN(tf32_rounds_factors) RUN(a_right_convolution_is_made)
                  RUN(wrong_descriptors_of_a_convolution_are_told) RUN(wrong_calls_of_a_convolution_are_told)
                      RUN(a_bias_a_sum_and_an_activation_are_done_behind_a_convolution)
                          RUN(wrong_calls_of_a_convolution_with_an_activation_are_told))
