/* clients/tensorctl.c - the command line client: one verb, its arguments.
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
