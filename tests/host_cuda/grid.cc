/* tests/host_cuda/grid.cc - a grid's blocks, on the stream's thread and, with HOST_CUDA_WORKERS above 1, on
 * helpers that live as long as the process. Whoever is free takes the next block.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/float_mode.h"
#include "tests/host_cuda/block.h"
#include "tests/host_cuda/memory.h"
#include "tests/host_cuda/sanitizers.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace host_cuda
{
namespace
{

void run_blocks(grid *g)
{
    const dim3 size = g->shape.grid;
    const uint64_t n = uint64_t{size.x} * size.y * size.z;
    const unsigned long mode = td_float_mode_enter(); /* as nvcc's -ftz=true has it, of double, too */
    block_runner *const r = runner_of_thread();
    for (uint64_t i = g->next_block++; i < n && !g->wrong; i = g->next_block++) {
        const auto y = static_cast<unsigned>(i / size.x % size.y),
                   z = static_cast<unsigned>(i / size.x / size.y);
        run_block(r, g, {static_cast<unsigned>(i % size.x), y, z});
    }
    td_float_mode_leave(mode);
}

struct part {
    grid *g;
    int *left; /* parts of this grid that have not ended */
};

struct helpers {
    std::mutex mu; /* guards the rest */
    std::condition_variable changed;
    std::deque<part> queue;
    int n = 0;
};

helpers &all_helpers()
{
    static auto *const h = new helpers; /* for ever: its threads outlive main */
    return *h;
}

[[noreturn]] void help()
{
    hush();
    open_device_memory();
    helpers &h = all_helpers();
    std::unique_lock<std::mutex> l(h.mu);
    for (;;) {
        while (h.queue.empty()) {
            h.changed.wait(l);
        }
        const part p = h.queue.front();
        h.queue.pop_front();
        l.unlock();
        {
            const loud at_work;
            tell_acquire(p.g);
            run_blocks(p.g);
            tell_release(p.left);
        }
        l.lock();
        (*p.left)--;
        h.changed.notify_all();
    }
}

void ask_for_help(grid *g, int *left)
{
    helpers &h = all_helpers();
    const quiet q;
    const std::lock_guard<std::mutex> l(h.mu);
    while (h.n < config().workers - 1) {
        std::thread(help).detach();
        h.n++;
    }
    for (int i = 1; i < config().workers; i++) {
        h.queue.push_back({g, left});
        (*left)++;
    }
    h.changed.notify_all();
}

void wait_for_help(const int *left)
{
    helpers &h = all_helpers();
    const quiet q;
    std::unique_lock<std::mutex> l(h.mu);
    while (*left > 0) {
        h.changed.wait(l);
    }
}

} // namespace

void run_grid(grid *g)
{
    int left = 0;
    if (config().workers > 1) {
        tell_release(g);
        ask_for_help(g, &left);
    }
    run_blocks(g);
    if (config().workers > 1) {
        wait_for_help(&left);
        tell_acquire(&left);
    }
}

} // namespace host_cuda
