/* server/command_args.c - options by a table.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/command_args.h"

#include <string.h>

static const char **value_of(const struct td_command_args *a, const char *name, size_t n)
{
    for (int i = 0; i < a->n_options; i++) {
        if (strlen(a->options[i].name) == n && strncmp(a->options[i].name, name, n) == 0) {
            return a->options[i].value;
        }
    }
    return NULL;
}

static enum td_code take_option(struct td_command_args *a, int *i, int argc, char **argv, struct td_err *err)
{
    const char *name = argv[*i] + 2, *equals = strchr(name, '=');
    const size_t n = equals != NULL ? (size_t)(equals - name) : strlen(name);
    if (strcmp(name, "help") == 0) {
        a->help = true;
        return TD_OK;
    }
    const char **to = value_of(a, name, n);
    TD_FAIL_IF(to == NULL, err, INVALID_ARGUMENT, "tensord %s has no option --%.*s", argv[0], (int)n, name);
    TD_FAIL_IF(equals == NULL && *i + 1 >= argc, err, INVALID_ARGUMENT, "--%.*s needs a value", (int)n, name);
    *to = equals != NULL ? equals + 1 : argv[++*i];
    return TD_OK;
}

enum td_code td_command_args_read(struct td_command_args *a, int argc, char **argv, struct td_err *err)
{
    for (int i = 1; i < argc && !a->help; i++) {
        if (strncmp(argv[i], "--", 2) == 0) {
            TD_TRY(take_option(a, &i, argc, argv, err));
        } else {
            TD_FAIL_IF(*a->place != NULL, err, INVALID_ARGUMENT, "one %s at a time: '%s' and '%s'", a->what,
                       *a->place, argv[i]);
            *a->place = argv[i];
        }
    }
    return TD_OK;
}
