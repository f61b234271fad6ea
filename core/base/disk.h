/* core/base/disk.h - how many bytes of disk somebody may have: the scratch files of a version, or all that is
 * below the state directory.
 *
 * Who writes takes the bytes first. Nothing is given back: when what was taken reaches the limit, the folder
 * is walked and what lies there counts instead, and only then is more refused. So files that were replaced or
 * removed, also by other processes, are found out, and a folder is walked once in as many bytes as it may
 * have (and at most once a second where it is full).
 *
 * A file counts with the blocks it has, at least TD_DISK_FILE bytes, and so does a folder: many small files
 * are not free.
 *
 * Threads: any. A thread that has entered a disk has all that it writes by proto/bytes/file.h taken from it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_BASE_DISK_H
#define TD_CORE_BASE_DISK_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

enum { TD_DISK_FILE = 4096 };

struct td_disk;

struct td_disk_opts {
    const char *path;      /* the folder; it need not exist */
    const char *flag;      /* what errors call the limit, such as "--scratch_quota"; a constant */
    uint64_t most;         /* bytes; 0: no limit */
    struct td_disk *whole; /* what this one is a part of, which is taken from as well; NULL: of none */
};
/* Returns new, counted by walking the folder; NULL without memory. */
struct td_disk *td_disk_new(const struct td_disk_opts *o);
void td_disk_free(struct td_disk *d); /* accepts NULL */

/* bytes are about to be written. RESOURCE_EXHAUSTED names path (what for), limit and flag. d NULL: TD_OK. */
TD_MUST enum td_code td_disk_take(struct td_disk *d, uint64_t bytes, const char *path, struct td_err *err);
/* What counts as used now: at least what lies there. NULL: 0. */
uint64_t td_disk_used(const struct td_disk *d);
uint64_t td_disk_most(const struct td_disk *d); /* NULL, or no limit: 0 */

/* The state directory's, of the whole process: set once at start, borrowed; NULL before. */
void td_disk_set_state(struct td_disk *d);
struct td_disk *td_disk_state(void);

/* What the calling thread writes is taken from d (NULL: from nobody's) from now on. Returns what it was
 * before, to be entered again. */
struct td_disk *td_disk_enter(struct td_disk *d);
struct td_disk *td_disk_here(void);
/* Of threads that have entered none: for a process whose every file is below the state directory. Set before
 * they begin. */
void td_disk_set_default(struct td_disk *d);

#endif
