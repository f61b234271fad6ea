/* tests/host_cuda/host_cuda_cudnn_graph_test.cc - the stand-in of cuDNN's graph interface tells every wrong
 * call that it can see, and computes attention where all is right. Each case is the right graph with one
 * thing wrong.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/cudnn_api.h"
#include "tests/host_cuda/stand_in_test.h"

#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <thread>

extern "C" {
#define CALL(type, name, parameters) type name parameters;
#include "kernels/cuda/base/cudnn_api.def"
}

enum { MANY = 2048, TENSORS = 5, NONE = -1, SCALE = 4 };
enum { BATCH = 2, HEADS = 2, QUERIES = 3, KEYS = 4, NUMBERS = 8 };

static cudaStream_t stream()
{
    static cudaStream_t s;
    if (s == nullptr) {
        CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    }
    return s;
}

/* y = softmax(q k^T / 2) v: [2,2,3,8] and [2,2,4,8], one behind the other. */
struct attention {
    int64_t dim[TENSORS][4] = {{BATCH, HEADS, QUERIES, NUMBERS},
                               {BATCH, HEADS, KEYS, NUMBERS},
                               {BATCH, HEADS, KEYS, NUMBERS},
                               {BATCH, HEADS, QUERIES, NUMBERS},
                               {1, 1, 1, 1}};
    int64_t step[TENSORS][4] = {{HEADS * QUERIES * NUMBERS, QUERIES *NUMBERS, NUMBERS, 1},
                                {HEADS * KEYS * NUMBERS, KEYS *NUMBERS, NUMBERS, 1},
                                {HEADS * KEYS * NUMBERS, KEYS *NUMBERS, NUMBERS, 1},
                                {HEADS * QUERIES * NUMBERS, QUERIES *NUMBERS, NUMBERS, 1},
                                {1, 1, 1, 1}};
    int type[TENSORS] = {TD_CUDNN_HALF, TD_CUDNN_HALF, TD_CUDNN_HALF, TD_CUDNN_HALF, TD_CUDNN_FLOAT};
    int64_t aligned = 16, strides = 4, n_pointers = TENSORS, uid_of_key = 1;
    bool by_value = true, of_other_thread = false, set_stream = true;
    int left_out = NONE, not_final = NONE; /* an attribute; a kind of descriptor */
    int mode = TD_CUDNN_HEUR_MODE_A, config = 2, dimension_type = TD_CUDNN_TYPE_INT64;
    float scale = 0.5f;
    const void *at[TENSORS] = {};
    void *workspace = nullptr, *handle = nullptr, *handle_of_graph = nullptr;
    std::vector<void *> made;
    bool stopped = false; /* a call has failed */
};

static void check_stop(attention *a, int status)
{
    a->stopped = a->stopped || status != 0;
}

static void *add(attention *a, int kind)
{
    void *d = nullptr;
    check_stop(a, cudnnBackendCreateDescriptor(kind, &d));
    a->made.push_back(d);
    return d;
}

static void set(attention *a, void *d, int name, int type, int64_t n, const void *values)
{
    if (!a->stopped && name != a->left_out) {
        check_stop(a, cudnnBackendSetAttribute(d, name, type, n, values));
    }
}

static void finalize(attention *a, void *d, int kind)
{
    if (!a->stopped && kind != a->not_final) {
        check_stop(a, cudnnBackendFinalize(d));
    }
}

