/* server/models/watch.h - lists the version folders of a model's base path.
 *
 * A version is a sub-directory (or a link to one) whose whole name is a decimal number; leading zeros are
 * fine. A base path that is itself a SavedModel counts as its own version 1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_WATCH_H
#define TD_SERVER_MODELS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

struct td_version_dir {
    int64_t version;
    char *path;
};

/* Highest version first, in an array for td_watch_free; none is no error. NOT_FOUND when base_path does not
 * exist, other codes when it cannot be read. */
TD_MUST enum td_code td_watch_list(const char *base_path, struct td_version_dir **out, int *n,
                                   struct td_err *err);
void td_watch_free(struct td_version_dir *dirs, int n);

/* What one look at the files of a version has seen. Numbers are equal for files that are as they were: same
 * places (inodes), sizes and times of change. */
struct td_watch_seen {
    uint64_t stamp;    /* of all that a load reads: what follows, warm-up requests, configuration */
    uint64_t model;    /* of its SavedModel: graph, variables, assets */
    uint64_t weights;  /* of the checkpoint's data files: what is mapped while a version serves.. */
    uint64_t places;   /* ..and of which files these are, whatever they hold */
    uint64_t bytes;    /* of these files together */
    int64_t newest_ns; /* CLOCK_REALTIME: when the youngest of all was touched (ctime); 0: there are none */
};
void td_watch_look(const char *version_dir, struct td_watch_seen *out);

/* Where a look went: files whose state counts, and folders whose lists of names do. */
struct td_watch_place {
    char *path;
    int of;      /* what td_watch_add_file is told of a file */
    bool folder; /* may be missing */
};
struct td_watch_trail {
    struct td_watch_place *places;
    int n, room;
    bool broken; /* memory was short: it is not all */
};
/* The same, and adds to the trail. */
void td_watch_look_along(const char *version_dir, struct td_watch_trail *trail, struct td_watch_seen *out);
void td_watch_trail_fini(struct td_watch_trail *t);
/* Adds a file, if it is there, as a look does. */
void td_watch_add_file(struct td_watch_seen *seen, const char *path, int of);

#endif
