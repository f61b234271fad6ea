/* server/http/rest_target.c - what a request's target says: names, percent-decoded, and the query.
 *
 * Does not: match routes (server/http/rest.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "server/http/rest.h"

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Percent-decoded, in the arena; NULL without memory. A %00 stays as it is: no name
 * holds a NUL. */
const char *td_rest_decoded(const struct td_exchange *x, struct td_route_span s)
{
    char *to = td_arena_alloc(x->r.arena, s.n + 1, 1);
    if (to == NULL) {
        return NULL;
    }
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '%' && i + 2 < s.n && hex(s.p[i + 1]) >= 0 && hex(s.p[i + 2]) >= 0 &&
            hex(s.p[i + 1]) + hex(s.p[i + 2]) > 0) {
            to[n++] = (char)(hex(s.p[i + 1]) * 16 + hex(s.p[i + 2]));
            i += 2;
        } else {
            to[n++] = s.p[i];
        }
    }
    return to;
}

enum td_code td_rest_query(const struct td_exchange *x, const char *name, const char **out,
                           struct td_err *err)
{
    const char *p = strchr(x->target, '?'), *end = x->target + strcspn(x->target, "#");
    const size_t n = strlen(name);
    *out = NULL;
    while (p != NULL && p < end && (*p == '?' || *p == '&')) {
        const struct td_route_span pair = (struct td_route_span){p + 1, strcspn(p + 1, "&#")};
        p = pair.p + pair.n;
        if (pair.n >= n && memcmp(pair.p, name, n) == 0 && (pair.n == n || pair.p[n] == '=')) {
            const size_t skip = pair.n == n ? n : n + 1;
            *out = td_rest_decoded(x, (struct td_route_span){pair.p + skip, pair.n - skip});
            return *out != NULL ? TD_OK : td_no_memory(err, pair.n, "a request's query");
        }
    }
    return TD_OK;
}
