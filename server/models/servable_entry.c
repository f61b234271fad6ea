/* server/models/servable_entry.c - what is behind a signature: a callable, or why there is none, and
 * signatures made of it.
 *
 * The signatures of the file have their entries in an array beside them; one that was made of another (of
 * fewer outputs, or its gradient) lies in a struct with its own. So the address of a signature leads to its
 * entry.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/base/mem.h"
#include "server/models/servable_impl.h"

#define MAX_SUBSETS 32 /* sets of outputs of a signature that are compiled for themselves */

static enum td_code info_value(struct td_servable *s, const struct td_signature *sig,
                               const struct td_tensor_info *info, struct td_value *out, struct td_err *err)
{
    TD_FAIL_IF(info->n_parts > 0 || info->tensor[0] == 0, err, UNIMPLEMENTED,
               "signature '%s': '%s' is a composite tensor, which requests cannot carry", sig->key,
               info->key);
    if (td_graph_value(td_model_graph(s->engine), info->tensor, out, err)) {
        return td_err_wrap(err, "signature '%s', tensor '%s'", sig->key, info->key);
    }
    return TD_OK;
}

/* Its callables on the further replicas. */
static enum td_code open_others(struct td_servable *s, const struct td_callable_opts *opts,
                                struct td_entry *d, struct td_err *err)
{
    d->others = s->replicas.n < 2 ? NULL : td_calloc((size_t)s->replicas.n - 1, sizeof(struct td_callable *));
    if (s->replicas.n > 1 && d->others == NULL) {
        return td_no_memory(err, (size_t)s->replicas.n * sizeof(struct td_callable *), "signature");
    }
    for (int i = 1; i < s->replicas.n; i++) {
        TD_TRY(td_callable_new(s->replicas.at[i].engine, opts, &d->others[i - 1], err));
    }
    return TD_OK;
}

enum td_code td_entry_open(struct td_servable *s, const struct td_signature *sig, struct td_entry *d,
                           struct td_err *err)
{
    struct td_value *feeds = td_calloc((size_t)sig->n_in + 1, sizeof *feeds);
    struct td_value *fetches = td_calloc((size_t)sig->n_out + 1, sizeof *fetches);
    d->fed = td_calloc((size_t)sig->n_in + 1, sizeof *d->fed);
    enum td_code rc = feeds && fetches && d->fed ? TD_OK : td_no_memory(err, 1, "signature");
    for (int i = 0; rc == TD_OK && i < sig->n_in; i++) {
        rc = info_value(s, sig, &sig->in[i], &feeds[i], err);
        d->fed[i] = rc ? TD_DTYPE_NONE : feeds[i].node->out_type[feeds[i].port];
    }
    for (int i = 0; rc == TD_OK && i < sig->n_out; i++) {
        rc = info_value(s, sig, &sig->out[i], &fetches[i], err);
    }
    struct td_callable_opts opts = {
        .name = sig->key, .feeds = feeds, .n_feeds = sig->n_in, .fetches = fetches, .n_fetches = sig->n_out};
    if (rc == TD_OK && td_model_opts_of(s->engine)->device == NULL) { /* a GPU wants many rows at once */
        rc = td_row_parts_new(&d->parts, err);
    }
    rc = rc ? rc : td_callable_new(s->engine, &opts, &d->callable, err);
    rc = rc ? rc : open_others(s, &opts, d, err);
    td_free(feeds);
    td_free(fetches);
    return rc;
}

uint64_t td_servable_plan_bytes(const struct td_servable *s)
{
    uint64_t bytes = 0;
    for (int i = 0; i < s->replicas.n; i++) {
        bytes += td_model_plan_bytes(s->replicas.at[i].engine);
    }
    return bytes;
}

bool td_signature_is_init(const struct td_signature *sig)
{
    return strcmp(sig->key, "__saved_model_init_op") == 0;
}

void td_entry_close(struct td_entry *d)
{
    while (d->subsets != NULL) {
        struct td_derived *n = d->subsets;
        d->subsets = n->next;
        td_entry_close(&n->entry); /* has no smaller ones itself */
        td_free(n->sig.out);
        td_free(n);
    }
    if (d->slot != NULL) {
        d->free_slot(d->slot);
    }
    td_row_parts_free(d->parts);
    td_free(d->others);
    td_free(d->fed);
    td_free(d->error);
}

static bool is_whole(const struct td_servable *s, const struct td_signature *sig)
{
    return sig >= s->model->signatures && sig < s->model->signatures + s->model->n_signatures;
}

