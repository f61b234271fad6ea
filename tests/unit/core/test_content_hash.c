/* tests/unit/core/test_content_hash.c - the hash is the one that its essay draws, and bytes that differ
 * anywhere have others.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/content_hash.h"

#include "tests/test.h"

enum { WORDS = TD_CONTENT_WORDS, MOST = (4 << 20) + 3000 };
typedef unsigned __int128 wide;

static struct td_content_key key;

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed ^ *seed >> 29;
}

static void draw_key(uint64_t seed)
{
    for (size_t i = 0; i < sizeof key / sizeof(uint64_t); i++) {
        ((uint64_t *)&key)[i] = next(&seed);
    }
}

static unsigned char *some_bytes(size_t n)
{
    uint64_t seed = 3;
    unsigned char *p = malloc(n + 1);
    for (size_t i = 0; i < n; i++) {
        p[i] = (unsigned char)next(&seed);
    }
    return p;
}

/* One tree, level by level over whole arrays: n bytes, which have room for zeros behind them. */
static wide tree(int t, const unsigned char *bytes, size_t n)
{
    size_t words = (n + 1023) / 1024 * WORDS;
    uint64_t *w = calloc(words + WORDS, sizeof *w);
    memcpy(w, bytes, n);
    for (int level = 0; level < TD_CONTENT_LEVELS; level++) {
        const size_t blocks = level == TD_CONTENT_LEVELS - 1 ? 1 : (words + WORDS - 1) / WORDS;
        uint64_t *up = calloc((blocks + WORDS) * 2, sizeof *up);
        for (size_t b = 0; b < blocks; b++) {
            wide sum = 0;
            for (int i = 0; i < WORDS; i += 2) {
                const uint64_t *k = key.word[t][level];
                sum += (wide)(w[b * WORDS + i] + k[i]) * (w[b * WORDS + i + 1] + k[i + 1]);
            }
            up[2 * b] = (uint64_t)sum;
            up[2 * b + 1] = (uint64_t)(sum >> 64);
        }
        free(w);
        w = calloc((2 * blocks + WORDS - 1) / WORDS * WORDS + WORDS, sizeof *w);
        memcpy(w, up, 2 * blocks * sizeof *w);
        words = 2 * blocks;
        free(up);
    }
    const wide root = (wide)w[1] << 64 | w[0];
    free(w);
    return root;
}

TEST(it_is_two_trees)
{
    const size_t sizes[] = {0, 1, 1023, 1024, 1025, 65535, 65536, 65537, 70000, 4 << 20, (4 << 20) + 1, MOST};
    unsigned char *p = some_bytes(MOST);
    draw_key(1);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        const struct td_content_hash h = td_content_hash(&key, p, sizes[i]);
        CHECK_INT(h.bytes, sizes[i]);
        for (int t = 0; t < TD_CONTENT_TREES; t++) {
            CHECK(((wide)h.part[2 * t + 1] << 64 | h.part[2 * t]) == tree(t, p, sizes[i]));
        }
    }
    free(p);
}

TEST(what_differs_anywhere_has_another_hash)
{
    enum { N = 70001 };
    unsigned char *p = some_bytes(N);
    draw_key(2);
    const struct td_content_hash h = td_content_hash(&key, p, N);
    for (int at = 0; at < N; at += 997) {
        for (int bit = 0; bit < 8; bit++) {
            p[at] ^= (unsigned char)(1 << bit);
            const struct td_content_hash other = td_content_hash(&key, p, N);
            CHECK(!td_content_hash_equal(&h, &other));
            CHECK(h.part[0] != other.part[0] && h.part[2] != other.part[2]);
            p[at] ^= (unsigned char)(1 << bit);
        }
    }
    const struct td_content_hash again = td_content_hash(&key, p, N);
    CHECK(td_content_hash_equal(&h, &again));
    free(p);
}

TEST(zeros_behind_and_another_key_tell)
{
    unsigned char zeros[2048] = {0};
    draw_key(3);
    const struct td_content_hash h = td_content_hash(&key, zeros, 1024),
                                 longer = td_content_hash(&key, zeros, 1500);
    CHECK(!td_content_hash_equal(&h, &longer));
    draw_key(4);
    const struct td_content_hash other = td_content_hash(&key, zeros, 1024);
    CHECK(!td_content_hash_equal(&h, &other));
}

TEST_MAIN(RUN(it_is_two_trees) RUN(what_differs_anywhere_has_another_hash)
              RUN(zeros_behind_and_another_key_tell))
