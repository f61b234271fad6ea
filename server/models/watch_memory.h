/* server/models/watch_memory.h - looks at folders again and again, and asks the file system for little when
 * nothing has changed.
 *
 * A folder whose time of change is as it was has the same names in it; so of a version that was looked at
 * before only its folders and files are asked for their state, and no folder is read. What comes out is what
 * server/models/watch.h says.
 *
 * Threads: one at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_WATCH_MEMORY_H
#define TD_SERVER_MODELS_WATCH_MEMORY_H

#include "server/models/watch.h"

struct td_watch_memory;

/* Returns new, or NULL without memory; where one is taken, NULL remembers nothing. */
struct td_watch_memory *td_watch_memory_new(void);
void td_watch_memory_free(struct td_watch_memory *m); /* accepts NULL */

/* td_watch_list and td_watch_look. */
TD_MUST enum td_code td_watch_memory_list(struct td_watch_memory *m, const char *base_path,
                                          struct td_version_dir **out, int *n, struct td_err *err);
void td_watch_memory_look(struct td_watch_memory *m, const char *version_dir, struct td_watch_seen *out);
/* A round ends: what was not asked for since the last one did is forgotten. */
void td_watch_memory_round(struct td_watch_memory *m);

#endif
