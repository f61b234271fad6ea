/* tests/unit/core/test_beneath.c - what opens beneath a folder and what does not, with openat2 and without.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/beneath.h"

#include <stdarg.h>
#include <sys/stat.h>

#include "tests/unit/temp_dir.h"

static struct temp_dir top;

/* PATH/... as one of a few temporaries. */
__attribute__((format(printf, 1, 2))) static const char *at(const char *fmt, ...)
{
    static char paths[4][400];
    static int next;
    char *p = paths[next++ % 4];
    const int n = snprintf(p, sizeof paths[0], "%s/", top.path);
    va_list args;
    va_start(args, fmt);
    vsnprintf(p + n, sizeof paths[0] - (size_t)n, fmt, args);
    va_end(args);
    return p;
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    CHECK(fputs(text, f) >= 0);
    fclose(f);
}

static void make_link(const char *to, const char *name)
{
    CHECK_INT(symlink(to, at("%s", name)), 0);
}

/* base/1: a version with a file, a folder and a secret beside it. */
static void make_model(void)
{
    top = temp_dir_make();
    CHECK_INT(mkdir(at("base"), 0700) | mkdir(at("base/1"), 0700) | mkdir(at("base/1/sub"), 0700), 0);
    put(at("base/1/file"), "inside");
    put(at("base/1/sub/file"), "inside");
    put(at("secret"), "outside");
    put(at("base/secret"), "outside");
}

/* Runs a test with openat2 and again without. */
static void both_ways(void (*test)(void))
{
    for (int way = 0; way < 2; way++) {
        td_beneath_use_openat2(way == 0);
        make_model();
        test();
        temp_dir_remove(&top);
    }
    td_beneath_use_openat2(true);
}

static void opens(const char *root, const char *path)
{
    struct td_err err = {0};
    char text[16] = {0};
    int fd;
    CHECK_OK(td_beneath_open(root, path, &fd, &err));
    CHECK(read(fd, text, sizeof text - 1) > 0);
    CHECK_STR(text, "inside");
    close(fd);
}

static void refuses(const char *root, const char *path, enum td_code code, const char *words)
{
    struct td_err err = {0};
    int fd = -1;
    CHECK_INT(td_beneath_open(root, path, &fd, &err), code);
    if (strstr(err.msg, words) == NULL) {
        fprintf(stderr, "%s\n  does not say: %s\n", err.msg, words);
        exit(1);
    }
}

#define RULE "must stay inside its version's folder"
#define ROOT at("base/1")

static void try_inner(void)
{
    opens(ROOT, at("base/1/file"));
    opens(ROOT, at("base/1//sub/../file"));
    opens(at("base/1/"), at("base/1/sub/file"));
    make_link("file", "base/1/near");
    make_link("../file", "base/1/sub/up");
    make_link("sub", "base/1/folder");
    make_link("near", "base/1/twice");
    make_link(at("base/1/sub/file"), "base/1/absolute");
    make_link(at("base/1/sub"), "base/1/absolute_folder");
    opens(ROOT, at("base/1/near"));
    opens(ROOT, at("base/1/sub/up"));
    opens(ROOT, at("base/1/folder/up"));
    opens(ROOT, at("base/1/twice"));
    opens(ROOT, at("base/1/absolute"));
    opens(ROOT, at("base/1/absolute_folder/up"));
}

TEST(links_inside_are_followed)
{
    both_ways(try_inner);
}

static void try_outer(void)
{
    static const char *const targets[] = {"/etc/passwd", "/proc/self/environ", "../secret", "../../secret",
                                          "sub/../../secret"};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        unlink(at("base/1/out"));
        make_link(targets[i], "base/1/out");
        refuses(ROOT, at("base/1/out"), TD_PERMISSION_DENIED, RULE);
        refuses(ROOT, at("base/1/out"), TD_PERMISSION_DENIED, targets[i]);
    }
    make_link("out", "base/1/link_to_link");
    make_link("/", "base/1/root");
    make_link("..", "base/1/parent");
    make_link("/proc/self/root", "base/1/magic");
    make_link("/proc/self/fd", "base/1/fds");
    refuses(ROOT, at("base/1/link_to_link"), TD_PERMISSION_DENIED, RULE);
    refuses(ROOT, at("base/1/root/etc/passwd"), TD_PERMISSION_DENIED, "base/1/root'");
    refuses(ROOT, at("base/1/parent/secret"), TD_PERMISSION_DENIED, RULE);
    refuses(ROOT, at("base/1/magic/etc/passwd"), TD_PERMISSION_DENIED, RULE);
    refuses(ROOT, at("base/1/fds/0"), TD_PERMISSION_DENIED, RULE);
    refuses(ROOT, at("base/1/../secret"), TD_PERMISSION_DENIED, "must lie inside");
    refuses(ROOT, at("base/secret"), TD_PERMISSION_DENIED, "not below");
    refuses(ROOT, at("base/12"), TD_PERMISSION_DENIED, "not below");
    refuses(ROOT, "/etc/passwd", TD_PERMISSION_DENIED, "not below");
}

TEST(what_leads_out_is_refused_and_named)
{
    both_ways(try_outer);
}

