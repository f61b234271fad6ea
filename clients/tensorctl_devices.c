/* clients/tensorctl_devices.c - tensorctl devices: the document of GET /v1/devices as lines, of a server, or
 * made here by libtensord; or the restart of one of a server's.
 *
 * What a device does not tell, the lines leave out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clients/cli.h"
#include "clients/tensorctl_args.h"
#include "server/tensord.h"

static const char *text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s != NULL ? s : "";
}

static long long number_of(const json_t *o, const char *key)
{
    return (long long)json_integer_value(json_object_get(o, key));
}

static void print_bytes(const json_t *o, const char *key, const char *before)
{
    const json_t *v = json_object_get(o, key);
    if (v != NULL) {
        printf("%s%s %.2f GiB", before, key, (double)json_integer_value(v) / (double)(1 << 30));
    }
}

static void print_reading(const json_t *o, const char *key, double unit, const char *of)
{
    const json_t *v = json_object_get(o, key);
    if (v != NULL) {
        printf("  %s %.0f%s", key, json_number_value(v) * unit, of);
    }
}

static void print_device(const json_t *d)
{
    const json_t *memory = json_object_get(d, "memory"), *streams = json_object_get(d, "streams");
    static const char *const keys[] = {"unused", "limit", "held", "most"};
    printf("%s  %s, compute capability %s, %lld multiprocessors, PCI %s%s%s\n", text_of(d, "name"),
           text_of(d, "model"), text_of(d, "compute_capability"), number_of(d, "multiprocessors"),
           text_of(d, "pci"), *text_of(d, "uuid") ? ", " : "", text_of(d, "uuid"));
    print_bytes(memory, "total", "  memory: ");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        print_bytes(memory, keys[i], ", ");
    }
    putchar('\n');
    if (streams != NULL) {
        printf("  streams: open %lld, used %lld by %lld runs, ", number_of(streams, "open"),
               number_of(streams, "used"), number_of(streams, "runs"));
        printf(number_of(streams, "limit") > 0 ? "limit %lld\n" : "one for each run\n",
               number_of(streams, "limit"));
    }
    if (json_is_false(json_object_get(d, "in_service"))) {
        printf("  out of service: an error has left it unusable for the server's process\n");
    }
    if (json_object_get(d, "utilization") != NULL || json_object_get(d, "temperature") != NULL) {
        print_reading(d, "utilization", 100, "%");
        print_reading(d, "temperature", 1, " C");
        print_reading(d, "power", 1, " W");
        putchar('\n');
    }
}

static void print_devices(const json_t *doc)
{
    const json_t *list = json_object_get(doc, "devices"), *versions = json_object_get(doc, "versions"), *d;
    size_t i;
    json_array_foreach((json_t *)list, i, d)
    {
        print_device(d);
    }
    if (json_array_size(list) == 0) {
        printf("models run on the CPU: %s\n", text_of(doc, "missing"));
        return;
    }
    printf("CUDA %s, the driver serves %s", text_of(versions, "cuda"), text_of(versions, "driver_cuda"));
    printf(*text_of(versions, "driver") ? "; driver %s\n" : "%s\n", text_of(versions, "driver"));
}

/* What a restart came to. */
static void print_restart(const json_t *doc)
{
    const json_t *lost = json_object_get(doc, "lost"), *version, *name;
    size_t i, k;
    printf("%s is in service again\n", text_of(doc, "restarted"));
    json_array_foreach((json_t *)lost, i, version)
    {
        printf("  lost: %s version %s, to be loaded again:", text_of(version, "model"),
               text_of(version, "version"));
        json_array_foreach(json_object_get(version, "variables"), k, name)
        {
            printf(" %s", json_string_value(name));
        }
        putchar('\n');
    }
}

/* Of the server, or of this machine; *text is freed with free(). */
static int ask(const struct tdc_args *a, char **text, struct tdc_error *err)
{
    if (!a->asks && a->restart == NULL) {
        tensord_error e = {0};
        const int rc = tensord_devices_json(a->device_module, text, &e);
        err->code = e.code;
        snprintf(err->text, sizeof err->text, "%s", e.message);
        return rc;
    }
    struct tdc_client *c = tdc_args_open(a);
    const int rc = c == NULL            ? -1
                   : a->restart == NULL ? tdc_devices(c, text, err)
                                        : tdc_restart_device(c, a->restart, text, err);
    tdc_close(c);
    return rc;
}

int td_cli_devices(int argc, char **argv)
{
    struct tdc_args a;
    struct tdc_error err = {0};
    char *text = NULL;
    if (!tdc_args_parse(&a, argc, argv, NULL)) {
        return 2;
    }
    if (a.model != NULL) {
        fputs(tdc_usage("devices"), stderr);
        return 2;
    }
    const int rc = ask(&a, &text, &err);
    if (rc != 0) {
        return rc < 0 ? 1 : tdc_args_failed("devices", &err);
    }
    json_t *doc = a.json ? NULL : json_loads(text, 0, NULL);
    if (doc == NULL) {
        puts(text);
    } else if (a.restart != NULL) {
        print_restart(doc);
    } else {
        print_devices(doc);
    }
    json_decref(doc);
    free(text);
    return 0;
}
