/* server/models/devices.c - looks for a driver, loads the module, checks it, opens its device, adds its rows;
 * in this order, and the first thing that is missing ends it.
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

struct td_devices {
    void *driver, *library;
    const struct td_device_module *module;
    struct td_device *device;
    struct td_device_facts facts;
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

static enum td_code add_rows(const struct td_device_module *m, struct td_engine *engine, struct td_err *err)
{
    for (int f = 0; m->families[f] != NULL; f++) {
        for (const struct td_op_rows *r = m->families[f]; r->op != NULL; r++) {
            TD_TRY(td_engine_add_kernels(engine, r->op, r->rows, err));
        }
    }
    return TD_OK;
}

static enum td_code open_device(struct td_devices *d, const struct td_devices_opts *o,
                                struct td_engine *engine, struct td_err *err)
{
    d->driver = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    TD_FAIL_IF(d->driver == NULL, err, FAILED_PRECONDITION, "there is no NVIDIA driver: %s", dl_reason());
    TD_TRY(load_module(d, o->module, err));
    TD_TRY(d->module->describe(o->device.number, &d->facts, err));
    TD_TRY(d->module->open(&o->device, &d->device, err));
    return add_rows(d->module, engine, err);
}

static void say_what_there_is(const struct td_devices *d)
{
    const struct td_device_counts c = td_devices_counts(d);
    td_log(TD_LOG_INFO, NULL,
           "%s: %s, compute capability %d.%d, %d multiprocessors; models may hold %llu of its %llu bytes",
           d->device->name, d->facts.name, d->facts.major, d->facts.minor, d->facts.multiprocessors,
           (unsigned long long)c.limit, (unsigned long long)d->facts.memory);
}

static void let_go(struct td_devices *d)
{
    if (d->device != NULL) {
        d->module->close(d->device);
    }
    if (d->library != NULL) {
        dlclose(d->library);
    }
    if (d->driver != NULL) {
        dlclose(d->driver);
    }
    *d = (struct td_devices){0};
}

enum td_code td_devices_open(const struct td_devices_opts *o, struct td_engine *engine,
                             struct td_devices **out, struct td_err *err)
{
    const char *which = o->devices == NULL ? "cpu" : o->devices;
    const bool automatic = strcmp(which, "auto") == 0, gpu = strcmp(which, "gpu") == 0;
    TD_FAIL_IF(!automatic && !gpu && strcmp(which, "cpu") != 0, err, INVALID_ARGUMENT,
               "--devices is '%.40s', want auto, cpu or gpu", which);
    struct td_devices *d = td_calloc(1, sizeof *d);
    if (d == NULL) {
        return td_no_memory(err, sizeof *d, "devices");
    }
    struct td_err missing = {0};
    if ((automatic || gpu) && open_device(d, o, engine, &missing)) {
        const bool driver = d->driver != NULL;
        let_go(d);
        if (gpu) {
            td_devices_close(d);
            return td_fail(err, TD_FAILED_PRECONDITION, "--devices=gpu: %s", missing.msg);
        }
        td_log(driver ? TD_LOG_WARNING : TD_LOG_INFO, NULL, "models run on the CPU: %s", missing.msg);
    }
    if (d->device != NULL) {
        say_what_there_is(d);
    }
    *out = d;
    return TD_OK;
}

void td_devices_close(struct td_devices *d)
{
    if (d != NULL) {
        let_go(d);
        td_free(d);
    }
}

const struct td_device *td_devices_device(const struct td_devices *d)
{
    return d == NULL ? NULL : d->device;
}

struct td_device_counts td_devices_counts(const struct td_devices *d)
{
    struct td_device_counts c = {0};
    if (td_devices_device(d) != NULL) {
        d->module->counts(d->device, &c);
    }
    return c;
}

const struct td_device_facts *td_devices_facts(const struct td_devices *d)
{
    return td_devices_device(d) == NULL ? NULL : &d->facts;
}
