/* server/base/peer_address.c - sixteen bytes of an address, and a keyed hash of them.
 *
 * Does not: count (connections.c, open_calls.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/peer_address.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>

#include "server/base/clock.h"

bool td_peer_address(const struct sockaddr *peer, struct td_peer_address *out)
{
    unsigned char b[16] = {[10] = 0xff, [11] = 0xff};
    if (peer->sa_family == AF_INET) {
        memcpy(b + 12, &((const struct sockaddr_in *)peer)->sin_addr, 4);
    } else if (peer->sa_family == AF_INET6) {
        const struct in6_addr *a = &((const struct sockaddr_in6 *)peer)->sin6_addr;
        memcpy(b, a, 16);
        if (!IN6_IS_ADDR_V4MAPPED(a)) {
            memset(b + 8, 0, 8);
        }
    } else {
        return false;
    }
    memcpy(&out->hi, b, 8);
    memcpy(&out->lo, b + 8, 8);
    return true;
}

/* MurmurHash3's finalizer: each bit of what goes in changes each one of what comes out with even odds. (One
 * multiplication less would leave an IPv4 address in the upper half alone: its bytes are the upper ones of
 * lo.) */
static uint64_t mix(uint64_t h)
{
    h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdu;
    h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53u;
    return h ^ (h >> 33);
}

uint64_t td_peer_hash(const struct td_peer_address *a, uint64_t key)
{
    return mix(mix(a->lo ^ key) ^ a->hi);
}

uint64_t td_peer_key(void)
{
    uint64_t key;
    return getrandom(&key, sizeof key, GRND_NONBLOCK) == (ssize_t)sizeof key ? key : (uint64_t)td_clock_ns();
}