static void try_odd(void)
{
    CHECK_INT(mkfifo(at("base/1/fifo"), 0600), 0);
    make_link("fifo", "base/1/to_fifo");
    make_link("loop", "base/1/loop");
    make_link("gone", "base/1/dangling");
    refuses(ROOT, at("base/1/fifo"), TD_INVALID_ARGUMENT, "not a regular file");
    refuses(ROOT, at("base/1/to_fifo"), TD_INVALID_ARGUMENT, "not a regular file");
    refuses(ROOT, at("base/1/sub"), TD_INVALID_ARGUMENT, "not a regular file");
    refuses(NULL, "/dev/null", TD_INVALID_ARGUMENT, "not a regular file");
    refuses(ROOT, at("base/1/loop"), TD_PERMISSION_DENIED, "loop");
    refuses(ROOT, at("base/1/dangling"), TD_NOT_FOUND, "no such file");
    refuses(ROOT, at("base/1/file/x"), TD_NOT_FOUND, "no such file");
    refuses(at("base/9"), at("base/9/file"), TD_NOT_FOUND, "no such file");
    opens(NULL, at("base/1/file"));
}

TEST(what_is_no_file_never_waits)
{
    alarm(20);
    both_ways(try_odd);
}

/* The folder that is mounted holds ..data -> ..2026, and one link into it for each entry. */
static void mount_at(const char *folder, const char *entry, bool is_folder)
{
    char name[200];
    CHECK_INT(mkdir(at("%s", folder), 0700) | mkdir(at("%s/..2026", folder), 0700), 0);
    snprintf(name, sizeof name, "%s/..data", folder);
    make_link("..2026", name);
    if (is_folder) {
        CHECK_INT(mkdir(at("%s/..2026/%s", folder, entry), 0700), 0);
        put(at("%s/..2026/%s/file", folder, entry), "inside");
    } else {
        put(at("%s/..2026/%s", folder, entry), "inside");
    }
    char to[200];
    snprintf(to, sizeof to, "..data/%s", entry);
    snprintf(name, sizeof name, "%s/%s", folder, entry);
    make_link(to, name);
}

static void try_kubernetes(void)
{
    mount_at("version", "file", false); /* the version's folder is the mount */
    opens(at("version"), at("version/file"));
    mount_at("model", "1", true); /* the model's is */
    opens(at("model/1"), at("model/1/file"));
    CHECK_INT(mkdir(at("model/2"), 0700), 0); /* a folder of links into what is mounted beside it */
    make_link("../..data/1/file", "model/2/file");
    opens(at("model/2"), at("model/2/file"));
    mount_at("repository", "m", true); /* the whole repository is */
    CHECK_INT(mkdir(at("repository/m/1"), 0700), 0);
    put(at("repository/m/1/file"), "inside");
    opens(at("repository/m/1"), at("repository/m/1/file"));
}

TEST(kubernetes_links_are_followed)
{
    both_ways(try_kubernetes);
}

static void try_published(void)
{
    make_link("..", "base/..data"); /* leads out of the folder that holds it: not what Kubernetes makes */
    make_link("../..data/secret", "base/1/out");
    refuses(ROOT, at("base/1/out"), TD_PERMISSION_DENIED, RULE);
    unlink(at("base/..data"));
    make_link(".", "base/..data");
    refuses(ROOT, at("base/1/out"), TD_PERMISSION_DENIED, RULE);
}

TEST(a_published_folder_lies_inside_its_holder)
{
    both_ways(try_published);
}

static void try_linked_root(void)
{
    make_link("base/1", "latest");
    make_link(at("base/1"), "absolute");
    make_link("file", "base/1/near");
    make_link("../secret", "base/1/out");
    opens(at("latest"), at("latest/file"));
    opens(at("latest"), at("latest/near"));
    opens(at("absolute"), at("absolute/sub/file"));
    refuses(at("latest"), at("latest/out"), TD_PERMISSION_DENIED, RULE);
}

TEST(the_root_may_be_a_link)
{
    both_ways(try_linked_root);
}

static void try_folders(void)
{
    struct td_err err = {0};
    unsigned kind = 0;
    int fd;
    make_link("sub", "base/1/folder");
    make_link("..", "base/1/parent");
    CHECK_OK(td_beneath_open_dir(ROOT, at("base/1/folder"), &fd, &err));
    close(fd);
    CHECK_OK(td_beneath_open_dir(ROOT, ROOT, &fd, &err));
    close(fd);
    CHECK_OK(td_beneath_kind(ROOT, at("base/1/folder"), &kind, &err));
    CHECK(kind == S_IFDIR);
    CHECK_INT(td_beneath_open_dir(ROOT, at("base/1/parent"), &fd, &err), TD_PERMISSION_DENIED);
    err = (struct td_err){0};
    CHECK_INT(td_beneath_open_dir(ROOT, at("base/1/file"), &fd, &err), TD_INVALID_ARGUMENT);
    err = (struct td_err){0};
    CHECK_INT(td_beneath_kind(ROOT, at("base/1/parent"), &kind, &err), TD_PERMISSION_DENIED);
}

TEST(folders_open_likewise)
{
    both_ways(try_folders);
}

TEST_MAIN(RUN(links_inside_are_followed) RUN(what_leads_out_is_refused_and_named)
              RUN(what_is_no_file_never_waits) RUN(kubernetes_links_are_followed)
                  RUN(a_published_folder_lies_inside_its_holder) RUN(the_root_may_be_a_link)
                      RUN(folders_open_likewise))
