/* kernels/cuda/base/runtime.cu - runtime.h on CUDA's runtime library. A thread's current device is set before
 * each call: threads serve many models, and setting what is set costs nothing.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/runtime.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "kernels/cuda/base/launch.cuh"

namespace
{

cudaStream_t of(td_cuda_stream *s)
{
    return reinterpret_cast<cudaStream_t>(s);
}

cudaEvent_t of(td_cuda_event *e)
{
    return reinterpret_cast<cudaEvent_t>(e);
}

/* An error that only this call had is taken off the thread, so that no launch finds it. */
int said(cudaError_t error)
{
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
    }
    return static_cast<int>(error);
}

/* f on the device. */
template <class F> int on(int device, F f)
{
    const cudaError_t error = cudaSetDevice(device);
    return said(error == cudaSuccess ? f() : error);
}

} // namespace

const char *td_cuda_error_name(int error)
{
    return cudaGetErrorName(static_cast<cudaError_t>(error));
}

const char *td_cuda_error_text(int error)
{
    return cudaGetErrorString(static_cast<cudaError_t>(error));
}

bool td_cuda_is_memory(int error)
{
    return error == cudaErrorMemoryAllocation;
}

/* Of an error that stays, CUDA tells with every later call; the process cannot use the device any more. */
bool td_cuda_is_sticky(int error)
{
    return error == cudaErrorIllegalAddress || error == cudaErrorLaunchFailure ||
           error == cudaErrorLaunchTimeout || error == cudaErrorHardwareStackError ||
           error == cudaErrorIllegalInstruction || error == cudaErrorMisalignedAddress ||
           error == cudaErrorInvalidAddressSpace || error == cudaErrorInvalidPc || error == cudaErrorAssert ||
           error == cudaErrorECCUncorrectable || error == cudaErrorNvlinkUncorrectable ||
           error == cudaErrorContained || error == cudaErrorContextIsDestroyed ||
           error == cudaErrorMpsClientTerminated || error == cudaErrorExternalDevice;
}

int td_cuda_count(int *error)
{
    int n = 0;
    *error = static_cast<int>(cudaGetDeviceCount(&n));
    if (*error != cudaSuccess) {
        (void)cudaGetLastError();
        n = 0;
    }
    return n;
}

void td_cuda_versions(int *driver, int *built, int *capability)
{
    *driver = 0;
    (void)said(cudaDriverGetVersion(driver));
    *built = CUDART_VERSION;
    *capability = 80;
}

int td_cuda_use(int device)
{
    return static_cast<int>(cudaSetDevice(device));
}

int td_cuda_describe(int device, struct td_cuda_facts *out)
{
    cudaDeviceProp p;
    size_t unused = 0, all;
    cudaError_t error = cudaGetDeviceProperties(&p, device);
    error = error != cudaSuccess ? error : cudaSetDevice(device);
    error = error != cudaSuccess ? error : cudaMemGetInfo(&unused, &all);
    if (error == cudaSuccess) {
        memcpy(out->name, p.name, sizeof out->name);
        out->name[sizeof out->name - 1] = '\0';
        (void)snprintf(out->pci, sizeof out->pci, "%04x:%02x:%02x.0", p.pciDomainID & 0xFFFF,
                       p.pciBusID & 0xFF, p.pciDeviceID & 0xFF);
        out->memory = p.totalGlobalMem;
        out->unused = unused;
        out->multiprocessors = p.multiProcessorCount;
        out->major = p.major;
        out->minor = p.minor;
    }
    return said(error);
}

int td_cuda_wait_asleep(int device)
{
    return said(cudaInitDevice(device, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid));
}

/* The first call may tell of the error that the second is to take away. */
int td_cuda_reset(int device)
{
    (void)cudaSetDevice(device);
    const cudaError_t error = cudaDeviceReset();
    (void)cudaGetLastError();
    return static_cast<int>(error);
}

int td_cuda_allocate(int device, td_cuda_stream *stream, size_t bytes, void **out)
{
    return on(device, [&] { return cudaMallocAsync(out, bytes, of(stream)); });
}

int td_cuda_free(int device, td_cuda_stream *stream, void *p)
{
    return on(device, [&] { return cudaFreeAsync(p, of(stream)); });
}

int td_cuda_keep(int device, uint64_t bytes)
{
    return on(device, [&] {
        cudaMemPool_t pool;
        const cudaError_t error = cudaDeviceGetDefaultMemPool(&pool, device);
        return error == cudaSuccess ? cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes)
                                    : error;
    });
}

int td_cuda_trim(int device)
{
    return on(device, [&] {
        cudaMemPool_t pool;
        const cudaError_t error = cudaDeviceGetDefaultMemPool(&pool, device);
        return error == cudaSuccess ? cudaMemPoolTrimTo(pool, 0) : error;
    });
}

int td_cuda_host_allocate(int device, size_t bytes, void **out)
{
    return on(device, [&] { return cudaHostAlloc(out, bytes, cudaHostAllocPortable); });
}

