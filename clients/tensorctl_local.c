/* clients/tensorctl_local.c - the verbs that need no server: run, inspect, checkpoint, ops.
 *
 * They use the C API (server/tensord.h) alone. tensord_bytes and tdc_bytes have the same members, so string
 * tensors pass between the two without a copy.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clients/cli.h"
#include "clients/tensorctl_args.h"
#include "clients/tensorctl_tensors.h"
#include "server/tensord.h"

_Static_assert(sizeof(tensord_bytes) == sizeof(struct tdc_bytes),
               "string elements of both clients are alike");

enum { MAX_TENSORS = 256 };

static int failed(const char *verb, const tensord_error *err)
{
    struct tdc_error e = {.code = err->code};
    snprintf(e.text, sizeof e.text, "%s", err->message);
    return tdc_args_failed(verb, &e);
}

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ------------------------------------------------------------------ run */

static int print_results(tensord_tensor *rows, int n, const struct tdc_args *a)
{
    struct tdc_tensor *out = calloc((size_t)n + 1, sizeof *out);
    for (int i = 0; out != NULL && i < n; i++) {
        tdc_to_wire(&rows[i], &out[i]);
    }
    if (out != NULL) {
        tdc_outputs_print(out, n, a, 0);
    }
    free(out);
    return 0;
}

static int debug_inputs(tensord_model *m, const struct tdc_args *a, const tensord_tensor *given, int n)
{
    char *options = tdc_debug_options(a), *text = NULL;
    tensord_error err = {0};
    if (options == NULL || tensord_debug_json(m, a->signature, given, n, options, &text, &err)) {
        free(options);
        return failed("run", &err);
    }
    const bool placement =
        a->mode != NULL && strcmp(a->mode, "placement") == 0; /* which is all about nodes */
    int status = tdc_debug_print(text, a, a->print_nodes || placement);
    free(text);
    free(options);
    return status;
}

static int run_inputs(tensord_model *m, const struct tdc_args *a, const struct tdc_tensor *in, int n)
{
    tensord_tensor given[MAX_TENSORS], *rows;
    int n_rows;
    tensord_error err = {0};
    for (int i = 0; i < n; i++) {
        tdc_from_wire(&in[i], &given[i]);
    }
    if (a->eager || a->print_nodes || a->mode != NULL) {
        return debug_inputs(m, a, given, n);
    }
    double start = now_ms();
    if (tensord_run(m, a->signature, given, n, &rows, &n_rows, &err)) {
        return failed("run", &err);
    }
    fprintf(stderr, "answered in %.3f ms\n", now_ms() - start);
    print_results(rows, n_rows, a);
    tensord_results_free(rows, n_rows);
    return 0;
}

static int run_model(tensord_model *m, const struct tdc_args *a)
{
    tensord_tensor declared[MAX_TENSORS];
    struct tdc_tensor wire[MAX_TENSORS], in[MAX_TENSORS] = {{0}};
    struct tdc_error err = {0};
    int n = tensord_signature_tensors(m, a->signature, 0, declared, MAX_TENSORS);
    if (n < 0 || n > MAX_TENSORS) {
        fprintf(stderr, "tensorctl run: the model has no signature '%s'\n",
                a->signature == NULL ? "serving_default" : a->signature);
        return 1;
    }
    for (int i = 0; i < n; i++) {
        tdc_to_wire(&declared[i], &wire[i]);
    }
    char *text = strdup(a->inputs == NULL ? "" : a->inputs);
    int given = text == NULL ? -1 : tdc_inputs_read(text, wire, n, in, &err);
    int status = given < 0 ? tdc_args_failed("run", &err) : run_inputs(m, a, in, given);
    for (int i = 0; i < n; i++) {
        free((void *)in[i].data);
    }
    free(text);
    return status;
}

static tensord_model *open_model(const char *verb, const struct tdc_args *a)
{
    tensord_model *m = NULL;
    tensord_error err = {0};
    const tensord_options opts = {.op_library = a->op_library};
    if (tensord_load(a->model, &opts, &m, &err)) {
        failed(verb, &err);
        return NULL;
    }
    return m;
}

