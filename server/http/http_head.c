/* server/http/http_head.c - what libmicrohttpd lets pass in a head and a proxy in front might read otherwise.
 *
 * Where a request's body ends must be beyond doubt: two lengths, a length beside chunks, a length that is
 * no number, or a coding that is not chunked alone, are faults, and so is a name that is no token (a space
 * before the colon hides a header from one reader and not from the other) or a control character in a value
 * or in the target. Which host is meant must be, too: one Host, in HTTP/1.1. A connection whose request has
 * a fault is answered and ends: what comes behind is nobody's request.
 *
 * Folded lines reach us joined. Threads: any; nothing is kept.
 *
 * Does not: look at headers that say nothing of framing (their readers do), read chunks (libmicrohttpd).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <strings.h>

#include "server/http/http_impl.h"

#define MAX_LENGTH_DIGITS 18 /* so that it fits, without looking further */

static const struct td_head_fault
    TOO_MANY = {431, "the request has more headers than rest_api_max_headers", true},
    NO_HOST = {400, "an HTTP/1.1 request needs one Host header", false},
    TWO_HOSTS = {400, "the request has more than one Host header", false},
    BAD_HOST = {400, "the Host header is no host with or without a port", false},
    BAD_NAME = {400, "the name of a header holds a character that is none of a token", false},
    BAD_VALUE = {400, "the value of a header holds a control character", false},
    BAD_TARGET = {400, "the target holds a space or a control character", false},
    TWO_LENGTHS = {400, "the request has more than one Content-Length header", false},
    BAD_LENGTH = {400, "Content-Length is no number of bytes", false},
    LENGTH_AND_CODING = {400, "the request has both Content-Length and Transfer-Encoding", false},
    OLD_CODING = {400, "Transfer-Encoding is none of HTTP/1.0", false},
    TWO_CODINGS = {400, "the request has more than one Transfer-Encoding header", false},
    BAD_CODING = {501, "Transfer-Encoding is not supported, but for chunked", false};

struct head {
    const struct td_head_fault *fault; /* the first */
    int n, n_hosts, n_lengths, n_codings;
};

static void blame(struct head *h, bool wrong, const struct td_head_fault *fault)
{
    h->fault = h->fault == NULL && wrong ? fault : h->fault;
}

static bool is_token(const char *p, size_t n)
{
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < n; i++) {
        const char c = p[i], low = (char)(c | 0x20);
        if (!((low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') ||
              (c != '\0' && strchr(others, c) != NULL))) {
            return false;
        }
    }
    return n > 0;
}

/* No control characters but tabs; bytes above ASCII are somebody's text. */
static bool is_value(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (((unsigned char)p[i] < ' ' && p[i] != '\t') || p[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool is_host(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)p[i] <= ' ' || strchr("/?#@,\\\"<>{}|^`", p[i]) != NULL) {
            return false;
        }
    }
    return true;
}

static bool is_length(const char *p, size_t n)
{
    return n > 0 && n <= MAX_LENGTH_DIGITS && strspn(p, "0123456789") == n;
}

static bool is_name(const char *key, size_t n, const char *name)
{
    return n == strlen(name) && strncasecmp(key, name, n) == 0;
}

static enum MHD_Result look(void *ctx, enum MHD_ValueKind kind, const char *key, size_t n_key,
                            const char *value, size_t n)
{
    struct head *h = ctx;
    (void)kind;
    value = value != NULL ? value : "";
    h->n++;
    blame(h, !is_token(key, n_key), &BAD_NAME);
    blame(h, !is_value(value, n), &BAD_VALUE);
    if (is_name(key, n_key, MHD_HTTP_HEADER_HOST)) {
        blame(h, ++h->n_hosts > 1, &TWO_HOSTS);
        blame(h, !is_host(value, n), &BAD_HOST);
    } else if (is_name(key, n_key, MHD_HTTP_HEADER_CONTENT_LENGTH)) {
        blame(h, ++h->n_lengths > 1, &TWO_LENGTHS);
        blame(h, !is_length(value, n), &BAD_LENGTH);
    } else if (is_name(key, n_key, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        blame(h, ++h->n_codings > 1, &TWO_CODINGS);
        blame(h, strcasecmp(value, "chunked") != 0, &BAD_CODING);
    }
    return MHD_YES;
}

const struct td_head_fault *td_http_head_fault(const struct exchange *e, const char *version)
{
    struct head h = {0};
    const bool is_1_0 = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;
    for (const char *c = e->x.target; *c != '\0'; c++) {
        blame(&h, (unsigned char)*c <= ' ' || *c == 0x7f, &BAD_TARGET);
    }
    (void)MHD_get_connection_values_n(e->connection, MHD_HEADER_KIND, look, &h);
    blame(&h, e->h->opts.max_headers > 0 && h.n > e->h->opts.max_headers, &TOO_MANY);
    blame(&h, h.n_hosts == 0 && !is_1_0, &NO_HOST);
    blame(&h, h.n_lengths > 0 && h.n_codings > 0, &LENGTH_AND_CODING);
    blame(&h, h.n_codings > 0 && is_1_0, &OLD_CODING);
    return h.fault;
}
