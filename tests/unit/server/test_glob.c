/* tests/unit/server/test_glob.c - globs over names of variables, and the order of an epoch.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/glob.h"

#include <math.h>

#include "server/train/shuffle.h"
#include "tests/test.h"

TEST(patterns_are_fnmatchs)
{
    static const struct {
        const char *pattern, *text;
        bool takes;
    } rows[] = {
        {"*", "", true},
        {"*", "a/b", true},
        {"a*", "a/b/c", true},
        {"*kernel", "a/kernel", true},
        {"*kernel", "kernels", false},
        {"?", "a", true},
        {"?", "", false},
        {"a?c", "a/c", true},
        {"[abc]x", "bx", true},
        {"[abc]x", "dx", false},
        {"[a-c]", "b", true},
        {"[a-c]", "d", false},
        {"[!a-c]", "d", true},
        {"[!a-c]", "b", false},
        {"[]]", "]", true},
        {"[!]]", "]", false},
        {"[a", "[a", true},
        {"[", "[", true},
        {"a[", "a[", true},
        {"[!", "[!", true},
        {"[-a]", "-", true},
        {"[a-]", "-", true},
        {"A", "a", false},
        {"a*b*c", "a/b/b/x/c", true},
        {"a*b*c", "acb", false},
        {"**", "x", true},
        {"", "", true},
        {"", "a", false},
        {"layer_[0-9]/*", "layer_3/kernel", true},
        {"*[0-9]", "a1b", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (td_glob(rows[i].pattern, rows[i].text) != rows[i].takes) {
            fprintf(stderr, "'%s' and '%s'\n", rows[i].pattern, rows[i].text);
            exit(1);
        }
    }
}

TEST(a_pattern_of_many_stars_ends)
{
    char text[4001];
    memset(text, 'a', 4000);
    text[4000] = '\0';
    CHECK(!td_glob("*a*a*a*a*a*a*a*a*a*a*b", text));
}

TEST(every_size_is_permuted)
{
    static int seen[3000];
    for (uint64_t n = 1; n < 3000; n += 1 + n / 7) {
        const struct td_shuffle s = td_shuffle_make(n, 42, n);
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t at = td_shuffle_at(&s, i);
            CHECK(at < n);
            seen[at]++;
        }
        for (uint64_t i = 0; i < n; i++) {
            CHECK_INT(seen[i], 1);
        }
    }
}

/* Where each of 8 rows goes over many epochs: every place as often as every other. */
TEST(places_are_even)
{
    enum { N = 8, EPOCHS = 20000 };
    static int count[N][N];
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        const struct td_shuffle s = td_shuffle_make(N, 7, (uint64_t)epoch);
        for (int i = 0; i < N; i++) {
            count[i][td_shuffle_at(&s, (uint64_t)i)]++;
        }
    }
    for (int i = 0; i < N * N; i++) { /* standard deviation 47 */
        CHECK(fabs(count[i / N][i % N] - (double)EPOCHS / N) < 250);
    }
}

TEST_MAIN(RUN(patterns_are_fnmatchs) RUN(a_pattern_of_many_stars_ends) RUN(every_size_is_permuted)
              RUN(places_are_even))