int td_cli_run(int argc, char **argv)
{
    struct tdc_args a;
    if (!tdc_args_parse(&a, argc, argv, "directory")) {
        return 2;
    }
    double start = now_ms();
    tensord_model *m = open_model("run", &a);
    if (m == NULL) {
        return 1;
    }
    fprintf(stderr, "loaded in %.3f ms\n", now_ms() - start);
    int status = run_model(m, &a);
    tensord_free(m);
    return status;
}

/* ------------------------------------------------------------------ documents */

static int print_document(char *text)
{
    if (text == NULL) {
        fprintf(stderr, "tensorctl: no memory\n");
        return 1;
    }
    puts(text);
    free(text);
    return 0;
}

int td_cli_inspect(int argc, char **argv)
{
    struct tdc_args a;
    if (!tdc_args_parse(&a, argc, argv, "directory")) {
        return 2;
    }
    tensord_model *m = open_model("inspect", &a);
    if (m == NULL) {
        return 1;
    }
    int status = print_document(tensord_inspect_json(m));
    tensord_free(m);
    return status;
}

int td_cli_checkpoint(int argc, char **argv)
{
    char *text;
    tensord_error err = {0};
    if (argc != 2) {
        fputs(tdc_usage("checkpoint"), stderr);
        return 2;
    }
    return tensord_checkpoint_json(argv[1], &text, &err) ? failed("checkpoint", &err) : print_document(text);
}

static void print_op(json_t *op, bool markdown)
{
    json_t *kernel = json_array_get(json_object_get(op, "kernels"), 0),
           *types = json_object_get(kernel, "types"), *list;
    const char *attr, *refused = json_string_value(json_object_get(op, "refused"));
    printf(markdown ? "| %s | " : "%-34s ", json_string_value(json_object_get(op, "name")));
    if (refused != NULL) {
        printf("refused: %s", refused);
    }
    json_object_foreach(types, attr, list)
    {
        size_t i;
        json_t *t;
        printf("%s: ", attr);
        json_array_foreach(list, i, t)
        {
            printf("%s%s", i ? " " : "", json_string_value(t));
        }
        printf("; ");
    }
    if (markdown) {
        const char *gradient = json_string_value(json_object_get(op, "gradient")),
                   *why = json_string_value(json_object_get(op, "gradient_why"));
        printf("| %s%s%s |", gradient, why == NULL ? "" : ": ", why == NULL ? "" : why);
    }
    putchar('\n');
}

/* Of every op whether it has a gradient: yes, not, or missing, and why. */
static void print_gradients(json_t *ops)
{
    size_t i;
    json_t *op;
    json_array_foreach(ops, i, op)
    {
        const char *why = json_string_value(json_object_get(op, "gradient_why"));
        printf("%-34s %-8s%s\n", json_string_value(json_object_get(op, "name")),
               json_string_value(json_object_get(op, "gradient")), why == NULL ? "" : why);
    }
}

int td_cli_ops(int argc, char **argv)
{
    const char *form = argc > 1 ? argv[1] : "";
    if (argc > 2 || (argc == 2 && strcmp(form, "--json") != 0 && strcmp(form, "--markdown") != 0 &&
                     strcmp(form, "--gradients") != 0)) {
        fputs(tdc_usage("ops"), stderr);
        return 2;
    }
    char *text = tensord_ops_json();
    if (text == NULL || strcmp(form, "--json") == 0) {
        return print_document(text);
    }
    json_t *doc = json_loads(text, 0, NULL), *ops = json_object_get(doc, "ops"), *op;
    size_t i;
    const bool markdown = strcmp(form, "--markdown") == 0;
    if (strcmp(form, "--gradients") == 0) {
        print_gradients(ops);
    } else {
        printf(markdown ? "| op | dtypes | gradient |\n|---|---|---|\n" : "%zu ops\n", json_array_size(ops));
        json_array_foreach(ops, i, op)
        {
            print_op(op, markdown);
        }
    }
    json_decref(doc);
    free(text);
    return 0;
}
