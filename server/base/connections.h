/* server/base/connections.h - how many connections there are, in all and by client address, and whether one
 * more may come. One of these serves every listener of the process, gRPC's and HTTP's.
 *
 * A front end asks with td_connections_enter for each connection that it has accepted, closes it when that
 * fails, and says td_connections_leave once for each that was let in, when its descriptor is closed.
 * Addresses are IPv4 addresses (also those mapped into IPv6) and /64 networks of IPv6, for a host has all of
 * its network's addresses; sockets of other families (UNIX) count in all only.
 *
 * All functions may be called on any thread; the lock inside is taken after any other and held for a few
 * instructions.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_CONNECTIONS_H
#define TD_SERVER_BASE_CONNECTIONS_H

#include <stdint.h>
#include <sys/socket.h>

#include "core/base/status.h"

struct td_connections;

enum td_connection_wire {
    TD_CONNECTION_HTTP,
    TD_CONNECTION_GRPC,
    TD_CONNECTION_WIRES,
};

struct td_connections_counts {
    int64_t open, max, max_per_address;
    int64_t by_wire[TD_CONNECTION_WIRES]; /* of open */
    int64_t accepted;                     /* since the start */
    int64_t refused_all;                  /* --max_connections */
    int64_t refused_address;              /* --max_connections_per_address */
    int64_t short_of_files; /* times that accept found no free descriptor, and was tried again later */
};

/* As many open files as the system lets us have: each connection is one. */
void td_connections_raise_files(void);

/* Returns new. 0: the default, 16,384 in all and a quarter of that from one address. What is asked for is cut
 * down, with a warning where a flag asked for it, to what the limit on open files leaves when some
 * descriptors are kept for files: raise that limit before. */
TD_MUST enum td_code td_connections_new(int64_t max, int64_t max_per_address, struct td_connections **out,
                                        struct td_err *err);
void td_connections_free(struct td_connections *c); /* accepts NULL */

/* Counts peer in. RESOURCE_EXHAUSTED, with nothing counted, when there are as many as may be: the sentence
 * names the flag, and a line is logged, once a second at most. */
TD_MUST enum td_code td_connections_enter(struct td_connections *c, enum td_connection_wire wire,
                                          const struct sockaddr *peer, struct td_err *err);
/* Counts out what was counted in: the same wire and address. */
void td_connections_leave(struct td_connections *c, enum td_connection_wire wire,
                          const struct sockaddr *peer);

/* For a front end that does not hear at once when a connection has ended: sweep(owner) looks, and calls
 * td_connections_leave for those that have. It is called by td_connections_enter, on its caller's thread and
 * one call at a time, before somebody is refused. NULL: no more; none is under way when this returns. */
void td_connections_set_sweep(struct td_connections *c, void (*sweep)(void *owner), void *owner);

/* Accepts one waiting connection of a non-blocking listener: a non-blocking descriptor that is closed on
 * exec, with *peer filled; not counted yet. -1 when none waits, or *retry_ms > 0 when one does and the
 * process has no descriptor or memory for it now: the caller does not poll the listener before that time is
 * over. */
int td_connections_accept(struct td_connections *c, int listener, struct sockaddr_storage *peer,
                          int *retry_ms);

void td_connections_count(struct td_connections *c, struct td_connections_counts *out);

#endif
