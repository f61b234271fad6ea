/* server/models/registry_room.c - what the resident versions hold together, and which of them leaves.
 *
 * A version weighs what td_servable_weigh said last: when it was loaded, and once a second while anything is
 * asked; before it is loaded, what it weighed the last time, or else its graph and the bytes of its
 * checkpoint. One that is being loaded counts already, one that is being evicted counts still.
 *
 *   a load finds no room    the least recently used version that nobody holds is evicted for it. Where
 *                           requests hold all of them, that one leaves: new requests for it wait, and it is
 *                           evicted when the last one that runs has ended
 *   plans have grown        the same, but nothing leaves that is in use, and one version always stays
 *
 * Who waits for room longest gets it first: a later one is loaded before only where it fits beside.
 *
 * A version stays for STAY times as long as its load took: models that are asked for in turns, and of which
 * one too many is there, spend most of their time answering. A load goes on without room when nothing else is
 * held; what it then comes to alone must not pass the limit (server/models/registry_load.c).
 *
 * Threads: any; callers hold mu. Does not: unload (server/models/registry_load.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/registry_cold.h"

#include "core/base/mem.h"
#include "server/base/clock.h"

#define STAY 4
#define SOON_NS 2000000 /* when one that leaves is looked at again */

static uint64_t weight(const struct td_version *v)
{
    return v->servable != NULL ? td_servable_weight(v->servable) : v->bytes;
}

/* What all versions hold but those of one entry (NULL: all), and what those will that wait for room since
 * before `asked`. */
struct load {
    uint64_t held;  /* resident, being loaded, being evicted */
    uint64_t going; /* of that: being evicted, or leaving */
    uint64_t ahead;
    int n_resident;
};

static void add(struct load *l, const struct td_version *v, uint64_t asked)
{
    const bool resident = td_version_is_resident(v);
    l->held += resident || v->loading || v->evicting ? weight(v) : 0;
    l->going += v->evicting || v->leaving ? weight(v) : 0;
    l->ahead +=
        v->lacks_room && !v->loading && td_version_is_called_for(v) && v->asked < asked ? v->bytes : 0;
    l->n_resident += resident;
}

static struct load weigh_up(const struct td_registry *r, const struct td_entry *skip, uint64_t asked)
{
    struct load l = {0};
    for (int i = 0; i < r->n_entries; i++) {
        const struct td_entry *e = r->entries[i];
        for (int k = 0; k < e->n_versions && e != skip; k++) {
            add(&l, e->versions[k], asked);
        }
    }
    return l;
}

/* The least recently used of those that may go by now; *due_ns falls to when one may. */
static struct td_version *oldest(const struct td_registry *r, const struct td_entry *skip, bool in_use,
                                 int64_t now_ns, int64_t *due_ns)
{
    struct td_version *found = NULL;
    for (int i = 0; i < r->n_entries; i++) {
        const struct td_entry *e = r->entries[i];
        for (int k = 0; k < e->n_versions && e != skip; k++) {
            struct td_version *v = e->versions[k];
            if (!td_version_is_resident(v) || v->busy || v->leaving ||
                td_servable_in_use(v->servable) != in_use) {
                continue;
            }
            const int64_t may_ns = v->since_ns + v->stays_ns;
            if (may_ns > now_ns) {
                *due_ns = *due_ns == 0 || may_ns < *due_ns ? may_ns : *due_ns;
            } else if (found == NULL || v->used < found->used) {
                found = v;
            }
        }
    }
    return found;
}

/* One that leaves and that nobody holds any more. */
static struct td_version *left(const struct td_registry *r)
{
    for (int i = 0; i < r->n_entries && r->any_leaving; i++) {
        const struct td_entry *e = r->entries[i];
        for (int k = 0; k < e->n_versions; k++) {
            struct td_version *v = e->versions[k];
            if (v->leaving && !v->busy && td_version_is_resident(v) && !td_servable_in_use(v->servable)) {
                return v;
            }
        }
    }
    return NULL;
}

bool td_registry_has_room(struct td_registry *r, const struct td_entry *e, struct td_version *v,
                          int64_t now_ns, struct td_version **victim, int64_t *due_ns)
{
    const uint64_t most = r->opts.max_resident_bytes;
    *victim = NULL;
    const struct load l = most > 0 ? weigh_up(r, e, v->asked) : (struct load){0};
    v->lacks_room = l.held + l.ahead > 0 && l.held + l.ahead + v->bytes > most;
    if (!v->lacks_room) {
        return true;
    }
    r->lacks_room = true;
    *victim = left(r);
    if (*victim == NULL && l.held - l.going + l.ahead + v->bytes > most) {
        *victim = oldest(r, e, false, now_ns, due_ns);
        struct td_version *leaves = *victim == NULL ? oldest(r, e, true, now_ns, due_ns) : NULL;
        if (leaves != NULL) {
            leaves->leaving = r->any_leaving = true;
        }
    }
    const int64_t soon_ns = now_ns + SOON_NS;
    *due_ns = r->any_leaving && (*due_ns == 0 || soon_ns < *due_ns) ? soon_ns : *due_ns;
    return false;
}

struct td_version *td_registry_too_many(struct td_registry *r, int64_t now_ns)
{
    const uint64_t most = r->opts.max_resident_bytes;
    int64_t later_ns = 0;
    const struct load l = most > 0 ? weigh_up(r, NULL, 0) : (struct load){0};
    return l.held - l.going > most && l.n_resident > 1 ? oldest(r, NULL, false, now_ns, &later_ns) : NULL;
}

void td_registry_note_resident(struct td_registry *r, struct td_version *v, int64_t load_ns)
{
    v->used = ++r->n_uses;
    v->asked = 0;
    v->since_ns = td_clock_ns();
    v->stays_ns = STAY * load_ns;
}

/* ------------------------------------------------------------------ weighing */

void td_registry_weigh(struct td_registry *r)
{
    struct td_servable **list = NULL;
    struct td_err ignored = {0};
    int n = 0;
    if (td_registry_serving(r, &list, &n, &ignored)) {
        return; /* without memory: what was known stands */
    }
    for (int i = 0; i < n; i++) {
        (void)td_servable_weigh(list[i]);
    }
    td_registry_let_go(list, n);
}

void td_registry_count(struct td_registry *r, struct td_resident_counts *out)
{
    *out = (struct td_resident_counts){0};
    pthread_mutex_lock(&r->mu);
    for (int i = 0; i < r->n_entries; i++) {
        const struct td_entry *e = r->entries[i];
        for (int k = 0; k < e->n_versions; k++) {
            const struct td_version *v = e->versions[k];
            const bool resident = td_version_is_resident(v);
            out->resident += resident;
            out->bytes += resident ? weight(v) : 0;
            out->cold += v->cold;
        }
    }
    out->waiting = r->n_parked;
    out->first_loads = r->n_first_loads;
    out->evictions = r->n_evictions;
    pthread_mutex_unlock(&r->mu);
}
