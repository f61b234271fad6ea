/* server/command_args.h - the arguments of `tensord VERB ..`: --name=value or --name value, and one more.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_COMMAND_ARGS_H
#define TD_SERVER_COMMAND_ARGS_H

#include "core/base/status.h"

struct td_command_option {
    const char *name;   /* without dashes */
    const char **value; /* set to the last that is given; borrowed from argv */
};
struct td_command_args {
    const struct td_command_option *options;
    int n_options;
    const char *what;   /* the argument that is no option: "job" */
    const char **place; /* where it goes */
    bool help;          /* --help was there: nothing else counts */
};
/* argv[0] is the verb. INVALID_ARGUMENT: no such option, one without its value, a second `what`. */
TD_MUST enum td_code td_command_args_read(struct td_command_args *a, int argc, char **argv,
                                          struct td_err *err);

#endif
