/* server/base/cgroup.c - from a group's folder up to the mount point.
 *
 * /proc/self/cgroup names this process's group in each hierarchy; v2 is the line without controllers, v1 the
 * one that lists the controller. Every group from ours to the mount point counts, since a group gets no more
 * than those around it. What cannot be read counts as no limit: in a container the path is often the host's
 * and not there, while the mount point itself states the container's limits.
 *
 * Nothing is kept between calls. Does not: notice a limit that changes later.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/base/cgroup.h"

#include <stdio.h>
#include <string.h>

#define MAX_PATH_BYTES 4096

static bool read_line(const char *path, char *line, int room)
{
    FILE *f = fopen(path, "re");
    const bool ok = f != NULL && fgets(line, room, f) != NULL;
    if (f != NULL) {
        (void)fclose(f);
    }
    return ok;
}

bool td_cgroup_line(const char *folder, const char *name, char *line, int room)
{
    char path[MAX_PATH_BYTES + 64];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path && read_line(path, line, room);
}

static double least_above(const char *mount, const char *group, td_cgroup_fn *limit)
{
    char folder[MAX_PATH_BYTES];
    const size_t keep = strlen(mount);
    double least = TD_CGROUP_NONE;
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", mount, group) >= sizeof folder) {
        return TD_CGROUP_NONE;
    }
    for (;;) {
        const double at = limit(folder);
        char *cut = strrchr(folder, '/');
        least = at < least ? at : least;
        if (strlen(folder) <= keep || cut == NULL || (size_t)(cut - folder) < keep) {
            return least;
        }
        *cut = '\0';
    }
}

/* Whether a list with commas names the controller: "cpuset" is another one than "cpu". */
static bool lists(const char *list, const char *controller)
{
    const size_t n = strlen(controller);
    for (; *list != '\0'; list += strcspn(list, ",")) {
        list += *list == ',';
        if (strcspn(list, ",") == n && strncmp(list, controller, n) == 0) {
            return true;
        }
    }
    return false;
}

/* Lines are ID:CONTROLLERS:PATH; v2 has no controllers. */
double td_cgroup_least(const char *root, const char *controller, td_cgroup_fn *v1, td_cgroup_fn *v2)
{
    char path[MAX_PATH_BYTES], line[MAX_PATH_BYTES];
    double least = TD_CGROUP_NONE;
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
        const bool is_v2 = controllers[1] == '\0';
        if (!is_v2 && !lists(controllers + 1, controller)) {
            continue;
        }
        char mount[MAX_PATH_BYTES];
        (void)snprintf(mount, sizeof mount, is_v2 ? "%s/sys/fs/cgroup" : "%s/sys/fs/cgroup/%s", root,
                       controller);
        const double at = least_above(mount, strcmp(group, "/") == 0 ? "" : group, is_v2 ? v2 : v1);
        least = at < least ? at : least;
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return least;
}
