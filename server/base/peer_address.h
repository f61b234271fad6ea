/* server/base/peer_address.h - by what a client's address is counted: an IPv4 address, also one that is
 * mapped into IPv6, or a /64 network of IPv6, for a host has all of its network's addresses.
 *
 * Threads: any.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_PEER_ADDRESS_H
#define TD_SERVER_BASE_PEER_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct td_peer_address {
    uint64_t hi, lo;
};

/* False for families that are not counted by address, UNIX sockets above all. */
bool td_peer_address(const struct sockaddr *peer, struct td_peer_address *out);
/* The lower and the upper half of it are as good as two hashes. key: random bytes, so that nobody can choose
 * addresses whose hashes meet. */
uint64_t td_peer_hash(const struct td_peer_address *a, uint64_t key);
/* Such bytes. */
uint64_t td_peer_key(void);

#endif
