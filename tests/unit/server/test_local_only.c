/* tests/unit/server/test_local_only.c - who may manage without a token: which hosts are this one, and what
 * tells of browsers and proxies.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/local_only.h"

#include "tests/test.h"

static bool host(const char *text)
{
    return td_local_only_host(text, strlen(text));
}

TEST(loopback_addresses_and_localhost_name_this_host)
{
    static const char *const good[] = {"localhost",   "LocalHost:8501",        "127.0.0.1",
                                       "127.0.0.1:1", "127.1.2.3:9",           "[::1]",
                                       "[::1]:65535", "[::ffff:127.0.0.1]:80", "[0:0::1]"};
    static const char *const bad[] = {"",
                                      "localhost.evil.example",
                                      "evil.example:8501",
                                      "127.0.0.1.evil.example",
                                      "127.0.0.1:",
                                      "127.0.0.1:80x",
                                      "127.1",
                                      "0.0.0.0",
                                      "10.0.0.1",
                                      "128.0.0.1",
                                      "::1",
                                      "[::1",
                                      "[::2]",
                                      "[::1]x",
                                      "[::ffff:10.0.0.1]",
                                      "localhost:8501:1",
                                      "localhost@evil.example",
                                      "2130706433",
                                      "0x7f000001",
                                      "localhostx"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        CHECK(host(good[i]));
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        CHECK(!host(bad[i]));
    }
    CHECK(!td_local_only_host("localhost\0.evil", 14));
}

TEST(headers_of_browsers_and_proxies_are_known)
{
    static const char *const told[] = {"Origin",         "REFERER",   "Sec-Fetch-Site",
                                       "sec-fetch-mode", "Forwarded", "X-Forwarded-For",
                                       "x-forwarded-x",  "Via",       "X-Real-IP"};
    static const char *const none[] = {"Host",       "Origins", "Content-Type",
                                       "X-Forwarde", "Viaduct", "User-Agent"};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        CHECK(td_local_only_tells(told[i], strlen(told[i])));
    }
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        CHECK(!td_local_only_tells(none[i], strlen(none[i])));
    }
}

static void says(const struct td_local_only *q, const char *words)
{
    struct td_err err = {0};
    CHECK_INT(td_local_only_check(q, "POST /x", &err), TD_PERMISSION_DENIED);
    CHECK(strstr(err.msg, "POST /x: management requests are answered on this host only") != NULL);
    CHECK(strstr(err.msg, words) != NULL);
}

TEST(what_is_missing_is_told)
{
    const struct td_local_only good = {
        .loopback = true, .host = "localhost", .n_host = 9, .type = "application/json; charset=utf-8"};
    struct td_local_only q = good;
    struct td_err err = {0};
    CHECK_OK(td_local_only_check(&q, "POST /x", &err));
    q.loopback = false;
    says(&q, "--open_management");
    q = good;
    q.n_host = 5;
    says(&q, "Host 'local' does not name");
    q = good;
    q.browser = "Origin";
    says(&q, "the header Origin");
    q = good;
    q.type = "text/plain";
    says(&q, "'text/plain'");
    q.type = "multipart/form-data; boundary=x";
    says(&q, "application/json");
    q.body = TD_BODY_FILES;
    CHECK_OK(td_local_only_check(&q, "POST /x", &err));
    q.body = TD_BODY_REGION;
    says(&q, "application/json");
    q.type = "application/x-www-form-urlencoded";
    CHECK_OK(td_local_only_check(&q, "POST /x", &err));
    q.type = NULL;
    CHECK_OK(td_local_only_check(&q, "POST /x", &err));
}

TEST_MAIN(RUN(loopback_addresses_and_localhost_name_this_host) RUN(headers_of_browsers_and_proxies_are_known)
              RUN(what_is_missing_is_told))
