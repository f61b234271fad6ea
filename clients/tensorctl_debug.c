/* clients/tensorctl_debug.c - tensorctl debug and functions: options as JSON, the documents that come back as
 * tables.
 *
 * Options go to the server as they were given; it checks them. The document may hold NaN and Infinity, which
 * are no JSON: they are put in quotes outside of strings before jansson reads it. What cannot be read is
 * printed as it is. Printing walks the document by its keys and leaves out what is not there, so a newer
 * server's additions do no harm.
 *
 * tensorctl run prints its documents through here too. Does not: compare or compute anything itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/cli.h"
#include "clients/tensorctl_args.h"

/* ------------------------------------------------------------------ options */

static void put_number(json_t *o, const char *key, const char *text)
{
    if (text != NULL) {
        json_object_set_new(o, key, json_real(strtod(text, NULL)));
    }
}

char *tdc_debug_options(const struct tdc_args *a)
{
    json_t *o = json_object(), *watch = json_array();
    json_object_set_new(o, "mode", json_string(a->mode != NULL ? a->mode : "eager"));
    if (a->values != NULL) {
        json_object_set_new(o, "values", json_string(a->values));
    }
    for (int i = 0; i < a->n_watch; i++) {
        json_array_append_new(watch, json_string(a->watch[i]));
    }
    json_object_set_new(o, "watch", watch);
    json_object_set_new(o, "stop_on_nonfinite", json_boolean(a->stop_on_nonfinite));
    put_number(o, "max_nodes", a->max_nodes);
    put_number(o, "rtol", a->rtol);
    put_number(o, "atol", a->atol);
    char *text = json_dumps(o, 0);
    json_decref(o);
    return text;
}

/* ------------------------------------------------------------------ the document */

/* A copy in which NaN and Infinity, which jansson does not read, are strings. NULL without memory. */
static char *quote_nonfinite(const char *s)
{
    static const char *const words[] = {"NaN", "-Infinity", "Infinity"};
    char *copy = malloc(2 * strlen(s) + 1), *to = copy;
    bool quoted = false;
    while (copy != NULL && *s != 0) {
        size_t n = 0;
        for (int i = 0; !quoted && n == 0 && i < 3; i++) {
            n = strncmp(s, words[i], strlen(words[i])) == 0 ? strlen(words[i]) : 0;
        }
        if (n > 0) {
            *to++ = '"';
            memcpy(to, s, n);
            to += n;
            *to++ = '"';
            s += n;
            continue;
        }
        quoted ^= *s == '"';
        if (quoted && *s == '\\' && s[1] != 0) {
            *to++ = *s++;
        }
        *to++ = *s++;
    }
    if (copy != NULL) {
        *to = 0;
    }
    return copy;
}

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s != NULL ? s : "";
}

static void print_range(const json_t *out)
{
    const json_t *shape = json_object_get(out, "shape"), *d;
    size_t i;
    printf("%s[", strncmp(text_of(out, "dtype"), "DT_", 3) == 0 ? text_of(out, "dtype") + 3 : "dead");
    json_array_foreach((json_t *)shape, i, d)
    {
        printf("%s%s", i > 0 ? "," : "", json_string_value(d));
    }
    printf("]");
    if (json_is_number(json_object_get(out, "min"))) {
        printf(" %.6g .. %.6g mean %.6g", json_number_value(json_object_get(out, "min")),
               json_number_value(json_object_get(out, "max")),
               json_number_value(json_object_get(out, "mean")));
    }
    const json_int_t nan = json_integer_value(json_object_get(out, "nan")),
                     inf = json_integer_value(json_object_get(out, "inf"));
    if (nan > 0 || inf > 0) {
        printf(" nan %lld inf %lld", (long long)nan, (long long)inf);
    }
    const json_t *value = json_object_get(out, "value");
    char *full = value != NULL && !json_is_null(value)
                     ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9))
                     : NULL;
    printf(full != NULL ? " = %s" : "%s", full != NULL ? full : "");
    free(full);
}

