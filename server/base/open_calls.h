/* server/base/open_calls.h - how many gRPC calls are open, in all and by client address, and whether one more
 * may be. Of HTTP a connection has one request at a time, so connections.h bounds those; of gRPC it has a
 * thousand, and each costs memory as soon as its head is there, before it has said anything else.
 *
 * The front end enters each call when its head has come, refuses it when that fails, and leaves once for
 * each. Addresses are those of connections.h. While fewer calls are open than half of what one
 * address may have, nobody's address is asked for: td_open_calls_ask says whether it is.
 *
 * Beyond the first few, calls are charged to the process's budget (core/base/budget.h), TD_OPEN_CALL_BYTES
 * each, some at a time.
 *
 * All functions may be called on any thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_OPEN_CALLS_H
#define TD_SERVER_BASE_OPEN_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "core/base/status.h"

/* What gRPC keeps for a call that has sent its head and nothing else: 6 KB in 1.51, 14 KB in 1.76. */
enum { TD_OPEN_CALL_BYTES = 16 << 10 };

struct td_open_calls;

/* A call that has come: what td_open_calls_leave needs of it. Zeroed, it is none. */
struct td_open_call {
    bool entered, by_address;
    bool refused;
    uint64_t hash; /* of its address */
};

struct td_open_calls_counts {
    int64_t open, max, max_per_address;
    int64_t refused_all;     /* --grpc_max_open_calls */
    int64_t refused_address; /* --grpc_max_open_calls_per_address */
    int64_t refused_memory;  /* --max_memory */
};

/* Returns new. 0: the default, what an eighth of the budget bears (so set that before), 32,768 at most, and a
 * quarter of that from one address. */
TD_MUST enum td_code td_open_calls_new(int64_t max, int64_t max_per_address, struct td_open_calls **out,
                                       struct td_err *err);
/* All calls have left. Accepts NULL. */
void td_open_calls_free(struct td_open_calls *c);

/* Whether the next call is to be entered with its client's address: many are open. */
bool td_open_calls_ask(const struct td_open_calls *c);

/* Counts a call in. peer: NULL, or who calls, when that is asked for; not counted by address are UNIX
 * sockets. RESOURCE_EXHAUSTED, with nothing counted, when there are as many as may be: the sentence names the
 * flag. */
TD_MUST enum td_code td_open_calls_enter(struct td_open_calls *c, const struct sockaddr *peer,
                                         struct td_open_call *call, struct td_err *err);
/* Counts it out when it is gone, whether it was let in or refused. */
void td_open_calls_leave(struct td_open_calls *c, struct td_open_call *call);

/* Whether so many refused calls have not left yet, each of which costs what an open one does until its client
 * has taken the answer, that connections which bring more of them are to be cut. */
bool td_open_calls_flooded(const struct td_open_calls *c);

void td_open_calls_count(const struct td_open_calls *c, struct td_open_calls_counts *out);

#endif
