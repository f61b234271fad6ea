/* tests/host_cuda/block.cc - a block's threads on fibers.
 *
 * Threads start one after the other on one stack as long as nobody waits: a block whose threads never meet
 * costs two switches. Who waits keeps the stack, and the next thread starts on another one. When all have
 * started, whoever may go on is resumed, pass after pass: warps first, then the barrier.
 *
 * To ThreadSanitizer each thread is a fiber of its own, and a switch orders nothing; then threads share no
 * stack either, for what one left there is another's. A block begins after what its OS thread did before, and
 * that goes on after the block.
 *
 * Invariant: r->running is the thread whose stack is in use, NULL on the OS thread's own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/block.h"

#include "tests/host_cuda/reports.h"
#include "tests/host_cuda/sanitizers.h"
#include "tests/host_cuda/symbols.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

__thread uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace host_cuda
{
namespace
{

constexpr size_t RED_ZONE = 256;

thread_local block_runner *mine;

/* Runners that no OS thread has. A stack costs a mapping, and with ThreadSanitizer a fiber some hundred KB:
 * streams, whose threads end with them, hand theirs on. For ever, as threads are that outlive main. */
struct idle_runners {
    std::mutex mu;
    std::vector<block_runner *> all;
};

idle_runners &runners()
{
    static auto *const r = new idle_runners;
    return *r;
}

/* What waits on them for the next block knows where the last OS thread had its thread_local variables. */
void begin_stacks_anew(block_runner *r)
{
    for (auto *const f : r->idle) {
        fiber_restart(f);
    }
    for (auto &t : r->threads) {
        if (t.stack != nullptr) {
            fiber_restart(t.stack);
        }
    }
}

block_runner *idle_runner()
{
    const quiet q;
    idle_runners &idle = runners();
    const std::lock_guard<std::mutex> l(idle.mu);
    block_runner *const r = idle.all.empty() ? nullptr : idle.all.back();
    if (r != nullptr) {
        idle.all.pop_back();
    }
    return r;
}

block_runner *take_runner()
{
    block_runner *r = idle_runner();
    if (r != nullptr) {
        tell_acquire(r); /* what the last OS thread did with its shared memory */
        begin_stacks_anew(r);
        return r;
    }
    const quiet q;
    r = new block_runner();
    r->dynamic = static_cast<char *>(aligned_alloc(128, SHARED_OPT_IN + RED_ZONE));
    memset(r->dynamic, 0, SHARED_OPT_IN + RED_ZONE);
    return r;
}

/* An OS thread's, until that ends. */
struct runner_owner {
    block_runner *const r = take_runner();
    ~runner_owner()
    {
        tell_release(r);
        const quiet q;
        idle_runners &idle = runners();
        const std::lock_guard<std::mutex> l(idle.mu);
        idle.all.push_back(r);
        mine = nullptr;
    }
};

void to_tsan(void *fiber)
{
#ifdef HOST_CUDA_TSAN
    __tsan_switch_to_fiber(fiber, __tsan_switch_to_fiber_no_sync);
#else
    (void)fiber;
#endif
}

/* From a thread to the OS thread's own stack. */
void leave(block_runner *r)
{
    fiber *const from = r->running->stack;
    to_tsan(r->own_tsan);
    fiber_switch(from, &r->own);
}

void run_thread(block_runner *r)
{
    cuda_thread *const t = r->running;
    threadIdx = t->index;
    tell_acquire(&r->block);
    r->g->type.call(r->g->type.kernel, r->g->values.get());
    tell_release(&r->running);
    t->now = state::DONE;
}

/* Whether another thread may start on the stack in use. */
bool next_fresh(block_runner *r)
{
    if (TSAN || r->at == r->n) {
        return false;
    }
    fiber *const stack = r->running->stack;
    r->running->stack = nullptr;
    r->running = &r->threads[r->order[r->at++]];
    r->running->stack = stack;
    return true;
}

void thread_main(void *arg)
{
    auto *const r = static_cast<block_runner *>(arg);
    for (;;) {
        do {
            run_thread(r);
        } while (next_fresh(r));
        leave(r);
    }
}

void give_stack(block_runner *r, cuda_thread *t)
{
    if (t->stack == nullptr && !r->idle.empty()) {
        t->stack = r->idle.back();
        r->idle.pop_back();
    } else if (t->stack == nullptr) {
        t->stack = fiber_new(thread_main, r);
    }
#ifdef HOST_CUDA_TSAN
    if (t->tsan == nullptr) {
        t->tsan = __tsan_create_fiber(0);
    }
#endif
}

/* Runs t until it waits or ends (and others that start on its stack). */
void resume(block_runner *r, cuda_thread *t)
{
    give_stack(r, t);
    r->running = t;
    threadIdx = t->index;
    to_tsan(t->tsan);
    fiber_switch(&r->own, t->stack);
    cuda_thread *const last = r->running;
    r->running = nullptr;
    if (last->now == state::DONE && !TSAN) {
        r->idle.push_back(last->stack);
        last->stack = nullptr;
    }
}

