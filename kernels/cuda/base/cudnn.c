/* kernels/cuda/base/cudnn.c - handles, which one call at a time may use, and plans.
 *
 * A handle has the stream that its calls queue on, so a call takes one that nobody uses, or makes one, and
 * puts it back. A call's workspace is the filter in the library's order, then what the library wants.
 *
 * Padding is the same on both sides of an axis, for the library: a convolution whose padding is not serves
 * all the same where the windows do not reach that far.
 *
 * Threads: mu guards the idle handles.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/cudnn.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>

#include "core/base/mem.h"
#include "kernels/cuda/base/cudnn_api.h"
#include "kernels/cuda/base/shared_object.h"
#include "kernels/cuda/base/swap.h"

enum { MOST_CHOICES = 8, ALIGNED = 256 };

struct handle {
    void *at;
    struct handle *next;
};

struct td_cudnn {
    struct td_cudnn_api api;
    int device;
    bool tf32;
    size_t most_workspace;
    pthread_mutex_t mu; /* guards what follows */
    pthread_cond_t back;
    struct handle *idle;
    int busy; /* handles that somebody has */
    bool stopped;
};

struct td_cudnn_plan {
    struct td_cudnn *dnn;
    enum td_cudnn_which which;
    void *x, *w, *y, *conv; /* descriptors */
    int algo;
    size_t element;                       /* bytes */
    int64_t taps, out_channels;           /* of the filter: h * w * in / groups, and out */
    size_t filter_bytes, workspace_bytes; /* the first rounded up */
};

/* ------------------------------------------------------------------ the library */

static const char *const SYMBOLS[] = {
#define CALL(type, name, parameters) #name,
#include "kernels/cuda/base/cudnn_api.def"
    NULL};
_Static_assert(sizeof(struct td_cudnn_api) == sizeof SYMBOLS - sizeof *SYMBOLS, "a pointer each");

/* h: NULL: there came to be none. */
static void give_back(struct td_cudnn *dnn, struct handle *h)
{
    pthread_mutex_lock(&dnn->mu);
    if (h != NULL) {
        h->next = dnn->idle;
        dnn->idle = h;
    }
    dnn->busy--;
    (void)pthread_cond_broadcast(&dnn->back);
    pthread_mutex_unlock(&dnn->mu);
}

/* NULL: the library makes no more; *status says why. */
static struct handle *take_handle(struct td_cudnn *dnn, int *status)
{
    pthread_mutex_lock(&dnn->mu);
    const bool stopped = dnn->stopped;
    struct handle *h = stopped ? NULL : dnn->idle;
    if (h != NULL) {
        dnn->idle = h->next;
    }
    dnn->busy += !stopped;
    pthread_mutex_unlock(&dnn->mu);
    *status = TD_CUDNN_SUCCESS;
    if (stopped) {
        *status = TD_CUDNN_NO_HOST_MEMORY;
        return NULL;
    }
    if (h == NULL) {
        h = td_calloc(1, sizeof *h);
        *status = h != NULL ? dnn->api.cudnnCreate(&h->at) : TD_CUDNN_NO_HOST_MEMORY;
        if (*status != TD_CUDNN_SUCCESS) {
            td_free(h);
            give_back(dnn, NULL);
            return NULL;
        }
    }
    return h;
}

/* What was found is of use: of version 9, and a handle can be made. */
static bool try_library(struct td_cudnn *dnn, const char *file, char *said, size_t room)
{
    const size_t version = dnn->api.cudnnGetVersion(); /* 91900 is 9.19.0 */
    int status;
    if (version / 10000 != 9) {
        (void)snprintf(said, room, "%s: it is version %zu, and 9 is wanted", file, version);
        return false;
    }
    struct handle *h = take_handle(dnn, &status);
    if (h == NULL) {
        (void)snprintf(said, room, "%s: cudnnCreate: %s", file, dnn->api.cudnnGetErrorString(status));
        return false;
    }
    give_back(dnn, h);
    (void)snprintf(said, room, "cuDNN %zu.%zu.%zu (%s)%s", version / 10000, version / 100 % 100,
                   version % 100, file, dnn->tf32 ? " with TF32" : "");
    return true;
}

