/* tests/host_cuda/cudnn_conv.cc - the stand-in's convolutions of two axes, channels last.
 *
 * The first algorithm that is advised does not work or is not deterministic; the next wants a workspace,
 * which it fills before it computes. A convolution in groups is refused with a bias and an activation,
 * without a report, as the library may refuse any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/cudnn.h"

#include <algorithm>
#include <cstring>

using namespace fake_cudnn;
using stand_in::place;

namespace
{

enum { ALIGNED = 16, ROOM = 2048, N_ALGORITHMS = 3 };

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
    const void *z = nullptr, *bias = nullptr; /* behind the convolution; NULL: nothing is */
    bool relu = false;
};

/* y = act(y + z + bias), z being NULL for nothing. The ReLU is not told to hand NaN on. */
void add_behind(const problem &p, const arguments &g, std::vector<double> *y)
{
    const number t = number_of(p.y.type);
    const std::vector<double> bias = stand_in::load(t, g.bias, static_cast<size_t>(p.y.c));
    const std::vector<double> z =
        g.z == nullptr ? std::vector<double>(y->size()) : stand_in::load(t, g.z, y->size());
    for (size_t i = 0; i < y->size(); i++) {
        const double sum = (*y)[i] + z[i] + bias[i % bias.size()];
        (*y)[i] = !g.relu || sum > 0 ? sum : 0;
    }
}

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
    if (g.bias != nullptr) {
        add_behind(p, g, &all[result]);
    }
    for (size_t i = 0; i < all[result].size(); i++) {
        stand_in::store(t, const_cast<void *>(at[result]), i, all[result][i]);
    }
}

bool check_call(const char *call, const handle &h, const arguments &g)
{
    if (h.stream == nullptr || h.set_by != std::this_thread::get_id()) {
        return wrong(call, "the handle's stream was not set by its caller");
    }
    const bool blends = g.beta != nullptr && *static_cast<const float *>(g.beta) == (g.z == nullptr ? 0 : 1);
    if (g.alpha == nullptr || *static_cast<const float *>(g.alpha) != 1 || !blends) {
        return wrong(call, g.bias == nullptr ? "alpha is not 1, or beta not 0"
                                             : "alpha is not 1, or that of z neither 0 nor 1");
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
    if (g.bias != nullptr) {
        places.push_back({"the bias", g.bias, static_cast<size_t>(p.y.c) * each, false});
    }
    if (g.z != nullptr && g.z != g.y) { /* they may be one */
        places.push_back({"z", g.z, p.y.count() * each, false});
    }
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
    return e == cudaSuccess ? TD_CUDNN_SUCCESS : TD_CUDNN_EXECUTION_FAILED;
}

/* What comes behind the convolution, by NVIDIA's documentation: a bias of y's channels, z as y is, a ReLU
 * that does not promise to hand NaN on, or nothing, which goes by one algorithm alone. */
bool check_behind(const char *call, const problem &p, int algo, void *z, void *bias, void *act)
{
    const image *const of_z = images.find(z), *const of_bias = images.find(bias);
    const activation *const a = activations.find(act);
    if (of_z == nullptr || of_bias == nullptr || a == nullptr) {
        return wrong(call, text("no such descriptor for %s", of_z == nullptr      ? "z"
                                                             : of_bias == nullptr ? "the bias"
                                                                                  : "the activation"));
    }
    const image &b = *of_bias, &of = *of_z;
    if (!check_tensor(call, "the bias", b)) {
        return false;
    }
    if (b.n != 1 || b.h != 1 || b.w != 1 || b.c != p.w.n || b.type != p.y.type) {
        return wrong(call, text("the bias is of type %d and %d x %d x %d x %d, for %d channels of type %d",
                                b.type, b.n, b.h, b.w, b.c, p.w.n, p.y.type));
    }
    if (of.format != p.y.format || of.type != p.y.type || of.n != p.y.n || of.c != p.y.c || of.h != p.y.h ||
        of.w != p.y.w) {
        return wrong(call, "z is described as another tensor than y");
    }
    if (a->mode != TD_CUDNN_RELU && a->mode != TD_CUDNN_IDENTITY) {
        return wrong(call, text("the activation has mode %d", a->mode));
    }
    if (a->nan != TD_CUDNN_NOT_PROPAGATE_NAN) {
        return wrong(call, "the activation is to hand NaN on");
    }
    return a->mode == TD_CUDNN_RELU || algo == TD_CUDNN_IMPLICIT_PRECOMP_GEMM ||
           wrong(call, text("algorithm %d without a ReLU", algo));
}

} // namespace

/* ------------------------------------------------------------------ the library's functions */

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

int cudnnConvolutionBiasActivationForward(void *handle, const void *alpha, void *x_desc, const void *x,
                                          void *w_desc, const void *w, void *conv, int algo, void *workspace,
                                          size_t workspace_bytes, const void *alpha_z, void *z_desc,
                                          const void *z, void *bias_desc, const void *bias, void *act,
                                          void *y_desc, void *y)
{
    problem p;
    if (!gather(__func__, x_desc, w_desc, y_desc, conv, &p) ||
        !check_behind(__func__, p, algo, z_desc, bias_desc, act)) {
        return TD_CUDNN_BAD_PARAM;
    }
    if (p.conv.groups > 1) {
        return TD_CUDNN_NOT_SUPPORTED;
    }
    if (alpha_z == nullptr || z == nullptr || bias == nullptr) {
        return status_of(wrong(__func__, "z, its alpha or the bias is NULL"));
    }
    const void *const added = *static_cast<const float *>(alpha_z) == 0 ? nullptr : z;
    const bool relu = activations.find(act)->mode == TD_CUDNN_RELU;
    return run(__func__, FORWARD, handle, p,
               {alpha, alpha_z, x, w, y, algo, workspace, workspace_bytes, added, bias, relu});
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
