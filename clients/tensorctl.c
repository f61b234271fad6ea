/* clients/tensorctl.c - the command line client: a table of verbs from clients/verbs.def, the first argument
 * picks one.
 *
 * A verb gets the arguments from its own name on and returns the exit status: 0, 1 for a failure, 2 for
 * arguments that are not understood. Without a verb, or with one that is not there, the table is printed.
 * Verbs that talk to a server go through clients/tensord_client.h; those that work offline use libtensord
 * (clients/tensorctl_local.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "clients/cli.h"

static const struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *arguments, *what;
} verbs[] = {
#define VERB(name, arguments, what, usage) {#name, td_cli_##name, arguments, what},
#include "clients/verbs.def"
};
enum { N_VERBS = sizeof verbs / sizeof verbs[0] };

int main(int argc, char **argv)
{
    for (int i = 0; argc > 1 && i < N_VERBS; i++) {
        if (strcmp(argv[1], verbs[i].name) == 0) {
            return verbs[i].run(argc - 1, argv + 1);
        }
    }
    bool help = argc > 1 && strcmp(argv[1], "--help") == 0;
    FILE *to = help ? stdout : stderr;
    fprintf(to, "usage: tensorctl VERB ...\n");
    for (int i = 0; i < N_VERBS; i++) {
        fprintf(to, "  %-10s %-23s %s\n", verbs[i].name, verbs[i].arguments, verbs[i].what);
    }
    return help ? 0 : 2;
}
