/* server/state_dir.c - a fixed place of root's, else below the user's cache; every folder on the way is made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/state_dir.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/log.h"

/* Creates path and what leads to it, for this user only. */
static bool make_dirs(char *path)
{
    for (char *c = path + 1; *c != '\0'; c++) {
        if (*c == '/') {
            *c = '\0';
            const bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
            *c = '/';
            if (!made) {
                return false;
            }
        }
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

void td_state_dir_choose(const char *given, char *path, size_t room)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;
    if (given[0] != '\0') {
        n = snprintf(path, room, "%s", given);
    } else if (geteuid() == 0) {
        n = snprintf(path, room, "/var/lib/tensord");
    } else if (cache != NULL && cache[0] == '/') {
        n = snprintf(path, room, "%s/tensord", cache);
    } else {
        n = snprintf(path, room, "%s/.cache/tensord", home != NULL ? home : "");
    }
    if (n < 0 || (size_t)n >= room || !make_dirs(path)) {
        td_log(TD_LOG_WARNING, NULL, "state directory '%s' cannot be made: %s; models have no scratch files",
               path, strerror(errno));
        path[0] = '\0';
    }
}
