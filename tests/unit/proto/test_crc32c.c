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
    enum { N = 40000 };
    unsigned char *b = malloc(N + 8);
    for (int i = 0; i < N + 8; i++) {
        b[i] = (unsigned char)(i * 7919 >> 3);
    }
    static const int lengths[] = {0, 1, 7, 8, 9, 255, 4095, 4096, 12287, 12288, 12289, 24600, N};
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

TEST_MAIN(RUN(known_values) RUN(all_lengths_and_offsets_agree_with_the_table)
              RUN(chunks_give_the_crc_of_the_whole))
