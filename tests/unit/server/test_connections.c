/* tests/unit/server/test_connections.c - caps on connections, in all and by address, and what is counted
 * back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/connections.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/base/listen.h"
#include "tests/test.h"

static const struct sockaddr *at(const char *text)
{
    static _Thread_local struct sockaddr_storage s;
    memset(&s, 0, sizeof s);
    if (strchr(text, ':') != NULL) {
        s.ss_family = AF_INET6;
        inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&s)->sin6_addr);
    } else if (strchr(text, '.') != NULL) {
        s.ss_family = AF_INET;
        inet_pton(AF_INET, text, &((struct sockaddr_in *)&s)->sin_addr);
    } else {
        s.ss_family = AF_UNIX;
    }
    return (const struct sockaddr *)&s;
}

static struct td_connections *made(int64_t max, int64_t per_address)
{
    struct td_connections *c = NULL;
    struct td_err err = {0};
    CHECK_OK(td_connections_new(max, per_address, &c, &err));
    return c;
}

static bool enters(struct td_connections *c, const char *who)
{
    struct td_err err = {0};
    return td_connections_enter(c, TD_CONNECTION_HTTP, at(who), &err) == TD_OK;
}

static struct td_connections_counts counts(struct td_connections *c)
{
    struct td_connections_counts n;
    td_connections_count(c, &n);
    return n;
}

TEST(an_address_has_its_share_and_no_more)
{
    struct td_connections *c = made(10, 2);
    CHECK(enters(c, "192.0.2.1") && enters(c, "192.0.2.1"));
    CHECK(!enters(c, "192.0.2.1"));
    CHECK(enters(c, "192.0.2.2"));
    td_connections_leave(c, TD_CONNECTION_HTTP, at("192.0.2.1"));
    CHECK(enters(c, "192.0.2.1"));
    CHECK_INT(counts(c).open, 3);
    CHECK_INT(counts(c).refused_address, 1);
    CHECK_INT(counts(c).refused_all, 0);
    td_connections_free(c);
}

TEST(all_together_have_theirs)
{
    struct td_connections *c = made(3, 2);
    struct td_err err = {0};
    CHECK(enters(c, "192.0.2.1") && enters(c, "192.0.2.2") && enters(c, "unix"));
    CHECK_INT(td_connections_enter(c, TD_CONNECTION_HTTP, at("192.0.2.3"), &err), TD_RESOURCE_EXHAUSTED);
    CHECK(strstr(err.msg, "3 connections") != NULL && strstr(err.msg, "--max_connections)") != NULL);
    td_connections_leave(c, TD_CONNECTION_HTTP, at("unix"));
    CHECK(enters(c, "192.0.2.3"));
    CHECK_INT(counts(c).refused_all, 1);
    td_connections_free(c);
}

TEST(a_network_of_ipv6_counts_as_one_and_mapped_addresses_as_ipv4)
{
    struct td_connections *c = made(10, 1);
    CHECK(enters(c, "2001:db8:0:1::1"));
    CHECK(!enters(c, "2001:db8:0:1:ffff::2"));
    CHECK(enters(c, "2001:db8:0:2::1"));
    CHECK(enters(c, "192.0.2.1"));
    CHECK(!enters(c, "::ffff:192.0.2.1"));
    CHECK(enters(c, "::ffff:192.0.2.2"));
    td_connections_leave(c, TD_CONNECTION_HTTP, at("::ffff:192.0.2.1"));
    CHECK(enters(c, "192.0.2.1"));
    td_connections_free(c);
}

struct ended {
    struct td_connections *c;
    int n;
};

static void sweep(void *owner)
{
    struct ended *e = owner;
    for (; e->n > 0; e->n--) {
        td_connections_leave(e->c, TD_CONNECTION_HTTP, at("192.0.2.1"));
    }
}

TEST(who_has_ended_is_looked_for_before_anybody_is_refused)
{
    struct td_connections *c = made(2, 2);
    struct ended e = {c, 1};
    CHECK(enters(c, "192.0.2.1") && enters(c, "192.0.2.1"));
    td_connections_set_sweep(c, sweep, &e);
    CHECK(enters(c, "192.0.2.2"));
    CHECK(!enters(c, "192.0.2.2"));
    CHECK_INT(counts(c).refused_all, 1);
    td_connections_set_sweep(c, NULL, NULL);
    td_connections_free(c);
}

TEST(files_keep_some_of_the_descriptors)
{
    struct rlimit before, few = {.rlim_cur = 256};
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    few.rlim_max = before.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    struct td_connections *c = made(1000, 0);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK_INT(counts(c).max, 192);
    CHECK_INT(counts(c).max_per_address, 48);
    td_connections_free(c);
}

static int connect_to(int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

TEST(a_connection_waits_until_there_are_descriptors_again)
{
    struct td_connections *c = made(10, 10);
    struct sockaddr_storage peer;
    struct td_err err = {0};
    struct rlimit before, none;
    int listener = -1, port = 0, retry_ms = 0;
    CHECK_OK(td_listen_tcp("127.0.0.1", 0, &listener, &port, &err));
    CHECK_INT(td_connections_accept(c, listener, &peer, &retry_ms), -1);
    CHECK_INT(retry_ms, 0);
    const int client = connect_to(port);
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK_INT(td_connections_accept(c, listener, &peer, &retry_ms), -1);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK(retry_ms > 0);
    CHECK_INT(counts(c).short_of_files, 1);
    const int fd = td_connections_accept(c, listener, &peer, &retry_ms);
    CHECK(fd >= 0 && retry_ms == 0);
    CHECK((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    CHECK_INT(((struct sockaddr_in *)&peer)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    close(fd);
    close(client);
    close(listener);
    td_connections_free(c);
}

#define THREADS 4
#define ROUNDS 2000

static void *come_and_go(void *connections)
{
    static const char *const who[] = {"192.0.2.1", "192.0.2.2", "2001:db8::1"};
    struct td_connections *c = connections;
    for (int i = 0; i < ROUNDS; i++) {
        if (enters(c, who[i % 3])) {
            td_connections_leave(c, TD_CONNECTION_HTTP, at(who[i % 3]));
        }
    }
    return NULL;
}

TEST(threads_count_as_one_would)
{
    struct td_connections *c = made(THREADS, THREADS);
    pthread_t t[THREADS];
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&t[i], NULL, come_and_go, c) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
    }
    CHECK_INT(counts(c).open, 0);
    CHECK_INT(counts(c).accepted, THREADS * ROUNDS);
    td_connections_free(c);
}

TEST_MAIN(RUN(an_address_has_its_share_and_no_more) RUN(all_together_have_theirs)
              RUN(a_network_of_ipv6_counts_as_one_and_mapped_addresses_as_ipv4)
                  RUN(who_has_ended_is_looked_for_before_anybody_is_refused)
                      RUN(files_keep_some_of_the_descriptors)
                          RUN(a_connection_waits_until_there_are_descriptors_again)
                              RUN(threads_count_as_one_would))
