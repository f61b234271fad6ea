/* tests/host_cuda/cudnn.cc - libcudnn.so.9 of the tests (stand_in.h): its handles, each of which queues on
 * the stream that its caller has set, and its descriptors. What they are for: cudnn_conv.cc.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/cudnn.h"

namespace fake_cudnn
{

stand_in::registry<handle> handles;
stand_in::registry<image> images;
stand_in::registry<filter> filters;
stand_in::registry<convolution> convolutions;
stand_in::registry<activation> activations;

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

} // namespace fake_cudnn

using namespace fake_cudnn;

namespace
{

enum { NOT_INITIALIZED = 1001 };

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
    const size_t left =
        images.count() + filters.count() + convolutions.count() + activations.count() + graph_descriptors();
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

int cudnnCreateActivationDescriptor(void **to)
{
    *to = activations.add();
    return TD_CUDNN_SUCCESS;
}

int cudnnSetActivationDescriptor(void *desc, int mode, int nan, double)
{
    activation *const a = activations.find(desc);
    if (a == nullptr) {
        return status_of(wrong("cudnnSetActivationDescriptor", "no such descriptor"));
    }
    *a = {mode, nan};
    return TD_CUDNN_SUCCESS;
}

int cudnnDestroyActivationDescriptor(void *desc)
{
    return destroy("cudnnDestroyActivationDescriptor", &activations, desc);
}