static void *graph_of(attention *a)
{
    static const int names[TENSORS] = {TD_CUDNN_SDPA_Q, TD_CUDNN_SDPA_K, TD_CUDNN_SDPA_V, TD_CUDNN_SDPA_O,
                                       TD_CUDNN_SDPA_SCALE};
    void *tensor[TENSORS];
    for (int64_t i = 0; i < TENSORS; i++) {
        void *d = tensor[i] = add(a, TD_CUDNN_TENSOR);
        set(a, d, TD_CUDNN_TENSOR_UNIQUE_ID, TD_CUDNN_TYPE_INT64, 1, &i);
        set(a, d, TD_CUDNN_TENSOR_DATA_TYPE, TD_CUDNN_TYPE_DATA_TYPE, 1, &a->type[i]);
        set(a, d, TD_CUDNN_TENSOR_DIMENSIONS, a->dimension_type, 4, a->dim[i]);
        set(a, d, TD_CUDNN_TENSOR_STRIDES, TD_CUDNN_TYPE_INT64, a->strides, a->step[i]);
        set(a, d, TD_CUDNN_TENSOR_BYTE_ALIGNMENT, TD_CUDNN_TYPE_INT64, 1, &a->aligned);
        if (i == SCALE) {
            set(a, d, TD_CUDNN_TENSOR_IS_BY_VALUE, TD_CUDNN_TYPE_BOOLEAN, 1, &a->by_value);
        }
        finalize(a, d, TD_CUDNN_TENSOR);
    }
    void *op = add(a, TD_CUDNN_SDPA_FORWARD);
    for (int i = 0; i < TENSORS; i++) {
        set(a, op, names[i], TD_CUDNN_TYPE_DESCRIPTOR, 1, &tensor[i]);
    }
    finalize(a, op, TD_CUDNN_SDPA_FORWARD);
    void *graph = add(a, TD_CUDNN_GRAPH);
    set(a, graph, TD_CUDNN_GRAPH_HANDLE, TD_CUDNN_TYPE_HANDLE, 1, &a->handle_of_graph);
    set(a, graph, TD_CUDNN_GRAPH_OPS, TD_CUDNN_TYPE_DESCRIPTOR, 1, &op);
    finalize(a, graph, TD_CUDNN_GRAPH);
    return graph;
}

static void *plan_of(attention *a, void *graph)
{
    void *configs[3];
    int64_t n = 0;
    void *heur = add(a, TD_CUDNN_HEUR);
    set(a, heur, TD_CUDNN_HEUR_GRAPH, TD_CUDNN_TYPE_DESCRIPTOR, 1, &graph);
    set(a, heur, TD_CUDNN_HEUR_MODE, TD_CUDNN_TYPE_HEUR_MODE, 1, &a->mode);
    finalize(a, heur, TD_CUDNN_HEUR);
    for (void *&c : configs) {
        c = add(a, TD_CUDNN_CONFIG);
    }
    if (!a->stopped) {
        check_stop(a, cudnnBackendGetAttribute(heur, TD_CUDNN_HEUR_RESULTS, TD_CUDNN_TYPE_DESCRIPTOR, 3, &n,
                                               configs));
    }
    void *plan = add(a, TD_CUDNN_PLAN);
    void *const config = a->config < 0 ? graph : configs[a->config];
    set(a, plan, TD_CUDNN_PLAN_HANDLE, TD_CUDNN_TYPE_HANDLE, 1, &a->handle);
    set(a, plan, TD_CUDNN_PLAN_CONFIG, TD_CUDNN_TYPE_DESCRIPTOR, 1, &config);
    finalize(a, plan, TD_CUDNN_PLAN);
    return plan;
}

static void execute(attention *a, void *plan)
{
    const int64_t uids[TENSORS] = {0, a->uid_of_key, 2, 3, SCALE};
    void *pack = add(a, TD_CUDNN_PACK);
    set(a, pack, TD_CUDNN_PACK_UNIQUE_IDS, TD_CUDNN_TYPE_INT64, TENSORS, uids);
    set(a, pack, TD_CUDNN_PACK_POINTERS, TD_CUDNN_TYPE_POINTER, a->n_pointers, a->at);
    set(a, pack, TD_CUDNN_PACK_WORKSPACE, TD_CUDNN_TYPE_POINTER, 1, &a->workspace);
    finalize(a, pack, TD_CUDNN_PACK);
    if (a->stopped || (a->set_stream && cudnnSetStream(a->handle, disguised(stream())) != 0)) {
        return;
    }
    const auto call = [=] { check_stop(a, cudnnBackendExecute(a->handle, plan, pack)); };
    if (a->of_other_thread) {
        std::thread(call).join();
    } else {
        call();
    }
}

static std::vector<__half> halves(const std::vector<float> &x)
{
    std::vector<__half> h(x.size());
    std::transform(x.begin(), x.end(), h.begin(), [](float f) { return __float2half_rn(f / 4); });
    return h;
}

