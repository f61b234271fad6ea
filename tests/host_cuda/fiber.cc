/* tests/host_cuda/fiber.cc - switching stacks: a dozen instructions on x86-64, ucontext elsewhere (and with
 * HOST_CUDA_UCONTEXT, so that it can be tried here).
 *
 * The registers that a call keeps are pushed, the stack pointers exchanged, and the others' registers popped.
 * A fresh stack looks as if its fiber had called the switch from `begin`. AddressSanitizer is told of each
 * switch; ThreadSanitizer is not told here: to it each thread of a block is one, whatever stack it is on
 * (block.cc).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/fiber.h"

#include "tests/host_cuda/sanitizers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if !defined(__x86_64__) && !defined(HOST_CUDA_UCONTEXT)
#define HOST_CUDA_UCONTEXT 1
#endif
#ifdef HOST_CUDA_UCONTEXT
#include <ucontext.h>
#endif

namespace host_cuda
{
namespace
{

constexpr size_t STACK = ASAN || TSAN ? 256 << 10 : 64 << 10;

thread_local fiber *left, *entered; /* of the switch under way */

void arrived(void *fake_stack)
{
#ifdef HOST_CUDA_ASAN
    __sanitizer_finish_switch_fiber(fake_stack, &left->bottom, &left->bytes);
#else
    (void)fake_stack;
#endif
}

} // namespace

/* Where a fresh fiber begins. */
extern "C" __attribute__((visibility("hidden"), used)) void host_cuda_fiber_begin()
{
    arrived(nullptr);
    fiber *const me = entered;
    me->entry(me->arg);
    abort();
}

#ifdef HOST_CUDA_UCONTEXT

static void prepare(fiber *f)
{
    auto *const c = static_cast<ucontext_t *>(f->context);
    getcontext(c);
    c->uc_stack.ss_sp = const_cast<void *>(f->bottom);
    c->uc_stack.ss_size = f->bytes;
    makecontext(c, host_cuda_fiber_begin, 0);
}

static void exchange(fiber *from, fiber *to)
{
    if (from->context == nullptr) {
        from->context = new ucontext_t; /* of an OS thread's own stack: as long as the process */
    }
    swapcontext(static_cast<ucontext_t *>(from->context), static_cast<ucontext_t *>(to->context));
}

#else

extern "C" __attribute__((visibility("hidden"))) void host_cuda_fiber_exchange(void **from, void *to);

__asm__(".text\n"
        ".globl host_cuda_fiber_exchange\n"
        ".hidden host_cuda_fiber_exchange\n"
        ".type host_cuda_fiber_exchange, @function\n"
        "host_cuda_fiber_exchange:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size host_cuda_fiber_exchange, .-host_cuda_fiber_exchange\n");

static void prepare(fiber *f)
{
    /*  top: [0] no caller   [-1] begin, where ret goes   [-2 .. -7] six registers
     * 8 bytes off a multiple of 16, as it is after a call */
    auto *const top =
        reinterpret_cast<uintptr_t *>(f->map + getpagesize() + f->bytes - 3 * sizeof(uintptr_t));
    memset(top - 7, 0, 9 * sizeof *top);
    top[-1] = reinterpret_cast<uintptr_t>(host_cuda_fiber_begin);
    f->context = top - 7;
}

static void exchange(fiber *from, fiber *to)
{
    host_cuda_fiber_exchange(&from->context, to->context);
}

#endif

fiber *fiber_new(void (*entry)(void *), void *arg)
{
    const size_t page = static_cast<size_t>(getpagesize());
    void *const map = mmap(nullptr, page + STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED || mprotect(map, page, PROT_NONE) != 0) {
        fprintf(stderr, "host_cuda: no memory for a thread's stack\n");
        abort();
    }
    auto *const f = new fiber;
    f->map = static_cast<char *>(map);
    f->bottom = f->map + page;
    f->bytes = STACK;
    f->entry = entry;
    f->arg = arg;
#ifdef HOST_CUDA_UCONTEXT
    f->context = new ucontext_t;
#endif
    prepare(f);
    return f;
}

void fiber_restart(fiber *f)
{
    ASAN_UNPOISON_MEMORY_REGION(f->bottom, f->bytes);
    prepare(f);
}

void fiber_switch(fiber *from, fiber *to)
{
    left = from;
    entered = to;
    void *fake_stack = nullptr;
#ifdef HOST_CUDA_ASAN
    __sanitizer_start_switch_fiber(&fake_stack, to->bottom, to->bytes);
#endif
    exchange(from, to);
    arrived(fake_stack);
}

} // namespace host_cuda
