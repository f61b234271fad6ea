/* server/base/cgroup.h - what the control groups of this process allow it, of v1 and v2.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_CGROUP_H
#define TD_SERVER_BASE_CGROUP_H

#include <stdbool.h>

#define TD_CGROUP_NONE 1e300 /* there is no limit */

/* The limit that a group's folder states; TD_CGROUP_NONE where it states none. */
typedef double td_cgroup_fn(const char *folder);

/* The least limit of this process's group and of all groups around it, in v2's hierarchy and in the one of
 * v1 that has the controller ("cpu", "memory"); TD_CGROUP_NONE. root is "" outside tests: a folder put before
 * /proc and /sys. */
double td_cgroup_least(const char *root, const char *controller, td_cgroup_fn *v1, td_cgroup_fn *v2);
/* The first line of FOLDER/NAME, cut at room bytes; false: it cannot be read. */
bool td_cgroup_line(const char *folder, const char *name, char *line, int room);

#endif
