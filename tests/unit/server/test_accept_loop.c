/* tests/unit/server/test_accept_loop.c - a loop takes what its listeners have, waits out a lack of
 * descriptors, and has let go of everything when it is stopped.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/accept_loop.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "server/base/listen.h"
#include "tests/test.h"

static atomic_int n_taken, n_local, n_ticks, n_left;

static void take(void *app, int fd, const struct sockaddr_storage *peer)
{
    CHECK(app == &n_taken);
    CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    atomic_fetch_add(&n_local, td_listen_is_local((const struct sockaddr *)peer));
    close(fd);
    atomic_fetch_add(&n_taken, 1);
}

static bool each_second(void *app)
{
    CHECK(app == &n_taken);
    atomic_fetch_add(&n_ticks, 1);
    return atomic_fetch_sub(&n_left, 1) > 1;
}

static const struct td_accept_loop_opts OPTS = {.take = take, .each_second = each_second, .app = &n_taken};

static int listener(int *port)
{
    struct td_err err = {0};
    int fd;
    CHECK_OK(td_listen_tcp("127.0.0.1", 0, &fd, port, &err));
    return fd;
}

static struct td_accept_loop *started(const int *listeners, int n)
{
    struct td_accept_loop *l = NULL;
    struct td_err err = {0};
    atomic_store(&n_taken, 0);
    CHECK_OK(td_accept_loop_start(&OPTS, listeners, n, &l, &err));
    return l;
}

/* Returns a connection. */
static int dial(int port)
{
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

static bool becomes(atomic_int *n, int want)
{
    for (int i = 0; i < 5000 && atomic_load(n) != want; i++) {
        usleep(1000);
    }
    return atomic_load(n) == want;
}

TEST(connections_of_all_listeners_are_taken)
{
    int port[2];
    const int at[2] = {listener(&port[0]), listener(&port[1])};
    struct td_accept_loop *l = started(at, 2);
    for (int i = 0; i < 200; i++) {
        close(dial(port[i % 2]));
    }
    CHECK(becomes(&n_taken, 200));
    CHECK_INT(atomic_load(&n_local), 200);
    td_accept_loop_stop(l);
    close(dial(port[0])); /* the kernel takes it: the listener is still the caller's */
    usleep(20000);
    CHECK_INT(atomic_load(&n_taken), 200);
    close(at[0]);
    close(at[1]);
    td_accept_loop_stop(NULL);
}

TEST(a_second_passes_while_there_is_something_to_look_at)
{
    int port;
    const int at = listener(&port);
    struct td_accept_loop *l = started(&at, 1);
    atomic_store(&n_left, 1);
    close(dial(port));
    CHECK(becomes(&n_ticks, 1));
    td_accept_loop_stop(l);
    close(at);
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

TEST(without_descriptors_a_connection_waits_and_nothing_spins)
{
    int port;
    const int at = listener(&port);
    struct td_accept_loop *l = started(&at, 1);
    const int fd = dial(port);
    CHECK(becomes(&n_taken, 1));
    struct rlimit before, few;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    const int waiting = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* the lowest free number, */
    few = (struct rlimit){.rlim_cur = (rlim_t)waiting + 1, .rlim_max = before.rlim_max};
    CHECK(waiting > fd && setrlimit(RLIMIT_NOFILE, &few) == 0); /* so the next is one too many */
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const double from_s = cpu_s();
    CHECK(connect(waiting, (const struct sockaddr *)&to, sizeof to) == 0);
    usleep(300000);
    CHECK(cpu_s() - from_s < 0.15);
    CHECK_INT(atomic_load(&n_taken), 1);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(becomes(&n_taken, 2));
    td_accept_loop_stop(l);
    close(fd);
    close(waiting);
    close(at);
}

TEST_MAIN(RUN(connections_of_all_listeners_are_taken) RUN(a_second_passes_while_there_is_something_to_look_at)
              RUN(without_descriptors_a_connection_waits_and_nothing_spins))
