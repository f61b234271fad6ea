/* server/debug/debug_store.c - a hash table of nodes, each with a queue of its runs.
 *
 *   slots[hash(name, function)] -> slot {function, name, runs} -> slot ...
 *                                         first -> kept {kernel, copies of the outputs} -> ... -> last
 *
 * Keeping appends to a node's queue, comparing takes from its front: so the third run of a node in a loop
 * meets the third. A value that was compared is dropped at once. The store is full at 512 MiB of copies, a
 * million nodes, or when memory is short; from then on nothing is added, so what is kept is the beginning of
 * the run. Only the first difference is described.
 *
 * One thread at a time. Does not: judge values (server/debug/debug_value.c), keep resources or variants.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/debug/debug_store.h"

#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "server/debug/debug_trace.h"

enum { SLOTS = 4096, MAX_KEPT = 1 << 20 };
#define STORE_LIMIT ((size_t)512 << 20)

struct kept {
    struct kept *next;
    const char *kernel, *op_name; /* of the plan, which lives as long as its model */
    struct td_tensor *out;
    int n_out;
};

struct td_store_slot {
    struct td_store_slot *next;
    char *function, *name;
    struct kept *first, *last; /* in the order they ran */
};

enum td_code td_store_init(struct td_debug_store *s, const struct td_debug_opts *opts, struct td_err *err)
{
    *s = (struct td_debug_store){.opts = opts, .slots = td_calloc(SLOTS, sizeof *s->slots)};
    return s->slots == NULL ? td_no_memory(err, SLOTS, "a comparison") : TD_OK;
}

static void drop(struct td_debug_store *s, struct kept *k)
{
    for (int i = 0; i < k->n_out; i++) {
        s->bytes -= k->out[i].dtype == TD_DTYPE_NONE ? 0 : td_tensor_bytes(&k->out[i]);
        td_tensor_clear(&k->out[i]);
    }
    td_free(k->out);
    td_free(k);
}

void td_store_fini(struct td_debug_store *s)
{
    for (int b = 0; s->slots != NULL && b < SLOTS; b++) {
        while (s->slots[b] != NULL) {
            struct td_store_slot *slot = s->slots[b];
            while (slot->first != NULL) {
                struct kept *next = slot->first->next;
                drop(s, slot->first);
                slot->first = next;
            }
            s->slots[b] = slot->next;
            td_free(slot->function);
            td_free(slot->name);
            td_free(slot);
        }
    }
    td_free(s->slots);
    td_sink_fini(&s->first_difference);
}

static const char *function_of(const struct td_node *n)
{
    return n->function == NULL ? "" : n->function;
}

static struct td_store_slot **find(struct td_debug_store *s, const struct td_node *n)
{
    uint64_t h = td_hash_bytes(n->name, strlen(n->name));
    h = td_hash_more(h, function_of(n), strlen(function_of(n)));
    struct td_store_slot **at = &s->slots[h % SLOTS];
    while (*at != NULL &&
           (strcmp((*at)->name, n->name) != 0 || strcmp((*at)->function, function_of(n)) != 0)) {
        at = &(*at)->next;
    }
    return at;
}

/* ------------------------------------------------------------------ keeping */

static bool copy_outputs(struct td_debug_store *s, const struct td_tensor *out, int n_out, struct kept *k)
{
    struct td_err ignored = {0};
    k->out = td_calloc((size_t)n_out + 1, sizeof *k->out);
    for (; k->out != NULL && k->n_out < n_out; k->n_out++) {
        const enum td_dtype t = out[k->n_out].dtype;
        if (t == TD_DTYPE_NONE || t == TD_RESOURCE || t == TD_VARIANT) {
            continue; /* left without a value */
        }
        const size_t bytes = td_tensor_bytes(&out[k->n_out]);
        if (s->bytes + bytes > STORE_LIMIT || td_tensor_copy(&k->out[k->n_out], &out[k->n_out], &ignored)) {
            return false;
        }
        s->bytes += bytes;
    }
    return k->out != NULL;
}

static struct td_store_slot *slot_for(struct td_debug_store *s, const struct td_node *n)
{
    struct td_store_slot **at = find(s, n);
    if (*at == NULL) {
        struct td_store_slot *slot = td_calloc(1, sizeof *slot);
        if (slot == NULL) {
            return NULL;
        }
        slot->name = td_strdup(n->name);
        slot->function = td_strdup(function_of(n));
        if (slot->name == NULL || slot->function == NULL) {
            td_free(slot->name);
            td_free(slot->function);
            td_free(slot);
            return NULL;
        }
        *at = slot;
    }
    return *at;
}

