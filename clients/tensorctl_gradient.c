/* clients/tensorctl_gradient.c - tensorctl gradient: of a server, or of a SavedModel through the C API.
 *
 * Both ways declare inputs and outputs, whose dtypes say how JSON is read: a gradient from above is of its
 * target's dtype, a vector of its source's. A variable's dtype is nowhere declared and taken for float.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/cli.h"
#include "clients/tensorctl_args.h"
#include "clients/tensorctl_tensors.h"
#include "server/tensord.h"

enum { MAX_TENSORS = 256, FLOAT = 1, INVALID = 3 };

/* What is given, read. */
struct given {
    char *text[3]; /* of inputs, output_gradients, vector: names point into it */
    struct tdc_tensor *t[3];
    int n[3];
};
enum { INPUTS, SEEDS, VECTORS };

static void free_given(struct given *g)
{
    for (int k = 0; k < 3; k++) {
        for (int i = 0; g->t[k] != NULL && i < g->n[k]; i++) {
            free((void *)g->t[k][i].data);
        }
        free(g->t[k]);
        free(g->text[k]);
    }
}

static bool read_part(struct given *g, int part, const char *text, const struct tdc_tensor *declared, int n,
                      struct tdc_error *err)
{
    g->text[part] = strdup(text != NULL ? text : "");
    g->t[part] = calloc((size_t)n + 1, sizeof *g->t[part]);
    err->code = 8;
    const int got = g->text[part] == NULL || g->t[part] == NULL
                        ? -1
                        : tdc_inputs_read(g->text[part], declared, n, g->t[part], err);
    g->n[part] = got < 0 ? n : got; /* those read before it failed are freed */
    return got >= 0;
}

/* What a vector may be given for: inputs, and the variables that are named. */
static struct tdc_tensor *sources(const struct tdc_args *a, const struct tdc_tensor *in, int n_in, int *n)
{
    struct tdc_tensor *all = calloc((size_t)(n_in + a->n_wrt) + 1, sizeof *all);
    *n = 0;
    for (int i = 0; all != NULL && i < n_in; i++) {
        all[(*n)++] = in[i];
    }
    for (int i = 0; all != NULL && i < a->n_wrt; i++) {
        if (strncmp(a->wrt[i], "var:", 4) == 0) {
            all[(*n)++] = (struct tdc_tensor){.name = a->wrt[i], .dtype = FLOAT};
        }
    }
    return all;
}

static bool read_given(struct given *g, const struct tdc_args *a, const struct tdc_tensor *in, int n_in,
                       const struct tdc_tensor *out, int n_out, struct tdc_error *err)
{
    int n = 0;
    struct tdc_tensor *all = sources(a, in, n_in, &n);
    const bool ok = all != NULL && read_part(g, INPUTS, a->inputs, in, n_in, err) &&
                    read_part(g, SEEDS, a->output_gradients, out, n_out, err) &&
                    read_part(g, VECTORS, a->vector, all, n, err);
    free(all);
    return ok;
}

static bool wants_zeros(const struct tdc_args *a, bool *zeros, struct tdc_error *err)
{
    *zeros = a->unconnected != NULL && strcmp(a->unconnected, "zero") == 0;
    if (a->unconnected == NULL || *zeros || strcmp(a->unconnected, "none") == 0) {
        return true;
    }
    err->code = INVALID;
    snprintf(err->text, sizeof err->text, "--unconnected is '%.100s'; it must be none or zero",
             a->unconnected);
    return false;
}

/* ------------------------------------------------------------------ the answer */

static json_t *values_of(const struct tdc_tensor *t, int n, const char *heading, bool print)
{
    json_t *all = json_object();
    for (int i = 0; i < n; i++) {
        json_t *v = t[i].dtype == 0 ? json_null() : tdc_to_json(&t[i]);
        if (print && t[i].dtype == 0) {
            printf("%s%s: nothing leads to it\n", heading, t[i].name);
        } else if (print) {
            printf("%s", heading);
            tdc_line_print(&t[i], v);
        }
        json_object_set_new(all, t[i].name, v != NULL ? v : json_null());
    }
    return all;
}

