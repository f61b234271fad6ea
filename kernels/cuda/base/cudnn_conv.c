/* kernels/cuda/base/cudnn_conv.c - plans of convolutions, and their calls.
 *
 * A call's workspace is the filter in the library's order, the picture with its border, if it needs one, and
 * what the library wants. The first is room alone where the filter comes in that order, as weights do;
 * whether it will is known at the call.
 *
 * Padding is the same on both sides of an axis, for the library. Where it is not, and the windows reach that
 * far (SAME with a step of 2 on even sizes), the smaller of the two is the library's, and the rest a border.
 *
 * Posts are the library's where its one call has them: y = act(conv(x, w) + z + bias). Without a ReLU that
 * goes by one algorithm alone, so the others are further choices, which leave the posts to who asked. Whether
 * such a call is served is known when it is made: where it is refused, the plan's calls go on as two, the
 * convolution and a kernel of ours behind it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/cudnn_conv.h"

#include <limits.h>
#include <stdatomic.h>

#include "core/base/mem.h"
#include "kernels/cuda/base/border.h"
#include "kernels/cuda/base/cudnn_impl.h"
#include "kernels/cuda/base/swap.h"

enum { MOST_CHOICES = 8, ALIGNED = 256 };

struct td_cudnn_plan {
    struct td_cudnn *dnn;
    enum td_cudnn_which which;
    enum td_cuda_type type;
    void *x, *w, *y, *conv; /* descriptors */
    void *bias, *act;       /* the same, where there are posts */
    int algo;
    struct td_cuda_posts posts;          /* the plan's, without operands */
    atomic_bool is_apart, *apart;        /* they were refused by the library; where that is */
    size_t element;                      /* bytes */
    int64_t taps, out_channels, outputs; /* of the filter: h * w * in / groups, and out; elements of y */
    struct td_cuda_border border;        /* of x; channels 0: it needs none */
    /* the first two rounded up; of x with its border, of what the library wants */
    size_t filter_bytes, picture_bytes, workspace_bytes;
};

static size_t rounded(size_t bytes)
{
    return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* ------------------------------------------------------------------ descriptors */

static int data_type(enum td_cuda_type t)
{
    return t == TD_CUDA_HALF ? TD_CUDNN_HALF : t == TD_CUDA_BFLOAT16 ? TD_CUDNN_BFLOAT16 : TD_CUDNN_FLOAT;
}

/* What cuDNN is told of one axis' padding: `before` on both sides, where that makes as many windows. */
static bool pads_alike(const struct td_cuda_axis *a)
{
    const int64_t reach = (a->k - 1) * a->dilation + 1, padded = a->in + 2 * a->before;
    return padded >= reach && (padded - reach) / a->stride + 1 == a->out;
}

/* How much more there is before and behind the axis than `alike` on both sides, which the library pads. */
struct uneven {
    int64_t before, behind, alike;
};
static struct uneven uneven_of(const struct td_cuda_axis *a)
{
    const int64_t reach = (a->k - 1) * a->dilation + 1;
    const int64_t wanted = (a->out - 1) * a->stride + reach - a->in - a->before;
    const int64_t behind = wanted > 0 ? wanted : 0, alike = a->before < behind ? a->before : behind;
    return pads_alike(a) ? (struct uneven){.alike = a->before}
                         : (struct uneven){a->before - alike, behind - alike, alike};
}

/* The same with a border where padding is uneven: what the library is told of. */
static struct td_cuda_conv even_out(const struct td_cuda_conv *s, struct td_cuda_border *border)
{
    const struct uneven h = uneven_of(&s->axis[1]), w = uneven_of(&s->axis[2]);
    struct td_cuda_conv even = *s;
    even.axis[1].in += h.before + h.behind;
    even.axis[1].before = h.alike;
    even.axis[2].in += w.before + w.behind;
    even.axis[2].before = w.alike;
    const bool needs = even.axis[1].in != s->axis[1].in || even.axis[2].in != s->axis[2].in;
    *border = (struct td_cuda_border){.batch = s->batch,
                                      .h = s->axis[1].in,
                                      .w = s->axis[2].in,
                                      .channels = needs ? s->ic : 0,
                                      .top = h.before,
                                      .left = w.before,
                                      .tall = even.axis[1].in,
                                      .wide = even.axis[2].in};
    return even;
}

/* For x with its border; false: a call's workspace has none. */
static bool find_room(struct td_cudnn_plan *p)
{
    const struct td_cuda_border *b = &p->border;
    const int64_t sizes[] = {b->batch, b->tall, b->wide, b->channels};
    size_t bytes = p->element;
    bool fits = true;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && fits; i++) {
        fits = td_size_mul(bytes, (size_t)sizes[i], &bytes);
    }
    p->picture_bytes = fits && b->channels > 0 ? rounded(bytes) : 0;
    return b->channels == 0 || (fits && p->picture_bytes <= p->dnn->most_workspace);
}

