/* clients/tensorctl_args.h - what the wire verbs share: their options, and tensors as JSON.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CLIENTS_TENSORCTL_ARGS_H
#define TD_CLIENTS_TENSORCTL_ARGS_H

#include <jansson.h>

#include "clients/tensord_client.h"

#define TDC_MAX_OUTPUTS 64

struct tdc_args {
    const char *server; /* host:port; default 127.0.0.1:8500 */
    bool asks;          /* it was given */
    const char *model;  /* the positional argument; NULL none */
    const char *signature, *label, *inputs, *token;
    int64_t version;
    double timeout;
    const char *op_library;              /* of run and inspect: NULL none */
    const char *device_module, *restart; /* of devices: NULL none */
    bool json;
    /* of debug and run: */
    const char *mode, *values, *max_nodes, *rtol, *atol; /* NULL not given */
    const char *watch[TDC_MAX_OUTPUTS];
    int n_watch;
    bool eager, print_nodes, stop_on_nonfinite;
    /* of gradient: */
    const char *dir, *kind, *output_gradients, *vector, *unconnected; /* NULL not given */
    const char *targets[TDC_MAX_OUTPUTS], *wrt[TDC_MAX_OUTPUTS];
    int n_targets, n_wrt;
    bool recompute;
    /* of finetune: */
    const char *limit, *purpose; /* NULL not given */
    bool wait;
    const char *outputs[TDC_MAX_OUTPUTS];
    int n_outputs;
};
/* --server= --model= --signature= --version= --label= --inputs= --output= (repeatable) --token= --timeout=
 * --json, of run and inspect --op_library=, of devices
 * --device_module= --restart=, of the debugger --mode= --values= --max-nodes= --rtol= --atol=
 * --watch= (repeatable) --eager --print-nodes --stop-on-nonfinite, and of gradients --dir= --target= --wrt=
 * (both repeatable) --kind= --output-gradients= --vector= --unconnected= --recompute, of finetune --limit=
 * --purpose= --wait, each also as two words.
 * argv[0] is the verb. False, with the reason and the verb's usage on stderr, when an argument is not
 * understood or the positional one, `wanted` ("model", "directory"; NULL: none need be), is missing. */
bool tdc_args_parse(struct tdc_args *a, int argc, char **argv, const char *wanted);
/* What a verb's arguments are (clients/verbs.def), lines that end with one. */
const char *tdc_usage(const char *verb);
/* A client as the options say; NULL, told on stderr. */
struct tdc_client *tdc_args_open(const struct tdc_args *a);
/* Prints "verb: CODE: text" on stderr; returns 1. */
int tdc_args_failed(const char *verb, const struct tdc_error *err);

/* The debugger's options as the JSON object that it reads; freed with free(), NULL without memory. */
char *tdc_debug_options(const struct tdc_args *a);
/* The debugger's document: with a->json as it is, else the outputs, what differs, what was printed, and
 * (nodes) a table of the nodes. Returns the exit status. */
int tdc_debug_print(const char *document, const struct tdc_args *a, bool nodes);

/* JSON (nested lists, a number, a string, {"b64": ...}) as a tensor of t's name and dtype: fills in rank,
 * dims, data and bytes. data is freed with free(); of strings it holds the bytes too. False with a reason in
 * err. */
bool tdc_from_json(const json_t *v, struct tdc_tensor *t, struct tdc_error *err);
/* New reference; strings that are not UTF-8 as {"b64": ...}. NULL when a type has no JSON form or memory is
 * short. */
json_t *tdc_to_json(const struct tdc_tensor *t);

/* "NAME=JSON;NAME=JSON": cuts `text` in place into names; out has room for n_declared inputs, whose data are
 * freed with free(). Returns their number, or -1 with a reason in err. */
int tdc_inputs_read(char *text, const struct tdc_tensor *declared, int n_declared, struct tdc_tensor *out,
                    struct tdc_error *err);
/* One line "NAME: dtype[dims] = JSON"; v: the value, NULL where it has none. */
void tdc_line_print(const struct tdc_tensor *t, const json_t *v);
/* As such lines, or with a->json as one object. */
void tdc_outputs_print(const struct tdc_tensor *out, int n, const struct tdc_args *a, int64_t version);

#endif
