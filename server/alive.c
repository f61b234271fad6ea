/* server/alive.c - the three questions, one after the other; the first that is answered badly is the reason.
 *
 * /healthz is asked as any client would: connect, one request, the beginning of an answer, each within what
 * is left of two seconds. The workers' batches that have ended are counted by them; a watchdog looks often
 * enough to see that number stand still.
 *
 * Does not: look at models, which may be missing for good reasons (/readyz tells), or at the gRPC listener,
 * whose threads wait inside a library.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/alive.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "server/base/clock.h"
#include "server/base/notify.h"

#define PATIENCE_NS INT64_C(2000000000)

int64_t td_alive_period_ms(void)
{
    const int64_t ms = td_notify_watchdog_ms();
    return ms > 0 && ms < 20 ? 10 : ms / 2;
}

static bool wait_for(int fd, short what, int64_t until_ns)
{
    struct pollfd p = {.fd = fd, .events = what};
    const int64_t left_ns = until_ns - td_clock_ns();
    return left_ns > 0 && poll(&p, 1, (int)(left_ns / 1000000) + 1) == 1;
}

/* One request over the connection fd, which may still be under way. */
static bool ask(int fd, int64_t until_ns)
{
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    static const char wanted[] = "HTTP/1.1 200";
    char got[sizeof wanted - 1];
    size_t n = 0;
    if (!wait_for(fd, POLLOUT, until_ns) ||
        send(fd, request, sizeof request - 1, MSG_NOSIGNAL) != (ssize_t)sizeof request - 1) {
        return false;
    }
    while (n < sizeof got && wait_for(fd, POLLIN, until_ns)) {
        const ssize_t m = recv(fd, got + n, sizeof got - n, MSG_DONTWAIT);
        if (m <= 0) {
            return false;
        }
        n += (size_t)m;
    }
    return n == sizeof got && memcmp(got, wanted, n) == 0;
}

static bool answers(const struct td_alive *a)
{
    const int64_t until_ns = td_clock_ns() + PATIENCE_NS;
    const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *at = NULL;
    char port[16];
    const bool any = *a->host == '\0' || strcmp(a->host, "0.0.0.0") == 0 || strcmp(a->host, "::") == 0;
    const bool six = strcmp(a->host, "::") == 0;
    (void)snprintf(port, sizeof port, "%d", a->port);
    if (getaddrinfo(six ? "::1" : any ? "127.0.0.1" : a->host, port, &hints, &at) != 0) {
        return true; /* a host name: which of its addresses is the listener's is not known here */
    }
    const int fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool ok = fd < 0; /* without a descriptor nothing is known */
    if (fd >= 0) {
        (void)connect(fd, at->ai_addr, at->ai_addrlen);
        ok = ask(fd, until_ns);
        (void)close(fd);
    }
    freeaddrinfo(at);
    return ok;
}

static bool works(struct td_alive *a, int64_t now_ns)
{
    struct td_workers_counts c;
    td_workers_count(a->workers, &c);
    if (c.batches != a->batches || c.waiting == 0 || a->changed_ns == 0) {
        a->batches = c.batches;
        a->changed_ns = now_ns;
    }
    return now_ns - a->changed_ns < TD_ALIVE_STUCK_S * INT64_C(1000000000);
}

void td_alive_ping(struct td_alive *a)
{
    const int64_t now_ns = td_clock_ns(), period_ms = td_alive_period_ms();
    if (period_ms == 0 || (a->told_ns != 0 && now_ns - a->told_ns < period_ms * 1000000 * 9 / 10)) {
        return;
    }
    char *missing = NULL;
    (void)td_registry_ready(a->registry, &missing); /* whether it can be asked, not what it says */
    td_free(missing);
    a->told_ns = now_ns;
    const char *why = a->workers != NULL && !works(a, now_ns) ? "requests wait and no batch has ended"
                      : a->port != 0 && !answers(a)           ? "/healthz is not answered in two seconds"
                                                              : NULL;
    if (why == NULL) {
        td_notify("WATCHDOG=1");
    } else if (!a->said) {
        td_log(TD_LOG_ERROR, NULL, "not alive: %s; the watchdog is not told otherwise", why);
    }
    a->said = why != NULL;
}

enum td_wake td_alive_wait(struct td_alive *a, int ms)
{
    const int slice = (int)td_alive_period_ms();
    for (;;) {
        td_alive_ping(a);
        const int step = slice > 0 && (ms < 0 || ms > slice) ? slice : ms;
        const enum td_wake why = td_drain_wait(step);
        if (why != TD_WAKE_TIME || step == ms) {
            return why;
        }
        ms -= ms < 0 ? 0 : step;
    }
}
