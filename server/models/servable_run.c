/* server/models/servable_run.c - bind, compute, deliver: small loops over the signature's inputs and outputs.
 *
 * Names are looked for by comparing with each of the signature's, which has few. Binding copies tensor
 * structs without taking references: they borrow, so nothing is to be undone when it fails. When names differ
 * the lists for TF Serving's message are made, and only then. Computing calls the signature's callable and
 * then asks whether a mapped file below the version's folder has shrunk, because its values may have been
 * zeros. Delivering moves each wanted output and clears the rest. td_servable_run keeps up to 16 inputs and
 * outputs on its stack.
 *
 * Holds no state; any number of threads. Does not: find the version (registry), wait or batch (server/sched),
 * count.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/models/servable_run.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/bytes/mapping.h"
#include "server/models/servable_impl.h"

/* ------------------------------------------------------------------ checking a call */

struct text {
    char s[360];
    size_t n;
};

static void say(struct text *t, const char *name)
{
    int put = snprintf(t->s + t->n, sizeof t->s - t->n, "%s%s", t->n ? "," : "", name);
    t->n += put > 0 && (size_t)put < sizeof t->s - t->n ? (size_t)put : 0;
}

static int input_index(const struct td_signature *sig, const char *name)
{
    for (int i = 0; i < sig->n_in; i++) {
        if (strcmp(sig->in[i].key, name) == 0) {
            return i;
        }
    }
    return -1;
}

static enum td_code names_differ(const struct td_servable_call *c, struct td_err *err)
{
    struct text sent = {.n = 0}, wanted = {.n = 0}, extra = {.n = 0}, missing = {.n = 0};
    for (int i = 0; i < c->n_in; i++) {
        say(&sent, c->in[i].name);
        if (input_index(c->sig, c->in[i].name) < 0) {
            say(&extra, c->in[i].name);
        }
    }
    for (int i = 0; i < c->sig->n_in; i++) {
        bool is_given = false;
        say(&wanted, c->sig->in[i].key);
        for (int k = 0; k < c->n_in; k++) {
            is_given |= strcmp(c->in[k].name, c->sig->in[i].key) == 0;
        }
        if (!is_given && c->sig->defaults[i].dtype == TD_DTYPE_NONE) {
            say(&missing, c->sig->in[i].key);
        }
    }
    return td_fail(
        err, TD_INVALID_ARGUMENT,
        "input size does not match signature: %d!=%d len({%.200s}) != len({%.200s}). Sent extra: {%.200s}. "
        "Missing but required: {%.200s}.",
        c->n_in, c->sig->n_in, sent.s, wanted.s, extra.s, missing.s);
}

/* The tensor of the signature's input i, its default where none is given; NULL: neither. Adds to *used how
 * often it is given. */
static const struct td_tensor *given(const struct td_servable_call *c, int i, int *used)
{
    const struct td_tensor *found = NULL;
    for (int k = 0; k < c->n_in; k++) {
        if (strcmp(c->in[k].name, c->sig->in[i].key) == 0) {
            found = &c->in[k].t;
            ++*used;
        }
    }
    const struct td_tensor *usual = &c->sig->defaults[i];
    return found == NULL && usual->dtype != TD_DTYPE_NONE ? usual : found;
}

/* Puts the given tensors in signature order, defaults where none is given. */
static enum td_code order_inputs(const struct td_servable_call *c, struct td_tensor *in, struct td_err *err)
{
    int used = 0;
    for (int i = 0; i < c->sig->n_in; i++) {
        const struct td_tensor *found = given(c, i, &used);
        if (found == NULL) {
            return names_differ(c, err);
        }
        in[i] = *found;
    }
    return used == c->n_in ? TD_OK : names_differ(c, err);
}

static enum td_code check_method(const struct td_servable_call *c, struct td_err *err)
{
    static const char *const known[] = {"predict", "classify", "regress"};
    static const char place[] = "tensorflow/serving/";
    const char *method = c->sig->method;
    for (size_t i = 0; c->check_method && i < sizeof known / sizeof known[0]; i++) {
        if (strncmp(method, place, sizeof place - 1) == 0 &&
            strcmp(method + sizeof place - 1, known[i]) == 0) {
            return TD_OK;
        }
    }
    TD_FAIL_IF(c->check_method, err, INTERNAL,
               "Expected prediction signature method_name to be one of {tensorflow/serving/predict, "
               "tensorflow/serving/classify, tensorflow/serving/regress}. Was: %s",
               method);
    return TD_OK;
}

