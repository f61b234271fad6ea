/* server/base/cores.c - the affinity mask, cut to the CPU quota of the control groups, rounded up.
 *
 * Nothing is kept between calls. Does not: count hyper-threads or NUMA nodes, notice a quota that changes
 * later.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/cores.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/base/cgroup.h"

/* "QUOTA PERIOD" or "max PERIOD": processors. */
static double quota_v2(const char *folder)
{
    char line[64];
    double quota = 0, period = 0;
    const bool is_set = td_cgroup_line(folder, "cpu.max", line, sizeof line) &&
                        sscanf(line, "%lf %lf", &quota, &period) == 2 && period > 0;
    return is_set ? quota / period : TD_CGROUP_NONE;
}

static double quota_v1(const char *folder)
{
    char line[64];
    const double quota =
        td_cgroup_line(folder, "cpu.cfs_quota_us", line, sizeof line) ? strtod(line, NULL) : -1;
    const double period =
        td_cgroup_line(folder, "cpu.cfs_period_us", line, sizeof line) ? strtod(line, NULL) : 0;
    return quota > 0 && period > 0 ? quota / period : TD_CGROUP_NONE;
}

int td_cores_usable(const char *root)
{
    cpu_set_t mask;
    long n = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : sysconf(_SC_NPROCESSORS_ONLN);
    const double quota = td_cgroup_least(root, "cpu", quota_v1, quota_v2);
    if (quota < (double)n) {
        n = (long)quota + ((double)(long)quota < quota);
    }
    return n > 0 ? (int)n : 1;
}