struct td_cudnn *td_cudnn_open(const struct td_cudnn_opts *o, char *said, size_t room)
{
    static const char *const usual[] = {"libcudnn.so.9", NULL};
    const struct td_shared_object library = {.names = o->names != NULL ? o->names : usual,
                                             .symbols = SYMBOLS};
    const char *file = NULL;
    struct td_cudnn *dnn = td_calloc(1, sizeof *dnn);
    if (dnn == NULL || pthread_mutex_init(&dnn->mu, NULL) != 0 || pthread_cond_init(&dnn->back, NULL) != 0) {
        td_free(dnn);
        (void)snprintf(said, room, "there is no memory for it");
        return NULL;
    }
    dnn->device = o->device;
    dnn->tf32 = o->tf32;
    (void)td_cuda_use(o->device); /* where that fails, so does a handle */
    dnn->most_workspace = o->most_workspace;
    if (!td_shared_object_open(&library, &dnn->api, &file, said, room) ||
        !try_library(dnn, file, said, room)) {
        (void)pthread_mutex_destroy(&dnn->mu);
        td_free(dnn);
        return NULL;
    }
    return dnn;
}

void td_cudnn_close(struct td_cudnn *dnn)
{
    if (dnn == NULL) {
        return;
    }
    td_cudnn_stop(dnn);
    (void)pthread_mutex_destroy(&dnn->mu);
    (void)pthread_cond_destroy(&dnn->back);
    td_free(dnn);
}

void td_cudnn_stop(struct td_cudnn *dnn)
{
    (void)td_cuda_use(dnn->device);
    pthread_mutex_lock(&dnn->mu);
    dnn->stopped = true;
    while (dnn->busy > 0) {
        (void)pthread_cond_wait(&dnn->back, &dnn->mu);
    }
    while (dnn->idle != NULL) {
        struct handle *h = dnn->idle;
        dnn->idle = h->next;
        (void)dnn->api.cudnnDestroy(h->at);
        td_free(h);
    }
    pthread_mutex_unlock(&dnn->mu);
}

