/* server/models/devices.c - looks for a driver, loads the module, checks it, opens its devices, adds its
 * rows; in this order, and the first thing that is missing ends it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/devices.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/mem.h"

#define DRIVER "libcuda.so.1"
#define MODULE "tensord_cuda.so"

struct one {
    int number;               /* the module's */
    struct td_device *device; /* NULL: it was only looked at */
    struct td_device_facts facts;
};

struct td_devices {
    void *driver, *library;
    const struct td_device_module *module;
    struct td_nvml *nvml;
    struct one *at;
    int n;
    struct td_err missing; /* why n is 0 */
};

/* ------------------------------------------------------------------ the module */

static const char *dl_reason(void)
{
    const char *why = dlerror();
    return why == NULL ? "unknown reason" : why;
}

/* Beside the program or library that this is part of, or where it was installed. */
static bool find_module(char *path, size_t room)
{
    static const char *const places[] = {"", "../lib/tensord/", "tensord/"};
    Dl_info here;
    char program[PATH_MAX];
    const bool named = dladdr((void *)(uintptr_t)find_module, &here) != 0 && here.dli_fname != NULL &&
                       realpath(here.dli_fname, program) != NULL;
    const char *slash = named ? strrchr(program, '/') : NULL;
    for (size_t i = 0; slash != NULL && i < sizeof places / sizeof *places; i++) {
        const int n = snprintf(path, room, "%.*s/%s" MODULE, (int)(slash - program), program, places[i]);
        if (n > 0 && (size_t)n < room && access(path, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

static enum td_code check_module(const struct td_device_module *m, struct td_err *err)
{
    TD_FAIL_IF(m == NULL || m->version != TD_DEVICE_MODULE_VERSION, err, FAILED_PRECONDITION,
               "it speaks version %u of the interface, this program version %d", m == NULL ? 0 : m->version,
               TD_DEVICE_MODULE_VERSION);
    TD_FAIL_IF(m->layout != td_device_module_layout() || strcmp(m->build, TENSORD_VERSION) != 0, err,
               FAILED_PRECONDITION, "it was built with tensord %.40s of other sources, this is %s", m->build,
               TENSORD_VERSION);
    return TD_OK;
}

static enum td_code load_from(struct td_devices *d, const char *path, struct td_err *err)
{
    d->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    TD_FAIL_IF(d->library == NULL, err, FAILED_PRECONDITION, "it cannot be loaded: %s", dl_reason());
    td_device_module_entry *entry;
    void *symbol = dlsym(d->library, TD_DEVICE_MODULE_ENTRY);
    TD_FAIL_IF(symbol == NULL, err, FAILED_PRECONDITION,
               "it has no function " TD_DEVICE_MODULE_ENTRY ": it is no device module");
    memcpy(&entry, &symbol,
           sizeof entry); /* ISO C has no cast from an object pointer to a function pointer */
    const struct td_device_module *m = entry(&td_module_host);
    TD_TRY(check_module(m, err));
    d->module = m;
    return TD_OK;
}

static enum td_code load_module(struct td_devices *d, const char *given, struct td_err *err)
{
    char path[PATH_MAX];
    const bool named = given != NULL && given[0] != '\0';
    TD_FAIL_IF(!named && !find_module(path, sizeof path), err, FAILED_PRECONDITION,
               MODULE " is neither beside this program nor in its lib/tensord (--device_module says where)");
    if (load_from(d, named ? given : path, err)) {
        return td_err_wrap(err, "module %s", named ? given : path);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ its device */

static bool is_word(const char *text, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(text, word, n) == 0;
}

/* NAME=NUMBER, of n bytes. */
static bool set_option(const char *text, size_t n, struct td_device_opts *out)
{
    const char *number = memchr(text, '=', n);
    const size_t name = number == NULL ? 0 : (size_t)(number - text);
    char *end = NULL;
    const double value = number == NULL ? -1 : strtod(number + 1, &end);
    if (number == NULL || end != text + n || end == number + 1 || !(value >= 0)) {
        return false;
    }
    if (is_word(text, name, "streams") && value <= INT_MAX) {
        out->streams = (int)value;
    } else if (is_word(text, name, "memory_limit") && value < 0x1p63) {
        out->limit = (uint64_t)value;
    } else if (is_word(text, name, "memory_fraction") && value <= 1) {
        out->fraction = value;
    } else if (is_word(text, name, "graph_run") && value <= INT_MAX) {
        out->graph_run = (int)value;
    } else if (is_word(text, name, "pinned_memory") && value < 0x1p63) {
        out->pinned = (uint64_t)value;
    } else if (is_word(text, name, "tf32") && (value == 0 || value == 1)) {
        out->tf32 = value == 1;
    } else {
        return false;
    }
    return true;
}

enum td_code td_devices_options(const char *text, struct td_device_opts *out, struct td_err *err)
{
    while (text != NULL && *text != '\0') {
        const size_t n = strcspn(text, ",");
        TD_FAIL_IF(!set_option(text, n, out), err, INVALID_ARGUMENT,
                   "device option '%.*s' is none: streams=N, memory_limit=BYTES, memory_fraction=SHARE, "
                   "pinned_memory=BYTES, graph_run=N, tf32=0|1",
                   (int)(n < 60 ? n : 60), text);
        text += n + (text[n] == ',');
    }
    return TD_OK;
}

static enum td_code add_rows(const struct td_device_module *m, struct td_engine *engine, struct td_err *err)
{
    for (int f = 0; m->families[f] != NULL; f++) {
        for (const struct td_op_rows *r = m->families[f]; r->op != NULL; r++) {
            TD_TRY(td_engine_add_kernels(engine, r->op, r->rows, err));
        }
    }
    return TD_OK;
}

/* The driver and the module; how many devices they show. */
static enum td_code find_devices(struct td_devices *d, const char *module, int *n, struct td_err *err)
{
    d->driver = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    TD_FAIL_IF(d->driver == NULL, err, FAILED_PRECONDITION, "there is no NVIDIA driver: %s", dl_reason());
    TD_TRY(load_module(d, module, err));
    return d->module->count(n, err);
}

static enum td_code make_room(struct td_devices *d, int n, struct td_err *err)
{
    d->at = td_calloc((size_t)n, sizeof *d->at);
    if (d->at == NULL) {
        return td_no_memory(err, (size_t)n * sizeof *d->at, "devices");
    }
    d->nvml = td_nvml_open();
    return TD_OK;
}

static enum td_code open_one(struct td_devices *d, const struct td_devices_opts *o, int number,
                             struct td_err *err)
{
    struct td_device_opts opts = o->device;
    struct one *to = &d->at[d->n];
    opts.number = to->number = number;
    TD_TRY(d->module->describe(number, &to->facts, err));
    TD_TRY(d->module->open(&opts, &to->device, err));
    d->n++;
    return TD_OK;
}

/* Those that can be used; an error when none can: the first one's. */
static enum td_code open_devices(struct td_devices *d, const struct td_devices_opts *o,
                                 struct td_engine *engine, struct td_err *err)
{
    int n;
    struct td_err first = {0};
    TD_TRY(find_devices(d, o->module, &n, err));
    TD_TRY(make_room(d, n, err));
    const int most = o->most > 0 && o->most < TD_MOST_REPLICAS ? o->most : TD_MOST_REPLICAS;
    for (int i = 0; i < n && d->n < most; i++) {
        struct td_err why = {0};
        if (open_one(d, o, (o->first + i) % n, &why)) {
            td_log(n > 1 ? TD_LOG_WARNING : TD_LOG_DEBUG, NULL, "a GPU is left out: %s", why.msg);
            td_fail(&first, why.code, "%s", why.msg);
        }
    }
    if (d->n == 0) {
        return td_fail(err, first.code, "%s", first.msg);
    }
    return add_rows(d->module, engine, err);
}

static void say_what_there_is(const struct one *d, const struct td_device_module *module)
{
    struct td_device_counts c;
    module->counts(d->device, &c);
    td_log(TD_LOG_INFO, NULL,
           "%s: %s%s%s, compute capability %d.%d, %d multiprocessors; models may hold %llu of its %llu bytes",
           d->device->name, d->facts.name, d->facts.uuid[0] != '\0' ? ", " : "", d->facts.uuid,
           d->facts.major, d->facts.minor, d->facts.multiprocessors, (unsigned long long)c.limit,
           (unsigned long long)d->facts.memory);
    char text[512];
    bool there;
    for (int i = 0; module->library(d->device, i, text, sizeof text, &there); i++) {
        td_log(there ? TD_LOG_INFO : TD_LOG_WARNING, NULL, "%s: %s", d->device->name, text);
    }
}

/* What it was asked for, in all. */
static void say_what_was_done(const struct one *d, const struct td_device_module *module)
{
    struct td_device_counts c;
    module->counts(d->device, &c);
    const uint64_t *n = c.copies, *bytes = c.copied;
    const uint64_t host_copies = n[TD_COPY_TO_DEVICE] + n[TD_COPY_TO_HOST];
    const uint64_t host_bytes = bytes[TD_COPY_TO_DEVICE] + bytes[TD_COPY_TO_HOST];
    td_log(TD_LOG_INFO, NULL,
           "%s: %llu kernels launched, %llu of them by %llu launches of recordings; %llu copies of %llu "
           "bytes to "
           "and from the host, %llu of %llu bytes on the device; %llu bytes at most",
           d->device->name, (unsigned long long)c.launches, (unsigned long long)c.graph_kernels,
           (unsigned long long)c.graph_launches, (unsigned long long)host_copies,
           (unsigned long long)host_bytes, (unsigned long long)n[TD_COPY_ON_DEVICE],
           (unsigned long long)bytes[TD_COPY_ON_DEVICE], (unsigned long long)c.most);
}

/* All but why there is none. */
static void let_go(struct td_devices *d)
{
    for (int i = 0; i < d->n; i++) {
        if (d->at[i].device != NULL) {
            say_what_was_done(&d->at[i], d->module);
            d->module->close(d->at[i].device);
        }
    }
    td_free(d->at);
    td_nvml_close(d->nvml);
    if (d->library != NULL) {
        dlclose(d->library);
    }
    if (d->driver != NULL) {
        dlclose(d->driver);
    }
    *d = (struct td_devices){.missing = d->missing};
}

static enum td_code new_devices(struct td_devices **out, struct td_err *err)
{
    *out = td_calloc(1, sizeof **out);
    return *out == NULL ? td_no_memory(err, sizeof **out, "devices") : TD_OK;
}

enum td_code td_devices_open(const struct td_devices_opts *o, struct td_engine *engine,
                             struct td_devices **out, struct td_err *err)
{
    const char *which = o->devices == NULL ? "cpu" : o->devices;
    const bool automatic = strcmp(which, "auto") == 0, gpu = strcmp(which, "gpu") == 0;
    struct td_devices *d;
    TD_FAIL_IF(!automatic && !gpu && strcmp(which, "cpu") != 0, err, INVALID_ARGUMENT,
               "--devices is '%.40s', want auto, cpu or gpu", which);
    TD_TRY(new_devices(&d, err));
    if (!automatic && !gpu) {
        td_fail(&d->missing, TD_FAILED_PRECONDITION, "%s",
                o->why_not != NULL ? o->why_not : "none was asked for (--devices=cpu)");
    } else if (open_devices(d, o, engine, &d->missing)) {
        const bool driver = d->driver != NULL;
        let_go(d);
        if (gpu) {
            td_fail(err, TD_FAILED_PRECONDITION, "--devices=gpu: %s", d->missing.msg);
            td_devices_close(d);
            return err->code;
        }
        td_log(driver ? TD_LOG_WARNING : TD_LOG_INFO, NULL, "models run on the CPU: %s", d->missing.msg);
    } else {
        for (int i = 0; i < d->n; i++) {
            say_what_there_is(&d->at[i], d->module);
        }
    }
    *out = d;
    return TD_OK;
}

static enum td_code look(struct td_devices *d, const struct td_devices_opts *o, struct td_err *err)
{
    int n;
    TD_TRY(find_devices(d, o->module, &n, err));
    TD_TRY(make_room(d, n, err));
    for (d->n = 0; d->n < n; d->n++) {
        d->at[d->n].number = d->n;
        TD_TRY(d->module->describe(d->n, &d->at[d->n].facts, err));
    }
    return TD_OK;
}

enum td_code td_devices_look(const struct td_devices_opts *o, struct td_devices **out, struct td_err *err)
{
    TD_TRY(new_devices(out, err));
    if (look(*out, o, &(*out)->missing)) {
        let_go(*out);
    }
    return TD_OK;
}

void td_devices_close(struct td_devices *d)
{
    if (d != NULL) {
        let_go(d);
        td_free(d);
    }
}

struct td_devices_list td_devices_opened(const struct td_devices *d)
{
    struct td_devices_list out = {.n = 0};
    for (int i = 0; d != NULL && i < d->n && out.n < TD_MOST_REPLICAS; i++) {
        out.at[out.n++] = d->at[i].device;
    }
    return out;
}

static enum td_code find_named(const struct td_devices *d, const char *name, const struct one **out,
                               struct td_err *err)
{
    for (int i = 0; d != NULL && i < d->n; i++) {
        if (d->at[i].device != NULL && strcmp(d->at[i].device->name, name) == 0) {
            *out = &d->at[i];
            return TD_OK;
        }
    }
    return td_fail(err, TD_NOT_FOUND, "there is no device '%.60s' that models run on", name);
}

enum td_code td_devices_lost(const struct td_devices *d, const char *name, int *number, struct td_err *err)
{
    const struct one *found;
    struct td_device_counts c;
    TD_TRY(find_named(d, name, &found, err));
    d->module->counts(found->device, &c);
    TD_FAIL_IF(!c.lost, err, FAILED_PRECONDITION, "%s is in service: there is nothing to restart", name);
    *number = found->number;
    return TD_OK;
}

enum td_code td_devices_restart(const struct td_devices *d, const char *name, unsigned wait_ms,
                                const struct td_device **out, struct td_err *err)
{
    const struct one *found;
    TD_TRY(find_named(d, name, &found, err));
    *out = found->device;
    return d->module->restart(found->device, wait_ms, err);
}

/* ------------------------------------------------------------------ what they tell */

const struct td_device_groups *td_devices_groups(const struct td_devices *d)
{
    return d == NULL || d->module == NULL ? NULL : d->module->groups;
}

int td_devices_number(const struct td_devices *d)
{
    return d == NULL ? 0 : d->n;
}

const char *td_devices_missing(const struct td_devices *d)
{
    return d == NULL ? "" : d->missing.msg;
}

void td_devices_driver(const struct td_devices *d, char *text, size_t room)
{
    td_nvml_driver(d->nvml, text, room);
}

void td_devices_state(const struct td_devices *d, int i, struct td_device_state *out)
{
    const struct one *at = &d->at[i];
    struct td_err ignored = {0};
    *out = (struct td_device_state){.device = at->device, .number = at->number, .facts = at->facts};
    if (at->device != NULL) {
        d->module->counts(at->device, &out->counts);
    }
    if (out->counts.lost || d->module->describe(at->number, &out->facts, &ignored)) {
        out->facts = at->facts; /* as it was when it was found */
    }
    td_nvml_read(d->nvml, at->facts.uuid, at->facts.pci, &out->reading);
}