/* The result, where nothing was wrong. */
static std::vector<float> try_attention(const std::function<void(attention *)> &spoil, const char *words)
{
    attention a;
    const int before = host_cuda_reports();
    std::vector<void *> owned;
    for (int i = 0; i < SCALE; i++) {
        a.at[i] = new_array_of(halves(small_numbers(MANY)));
        owned.push_back(const_cast<void *>(a.at[i]));
    }
    a.at[SCALE] = &a.scale;
    a.workspace = new_array<float>(MANY);
    owned.push_back(a.workspace);
    CHECK_INT(cudnnCreate(&a.handle), 0);
    void *const made = a.handle;
    a.handle_of_graph = a.handle;
    spoil(&a);
    void *graph = graph_of(&a), *plan = a.stopped ? nullptr : plan_of(&a, graph);
    if (!a.stopped) {
        execute(&a, plan);
    }
    CHECK_CUDA(words[0] == '\0' ? cudaStreamSynchronize(stream()) : cudaSuccess);
    check_report(before, words);
    for (void *d : a.made) {
        CHECK_INT(cudnnBackendDestroyDescriptor(d), 0);
    }
    CHECK_INT(cudnnDestroy(made), 0);
    std::vector<float> y;
    if (words[0] == '\0') {
        const std::vector<__half> h =
            read_array(static_cast<const __half *>(a.at[3]), BATCH * HEADS * QUERIES * NUMBERS);
        y.resize(h.size());
        std::transform(h.begin(), h.end(), y.begin(), [](__half x) { return __half2float(x); });
    }
    for (void *p : owned) {
        CHECK_CUDA(cudaFree(p));
    }
    return y;
}

TEST(right_attention_is_made)
{
    const std::vector<float> y = try_attention([](attention *) {}, ""), x = small_numbers(MANY);
    for (int i = 0; i < BATCH * HEADS * QUERIES; i++) {
        const float *const q = &x[i * NUMBERS], *const k = &x[i / QUERIES * KEYS * NUMBERS];
        double p[KEYS], sum = 0;
        for (int s = 0; s < KEYS; s++) {
            double score = 0;
            for (int c = 0; c < NUMBERS; c++) {
                score += static_cast<double>(q[c]) * static_cast<double>(k[s * NUMBERS + c]) / 16;
            }
            sum += p[s] = std::exp(score / 2);
        }
        for (int c = 0; c < NUMBERS; c++) {
            double want = 0;
            for (int s = 0; s < KEYS; s++) {
                want += p[s] / sum * static_cast<double>(k[s * NUMBERS + c]) / 4;
            }
            CHECK(std::fabs(static_cast<double>(y[i * NUMBERS + c]) - want) < 1e-3);
        }
    }
    (void)try_attention([](attention *a) { a->config = 1; }, ""); /* it makes no plan, and no fault */
    (void)try_attention([](attention *a) { a->scale = -1; }, ""); /* refused, and no fault */
}

TEST(wrong_graphs_are_told)
{
    const struct {
        std::function<void(attention *)> spoil;
        const char *words;
    } cases[] = {
        {[](attention *a) { a->left_out = TD_CUDNN_TENSOR_UNIQUE_ID; }, "attribute 906 was not set"},
        {[](attention *a) { a->left_out = TD_CUDNN_SDPA_V; }, "attribute 2802 was not set"},
        {[](attention *a) { a->left_out = TD_CUDNN_GRAPH_OPS; }, "attribute 801 was not set"},
        {[](attention *a) { a->left_out = TD_CUDNN_PLAN_CONFIG; }, "attribute 401 was not set"},
        {[](attention *a) { a->left_out = TD_CUDNN_PACK_WORKSPACE; }, "attribute 1003 was not set"},
        {[](attention *a) { a->dimension_type = TD_CUDNN_TYPE_DATA_TYPE; },
         "descriptor 17 gets attribute 902 of type 1"},
        {[](attention *a) { a->strides = 3; }, "a tensor of 4 dimensions and 3 strides"},
        {[](attention *a) { a->dim[1][2] = 0; }, "dimension 2 of a tensor is 0"},
        {[](attention *a) { a->step[0][1] = 0; }, "dimension 1 of a tensor is 2, and its stride 0"},
        {[](attention *a) { a->aligned = 4; }, "a tensor is aligned in another way"},
        {[](attention *a) { a->type[2] = TD_CUDNN_FLOAT; }, "tensors of attention have type 0"},
        {[](attention *a) { a->type[2] = TD_CUDNN_BFLOAT16; }, "tensors of attention have type 9"},
        {[](attention *a) { a->step[1][2] = 9; }, "rows of attention do not lie at multiples of 16 bytes"},
        {[](attention *a) { a->dim[2][1] = 1; }, "tensors of attention are of several batches"},
        {[](attention *a) { a->dim[2][2] = 3; }, "rows of attention do not fit"},
        {[](attention *a) { a->by_value = false; }, "the scale is no float by value"},
        {[](attention *a) { a->not_final = TD_CUDNN_TENSOR; },
         "tensor 0 of attention is none that was finalized"},
        {[](attention *a) { a->not_final = TD_CUDNN_SDPA_FORWARD; }, "a graph without an operation"},
        {[](attention *a) { a->not_final = TD_CUDNN_GRAPH; }, "heuristics without a graph"},
        {[](attention *a) { a->not_final = TD_CUDNN_HEUR; }, "attribute 202 is not told of descriptor 4"},
        {[](attention *a) { a->mode = 1; }, "heuristics without a graph, or in another mode"},
        {[](attention *a) { a->config = NONE; }, "a plan without a configuration that was advised"},
        {[](attention *a) { a->handle_of_graph = a; }, "no such handle"},
    };
    for (const auto &c : cases) {
        (void)try_attention(c.spoil, c.words);
    }
}

