/* core/graph/constants.c - the table of core/graph/constants.h: open-addressed, by the bytes of the value.
 *
 * The hash is of dtype, shape, device and bytes, so only values of up to SMALL_BYTES are looked up: hashing a
 * large one would cost more than it saves. The table doubles when it would be more than half full. Where
 * MAX_PROBES places hold others, a constant is not shared, so that a file full of like hashes costs memory
 * and no time. Running out of memory means the same: not shared.
 *
 * Does not: make nodes; the caller puts its node where td_constants_slot points.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/constants.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"

enum { SMALL_BYTES = 64, FIRST_SLOTS = 256, MAX_PROBES = 64 };

static uint64_t hash_of(const struct td_tensor *t, const char *device)
{
    const int head[] = {(int)t->dtype, t->shape.rank};
    uint64_t h = td_hash_more(td_hash_start, head, sizeof head);
    h = td_hash_more(h, t->shape.dim, (size_t)t->shape.rank * sizeof t->shape.dim[0]);
    h = td_hash_more(h, device, strlen(device));
    return td_hash_mix(td_hash_more(h, t->data, td_tensor_bytes(t)));
}

/* Where the like of it stands or may be put; NULL after MAX_PROBES others: it is then not shared. */
static struct td_node **slot_of(const struct td_constants *c, const struct td_op *op,
                                const struct td_tensor *value, const char *device)
{
    size_t i = hash_of(value, device) & (c->n_slots - 1);
    for (int k = 0; k < MAX_PROBES; k++, i = (i + 1) & (c->n_slots - 1)) {
        const struct td_node *s = c->slots[i];
        if (s == NULL || (s->op == op && td_tensor_same(s->value, value) && strcmp(s->device, device) == 0)) {
            return &c->slots[i];
        }
    }
    return NULL;
}

/* Room for one more; false without memory. */
static bool grow(struct td_constants *c)
{
    if (2 * (c->n + 1) <= c->n_slots) {
        return true;
    }
    struct td_constants bigger = {.n = c->n, .n_slots = c->n_slots == 0 ? FIRST_SLOTS : c->n_slots * 2};
    bigger.slots = td_calloc(bigger.n_slots, sizeof *bigger.slots);
    if (bigger.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < c->n_slots; i++) {
        struct td_node *old = c->slots[i];
        struct td_node **slot = old == NULL ? NULL : slot_of(&bigger, old->op, old->value, old->device);
        if (slot != NULL) {
            *slot = old;
        }
    }
    td_free(c->slots);
    *c = bigger;
    return true;
}

struct td_node **td_constants_slot(struct td_constants *c, const struct td_op *op,
                                   const struct td_tensor *value, const char *device)
{
    if (td_dtype_is_object(value->dtype) || value->device != NULL || td_tensor_bytes(value) > SMALL_BYTES ||
        !grow(c)) {
        return NULL;
    }
    struct td_node **slot = slot_of(c, op, value, device);
    c->n += slot != NULL && *slot == NULL;
    return slot;
}

void td_constants_free(struct td_constants *c)
{
    td_free(c->slots);
    *c = (struct td_constants){0};
}