void draw_order(block_runner *r, draws *d)
{
    if (!config().debug) {
        return;
    }
    const uint64_t way = d->below(4);
    for (unsigned i = 0; i < r->n; i++) {
        r->order[i] = way == 0 ? r->n - 1 - i : i;
    }
    for (unsigned i = r->n; way > 1 && i > 1; i--) {
        std::swap(r->order[i - 1], r->order[d->below(i)]);
    }
}

void begin_block(block_runner *r)
{
    const dim3 b = r->g->shape.block;
    r->n = b.x * b.y * b.z;
    if (r->threads.size() < r->n) {
        r->threads.resize(r->n);
    }
    r->order.resize(r->n);
    for (unsigned i = 0; i < r->n; i++) {
        r->threads[i].index = {i % b.x, i / b.x % b.y, i / (b.x * b.y)};
        r->threads[i].now = state::FRESH;
        r->order[i] = i;
    }
    r->at = 0;
    blockIdx = r->block;
    blockDim = b;
    gridDim = r->g->shape.grid;
    char *const end = r->dynamic + r->g->shape.shared;
    ASAN_UNPOISON_MEMORY_REGION(r->dynamic, SHARED_OPT_IN + RED_ZONE);
    if (config().debug) {
        fill_static_shared(r->g->type.kernel);
        memset(r->dynamic, 0xFF, r->g->shape.shared);
    }
    if (!ASAN) {
        memset(end, 0xA5, RED_ZONE);
    }
    ASAN_POISON_MEMORY_REGION(end, static_cast<size_t>(r->dynamic + SHARED_OPT_IN + RED_ZONE - end));
}

void check_red_zone(block_runner *r)
{
    const char *const end = r->dynamic + r->g->shape.shared;
    for (size_t i = 0; !ASAN && r->wrong.empty() && i < RED_ZONE; i++) {
        if (static_cast<unsigned char>(end[i]) != 0xA5) {
            r->wrong =
                text("wrote %zu bytes behind its %zu bytes of dynamic shared memory", i, r->g->shape.shared);
        }
    }
}

void run_threads(block_runner *r)
{
    draws d(r->g->number, r->block.x + (uint64_t{r->block.y} << 24) + (uint64_t{r->block.z} << 44));
    draw_order(r, &d);
    while (r->at < r->n && r->wrong.empty()) {
        resume(r, &r->threads[r->order[r->at++]]);
    }
    while (r->wrong.empty()) {
        bool some = release_warps(r);
        if (!some && r->wrong.empty()) {
            some = release_barrier(r);
        }
        if (!some) {
            return;
        }
        draw_order(r, &d);
        for (unsigned i = 0; i < r->n && r->wrong.empty(); i++) {
            cuda_thread *const t = &r->threads[r->order[i]];
            if (t->now == state::READY) {
                resume(r, t);
            }
        }
    }
}

/* The stacks of threads that will not come back are made fresh. */
void abandon(block_runner *r)
{
    for (unsigned i = 0; i < r->n; i++) {
        cuda_thread *const t = &r->threads[i];
        if (t->stack != nullptr && t->now != state::DONE) {
            fiber_restart(t->stack);
#ifdef HOST_CUDA_TSAN
            if (t->tsan != nullptr) {
                __tsan_destroy_fiber(t->tsan);
            }
            t->tsan = nullptr;
#else
            r->idle.push_back(t->stack);
            t->stack = nullptr;
#endif
        }
    }
}

} // namespace

block_runner *runner_of_thread()
{
    if (mine == nullptr) {
        thread_local runner_owner owner;
        mine = owner.r;
#ifdef HOST_CUDA_TSAN
        mine->own_tsan = __tsan_get_current_fiber();
#endif
    }
    return mine;
}

cuda_thread *running_thread(const char *what)
{
    if (mine == nullptr || mine->running == nullptr) {
        fprintf(stderr, "host_cuda: %s is called where no kernel runs\n", what);
        abort();
    }
    return mine->running;
}

void yield_thread(block_runner *r)
{
    leave(r);
}

void fail_thread(block_runner *r, const std::string &what)
{
    r->wrong = what;
    leave(r);
    abort();
}

void run_block(block_runner *r, grid *g, uint3 block)
{
    r->g = g;
    r->block = block;
    r->wrong.clear();
    begin_block(r);
    tell_release(&r->block);
    run_threads(r);
    tell_acquire(&r->running);
    check_red_zone(r);
    if (!r->wrong.empty()) {
        abandon(r);
        g->wrong = true;
        report(g->device, cudaErrorLaunchFailure,
               text("kernel %s, block (%u,%u,%u): %s", kernel_name(g->type.kernel).c_str(), block.x, block.y,
                    block.z, r->wrong.c_str()));
    }
}

void *dynamic_shared()
{
    running_thread("TD_DYNAMIC_SHARED");
    return mine->dynamic;
}

} // namespace host_cuda
