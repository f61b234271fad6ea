/* tests/unit/server/test_memory_limits.c - shares and bytes of --max_memory, and limits of control groups in
 * made-up trees.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/memory_limits.h"

#include "core/base/budget.h"
#include "tests/test.h"
#include "tests/unit/temp_dir.h"

static uint64_t parsed(const char *text, uint64_t whole)
{
    struct td_err err = {0};
    uint64_t bytes = 0;
    CHECK_INT(td_memory_parse("max_memory", text, whole, &bytes, &err), TD_OK);
    return bytes;
}

static void refused(const char *text)
{
    struct td_err err = {0};
    uint64_t bytes = 0;
    CHECK_INT(td_memory_parse("max_memory", text, 1000, &bytes, &err), TD_INVALID_ARGUMENT);
    CHECK(strstr(err.msg, "--max_memory is '") != NULL);
}

TEST(bytes_units_and_shares)
{
    CHECK_INT(parsed("0", 1000), 0);
    CHECK_INT(parsed("123456789", 1000), 123456789);
    CHECK_INT(parsed("2KiB", 1000), 2048);
    CHECK_INT(parsed("1.5GiB", 1000), 1610612736);
    CHECK_INT(parsed("80%", 1000), 800);
    CHECK_INT(parsed("12.5%", 1000), 125);
    CHECK_INT(parsed("100%", 1000), 1000);
}

TEST(other_texts_are_refused)
{
    static const char *const texts[] = {"",     "%",   "-1",  "101%", "12 %", "1GB",
                                        "1e40", "nan", "inf", "12%%", " 12",  "12GiBs"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        refused(texts[i]);
    }
}

static void write_below(const char *root, const char *path, const char *text)
{
    char full[512], command[700];
    snprintf(full, sizeof full, "%s/%s", root, path);
    snprintf(command, sizeof command, "mkdir -p \"$(dirname '%s')\"", full);
    CHECK_INT(system(command), 0);
    FILE *f = fopen(full, "w");
    CHECK(f != NULL);
    fputs(text, f);
    fclose(f);
}

TEST(the_least_of_the_groups_counts)
{
    struct temp_dir d = temp_dir_make();
    const uint64_t machine = td_memory_there_is(d.path);
    CHECK(machine > 20000000);
    write_below(d.path, "proc/self/cgroup", "0::/a/b\n");
    write_below(d.path, "sys/fs/cgroup/a/b/memory.max", "max\n");
    CHECK_INT(td_memory_there_is(d.path), machine);
    write_below(d.path, "sys/fs/cgroup/a/memory.max", "20000000\n");
    CHECK_INT(td_memory_there_is(d.path), 20000000);
    write_below(d.path, "sys/fs/cgroup/a/b/memory.high", "10000000\n");
    CHECK_INT(td_memory_there_is(d.path), 10000000);
    temp_dir_remove(&d);
}

TEST(groups_of_v1)
{
    struct temp_dir d = temp_dir_make();
    const uint64_t machine = td_memory_there_is(d.path);
    write_below(d.path, "proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/123\n");
    write_below(d.path, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK_INT(td_memory_there_is(d.path), machine);
    write_below(d.path, "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "30000000\n"); /* the path is the host's */
    CHECK_INT(td_memory_there_is(d.path), 30000000);
    temp_dir_remove(&d);
}

TEST(both_limits_are_set)
{
    struct td_err err = {0};
    CHECK_INT(td_memory_limits_set("1GiB", "25%", &err), TD_OK);
    CHECK_INT(td_budget_allowed(), 1 << 30);
    struct td_account *a = td_account_open();
    CHECK_INT(td_account_take(a, 256 << 20, "a tensor", &err), TD_OK);
    CHECK_INT(td_account_take(a, 1, "a tensor", &err), TD_RESOURCE_EXHAUSTED);
    CHECK(strstr(err.msg, "--max_request_memory=268435456") != NULL);
    td_account_give(a, 256 << 20);
    td_account_close(a);
    err = (struct td_err){0};
    CHECK_INT(td_memory_limits_set("lots", "25%", &err), TD_INVALID_ARGUMENT);
    CHECK_INT(td_memory_limits_set("0", "0", &err), TD_OK);
    CHECK_INT(td_budget_allowed(), 0);
}

TEST_MAIN(RUN(bytes_units_and_shares) RUN(other_texts_are_refused) RUN(the_least_of_the_groups_counts)
              RUN(groups_of_v1) RUN(both_limits_are_set))
