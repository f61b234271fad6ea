/* server/models/watch.h - lists the version folders of a model's base path.
 *
 * A version is a sub-directory (or a link to one) whose whole name is a decimal number; leading zeros are
 * fine. A base path that is itself a SavedModel counts as its own version 1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_WATCH_H
#define TD_SERVER_MODELS_WATCH_H

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

/* Changes when the files that publish a version change: its graph, its variables' index, and its
 * configuration. */
uint64_t td_watch_stamp(const char *version_dir);

#endif
