/* server/drain.c - signals taken by waiting for them, never by a handler.
 *
 * td_drain_init blocks them before any thread is made, and all threads inherit that; so they stay pending
 * until the main thread asks with sigwait or sigtimedwait, and nothing of ours ever runs inside a handler.
 * While a shutdown lasts a thread of its own waits for a second signal, or for 19 seconds, and ends the
 * process with _exit: no lock, however it is held, can keep it from that.
 *
 * Does not: stop anything itself (server/main.c closes listeners, then workers), save state.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/drain.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"

#define BOUND_S 19

static sigset_t stop_signals(bool reload)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (reload) {
        sigaddset(&set, SIGHUP);
    }
    return set;
}

void td_drain_init(void)
{
    const sigset_t set = stop_signals(true);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* write answers EFBIG instead */
}

static enum td_wake meaning(int signal_number)
{
    return signal_number == SIGHUP ? TD_WAKE_RELOAD : TD_WAKE_STOP;
}

enum td_wake td_drain_wait(int ms)
{
    const sigset_t set = stop_signals(true);
    const struct timespec wait = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    for (;;) {
        int got = 0;
        if (ms < 0 ? sigwait(&set, &got) == 0 : (got = sigtimedwait(&set, NULL, &wait)) > 0) {
            return meaning(got);
        }
        if (ms >= 0 && errno == EAGAIN) {
            return TD_WAKE_TIME;
        }
    }
}

static void *bound_main(void *arg)
{
    const sigset_t set = stop_signals(false);
    const struct timespec wait = {.tv_sec = BOUND_S};
    (void)arg;
    int got = -1;
    do {
        got = sigtimedwait(&set, NULL, &wait);
    } while (got < 0 && errno == EINTR);
    td_log(TD_LOG_ERROR, NULL,
           got > 0 ? "stopped by a second signal before requests had ended"
                   : "stopped: requests did not end in %d s",
           BOUND_S);
    _exit(1);
}

void td_drain_bound(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, bound_main, NULL) == 0) {
        pthread_detach(thread);
    }
}
