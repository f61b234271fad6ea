/* kernels/text/strbuf.c - a byte string that doubles its block as it grows, up to a limit.
 *
 * Every writer goes through td_strbuf_reserve, which checks the limit before it adds. printf-like text is
 * measured first, then written in place. td_strbuf_map runs a function over the elements of a string tensor
 * with one buffer for all of them, so it grows to the longest and is freed once.
 *
 * Does not: keep a NUL behind the bytes, share them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/text/strbuf.h"

#include "core/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void td_strbuf_fini(struct td_strbuf *b)
{
    td_free(b->p);
    *b = (struct td_strbuf){0};
}

enum td_code td_strbuf_reserve(struct td_strbuf *b, size_t n, struct td_err *err)
{
    const size_t limit = b->limit > 0 ? b->limit : TD_STRBUF_MAX;
    TD_FAIL_IF(n > limit || b->n > limit - n, err, RESOURCE_EXHAUSTED,
               "building a string: %zu bytes and %zu more, want at most %zu", b->n, n, limit);
    if (b->n + n <= b->cap) {
        return TD_OK;
    }
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap < b->n + n) {
        cap *= 2;
    }
    char *p = td_realloc(b->p, cap, 1);
    if (!p) {
        return td_no_memory(err, cap, "a string being built");
    }
    b->p = p;
    b->cap = cap;
    return TD_OK;
}

enum td_code td_strbuf_put(struct td_strbuf *b, const void *bytes, size_t n, struct td_err *err)
{
    if (n == 0) {
        return TD_OK;
    }
    TD_TRY(td_strbuf_reserve(b, n, err));
    memcpy(b->p + b->n, bytes, n);
    b->n += n;
    return TD_OK;
}

enum td_code td_strbuf_putc(struct td_strbuf *b, char ch, struct td_err *err)
{
    return td_strbuf_put(b, &ch, 1, err);
}

enum td_code td_strbuf_puts(struct td_strbuf *b, const char *s, struct td_err *err)
{
    return td_strbuf_put(b, s, strlen(s), err);
}

enum td_code td_strbuf_printf(struct td_strbuf *b, struct td_err *err, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    enum td_code rc = n < 0
                          ? td_fail(err, TD_RESOURCE_EXHAUSTED, "formatting text: longer than INT_MAX bytes")
                          : td_strbuf_reserve(b, (size_t)n + 1, err);
    if (!rc) {
        vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
        b->n += (size_t)n;
    }
    va_end(again);
    return rc;
}

enum td_code td_strbuf_map(struct td_call *c, td_strbuf_fn *fn, const void *ctx, struct td_err *err)
{
    const struct td_tensor *x = c->in[0];
    struct td_tensor *y;
    TD_TRY(td_out(c, 0, NULL, &y, err));
    struct td_strbuf b = {0};
    enum td_code rc = TD_OK;
    int64_t n = td_tensor_count(x);
    for (int64_t i = 0; i < n && !rc; i++) {
        size_t len;
        const char *s = td_tensor_str(x, i, &len);
        b.n = 0;
        rc = fn(ctx, s, len, &b, err);
        if (!rc) {
            rc = td_tensor_set_str(y, i, b.n ? b.p : "", b.n, err);
        }
    }
    td_strbuf_fini(&b);
    return rc;
}
