/* tests/host_cuda/host_cuda_loops_test.cu - conditional nodes of graphs: loops, branches, one in another.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/capture_loop.h"
#include "tests/host_cuda/host_cuda.h"
#include "tests/host_cuda/kernel_macros.h"
#include "tests/host_cuda/run_kernels.h"

/* y += by; and whether it is below `most`, as the graph's condition */
static __global__ void count(int *y, int by, int most, cudaGraphConditionalHandle go)
{
    *y += by;
    cudaGraphSetConditional(go, *y < most);
}

static __global__ void add(int *y, int by)
{
    *y += by;
}

static void run_count(int *y, int by, int most, cudaGraphConditionalHandle go, cudaStream_t s)
{
    void *args[] = {&y, &by, &most, &go};
    CHECK_CUDA(cudaLaunchKernel(count, dim3(1), dim3(1), args, 0, s));
}

static void run_add(int *y, int by, cudaStream_t s)
{
    void *args[] = {&y, &by};
    CHECK_CUDA(cudaLaunchKernel(add, dim3(1), dim3(1), args, 0, s));
}

static cudaStream_t new_stream()
{
    cudaStream_t s;
    CHECK_CUDA(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    return s;
}

static void set(int *y, int value)
{
    CHECK_CUDA(cudaMemcpy(y, &value, sizeof value, cudaMemcpyHostToDevice));
}

TEST(a_loop_goes_round_while_its_condition_is_not_zero)
{
    int *const y = new_array<int>(1);
    const cudaStream_t s = new_stream();
    cudaGraphExec_t exec;
    CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    const cudaGraphConditionalHandle go = capture_handle(s);
    run_count(y, 0, 10, go, s);
    const cudaStream_t body = capture_body(s, go, cudaGraphCondTypeWhile);
    run_count(y, 3, 10, go, body);
    end_body(body);
    run_add(y, 100, s);
    exec = end_graph(s);
    for (const auto &c : {std::pair<int, int>{0, 112}, {9, 112}, {10, 110}, {-5, 110}}) {
        set(y, c.first);
        CHECK_CUDA(cudaGraphLaunch(exec, s));
        CHECK_CUDA(cudaStreamSynchronize(s));
        CHECK_INT(read_array(y, 1)[0], c.second);
    }
    CHECK_CUDA(cudaGraphExecDestroy(exec));
    CHECK_CUDA(cudaStreamDestroy(s));
}

TEST(a_loop_is_in_a_branch_and_a_branch_in_a_loop)
{
    int *const y = new_array<int>(1), *const z = new_array<int>(1), *const n = new_array<int>(1);
    const cudaStream_t s = new_stream();
    CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    const cudaGraphConditionalHandle rounds = capture_handle(s), odd = capture_handle(s),
                                     inner = capture_handle(s);
    run_count(y, 0, 4, rounds, s);
    const cudaStream_t body = capture_body(s, rounds, cudaGraphCondTypeWhile); /* y = 0 .. 3 */
    run_count(n, 0, 2, odd, body);
    cudaStream_t branch[2];
    capture_bodies(body, odd, cudaGraphCondTypeIf, branch, 2);
    run_count(n, 1, 100, inner, branch[0]); /* n < 2: z += 10 while n is below 100, by 49 */
    const cudaStream_t deep = capture_body(branch[0], inner, cudaGraphCondTypeWhile);
    run_add(z, 10, deep);
    run_count(n, 49, 99, inner, deep);
    end_body(deep);
    end_body(branch[0]);
    run_add(z, 1000, branch[1]);
    run_add(n, -98, branch[1]);
    end_body(branch[1]);
    run_count(y, 1, 4, rounds, body);
    end_body(body);
    const cudaGraphExec_t exec = end_graph(s);
    for (const int *const at : {y, z, n}) {
        set(const_cast<int *>(at), 0);
    }
    CHECK_CUDA(cudaGraphLaunch(exec, s));
    CHECK_CUDA(cudaStreamSynchronize(s));
    CHECK_INT(read_array(y, 1)[0], 4);
    /* n: 0 -> 99 by 1, 49, 49; then -98 -> 1; then 1 -> 100 by 1, 49, 49; then 2 */
    CHECK_INT(read_array(n, 1)[0], 2);
    CHECK_INT(read_array(z, 1)[0], 2040);
    CHECK_CUDA(cudaGraphExecDestroy(exec));
    CHECK_CUDA(cudaStreamDestroy(s));
}

/* What a body or a handle may not be. */
TEST(misuse_is_refused)
{
    const cudaStream_t s = new_stream();
    int *const y = new_array<int>(1);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    CHECK_CUDA(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    cudaGraphConditionalHandle go = capture_handle(s);
    CHECK_CUDA(cudaStreamEndCapture(s, &graph));
    CHECK_ERROR(cudaGraphInstantiate(&exec, graph, 0), cudaErrorInvalidValue); /* a handle without a node */
    struct cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeConditional;
    p.conditional = {go, cudaGraphCondTypeWhile, 2, nullptr};
    cudaGraphNode_t node;
    CHECK_ERROR(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &p), cudaErrorInvalidValue);
    p.conditional.size = 1;
    CHECK_CUDA(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &p));
    CHECK_ERROR(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &p), cudaErrorInvalidValue);
    const cudaGraph_t body = p.conditional.phGraph_out[0];
    CHECK_ERROR(cudaGraphDestroy(body), cudaErrorInvalidValue);
    CHECK_ERROR(cudaGraphInstantiate(&exec, body, 0), cudaErrorInvalidValue);
    int here = 0;
    CHECK_CUDA(cudaStreamBeginCaptureToGraph(s, body, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed));
    CHECK_ERROR(cudaMemcpyAsync(y, &here, sizeof here, cudaMemcpyHostToDevice, s),
                cudaErrorStreamCaptureUnsupported);
    CHECK_ERROR(cudaStreamEndCapture(s, &graph), cudaErrorStreamCaptureInvalidated);
    CHECK_CUDA(cudaStreamDestroy(s));
}

TEST_MAIN(RUN(a_loop_goes_round_while_its_condition_is_not_zero)
              RUN(a_loop_is_in_a_branch_and_a_branch_in_a_loop) RUN(misuse_is_refused))
