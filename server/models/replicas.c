/* server/models/replicas.c - choosing is a walk over the groups, or over the nodes' device names; counting is
 * a few atomic numbers a replica, which concurrent runs may read a moment late: work is spread, not dealt
 * out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/replicas.h"

#include "core/compile/placer.h"
#include "proto/schema/model_config.pb-c.h"

/* ------------------------------------------------------------------ which devices */

static void add(struct td_devices_list *l, const struct td_device *d)
{
    for (int i = 0; i < l->n; i++) {
        if (l->at[i] == d) {
            return;
        }
    }
    if (l->n < TD_MOST_REPLICAS) {
        l->at[l->n++] = d;
    }
}

static void add_all(struct td_devices_list *l, const struct td_devices_list *all)
{
    for (int i = 0; i < all->n; i++) {
        add(l, all->at[i]);
    }
}

/* The device "/device:GPU:number"; NULL: it is not there. */
static const struct td_device *numbered(const struct td_devices_list *all, int number)
{
    for (int i = 0; i < all->n; i++) {
        if (td_placer_device_number(all->at[i]->name) == number) {
            return all->at[i];
        }
    }
    return NULL;
}

static void add_asked(struct td_devices_list *l, const struct td_devices_list *all,
                      const struct td_graph *graph, const struct td_library *lib)
{
    const int number = td_placer_asked_for(graph, lib);
    const struct td_device *d = number < 0 ? NULL : numbered(all, number);
    if (d != NULL) {
        add(l, d);
    } else {
        add_all(l, all);
    }
}

static enum td_code add_gpus(struct td_devices_list *l, const struct td_devices_list *all,
                             const Inference__ModelInstanceGroup *g, struct td_err *err)
{
    for (size_t i = 0; i < g->n_gpus; i++) {
        const struct td_device *d = numbered(all, g->gpus[i]);
        TD_FAIL_IF(d == NULL, err, INVALID_ARGUMENT,
                   "instance_group '%s': GPU %d is not there; models may run on %d, from %s on", g->name,
                   g->gpus[i], all->n, all->at[0]->name);
        add(l, d);
    }
    if (g->n_gpus == 0) {
        add_all(l, all);
    }
    return TD_OK;
}

enum td_code td_replicas_choose(const struct td_devices_list *all, const struct td_model_settings *s,
                                const struct td_graph *graph, const struct td_library *lib,
                                struct td_devices_list *out, struct td_err *err)
{
    const size_t n = all->n == 0 || s->pb == NULL ? 0 : s->pb->n_instance_group;
    *out = (struct td_devices_list){.n = 0};
    for (size_t i = 0; i < n; i++) {
        const Inference__ModelInstanceGroup *g = s->pb->instance_group[i];
        if (g->kind == INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_MODEL) {
            add_asked(out, all, graph, lib);
        } else if (g->kind != INFERENCE__MODEL_INSTANCE_GROUP__KIND__KIND_CPU) {
            TD_TRY(add_gpus(out, all, g, err));
        }
    }
    if (n == 0) {
        add_asked(out, all, graph, lib);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ which of them */

enum td_code td_replicas_open(struct td_replicas *r, struct td_model *engine,
                              const struct td_devices_list *devices, struct td_err *err)
{
    r->at[0].engine = engine;
    r->at[0].device = devices->n > 0 ? devices->at[0] : NULL;
    for (r->n = 1; r->n < devices->n; r->n++) {
        TD_TRY(td_model_replicate(engine, devices->at[r->n], &r->at[r->n].engine, err));
        r->at[r->n].device = devices->at[r->n];
    }
    return TD_OK;
}

void td_replicas_close(struct td_replicas *r)
{
    for (int i = 1; i < r->n; i++) {
        td_model_unref(r->at[i].engine);
    }
    r->n = 0;
}

uint32_t td_replicas_devices(const struct td_replicas *r, int n)
{
    uint32_t devices = 0;
    for (int i = 0; i < n; i++) {
        const int number = r->at[i].device == NULL ? -1 : td_placer_device_number(r->at[i].device->name);
        if (number < 0 || number > 31) {
            return 0;
        }
        devices |= UINT32_C(1) << number;
    }
    return devices;
}

static bool is_better(const struct td_replica *a, const struct td_replica *b)
{
    const bool a_out = atomic_load_explicit(&a->out, memory_order_relaxed),
               b_out = atomic_load_explicit(&b->out, memory_order_relaxed);
    const int_fast64_t x = atomic_load_explicit(&a->work, memory_order_relaxed),
                       y = atomic_load_explicit(&b->work, memory_order_relaxed);
    return a_out != b_out ? b_out
           : x != y       ? x < y
                          : atomic_load_explicit(&a->begun, memory_order_relaxed) <
                          atomic_load_explicit(&b->begun, memory_order_relaxed);
}

int td_replicas_begin(struct td_replicas *r, int n, int64_t rows)
{
    int best = 0;
    for (int i = 1; i < n; i++) {
        best = is_better(&r->at[i], &r->at[best]) ? i : best;
    }
    atomic_fetch_add_explicit(&r->at[best].work, rows, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->at[best].begun, 1, memory_order_relaxed);
    return best;
}

void td_replicas_end(struct td_replicas *r, int i, int64_t rows)
{
    atomic_fetch_sub_explicit(&r->at[i].work, rows, memory_order_relaxed);
}

/* A lost device has no events. */
static bool is_lost(const struct td_device *d)
{
    struct td_event *event = NULL;
    struct td_err why = {0};
    if (d == NULL) {
        return false;
    }
    if (d->event_open(d, &event, &why)) {
        return why.code == TD_UNAVAILABLE;
    }
    d->event_close(d, event);
    return false;
}

bool td_replicas_all_lost(const struct td_replicas *r)
{
    int lost = 0;
    for (int i = 0; i < r->n; i++) {
        lost += is_lost(r->at[i].device);
    }
    return r->n > 0 && lost == r->n;
}

void td_replicas_found(struct td_replicas *r, const struct td_device *d)
{
    for (int i = 0; i < r->n; i++) {
        if (r->at[i].device == d) {
            atomic_store(&r->at[i].out, false);
        }
    }
}

bool td_replicas_lost(struct td_replicas *r, int i)
{
    bool others = false;
    if (!is_lost(r->at[i].device)) {
        return false;
    }
    atomic_store(&r->at[i].out, true);
    for (int k = 0; k < r->n; k++) {
        others = others || !atomic_load(&r->at[k].out);
    }
    return others;
}
