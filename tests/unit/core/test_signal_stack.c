/* tests/unit/core/test_signal_stack.c - a handler leaves alone what lies below the stack pointer, wherever
 * that is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/signal_stack.h"
#include "tests/test.h"

static volatile uintptr_t seen; /* where the handler's variables lay */

static void handler(int number)
{
    char here = (char)number;
    seen = (uintptr_t)&here;
}

/* Sends the signal to this thread. */
static void send(void)
{
    (void)syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), SIGUSR1);
}

static void *on_its_own_stack(void *arg)
{
    char here;
    stack_t now;
    td_signal_stack_make();
    td_signal_stack_make();
    CHECK(sigaltstack(NULL, &now) == 0 && (now.ss_flags & SS_DISABLE) == 0);
    send();
    const uintptr_t from = (uintptr_t)now.ss_sp, to = from + now.ss_size;
    CHECK(seen >= from && seen < to);
    CHECK((uintptr_t)&here < from || (uintptr_t)&here >= to);
    return arg;
}

TEST(handlers_run_on_a_stack_of_their_own)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, on_its_own_stack, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

#if defined(__x86_64__)
enum { BLOCK = 64 << 10, MARK = 0x5a };
static unsigned char block[BLOCK];

/* As a kernel might: the stack pointer lies in the middle of some memory when the signal comes. */
static void *moves_its_stack(void *arg)
{
    long call = SYS_tgkill;
    td_signal_stack_make();
    memset(block, MARK, sizeof block);
    __asm__ volatile("mov %%rsp, %%rbx\n\tmov %[stack], %%rsp\n\tsyscall\n\tmov %%rbx, %%rsp"
                     : "+a"(call)
                     : [stack] "r"(block + BLOCK / 2), "D"((long)getpid()), "S"(syscall(SYS_gettid)),
                       "d"((long)SIGUSR1)
                     : "rbx", "rcx", "r11", "memory");
    CHECK(call == 0);
    for (int i = 0; i < BLOCK; i++) {
        CHECK(block[i] == MARK);
    }
    return arg;
}

TEST(memory_that_the_stack_pointer_points_into_stays_as_it_is)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, moves_its_stack, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}
#else
TEST(memory_that_the_stack_pointer_points_into_stays_as_it_is) {}
#endif

static void install(void)
{
    struct sigaction act = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigemptyset(&act.sa_mask);
    CHECK(sigaction(SIGUSR1, &act, NULL) == 0);
}

TEST_MAIN(install(); RUN(handlers_run_on_a_stack_of_their_own)
              RUN(memory_that_the_stack_pointer_points_into_stays_as_it_is))