static bool is_channels_last(const struct td_cuda_cells *c, int64_t w, int64_t channels)
{
    return c->channel == 1 && c->axis[2] == channels && c->axis[1] == w * channels;
}

/* cuDNN counts in int. */
static bool all_between(const int64_t *numbers, size_t n, int64_t least)
{
    bool fit = true;
    for (size_t i = 0; i < n; i++) {
        fit = fit && numbers[i] >= least && numbers[i] <= INT_MAX;
    }
    return fit;
}

/* NULL: the library can be asked. */
static const char *refuse(enum td_cuda_type type, const struct td_cuda_conv *s)
{
    const struct td_cuda_axis *h = &s->axis[1], *w = &s->axis[2];
    const int64_t sizes[] = {s->batch, s->ic,  s->oc,  s->groups, h->in,     w->in,       h->k,
                             w->k,     h->out, w->out, h->stride, w->stride, h->dilation, w->dilation};
    const int64_t padding[] = {h->before, w->before};
    return type == TD_CUDA_DOUBLE                    ? "cuDNN takes no double in this layout"
           : s->axis[0].in != 1 || s->axis[0].k != 1 ? "it has three axes"
           : !is_channels_last(&s->x, w->in, s->ic) || !is_channels_last(&s->y, w->out, s->oc)
               ? "channels do not come last"
           : !all_between(sizes, sizeof sizes / sizeof *sizes, 1) || !all_between(padding, 2, 0)
               ? "there is nothing to convolve, or more than cuDNN counts"
               : NULL;
}

static bool describe(struct td_cudnn_plan *p, enum td_cuda_type type, const struct td_cuda_conv *s)
{
    const struct td_cudnn_api *api = &p->dnn->api;
    const struct td_cuda_axis *h = &s->axis[1], *w = &s->axis[2];
    const int t = data_type(type);
    const int math = type != TD_CUDA_FLOAT ? TD_CUDNN_TENSOR_OP_MATH
                     : p->dnn->tf32        ? TD_CUDNN_DEFAULT_MATH
                                           : TD_CUDNN_FMA_MATH;
    return api->cudnnCreateTensorDescriptor(&p->x) == 0 && api->cudnnCreateTensorDescriptor(&p->y) == 0 &&
           api->cudnnCreateFilterDescriptor(&p->w) == 0 &&
           api->cudnnCreateConvolutionDescriptor(&p->conv) == 0 &&
           api->cudnnSetTensor4dDescriptor(p->x, TD_CUDNN_NHWC, t, (int)s->batch, (int)s->ic, (int)h->in,
                                           (int)w->in) == 0 &&
           api->cudnnSetTensor4dDescriptor(p->y, TD_CUDNN_NHWC, t, (int)s->batch, (int)s->oc, (int)h->out,
                                           (int)w->out) == 0 &&
           api->cudnnSetFilter4dDescriptor(p->w, t, TD_CUDNN_NHWC, (int)s->oc, (int)(s->ic / s->groups),
                                           (int)h->k, (int)w->k) == 0 &&
           api->cudnnSetConvolution2dDescriptor(p->conv, (int)h->before, (int)w->before, (int)h->stride,
                                                (int)w->stride, (int)h->dilation, (int)w->dilation,
                                                TD_CUDNN_CROSS_CORRELATION, TD_CUDNN_FLOAT) == 0 &&
           api->cudnnSetConvolutionGroupCount(p->conv, (int)s->groups) == 0 &&
           api->cudnnSetConvolutionMathType(p->conv, math) == 0;
}