static void print_node(const json_t *n, bool placed)
{
    const json_t *outputs = json_object_get(n, "outputs"), *o;
    size_t i;
    if (placed) {
        printf("%-14s %-8s %-28s %-22s %s%s", text_of(n, "placed"), text_of(n, "device"),
               text_of(n, "kernel"), text_of(n, "op"), text_of(n, "path"), text_of(n, "name"));
        printf(*text_of(n, "why") ? "   (%s)\n" : "%s\n", text_of(n, "why"));
        return;
    }
    printf("%10.1f us  %-24s %-20s %s%s", json_number_value(json_object_get(n, "us")), text_of(n, "kernel"),
           text_of(n, "op"), text_of(n, "path"), text_of(n, "name"));
    json_array_foreach((json_t *)outputs, i, o)
    {
        printf(i > 0 ? "; " : "  ");
        print_range(o);
    }
    const json_t *difference = json_object_get(n, "max_abs_difference");
    if (difference != NULL) {
        printf("  difference %.3g", json_number_value(difference));
    }
    printf("\n");
}

static void print_comparison(const json_t *doc)
{
    const json_t *first = json_object_get(doc, "first_difference");
    if (strcmp(text_of(doc, "mode"), "compare") != 0) {
        return;
    }
    printf("compared %lld of %lld nodes, rtol %g, atol %g, state %s\n",
           (long long)json_integer_value(json_object_get(doc, "compared_nodes")),
           (long long)json_integer_value(json_object_get(doc, "nodes_run")),
           json_number_value(json_object_get(doc, "rtol")), json_number_value(json_object_get(doc, "atol")),
           text_of(doc, "state"));
    if (!json_is_object(first)) {
        printf("no difference\n");
        return;
    }
    char *text = json_dumps(first, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    printf("first difference: %s\n", text != NULL ? text : "?");
    free(text);
}

static void print_outputs(const json_t *doc)
{
    const char *name;
    json_t *v;
    json_object_foreach(json_object_get(doc, "outputs"), name, v)
    {
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
        printf("%s = %s\n", name, text != NULL ? text : "?");
        free(text);
    }
}

static int print_document(const json_t *doc, bool nodes)
{
    const json_t *rows = json_object_get(doc, "nodes"), *prints = json_object_get(doc, "prints"), *row;
    const json_t *error = json_object_get(doc, "error");
    size_t i;
    json_array_foreach((json_t *)rows, i, row)
    {
        if (nodes) {
            print_node(row, strcmp(text_of(doc, "mode"), "placement") == 0);
        }
    }
    if (json_is_true(json_object_get(doc, "truncated"))) {
        printf("... more nodes or prints than were asked for\n");
    }
    json_array_foreach((json_t *)prints, i, row)
    {
        printf("printed: %s", json_string_value(row));
        printf("\n");
    }
    print_comparison(doc);
    if (*text_of(doc, "stopped")) {
        printf("stopped at %s\n", text_of(doc, "stopped"));
    }
    print_outputs(doc);
    if (json_is_object(error)) {
        fprintf(stderr, "tensorctl: %s: %s\n", text_of(error, "code"), text_of(error, "message"));
    }
    return json_is_object(error);
}

int tdc_debug_print(const char *document, const struct tdc_args *a, bool nodes)
{
    if (a->json) {
        fputs(document, stdout);
        return 0;
    }
    char *copy = quote_nonfinite(document);
    json_t *doc = copy != NULL ? json_loads(copy, 0, NULL) : NULL;
    free(copy);
    if (doc == NULL) {
        fputs(document, stdout);
        return 0;
    }
    const int status = print_document(doc, nodes);
    json_decref(doc);
    return status;
}

/* ------------------------------------------------------------------ verbs */

static struct tdc_ask ask_of(const struct tdc_args *a)
{
    return (struct tdc_ask){.model = a->model,
                            .version = a->version,
                            .label = a->label,
                            .signature = a->signature,
                            .outputs = a->outputs,
                            .n_outputs = a->n_outputs};
}

static int debug(struct tdc_client *c, const struct tdc_args *a, char *inputs, char **json,
                 struct tdc_error *err)
{
    struct tdc_tensor *declared = NULL, *in = NULL;
    struct tdc_ask ask = ask_of(a);
    int n = 0, given = 0, rc = 0;
    if (a->mode == NULL || strcmp(a->mode, "placement") != 0) {
        rc = tdc_signature(c, a->model, a->signature, false, &declared, &n, err);
        if (rc != 0) {
            return rc;
        }
        in = calloc((size_t)n + 1, sizeof *in);
        given = in != NULL ? tdc_inputs_read(inputs, declared, n, in, err) : -1;
    }
    char *options = tdc_debug_options(a);
    ask.inputs = in;
    ask.n_inputs = given;
    rc = given < 0 ? (err->code != 0 ? err->code : 8)
                   : tdc_debug(c, &ask, options != NULL ? options : "{}", json, err);
    for (int i = 0; in != NULL && i < n; i++) {
        free((void *)in[i].data);
    }
    free(in);
    free(options);
    tdc_free(declared);
    return rc;
}

/* Parses arguments and opens a client; NULL with the exit status in *status. */
static struct tdc_client *begin(struct tdc_args *a, int argc, char **argv, int *status)
{
    *status = 2;
    if (!tdc_args_parse(a, argc, argv, "model")) {
        return NULL;
    }
    *status = 1;
    return tdc_args_open(a);
}

int td_cli_debug(int argc, char **argv)
{
    struct tdc_args a;
    struct tdc_error err = {0};
    char *json = NULL;
    int status;
    struct tdc_client *c = begin(&a, argc, argv, &status);
    if (c == NULL) {
        return status;
    }
    char *inputs = strdup(a.inputs != NULL ? a.inputs : "");
    const int rc = inputs == NULL ? 8 : debug(c, &a, inputs, &json, &err);
    status = rc != 0 ? tdc_args_failed("debug", &err) : tdc_debug_print(json, &a, true);
    tdc_free(json);
    free(inputs);
    tdc_close(c);
    return status;
}

static void print_gradients(const json_t *list)
{
    const json_t *g;
    size_t i;
    json_array_foreach((json_t *)list, i, g)
    {
        char *target = json_dumps(json_object_get(g, "target"), 0),
             *wrt = json_dumps(json_object_get(g, "wrt"), 0);
        printf("  %s of %s by %s: traces %lld, %lld bytes\n", text_of(g, "kind"),
               target != NULL ? target : "?", wrt != NULL ? wrt : "?",
               (long long)json_integer_value(json_object_get(g, "traces")),
               (long long)json_integer_value(json_object_get(g, "bytes")));
        free(target);
        free(wrt);
    }
}

static void print_function(const json_t *f)
{
    const json_t *concrete = json_object_get(f, "concrete"), *row;
    size_t i;
    printf("%s\n  traces %lld, evictions %lld\n", text_of(f, "signature"),
           (long long)json_integer_value(json_object_get(f, "traces")),
           (long long)json_integer_value(json_object_get(f, "evictions")));
    json_array_foreach((json_t *)concrete, i, row)
    {
        char *in = json_dumps(json_object_get(row, "inputs"), 0),
             *kernels = json_dumps(json_object_get(row, "kernels"), 0);
        printf("  %s\n    calls %s, traced in %.2f ms, %lld bytes, %lld nodes in %lld steps\n    %s\n",
               in != NULL ? in : "?", text_of(row, "calls"),
               json_number_value(json_object_get(row, "trace_ms")),
               (long long)json_integer_value(json_object_get(row, "bytes")),
               (long long)json_integer_value(json_object_get(row, "graph_nodes")),
               (long long)json_integer_value(json_object_get(row, "plan_steps")),
               kernels != NULL ? kernels : "?");
        free(in);
        free(kernels);
    }
    print_gradients(json_object_get(f, "gradients"));
}

int td_cli_functions(int argc, char **argv)
{
    struct tdc_args a;
    struct tdc_error err = {0};
    char *json = NULL;
    int status;
    struct tdc_client *c = begin(&a, argc, argv, &status);
    if (c == NULL) {
        return status;
    }
    const struct tdc_ask ask = ask_of(&a);
    const int rc = tdc_functions(c, &ask, &json, &err);
    json_t *doc = rc == 0 && !a.json ? json_loads(json, 0, NULL) : NULL, *f;
    size_t i;
    if (rc == 0 && doc == NULL) {
        fputs(json, stdout);
    }
    json_array_foreach(json_object_get(doc, "functions"), i, f)
    {
        print_function(f);
    }
    json_decref(doc);
    tdc_free(json);
    tdc_close(c);
    return rc != 0 ? tdc_args_failed("functions", &err) : 0;
}
