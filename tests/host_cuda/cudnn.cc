/* tests/host_cuda/cudnn.cc - libcudnn.so.9 of the tests (stand_in.h): convolutions of two axes, channels
 * last.
 *
 * The first algorithm that is advised does not work or is not deterministic; the next wants a workspace,
 * which it fills before it computes. A handle queues on the stream that its caller has set.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/cudnn_api.h"
#include "tests/host_cuda/reports.h"
#include "tests/host_cuda/stand_in.h"

#include <algorithm>
#include <cstring>
#include <thread>

extern "C" {
#define CALL(type, name, parameters) __attribute__((visibility("default"))) type name parameters;
#include "kernels/cuda/base/cudnn_api.def"
}

namespace
{

using host_cuda::text;
using stand_in::number;
using stand_in::place;
using stand_in::wrong;

enum { NOT_INITIALIZED = 1001, ALIGNED = 16, ROOM = 2048, N_ALGORITHMS = 3 };

struct handle {
    int device = 0;
    unsigned context = 0; /* of that device */
    cudaStream_t stream = nullptr;
    std::thread::id set_by;
};
struct tensor { /* [n,h,w,c]; a filter: n is out, c in / groups */
    int format = -1, type = -1, n = 0, c = 0, h = 0, w = 0;
    size_t count() const { return static_cast<size_t>(n) * c * h * w; }
};
struct image : tensor {
};
struct filter : tensor {
};
struct convolution {
    int pad[2] = {-1, -1}, stride[2] = {}, dilation[2] = {}, mode = -1, compute = -1, groups = 1;
    int math = TD_CUDNN_DEFAULT_MATH;
};

stand_in::registry<handle> handles;
stand_in::registry<image> images;
stand_in::registry<filter> filters;
stand_in::registry<convolution> convolutions;

number number_of(int type)
{
    return type == TD_CUDNN_FLOAT      ? number::FLOAT
           : type == TD_CUDNN_HALF     ? number::HALF
           : type == TD_CUDNN_BFLOAT16 ? number::BFLOAT16
                                       : number::NONE;
}

int status_of(bool fine)
{
    return fine ? TD_CUDNN_SUCCESS : TD_CUDNN_BAD_PARAM;
}

/* ------------------------------------------------------------------ what is asked */

enum which { FORWARD, DATA, FILTER };

struct problem {
    tensor x, w, y;
    convolution conv;
};

/* The windows of one axis. */
int windows(const problem &p, int axis)
{
    const int in = axis == 0 ? p.x.h : p.x.w, k = axis == 0 ? p.w.h : p.w.w;
    const int padded = in + 2 * p.conv.pad[axis], reach = (k - 1) * p.conv.dilation[axis] + 1;
    return padded < reach ? 0 : (padded - reach) / p.conv.stride[axis] + 1;
}

bool check_tensor(const char *call, const char *name, const tensor &t)
{
    if (t.format < 0) {
        return wrong(call, text("%s was not set", name));
    }
    if (t.format != TD_CUDNN_NHWC) {
        return wrong(call, text("%s has format %d", name, t.format));
    }
    if (number_of(t.type) == number::NONE) {
        return wrong(call, text("%s is of type %d", name, t.type));
    }
    return (t.n > 0 && t.c > 0 && t.h > 0 && t.w > 0) || wrong(call, text("%s has no elements", name));
}

