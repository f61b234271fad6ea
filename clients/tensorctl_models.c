/* clients/tensorctl_models.c - tensorctl models, status, health and reload: a list of versions, printed or
 * collected.
 *
 * One function shows a model either as lines or as a member of one JSON object. Listing all models asks for
 * the names first, then for each one's versions; a model that fails has a line of its own and does not end
 * the list. reload asks for new versions, waits for them on the server's side, and lists what is there then.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/cli.h"
#include "clients/tensorctl_args.h"

/* One model's versions: printed, or added to `all`. */
static int show(struct tdc_client *c, const char *model, json_t *all, struct tdc_error *err)
{
    struct tdc_status *rows;
    int n;
    const int rc = tdc_model_status(c, model, &rows, &n, err);
    if (rc != 0) {
        return rc;
    }
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        if (all == NULL) {
            printf("%-32s %-12lld %-10s %s\n", model, (long long)rows[i].version,
                   tdc_state_name(rows[i].state), rows[i].text);
        }
        json_array_append_new(list, json_pack("{s:I, s:s, s:i, s:s}", "version", (json_int_t)rows[i].version,
                                              "state", tdc_state_name(rows[i].state), "error_code",
                                              rows[i].code, "error_message", rows[i].text));
    }
    if (all != NULL) {
        json_object_set(all, model, list);
    }
    json_decref(list);
    tdc_free(rows);
    return 0;
}

static int show_all(struct tdc_client *c, json_t *all, struct tdc_error *err)
{
    char **names;
    int rc = tdc_models(c, &names, err);
    if (rc != 0) {
        return rc;
    }
    for (int i = 0; names[i] != NULL; i++) {
        struct tdc_error one;
        if (show(c, names[i], all, &one) != 0 && all == NULL) {
            printf("%-32s %-12s %-10s %s\n", names[i], "-", "-", one.text);
        }
    }
    tdc_free(names);
    return 0;
}

static int list(const char *verb, struct tdc_args *a)
{
    struct tdc_error err = {0};
    struct tdc_client *c = tdc_args_open(a);
    if (c == NULL) {
        return 1;
    }
    json_t *all = a->json ? json_object() : NULL;
    const int rc = a->model != NULL ? show(c, a->model, all, &err) : show_all(c, all, &err);
    if (rc == 0 && all != NULL) {
        json_dumpf(all, stdout, JSON_INDENT(2));
        printf("\n");
    }
    json_decref(all);
    tdc_close(c);
    return rc != 0 ? tdc_args_failed(verb, &err) : 0;
}

int td_cli_models(int argc, char **argv)
{
    struct tdc_args a;
    return tdc_args_parse(&a, argc, argv, NULL) ? list("models", &a) : 2;
}

int td_cli_status(int argc, char **argv)
{
    struct tdc_args a;
    return tdc_args_parse(&a, argc, argv, "model") ? list("status", &a) : 2;
}

int td_cli_health(int argc, char **argv)
{
    struct tdc_args a;
    struct tdc_error err = {0};
    bool serves = false;
    if (!tdc_args_parse(&a, argc, argv, NULL)) {
        return 2;
    }
    struct tdc_client *c = tdc_args_open(&a);
    if (c == NULL) {
        return 1;
    }
    const int rc = tdc_health(c, a.model != NULL ? a.model : "", &serves, &err);
    tdc_close(c);
    if (rc != 0) {
        return tdc_args_failed("health", &err);
    }
    if (a.json) {
        printf("{\"serving\": %s}\n", serves ? "true" : "false");
    } else {
        puts(serves ? "SERVING" : "NOT_SERVING");
    }
    return serves ? 0 : 1;
}

int td_cli_reload(int argc, char **argv)
{
    struct tdc_args a;
    struct tdc_error err = {0};
    if (!tdc_args_parse(&a, argc, argv, NULL)) {
        return 2;
    }
    struct tdc_client *c = tdc_args_open(&a);
    if (c == NULL) {
        return 1;
    }
    int rc = tdc_reload(c, a.model != NULL ? a.model : "", &err);
    tdc_close(c);
    return rc != 0 ? tdc_args_failed("reload", &err) : list("reload", &a);
}
