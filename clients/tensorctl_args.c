/* clients/tensorctl_args.c - options of the verbs that talk to a server or run a model: tables of names and
 * places, walked for each argument.
 *
 * Options that are texts stand in one table with where they go, switches in another; version, timeout and the
 * repeatable ones are read one by one. A value may follow its name behind '=' or as the next word. The first
 * word that is no option is the model or the directory. Usage texts come from clients/verbs.def. Nothing is
 * copied: texts point into argv.
 *
 * Errors are printed here, since a verb that is not understood ends at once. Does not: read JSON
 * (clients/tensorctl_json.c), check texts that only the server or the engine knows.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "clients/tensorctl_args.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SERVER "127.0.0.1:8500"

const char *tdc_usage(const char *verb)
{
    static const struct {
        const char *verb, *usage;
    } rows[] = {
#define VERB(name, arguments, what, usage) {#name, usage},
#include "clients/verbs.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].verb, verb) == 0) {
            return rows[i].usage;
        }
    }
    return "";
}

/* The value of --name=value or of --name value; NULL when argv[*i] is another option, *missing when it lacks
 * a value. */
static const char *value(const char *name, int argc, char **argv, int *i, bool *missing)
{
    const char *arg = argv[*i];
    const size_t n = strlen(name);
    if (strncmp(arg, "--", 2) != 0 || strncmp(arg + 2, name, n) != 0) {
        return NULL;
    }
    if (arg[2 + n] == '=') {
        return arg + n + 3;
    }
    if (arg[2 + n] != 0) {
        return NULL;
    }
    *missing = *i + 1 >= argc;
    return *missing ? NULL : argv[++*i];
}

static bool number(const char *text, int64_t *out)
{
    char *end;
    *out = strtoll(text, &end, 10);
    return *text && *end == 0;
}

static bool flag(struct tdc_args *a, const char *arg)
{
    const struct {
        const char *name;
        bool *to;
    } flags[] = {{"--json", &a->json},
                 {"--eager", &a->eager},
                 {"--print-nodes", &a->print_nodes},
                 {"--stop-on-nonfinite", &a->stop_on_nonfinite},
                 {"--recompute", &a->recompute},
                 {"--wait", &a->wait}};
    for (size_t k = 0; k < sizeof flags / sizeof flags[0]; k++) {
        if (strcmp(arg, flags[k].name) == 0) {
            *flags[k].to = true;
            return true;
        }
    }
    return false;
}

/* One option; false when it is none of ours or its value is wrong. */
static bool option(struct tdc_args *a, int argc, char **argv, int *i)
{
    const struct {
        const char *name, **to;
    } texts[] = {{"server", &a->server},
                 {"model", &a->model},
                 {"signature", &a->signature},
                 {"label", &a->label},
                 {"inputs", &a->inputs},
                 {"token", &a->token},
                 {"mode", &a->mode},
                 {"values", &a->values},
                 {"max-nodes", &a->max_nodes},
                 {"rtol", &a->rtol},
                 {"atol", &a->atol},
                 {"op_library", &a->op_library},
                 {"device_module", &a->device_module},
                 {"restart", &a->restart},
                 {"dir", &a->dir},
                 {"kind", &a->kind},
                 {"output-gradients", &a->output_gradients},
                 {"vector", &a->vector},
                 {"unconnected", &a->unconnected},
                 {"limit", &a->limit},
                 {"purpose", &a->purpose}};
    const struct {
        const char *name, **to;
        int *n;
    } lists[] = {{"output", a->outputs, &a->n_outputs},
                 {"watch", a->watch, &a->n_watch},
                 {"target", a->targets, &a->n_targets},
                 {"wrt", a->wrt, &a->n_wrt}};
    bool missing = false;
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
        const char *v = value(texts[k].name, argc, argv, i, &missing);
        if (v != NULL) {
            *texts[k].to = v;
            return true;
        }
    }
    const char *v = value("version", argc, argv, i, &missing);
    if (v != NULL) {
        return number(v, &a->version) && a->version > 0;
    }
    v = value("timeout", argc, argv, i, &missing);
    if (v != NULL) {
        char *end;
        a->timeout = strtod(v, &end);
        return *v && *end == 0 && a->timeout > 0;
    }
    for (size_t k = 0; k < sizeof lists / sizeof lists[0]; k++) {
        v = value(lists[k].name, argc, argv, i, &missing);
        if (v != NULL && *lists[k].n < TDC_MAX_OUTPUTS) {
            lists[k].to[(*lists[k].n)++] = v;
            return true;
        }
    }
    return !missing && flag(a, argv[*i]);
}

bool tdc_args_parse(struct tdc_args *a, int argc, char **argv, const char *wanted)
{
    *a = (struct tdc_args){.timeout = 60};
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-' && a->model == NULL) {
            a->model = argv[i];
        } else if (!option(a, argc, argv, &i)) {
            fprintf(stderr, "tensorctl: not understood: '%s'\n%s", argv[i < argc ? i : argc - 1],
                    tdc_usage(argv[0]));
            return false;
        }
    }
    a->asks = a->server != NULL;
    a->server = a->asks ? a->server : DEFAULT_SERVER;
    if (wanted != NULL && a->model == NULL) {
        fprintf(stderr, "tensorctl %s: which %s?\n%s", argv[0], wanted, tdc_usage(argv[0]));
        return false;
    }
    return true;
}

struct tdc_client *tdc_args_open(const struct tdc_args *a)
{
    struct tdc_error err = {0};
    struct tdc_client *c = tdc_open(a->server, a->token, &err);
    if (c == NULL) {
        fprintf(stderr, "tensorctl: %s\n", err.text);
        return NULL;
    }
    tdc_set_timeout(c, a->timeout);
    return c;
}

int tdc_args_failed(const char *verb, const struct tdc_error *err)
{
    static const char *const names[] = {
        "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
        "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
        "DATA_LOSS", "UNAUTHENTICATED"};
    const bool known = err->code >= 0 && err->code < (int)(sizeof names / sizeof names[0]);
    const bool where = strcmp(err->param, "id") != 0 && strstr(err->text, err->param) == NULL;
    fprintf(stderr, "tensorctl %s: %s: %s%s%s%s\n", verb, known ? names[err->code] : "UNKNOWN", err->text,
            where ? " (" : "", where ? err->param : "", where ? ")" : "");
    return 1;
}
