/* tests/unit/proto/test_crc_mapped.c - many ranges at once have the checksums that each has alone, and leave
 * no pages behind.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/crc_mapped.h"

#include "proto/bytes/crc32c.h"
#include "proto/bytes/mapping.h"
#include "server/embed_pool.h"
#include "tests/unit/temp_dir.h"

enum { SIZE = 33 << 20, RANGES = 6 };

static const size_t at[RANGES] = {0, 17, 1000003, 5 << 20, SIZE, 3},
                    length[RANGES] = {1000, 4 << 20, 9 << 20, (28 << 20) - 1, 0, SIZE - 3};

static struct td_mapping *map_numbers(struct temp_dir *d)
{
    struct td_err err = {0};
    struct td_mapping *m;
    unsigned *numbers = malloc(SIZE);
    for (unsigned i = 0; i < SIZE / sizeof *numbers; i++) {
        numbers[i] = i * 2654435761u;
    }
    temp_dir_write(d, "f", (char *)numbers, SIZE);
    free(numbers);
    CHECK_OK(td_mapping_open(temp_dir_file(d, "f").s, &m, &err));
    return m;
}

static void check_ranges(const unsigned char *file, struct td_thread_pool *pool)
{
    struct td_crc_range r[RANGES];
    for (int i = 0; i < RANGES; i++) {
        r[i] = (struct td_crc_range){.p = file + at[i], .n = length[i], .crc = 99};
    }
    CHECK(td_crc_mapped(pool, r, RANGES));
    for (int i = 0; i < RANGES; i++) {
        CHECK_INT(r[i].crc, td_crc32c(0, file + at[i], length[i]));
    }
}

TEST(ranges_have_their_checksums)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct td_mapping *m = map_numbers(&d);
    struct td_embed_pool *pool;
    size_t n;
    const unsigned char *file = td_mapping_data(m, &n);
    check_ranges(file, NULL);
    CHECK_OK(td_embed_pool_new(3, &pool, &err));
    for (int i = 0; i < 4; i++) {
        check_ranges(file, td_embed_pool_of(pool));
    }
    td_embed_pool_free(pool);
    td_mapping_unref(m);
    temp_dir_remove(&d);
}

static long resident_file_bytes(void)
{
    char line[200];
    long kib = -1;
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        (void)sscanf(line, "RssFile: %ld", &kib);
    }
    CHECK(f != NULL && fclose(f) == 0 && kib >= 0);
    return kib * 1024;
}

TEST(pages_do_not_stay)
{
    struct temp_dir d = temp_dir_make();
    struct td_mapping *m = map_numbers(&d);
    struct td_crc_range r = {0};
    r.p = td_mapping_data(m, &r.n);
    const long before = resident_file_bytes();
    CHECK(td_crc_mapped(NULL, &r, 1));
    const long after = resident_file_bytes();
    CHECK(after - before < SIZE / 8);
    CHECK_INT(r.crc, td_crc32c(0, r.p, r.n));
    CHECK(resident_file_bytes() - before > SIZE / 2); /* plain reading keeps them: the measure can tell */
    td_mapping_unref(m);
    temp_dir_remove(&d);
}

TEST_MAIN(RUN(ranges_have_their_checksums) RUN(pages_do_not_stay))
