/* server/base/options.h - the command line of the daemon, parsed.
 *
 * One row of options.def per flag; a flag becomes a member of the same name. Texts borrow from argv.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_BASE_OPTIONS_H
#define TD_SERVER_BASE_OPTIONS_H

#include <stdint.h>

#include "core/base/status.h"

#define TD_PORT_AUTO (-1)
#define TD_MAX_LIST 64

/* The values of a flag that may be given several times. */
struct td_texts {
    const char *at[TD_MAX_LIST];
    int n;
};

struct td_options {
#define BOOL(name, ...) bool name;
#define INT(name, ...) int64_t name;
#define REAL(name, ...) double name;
#define TEXT(name, ...) const char *name;
#define PORT(name, ...) int name; /* 0 off, TD_PORT_AUTO a free one */
#define LIST(name, ...) struct td_texts name;
#include "server/base/options.def"
    const char *dir; /* the positional argument: a model directory; NULL none */
    int n_unknown;   /* arguments that are no flag; each has been named on stderr */
};

/* Fills in defaults, then argv[1..argc). An unknown argument is named on stderr with the usage and skipped,
 * as TF Serving does; a flag without meaning here costs one warning line. INVALID_ARGUMENT names the flag
 * whose value does not parse or is out of range, or the flags that contradict each other. */
TD_MUST enum td_code td_options_parse(struct td_options *o, int argc, char *const *argv, struct td_err *err);
/* The usage text, every flag with its default, to a file descriptor. */
void td_options_usage(int fd);

#endif
