/* server/train_command.h - `tensord train job.json`: a fine-tuning job without a server.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_COMMAND_H
#define TD_SERVER_TRAIN_COMMAND_H

/* argv[0] is "train". The process's exit status: td_train_exit_status. */
int td_train_command(int argc, char **argv);

#endif
