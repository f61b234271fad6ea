/* server/state_dir.h - the folder that jobs, caches and the models' scratch files lie in.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_STATE_DIR_H
#define TD_SERVER_STATE_DIR_H

#include <stddef.h>

/* given (--state_dir), or where it is "" a folder of the user's: made, for this user alone, and written to
 * path. "" when there is none to be had, which the log tells. */
void td_state_dir_choose(const char *given, char *path, size_t room);

#endif