bool check_convolution(const char *call, const problem &p)
{
    const convolution &c = p.conv;
    if (c.pad[0] < 0 || c.pad[1] < 0 || c.stride[0] < 1 || c.stride[1] < 1 || c.dilation[0] < 1 ||
        c.dilation[1] < 1) {
        return wrong(call, text("the convolution pads %d,%d, steps %d,%d and dilates %d,%d", c.pad[0],
                                c.pad[1], c.stride[0], c.stride[1], c.dilation[0], c.dilation[1]));
    }
    if (c.mode != TD_CUDNN_CROSS_CORRELATION || c.compute != TD_CUDNN_FLOAT) {
        return wrong(call, text("the convolution has mode %d and computes in type %d", c.mode, c.compute));
    }
    const bool math = p.x.type == TD_CUDNN_FLOAT
                          ? c.math == TD_CUDNN_FMA_MATH || c.math == TD_CUDNN_DEFAULT_MATH
                          : c.math == TD_CUDNN_TENSOR_OP_MATH;
    return math || wrong(call, text("tensors of type %d with mathematics %d", p.x.type, c.math));
}

bool check_problem(const char *call, const problem &p)
{
    if (!check_tensor(call, "x", p.x) || !check_tensor(call, "w", p.w) || !check_tensor(call, "y", p.y) ||
        !check_convolution(call, p)) {
        return false;
    }
    if (p.w.type != p.x.type || p.y.type != p.x.type) {
        return wrong(call, text("x, w and y are of types %d, %d and %d", p.x.type, p.w.type, p.y.type));
    }
    const int groups = p.conv.groups;
    if (groups < 1 || p.x.c % groups != 0 || p.y.c % groups != 0 || p.w.c != p.x.c / groups ||
        p.w.n != p.y.c) {
        return wrong(call, text("%d channels, filters of %d to %d in %d groups, and %d channels", p.x.c,
                                p.w.c, p.w.n, groups, p.y.c));
    }
    return (p.y.n == p.x.n && p.y.h == windows(p, 0) && p.y.w == windows(p, 1)) ||
           wrong(call, text("y is %d of %d x %d, and would be %d of %d x %d", p.y.n, p.y.h, p.y.w, p.x.n,
                            windows(p, 0), windows(p, 1)));
}

bool gather(const char *call, void *x, void *w, void *y, void *conv, problem *p)
{
    const image *const of_x = images.find(x), *const of_y = images.find(y);
    const filter *const of_w = filters.find(w);
    const convolution *const c = convolutions.find(conv);
    if (of_x == nullptr || of_w == nullptr || of_y == nullptr || c == nullptr) {
        return wrong(call, text("no such descriptor for %s", of_x == nullptr   ? "x"
                                                             : of_w == nullptr ? "w"
                                                             : of_y == nullptr ? "y"
                                                                               : "the convolution"));
    }
    p->x = *of_x;
    p->w = *of_w;
    p->y = *of_y;
    p->conv = *c;
    return check_problem(call, *p);
}

handle *find_handle(const char *call, void *at)
{
    handle *const h = handles.find(at);
    if (h == nullptr || h->device != stand_in::current_device()) {
        wrong(call, h == nullptr ? "no such handle" : "the handle is another device's");
        return nullptr;
    }
    if (h->context != stand_in::current_context()) {
        wrong(call, "the handle is of a context that is gone");
        return nullptr;
    }
    return h;
}

/* ------------------------------------------------------------------ algorithms */

struct algorithm {
    int number, status, determinism;
    size_t workspace;
};
const algorithm &algorithm_of(which k, int i)
{
    static const algorithm all[3][N_ALGORITHMS] = {
        {{2, TD_CUDNN_NOT_SUPPORTED, 1, 0}, {1, TD_CUDNN_SUCCESS, 1, ROOM}, {0, TD_CUDNN_SUCCESS, 1, 0}},
        {{0, TD_CUDNN_SUCCESS, 0, 0}, {1, TD_CUDNN_SUCCESS, 1, ROOM}, {4, TD_CUDNN_SUCCESS, 1, 0}},
        {{0, TD_CUDNN_SUCCESS, 0, 0}, {1, TD_CUDNN_SUCCESS, 1, ROOM}, {5, TD_CUDNN_SUCCESS, 1, 0}}};
    return all[k][i];
}

