/* core/base/beneath.h - files of a model are opened beneath its folder, or not at all.
 *
 * A root is the path of a folder; it may itself be a link, to anywhere, and may have links above it: what
 * counts is the folder that it leads to when the file is opened. A path begins with its root. Links and ".."
 * below the root are followed as long as they stay in that folder, absolute ones too. Beside it counts what
 * Kubernetes publishes: the folder that `..data` beside the root leads to, when it lies in the folder that
 * holds the root.
 *
 * Any thread; nothing is kept. A file that lies beneath the root cannot be exchanged for one outside by
 * changing links meanwhile. Hard links and mounts are not looked at.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_BENEATH_H
#define TD_CORE_BASE_BENEATH_H

#include "core/base/status.h"

/* Opens the regular file `path`, root or a path below it, for reading; *fd is the caller's to close. root
 * NULL: anywhere, for paths that the operator has named. Never waits: a FIFO or a device is
 * INVALID_ARGUMENT. NOT_FOUND; PERMISSION_DENIED for what may not be read, and for what leads out of the root
 * (naming the link and the rule). */
TD_MUST enum td_code td_beneath_open(const char *root, const char *path, int *fd, struct td_err *err);
/* Likewise a folder. INVALID_ARGUMENT for what is none. */
TD_MUST enum td_code td_beneath_open_dir(const char *root, const char *path, int *fd, struct td_err *err);
/* What path leads to beneath the root: its st_mode's kind (S_IFREG, S_IFDIR, ...). */
TD_MUST enum td_code td_beneath_kind(const char *root, const char *path, unsigned *kind, struct td_err *err);

/* For tests: works as on a kernel without openat2 from now on, or again with it. */
void td_beneath_use_openat2(bool yes);

#endif
