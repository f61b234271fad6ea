/* core/base/signal_stack.c - one block a thread, which a destructor of the thread gives back.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/signal_stack.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/mem.h"

enum { BYTES = 32 << 10 }; /* the registers of AVX-512 take 3 KiB, the handler little */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;

static void give_back(void *block)
{
    const stack_t none = {.ss_flags = SS_DISABLE};
    (void)sigaltstack(&none, NULL);
    td_free(block);
}

static void make_key(void)
{
    has_key = pthread_key_create(&key, give_back) == 0;
}

static void make(void)
{
    stack_t now;
    (void)pthread_once(&once, make_key);
    if (!has_key || sigaltstack(NULL, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) {
        return;
    }
    stack_t own = {.ss_sp = td_calloc(1, BYTES), .ss_size = BYTES};
    if (own.ss_sp == NULL) {
        return;
    }
    if (pthread_setspecific(key, own.ss_sp) != 0) {
        td_free(own.ss_sp);
    } else if (sigaltstack(&own, NULL) != 0) {
        (void)pthread_setspecific(key, NULL);
        td_free(own.ss_sp);
    }
}

void td_signal_stack_make(void)
{
    static _Thread_local bool asked;
    if (!asked) {
        asked = true;
        make();
    }
}
