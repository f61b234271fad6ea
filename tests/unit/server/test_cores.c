/* tests/unit/server/test_cores.c - processors under control groups, in made-up trees.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/cores.h"

#include <sched.h>

#include "tests/test.h"
#include "tests/unit/temp_dir.h"

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

static int of_mask(void)
{
    cpu_set_t mask;
    CHECK_INT(sched_getaffinity(0, sizeof mask, &mask), 0);
    return CPU_COUNT(&mask);
}

TEST(without_groups_the_affinity_mask_counts)
{
    struct temp_dir d = temp_dir_make();
    const char *root = d.path;
    CHECK_INT(td_cores_usable(root), of_mask());
    temp_dir_remove(&d);
}

TEST(a_quota_is_rounded_up)
{
    struct temp_dir d = temp_dir_make();
    const char *root = d.path;
    write_below(root, "proc/self/cgroup", "0::/a/b\n");
    write_below(root, "sys/fs/cgroup/a/b/cpu.max", "25000 100000\n");
    CHECK_INT(td_cores_usable(root), 1);
    write_below(root, "sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
    CHECK_INT(td_cores_usable(root), of_mask() < 2 ? of_mask() : 2);
    temp_dir_remove(&d);
}

TEST(a_group_around_ours_counts_too)
{
    struct temp_dir d = temp_dir_make();
    const char *root = d.path;
    write_below(root, "proc/self/cgroup", "0::/a/b\n");
    write_below(root, "sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    write_below(root, "sys/fs/cgroup/a/cpu.max", "100000 100000\n");
    CHECK_INT(td_cores_usable(root), 1);
    temp_dir_remove(&d);
}

TEST(the_first_version_of_groups_is_read)
{
    struct temp_dir d = temp_dir_make();
    const char *root = d.path;
    write_below(root, "proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/x\n");
    write_below(root, "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "90000\n");
    write_below(root, "sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    CHECK_INT(td_cores_usable(root), 1);
    write_below(root, "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
    CHECK_INT(td_cores_usable(root), of_mask());
    temp_dir_remove(&d);
}

TEST(groups_of_other_controllers_have_other_places)
{
    struct temp_dir d = temp_dir_make();
    const char *root = d.path;
    write_below(root, "proc/self/cgroup", "5:cpuset:/x\n4:cpuacct:/x\n3:memory,cpu:/y\n");
    write_below(root, "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "90000\n");
    write_below(root, "sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
    CHECK_INT(td_cores_usable(root), of_mask());
    write_below(root, "sys/fs/cgroup/cpu/y/cpu.cfs_quota_us", "90000\n");
    write_below(root, "sys/fs/cgroup/cpu/y/cpu.cfs_period_us", "100000\n");
    CHECK_INT(td_cores_usable(root), 1);
    temp_dir_remove(&d);
}

TEST_MAIN(RUN(without_groups_the_affinity_mask_counts) RUN(a_quota_is_rounded_up)
              RUN(a_group_around_ours_counts_too) RUN(the_first_version_of_groups_is_read)
                  RUN(groups_of_other_controllers_have_other_places))