TEST(wrong_calls_of_attention_are_told)
{
    const struct {
        std::function<void(attention *)> spoil;
        const char *words;
    } cases[] = {
        {[](attention *a) { a->not_final = TD_CUDNN_PLAN; }, "no plan, or one of a context that is gone"},
        {[](attention *a) { a->not_final = TD_CUDNN_PACK; }, "no pack that was finalized"},
        {[](attention *a) { a->set_stream = false; }, "the handle's stream was not set by its caller"},
        {[](attention *a) { a->of_other_thread = true; }, "the handle's stream was not set by its caller"},
        {[](attention *a) { a->n_pointers = 4; }, "5 tensors and 4 pointers"},
        {[](attention *a) { a->uid_of_key = 7; }, "tensor 1 has no pointer"},
        {[](attention *a) { a->at[SCALE] = nullptr; }, "the scale is NULL"},
        {[](attention *a) { a->at[0] = nullptr; }, "the query is NULL"},
        {[](attention *a) { a->at[1] = static_cast<const char *>(a->at[1]) + 2; },
         "the key is aligned to 2 bytes, 16 are wanted"},
        {[](attention *a) { a->at[2] = static_cast<const __half *>(a->at[2]) + MANY - 8; },
         "the value wants 256 bytes, and its allocation has 16"},
        {[](attention *a) { a->at[3] = a->at[0]; }, "the output and the query share bytes"},
        {[](attention *a) { a->workspace = nullptr; }, "the workspace is NULL"},
        {[](attention *a) { a->workspace = const_cast<void *>(a->at[2]); }, "share bytes"},
    };
    for (const auto &c : cases) {
        (void)try_attention(c.spoil, c.words);
    }
}

TEST(wrong_descriptors_are_told)
{
    void *d = nullptr;
    const int64_t one = 1;
    int before = host_cuda_reports();
    CHECK(cudnnBackendCreateDescriptor(99, &d) != 0);
    check_report(before, "there is no descriptor 99");
    before = host_cuda_reports();
    CHECK(cudnnBackendDestroyDescriptor(&before) != 0);
    check_report(before, "no such descriptor");
    before = host_cuda_reports();
    CHECK(cudnnBackendSetAttribute(&before, TD_CUDNN_TENSOR_UNIQUE_ID, TD_CUDNN_TYPE_INT64, 1, &one) != 0);
    check_report(before, "no such descriptor");
    before = host_cuda_reports();
    CHECK(cudnnBackendFinalize(&before) != 0);
    check_report(before, "no such descriptor");
    CHECK_INT(cudnnBackendCreateDescriptor(TD_CUDNN_ENGINE, &d), 0);
    before = host_cuda_reports();
    CHECK(cudnnBackendFinalize(d) != 0);
    check_report(before, "that is not finalized");
    CHECK_INT(cudnnBackendDestroyDescriptor(d), 0);
}

TEST_MAIN(RUN(right_attention_is_made) RUN(wrong_graphs_are_told) RUN(wrong_calls_of_attention_are_told)
              RUN(wrong_descriptors_are_told))
