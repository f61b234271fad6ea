/* tests/unit/core/chain_make.h - graphs as long as a file may have them, as text, and a thread that compiles
 * them with little room for calls within calls.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_UNIT_CORE_CHAIN_MAKE_H
#define TD_TESTS_UNIT_CORE_CHAIN_MAKE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "tests/unit/core/pass_make.h"

enum { CHAIN_BYTES = 1 << 20, CHAIN_STACK = 128 << 10 };

struct chain {
    char text[CHAIN_BYTES];
    int n;
};

__attribute__((format(printf, 2, 3))) static inline void chain_add(struct chain *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    c->n += vsnprintf(c->text + c->n, (size_t)(CHAIN_BYTES - c->n), format, args);
    va_end(args);
    CHECK(c->n < CHAIN_BYTES);
}

/* text is compiled with the passes of `only`, which make no node of this op. */
struct chain_compiled {
    const char *text, *only, *op;
};

static void *chain_compile(void *arg)
{
    const struct chain_compiled *c = arg;
    struct passed t;
    passed(&t, c->text, "r", c->only);
    CHECK_INT(count(&t, c->op), 0);
    passed_close(&t);
    return NULL;
}

static inline void chain_compiles(const struct chain *c, const char *only, const char *op)
{
    struct chain_compiled how = {c->text, only, op};
    pthread_attr_t small;
    pthread_t thread;
    CHECK_INT(pthread_attr_init(&small), 0);
    CHECK_INT(pthread_attr_setstacksize(&small, CHAIN_STACK), 0);
    CHECK_INT(pthread_create(&thread, &small, chain_compile, &how), 0);
    CHECK_INT(pthread_join(thread, NULL), 0);
    CHECK_INT(pthread_attr_destroy(&small), 0);
}

#endif