/* ------------------------------------------------------------------ posts */

static bool is_sum(const struct td_cuda_posts *p, int i, enum td_cuda_post_operand operand)
{
    return i < p->n && p->post[i].kind == TD_CUDA_POST_ADD && p->post[i].operand == operand;
}

static bool has_relu(const struct td_cuda_posts *p)
{
    return p->n > 0 && p->post[p->n - 1].kind == TD_CUDA_POST_RELU;
}

static bool has_sum(const struct td_cuda_posts *p)
{
    return is_sum(p, 1, TD_CUDA_POST_ELEMENT);
}

/* Those of the wanted ones that the library has words for. */
static struct td_cuda_posts posts_for_library(const struct td_cuda_posts *wanted)
{
    struct td_cuda_posts posts = *wanted;
    int n = is_sum(wanted, 0, TD_CUDA_POST_CHANNEL);
    n += n > 0 && is_sum(wanted, n, TD_CUDA_POST_ELEMENT);
    n += n > 0 && n < wanted->n && wanted->post[n].kind == TD_CUDA_POST_RELU;
    posts.n = n;
    return posts;
}

/* What it is told of them. */
static bool describe_posts(struct td_cudnn_plan *p)
{
    const struct td_cudnn_api *api = &p->dnn->api;
    return p->posts.n == 0 ||
           (api->cudnnCreateTensorDescriptor(&p->bias) == 0 &&
            api->cudnnCreateActivationDescriptor(&p->act) == 0 &&
            api->cudnnSetTensor4dDescriptor(p->bias, TD_CUDNN_NHWC, data_type(p->type), 1,
                                            (int)p->out_channels, 1, 1) == 0 &&
            api->cudnnSetActivationDescriptor(p->act, has_relu(&p->posts) ? TD_CUDNN_RELU : TD_CUDNN_IDENTITY,
                                              TD_CUDNN_NOT_PROPAGATE_NAN, 0) == 0);
}

/* ------------------------------------------------------------------ algorithms */

static int find(const struct td_cudnn_plan *p, void *handle, struct td_cudnn_found *found, int *n)
{
    const struct td_cudnn_api *api = &p->dnn->api;
    return p->which == TD_CUDNN_FORWARD ? api->cudnnGetConvolutionForwardAlgorithm_v7(
                                              handle, p->x, p->w, p->conv, p->y, MOST_CHOICES, n, found)
           : p->which == TD_CUDNN_INPUT_GRAD
               ? api->cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, p->w, p->y, p->conv, p->x,
                                                                  MOST_CHOICES, n, found)
               : api->cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, p->x, p->y, p->conv, p->w,
                                                                    MOST_CHOICES, n, found);
}

static int workspace_of(const struct td_cudnn_plan *p, void *handle, int algo, size_t *bytes)
{
    const struct td_cudnn_api *api = &p->dnn->api;
    return p->which == TD_CUDNN_FORWARD
               ? api->cudnnGetConvolutionForwardWorkspaceSize(handle, p->x, p->w, p->conv, p->y, algo, bytes)
           : p->which == TD_CUDNN_INPUT_GRAD
               ? api->cudnnGetConvolutionBackwardDataWorkspaceSize(handle, p->w, p->y, p->conv, p->x, algo,
                                                                   bytes)
               : api->cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, p->x, p->y, p->conv, p->w, algo,
                                                                     bytes);
}

/* Whether the library, told of these, would do the posts with that algorithm. */
static bool goes_with_posts(const struct td_cuda_posts *posts, int algo)
{
    return has_relu(posts) || algo == TD_CUDNN_IMPLICIT_PRECOMP_GEMM;
}

