/* clients/cli.h - the verbs of tensorctl: those that speak to a server, and those that need none.
 *
 * Each takes the arguments from its own name on (argv[0] is the verb) and returns the exit status: 0 done, 1
 * the server answered with an error (printed), 2 bad arguments (usage printed).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CLIENTS_CLI_H
#define TD_CLIENTS_CLI_H

int td_cli_predict(int argc, char **argv);   /* one Predict; inputs as JSON, dtypes from the signature */
int td_cli_models(int argc, char **argv);    /* every model with its versions and states */
int td_cli_status(int argc, char **argv);    /* the versions of one model */
int td_cli_reload(int argc, char **argv);    /* look for new versions now */
int td_cli_health(int argc, char **argv);    /* whether a server, or a model, serves */
int td_cli_functions(int argc, char **argv); /* what a model's signatures have compiled */
int td_cli_debug(int argc, char **argv); /* a signature node by node, against its compiled form, or placed */
int td_cli_finetune(int argc, char **argv); /* files and jobs: create, list, watch, pause, .. */
int td_cli_train(int argc, char **argv);    /* a job without a server: the tensord beside this program */
int td_cli_quantize(int argc, char **argv); /* lower precision: the same tensord */
int td_cli_devices(int argc, char **argv);  /* GPUs: of a server, or of this machine */
int td_cli_gradient(int argc, char **argv); /* the gradient of an output; of a SavedModel with --dir */

/* Without a server, through libtensord: */
int td_cli_run(int argc, char **argv);        /* runs a signature of a SavedModel directory */
int td_cli_inspect(int argc, char **argv);    /* signatures, gradients, ops, what is unsupported, sizes */
int td_cli_ops(int argc, char **argv);        /* the ops of this build, with dtypes */
int td_cli_checkpoint(int argc, char **argv); /* names, dtypes, shapes and sizes of variables */

#endif