const algorithm *find_algorithm(const char *call, which k, int number)
{
    for (int i = 0; i < N_ALGORITHMS; i++) {
        const algorithm &a = algorithm_of(k, i);
        if (a.number == number && a.status == TD_CUDNN_SUCCESS) {
            return &a;
        }
    }
    wrong(call, text("algorithm %d does not do this", number));
    return nullptr;
}

int advise(const char *call, which k, void *h, const problem &p, int wanted, int *n, td_cudnn_found *found)
{
    if (find_handle(call, h) == nullptr || wanted < 1 || n == nullptr || found == nullptr) {
        return TD_CUDNN_BAD_PARAM;
    }
    *n = 0;
    const bool none = p.conv.groups > 1 && p.conv.dilation[0] * p.conv.dilation[1] > 1;
    for (int i = 0; i < N_ALGORITHMS && *n < wanted; i++) {
        const algorithm &a = algorithm_of(k, i);
        found[*n] = {};
        found[*n].algo = a.number;
        found[*n].status = none ? static_cast<int>(TD_CUDNN_NOT_SUPPORTED) : a.status;
        found[*n].memory = a.workspace;
        found[*n].determinism = a.determinism;
        found[(*n)++].math = p.conv.math;
    }
    return TD_CUDNN_SUCCESS;
}

int tell_workspace(const char *call, which k, void *h, int algo, size_t *bytes)
{
    const algorithm *const a = find_handle(call, h) == nullptr ? nullptr : find_algorithm(call, k, algo);
    *bytes = a != nullptr ? a->workspace : 0;
    return status_of(a != nullptr);
}

/* ------------------------------------------------------------------ the convolution */

struct position {
    int64_t x, w, y;
};

/* f(where the first of the channels lie) for each cell of y and tap that meet inside of x. */
template <class F> void each_meeting(const problem &p, F f)
{
    const convolution &c = p.conv;
    const int64_t pixels = static_cast<int64_t>(p.y.n) * p.y.h * p.y.w,
                  taps = static_cast<int64_t>(p.w.h) * p.w.w;
    for (int64_t i = 0; i < pixels; i++) {
        const int64_t n = i / p.y.w / p.y.h, row = i / p.y.w % p.y.h, column = i % p.y.w;
        for (int64_t t = 0; t < taps; t++) {
            const int64_t h = row * c.stride[0] - c.pad[0] + t / p.w.w * c.dilation[0];
            const int64_t w = column * c.stride[1] - c.pad[1] + t % p.w.w * c.dilation[1];
            if (h >= 0 && h < p.x.h && w >= 0 && w < p.x.w) {
                f(position{((n * p.x.h + h) * p.x.w + w) * p.x.c, t * p.w.c, i * p.y.c});
            }
        }
    }
}

/* to[..] += the products of the other two. */
void convolve(which k, const problem &p, std::vector<double> *x, std::vector<double> *w,
              std::vector<double> *y)
{
    const int64_t each_in = p.w.c, each_out = p.w.n / p.conv.groups,
                  filter_size = static_cast<int64_t>(p.w.h) * p.w.w * p.w.c;
    each_meeting(p, [&](const position &at) {
        for (int64_t o = 0; o < p.w.n; o++) {
            double *const of_x = x->data() + at.x + o / each_out * each_in;
            double *const of_w = w->data() + o * filter_size + at.w, *const of_y = y->data() + at.y + o;
            for (int64_t i = 0; i < each_in; i++) {
                switch (k) {
                case FORWARD:
                    *of_y += of_x[i] * of_w[i];
                    break;
                case DATA:
                    of_x[i] += *of_y * of_w[i];
                    break;
                case FILTER:
                    of_w[i] += *of_y * of_x[i];
                    break;
                }
            }
        }
    });
}

struct arguments {
    const void *alpha, *beta, *x, *w, *y; /* one of the three is written */
    int algo;
    void *workspace;
    size_t workspace_bytes;
};

