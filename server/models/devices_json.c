/* server/models/devices_json.c - an object a device; what a device does not tell, or cannot since it was not
 * opened, is left out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/devices_json.h"

#include <math.h>
#include <stdio.h>

static void put_bytes(json_t *o, const char *key, uint64_t bytes)
{
    (void)json_object_set_new(o, key, json_integer((json_int_t)bytes));
}

static void put_reading(json_t *o, const char *key, double value)
{
    if (!isnan(value)) {
        (void)json_object_set_new(o, key, json_real(value));
    }
}

/* 12040 is 12.4. */
static json_t *version_json(int version)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
    return json_string(text);
}

/* What only one that models run on has. */
static void put_use(json_t *o, json_t *memory, const struct td_device_counts *c)
{
    put_bytes(memory, "limit", c->limit);
    put_bytes(memory, "held", c->held);
    put_bytes(memory, "most", c->most);
    (void)json_object_set_new(o, "streams",
                              json_pack("{s:i, s:i, s:i, s:i}", "open", c->streams, "used", c->used, "runs",
                                        c->runs, "limit", c->most_streams));
    (void)json_object_set_new(o, "in_service", json_boolean(!c->lost));
}

static json_t *device_json(const struct td_device_state *s)
{
    char name[32], capability[24];
    json_t *memory = json_object();
    (void)snprintf(name, sizeof name, "/device:GPU:%d", s->number);
    (void)snprintf(capability, sizeof capability, "%d.%d", s->facts.major, s->facts.minor);
    put_bytes(memory, "total", s->facts.memory);
    put_bytes(memory, "unused", s->facts.unused);
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:i, s:s, s:O}", "name", s->device == NULL ? name : s->device->name,
                  "model", s->facts.name, "compute_capability", capability, "multiprocessors",
                  s->facts.multiprocessors, "pci", s->facts.pci, "memory", memory);
    if (s->device != NULL) {
        put_use(o, memory, &s->counts);
    }
    json_decref(memory);
    put_reading(o, "utilization", s->reading.busy);
    put_reading(o, "temperature", s->reading.celsius);
    put_reading(o, "power", s->reading.watts);
    if (s->reading.uuid[0] != '\0') {
        (void)json_object_set_new(o, "uuid", json_string(s->reading.uuid));
    }
    return o;
}

json_t *td_devices_json(const struct td_devices *d)
{
    json_t *list = json_array(), *versions = json_object();
    for (int i = 0; i < td_devices_number(d); i++) {
        struct td_device_state s;
        td_devices_state(d, i, &s);
        (void)json_array_append_new(list, device_json(&s));
        (void)json_object_set_new(versions, "cuda", version_json(s.facts.built));
        (void)json_object_set_new(versions, "driver_cuda", version_json(s.facts.driver));
    }
    json_t *doc = json_pack("{s:o, s:o}", "devices", list, "versions", versions);
    if (td_devices_number(d) == 0) {
        (void)json_object_set_new(doc, "missing", json_string(td_devices_missing(d)));
        return doc;
    }
    char driver[96];
    td_devices_driver(d, driver, sizeof driver);
    if (driver[0] != '\0') {
        (void)json_object_set_new(versions, "driver", json_string(driver));
    }
    return doc;
}
