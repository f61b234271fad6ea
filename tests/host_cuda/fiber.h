/* tests/host_cuda/fiber.h - a stack of its own that an OS thread can switch to and from.
 *
 *   fiber *f = fiber_new(entry, arg);        entry never returns; it switches away for good
 *   fiber_switch(&mine, f);                  mine: a fiber{} that stands for the OS thread's own stack
 *
 * A stack has a guard page below it. Whoever leaves a fiber in the middle of its work and will not come back
 * calls fiber_restart before it is used again. Threads: a fiber belongs to the OS thread that made it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HOST_CUDA_FIBER_H
#define TD_TESTS_HOST_CUDA_FIBER_H

#include <cstddef>

namespace host_cuda
{

struct fiber {
    void *context = nullptr;      /* the saved stack pointer; with ucontext, the ucontext_t */
    char *map = nullptr;          /* the guard page, then the stack */
    const void *bottom = nullptr; /* of the stack; of an OS thread's own one once it has been left */
    size_t bytes = 0;
    void (*entry)(void *) = nullptr;
    void *arg = nullptr;
};

fiber *fiber_new(void (*entry)(void *), void *arg);
void fiber_restart(fiber *f);
void fiber_switch(fiber *from, fiber *to);

} // namespace host_cuda

#endif
