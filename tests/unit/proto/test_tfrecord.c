/* tests/unit/proto/test_tfrecord.c - record files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/tfrecord.h"

#include "tests/unit/temp_dir.h"

static struct td_sink two_records(void)
{
    struct td_err err = {0};
    struct td_sink s = {0};
    CHECK_OK(td_tfrecord_put(&s, "first", 5, &err));
    CHECK_OK(td_tfrecord_put(&s, "", 0, &err));
    return s;
}

TEST(records_come_back)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct td_sink s = two_records();
    struct td_tfrecord *r;
    const void *p;
    size_t n;
    temp_dir_write(&d, "r", s.p, s.n);
    CHECK_OK(td_tfrecord_open(temp_dir_file(&d, "r").s, 100, &r, &err));
    CHECK_OK(td_tfrecord_next(r, &p, &n, &err));
    CHECK(n == 5 && memcmp(p, "first", 5) == 0);
    CHECK_OK(td_tfrecord_next(r, &p, &n, &err));
    CHECK(n == 0 && p != NULL);
    CHECK_OK(td_tfrecord_next(r, &p, &n, &err));
    CHECK(p == NULL);
    td_tfrecord_close(r);
    td_sink_fini(&s);
    temp_dir_remove(&d);
}

static void expect(const char *bytes, size_t n, size_t max, enum td_code code, const char *text)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct td_tfrecord *r;
    const void *p;
    temp_dir_write(&d, "r", bytes, n);
    CHECK_OK(td_tfrecord_open(temp_dir_file(&d, "r").s, max, &r, &err));
    enum td_code rc = TD_OK;
    do {
        rc = td_tfrecord_next(r, &p, &n, &err);
    } while (rc == TD_OK && p != NULL);
    CHECK_INT(rc, code);
    CHECK_STR(err.msg, text);
    td_tfrecord_close(r);
    temp_dir_remove(&d);
}

TEST(damage_is_found)
{
    struct td_sink s = two_records();
    expect(s.p, s.n - 1, 100, TD_DATA_LOSS, "truncated record at 21");
    expect(s.p, 3, 100, TD_DATA_LOSS, "truncated record at 0");
    expect(s.p, s.n, 4, TD_RESOURCE_EXHAUSTED, "record at 0 of 5 bytes: at most 4 are read");
    s.p[14] ^= 1;
    expect(s.p, s.n, 100, TD_DATA_LOSS, "corrupted record at 0");
    s.p[1] ^= 1;
    expect(s.p, s.n, 100, TD_DATA_LOSS, "corrupted record at 0");
    td_sink_fini(&s);
    struct td_err err = {0};
    struct td_tfrecord *r;
    CHECK_INT(td_tfrecord_open("/nonexistent/r", 10, &r, &err), TD_NOT_FOUND);
}

TEST_MAIN(RUN(records_come_back) RUN(damage_is_found))