/* An algorithm that will work, and is the same each time; *bytes: of its workspace. */
static bool is_of_use(const struct td_cudnn_plan *p, void *handle, const struct td_cudnn_found *found,
                      size_t *bytes)
{
    return found->status == TD_CUDNN_SUCCESS && found->determinism == TD_CUDNN_DETERMINISTIC &&
           workspace_of(p, handle, found->algo, bytes) == TD_CUDNN_SUCCESS &&
           *bytes <= p->dnn->most_workspace - p->picture_bytes;
}

/* Takes the way of that place among those with posts, or those without. Returns how many there were before
 * it, or are in all; *taken: it was. */
static int take_way(struct td_cudnn_plan *p, void *handle, const struct td_cudnn_found *found, int n,
                    bool posts, int choice, bool *taken)
{
    int ways = 0;
    *taken = false;
    for (int i = 0; i < n && !*taken; i++) {
        size_t bytes = 0;
        if ((posts && !goes_with_posts(&p->posts, found[i].algo)) ||
            !is_of_use(p, handle, &found[i], &bytes)) {
            continue;
        }
        if (ways == choice) {
            p->algo = found[i].algo;
            p->workspace_bytes = bytes;
            p->posts.n = posts ? p->posts.n : 0;
            *taken = true;
        } else {
            ways++;
        }
    }
    return ways;
}

/* With a ReLU every algorithm does the posts, and none is a way without them. */
static const char *choose(struct td_cudnn_plan *p, int choice)
{
    struct td_cudnn_found found[MOST_CHOICES];
    int n = 0, status, ways = 0;
    bool taken = false;
    struct td_cudnn_handle *h = td_cudnn_take(p->dnn, &status);
    if (h == NULL) {
        return "cuDNN makes no handle";
    }
    n = find(p, h->at, found, &n) == TD_CUDNN_SUCCESS ? n : 0;
    if (p->posts.n > 0) {
        ways = take_way(p, h->at, found, n, true, choice, &taken);
    }
    if (!taken && (p->posts.n == 0 || !has_relu(&p->posts))) {
        (void)take_way(p, h->at, found, n, false, choice - ways, &taken);
    }
    td_cudnn_put(p->dnn, h);
    return taken ? NULL : "cuDNN has no algorithm more for such a convolution";
}

static const char CANNOT_DESCRIBE[] = "cuDNN cannot describe such a convolution";

const char *td_cudnn_plan_make(struct td_cudnn *dnn, enum td_cudnn_which which, enum td_cuda_type type,
                               const struct td_cuda_conv *s, int choice, struct td_cudnn_plan **out)
{
    const char *refusal = refuse(type, s);
    struct td_cudnn_plan *p = refusal == NULL ? td_calloc(1, sizeof *p) : NULL;
    if (p == NULL) {
        return refusal != NULL ? refusal : "there is no memory for a plan of cuDNN's";
    }
    (void)td_cuda_use(dnn->device);
    p->dnn = dnn;
    p->which = which;
    p->type = type;
    p->apart = &p->is_apart;
    p->element = type == TD_CUDA_FLOAT ? 4 : 2;
    p->taps = s->axis[1].k * s->axis[2].k * (s->ic / s->groups);
    p->out_channels = s->oc;
    p->outputs = s->batch * s->axis[1].out * s->axis[2].out * s->oc;
    if (which == TD_CUDNN_FORWARD) {
        p->posts = posts_for_library(&s->posts);
    }
    p->filter_bytes = rounded((size_t)(p->taps * s->oc) * p->element);
    const struct td_cuda_conv even = even_out(s, &p->border);
    refusal = find_room(p) ? NULL : "with a border it takes more than a workspace";
    refusal = refusal != NULL || describe(p, type, &even) ? refusal : CANNOT_DESCRIBE;
    refusal = refusal == NULL ? choose(p, choice) : refusal;
    refusal = refusal != NULL || describe_posts(p) ? refusal : CANNOT_DESCRIBE;
    if (refusal != NULL) {
        td_cudnn_plan_free(p);
        return refusal;
    }
    *out = p;
    return NULL;
}