void td_store_keep(struct td_debug_store *s, const struct td_node *n, const struct td_tensor *out, int n_out,
                   const char *kernel)
{
    if (s->full || n_out == 0) {
        return;
    }
    struct td_store_slot *slot = s->n_kept < MAX_KEPT ? slot_for(s, n) : NULL;
    struct kept *k = slot == NULL ? NULL : td_calloc(1, sizeof *k);
    if (k == NULL || !copy_outputs(s, out, n_out, k)) {
        if (k != NULL) {
            drop(s, k);
        }
        s->full = true;
        return;
    }
    k->kernel = kernel;
    k->op_name = n->op_name;
    if (slot->last != NULL && slot->first != NULL) {
        slot->last->next = k;
    } else {
        slot->first = k;
    }
    slot->last = k;
    s->n_kept++;
}

/* ------------------------------------------------------------------ comparing */

static enum td_code put_index(struct td_sink *s, const struct td_shape *shape, int64_t i, struct td_err *err)
{
    TD_TRY(td_sink_put(s, "[", 1, err));
    for (int axis = 0; axis < shape->rank; axis++) {
        const int64_t inner = td_shape_range(shape, axis + 1, shape->rank);
        TD_TRY(
            td_debug_put(s, err, "%s%lld", axis > 0 ? ", " : "", (long long)(i / inner % shape->dim[axis])));
    }
    return td_sink_put(s, "]", 1, err);
}

static enum td_code put_side(struct td_sink *s, const char *side, const char *kernel,
                             const struct td_tensor *t, int64_t i, struct td_err *err)
{
    TD_TRY(td_debug_put(s, err, ", \"%s\": {\"kernel\": ", side));
    TD_TRY(td_debug_put_text(s, kernel, strlen(kernel), err));
    TD_TRY(td_debug_put(s, err, ", \"output\": "));
    TD_TRY(td_debug_put_value(s, t, TD_VALUES_SUMMARY, err));
    TD_TRY(td_debug_put(s, err, "}, \"element\": "));
    TD_TRY(i < 0 ? td_debug_put(s, err, "null") : td_json_put_dims(s, t, t->shape.rank, i, false, err));
    return td_sink_put(s, "}", 1, err);
}

struct pair {
    const struct td_node *node;
    int port;
    const struct td_tensor *eager, *compiled;
    const char *eager_kernel, *compiled_kernel;
};

static enum td_code put_difference(struct td_sink *s, const struct pair *p, const struct td_debug_diff *d,
                                   struct td_err *err)
{
    TD_TRY(td_sink_put(s, "{", 1, err));
    TD_TRY(td_trace_put_node(s, p->node, err));
    TD_TRY(td_debug_put(s, err, ", \"port\": %d, \"reason\": \"%s\"", p->port,
                        d->type_or_shape ? "dtype or shape" : "value"));
    if (!d->type_or_shape) {
        TD_TRY(td_debug_put(s, err, ", \"elements\": %lld, \"differ\": %lld, \"index\": ",
                            (long long)td_tensor_count(p->eager), (long long)d->n));
        TD_TRY(put_index(s, &p->eager->shape, d->first, err));
        TD_TRY(td_debug_put(s, err, ", \"max_abs_difference\": %.9g", d->max_abs));
    }
    /* complex elements have no JSON form: their sides stand without an element */
    const int64_t i = d->type_or_shape || td_dtype_in(p->eager->dtype, TD_SET_COMPLEX) ? -1 : d->first;
    TD_TRY(put_side(s, "eager", p->eager_kernel, p->eager, i, err));
    TD_TRY(put_side(s, "compiled", p->compiled_kernel, p->compiled, i, err));
    return td_sink_put(s, "}", 1, err);
}

static void note_difference(struct td_debug_store *s, const struct pair *p, const struct td_debug_diff *d)
{
    struct td_err why = {0};
    struct td_sink *to = &s->first_difference;
    if (to->n > 0 || put_difference(to, p, d, &why) == TD_OK) {
        return;
    }
    to->n = 0;
    if (td_debug_put(to, &(struct td_err){0}, "{\"name\": \"(no memory to say more)\"}") != TD_OK) {
        to->n = 0;
    }
}

void td_store_compare(struct td_debug_store *s, const struct td_node *n, const struct td_tensor *out,
                      int n_out, const char *kernel, double *max_abs)
{
    *max_abs = -1;
    struct td_store_slot *slot = n_out > 0 ? *find(s, n) : NULL;
    struct kept *k = slot == NULL ? NULL : slot->first;
    if (k == NULL) {
        return;
    }
    slot->first = k->next;
    const bool same_node = k->n_out == n_out && strcmp(k->op_name, n->op_name) == 0;
    for (int i = 0; same_node && i < n_out; i++) {
        struct td_debug_diff d;
        if (k->out[i].dtype == TD_DTYPE_NONE || out[i].dtype == TD_DTYPE_NONE) {
            continue;
        }
        td_debug_diff(&out[i], &k->out[i], s->opts->rtol, s->opts->atol, &d);
        *max_abs = d.max_abs > *max_abs ? d.max_abs : *max_abs;
        if (d.n > 0 || d.type_or_shape) {
            note_difference(s, &(struct pair){n, i, &out[i], &k->out[i], kernel, k->kernel}, &d);
        }
    }
    s->n_compared += *max_abs >= 0;
    drop(s, k);
}
