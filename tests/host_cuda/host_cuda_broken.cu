/* tests/host_cuda/host_cuda_broken.cu - programs that are wrong in one way each, for the tests to see that
 * they are reported (CMakeLists.txt: by whom, and in which words).
 *
 *   host_cuda_broken NAME [right]      with "right": the same program without its fault, which nobody reports
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/capture_loop.h"
#include "tests/host_cuda/host_cuda.h"
#include "tests/host_cuda/kernel_macros.h"
#include "tests/host_cuda/run_kernels.h"

static bool right;

/* x [n]  ->  y [n], each block's shifted by one through shared memory; the barrier between is what may be
 * missing: threads that run in the order of their numbers do not need it */
static __global__ void shift(int *y, const int *x, bool wait)
{
    __shared__ int part[128];
    const int i = threadIdx.x, at = blockIdx.x * blockDim.x + i;
    part[i] = x[at];
    if (wait) {
        __syncthreads();
    }
    y[at] = i == 0 ? 0 : part[i - 1];
}

static void missing_barrier()
{
    constexpr int N = 8 * 128;
    std::vector<int> x(N), want(N);
    for (int i = 0; i < N; i++) {
        x[i] = i;
        want[i] = i % 128 == 0 ? 0 : i - 1;
    }
    const int *dx = new_array_of(x);
    int *y = new_array<int>(N);
    void *args[] = {&y, &dx, &right};
    CHECK_CUDA(cudaLaunchKernel(shift, dim3(8), dim3(128), args, 0, nullptr));
    fprintf(stderr, read_array(y, N) == want ? "as wanted\n" : "wrong results\n");
}

/* Every thread of a block adds to the same place; right: at once. */
static __global__ void total(int *y, bool at_once)
{
    if (at_once) {
        atomicAdd(y, 1);
    } else {
        *y += 1;
    }
}

static void run_total(int *y, unsigned blocks, unsigned threads)
{
    void *args[] = {&y, &right};
    CHECK_CUDA(cudaLaunchKernel(total, dim3(blocks), dim3(threads), args, 0, nullptr));
    read_array(y, 1);
}

static void block_conflict()
{
    run_total(new_array_of(std::vector<int>(1)), 1, 64);
}

static void grid_conflict()
{
    run_total(new_array_of(std::vector<int>(1)), 20000,
              1); /* so that a helper surely comes in time for some */
}

static __global__ void touch(int *y, int at)
{
    y[at] = 1;
}

static cudaError_t run_touch(int *y, int at, cudaStream_t s)
{
    void *args[] = {&y, &at};
    return cudaLaunchKernel(touch, dim3(1), dim3(1), args, 0, s);
}

static void out_of_bounds()
{
    int *const y = new_array<int>(10);
    CHECK_CUDA(run_touch(y, right ? 9 : 10, nullptr));
    CHECK_CUDA(cudaDeviceSynchronize());
    cudaFree(y);
}

static __global__ void touch_shared(int at)
{
    TD_DYNAMIC_SHARED(int, mine);
    mine[at] = 1;
}

static void out_of_shared()
{
    int at = right ? 9 : 10;
    void *args[] = {&at};
    CHECK_CUDA(cudaLaunchKernel(touch_shared, dim3(1), dim3(1), args, 10 * sizeof(int), nullptr));
    cudaDeviceSynchronize();
}

/* A kernel on one stream, a copy of its result on another. */
static void read_before_event()
{
    cudaStream_t a, b;
    cudaEvent_t e;
    int *y = new_array<int>(10), *pinned;
    CHECK_CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK_CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    CHECK_CUDA(cudaMallocHost(&pinned, sizeof *y));
    CHECK_CUDA(run_touch(y, 0, a));
    CHECK_CUDA(cudaEventRecord(e, a));
    if (right) {
        CHECK_CUDA(cudaStreamWaitEvent(b, e, 0));
    }
    cudaMemcpyAsync(pinned, y, sizeof *y, cudaMemcpyDeviceToHost, b);
    cudaDeviceSynchronize();
    cudaEventDestroy(e);
}

/* The host reads what a copy will write; right: when it has waited. */
static void read_before_wait()
{
    cudaStream_t s;
    int *y = new_array<int>(1), *pinned;
    CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK_CUDA(cudaMallocHost(&pinned, sizeof *y));
    *pinned = 0;
    CHECK_CUDA(run_touch(y, 0, s));
    CHECK_CUDA(cudaMemcpyAsync(pinned, y, sizeof *y, cudaMemcpyDeviceToHost, s));
    if (right) {
        CHECK_CUDA(cudaStreamSynchronize(s));
    }
    fprintf(stderr, *pinned == 1 ? "as wanted\n" : "read too early: %d\n", *pinned);
    cudaDeviceSynchronize();
}