void compute(which k, const problem &p, const arguments &g)
{
    const number t = number_of(p.x.type);
    const tensor *const shapes[] = {&p.x, &p.w, &p.y};
    const void *const at[] = {g.x, g.w, g.y};
    const int result = k == FORWARD ? 2 : k == DATA ? 0 : 1;
    std::vector<double> all[3];
    for (int i = 0; i < 3; i++) {
        all[i] = i == result ? std::vector<double>(shapes[i]->count())
                             : stand_in::load(t, at[i], shapes[i]->count());
        if (p.conv.math == TD_CUDNN_DEFAULT_MATH) {
            std::transform(all[i].begin(), all[i].end(), all[i].begin(), stand_in::to_tf32);
        }
    }
    convolve(k, p, &all[0], &all[1], &all[2]);
    for (size_t i = 0; i < all[result].size(); i++) {
        stand_in::store(t, const_cast<void *>(at[result]), i, all[result][i]);
    }
}

bool check_call(const char *call, const handle &h, const arguments &g)
{
    if (h.stream == nullptr || h.set_by != std::this_thread::get_id()) {
        return wrong(call, "the handle's stream was not set by its caller");
    }
    if (g.alpha == nullptr || g.beta == nullptr || *static_cast<const float *>(g.alpha) != 1 ||
        *static_cast<const float *>(g.beta) != 0) {
        return wrong(call, "alpha is not 1, or beta not 0");
    }
    return stand_in::check_stream(call, h.stream);
}

int run(const char *call, which k, void *at, const problem &p, const arguments &g)
{
    const handle *const h = find_handle(call, at);
    const algorithm *const a = h == nullptr ? nullptr : find_algorithm(call, k, g.algo);
    if (a == nullptr || !check_call(call, *h, g)) {
        return TD_CUDNN_BAD_PARAM;
    }
    if (g.workspace_bytes < a->workspace) {
        wrong(call, text("algorithm %d wants a workspace of %zu bytes, %zu are given", g.algo, a->workspace,
                         g.workspace_bytes));
        return TD_CUDNN_BAD_PARAM;
    }
    const size_t each = stand_in::size_of(number_of(p.x.type));
    std::vector<place> places = {{"x", g.x, p.x.count() * each, k == DATA},
                                 {"w", g.w, p.w.count() * each, k == FILTER},
                                 {"y", g.y, p.y.count() * each, k == FORWARD}};
    if (g.workspace_bytes > 0) {
        places.push_back({"the workspace", g.workspace, g.workspace_bytes, true});
    }
    const bool fit = std::all_of(places.begin(), places.end(),
                                 [&](const place &x) { return stand_in::check_place(call, x, ALIGNED); });
    if (!fit || !stand_in::check_apart(call, places)) {
        return TD_CUDNN_BAD_PARAM;
    }
    const size_t room = a->workspace;
    const cudaError_t e = stand_in::queue(h->stream, call, places, [=] {
        if (room > 0) {
            memset(g.workspace, 0xFF, room);
        }
        compute(k, p, g);
    });
    return status_of(e == cudaSuccess);
}

template <class T> int destroy(const char *call, stand_in::registry<T> *all, const void *at)
{
    return status_of(all->remove(at) || wrong(call, "no such object"));
}

bool set_tensor(const char *call, tensor *t, const tensor &to)
{
    if (t == nullptr) {
        return wrong(call, "no such descriptor");
    }
    *t = to;
    return true;
}

} // namespace

/* ------------------------------------------------------------------ the library's functions */

size_t cudnnGetVersion(void)
{
    return 90099;
}

const char *cudnnGetErrorString(int status)
{
    return status == NOT_INITIALIZED ? "the stand-in is not to be used (HOST_CUDA_LIBRARIES)"
                                     : "CUDNN_STATUS_BAD_PARAM";
}

