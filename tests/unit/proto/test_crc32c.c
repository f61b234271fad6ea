/* tests/unit/proto/test_crc32c.c - known values, and the fast path against the table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/crc32c.h"

#include "tests/test.h"

TEST(known_values)
{
    unsigned char b[32];
    CHECK_INT(td_crc32c(0, "123456789", 9), 0xe3069283);
    memset(b, 0, sizeof b);
    CHECK_INT(td_crc32c(0, b, sizeof b), 0x8a9136aa);
    memset(b, 0xff, sizeof b);
    CHECK_INT(td_crc32c(0, b, sizeof b), 0x62a8ab43);
    CHECK_INT(td_crc32c(0, "", 0), 0);
}

TEST(all_lengths_and_offsets_agree_with_the_table)
{
    enum { N = 450000 };
    unsigned char *b = malloc(N + 8);
    for (int i = 0; i < N + 8; i++) {
        b[i] = (unsigned char)((unsigned)i * 7919 >> 3);
    }
    static const int lengths[] = {0,     1,      7,      8,      9,      255,    767,
                                  768,   769,    4095,   4096,   12287,  12288,  12289,
                                  24600, 196607, 196608, 196609, 209000, 393216, N};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        for (int offset = 0; offset < 8; offset++) {
            CHECK_INT(td_crc32c(17, b + offset, (size_t)lengths[i]),
                      td_crc32c_reference(17, b + offset, (size_t)lengths[i]));
        }
    }
    free(b);
}

TEST(chunks_give_the_crc_of_the_whole)
{
    uint32_t crc = td_crc32c(td_crc32c(0, "1234", 4), "56789", 5);
    CHECK_INT(crc, 0xe3069283);
}

TEST(parts_are_joined)
{
    enum { N = 5000 };
    static const size_t cuts[] = {0, 1, 63, 64, 2500, 4999, N};
    unsigned char b[N];
    for (int i = 0; i < N; i++) {
        b[i] = (unsigned char)(i * 7919 >> 4);
    }
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        const size_t n = cuts[i];
        CHECK_INT(td_crc32c_join(td_crc32c(0, b, n), td_crc32c(0, b + n, N - n), N - n),
                  td_crc32c_reference(0, b, N));
    }
}

TEST_MAIN(RUN(known_values) RUN(all_lengths_and_offsets_agree_with_the_table)
              RUN(chunks_give_the_crc_of_the_whole) RUN(parts_are_joined))
