/* server/quantize_command.h - `tensord quantize DIR`: has a model computed in lower precision, and says what
 * that does to its answers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_QUANTIZE_COMMAND_H
#define TD_SERVER_QUANTIZE_COMMAND_H

/* argv[0] is "quantize". The process's exit status: 0 done, 2 it cannot be done as it is asked for, 1
 * anything else. */
int td_quantize_command(int argc, char **argv);

#endif
