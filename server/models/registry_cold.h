/* server/models/registry_cold.h - what the registry's files share of versions that are loaded when they are
 * asked for: who waits for them, and what there is room for.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_REGISTRY_COLD_H
#define TD_SERVER_MODELS_REGISTRY_COLD_H

#include "server/models/registry_impl.h"

/* registry_cold.c. A request that waits for a version. */
struct td_parked {
    struct td_parked *next;
    struct td_entry *entry; /* it and version stay while this is there; NULL: not found any more */
    struct td_version *version;
    const struct td_work *work;
    td_registry_go_fn *go;
    void *ctx;
    int64_t from_ns;
    bool over; /* what follows is the outcome */
    struct td_servable *servable;
    struct td_err err;
};
void *td_registry_waker_main(void *registry);
/* The load of a version has failed: who waits for it is told. Caller holds mu. */
void td_registry_fail_parked(struct td_registry *r, const struct td_version *v, const struct td_err *why);
/* Why a lazily loaded version does not load, as requests are told it. */
enum td_code td_registry_load_error(const struct td_entry *e, const struct td_version *v,
                                    const struct td_err *why, struct td_err *err);

/* registry_room.c. Callers hold mu. Whether v may be loaded now; else *victim is to be evicted first, or is
 * NULL, and *due_ns falls to the time when to ask again. */
bool td_registry_has_room(struct td_registry *r, const struct td_entry *e, struct td_version *v,
                          int64_t now_ns, struct td_version **victim, int64_t *due_ns);
/* The version that is to go since all hold more than they may; NULL: none. */
struct td_version *td_registry_too_many(struct td_registry *r, int64_t now_ns);
/* A version is resident from now on. */
void td_registry_note_resident(struct td_registry *r, struct td_version *v, int64_t load_ns);
/* Asks what the resident versions hold now. Takes mu itself. */
void td_registry_weigh(struct td_registry *r);
static inline bool td_version_is_resident(const struct td_version *v)
{
    return v->state == TD_STATE_AVAILABLE && !v->cold;
}

/* A request or a command wants it resident. */
static inline bool td_version_is_called_for(const struct td_version *v)
{
    return v->n_parked > 0 || v->demanded;
}

#endif
