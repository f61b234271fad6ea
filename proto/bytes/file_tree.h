/* proto/bytes/file_tree.h - whole directories: made, copied so that the copy survives a power cut, removed.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_BYTES_FILE_TREE_H
#define TD_PROTO_BYTES_FILE_TREE_H

#include <sys/stat.h>

#include "core/base/status.h"

/* Creates path and what leads to it, where they are not there; mode as mkdir's. */
TD_MUST enum td_code td_tree_make(const char *path, mode_t mode, struct td_err *err);
/* Says whether the entry `name` of directory `dir` (a path in the source) is left out. */
typedef bool td_tree_skip_fn(void *ctx, const char *dir, const char *name);
/* Creates `to` with all files and directories of `from`, all on disk when this returns. Links are followed
 * beneath the folder `root`, from or one above it (core/base/beneath.h); PERMISSION_DENIED for one that leads
 * out of it. What is neither file nor directory is left out; skip may be NULL. On failure some of `to` may be
 * there. */
TD_MUST enum td_code td_tree_copy(const char *root, const char *from, const char *to, td_tree_skip_fn *skip,
                                  void *ctx, struct td_err *err);
/* Removes path and all below it; links are not followed. What is not there is no error. */
TD_MUST enum td_code td_tree_remove(const char *path, struct td_err *err);

#endif