static __global__ void touch_hidden(int *const *y)
{
    **y = 1;
}

/* A pointer that the launch does not show; right: freed after the launch. */
static void write_after_free()
{
    int *const y = new_array<int>(10);
    int **where = new_array_of(std::vector<int *>{y});
    void *args[] = {&where};
    if (!right) {
        CHECK_CUDA(cudaFreeAsync(y, nullptr));
    }
    CHECK_CUDA(cudaLaunchKernel(touch_hidden, dim3(1), dim3(1), args, 0, nullptr));
    if (right) {
        CHECK_CUDA(cudaFreeAsync(y, nullptr));
    }
    cudaDeviceSynchronize();
}

static void use_after_free()
{
    int *const y = new_array<int>(10);
    CHECK_CUDA(right ? cudaSuccess : cudaFreeAsync(y, nullptr));
    run_touch(y, 0, nullptr);
    cudaDeviceSynchronize();
}

/* Memory that no GPU reads; right: its own. */
static void host_pointer()
{
    static int mine[10];
    run_touch(right ? new_array<int>(10) : mine, 0, nullptr);
    cudaDeviceSynchronize();
}

/* In a struct's words it is found, too; two numbers in one word are none, wherever a sanitizer has memory. */
struct hidden {
    int64_t n;
    int two[2];
    int *y;
};
static __global__ void touch_in_struct(hidden h)
{
    h.y[h.n] = 1;
}
static void host_pointer_in_struct()
{
    alignas(32) static int mine[10]; /* from its fifth on: an address that ends in 00 might be a bool */
    hidden h = {3, {-1, 3}, right ? new_array<int>(10) : mine + 4};
    void *args[] = {&h};
    cudaLaunchKernel(touch_in_struct, dim3(1), dim3(1), args, 0, nullptr);
    cudaDeviceSynchronize();
}

/* A kernel is launched from its stream's device. */
static void other_devices_stream()
{
    host_cuda_set("HOST_CUDA_DEVICES", "2");
    cudaStream_t s;
    CHECK_CUDA(cudaSetDevice(1));
    int *const y = new_array<int>(10);
    CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK_CUDA(cudaSetDevice(right ? 1 : 0));
    fprintf(stderr, "%s\n", cudaGetErrorName(run_touch(y, 0, s)));
    cudaStreamSynchronize(s);
}

static __global__ void diverge(bool together)
{
    if (together || threadIdx.x < 7) {
        __syncthreads();
    }
}

