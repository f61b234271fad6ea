/* tests/unit/server/test_alive.c - pings of the watchdog, to a socket of this test, as a listener answers or
 * keeps silent.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/alive.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "server/base/notify.h"
#include "tests/test.h"
#include "tests/unit/temp_dir.h"

static int manager; /* the service manager's end */

static void manage(const struct temp_dir *d, const char *watchdog_us)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%.90s", temp_dir_file(d, "notify").s);
    manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    CHECK(bind(manager, (const struct sockaddr *)&at, sizeof at) == 0);
    setenv("NOTIFY_SOCKET", at.sun_path, 1);
    setenv("WATCHDOG_USEC", watchdog_us, 1);
    td_notify_init();
}

/* The next message; "" none. */
static const char *told(void)
{
    static char text[2000];
    const ssize_t n = recv(manager, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

static int listener(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(fd, (const struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 4) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&at, &n) == 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void *answer_once(void *arg)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    char request[300];
    const int fd = accept(*(int *)arg, NULL, NULL);
    CHECK(recv(fd, request, sizeof request, 0) > 0);
    CHECK(strncmp(request, "GET /healthz HTTP/1.1\r\n", 23) == 0);
    CHECK(send(fd, answer, sizeof answer - 1, 0) > 0);
    close(fd);
    return NULL;
}

TEST(a_listener_that_is_silent_is_not_alive)
{
    struct temp_dir d = temp_dir_make();
    struct td_registry *registry = NULL;
    struct td_err err = {0};
    struct td_registry_opts opts = {.poll_wait_s = 0};
    struct td_alive a = {.host = ""};
    int fd = listener(&a.port);
    pthread_t thread;
    manage(&d, "20000");
    CHECK_OK(td_registry_start(&opts, &registry, &err));
    a.registry = registry;
    td_alive_ping(&a); /* accepted by the kernel, answered by nobody */
    CHECK_STR(told(), "");
    CHECK(a.said);
    usleep(20000);
    close(fd);
    td_alive_ping(&a); /* refused */
    CHECK_STR(told(), "");
    usleep(20000);
    fd = listener(&a.port);
    CHECK(pthread_create(&thread, NULL, answer_once, &fd) == 0);
    td_alive_ping(&a);
    pthread_join(thread, NULL);
    CHECK_STR(told(), "WATCHDOG=1");
    CHECK(!a.said);
    td_alive_ping(&a); /* too early for another */
    CHECK_STR(told(), "");
    close(fd);
    close(manager);
    td_registry_stop(registry);
    temp_dir_remove(&d);
}

TEST(nothing_is_told_to_nobody)
{
    struct temp_dir d = temp_dir_make();
    manage(&d, "1000000");
    CHECK_INT(td_notify_watchdog_ms(), 1000);
    CHECK(getenv("NOTIFY_SOCKET") == NULL &&
          getenv("WATCHDOG_USEC") == NULL); /* children speak for themselves */
    td_notify("STATUS=%s", "one");
    CHECK_STR(told(), "STATUS=one");
    td_notify_init(); /* the variables are gone */
    td_notify("STATUS=two");
    CHECK_STR(told(), "");
    CHECK_INT(td_alive_period_ms(), 0);
    setenv("NOTIFY_SOCKET", "@tensord-test", 1);
    setenv("WATCHDOG_USEC", "1000000", 1);
    setenv("WATCHDOG_PID", "1", 1); /* another process */
    td_notify_init();
    CHECK_INT(td_notify_watchdog_ms(), 0);
    td_notify_init();
    close(manager);
    temp_dir_remove(&d);
}

TEST_MAIN(RUN(a_listener_that_is_silent_is_not_alive) RUN(nothing_is_told_to_nobody))