int cudnnCreate(void **to)
{
    if (!stand_in::usable("cudnn")) {
        return NOT_INITIALIZED;
    }
    void *own = nullptr; /* the real one allocates */
    if (cudaMalloc(&own, 1) != cudaSuccess) {
        return NOT_INITIALIZED;
    }
    (void)cudaFree(own);
    handle *const h = handles.add();
    h->device = stand_in::current_device();
    h->context = stand_in::current_context();
    *to = h;
    return TD_CUDNN_SUCCESS;
}

int cudnnDestroy(void *h)
{
    const size_t left = images.count() + filters.count() + convolutions.count();
    if (handles.count() == 1 && left > 0 && stand_in::device_works()) {
        wrong("cudnnDestroy", text("%zu descriptors were not destroyed", left));
    }
    return destroy("cudnnDestroy", &handles, h);
}

int cudnnSetStream(void *at, td_cuda_stream *stream)
{
    handle *const h = find_handle("cudnnSetStream", at);
    const auto queue_on = reinterpret_cast<cudaStream_t>(stream);
    if (h == nullptr || !stand_in::check_stream("cudnnSetStream", queue_on)) {
        return TD_CUDNN_BAD_PARAM;
    }
    h->stream = queue_on;
    h->set_by = std::this_thread::get_id();
    return TD_CUDNN_SUCCESS;
}

int cudnnCreateTensorDescriptor(void **to)
{
    *to = images.add();
    return TD_CUDNN_SUCCESS;
}

int cudnnSetTensor4dDescriptor(void *desc, int format, int type, int n, int c, int h, int w)
{
    return status_of(set_tensor("cudnnSetTensor4dDescriptor", images.find(desc), {format, type, n, c, h, w}));
}

int cudnnDestroyTensorDescriptor(void *desc)
{
    return destroy("cudnnDestroyTensorDescriptor", &images, desc);
}

int cudnnCreateFilterDescriptor(void **to)
{
    *to = filters.add();
    return TD_CUDNN_SUCCESS;
}

int cudnnSetFilter4dDescriptor(void *desc, int type, int format, int k, int c, int h, int w)
{
    return status_of(
        set_tensor("cudnnSetFilter4dDescriptor", filters.find(desc), {format, type, k, c, h, w}));
}

int cudnnDestroyFilterDescriptor(void *desc)
{
    return destroy("cudnnDestroyFilterDescriptor", &filters, desc);
}

int cudnnCreateConvolutionDescriptor(void **to)
{
    *to = convolutions.add();
    return TD_CUDNN_SUCCESS;
}

int cudnnSetConvolution2dDescriptor(void *desc, int pad_h, int pad_w, int stride_h, int stride_w,
                                    int dilation_h, int dilation_w, int mode, int compute_type)
{
    convolution *const c = convolutions.find(desc);
    if (c == nullptr) {
        return status_of(wrong("cudnnSetConvolution2dDescriptor", "no such descriptor"));
    }
    *c = {{pad_h, pad_w}, {stride_h, stride_w}, {dilation_h, dilation_w}, mode, compute_type, c->groups,
          c->math};
    return TD_CUDNN_SUCCESS;
}

int cudnnSetConvolutionGroupCount(void *desc, int groups)
{
    convolution *const c = convolutions.find(desc);
    if (c == nullptr) {
        return status_of(wrong("cudnnSetConvolutionGroupCount", "no such descriptor"));
    }
    c->groups = groups;
    return TD_CUDNN_SUCCESS;
}

int cudnnSetConvolutionMathType(void *desc, int math)
{
    convolution *const c = convolutions.find(desc);
    if (c == nullptr) {
        return status_of(wrong("cudnnSetConvolutionMathType", "no such descriptor"));
    }
    c->math = math;
    return TD_CUDNN_SUCCESS;
}

int cudnnDestroyConvolutionDescriptor(void *desc)
{
    return destroy("cudnnDestroyConvolutionDescriptor", &convolutions, desc);
}

