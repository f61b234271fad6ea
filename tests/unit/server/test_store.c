/* tests/unit/server/test_store.c - the jobs' database: kept, undone, shared by two connections, refused.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/jobs/store.h"

#include <pthread.h>
#include <sys/stat.h>

#include "tests/unit/temp_dir.h"

#define ADD "INSERT INTO checkpoints(job, step, created_at, metrics) VALUES(?, ?, 0, '{}')"
#define COUNT "SELECT count(*) FROM checkpoints"

static struct td_err err;

static struct td_store *open_at(const char *dir)
{
    struct td_store *s = NULL;
    CHECK_OK(td_store_open(dir, true, &s, &err));
    return s;
}

static int64_t count(struct td_store *s)
{
    int64_t n = -1;
    CHECK_OK(td_store_ask_int(s, COUNT, TD_SQL_NONE, -1, &n, &err));
    return n;
}

static enum td_code add(struct td_store *s, int64_t step)
{
    return td_store_do(s, ADD, TD_SQL(TD_SQL_INT(1), TD_SQL_INT(step)), NULL, &err);
}

static void put(const struct temp_dir *d, const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(temp_dir_file(d, name).s, "wb");
    CHECK(f != NULL && fwrite(bytes, 1, n, f) == n);
    fclose(f);
}

TEST(what_is_committed_is_there_when_opened_again)
{
    struct temp_dir d = temp_dir_make();
    struct td_store *s = open_at(d.path);
    CHECK_OK(td_store_begin(s, true, &err));
    CHECK_OK(td_store_end(s, add(s, 1), &err));
    CHECK_OK(add(s, 2));
    td_store_close(s);
    s = open_at(d.path);
    CHECK_INT(count(s), 2);
    td_store_close(s);
}

TEST(a_transaction_that_fails_leaves_nothing)
{
    struct temp_dir d = temp_dir_make();
    struct td_store *s = open_at(d.path);
    CHECK_OK(td_store_begin(s, false, &err));
    CHECK_OK(add(s, 1));
    enum td_code rc = add(s, 1); /* one a job and step */
    CHECK_INT(rc, TD_INTERNAL);
    CHECK(strstr(err.msg, "UNIQUE") != NULL);
    rc = td_store_end(s, rc, &err);
    CHECK_INT(rc, TD_INTERNAL);
    err = (struct td_err){0};
    CHECK_INT(count(s), 0);
    CHECK_OK(add(s, 1));
    td_store_close(s);
}

struct writer {
    const char *dir;
    int64_t job;
};

static void *write_many(void *arg)
{
    const struct writer *w = arg;
    struct td_err mine = {0};
    struct td_store *s = NULL;
    enum td_code rc = td_store_open(w->dir, false, &s, &mine);
    for (int64_t i = 0; rc == TD_OK && i < 200; i++) {
        rc = td_store_begin(s, false, &mine);
        if (rc == TD_OK) {
            rc = td_store_do(s, ADD, TD_SQL(TD_SQL_INT(w->job), TD_SQL_INT(i)), NULL, &mine);
            rc = td_store_end(s, rc, &mine);
        }
    }
    td_store_close(s);
    CHECK_STR(mine.msg, "");
    return NULL;
}

TEST(connections_wait_for_each_other)
{
    struct temp_dir d = temp_dir_make();
    struct td_store *s = open_at(d.path);
    pthread_t thread[3];
    struct writer w[3];
    int64_t before = 0, after = 0;
    CHECK_OK(td_store_version(s, &before, &err));
    for (int i = 0; i < 3; i++) {
        w[i] = (struct writer){d.path, i};
        CHECK_INT(pthread_create(&thread[i], NULL, write_many, &w[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(thread[i], NULL);
    }
    CHECK_INT(count(s), 600);
    CHECK_OK(td_store_version(s, &after, &err));
    CHECK(after != before);
    td_store_close(s);
}

TEST(a_file_of_others_is_refused_and_left_alone)
{
    struct temp_dir d = temp_dir_make();
    struct td_store *s = NULL;
    put(&d, "state.db", "this is no database, but a text of somebody's that is long enough", 64);
    CHECK_INT(td_store_open(d.path, true, &s, &err), TD_FAILED_PRECONDITION);
    CHECK(strstr(err.msg, "state.db") != NULL);
    struct stat st;
    CHECK(stat(temp_dir_file(&d, "state.db").s, &st) == 0 && st.st_size == 64);
}

TEST(tables_of_a_later_version_are_refused)
{
    struct temp_dir d = temp_dir_make();
    struct td_store *s = open_at(d.path);
    CHECK_OK(td_store_do(s, "PRAGMA user_version = 99", TD_SQL_NONE, NULL, &err));
    td_store_close(s);
    CHECK_INT(td_store_open(d.path, true, &s, &err), TD_FAILED_PRECONDITION);
    CHECK(strstr(err.msg, "version 99") != NULL);
}

TEST(a_damaged_file_is_refused)
{
    struct temp_dir d = temp_dir_make();
    struct td_store *s = open_at(d.path);
    for (int i = 0; i < 2000; i++) {
        CHECK_OK(add(s, i));
    }
    td_store_close(s);
    FILE *f = fopen(temp_dir_file(&d, "state.db").s, "r+b");
    CHECK(f != NULL && fseek(f, 4096, SEEK_SET) == 0);
    for (int i = 0; i < 4096 * 8; i++) {
        fputc(0x5a, f);
    }
    fclose(f);
    CHECK_INT(td_store_open(d.path, true, &s, &err), TD_DATA_LOSS);
}

TEST_MAIN(RUN(what_is_committed_is_there_when_opened_again) RUN(a_transaction_that_fails_leaves_nothing)
              RUN(connections_wait_for_each_other) RUN(a_file_of_others_is_refused_and_left_alone)
                  RUN(tables_of_a_later_version_are_refused) RUN(a_damaged_file_is_refused))
