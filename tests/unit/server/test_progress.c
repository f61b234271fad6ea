/* tests/unit/server/test_progress.c - saved progress: what is saved is read, the newest counts, and nothing
 * half written does.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/progress.h"

#include <sys/stat.h>

#include "proto/bytes/file_tree.h"
#include "tests/unit/temp_dir.h"

static void save(const struct temp_dir *d, int64_t step, bool commit)
{
    struct td_err err = {0};
    struct td_progress_writer *w = NULL;
    const int64_t at[2] = {step, -step};
    const double reals[3] = {0.1, -1e300, 1.0 / 3};
    CHECK_OK(td_progress_begin(d->path, &w, &err));
    CHECK_OK(td_progress_put_ints(w, "at", at, 2, &err));
    CHECK_OK(td_progress_put_reals(w, "reals", reals, 3, &err));
    CHECK_OK(td_progress_put_text(w, "job", "{\"a\":1}", &err));
    if (commit) {
        CHECK_OK(td_progress_commit(w, &err));
    } else {
        td_progress_abandon(w);
    }
}

static bool is_there(const struct temp_dir *d, const char *name)
{
    const struct temp_path p = temp_dir_file(d, name);
    struct stat st;
    return stat(p.s, &st) == 0;
}

static int64_t saved_step(const struct temp_dir *d)
{
    struct td_err err = {0};
    struct td_progress *p = NULL;
    int64_t at[2] = {-1, 0};
    CHECK_OK(td_progress_open(d->path, &p, &err));
    if (p != NULL) {
        CHECK_OK(td_progress_get_ints(p, "at", at, 2, &err));
    }
    td_progress_close(p);
    return at[0];
}

TEST(what_is_saved_is_read)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    struct td_progress *p = NULL;
    struct td_tensor t = {0};
    double reals[3];
    bool same = false;
    int64_t at[3];
    CHECK_INT(saved_step(&d), -1);
    save(&d, 12, true);
    CHECK_OK(td_progress_open(d.path, &p, &err));
    CHECK_OK(td_progress_get_reals(p, "reals", reals, 3, &err));
    CHECK(reals[0] == 0.1 && reals[1] == -1e300 && reals[2] == 1.0 / 3);
    CHECK_OK(td_progress_same_text(p, "job", "{\"a\":1}", &same, &err));
    CHECK(same);
    CHECK_OK(td_progress_same_text(p, "job", "{\"a\":2}", &same, &err));
    CHECK(!same);
    CHECK_STR(td_progress_name(p, 0), "at");
    CHECK(td_progress_name(p, 3) == NULL);
    CHECK_INT(td_progress_get(p, "no", &t, &err), TD_NOT_FOUND);
    err = (struct td_err){0};
    CHECK_INT(td_progress_get_ints(p, "at", at, 3, &err), TD_INVALID_ARGUMENT);
    td_progress_close(p);
    temp_dir_remove(&d);
}

TEST(the_newest_counts_and_older_ones_go)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    save(&d, 1, true);
    save(&d, 2, true);
    CHECK_INT(saved_step(&d), 2);
    CHECK(!is_there(&d, "progress-0") && is_there(&d, "progress-1"));
    save(&d, 3, false);
    CHECK_INT(saved_step(&d), 2);
    CHECK(!is_there(&d, ".progress-2"));
    CHECK_OK(td_progress_remove(d.path, &err));
    CHECK_INT(saved_step(&d), -1);
    temp_dir_remove(&d);
}

/* As a process leaves it that is killed: while it writes; and after the rename, before the older one goes. */
TEST(what_a_killed_process_leaves_is_no_progress)
{
    struct td_err err = {0};
    struct temp_dir d = temp_dir_make();
    save(&d, 1, true);
    const struct temp_path half = temp_dir_file(&d, ".progress-1"), one = temp_dir_file(&d, "progress-0"),
                           two = temp_dir_file(&d, "progress-7");
    CHECK_OK(td_tree_make(half.s, 0755, &err));
    CHECK_INT(saved_step(&d), 1);
    save(&d, 2, true);
    CHECK(!is_there(&d, ".progress-1"));
    CHECK_OK(td_tree_copy(NULL, temp_dir_file(&d, "progress-1").s, two.s, NULL, NULL, &err));
    CHECK_OK(td_tree_copy(NULL, two.s, one.s, NULL, NULL, &err));
    save(&d, 3, true);
    CHECK_INT(saved_step(&d), 3);
    CHECK(!is_there(&d, "progress-0") && !is_there(&d, "progress-7") && is_there(&d, "progress-8"));
    temp_dir_remove(&d);
}

TEST(a_directory_that_is_not_there_is_said)
{
    struct td_err err = {0};
    struct td_progress_writer *w = NULL;
    CHECK_INT(td_progress_begin("/nowhere/at/all", &w, &err), TD_NOT_FOUND);
    CHECK(strstr(err.msg, "Saving progress: Opening /nowhere/at/all") != NULL);
}

TEST_MAIN(RUN(what_is_saved_is_read) RUN(the_newest_counts_and_older_ones_go)
              RUN(what_a_killed_process_leaves_is_no_progress) RUN(a_directory_that_is_not_there_is_said))
