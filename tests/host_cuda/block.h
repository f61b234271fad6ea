/* tests/host_cuda/block.h - runs a grid: block by block, each block's threads as fibers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_BLOCK_H
#define TD_TESTS_HOST_CUDA_BLOCK_H

#include "tests/host_cuda/fiber.h"
#include "tests/host_cuda/settings.h"

#include <cuda_runtime.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace host_cuda
{

constexpr unsigned WARP = 32, MAX_THREADS = 1024;
constexpr size_t SHARED = 48 << 10, SHARED_OPT_IN = 227 << 10, SHARED_PROCESSOR = 228 << 10;

struct grid {
    kernel_type type;
    std::shared_ptr<const char> values;
    launch_shape shape;
    int device;
    uint64_t number; /* of the launch: what its draws depend on */
    std::atomic<uint64_t> next_block;
    std::atomic<bool> wrong;                   /* a block was reported: the rest is left out */
    const void *replayed;                      /* the graph that it is launched by; NULL: none */
    std::atomic<unsigned long long> condition; /* that it has set; 0: none */
};

enum class state { FRESH, READY, AT_BARRIER, AT_WARP, DONE };

/* One of a block's threads. */
struct cuda_thread {
    uint3 index;
    state now;
    meet kind; /* what it waits for at a barrier or for its warp */
    site where;
    warp_part part;
    int predicate;
    uint64_t result; /* of the meeting, once it is READY again */
    fiber *stack;
    void *tsan; /* what ThreadSanitizer takes it for */
};

/* One OS thread's means to run blocks. */
struct block_runner {
    grid *g;
    uint3 block;
    unsigned n, n_fresh_left;
    std::vector<cuda_thread> threads;
    std::vector<unsigned> order; /* in which threads start and go on */
    unsigned at;                 /* in order, while they start */
    cuda_thread *running;
    fiber own; /* the OS thread's stack */
    void *own_tsan;
    std::vector<fiber *> idle;
    char *dynamic;     /* SHARED_OPT_IN bytes and a red zone */
    std::string wrong; /* what the block is ended for; "": nothing */
};

void run_grid(grid *g); /* the calling thread's part and the helpers'; returns when all blocks are done */
void run_block(block_runner *r, grid *g, uint3 block);
block_runner *runner_of_thread();
cuda_thread *running_thread(const char *what); /* stops the program where no kernel runs */

/* The running thread waits until the others let it go on. */
void yield_thread(block_runner *r);
/* Ends the block; the running thread never comes back. */
void fail_thread(block_runner *r, const std::string &what);

/* Lets threads go on whose meeting is complete. False: nobody does. */
bool release_warps(block_runner *r);
bool release_barrier(block_runner *r); /* or sets r->wrong */
std::string name_thread(const cuda_thread *t);

} // namespace host_cuda

#endif