struct td_entry *td_servable_entry(struct td_servable *s, const struct td_signature *sig)
{
    return is_whole(s, sig) ? &s->entries[sig - s->model->signatures]
                            : &((struct td_derived *)(uintptr_t)sig)->entry;
}

struct td_callable *td_servable_callable(struct td_servable *s, const struct td_signature *sig)
{
    return td_servable_entry(s, sig)->callable;
}

struct td_callable *td_servable_callable_on(struct td_servable *s, const struct td_signature *sig, int i)
{
    const struct td_entry *d = td_servable_entry(s, sig);
    return i == 0 ? d->callable : d->others == NULL || i >= s->replicas.n ? NULL : d->others[i - 1];
}

enum td_code td_servable_closed(struct td_servable *s, const struct td_signature *sig, struct td_err *err)
{
    const struct td_entry *d = td_servable_entry(s, sig);
    if (d->callable != NULL) {
        return TD_OK;
    }
    return d->error != NULL ? td_fail(err, d->error->code, "%s", d->error->msg)
                            : td_fail(err, TD_INVALID_ARGUMENT, "signature '%s' runs at load only", sig->key);
}

/* ------------------------------------------------------------------ fewer outputs */

static bool is_named(const char *key, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], key) == 0) {
            return true;
        }
    }
    return false;
}

/* How many outputs of sig the names name. */
static int count_named(const struct td_signature *sig, const char *const *names, int n)
{
    int found = 0;
    for (int i = 0; i < sig->n_out; i++) {
        found += is_named(sig->out[i].key, names, n);
    }
    return found;
}

/* Caller holds choosing. NULL when it cannot be made. */
static struct td_derived *make_subset(struct td_servable *s, const struct td_signature *sig,
                                      const char *const *names, int n)
{
    struct td_err ignored = {0};
    struct td_derived *one = td_calloc(1, sizeof *one);
    struct td_tensor_info *out = td_calloc((size_t)n, sizeof *out);
    if (one == NULL || out == NULL) {
        td_free(one);
        td_free(out);
        return NULL;
    }
    one->sig = *sig;
    one->sig.out = out;
    one->sig.n_out = 0;
    for (int i = 0; i < sig->n_out; i++) {
        if (is_named(sig->out[i].key, names, n)) {
            out[one->sig.n_out++] = sig->out[i];
        }
    }
    if (td_entry_open(s, &one->sig, &one->entry, &ignored)) {
        td_entry_close(&one->entry);
        td_free(out);
        td_free(one);
        return NULL;
    }
    return one;
}

const struct td_signature *td_servable_fewer_outputs(struct td_servable *s, const struct td_signature *sig,
                                                     const char *const *names, int n)
{
    if (n <= 0 || n >= sig->n_out || !is_whole(s, sig) || td_signature_is_init(sig) ||
        count_named(sig, names, n) != n) {
        return sig;
    }
    struct td_entry *d = td_servable_entry(s, sig);
    pthread_mutex_lock(&s->choosing);
    struct td_derived *one = d->subsets;
    while (one != NULL && (one->sig.n_out != n || count_named(&one->sig, names, n) != n)) {
        one = one->next;
    }
    if (one == NULL && d->n_subsets < MAX_SUBSETS) {
        one = make_subset(s, sig, names, n);
        if (one != NULL) {
            one->entry.latency = d->latency;
            one->next = d->subsets;
            d->subsets = one;
            d->n_subsets++;
        }
    }
    pthread_mutex_unlock(&s->choosing);
    return one != NULL ? &one->sig : sig;
}

struct td_latency_row *td_servable_latency(struct td_servable *s, const struct td_signature *sig)
{
    return sig != NULL ? td_servable_entry(s, sig)->latency : td_latency_row(s->latency, "");
}

void td_servable_set_slot(struct td_servable *s, const struct td_signature *sig, void *slot,
                          void (*free_slot)(void *slot))
{
    td_servable_entry(s, sig)->slot = slot;
    td_servable_entry(s, sig)->free_slot = free_slot;
}

void *td_servable_slot(struct td_servable *s, const struct td_signature *sig)
{
    return td_servable_entry(s, sig)->slot;
}

enum td_dtype td_servable_fed_dtype(struct td_servable *s, const struct td_signature *sig, int i)
{
    enum td_dtype fed =
        td_servable_entry(s, sig)->fed == NULL ? TD_DTYPE_NONE : td_servable_entry(s, sig)->fed[i];
    return fed == TD_DTYPE_NONE ? sig->in[i].dtype : fed;
}
