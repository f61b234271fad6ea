/* tests/unit/core/test_timings.c - minima, peaks, and times by name with their file. (Lines: test_cost.)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/timings.h"

#include <dirent.h>

#include "tests/test.h"

static char dir[] = "/tmp/tensord-timings.XXXXXX";

static struct td_timings *open_in(const char *where, const char *machine)
{
    struct td_timings *t;
    struct td_err err = {0};
    CHECK_OK(td_timings_open(where, machine, &t, &err));
    return t;
}

/* The one file in dir. */
static const char *file_of(void)
{
    static char path[300];
    DIR *d = opendir(dir);
    int files = 0;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        if (e->d_name[0] != '.') {
            files++;
            snprintf(path, sizeof path, "%s/%.200s", dir, e->d_name);
        }
    }
    closedir(d);
    CHECK_INT(files, 1);
    return path;
}

static size_t read_all(char *text, size_t room)
{
    FILE *f = fopen(file_of(), "r");
    const size_t n = fread(text, 1, room, f);
    fclose(f);
    return n;
}

static void write_all(const char *text, size_t n)
{
    FILE *f = fopen(file_of(), "w");
    CHECK(fwrite(text, 1, n, f) == n);
    fclose(f);
}

static void save_two(void)
{
    struct td_err err = {0};
    CHECK(mkdtemp(dir) != NULL);
    struct td_timings *t = open_in(dir, "a machine; oneDNN 2.6");
    td_timings_note(t, "MatMul float[8,4] a", 1200);
    td_timings_note(t, "MatMul float[8,4] b", 900);
    CHECK_OK(td_timings_save(t, &err));
    td_timings_close(t);
}

static void remove_all(void)
{
    unlink(file_of());
    rmdir(dir);
}

TEST(a_minimum_rises_and_a_peak_falls_slowly)
{
    td_timing_least m = 0;
    CHECK_INT(td_timing_known(&m), 0);
    td_timing_learn(&m, 1000);
    td_timing_learn(&m, 2000);
    CHECK_INT(td_timing_known(&m), 1125);
    td_timing_learn(&m, 900);
    CHECK_INT(td_timing_known(&m), 900);
    CHECK_INT(td_timing_peak(800, 1000), 1000);
    CHECK_INT(td_timing_peak(800, 0), 700);
}

TEST(what_was_saved_is_read_back_on_the_same_machine_alone)
{
    save_two();
    struct td_timings *same = open_in(dir, "a machine; oneDNN 2.6"), *other = open_in(dir, "another");
    CHECK_INT(td_timings_find(same, "MatMul float[8,4] b"), 900);
    CHECK_INT(td_timings_find(same, "MatMul float[8,4] c"), 0);
    CHECK_INT(td_timings_find(other, "MatMul float[8,4] b"), 0);
    td_timings_close(same);
    td_timings_close(other);
    remove_all();
}

TEST(a_file_that_was_changed_anywhere_is_as_good_as_none)
{
    char text[1000], bad[1000];
    save_two();
    const size_t n = read_all(text, sizeof text);
    for (size_t at = 0; at < 2 * n; at++) {
        memcpy(bad, text, n);
        bad[at % n] ^= 1;
        write_all(bad, at < n ? n : at - n); /* one bit; and cut off everywhere */
        struct td_timings *t = open_in(dir, "a machine; oneDNN 2.6");
        CHECK_INT(td_timings_find(t, "MatMul float[8,4] b"), 0);
        td_timings_close(t);
    }
    remove_all();
}

TEST(the_oldest_goes_when_there_are_too_many)
{
    char name[40];
    struct td_timings *t = open_in(NULL, "here");
    for (int i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "name %d", i);
        td_timings_note(t, name, i + 1);
    }
    CHECK_INT(td_timings_find(t, "name 4999"), 5000);
    CHECK_INT(td_timings_find(t, "name 4000"), 4001);
    CHECK_INT(td_timings_find(t, "name 7"), 0);
    td_timings_note(t, "a name\nin two lines", 5);
    CHECK_INT(td_timings_find(t, "a name\nin two lines"), 0);
    td_timings_close(t);
}

TEST_MAIN(RUN(a_minimum_rises_and_a_peak_falls_slowly)
              RUN(what_was_saved_is_read_back_on_the_same_machine_alone)
                  RUN(a_file_that_was_changed_anywhere_is_as_good_as_none)
                      RUN(the_oldest_goes_when_there_are_too_many))
