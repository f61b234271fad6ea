/* tests/unit/server/test_open_calls.c - caps on open calls, in all and by address, what they are charged, and
 * what is counted back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/open_calls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/base/budget.h"
#include "tests/test.h"

static struct td_open_calls *made(int64_t max, int64_t per_address)
{
    struct td_open_calls *c = NULL;
    struct td_err err = {0};
    CHECK_OK(td_open_calls_new(max, per_address, &c, &err));
    return c;
}

static struct td_open_calls_counts counts(const struct td_open_calls *c)
{
    struct td_open_calls_counts n;
    td_open_calls_count(c, &n);
    return n;
}

/* As a front end does. who NULL: through a UNIX socket. */
static enum td_code enter(struct td_open_calls *c, const char *who, struct td_open_call *call,
                          struct td_err *err)
{
    struct sockaddr_storage s = {.ss_family = AF_UNIX};
    if (who != NULL && strchr(who, ':') != NULL) {
        s.ss_family = AF_INET6;
        inet_pton(AF_INET6, who, &((struct sockaddr_in6 *)&s)->sin6_addr);
    } else if (who != NULL) {
        s.ss_family = AF_INET;
        inet_pton(AF_INET, who, &((struct sockaddr_in *)&s)->sin_addr);
    }
    return td_open_calls_enter(c, td_open_calls_ask(c) ? (const struct sockaddr *)&s : NULL, call, err);
}

/* How many of n may be open. */
static int enter_all(struct td_open_calls *c, const char *who, struct td_open_call *calls, int n)
{
    int in = 0;
    for (int i = 0; i < n; i++) {
        struct td_err err = {0};
        in += enter(c, who, &calls[in], &err) == TD_OK;
    }
    return in;
}

static void leave_all(struct td_open_calls *c, struct td_open_call *calls, int n)
{
    for (int i = 0; i < n; i++) {
        td_open_calls_leave(c, &calls[i]);
    }
}

TEST(there_are_as_many_as_may_be_and_the_flag_is_named)
{
    struct td_open_calls *c = made(10, 10);
    struct td_open_call calls[20] = {{.entered = false}}, more = {.entered = false};
    struct td_err err = {0};
    CHECK_INT(enter_all(c, "192.0.2.1", calls, 20), 10);
    CHECK_INT(enter(c, "192.0.2.2", &more, &err), TD_RESOURCE_EXHAUSTED);
    CHECK_STR(err.msg, "10 gRPC calls are open: as many as may be (--grpc_max_open_calls)");
    CHECK_INT(counts(c).refused_all, 11);
    td_open_calls_leave(c, &more); /* of what was not let in nothing is counted back */
    CHECK_INT(counts(c).open, 10);
    leave_all(c, calls, 10);
    CHECK_INT(counts(c).open, 0);
    CHECK_INT(enter_all(c, "192.0.2.2", calls, 20), 10);
    leave_all(c, calls, 10);
    td_open_calls_free(c);
}

TEST(an_address_has_its_share_and_others_go_on)
{
    struct td_open_calls *c = made(100, 20);
    struct td_open_call one[100] = {{.entered = false}}, two[100] = {{.entered = false}};
    struct td_open_call more = {.entered = false};
    struct td_err err = {0};
    CHECK_INT(enter_all(c, "192.0.2.1", one, 100), 20);
    CHECK_INT(counts(c).refused_address, 80);
    CHECK_INT(enter(c, "::ffff:192.0.2.1", &more, &err), TD_RESOURCE_EXHAUSTED);
    CHECK(strstr(err.msg, "20 (--grpc_max_open_calls_per_address)") != NULL);
    CHECK_INT(enter_all(c, "192.0.2.2", two, 100), 10); /* half of them while others have many */
    leave_all(c, one, 20);
    CHECK_INT(enter_all(c, "192.0.2.1", one, 100), 10); /* now the second one has that many */
    leave_all(c, one, 10);
    leave_all(c, two, 10);
    CHECK_INT(counts(c).open, 0);
    td_open_calls_free(c);
}

TEST(a_network_of_ipv6_is_one_address_and_a_unix_socket_is_none)
{
    struct td_open_calls *c = made(100, 2);
    struct td_open_call calls[100] = {{.entered = false}};
    int n = enter_all(c, "2001:db8::1", calls, 10);
    CHECK_INT(n, 2);
    CHECK_INT(enter_all(c, "2001:db8::2", calls + n, 10), 0);
    CHECK_INT(enter_all(c, "2001:db8:0:1::1", calls + n, 10), 1);
    n++;
    CHECK_INT(enter_all(c, NULL, calls + n, 30), 30);
    leave_all(c, calls, n + 30);
    CHECK_INT(counts(c).open, 0);
    td_open_calls_free(c);
}

