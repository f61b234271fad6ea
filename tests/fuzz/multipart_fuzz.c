/* tests/fuzz/multipart_fuzz.c - any bytes as a multipart body: the first line is its Content-Type. Whole and
 * in chunks of any size it must be the same parts, or the same error after the same parts.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "server/http/multipart.h"

struct seen {
    uint64_t digest;
    size_t n_data, n_begun, n_ended;
};

static void mix(struct seen *s, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s->digest = (s->digest ^ (unsigned char)bytes[i]) * 1099511628211u;
    }
}

static enum td_code on_begin(void *ctx, const char *name, const char *filename, struct td_err *err)
{
    struct seen *s = ctx;
    (void)err;
    TD_CHECK(s->n_begun == s->n_ended);
    s->n_begun++;
    mix(s, name, strlen(name) + 1);
    mix(s, filename != NULL ? filename : "", filename != NULL ? strlen(filename) + 1 : 0);
    return TD_OK;
}

static enum td_code on_data(void *ctx, const char *bytes, size_t n, struct td_err *err)
{
    struct seen *s = ctx;
    (void)err;
    TD_CHECK(n > 0 && s->n_begun == s->n_ended + 1);
    s->n_data += n;
    mix(s, bytes, n);
    return TD_OK;
}

static enum td_code on_end(void *ctx, struct td_err *err)
{
    struct seen *s = ctx;
    (void)err;
    s->n_ended++;
    mix(s, ";", 1);
    return TD_OK;
}

static const struct td_multipart_events EVENTS = {on_begin, on_data, on_end};

static struct seen parse(const char *type, const char *body, size_t n, size_t chunk, struct td_err *err)
{
    struct td_multipart m;
    struct seen s = {0};
    *err = (struct td_err){0};
    enum td_code rc = td_multipart_open(&m, type, &EVENTS, &s, err);
    for (size_t at = 0; rc == TD_OK && at < n; at += chunk) {
        rc = td_multipart_put(&m, body + at, n - at < chunk ? n - at : chunk, err);
    }
    rc = rc ? rc : td_multipart_finish(&m, err);
    TD_CHECK(rc == err->code && (rc != TD_OK || s.n_begun == s.n_ended));
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char type[400];
    struct td_err err, again;
    const uint8_t *line = memchr(data, '\n', size);
    const size_t n = line != NULL ? (size_t)(line - data) : 0;
    if (n == 0 || n >= sizeof type) {
        return 0;
    }
    memcpy(type, data, n);
    type[n] = '\0';
    const char *body = (const char *)line + 1;
    const size_t n_body = size - n - 1;
    const struct seen whole = parse(type, body, n_body, n_body + 1, &err);
    for (size_t chunk = 1; chunk <= 3; chunk++) {
        const struct seen some = parse(type, body, n_body, chunk + (data[0] & 31) * (chunk / 3), &again);
        TD_CHECK(some.digest == whole.digest && some.n_data == whole.n_data &&
                 some.n_begun == whole.n_begun && strcmp(err.msg, again.msg) == 0);
    }
    return 0;
}
