/* server/job_command.h - `tensord train --job=ID ..`: the process that a server starts for a job.
 *
 *   tensord train --job=ID --attempt=N --parent=PID --state_dir=DIR [flags of the server]
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_JOB_COMMAND_H
#define TD_SERVER_JOB_COMMAND_H

#include <stdbool.h>

/* Whether a command line is of that form: nobody types it. */
bool td_job_command_is(int argc, char *const *argv);
/* Returns what the process exits with. */
int td_job_command(int argc, char *const *argv);

#endif