void td_cudnn_plan_free(struct td_cudnn_plan *p)
{
    if (p == NULL) {
        return;
    }
    const struct td_cudnn_api *api = &p->dnn->api;
    void *const tensors[] = {p->x, p->y, p->bias};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        if (tensors[i] != NULL) {
            (void)api->cudnnDestroyTensorDescriptor(tensors[i]);
        }
    }
    if (p->act != NULL) {
        (void)api->cudnnDestroyActivationDescriptor(p->act);
    }
    if (p->w != NULL) {
        (void)api->cudnnDestroyFilterDescriptor(p->w);
    }
    if (p->conv != NULL) {
        (void)api->cudnnDestroyConvolutionDescriptor(p->conv);
    }
    td_free(p);
}

size_t td_cudnn_plan_workspace(const struct td_cudnn_plan *p)
{
    return p->filter_bytes + p->picture_bytes + p->workspace_bytes;
}

size_t td_cudnn_plan_bytes(const struct td_cudnn_plan *p)
{
    return sizeof *p;
}

const struct td_cuda_posts *td_cudnn_plan_posts(const struct td_cudnn_plan *p)
{
    return &p->posts;
}

/* ------------------------------------------------------------------ calls */

/* [taps, out] to [out, taps], or back. */
static int move_filter(const struct td_cudnn_plan *p, bool back, const void *from, void *to,
                       struct td_cuda_stream *stream)
{
    return td_cuda_swap(p->element, back ? p->out_channels : p->taps, back ? p->taps : p->out_channels, from,
                        to, stream);
}

static const float ONE = 1, ZERO = 0;

static const void *filter_of(const struct td_cudnn_plan *p, const struct td_cudnn_call *c)
{
    return p->which == TD_CUDNN_FORWARD ? c->b : c->a;
}

int td_cudnn_swap_back(const struct td_cudnn_plan *p, const struct td_cudnn_call *c)
{
    return move_filter(p, true, filter_of(p, c), c->workspace, c->stream);
}

/* In the library's order. */
static const void *filter_there(const struct td_cudnn_plan *p, const struct td_cudnn_call *c)
{
    return c->swapped ? filter_of(p, c) : c->workspace;
}

static void *room_of(const struct td_cudnn_plan *p, const struct td_cudnn_call *c)
{
    return p->workspace_bytes > 0 ? (char *)c->workspace + p->filter_bytes + p->picture_bytes : NULL;
}

/* x, or where its gradient goes, as the library has it. */
static void *picture_of(const struct td_cudnn_plan *p, const struct td_cudnn_call *c)
{
    return (char *)c->workspace + p->filter_bytes;
}

static const void *x_there(const struct td_cudnn_plan *p, const struct td_cudnn_call *c)
{
    return p->picture_bytes > 0 ? picture_of(p, c) : c->a;
}

/* What the library reads is put in its order. Returns CUDA's error number. */
static int prepare_call(const struct td_cudnn_plan *p, const struct td_cudnn_call *c)
{
    int e = 0;
    if (p->which != TD_CUDNN_FILTER_GRAD && !c->swapped) {
        e = move_filter(p, false, filter_of(p, c), c->workspace, c->stream);
    }
    if (e == 0 && p->picture_bytes > 0 && p->which != TD_CUDNN_INPUT_GRAD) {
        e = td_cuda_border_add(p->element, &p->border, c->a, picture_of(p, c), c->stream);
    }
    return e;
}

/* What it has written is put in ours. */
static int finish_call(const struct td_cudnn_plan *p, const struct td_cudnn_call *c)
{
    return p->which == TD_CUDNN_FILTER_GRAD ? move_filter(p, true, c->workspace, c->y, c->stream)
           : p->which == TD_CUDNN_INPUT_GRAD && p->picture_bytes > 0
               ? td_cuda_border_cut(p->element, &p->border, picture_of(p, c), c->y, c->stream)
               : 0;
}