bool td_cudnn_start(struct td_cudnn *dnn)
{
    int status;
    pthread_mutex_lock(&dnn->mu);
    dnn->stopped = false;
    pthread_mutex_unlock(&dnn->mu);
    (void)td_cuda_use(dnn->device);
    struct handle *h = take_handle(dnn, &status);
    if (h == NULL) {
        return false;
    }
    give_back(dnn, h);
    return true;
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
           : !pads_alike(h) || !pads_alike(w) ? "it pads more on one side than on the other"
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

/* The algorithm of that place in the library's order, of those that it says will work. */
static const char *choose(struct td_cudnn_plan *p, int choice)
{
    struct td_cudnn_found found[MOST_CHOICES];
    int n = 0, status;
    struct handle *h = take_handle(p->dnn, &status);
    if (h == NULL) {
        return "cuDNN makes no handle";
    }
    const char *refusal = "cuDNN has no algorithm more for such a convolution";
    status = find(p, h->at, found, &n);
    for (int i = 0; status == TD_CUDNN_SUCCESS && refusal != NULL && i < n; i++) {
        size_t bytes = 0;
        if (found[i].status == TD_CUDNN_SUCCESS && found[i].determinism == TD_CUDNN_DETERMINISTIC &&
            workspace_of(p, h->at, found[i].algo, &bytes) == TD_CUDNN_SUCCESS &&
            bytes <= p->dnn->most_workspace && choice-- == 0) {
            p->algo = found[i].algo;
            p->workspace_bytes = bytes;
            refusal = NULL;
        }
    }
    give_back(p->dnn, h);
    return refusal;
}

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
    p->element = type == TD_CUDA_FLOAT ? 4 : 2;
    p->taps = s->axis[1].k * s->axis[2].k * (s->ic / s->groups);
    p->out_channels = s->oc;
    p->filter_bytes = ((size_t)(p->taps * s->oc) * p->element + ALIGNED - 1) / ALIGNED * ALIGNED;
    refusal = describe(p, type, s) ? choose(p, choice) : "cuDNN cannot describe such a convolution";
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
    if (p->x != NULL) {
        (void)api->cudnnDestroyTensorDescriptor(p->x);
    }
    if (p->y != NULL) {
        (void)api->cudnnDestroyTensorDescriptor(p->y);
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
    return p->filter_bytes + p->workspace_bytes;
}

size_t td_cudnn_plan_bytes(const struct td_cudnn_plan *p)
{
    return sizeof *p;
}

/* ------------------------------------------------------------------ calls */

/* [taps, out] to [out, taps], or back. */
static int move_filter(const struct td_cudnn_plan *p, bool back, const void *from, void *to,
                       struct td_cuda_stream *stream)
{
    return td_cuda_swap(p->element, back ? p->out_channels : p->taps, back ? p->taps : p->out_channels, from,
                        to, stream);
}

static int call_library(const struct td_cudnn_plan *p, void *handle, const struct td_cudnn_call *c)
{
    static const float one = 1, zero = 0;
    const struct td_cudnn_api *api = &p->dnn->api;
    char *const filter = c->workspace;
    void *const room = p->workspace_bytes > 0 ? filter + p->filter_bytes : NULL;
    return p->which == TD_CUDNN_FORWARD
               ? api->cudnnConvolutionForward(handle, &one, p->x, c->a, p->w, filter, p->conv, p->algo, room,
                                              p->workspace_bytes, &zero, p->y, c->y)
           : p->which == TD_CUDNN_INPUT_GRAD
               ? api->cudnnConvolutionBackwardData(handle, &one, p->w, filter, p->y, c->b, p->conv, p->algo,
                                                   room, p->workspace_bytes, &zero, p->x, c->y)
               : api->cudnnConvolutionBackwardFilter(handle, &one, p->x, c->a, p->y, c->b, p->conv, p->algo,
                                                     room, p->workspace_bytes, &zero, p->w, filter);
}

enum td_code td_cudnn_convolve(const struct td_cudnn_plan *p, const struct td_cudnn_call *c,
                               struct td_err *err)
{
    const struct td_cudnn_api *api = &p->dnn->api;
    int moved = 0, status;
    struct handle *h = take_handle(p->dnn, &status);
    TD_FAIL_IF(h == NULL, err, RESOURCE_EXHAUSTED, "cudnnCreate: %s", api->cudnnGetErrorString(status));
    if (p->which != TD_CUDNN_FILTER_GRAD) {
        moved = move_filter(p, false, p->which == TD_CUDNN_FORWARD ? c->b : c->a, c->workspace, c->stream);
    }
    status = moved == 0 ? api->cudnnSetStream(h->at, c->stream) : TD_CUDNN_SUCCESS;
    status = moved == 0 && status == TD_CUDNN_SUCCESS ? call_library(p, h->at, c) : status;
    if (moved == 0 && status == TD_CUDNN_SUCCESS && p->which == TD_CUDNN_FILTER_GRAD) {
        moved = move_filter(p, true, c->workspace, c->y, c->stream);
    }
    give_back(p->dnn, h);
    TD_FAIL_IF(moved != 0, err, INTERNAL, "a filter could not be moved: %s", td_cuda_error_text(moved));
    TD_FAIL_IF(status != TD_CUDNN_SUCCESS, err, INTERNAL, "cuDNN's convolution: %s",
               api->cudnnGetErrorString(status));
    return TD_OK;
}
