/* tests/unit/proto/test_packed_folder.c - what is written is found whole by those it is for, and nothing else
 * is.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/bytes/packed_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <utime.h>

#include "proto/bytes/mapping.h"
#include "proto/bytes/packed_clear.h"
#include "tests/unit/temp_dir.h"

enum { SIZE = 20000 };
#define MOST (UINT64_C(1) << 30)

static struct td_packed_folder *opened(const struct temp_dir *d, uint64_t most)
{
    struct td_err err = {0};
    struct td_packed_folder *f;
    CHECK_OK(td_packed_folder_open(d->path, most, &f, &err));
    return f;
}

static void fill(unsigned char *p, int seed)
{
    for (int i = 0; i < SIZE; i++) {
        p[i] = (unsigned char)(i * 31 + seed + i / 251);
    }
}

/* Under the key "key SEED", in two parts. */
static enum td_code put(struct td_packed_folder *f, int seed, struct td_packed_file **out)
{
    struct td_err err = {0};
    unsigned char bytes[SIZE];
    char key[32] = {0};
    fill(bytes, seed);
    snprintf(key, sizeof key, "key %d", seed);
    const struct td_packed_part part[2] = {{bytes, 7000}, {bytes + 7000, SIZE - 7000}};
    *out = NULL;
    return td_packed_folder_write(f, key, sizeof key, part, 2, out, &err);
}

static void keep(struct td_packed_folder *f, int seed)
{
    struct td_packed_file *file;
    CHECK_INT(put(f, seed, &file), TD_OK);
    td_packed_file_drop(file);
}

static struct td_packed_file *find(struct td_packed_folder *f, int seed)
{
    char key[32] = {0};
    snprintf(key, sizeof key, "key %d", seed);
    return td_packed_folder_find(f, key, sizeof key, SIZE);
}

static bool is_there(struct td_packed_folder *f, int seed)
{
    struct td_packed_file *file = find(f, seed);
    unsigned char want[SIZE];
    fill(want, seed);
    CHECK(file == NULL || memcmp(td_packed_file_data(file), want, SIZE) == 0);
    td_packed_file_drop(file);
    return file != NULL;
}

/* The only file, or the only one that is half written. */
static struct temp_path only(const struct temp_dir *d, bool half)
{
    struct temp_path p = {""};
    DIR *all = opendir(temp_dir_file(d, "packed").s);
    CHECK(all != NULL);
    for (const struct dirent *e = readdir(all); e != NULL; e = readdir(all)) {
        if (half ? strstr(e->d_name, ".tempstate") != NULL : strlen(e->d_name) == 32) {
            CHECK(p.s[0] == '\0');
            snprintf(p.s, sizeof p.s, "%.200s/packed/%.80s", d->path, e->d_name);
        }
    }
    closedir(all);
    return p;
}

TEST(what_is_written_is_found_again)
{
    struct temp_dir d = temp_dir_make();
    struct td_packed_folder *f = opened(&d, MOST);
    struct stat st;
    CHECK(!is_there(f, 1));
    keep(f, 1);
    keep(f, 2);
    CHECK(is_there(f, 1) && is_there(f, 2) && !is_there(f, 3));
    td_packed_folder_close(f);
    f = opened(&d, MOST); /* as the next process */
    struct td_packed_file *file = find(f, 1);
    CHECK(file != NULL && (uintptr_t)td_packed_file_data(file) % 4096 == 0);
    td_packed_file_drop(file);
    CHECK(td_packed_folder_find(f, "key 1", 6, SIZE) == NULL); /* a key is its whole length */
    char key[32] = "key 1";
    CHECK(td_packed_folder_find(f, key, sizeof key, SIZE - 1) == NULL);
    CHECK(stat(temp_dir_file(&d, "packed").s, &st) == 0 && (st.st_mode & 0777) == 0700);
    CHECK(stat(temp_dir_file(&d, "packed/key").s, &st) == 0 && (st.st_mode & 0777) == 0600);
    td_packed_folder_close(f);
    temp_dir_remove(&d);
}

/* One byte at `at` is another. */
static void spoil(const char *path, off_t at)
{
    const int fd = open(path, O_RDWR);
    unsigned char c;
    CHECK(fd >= 0 && pread(fd, &c, 1, at) == 1);
    c ^= 4;
    CHECK(pwrite(fd, &c, 1, at) == 1 && close(fd) == 0);
}