static void divergent_barrier()
{
    void *args[] = {&right};
    CHECK_CUDA(cudaLaunchKernel(diverge, dim3(2), dim3(64), args, 0, nullptr));
    fprintf(stderr, "%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}

static __global__ void shuffle_from(int *y, int from)
{
    if (threadIdx.x < 16) {
        y[threadIdx.x] = __shfl_sync(0xFFFFu, static_cast<int>(threadIdx.x), from);
    }
}

static void shuffle_out_of_mask()
{
    int *y = new_array<int>(16), from = right ? 3 : 20;
    void *args[] = {&y, &from};
    CHECK_CUDA(cudaLaunchKernel(shuffle_from, dim3(1), dim3(32), args, 0, nullptr));
    cudaDeviceSynchronize();
}

/* Two nodes of a graph on one memory; right: one after the other. */
static void unordered_graph()
{
    cudaStream_t a, b;
    cudaEvent_t e;
    int *y = new_array<int>(10);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK_CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK_CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK_CUDA(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    CHECK_CUDA(cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal));
    CHECK_CUDA(cudaEventRecord(e, a));
    CHECK_CUDA(cudaStreamWaitEvent(b, e, 0));
    CHECK_CUDA(run_touch(y, 0, a));
    if (right) {
        CHECK_CUDA(cudaEventRecord(e, a));
        CHECK_CUDA(cudaStreamWaitEvent(b, e, 0));
    }
    CHECK_CUDA(cudaMemsetAsync(y, 0, 10 * sizeof *y, b));
    CHECK_CUDA(cudaEventRecord(e, b));
    CHECK_CUDA(cudaStreamWaitEvent(a, e, 0));
    CHECK_CUDA(cudaStreamEndCapture(a, &graph));
    if (cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess) {
        cudaGraphExecDestroy(exec);
    }
    cudaGraphDestroy(graph);
    cudaEventDestroy(e);
}

static __global__ void say(cudaGraphConditionalHandle h, unsigned value)
{
    if (threadIdx.x == 0 || value > 1) {
        cudaGraphSetConditional(h, value > 0 && threadIdx.x == 0);
    }
}

static cudaError_t run_say(cudaGraphConditionalHandle h, unsigned value, cudaStream_t s)
{
    void *args[] = {&h, &value};
    return cudaLaunchKernel(say, dim3(1), dim3(2), args, 0, s);
}

/* A graph with a loop, which the first kernel says to begin; each round says to end it. */
static void run_loop(unsigned begins, bool is_said, bool ends, cudaGraphConditionalHandle *h)
{
    cudaStream_t s;
    int *const y = new_array<int>(10);
    CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    *h = capture_handle(s);
    if (is_said) {
        CHECK_CUDA(run_say(*h, begins, s));
    }
    const cudaStream_t body = capture_body(s, *h, cudaGraphCondTypeWhile);
    CHECK_CUDA(run_touch(y, 0, body));
    if (ends) {
        CHECK_CUDA(run_say(*h, 0, body));
    }
    end_body(body);
    cudaGraphLaunch(end_graph(s), s);
    cudaStreamSynchronize(s);
}

static void condition_twice()
{
    cudaGraphConditionalHandle h;
    run_loop(right ? 1 : 2, true, true, &h);
}

static void condition_not_set()
{
    cudaGraphConditionalHandle h;
    run_loop(1, right, true, &h);
}

static void endless_loop()
{
    cudaGraphConditionalHandle h;
    run_loop(1, true, right, &h);
}

static void condition_from_elsewhere()
{
    cudaGraphConditionalHandle h;
    run_loop(1, true, true, &h);
    if (!right) {
        CHECK_CUDA(run_say(h, 1, nullptr));
    }
    cudaDeviceSynchronize();
}

/* What was made before a reset; right: before it alone. */
static void reset_before(void (*use)())
{
    if (right) {
        use();
    }
    CHECK_CUDA(cudaDeviceReset());
    if (!right) {
        use();
    }
}

static cudaStream_t old_stream;
static cudaEvent_t old_event;
static cudaGraphExec_t old_graph;
static void *old_memory;

static void stream_of_a_reset()
{
    CHECK_CUDA(cudaStreamCreateWithFlags(&old_stream, cudaStreamNonBlocking));
    reset_before([] { cudaStreamSynchronize(old_stream); });
}

static void event_of_a_reset()
{
    CHECK_CUDA(cudaEventCreateWithFlags(&old_event, cudaEventDisableTiming));
    reset_before([] { cudaEventRecord(old_event, nullptr); });
}

static void graph_of_a_reset()
{
    cudaGraph_t graph;
    CHECK_CUDA(cudaStreamCreateWithFlags(&old_stream, cudaStreamNonBlocking));
    CHECK_CUDA(cudaStreamBeginCapture(old_stream, cudaStreamCaptureModeGlobal));
    CHECK_CUDA(cudaStreamEndCapture(old_stream, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&old_graph, graph, 0));
    CHECK_CUDA(cudaGraphDestroy(graph));
    reset_before([] { cudaGraphLaunch(old_graph, nullptr); });
}

static void memory_of_a_reset()
{
    CHECK_CUDA(cudaMalloc(&old_memory, 100));
    reset_before([] { cudaFree(old_memory); });
}

int main(int argc, char **argv)
{
    const struct {
        const char *name;
        void (*run)();
    } all[] = {
        {"missing_barrier", missing_barrier},
        {"block_conflict", block_conflict},
        {"grid_conflict", grid_conflict},
        {"out_of_bounds", out_of_bounds},
        {"out_of_shared", out_of_shared},
        {"read_before_event", read_before_event},
        {"read_before_wait", read_before_wait},
        {"write_after_free", write_after_free},
        {"use_after_free", use_after_free},
        {"host_pointer", host_pointer},
        {"host_pointer_in_struct", host_pointer_in_struct},
        {"other_devices_stream", other_devices_stream},
        {"divergent_barrier", divergent_barrier},
        {"shuffle_out_of_mask", shuffle_out_of_mask},
        {"unordered_graph", unordered_graph},
        {"condition_twice", condition_twice},
        {"condition_not_set", condition_not_set},
        {"condition_from_elsewhere", condition_from_elsewhere},
        {"endless_loop", endless_loop},
        {"stream_of_a_reset", stream_of_a_reset},
        {"event_of_a_reset", event_of_a_reset},
        {"graph_of_a_reset", graph_of_a_reset},
        {"memory_of_a_reset", memory_of_a_reset},
    };
    right = argc > 2 && strcmp(argv[2], "right") == 0;
    for (const auto &p : all) {
        if (argc > 1 && strcmp(argv[1], p.name) == 0) {
            p.run();
            fprintf(stderr, "came to the end\n");
            return 0;
        }
    }
    fprintf(stderr, "no such program\n");
    return 2;
}
