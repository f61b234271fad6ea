/* server/train/shuffle.h - the order of an epoch: a permutation of [0, n) that seed and epoch fix, one place
 * at a time and without a table, so that a resumed job begins anywhere in it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_SHUFFLE_H
#define TD_SERVER_TRAIN_SHUFFLE_H

#include <stdint.h>

struct td_shuffle {
    uint64_t n, key[8];
    unsigned left, right; /* bits of the two halves of a number below the next power of two */
};

struct td_shuffle td_shuffle_make(uint64_t n, uint64_t seed, uint64_t epoch);
/* The row at a place; place < n. */
uint64_t td_shuffle_at(const struct td_shuffle *s, uint64_t place);

#endif
