/* server/request/device_restart.c - the device's restart, then a walk over what serves.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/request/device_restart.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/log.h"
#include "core/run/device_graph.h"
#include "core/run/device_weights.h"
#include "core/run/variable.h"

enum { WAIT_MS = 10000 }; /* for runs to end: on a lost device they fail soon */

static void add_lost(void *names, const char *name, struct td_obj *o)
{
    struct td_variable *v = (struct td_variable *)o;
    (void)name;
    if (td_variable_is_lost(v)) {
        (void)json_array_append_new(names, json_string(v->name));
    }
}

/* The version's replica is had again; what it has lost is listed. */
static void look_at(struct td_servable *s, const struct td_device *d, json_t *lost)
{
    char version[24];
    json_t *names = json_array();
    td_servable_found_device(s, d);
    td_model_each_resource(td_servable_engine(s), &td_variable_type, add_lost, names);
    if (json_array_size(names) > 0) {
        (void)snprintf(version, sizeof version, "%" PRId64, td_servable_version(s));
        td_log(TD_LOG_WARNING, NULL,
               "model '%s' version %s has lost %zu variables whose values were on %s alone: load it again",
               td_servable_name(s), version, json_array_size(names), d->name);
        (void)json_array_append_new(lost, json_pack("{s:s, s:s, s:O}", "model", td_servable_name(s),
                                                    "version", version, "variables", names));
    }
    json_decref(names);
}

enum td_code td_device_restart(const struct td_devices *devices, struct td_registry *r, struct td_shm *shm,
                               const char *name, json_t **out, struct td_err *err)
{
    const struct td_device *d;
    struct td_servable **serving;
    int n, number;
    TD_TRY(td_devices_lost(devices, name, &number, err));
    const int regions = shm == NULL ? 0 : td_shm_forget_device(shm, number);
    if (td_devices_restart(devices, name, WAIT_MS, &d, err)) {
        td_log(TD_LOG_WARNING, NULL, "a GPU was not restarted: %s", err->msg);
        return err->code;
    }
    td_log(TD_LOG_INFO, NULL, "%s was restarted, and is in service again", d->name);
    (void)td_device_graphs_trim(d); /* what went with the old context */
    (void)td_device_weights_trim(d);
    TD_TRY(td_registry_serving(r, &serving, &n, err));
    json_t *lost = json_array();
    for (int i = 0; i < n; i++) {
        look_at(serving[i], d, lost);
    }
    td_registry_let_go(serving, n);
    *out = json_pack("{s:s, s:i, s:o}", "restarted", d->name, "regions", regions, "lost", lost);
    return TD_OK;
}
