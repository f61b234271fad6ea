/* server/base/local_only.c - the rules of local_only.h, in the order in which they are told.
 *
 * Does not: know wires (server/http/rest.c and server/grpc/grpc_access.c fill in what they see), look at
 * tokens.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/local_only.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>

#define MAX_HOST 64

static bool begins(const char *text, size_t n, const char *word)
{
    return n >= strlen(word) && strncasecmp(text, word, strlen(word)) == 0;
}

bool td_local_only_tells(const char *name, size_t n)
{
    static const char *const whole[] = {"origin", "referer", "forwarded", "via", "x-real-ip"};
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        if (n == strlen(whole[i]) && begins(name, n, whole[i])) {
            return true;
        }
    }
    return begins(name, n, "sec-fetch-") || begins(name, n, "x-forwarded-");
}

/* A port behind a colon, or nothing. */
static bool is_port(const char *text, size_t n)
{
    return n == 0 || (n > 1 && n <= 6 && text[0] == ':' && strspn(text + 1, "0123456789") >= n - 1);
}

static bool is_loopback_6(const char *text)
{
    struct in6_addr a;
    return inet_pton(AF_INET6, text, &a) == 1 &&
           (IN6_IS_ADDR_LOOPBACK(&a) || (IN6_IS_ADDR_V4MAPPED(&a) && a.s6_addr[12] == 127));
}

bool td_local_only_host(const char *host, size_t n)
{
    char name[MAX_HOST] = "";
    if (n == 0 || n >= sizeof name) {
        return false;
    }
    memcpy(name, host, n);
    if (strlen(name) != n) {
        return false;
    }
    if (name[0] == '[') {
        char *end = strchr(name, ']');
        if (end == NULL || !is_port(end + 1, strlen(end + 1))) {
            return false;
        }
        *end = '\0';
        return is_loopback_6(name + 1);
    }
    const size_t len = strcspn(name, ":");
    if (!is_port(name + len, strlen(name + len))) {
        return false;
    }
    name[len] = '\0';
    struct in_addr a;
    return strcasecmp(name, "localhost") == 0 ||
           (inet_pton(AF_INET, name, &a) == 1 && ntohl(a.s_addr) >> 24 == 127);
}

/* type is text of a header, with parameters behind it. */
static bool is_type(const char *type, const char *want)
{
    const size_t n = strcspn(type, "; \t");
    return n == strlen(want) && strncasecmp(type, want, n) == 0;
}

#define HERE "%s: management requests are answered on this host only"

enum td_code td_local_only_check(const struct td_local_only *q, const char *what, struct td_err *err)
{
    TD_FAIL_IF(!q->loopback, err, PERMISSION_DENIED, HERE " (--open_management changes that)", what);
    TD_FAIL_IF(!q->no_host && !td_local_only_host(q->host, q->n_host), err, PERMISSION_DENIED,
               HERE ", which Host '%.*s' does not name: want localhost or a loopback address, or a token of "
                    "--tokens_file",
               what, q->n_host < 100 ? (int)q->n_host : 100, q->host);
    TD_FAIL_IF(q->browser != NULL, err, PERMISSION_DENIED,
               HERE ", and to no browser or proxy, which the header %s tells of: they need a token of "
                    "--tokens_file",
               what, q->browser);
    const bool good = q->type == NULL || is_type(q->type, "application/json") ||
                      is_type(q->type, "application/octet-stream") ||
                      (q->body == TD_BODY_FILES && is_type(q->type, "multipart/form-data")) ||
                      (q->body == TD_BODY_REGION && is_type(q->type, "application/x-www-form-urlencoded"));
    TD_FAIL_IF(!good, err, PERMISSION_DENIED,
               HERE ", where the body's content-type is %s and not '%.60s', or with a token of --tokens_file",
               what, q->body == TD_BODY_FILES ? "multipart/form-data" : "application/json", q->type);
    return TD_OK;
}