int cudnnGetConvolutionForwardAlgorithm_v7(void *handle, void *x, void *w, void *conv, void *y, int wanted,
                                           int *n, td_cudnn_found *found)
{
    problem p;
    return gather(__func__, x, w, y, conv, &p) ? advise(__func__, FORWARD, handle, p, wanted, n, found)
                                               : TD_CUDNN_BAD_PARAM;
}

int cudnnGetConvolutionBackwardDataAlgorithm_v7(void *handle, void *w, void *dy, void *conv, void *dx,
                                                int wanted, int *n, td_cudnn_found *found)
{
    problem p;
    return gather(__func__, dx, w, dy, conv, &p) ? advise(__func__, DATA, handle, p, wanted, n, found)
                                                 : TD_CUDNN_BAD_PARAM;
}

int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void *handle, void *x, void *dy, void *conv, void *dw,
                                                  int wanted, int *n, td_cudnn_found *found)
{
    problem p;
    return gather(__func__, x, dw, dy, conv, &p) ? advise(__func__, FILTER, handle, p, wanted, n, found)
                                                 : TD_CUDNN_BAD_PARAM;
}

int cudnnGetConvolutionForwardWorkspaceSize(void *handle, void *x, void *w, void *conv, void *y, int algo,
                                            size_t *bytes)
{
    problem p;
    return gather(__func__, x, w, y, conv, &p) ? tell_workspace(__func__, FORWARD, handle, algo, bytes)
                                               : TD_CUDNN_BAD_PARAM;
}

int cudnnGetConvolutionBackwardDataWorkspaceSize(void *handle, void *w, void *dy, void *conv, void *dx,
                                                 int algo, size_t *bytes)
{
    problem p;
    return gather(__func__, dx, w, dy, conv, &p) ? tell_workspace(__func__, DATA, handle, algo, bytes)
                                                 : TD_CUDNN_BAD_PARAM;
}

int cudnnGetConvolutionBackwardFilterWorkspaceSize(void *handle, void *x, void *dy, void *conv, void *dw,
                                                   int algo, size_t *bytes)
{
    problem p;
    return gather(__func__, x, dw, dy, conv, &p) ? tell_workspace(__func__, FILTER, handle, algo, bytes)
                                                 : TD_CUDNN_BAD_PARAM;
}

int cudnnConvolutionForward(void *handle, const void *alpha, void *x_desc, const void *x, void *w_desc,
                            const void *w, void *conv, int algo, void *workspace, size_t workspace_bytes,
                            const void *beta, void *y_desc, void *y)
{
    problem p;
    return gather(__func__, x_desc, w_desc, y_desc, conv, &p)
               ? run(__func__, FORWARD, handle, p, {alpha, beta, x, w, y, algo, workspace, workspace_bytes})
               : TD_CUDNN_BAD_PARAM;
}

int cudnnConvolutionBackwardData(void *handle, const void *alpha, void *w_desc, const void *w, void *dy_desc,
                                 const void *dy, void *conv, int algo, void *workspace,
                                 size_t workspace_bytes, const void *beta, void *dx_desc, void *dx)
{
    problem p;
    return gather(__func__, dx_desc, w_desc, dy_desc, conv, &p)
               ? run(__func__, DATA, handle, p, {alpha, beta, dx, w, dy, algo, workspace, workspace_bytes})
               : TD_CUDNN_BAD_PARAM;
}

int cudnnConvolutionBackwardFilter(void *handle, const void *alpha, void *x_desc, const void *x,
                                   void *dy_desc, const void *dy, void *conv, int algo, void *workspace,
                                   size_t workspace_bytes, const void *beta, void *dw_desc, void *dw)
{
    problem p;
    return gather(__func__, x_desc, dw_desc, dy_desc, conv, &p)
               ? run(__func__, FILTER, handle, p, {alpha, beta, x, dw, dy, algo, workspace, workspace_bytes})
               : TD_CUDNN_BAD_PARAM;
}
