/* tests/unit/proto/test_mapping.c - mapped files, and files that shrink while they are mapped.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/mapping.h"

#include "tests/unit/temp_dir.h"

TEST(a_file_is_mapped_and_counted)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct td_mapping *m;
    size_t n;
    temp_dir_write(&d, "f", "hello", 5);
    CHECK_OK(td_mapping_open(temp_dir_file(&d, "f").s, &m, &err));
    CHECK(memcmp(td_mapping_data(m, &n), "hello", 5) == 0 && n == 5);
    td_mapping_unref(td_mapping_ref(m));
    CHECK(td_mapping_data(m, &n)[4] == 'o');
    td_mapping_unref(m);
    temp_dir_write(&d, "empty", "", 0);
    CHECK_OK(td_mapping_open(temp_dir_file(&d, "empty").s, &m, &err));
    (void)td_mapping_data(m, &n);
    CHECK_INT(n, 0);
    td_mapping_unref(m);
    CHECK_INT(td_mapping_open(temp_dir_file(&d, "none").s, &m, &err), TD_NOT_FOUND);
    err = (struct td_err){0};
    CHECK_INT(td_mapping_open(d.path, &m, &err), TD_INVALID_ARGUMENT);
    temp_dir_remove(&d);
}

TEST(a_shrunk_file_reads_as_zeros_and_is_marked)
{
    enum { SIZE = 1 << 16 };
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct td_mapping *m, *other;
    size_t n;
    char *bytes = malloc(SIZE);
    memset(bytes, 7, SIZE);
    temp_dir_write(&d, "f", bytes, SIZE);
    temp_dir_write(&d, "g", bytes, SIZE);
    free(bytes);
    td_mapping_install_handler();
    CHECK_OK(td_mapping_open(temp_dir_file(&d, "f").s, &m, &err));
    CHECK_OK(td_mapping_open(temp_dir_file(&d, "g").s, &other, &err));
    const unsigned char *p = td_mapping_data(m, &n), *q = td_mapping_data(other, &n);
    CHECK(truncate(temp_dir_file(&d, "f").s, 100) == 0);
    CHECK(!td_mapping_damaged(p) && td_mapping_damages() == 0);
    CHECK_INT(*(const volatile unsigned char *)(p + SIZE - 1), 0);
    CHECK(td_mapping_damaged(p) && td_mapping_damages() == 1);
    CHECK(q[SIZE - 1] == 7 && !td_mapping_damaged(q));
    struct temp_dir above = d;
    *strrchr(above.path, '/') = '\0';
    CHECK(td_mapping_damaged_below(d.path) && td_mapping_damaged_below(above.path));
    CHECK(!td_mapping_damaged_below("/") && !td_mapping_damaged_below(temp_dir_file(&d, "f").s));
    td_mapping_unref(m);
    CHECK(!td_mapping_damaged_below(d.path));
    td_mapping_unref(other);
    temp_dir_remove(&d);
}

TEST_MAIN(RUN(a_file_is_mapped_and_counted) RUN(a_shrunk_file_reads_as_zeros_and_is_marked))
