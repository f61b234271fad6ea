/* server/base/cores.c - the affinity mask, cut to the CPU quota of the control groups.
 *
 * /proc/self/cgroup names this process's group in each hierarchy; v2 is the line without controllers, v1 the
 * one that lists "cpu". From the group's folder up to the mount point every quota counts, since a group gets
 * no more than those around it; the least one, rounded up, bounds the processors of the mask. What cannot be
 * read counts as no quota.
 *
 * Nothing is kept between calls. Does not: count hyper-threads or NUMA nodes, notice a quota that changes
 * later.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/cores.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PATH_BYTES 4096
#define NO_QUOTA 1e9

static bool read_line(const char *path, char *line, int room)
{
    FILE *f = fopen(path, "re");
    const bool ok = f != NULL && fgets(line, room, f) != NULL;
    if (f != NULL) {
        (void)fclose(f);
    }
    return ok;
}

/* "QUOTA PERIOD" or "max PERIOD": processors, or NO_QUOTA. */
static double quota_v2(const char *folder)
{
    char path[MAX_PATH_BYTES + 16], line[64];
    double quota = 0, period = 0;
    (void)snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!read_line(path, line, sizeof line) || sscanf(line, "%lf %lf", &quota, &period) != 2 || period <= 0) {
        return NO_QUOTA;
    }
    return quota / period;
}

static double quota_v1(const char *folder)
{
    char path[MAX_PATH_BYTES + 32], line[64];
    (void)snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    const double quota = read_line(path, line, sizeof line) ? strtod(line, NULL) : -1;
    (void)snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    const double period = read_line(path, line, sizeof line) ? strtod(line, NULL) : 0;
    return quota > 0 && period > 0 ? quota / period : NO_QUOTA;
}

/* The least quota of the group and of all groups around it, up to the mount point. */
static double least_quota(const char *mount, const char *group, double (*quota)(const char *folder))
{
    char folder[MAX_PATH_BYTES];
    const size_t keep = strlen(mount);
    double least = NO_QUOTA;
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", mount, group) >= sizeof folder) {
        return NO_QUOTA;
    }
    for (;;) {
        const double q = quota(folder);
        char *cut = strrchr(folder, '/');
        least = q < least ? q : least;
        if (strlen(folder) <= keep || cut == NULL || (size_t)(cut - folder) < keep) {
            return least;
        }
        *cut = '\0';
    }
}

/* Whether "cpu" is one of the names of a list with commas: "cpuset" and "cpuacct" are other hierarchies. */
static bool names_cpu(const char *list)
{
    for (; *list != '\0'; list += strcspn(list, ",")) {
        list += *list == ',';
        if (strcspn(list, ",") == 3 && strncmp(list, "cpu", 3) == 0) {
            return true;
        }
    }
    return false;
}

/* Lines of /proc/self/cgroup are ID:CONTROLLERS:PATH; v2 has no controllers. */
static double group_quota(const char *root)
{
    char path[MAX_PATH_BYTES], line[MAX_PATH_BYTES];
    double least = NO_QUOTA;
    (void)snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':'),
             *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        const bool v2 = controllers[1] == '\0';
        if (!v2 && !names_cpu(controllers + 1)) {
            continue;
        }
        char mount[MAX_PATH_BYTES];
        (void)snprintf(mount, sizeof mount, v2 ? "%s/sys/fs/cgroup" : "%s/sys/fs/cgroup/cpu", root);
        const double q = least_quota(mount, strcmp(group, "/") == 0 ? "" : group, v2 ? quota_v2 : quota_v1);
        least = q < least ? q : least;
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return least;
}

int td_cores_usable(const char *root)
{
    cpu_set_t mask;
    long n = sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : sysconf(_SC_NPROCESSORS_ONLN);
    const double quota = group_quota(root);
    if (quota < (double)n) {
        n = (long)quota + ((double)(long)quota < quota);
    }
    return n > 0 ? (int)n : 1;
}