static void print_answer(const struct tdc_gradients *g, const struct tdc_args *a)
{
    json_t *gradients = values_of(g->gradients, g->n_gradients, "gradient by ", !a->json);
    json_t *outputs = values_of(g->outputs, g->n_outputs, "", !a->json);
    json_t *answer = json_pack("{s:s, s:I, s:o, s:o}", "model", a->dir != NULL ? a->dir : a->model, "version",
                               (json_int_t)g->version, "gradients", gradients, "outputs", outputs);
    if (a->json && answer != NULL) {
        json_dumpf(answer, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        printf("\n");
    }
    json_decref(answer);
}

/* ------------------------------------------------------------------ of a server */

static int ask_server(struct tdc_client *c, const struct tdc_args *a, const struct given *g, bool zeros,
                      struct tdc_error *err)
{
    const struct tdc_ask ask = {.model = a->model,
                                .version = a->version,
                                .label = a->label,
                                .signature = a->signature,
                                .inputs = g->t[INPUTS],
                                .n_inputs = g->n[INPUTS]};
    const struct tdc_gradient_ask what = {.targets = a->targets,
                                          .n_targets = a->n_targets,
                                          .wrt = a->wrt,
                                          .n_wrt = a->n_wrt,
                                          .kind = a->kind,
                                          .output_gradients = g->t[SEEDS],
                                          .n_output_gradients = g->n[SEEDS],
                                          .vectors = g->t[VECTORS],
                                          .n_vectors = g->n[VECTORS],
                                          .zeros = zeros,
                                          .recompute = a->recompute};
    struct tdc_gradients made;
    const int rc = tdc_gradient(c, &ask, &what, &made, err);
    if (rc == 0) {
        print_answer(&made, a);
        tdc_free(made.gradients);
        tdc_free(made.outputs);
    }
    return rc;
}

static int of_server(const struct tdc_args *a, struct tdc_error *err)
{
    struct tdc_tensor *in = NULL, *out = NULL;
    struct given g = {0};
    int n_in = 0, n_out = 0;
    bool zeros;
    struct tdc_client *c = tdc_args_open(a);
    if (c == NULL) {
        return 1;
    }
    int rc = wants_zeros(a, &zeros, err) ? 0 : err->code;
    rc = rc != 0 ? rc : tdc_signature(c, a->model, a->signature, false, &in, &n_in, err);
    rc = rc != 0 ? rc : tdc_signature(c, a->model, a->signature, true, &out, &n_out, err);
    if (rc == 0) {
        rc = read_given(&g, a, in, n_in, out, n_out, err) ? ask_server(c, a, &g, zeros, err) : err->code;
    }
    free_given(&g);
    tdc_free(in);
    tdc_free(out);
    tdc_close(c);
    return rc == 0 ? 0 : tdc_args_failed("gradient", err);
}

/* ------------------------------------------------------------------ of a SavedModel */

static tensord_tensor *all_from_wire(const struct tdc_tensor *t, int n)
{
    tensord_tensor *out = calloc((size_t)n + 1, sizeof *out);
    for (int i = 0; out != NULL && i < n; i++) {
        tdc_from_wire(&t[i], &out[i]);
    }
    return out;
}

static struct tdc_tensor *all_to_wire(const tensord_tensor *t, int n)
{
    struct tdc_tensor *out = calloc((size_t)n + 1, sizeof *out);
    for (int i = 0; out != NULL && i < n; i++) {
        tdc_to_wire(&t[i], &out[i]);
    }
    return out;
}

static int take_error(const tensord_error *from, struct tdc_error *to)
{
    to->code = from->code;
    snprintf(to->text, sizeof to->text, "%s", from->message);
    return to->code;
}

static int ask_library(tensord_model *m, const struct tdc_args *a, const struct given *g, bool zeros,
                       struct tdc_error *err)
{
    tensord_tensor *in = all_from_wire(g->t[INPUTS], g->n[INPUTS]),
                   *seeds = all_from_wire(g->t[SEEDS], g->n[SEEDS]),
                   *vectors = all_from_wire(g->t[VECTORS], g->n[VECTORS]);
    const tensord_gradient_options opts = {.targets = a->targets,
                                           .n_targets = a->n_targets,
                                           .wrt = a->wrt,
                                           .n_wrt = a->n_wrt,
                                           .kind = a->kind,
                                           .output_gradients = seeds,
                                           .n_output_gradients = g->n[SEEDS],
                                           .vectors = vectors,
                                           .n_vectors = g->n[VECTORS],
                                           .zero_unconnected = zeros,
                                           .recompute = a->recompute};
    tensord_gradient_result made = {0};
    tensord_error why = {.code = 8, .message = "no memory"};
    const bool ok = in != NULL && seeds != NULL && vectors != NULL &&
                    tensord_gradient(m, a->signature, in, g->n[INPUTS], &opts, &made, &why) == 0;
    if (ok) {
        const struct tdc_gradients shown = {.gradients = all_to_wire(made.gradients, made.n_gradients),
                                            .outputs = all_to_wire(made.outputs, made.n_outputs),
                                            .n_gradients = made.n_gradients,
                                            .n_outputs = made.n_outputs};
        if (shown.gradients != NULL && shown.outputs != NULL) {
            print_answer(&shown, a);
        }
        free(shown.gradients);
        free(shown.outputs);
        tensord_results_free(made.gradients, made.n_gradients);
        tensord_results_free(made.outputs, made.n_outputs);
    }
    free(in);
    free(seeds);
    free(vectors);
    return ok ? 0 : take_error(&why, err);
}

static int declared(tensord_model *m, const struct tdc_args *a, bool output, struct tdc_tensor *out, int *n,
                    struct tdc_error *err)
{
    tensord_tensor rows[MAX_TENSORS];
    *n = tensord_signature_tensors(m, a->signature, output, rows, MAX_TENSORS);
    if (*n < 0 || *n > MAX_TENSORS) {
        err->code = INVALID;
        snprintf(err->text, sizeof err->text, "the model has no signature '%.200s'",
                 a->signature == NULL ? "serving_default" : a->signature);
        return err->code;
    }
    for (int i = 0; i < *n; i++) {
        tdc_to_wire(&rows[i], &out[i]);
    }
    return 0;
}

static int of_directory(const struct tdc_args *a, struct tdc_error *err)
{
    struct tdc_tensor in[MAX_TENSORS], out[MAX_TENSORS];
    struct given g = {0};
    int n_in = 0, n_out = 0;
    bool zeros;
    tensord_model *m = NULL;
    tensord_error why = {0};
    const tensord_options opts = {.op_library = a->op_library};
    int rc = wants_zeros(a, &zeros, err) ? 0 : err->code;
    rc = rc != 0 || tensord_load(a->dir, &opts, &m, &why) == 0 ? rc : take_error(&why, err);
    rc = rc != 0 ? rc : declared(m, a, false, in, &n_in, err);
    rc = rc != 0 ? rc : declared(m, a, true, out, &n_out, err);
    if (rc == 0) {
        rc = read_given(&g, a, in, n_in, out, n_out, err) ? ask_library(m, a, &g, zeros, err) : err->code;
    }
    free_given(&g);
    tensord_free(m);
    return rc == 0 ? 0 : tdc_args_failed("gradient", err);
}

int td_cli_gradient(int argc, char **argv)
{
    struct tdc_args a;
    struct tdc_error err = {0};
    if (!tdc_args_parse(&a, argc, argv, NULL)) {
        return 2;
    }
    if ((a.model == NULL) == (a.dir == NULL)) {
        fprintf(stderr, "tensorctl gradient: which model, or --dir?\n%s", tdc_usage("gradient"));
        return 2;
    }
    return a.dir != NULL ? of_directory(&a, &err) : of_server(&a, &err);
}