TEST(torn_and_foreign_files_are_as_good_as_none)
{
    struct temp_dir d = temp_dir_make();
    struct td_packed_folder *f = opened(&d, MOST);
    const off_t spoilt[] = {0 /* magic */,
                            8 /* version */,
                            12,
                            16,
                            24 /* checksum */,
                            33 /* key */,
                            TD_PACKED_HEAD,
                            TD_PACKED_HEAD + SIZE / 2,
                            TD_PACKED_HEAD + SIZE - 1};
    const off_t cut[] = {
        0, 1, 40, TD_PACKED_HEAD - 1, TD_PACKED_HEAD, TD_PACKED_HEAD + SIZE - 1, TD_PACKED_HEAD + SIZE + 1};
    for (size_t i = 0; i < sizeof spoilt / sizeof spoilt[0]; i++) {
        keep(f, 1);
        CHECK(is_there(f, 1));
        spoil(only(&d, false).s, spoilt[i]);
        CHECK(!is_there(f, 1));
    }
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        keep(f, 1); /* over what is there */
        CHECK(is_there(f, 1) && truncate(only(&d, false).s, cut[i]) == 0);
        CHECK(!is_there(f, 1));
    }
    keep(f, 1);
    CHECK(chmod(only(&d, false).s, 0666) == 0 && !is_there(f, 1)); /* others may have written to it */
    CHECK(chmod(only(&d, false).s, 0600) == 0 && is_there(f, 1));
    td_packed_folder_close(f);
    CHECK(truncate(temp_dir_file(&d, "packed/key").s, 100) == 0);
    f = opened(&d, MOST); /* it has a key of its own */
    CHECK(!is_there(f, 1));
    td_packed_folder_close(f);
    temp_dir_remove(&d);
}

TEST(a_link_or_a_folder_that_others_write_to_is_refused)
{
    struct temp_dir d = temp_dir_make(), other = temp_dir_make();
    struct td_err err = {0};
    struct td_packed_folder *f;
    CHECK(mkdir(temp_dir_file(&d, "packed").s, 0700) == 0 && chmod(temp_dir_file(&d, "packed").s, 0777) == 0);
    CHECK_INT(td_packed_folder_open(d.path, MOST, &f, &err), TD_FAILED_PRECONDITION);
    CHECK(strstr(err.msg, "not trusted") != NULL);
    CHECK(rmdir(temp_dir_file(&d, "packed").s) == 0 &&
          symlink(other.path, temp_dir_file(&d, "packed").s) == 0);
    err = (struct td_err){0};
    CHECK_INT(td_packed_folder_open(d.path, MOST, &f, &err), TD_FAILED_PRECONDITION);
    err = (struct td_err){0};
    CHECK_INT(td_packed_folder_open(temp_dir_file(&d, "none").s, MOST, &f, &err), TD_UNAVAILABLE);
    temp_dir_remove(&d);
    temp_dir_remove(&other);
}

/* Of the file that was written last. */
static void age(const struct temp_dir *d, int seed, struct td_packed_folder *f, time_t when)
{
    struct td_packed_file *file;
    CHECK_INT(put(f, seed, &file), TD_OK);
    DIR *all = opendir(temp_dir_file(d, "packed").s);
    for (const struct dirent *e = readdir(all); e != NULL; e = readdir(all)) {
        struct temp_path p;
        struct stat st;
        snprintf(p.s, sizeof p.s, "%.200s/packed/%.80s", d->path, e->d_name);
        if (strlen(e->d_name) == 32 && stat(p.s, &st) == 0 && st.st_mtime > 1000000) {
            CHECK(utime(p.s, &(struct utimbuf){when, when}) == 0);
        }
    }
    closedir(all);
    td_packed_file_drop(file);
}

TEST(those_used_longest_ago_go_and_what_is_held_stays)
{
    enum { ONE = TD_PACKED_HEAD + SIZE };
    struct temp_dir d = temp_dir_make();
    struct td_packed_folder *f = opened(&d, 3 * ONE);
    struct td_packed_file *held, *more;
    age(&d, 1, f, 1000);
    age(&d, 2, f, 2000);
    age(&d, 3, f, 3000);
    CHECK(is_there(f, 1)); /* and is of use now */
    keep(f, 4);
    CHECK(is_there(f, 1) && !is_there(f, 2) && is_there(f, 3) && is_there(f, 4));
    td_packed_folder_close(f);
    f = opened(&d, ONE);
    held = find(f, 3);
    CHECK(held != NULL);
    CHECK_INT(put(f, 5, &more), TD_RESOURCE_EXHAUSTED);
    CHECK(!is_there(f, 1) && !is_there(f, 4) && is_there(f, 3));
    td_packed_file_drop(held);
    keep(f, 5);
    CHECK(!is_there(f, 3) && is_there(f, 5));
    td_packed_folder_close(f);
    f = opened(&d, ONE - 1);
    CHECK_INT(put(f, 6, &more), TD_RESOURCE_EXHAUSTED);
    td_packed_folder_close(f);
    temp_dir_remove(&d);
}

static bool count_asked(void *ctx, const char *name)
{
    (void)name;
    ++*(int *)ctx;
    return false;
}

