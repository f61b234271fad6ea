/* clients/tensorctl_predict.c - tensorctl predict: inputs as NAME=JSON, the signature's dtypes, one request,
 * outputs as text or JSON.
 *
 * The text of inputs is cut in place: a value ends at a ';' outside of strings and brackets. The server's
 * signature is asked for first, because JSON does not say what a number's dtype is. Everything read is freed
 * in one place, whatever failed; the exit status is 1 for any failure of the request and 2 for arguments.
 *
 * tensorctl run and debug read and print through the same functions. Does not: stack or repeat requests.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/cli.h"
#include "clients/tensorctl_args.h"

/* The length of the JSON value text begins with, up to a ';' outside of strings and brackets. */
static size_t value_length(const char *text)
{
    int depth = 0;
    bool quoted = false;
    size_t i = 0;
    for (; text[i] && (quoted || depth > 0 || text[i] != ';'); i++) {
        if (quoted) {
            i += text[i] == '\\' && text[i + 1];
            quoted = text[i] != '"';
        } else {
            quoted = text[i] == '"';
            depth += (text[i] == '[' || text[i] == '{') - (text[i] == ']' || text[i] == '}');
        }
    }
    return i;
}

static bool read_input(char *name, const char *json, size_t n, const struct tdc_tensor *declared,
                       int n_declared, struct tdc_tensor *out, struct tdc_error *err)
{
    const struct tdc_tensor *info = NULL;
    for (int i = 0; i < n_declared; i++) {
        info = strcmp(declared[i].name, name) == 0 ? &declared[i] : info;
    }
    err->code = 3;
    if (info == NULL) {
        snprintf(err->text, sizeof err->text, "the signature has no input '%s'", name);
        return false;
    }
    json_error_t bad;
    json_t *v = json_loadb(json, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &bad);
    if (v == NULL) {
        snprintf(err->text, sizeof err->text, "input '%s': %s", name, bad.text);
        return false;
    }
    *out = (struct tdc_tensor){.name = name, .dtype = info->dtype};
    const bool ok = tdc_from_json(v, out, err);
    json_decref(v);
    return ok;
}

int tdc_inputs_read(char *text, const struct tdc_tensor *declared, int n_declared, struct tdc_tensor *out,
                    struct tdc_error *err)
{
    int n = 0;
    while (*text) {
        char *equals = strchr(text, '=');
        if (equals == NULL || n == n_declared) {
            err->code = 3;
            snprintf(err->text, sizeof err->text, "inputs are written NAME=JSON, each once: '%.100s'", text);
            return -1;
        }
        *equals = 0;
        const size_t len = value_length(equals + 1);
        if (!read_input(text, equals + 1, len, declared, n_declared, &out[n], err)) {
            return -1;
        }
        n++;
        text = equals + 1 + len;
        text += *text == ';';
    }
    return n;
}

void tdc_line_print(const struct tdc_tensor *t, const json_t *v)
{
    printf("%s: %s[", t->name, tdc_dtype_name(t->dtype));
    for (int k = 0; k < t->rank; k++) {
        printf("%s%lld", k ? "," : "", (long long)t->dims[k]);
    }
    char *text = v != NULL ? json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    printf("] = %s\n", text != NULL ? text : "?");
    free(text);
}

void tdc_outputs_print(const struct tdc_tensor *out, int n, const struct tdc_args *a, int64_t version)
{
    json_t *all = json_object();
    for (int i = 0; i < n; i++) {
        json_t *v = tdc_to_json(&out[i]);
        if (!a->json) {
            tdc_line_print(&out[i], v);
        }
        json_object_set_new(all, out[i].name, v != NULL ? v : json_null());
    }
    if (a->json) {
        json_t *answer =
            json_pack("{s:s, s:I, s:O}", "model", a->model, "version", (json_int_t)version, "outputs", all);
        json_dumpf(answer, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        printf("\n");
        json_decref(answer);
    }
    json_decref(all);
}

static int run(struct tdc_client *c, const struct tdc_args *a, char *text, const struct tdc_tensor *declared,
               int n_declared, struct tdc_error *err)
{
    struct tdc_tensor *in = calloc((size_t)n_declared + 1, sizeof *in), *out;
    const int n = in != NULL ? tdc_inputs_read(text, declared, n_declared, in, err) : -1;
    int n_out, rc = err->code;
    int64_t version;
    if (n >= 0) {
        const struct tdc_ask ask = {.model = a->model,
                                    .version = a->version,
                                    .label = a->label,
                                    .signature = a->signature,
                                    .inputs = in,
                                    .n_inputs = n,
                                    .outputs = a->outputs,
                                    .n_outputs = a->n_outputs};
        rc = tdc_predict(c, &ask, &out, &n_out, &version, err);
    }
    if (n >= 0 && rc == 0) {
        tdc_outputs_print(out, n_out, a, version);
        tdc_free(out);
    }
    for (int i = 0; in != NULL && i < n_declared; i++) {
        free((void *)in[i].data);
    }
    free(in);
    return rc;
}

int td_cli_predict(int argc, char **argv)
{
    struct tdc_args a;
    struct tdc_error err = {0};
    if (!tdc_args_parse(&a, argc, argv, "model")) {
        return 2;
    }
    struct tdc_client *c = tdc_args_open(&a);
    struct tdc_tensor *declared = NULL;
    int n = 0;
    char *text = strdup(a.inputs != NULL ? a.inputs : "");
    if (c == NULL || text == NULL) {
        free(text);
        return 1;
    }
    int rc = tdc_signature(c, a.model, a.signature, false, &declared, &n, &err);
    if (rc == 0) {
        rc = run(c, &a, text, declared, n, &err);
        tdc_free(declared);
    }
    tdc_close(c);
    free(text);
    return rc != 0 ? tdc_args_failed("predict", &err) : 0;
}
