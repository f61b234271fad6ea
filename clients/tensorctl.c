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
    const char *what;
} verbs[] = {
    {"inspect", td_cli_inspect,
     "DIR                     signatures, ops, what is unsupported, sizes of a SavedModel"},
    {"run", td_cli_run, "DIR --inputs 'x=[[1]]'  run a signature without a server"},
    {"checkpoint", td_cli_checkpoint,
     "DIR                     names, dtypes, shapes and bytes of its variables"},
    {"ops", td_cli_ops, "[--json | --markdown]   the ops of this build"},
    {"predict", td_cli_predict, "MODEL --inputs ...      ask a server"},
    {"models", td_cli_models, "                        the models of a server"},
    {"status", td_cli_status, "MODEL                   the versions of a model"},
    {"functions", td_cli_functions, "MODEL                   what its signatures have compiled"},
    {"debug", td_cli_debug, "MODEL --mode MODE ...   node by node, against the compiled form, or kernels"},
    {"reload", td_cli_reload, "MODEL                   look for new versions now"},
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
        fprintf(to, "  %-10s %s\n", verbs[i].name, verbs[i].what);
    }
    return help ? 0 : 2;
}
