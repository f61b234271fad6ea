/* kernels/text/strbuf.h - a growing byte string for kernels that build text, and the loop of all string ->
 * string ops.
 *
 * struct td_strbuf b = {0}; ... td_strbuf_fini(&b). Grows to b.limit bytes, or TD_STRBUF_MAX without one, and
 * answers RESOURCE_EXHAUSTED past that.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_TEXT_STRBUF_H
#define TD_KERNELS_TEXT_STRBUF_H

#include "core/graph/op.h"

#define TD_STRBUF_MAX TD_STR_MAX

struct td_strbuf {
    char *p;
    size_t n, cap;
    size_t limit; /* 0: TD_STRBUF_MAX */
};

void td_strbuf_fini(struct td_strbuf *b);
/* Room for n more bytes behind b->p + b->n. */
TD_MUST enum td_code td_strbuf_reserve(struct td_strbuf *b, size_t n, struct td_err *err);
TD_MUST enum td_code td_strbuf_put(struct td_strbuf *b, const void *bytes, size_t n, struct td_err *err);
TD_MUST enum td_code td_strbuf_putc(struct td_strbuf *b, char ch, struct td_err *err);
TD_MUST enum td_code td_strbuf_puts(struct td_strbuf *b, const char *s, struct td_err *err);
TD_MUST enum td_code td_strbuf_printf(struct td_strbuf *b, struct td_err *err, const char *fmt, ...)
    TD_PRINTF(3, 4);

/* Output 0 [shape of input 0] of strings: element i is what fn appends to an emptied out for element i of
 * input 0. */
typedef enum td_code td_strbuf_fn(const void *ctx, const char *s, size_t n, struct td_strbuf *out,
                                  struct td_err *err);
TD_MUST enum td_code td_strbuf_map(struct td_call *c, td_strbuf_fn *fn, const void *ctx, struct td_err *err);

#endif