/* t: input i of the signature. */
static enum td_code check_input(struct td_servable *s, const struct td_servable_call *c, int i,
                                const struct td_tensor *t, struct td_err *err)
{
    const enum td_dtype want = td_servable_fed_dtype(s, c->sig, i);
    TD_FAIL_IF(t->dtype != want, err, INVALID_ARGUMENT,
               "signature '%s': input '%s' was expected to be a %s tensor but is a %s tensor", c->sig->key,
               c->sig->in[i].key, td_dtype_name(want), td_dtype_name(t->dtype));
    TD_FAIL_IF(c->strict_shapes && !td_shape_compatible(&t->shape, &c->sig->in[i].shape), err,
               INVALID_ARGUMENT, "signature '%s': input '%s' has shape %s, the signature declares %s",
               c->sig->key, c->sig->in[i].key, TD_SHAPE_STR(&t->shape), TD_SHAPE_STR(&c->sig->in[i].shape));
    return TD_OK;
}

static enum td_code check_inputs(struct td_servable *s, const struct td_servable_call *c,
                                 const struct td_tensor *in, struct td_err *err)
{
    for (int i = 0; i < c->sig->n_in; i++) {
        TD_TRY(check_input(s, c, i, &in[i], err));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ filtering outputs */

static int output_index(const struct td_signature *sig, const char *name)
{
    for (int i = 0; i < sig->n_out; i++) {
        if (strcmp(sig->out[i].key, name) == 0) {
            return i;
        }
    }
    return -1;
}

static enum td_code check_filter(const struct td_servable_call *c, struct td_err *err)
{
    for (int i = 0; i < c->n_filter; i++) {
        if (output_index(c->sig, c->filter[i]) < 0) {
            struct text known = {.n = 0};
            for (int k = 0; k < c->sig->n_out; k++) {
                say(&known, c->sig->out[k].key);
            }
            TD_FAIL(
                err, INVALID_ARGUMENT,
                "output tensor alias not found in signature: %.200s Outputs expected to be in the set {%s}.",
                c->filter[i], known.s);
        }
        for (int k = 0; k < i; k++) {
            TD_FAIL_IF(strcmp(c->filter[i], c->filter[k]) == 0, err, INVALID_ARGUMENT,
                       "duplicate output tensor alias: %.200s", c->filter[i]);
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the three steps */

enum td_code td_servable_bind(struct td_servable *s, const struct td_servable_call *call,
                              struct td_tensor *in, struct td_err *err)
{
    TD_TRY(td_servable_closed(s, call->sig, err));
    TD_TRY(check_method(call, err));
    TD_TRY(check_filter(call, err));
    TD_TRY(order_inputs(call, in, err));
    return check_inputs(s, call, in, err);
}

enum td_code td_servable_check(struct td_servable *s, const struct td_servable_call *c, struct td_err *err)
{
    int used = 0;
    for (int i = 0; i < c->sig->n_in; i++) {
        if (given(c, i, &used) == NULL) {
            return names_differ(c, err);
        }
    }
    if (used != c->n_in) {
        return names_differ(c, err);
    }
    for (int i = 0; i < c->sig->n_in; i++) {
        const struct td_tensor *t = given(c, i, &used);
        if (t->dtype != TD_DTYPE_NONE && t->shape.rank >= 0) {
            TD_TRY(check_input(s, c, i, t, err));
        }
    }
    return TD_OK;
}

/* A mapped weight file was cut short: zeros stand in for what is gone, in this run and all later ones. */
static enum td_code lost_data(struct td_servable *s, struct td_tensor *made, int n, struct td_err *err)
{
    for (int i = 0; i < n; i++) {
        td_tensor_clear(&made[i]);
    }
    const bool of_all = td_mapping_damaged_of_all();
    return td_fail(err, TD_DATA_LOSS,
                   "model '%s' version %lld: a file %s '%.300s' was truncated while it was mapped",
                   td_servable_name(s), (long long)td_servable_version(s),
                   of_all ? "of packed weights, below --state_dir, or below" : "below", td_servable_dir(s));
}

static enum td_code run_on(const struct td_entry *entry, int replica, struct td_row_parts_call *call,
                           struct td_tensor *made, struct td_err *err)
{
    call->f = replica == 0 ? entry->callable : entry->others[replica - 1];
    return entry->parts != NULL ? td_row_parts_run(entry->parts, call, made, err)
                                : td_callable_run(call->f, call->in, made, call->opts, err);
}

/* On the replica with the least to do, and once more on another where its device turns out to be lost. */
static enum td_code run_somewhere(struct td_servable *s, const struct td_entry *entry,
                                  struct td_row_parts_call *call, struct td_tensor *made, struct td_err *err)
{
    const int n = entry->others != NULL ? s->replicas.n : 1;
    const int64_t rows = call->n_in > 0 && call->in[0].shape.rank > 0 ? call->in[0].shape.dim[0] : 1;
    for (int left = n; true; left--) {
        const int at = td_replicas_begin(&s->replicas, n, rows);
        const enum td_code rc = run_on(entry, at, call, made, err);
        td_replicas_end(&s->replicas, at, rows);
        if (rc != TD_UNAVAILABLE || left == 1 || !td_replicas_lost(&s->replicas, at) ||
            !td_callable_repeats(call->f)) {
            return rc;
        }
        *err = (struct td_err){0};
    }
}

enum td_code td_servable_compute(struct td_servable *s, const struct td_signature *sig,
                                 const struct td_tensor *in, const struct td_run_opts *opts,
                                 struct td_tensor *made, struct td_err *err)
{
    struct td_row_parts_call call = {.in = in, .n_in = sig->n_in, .n_out = sig->n_out, .opts = opts};
    if (run_somewhere(s, td_servable_entry(s, sig), &call, made, err)) {
        const bool stopped = err->code == TD_DEADLINE_EXCEEDED || err->code == TD_CANCELLED;
        return !stopped ? err->code
                        : td_err_wrap(err, "model '%s' version %lld, signature '%s'", td_servable_name(s),
                                      (long long)td_servable_version(s), sig->key);
    }
    return td_mapping_damaged_below(td_servable_dir(s)) || td_mapping_damaged_of_all()
               ? lost_data(s, made, sig->n_out, err)
               : TD_OK;
}

void td_servable_deliver(const struct td_servable_call *c, struct td_tensor *made, struct td_named *out,
                         int *n_out)
{
    *n_out = c->n_filter > 0 ? c->n_filter : c->sig->n_out;
    for (int i = 0; i < *n_out; i++) {
        int k = c->n_filter > 0 ? output_index(c->sig, c->filter[i]) : i;
        out[i].name = c->sig->out[k].key;
        out[i].t = made[k];
        memset(&made[k], 0, sizeof made[k]);
    }
    for (int k = 0; k < c->sig->n_out; k++) {
        td_tensor_clear(&made[k]);
    }
}

enum td_code td_servable_run(struct td_servable *s, const struct td_servable_call *call, struct td_named *out,
                             int *n_out, struct td_err *err)
{
    enum { FEW = 16 };
    struct td_tensor few_in[FEW], few_made[FEW], *in = few_in, *made = few_made;
    const struct td_signature *sig = call->sig;
    if (sig->n_in > FEW || sig->n_out > FEW) {
        in = td_calloc((size_t)sig->n_in + (size_t)sig->n_out + 1, sizeof *in);
        if (in == NULL) {
            return td_no_memory(err, sizeof *in, "a call");
        }
        made = in + sig->n_in;
    }
    enum td_code rc = td_servable_bind(s, call, in, err);
    rc = rc ? rc : td_servable_compute(s, sig, in, call->run, made, err);
    if (rc == TD_OK) {
        td_servable_deliver(call, made, out, n_out);
    }
    if (in != few_in) {
        td_free(in);
    }
    return rc;
}
