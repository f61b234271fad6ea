/* server/train/shuffle.c - a Feistel network over the bits of a row's number, walked until it lands below n.
 *
 *   rounds 0, 2, ..   left  ^= f(right, key)        f: splitmix64's mixing of 64 bits
 *   rounds 1, 3, ..   right ^= f(left, key)
 *
 * Each round can be undone, so the whole is a permutation of [0, 2^bits); following it from a place below n
 * until the next number below n is one of [0, n) (cycle walking, Black and Rogaway 2002). 2^bits < 2n: fewer
 * than two steps on average. The keys come from seed and epoch by splitmix64 (Steele, Lea, Flood 2014).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/shuffle.h"

enum { ROUNDS = 8 };

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

struct td_shuffle td_shuffle_make(uint64_t n, uint64_t seed, uint64_t epoch)
{
    struct td_shuffle s = {.n = n};
    unsigned bits = 0;
    while (bits < 63 && (UINT64_C(1) << bits) < n) {
        bits++;
    }
    s.left = bits / 2;
    s.right = bits - s.left;
    uint64_t state = mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^ mix(epoch + UINT64_C(0xd1b54a32d192ed03));
    for (int i = 0; i < ROUNDS; i++) {
        state += UINT64_C(0x9e3779b97f4a7c15);
        s.key[i] = mix(state);
    }
    return s;
}

uint64_t td_shuffle_at(const struct td_shuffle *s, uint64_t place)
{
    const uint64_t left_mask = (UINT64_C(1) << s->left) - 1, right_mask = (UINT64_C(1) << s->right) - 1;
    do {
        uint64_t right = place & right_mask, left = place >> s->right;
        for (int i = 0; i < ROUNDS; i += 2) {
            left ^= mix(right ^ s->key[i]) & left_mask;
            right ^= mix(left ^ s->key[i + 1]) & right_mask;
        }
        place = left << s->right | right;
    } while (place >= s->n);
    return place;
}