int td_cuda_host_free(int device, void *p)
{
    return on(device, [&] { return cudaFreeHost(p); });
}

void td_cuda_host_fill(void *pinned, const void *from, size_t bytes)
{
    memcpy(pinned, from, bytes);
}

int td_cuda_copy(int device, td_cuda_stream *stream, enum td_cuda_copy which, void *dst, const void *src,
                 size_t bytes)
{
    static const cudaMemcpyKind kinds[] = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                           cudaMemcpyDeviceToDevice};
    return on(device, [&] { return cudaMemcpyAsync(dst, src, bytes, kinds[which], of(stream)); });
}

/* A call may tell of work that failed before, and have made what was asked for all the same: that goes
 * back. */
int td_cuda_stream_new(int device, td_cuda_stream **out)
{
    cudaStream_t made = nullptr;
    const int error = on(device, [&] { return cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking); });
    *out = reinterpret_cast<td_cuda_stream *>(made);
    if (error != 0 && made != nullptr) {
        (void)td_cuda_stream_free(*out);
    }
    return error;
}

int td_cuda_stream_wait(int device, td_cuda_stream *stream)
{
    return on(device, [&] { return cudaStreamSynchronize(of(stream)); });
}

int td_cuda_stream_after(int device, td_cuda_stream *stream, td_cuda_event *event)
{
    return on(device, [&] { return cudaStreamWaitEvent(of(stream), of(event), 0); });
}

int td_cuda_stream_free(td_cuda_stream *stream)
{
    return said(cudaStreamDestroy(of(stream)));
}

/* Relaxed: what this thread asks beside the stream is done as ever. NVIDIA's libraries allocate when a handle
 * is made, and load a kernel when it is launched for the first time, and either may be while we record. */
int td_cuda_capture_begin(int device, td_cuda_stream *stream)
{
    return on(device, [&] { return cudaStreamBeginCapture(of(stream), cudaStreamCaptureModeRelaxed); });
}

int td_cuda_capture_end(int device, td_cuda_stream *stream, td_cuda_graph **out)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t made = nullptr;
    int error = on(device, [&] { return cudaStreamEndCapture(of(stream), &graph); });
    error = error != 0 ? error : on(device, [&] { return cudaGraphInstantiate(&made, graph, 0); });
    if (graph != nullptr) {
        (void)said(cudaGraphDestroy(graph));
    }
    *out = error == 0 ? reinterpret_cast<td_cuda_graph *>(made) : nullptr;
    return error;
}

#if CUDART_VERSION >= 13000 /* a graph's edges have data */
#define NO_EDGE_DATA nullptr,
#else
#define NO_EDGE_DATA
#endif

/* The graph that the stream is recorded to, and the nodes that the next one comes after. */
static cudaError_t recorded(cudaStream_t s, cudaGraph_t *graph, const cudaGraphNode_t **after, size_t *n)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
#if CUDART_VERSION >= 13000
    const cudaGraphEdgeData *edges;
    const cudaError_t error = cudaStreamGetCaptureInfo(s, &status, nullptr, graph, after, &edges, n);
#else
    const cudaError_t error = cudaStreamGetCaptureInfo(s, &status, nullptr, graph, after, n);
#endif
    return error == cudaSuccess && status != cudaStreamCaptureStatusActive ? cudaErrorStreamCaptureInvalidated
                                                                           : error;
}

/* *out: CUDA's word for it. */
static cudaError_t conditional(enum td_cuda_node type, enum cudaGraphConditionalNodeType *out)
{
    *out = type == TD_CUDA_WHILE ? cudaGraphCondTypeWhile : cudaGraphCondTypeIf;
#if CUDART_VERSION >= 12080
    *out = type == TD_CUDA_SWITCH ? cudaGraphCondTypeSwitch : *out;
    return cudaSuccess;
#else
    return type == TD_CUDA_SWITCH ? cudaErrorNotSupported : cudaSuccess;
#endif
}

static cudaError_t add_node(cudaGraph_t graph, const cudaGraphNode_t *after, size_t n_after,
                            struct cudaGraphNodeParams *p, cudaGraphNode_t *out)
{
    return cudaGraphAddNode(out, graph, after, NO_EDGE_DATA n_after, p);
}

/* Whether a graph may have such a node. */
static bool may_have(int device, enum td_cuda_node type)
{
    cudaGraph_t graph = nullptr;
    cudaGraphNode_t node;
    struct cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeConditional;
    p.conditional.size = type == TD_CUDA_SWITCH ? 2 : 1;
    int error = said(conditional(type, &p.conditional.type));
    error = error != 0 ? error : on(device, [&] { return cudaGraphCreate(&graph, 0); });
    error = error != 0 ? error : on(device, [&] {
        return cudaGraphConditionalHandleCreate(&p.conditional.handle, graph, 0, 0);
    });
    error = error != 0 ? error : on(device, [&] { return add_node(graph, nullptr, 0, &p, &node); });
    if (graph != nullptr) {
        (void)said(cudaGraphDestroy(graph));
    }
    return error == 0;
}

