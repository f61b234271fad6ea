/* core/base/hash.h - hashing of byte strings for tables inside the engine (not for anything a model can see).
 *
 * FNV-1a from a random start of the process's own, with a final mix: fast on short names, and a file cannot
 * choose names that collide. Tables are at most half full.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_HASH_H
#define TD_CORE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

extern uint64_t td_hash_start; /* drawn when the program starts, and only read from then on */

static inline uint64_t td_hash_more(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ p[i]) * 0x100000001b3u;
    }
    return h;
}

static inline uint64_t td_hash_mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

static inline uint64_t td_hash_bytes(const void *bytes, size_t n)
{
    return td_hash_mix(td_hash_more(td_hash_start, bytes, n));
}

#endif
