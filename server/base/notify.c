/* server/base/notify.c - a datagram socket of our own for each message: they are few, and no descriptor is
 * kept from requests.
 *
 * Does not: decide what is alive (server/alive.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/notify.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct sockaddr_un to;
static socklen_t to_len; /* 0: nobody listens */
static int64_t watchdog_ms;

static int64_t number_of(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtoll(text, NULL, 10) : 0;
}

void td_notify_init(void)
{
    const char *name = getenv("NOTIFY_SOCKET");
    const size_t n = name != NULL ? strlen(name) : 0;
    to_len = 0;
    watchdog_ms = 0;
    if (n > 1 && n < sizeof to.sun_path && (*name == '/' || *name == '@')) {
        to = (struct sockaddr_un){.sun_family = AF_UNIX};
        memcpy(to.sun_path, name, n);
        if (*name == '@') {
            to.sun_path[0] = '\0';
        }
        to_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
        const int64_t pid = number_of("WATCHDOG_PID");
        watchdog_ms = pid == 0 || pid == getpid() ? number_of("WATCHDOG_USEC") / 1000 : 0;
    }
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
}

int64_t td_notify_watchdog_ms(void)
{
    return watchdog_ms;
}

void td_notify(const char *format, ...)
{
    char text[1024];
    va_list args;
    if (to_len == 0) {
        return;
    }
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)sendto(fd, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1,
                     MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&to, to_len);
        (void)close(fd);
    }
}