unsigned td_cuda_nodes(int device)
{
    unsigned all = 0;
    for (const enum td_cuda_node type : {TD_CUDA_WHILE, TD_CUDA_IF, TD_CUDA_SWITCH}) {
        all |= may_have(device, type) ? 1U << type : 0;
    }
    return all;
}

int td_cuda_condition(int device, td_cuda_stream *stream, uint64_t *condition)
{
    cudaGraph_t graph;
    const cudaGraphNode_t *after;
    size_t n;
    cudaGraphConditionalHandle made = 0;
    int error = on(device, [&] { return recorded(of(stream), &graph, &after, &n); });
    error =
        error != 0 ? error : on(device, [&] { return cudaGraphConditionalHandleCreate(&made, graph, 0, 0); });
    *condition = made;
    return error;
}

int td_cuda_node_open(int device, td_cuda_stream *stream, enum td_cuda_node type, uint64_t condition, int n,
                      td_cuda_stream *const *bodies)
{
    cudaGraph_t graph;
    const cudaGraphNode_t *after;
    size_t n_after;
    cudaGraphNode_t node;
    struct cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeConditional;
    p.conditional.handle = condition;
    p.conditional.size = static_cast<unsigned>(n);
    int error = said(conditional(type, &p.conditional.type));
    error = error != 0 ? error : on(device, [&] { return recorded(of(stream), &graph, &after, &n_after); });
    error = error != 0 ? error : on(device, [&] { return add_node(graph, after, n_after, &p, &node); });
    error = error != 0 ? error : on(device, [&] {
        return cudaStreamUpdateCaptureDependencies(of(stream), &node, NO_EDGE_DATA 1,
                                                   cudaStreamSetCaptureDependencies);
    });
    for (int i = 0; error == 0 && i < n; i++) {
        error = on(device, [&] {
            return cudaStreamBeginCaptureToGraph(of(bodies[i]), p.conditional.phGraph_out[i], nullptr,
                                                 nullptr, 0, cudaStreamCaptureModeRelaxed);
        });
    }
    return error;
}

int td_cuda_body_close(int device, td_cuda_stream *body)
{
    cudaGraph_t graph = nullptr; /* the node's own */
    return on(device, [&] { return cudaStreamEndCapture(of(body), &graph); });
}

int td_cuda_graph_launch(int device, td_cuda_graph *graph, td_cuda_stream *stream)
{
    return on(device, [&] { return cudaGraphLaunch(reinterpret_cast<cudaGraphExec_t>(graph), of(stream)); });
}

int td_cuda_graph_free(int device, td_cuda_graph *graph)
{
    return on(device, [&] { return cudaGraphExecDestroy(reinterpret_cast<cudaGraphExec_t>(graph)); });
}

int td_cuda_event_new(int device, td_cuda_event **out)
{
    cudaEvent_t made = nullptr;
    const int error = on(device, [&] {
        return cudaEventCreateWithFlags(&made, cudaEventDisableTiming | cudaEventBlockingSync);
    });
    *out = reinterpret_cast<td_cuda_event *>(made);
    if (error != 0 && made != nullptr) {
        (void)td_cuda_event_free(*out);
    }
    return error;
}

int td_cuda_event_record(int device, td_cuda_event *event, td_cuda_stream *stream)
{
    return on(device, [&] { return cudaEventRecord(of(event), of(stream)); });
}

int td_cuda_event_wait(int device, td_cuda_event *event)
{
    return on(device, [&] { return cudaEventSynchronize(of(event)); });
}

int td_cuda_event_free(td_cuda_event *event)
{
    return said(cudaEventDestroy(of(event)));
}

int td_cuda_code_load(int device, const void *code, td_cuda_code **out)
{
    return on(device, [&] {
        return cudaLibraryLoadData(reinterpret_cast<cudaLibrary_t *>(out), code, nullptr, nullptr, 0, nullptr,
                                   nullptr, 0);
    });
}

int td_cuda_code_find(int device, td_cuda_code *code, const char *name, td_cuda_function **out)
{
    return on(device, [&] {
        return cudaLibraryGetKernel(reinterpret_cast<cudaKernel_t *>(out),
                                    reinterpret_cast<cudaLibrary_t>(code), name);
    });
}

int td_cuda_code_unload(int device, td_cuda_code *code)
{
    return on(device, [&] { return cudaLibraryUnload(reinterpret_cast<cudaLibrary_t>(code)); });
}

int td_cuda_launch_made(const td_cuda_function *kernel, int64_t blocks, void **args, td_cuda_stream *stream)
{
    const dim3 grid(static_cast<unsigned>(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS));
    return blocks == 0 ? 0
                       : said(cudaLaunchKernel(static_cast<const void *>(kernel), grid,
                                               dim3(TD_CUDA_MADE_THREADS), args, 0, of(stream)));
}
