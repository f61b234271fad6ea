/* server/base/accept_loop.c - polls listeners, accepts what they have, hands it on.
 *
 * A listener has AT_ONCE connections accepted before the next one's turn. Where descriptors or memory run out
 * it is not polled for a while, and the kernel queues who connects: nothing spins, and what is handed on
 * already is not disturbed.
 *
 * Threads: the loop's own does everything; stop may be called on any other one.
 *
 * Does not: count connections (server/base/connections.c: who takes them asks), listen, speak a protocol.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/accept_loop.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/mem.h"
#include "server/base/clock.h"

#define SECOND_NS ((int64_t)1000000000)
#define AT_ONCE 64

struct td_accept_loop {
    struct td_accept_loop_opts opts;
    int wake; /* an eventfd: stop */
    pthread_t thread;
    struct {
        int fd;
        int64_t not_before_ns; /* it is not polled until then */
    } listeners[TD_ACCEPT_LISTENERS];
    int n;
    bool ticks; /* each_second has something to look at */
    int64_t tick_ns;
};

/* Returns how long this listener shall not be polled, in ms. */
static int accept_some(struct td_accept_loop *l, int listener)
{
    struct sockaddr_storage peer;
    int retry_ms = 0;
    for (int i = 0; i < AT_ONCE; i++) {
        const int fd = td_connections_accept(l->opts.connections, listener, &peer, &retry_ms);
        if (fd < 0) {
            break;
        }
        l->opts.take(l->opts.app, fd, &peer);
        l->ticks = l->opts.each_second != NULL;
    }
    return retry_ms;
}

/* What to poll for: the listeners that are due. Returns for how many ms, rounded up; -1: until one of them
 * has something. */
static int arm(const struct td_accept_loop *l, struct pollfd *polls)
{
    const int64_t now_ns = td_clock_ns();
    int64_t until_ns = l->ticks ? l->tick_ns : INT64_MAX;
    polls[l->n] = (struct pollfd){.fd = l->wake, .events = POLLIN};
    for (int i = 0; i < l->n; i++) {
        const int64_t not_before_ns = l->listeners[i].not_before_ns;
        const bool due = not_before_ns <= now_ns;
        polls[i] = (struct pollfd){.fd = due ? l->listeners[i].fd : -1, .events = POLLIN};
        until_ns = !due && not_before_ns < until_ns ? not_before_ns : until_ns;
    }
    return until_ns == INT64_MAX ? -1 : until_ns <= now_ns ? 0 : (int)((until_ns - now_ns) / 1000000) + 1;
}

static void *loop_main(void *arg)
{
    struct td_accept_loop *l = arg;
    struct pollfd polls[TD_ACCEPT_LISTENERS + 1];
    for (;;) {
        const int wait_ms = arm(l, polls);
        (void)poll(polls, (nfds_t)l->n + 1, wait_ms);
        if (polls[l->n].revents != 0) {
            return NULL;
        }
        for (int i = 0; i < l->n; i++) {
            if (polls[i].fd >= 0 && polls[i].revents != 0) {
                const int retry_ms = accept_some(l, l->listeners[i].fd);
                l->listeners[i].not_before_ns = td_clock_ns() + (int64_t)retry_ms * 1000000;
            }
        }
        if (l->ticks && td_clock_ns() >= l->tick_ns) {
            l->ticks = l->opts.each_second(l->opts.app);
            l->tick_ns = td_clock_ns() + SECOND_NS;
        }
    }
}

enum td_code td_accept_loop_start(const struct td_accept_loop_opts *opts, const int *listeners, int n,
                                  struct td_accept_loop **out, struct td_err *err)
{
    assert(n <= TD_ACCEPT_LISTENERS);
    struct td_accept_loop *l = td_calloc(1, sizeof *l);
    if (l == NULL) {
        return td_no_memory(err, sizeof *l, "a listener");
    }
    l->opts = *opts;
    for (; l->n < n; l->n++) {
        l->listeners[l->n].fd = listeners[l->n];
    }
    l->tick_ns = td_clock_ns() + SECOND_NS;
    l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int why = l->wake < 0 ? errno : 0;
    if (why == 0) {
        why = pthread_create(&l->thread, NULL, loop_main, l);
    }
    if (why != 0) {
        if (l->wake >= 0) {
            close(l->wake);
        }
        td_free(l);
        return td_fail(err, TD_RESOURCE_EXHAUSTED, "starting to accept connections: %s", strerror(why));
    }
    *out = l;
    return TD_OK;
}

void td_accept_loop_stop(struct td_accept_loop *l)
{
    if (l == NULL) {
        return;
    }
    (void)eventfd_write(l->wake, 1);
    pthread_join(l->thread, NULL);
    close(l->wake);
    td_free(l);
}