static int call_plain(const struct td_cudnn_plan *p, void *handle, const struct td_cudnn_call *c)
{
    const struct td_cudnn_api *api = &p->dnn->api;
    const void *const filter = filter_there(p, c);
    void *const room = room_of(p, c);
    return p->which == TD_CUDNN_FORWARD
               ? api->cudnnConvolutionForward(handle, &ONE, p->x, x_there(p, c), p->w, filter, p->conv,
                                              p->algo, room, p->workspace_bytes, &ZERO, p->y, c->y)
           : p->which == TD_CUDNN_INPUT_GRAD
               ? api->cudnnConvolutionBackwardData(handle, &ONE, p->w, filter, p->y, c->b, p->conv, p->algo,
                                                   room, p->workspace_bytes, &ZERO, p->x,
                                                   p->picture_bytes > 0 ? picture_of(p, c) : c->y)
               : api->cudnnConvolutionBackwardFilter(handle, &ONE, p->x, x_there(p, c), p->y, c->b, p->conv,
                                                     p->algo, room, p->workspace_bytes, &ZERO, p->w,
                                                     c->workspace);
}

static int call_with_posts(const struct td_cudnn_plan *p, void *handle, const struct td_cudnn_call *c)
{
    const bool sum = has_sum(&p->posts);
    return p->dnn->api.cudnnConvolutionBiasActivationForward(
        handle, &ONE, p->x, x_there(p, c), p->w, filter_there(p, c), p->conv, p->algo, room_of(p, c),
        p->workspace_bytes, sum ? &ONE : &ZERO, p->y, sum ? c->posts->post[1].at : c->y, p->bias,
        c->posts->post[0].at, p->act, p->y, c->y);
}

/* The convolution and its posts; *behind: what a kernel of ours behind it came to. */
static int call_library(const struct td_cudnn_plan *p, void *handle, const struct td_cudnn_call *c,
                        int *behind)
{
    int status;
    *behind = 0;
    if (p->posts.n > 0 && !atomic_load_explicit(p->apart, memory_order_relaxed)) {
        status = call_with_posts(p, handle, c);
        if (!td_cudnn_refuses(status)) {
            return status;
        }
        atomic_store_explicit(p->apart, true, memory_order_relaxed);
    }
    status = call_plain(p, handle, c);
    if (status == TD_CUDNN_SUCCESS && p->posts.n > 0) {
        *behind = td_cuda_posts_behind(p->type, c->posts, c->y, p->outputs, p->out_channels, c->stream);
    }
    return status;
}

enum td_code td_cudnn_convolve(const struct td_cudnn_plan *p, const struct td_cudnn_call *c,
                               struct td_err *err)
{
    const struct td_cudnn_api *api = &p->dnn->api;
    int status, ours; /* of the library, of kernels of ours */
    struct td_cudnn_handle *h = td_cudnn_take(p->dnn, &status);
    TD_FAIL_IF(h == NULL, err, RESOURCE_EXHAUSTED, "cudnnCreate: %s", api->cudnnGetErrorString(status));
    ours = prepare_call(p, c);
    status = ours == 0 ? api->cudnnSetStream(h->at, c->stream) : TD_CUDNN_SUCCESS;
    status = ours == 0 && status == TD_CUDNN_SUCCESS ? call_library(p, h->at, c, &ours) : status;
    if (ours == 0 && status == TD_CUDNN_SUCCESS) {
        ours = finish_call(p, c);
    }
    td_cudnn_put(p->dnn, h);
    TD_FAIL_IF(ours != 0, err, INTERNAL, "a kernel before or behind cuDNN's: %s", td_cuda_error_text(ours));
    TD_FAIL_IF(status != TD_CUDNN_SUCCESS, err, INTERNAL, "cuDNN's convolution: %s",
               api->cudnnGetErrorString(status));
    return TD_OK;
}