/* Also where many have to go: each is looked at once. */
TEST(room_for_many_is_made_in_one_walk)
{
    enum { FILES = 200, BYTES = 10 };
    struct temp_dir d = temp_dir_make();
    char path[600];
    int asked = 0;
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%032x", d.path, i);
        const int fd = open(path, O_CREAT | O_WRONLY, 0600);
        CHECK(fd >= 0 && ftruncate(fd, BYTES) == 0);
        (void)close(fd);
        const struct utimbuf when = {.actime = 1000 + i * 7 % FILES, .modtime = 1000 + i * 7 % FILES};
        CHECK_INT(utime(path, &when), 0);
    }
    CHECK(td_packed_make_room(d.path, 150 * BYTES, FILES * BYTES, count_asked, &asked));
    CHECK_INT(asked, 150);
    for (int i = 0; i < FILES; i++) { /* the oldest went */
        snprintf(path, sizeof path, "%s/%032x", d.path, i);
        CHECK_INT(access(path, F_OK) == 0, i * 7 % FILES >= 150);
    }
    temp_dir_remove(&d);
}

TEST(what_a_killed_process_left_goes_and_what_one_writes_stays)
{
    struct temp_dir d = temp_dir_make();
    td_packed_folder_close(opened(&d, MOST));
    int ready[2];
    char c;
    CHECK(pipe(ready) == 0);
    const pid_t writer = fork();
    if (writer == 0) {
        const int fd = open(temp_dir_file(&d, "packed/0123.tempstate1-2").s, O_WRONLY | O_CREAT, 0600);
        _exit(fd >= 0 && flock(fd, LOCK_EX) == 0 && write(ready[1], "x", 1) == 1 ? pause() : 1);
    }
    CHECK(read(ready[0], &c, 1) == 1);
    td_packed_folder_close(opened(&d, MOST));
    CHECK(only(&d, true).s[0] != '\0');
    CHECK(kill(writer, SIGKILL) == 0 && waitpid(writer, NULL, 0) == writer);
    td_packed_folder_close(opened(&d, MOST));
    CHECK(only(&d, true).s[0] == '\0');
    close(ready[0]);
    close(ready[1]);
    temp_dir_remove(&d);
}

/* Writes and finds the same files for a while. */
static void work_beside(const struct temp_dir *d, int rounds)
{
    struct td_packed_folder *f = opened(d, 4 * (TD_PACKED_HEAD + SIZE));
    for (int i = 0; i < rounds; i++) {
        struct td_packed_file *file;
        (void)is_there(f, i % 5); /* whole, or not there */
        (void)put(f, i % 5, &file);
        td_packed_file_drop(file);
    }
    td_packed_folder_close(f);
}

TEST(two_processes_at_once_read_nothing_that_is_half)
{
    struct temp_dir d = temp_dir_make();
    int status;
    const pid_t other = fork();
    if (other == 0) {
        work_beside(&d, 150);
        _exit(0);
    }
    work_beside(&d, 150);
    CHECK(waitpid(other, &status, 0) == other && status == 0);
    CHECK(only(&d, true).s[0] == '\0');
    temp_dir_remove(&d);
}

TEST(one_of_those_that_are_killed_while_they_write_leaves_nothing_that_counts)
{
    struct temp_dir d = temp_dir_make();
    for (int i = 0; i < 12; i++) {
        const pid_t writer = fork();
        if (writer == 0) {
            work_beside(&d, 1 << 20);
            _exit(0);
        }
        usleep(1000 + 1700 * (unsigned)i);
        CHECK(kill(writer, SIGKILL) == 0 && waitpid(writer, NULL, 0) == writer);
        work_beside(&d, 5);
    }
    CHECK(only(&d, true).s[0] == '\0');
    temp_dir_remove(&d);
}

TEST(a_file_that_is_cut_while_it_is_mapped_tells)
{
    struct temp_dir d = temp_dir_make();
    struct td_packed_folder *f = opened(&d, MOST);
    td_mapping_install_handler();
    keep(f, 1);
    struct td_packed_file *file = find(f, 1);
    const unsigned char *p = td_packed_file_data(file);
    CHECK(!td_mapping_damaged_of_all() && truncate(only(&d, false).s, 100) == 0);
    CHECK_INT(((const volatile unsigned char *)p)[SIZE - 1], 0);
    CHECK(td_mapping_damaged_of_all() && td_mapping_damaged(p));
    td_packed_file_drop(file);
    CHECK(!td_mapping_damaged_of_all() && !is_there(f, 1));
    td_packed_folder_close(f);
    temp_dir_remove(&d);
}

TEST_MAIN(RUN(what_is_written_is_found_again) RUN(torn_and_foreign_files_are_as_good_as_none)
              RUN(a_link_or_a_folder_that_others_write_to_is_refused)
                  RUN(those_used_longest_ago_go_and_what_is_held_stays) RUN(room_for_many_is_made_in_one_walk)
                      RUN(what_a_killed_process_left_goes_and_what_one_writes_stays)
                          RUN(two_processes_at_once_read_nothing_that_is_half)
                              RUN(one_of_those_that_are_killed_while_they_write_leaves_nothing_that_counts)
                                  RUN(a_file_that_is_cut_while_it_is_mapped_tells))
