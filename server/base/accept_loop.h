/* server/base/accept_loop.h - a front end's listeners: one thread accepts their connections and hands each
 * on.
 *
 * So both ports say for themselves what becomes of one connection too many, of descriptors that run out and
 * of the listeners at the end, whatever library speaks the protocol.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_ACCEPT_LOOP_H
#define TD_SERVER_BASE_ACCEPT_LOOP_H

#include <stdbool.h>

#include "server/base/connections.h"

#define TD_ACCEPT_LISTENERS 4 /* at most, of one loop */

struct td_accept_loop;

/* Both are called on the loop's thread, and what they take the next connection waits. */
struct td_accept_loop_opts {
    struct td_connections *connections; /* borrowed, told where descriptors run out; NULL: nobody is */
    /* A connection: fd, non-blocking and close-on-exec, is the application's. */
    void (*take)(void *app, int fd, const struct sockaddr_storage *peer);
    /* Once a second from the first connection on, until it says that there is nothing more to look at; again
     * from the next connection on. NULL: never. */
    bool (*each_second)(void *app);
    void *app;
};

/* Returns new, and accepts at once. The n listeners (non-blocking, see server/base/listen.h) are borrowed
 * until the stop, and the caller's to close after it. */
TD_MUST enum td_code td_accept_loop_start(const struct td_accept_loop_opts *opts, const int *listeners, int n,
                                          struct td_accept_loop **out, struct td_err *err);
/* Nothing is accepted or called any more when this returns. Frees; accepts NULL. */
void td_accept_loop_stop(struct td_accept_loop *l);

#endif
