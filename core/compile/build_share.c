/* core/compile/build_share.c - equal small constants of an IR are one node from the start.
 *
 * A function that is called a hundred times brings its axes, sizes and masks a hundred times: most nodes of a
 * large graph are such. The cse pass (core/compile/pass_cse.c) would merge them; made once, no pass ever
 * walks them. They are found in an open-addressed table by their bytes. Works while the graph is copied, when
 * cse is on.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/compile/build_impl.h"
#include "core/base/hash.h"
#include "core/base/mem.h"

enum { SMALL_BYTES = 64, FIRST_SLOTS = 256, MAX_PROBES = 64 };

static uint64_t hash_of(const struct td_node *n, const char *device)
{
    const struct td_tensor *t = n->value;
    const int head[] = {(int)t->dtype, t->shape.rank};
    uint64_t h = td_hash_more(td_hash_start, head, sizeof head);
    h = td_hash_more(h, t->shape.dim, (size_t)t->shape.rank * sizeof t->shape.dim[0]);
    h = td_hash_more(h, device, strlen(device));
    return td_hash_mix(td_hash_more(h, t->data, td_tensor_bytes(t)));
}

/* Where the like of n stands or may be put; NULL after MAX_PROBES others: n is then not shared. */
static struct td_node **slot_of(struct td_node **slots, size_t n_slots, const struct td_node *n,
                                const char *device)
{
    size_t i = hash_of(n, device) & (n_slots - 1);
    for (int k = 0; k < MAX_PROBES; k++, i = (i + 1) & (n_slots - 1)) {
        const struct td_node *s = slots[i];
        if (s == NULL ||
            (s->op == n->op && td_tensor_same(s->value, n->value) && strcmp(s->device, device) == 0)) {
            return &slots[i];
        }
    }
    return NULL;
}

/* Room for one more; false without memory. */
static bool grow(struct td_builder *b)
{
    if (2 * (b->n_constants + 1) <= b->constant_slots) {
        return true;
    }
    const size_t n = b->constant_slots == 0 ? FIRST_SLOTS : b->constant_slots * 2;
    struct td_node **fresh = td_calloc(n, sizeof *fresh);
    if (fresh == NULL) {
        return false;
    }
    for (size_t i = 0; i < b->constant_slots; i++) {
        struct td_node *old = b->constants[i];
        struct td_node **slot = old == NULL ? NULL : slot_of(fresh, n, old, old->device);
        if (slot != NULL) {
            *slot = old;
        }
    }
    td_free(b->constants);
    b->constants = fresh;
    b->constant_slots = n;
    return true;
}

struct td_node **td_build_constant(struct td_builder *b, const struct td_node *n, const char *device)
{
    const struct td_tensor *t = td_node_const(n);
    if (!b->share_constants || t == NULL || n->n_control > 0 || td_dtype_is_object(t->dtype) ||
        t->device != NULL || td_tensor_bytes(t) > SMALL_BYTES || !grow(b)) {
        return NULL;
    }
    struct td_node **slot = slot_of(b->constants, b->constant_slots, n, device);
    b->n_constants += slot != NULL && *slot == NULL;
    return slot;
}