/* Of a thousand addresses with one call each, hardly one shares both counters with another. */
TEST(many_addresses_do_not_meet)
{
    struct td_open_calls *c = made(4000, 2);
    struct td_open_call calls[1000] = {{.entered = false}};
    int in = 0;
    for (int i = 0; i < 1000; i++) {
        char who[32];
        (void)snprintf(who, sizeof who, "10.0.%d.%d", i / 250, i % 250 + 1);
        in += enter_all(c, who, &calls[in], 1);
    }
    CHECK(in >= 900);
    leave_all(c, calls, in);
    td_open_calls_free(c);
}

TEST(calls_are_charged_and_given_back)
{
    enum { MANY = 1000 };
    static struct td_open_call calls[MANY];
    struct td_open_calls *c = made(MANY, MANY);
    const uint64_t before = td_budget_held();
    CHECK_INT(enter_all(c, "192.0.2.1", calls, 50), 50);
    CHECK(td_budget_held() - before < TD_OPEN_CALL_BYTES); /* a few are free */
    CHECK_INT(enter_all(c, "192.0.2.1", calls + 50, MANY - 50), MANY - 50);
    CHECK(td_budget_held() - before >= (uint64_t)(MANY - 64) * TD_OPEN_CALL_BYTES);
    leave_all(c, calls, MANY);
    CHECK(td_budget_held() - before < (uint64_t)4 * 64 * TD_OPEN_CALL_BYTES);
    td_open_calls_free(c);
    CHECK(td_budget_held() <= before);
}

TEST(past_the_budget_a_call_is_refused)
{
    static struct td_open_call calls[1000];
    struct td_open_call more = {.entered = false};
    struct td_err err = {0};
    struct td_open_calls *c = made(1000, 1000);
    td_budget_limit(td_budget_held() + 200 * TD_OPEN_CALL_BYTES, "--max_memory");
    const int in = enter_all(c, "192.0.2.1", calls, 1000);
    CHECK(in >= 128 && in < 300);
    CHECK_INT(enter(c, "192.0.2.1", &more, &err), TD_RESOURCE_EXHAUSTED);
    CHECK(strstr(err.msg, "--max_memory") != NULL);
    CHECK(counts(c).refused_memory > 0);
    td_budget_limit(0, NULL);
    leave_all(c, calls, in);
    CHECK_INT(counts(c).open, 0);
    td_open_calls_free(c);
}

/* An eighth of the budget at most, when nothing else is said. */
TEST(the_default_follows_the_budget)
{
    struct td_open_calls *c = made(0, 0);
    CHECK_INT(counts(c).max, 32768);
    CHECK_INT(counts(c).max_per_address, 8192);
    td_open_calls_free(c);
    td_budget_limit((uint64_t)1 << 30, "--max_memory");
    c = made(0, 0);
    CHECK_INT(counts(c).max, 8192);
    td_open_calls_free(c);
    td_budget_limit(0, NULL);
}

TEST(refused_calls_that_do_not_leave_are_a_flood)
{
    enum { MANY = 1100 };
    static struct td_open_call calls[MANY];
    struct td_open_call first = {.entered = false};
    struct td_open_calls *c = made(1, 1);
    CHECK_INT(enter_all(c, "192.0.2.1", &first, 1), 1);
    for (int i = 0; i < MANY; i++) {
        struct td_err err = {0};
        CHECK(!td_open_calls_flooded(c) || i > 1000);
        CHECK_INT(enter(c, "192.0.2.1", &calls[i], &err), TD_RESOURCE_EXHAUSTED);
    }
    CHECK(td_open_calls_flooded(c));
    leave_all(c, calls, MANY);
    CHECK(!td_open_calls_flooded(c));
    CHECK_INT(counts(c).open, 1);
    td_open_calls_leave(c, &first);
    td_open_calls_free(c);
}

static void *come_and_go(void *open_calls)
{
    struct td_open_call calls[100] = {{.entered = false}};
    for (int i = 0; i < 200; i++) {
        const int in = enter_all(open_calls, i % 2 ? "192.0.2.1" : "192.0.2.2", calls, 100);
        leave_all(open_calls, calls, in);
    }
    return NULL;
}

TEST(threads_count_back_to_nothing)
{
    pthread_t t[4];
    struct td_open_calls *c = made(300, 100);
    for (int i = 0; i < 4; i++) {
        pthread_create(&t[i], NULL, come_and_go, c);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
    }
    CHECK_INT(counts(c).open, 0);
    struct td_open_call calls[100] = {{.entered = false}};
    CHECK_INT(enter_all(c, "192.0.2.1", calls, 100), 100);
    leave_all(c, calls, 100);
    td_open_calls_free(c);
}

TEST_MAIN(RUN(there_are_as_many_as_may_be_and_the_flag_is_named)
              RUN(an_address_has_its_share_and_others_go_on)
                  RUN(a_network_of_ipv6_is_one_address_and_a_unix_socket_is_none)
                      RUN(many_addresses_do_not_meet) RUN(calls_are_charged_and_given_back)
                          RUN(past_the_budget_a_call_is_refused) RUN(the_default_follows_the_budget)
                              RUN(refused_calls_that_do_not_leave_are_a_flood)
                                  RUN(threads_count_back_to_nothing))
