/* core/base/content_hash.h - a number for the bytes of something large, by which they are found again in
 * another process.
 *
 * Two byte strings of one length that differ have the same hash with a probability below 2^-122, whoever
 * chose them, as long as they were chosen without the key: it is drawn at random and kept to one's own. So
 * equal hashes are taken for equal bytes. (A hash without a key that is as fast has collisions that are
 * known how to make, and a model is a stranger's.)
 *
 * Any thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_CONTENT_HASH_H
#define TD_CORE_BASE_CONTENT_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TD_CONTENT_TREES = 2, TD_CONTENT_LEVELS = 6, TD_CONTENT_WORDS = 128 };

/* Random words. */
struct td_content_key {
    uint64_t word[TD_CONTENT_TREES][TD_CONTENT_LEVELS][TD_CONTENT_WORDS];
};

struct td_content_hash {
    uint64_t bytes; /* how many */
    uint64_t part[2 * TD_CONTENT_TREES];
};

/* n below 2^40. */
struct td_content_hash td_content_hash(const struct td_content_key *k, const void *bytes, size_t n);
bool td_content_hash_equal(const struct td_content_hash *a, const struct td_content_hash *b);

#endif
