/* tests/unit/server/test_watch.c - version folders.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/watch.h"

#include <sys/stat.h>

#include "tests/test.h"

static char root[100];
static struct td_err err;

static char *in_root(const char *rel)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/%s", root, rel);
    return path;
}

static void setup(void)
{
    (void)snprintf(root, sizeof root, "/tmp/td_test_watch.XXXXXX");
    CHECK(mkdtemp(root) != NULL);
}

static void clean(void)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    CHECK_INT(system(command), 0);
}

static void touch(const char *rel)
{
    FILE *f = fopen(in_root(rel), "w");
    CHECK(f != NULL);
    fclose(f);
}

TEST(only_numbered_folders_count_highest_first)
{
    setup();
    const char *const dirs[] = {"1", "00000123", "tmp", "2x", "-3", "99999999999999999999", "0"};
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        CHECK_INT(mkdir(in_root(dirs[i]), 0755), 0);
    }
    touch("7");
    CHECK_INT(symlink("00000123", in_root("9")), 0);
    CHECK_INT(symlink("nowhere", in_root("10")), 0);
    struct td_version_dir *d = NULL;
    int n = 0;
    CHECK_OK(td_watch_list(root, &d, &n, &err));
    CHECK_INT(n, 4);
    CHECK_INT(d[0].version, 123);
    CHECK_INT(d[1].version, 9);
    CHECK_INT(d[2].version, 1);
    CHECK_INT(d[3].version, 0);
    CHECK_STR(d[0].path, in_root("00000123"));
    td_watch_free(d, n);
    clean();
}

TEST(two_spellings_of_a_version_count_once)
{
    setup();
    CHECK_INT(mkdir(in_root("1"), 0755), 0);
    CHECK_INT(mkdir(in_root("01"), 0755), 0);
    struct td_version_dir *d = NULL;
    int n = 0;
    CHECK_OK(td_watch_list(root, &d, &n, &err));
    CHECK_INT(n, 1);
    td_watch_free(d, n);
    clean();
}

TEST(a_saved_model_is_its_own_version_1)
{
    setup();
    touch("saved_model.pb");
    struct td_version_dir *d = NULL;
    int n = 0;
    CHECK_OK(td_watch_list(root, &d, &n, &err));
    CHECK_INT(n, 1);
    CHECK_INT(d[0].version, 1);
    CHECK_STR(d[0].path, root);
    td_watch_free(d, n);
    clean();
}

TEST(a_missing_path_is_named)
{
    struct td_version_dir *d = NULL;
    int n = 0;
    CHECK_INT(td_watch_list("/no/such/place", &d, &n, &err), TD_NOT_FOUND);
    CHECK(strstr(err.msg, "/no/such/place") != NULL);
}

static uint64_t stamp(void)
{
    struct td_watch_seen seen;
    td_watch_look(root, &seen);
    return seen.stamp;
}

TEST(the_stamp_changes_with_the_graph)
{
    setup();
    const uint64_t none = stamp();
    touch("saved_model.pb");
    const uint64_t empty = stamp();
    CHECK(none != empty);
    CHECK(stamp() == empty);
    FILE *f = fopen(in_root("saved_model.pb"), "w");
    fputs("x", f);
    fclose(f);
    CHECK(stamp() != empty);
    clean();
}

static void put(const char *rel, const char *text)
{
    FILE *f = fopen(in_root(rel), "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
}

TEST(a_look_tells_what_has_changed)
{
    struct td_watch_seen a, b;
    setup();
    CHECK_INT(mkdir(in_root("variables"), 0755), 0);
    put("saved_model.pb", "graph");
    put("variables/variables.index", "index");
    put("variables/variables.data-00000-of-00001", "data");
    td_watch_look(root, &a);
    CHECK(a.newest_ns > 0 && a.weights != 0 && a.places != 0);
    put("config.pbtxt", "config");
    td_watch_look(root, &b);
    CHECK(b.stamp != a.stamp && b.model == a.model);
    put("variables/variables.index", "another");
    td_watch_look(root, &a);
    CHECK(a.model != b.model && a.weights == b.weights);
    put("variables/variables.data-00000-of-00001", "data of another length");
    td_watch_look(root, &b);
    CHECK(a.weights != b.weights && a.places == b.places);
    CHECK_INT(unlink(in_root("variables/variables.data-00000-of-00001")), 0);
    td_watch_look(root, &a);
    CHECK(a.weights != b.weights && a.places == 0);
    clean();
}

TEST_MAIN(RUN(a_look_tells_what_has_changed) RUN(only_numbered_folders_count_highest_first)
              RUN(two_spellings_of_a_version_count_once) RUN(a_saved_model_is_its_own_version_1)
                  RUN(a_missing_path_is_named) RUN(the_stamp_changes_with_the_graph))
