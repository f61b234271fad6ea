/* core/run/device_faults.c - one word a launch, in a block that is zeroed once: one that is set ends the run.
 *
 *     words [MOST] on the device   0 0 1 0 ..   --bring, wait-->   found[]   --look-->   the host's kernel
 *
 * Of a launch's inputs those that the host has, too, such as weights, are kept there until the next look, by
 * a reference or, since planned bytes may be used for something else by then, a copy; of the others the
 * judged ones, on the device.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/device_faults.h"

#include <string.h>

#include "core/base/mem.h"
#include "core/graph/graph.h"
#include "core/run/lone.h"
#include "core/run/model.h"

enum { MOST = TD_DEVICE_FAULTS_MOST };

struct suspect {
    struct td_model *model;
    const struct td_node *node;
    struct td_tensor *in; /* node->n_in; no bytes where none are kept */
};

struct td_device_faults {
    const struct td_device *device;
    struct td_stream *stream;
    struct td_event *event;
    struct td_buffer *words;
    int n;
    struct suspect list[MOST];
    int32_t found[MOST];
};

enum td_code td_device_faults_new(const struct td_device *d, struct td_stream *stream, struct td_event *event,
                                  struct td_device_faults **out, struct td_err *err)
{
    static const int32_t zeros[MOST];
    struct td_device_faults *x = td_calloc(1, sizeof *x);
    if (x == NULL) {
        return td_no_memory(err, sizeof *x, "what a device refuses");
    }
    *x = (struct td_device_faults){.device = d, .stream = stream, .event = event};
    enum td_code rc = td_buffer_new_on(d, stream, sizeof zeros, &x->words, err);
    rc = rc ? rc : d->copy(d, stream, TD_COPY_TO_DEVICE, x->words->data, zeros, sizeof zeros, err);
    if (rc) {
        td_device_faults_free(x);
        return rc;
    }
    *out = x;
    return TD_OK;
}

static void forget(struct td_device_faults *x)
{
    while (x->n > 0) {
        struct suspect *s = &x->list[--x->n];
        for (int i = 0; i < s->node->n_in; i++) {
            td_tensor_clear(&s->in[i]);
        }
        td_free(s->in);
    }
}

void td_device_faults_free(struct td_device_faults *x)
{
    if (x != NULL) {
        forget(x);
        td_buffer_unref(x->words);
        td_free(x);
    }
}

int td_device_faults_left(const struct td_device_faults *x)
{
    return MOST - x->n;
}

enum td_code td_device_faults_add(struct td_device_faults *x, struct td_launch *l,
                                  const struct td_tensor *const *here, struct td_err *err)
{
    struct suspect *s = &x->list[x->n];
    *s = (struct suspect){
        .model = l->model, .node = l->node, .in = td_calloc((size_t)l->n_in + 1, sizeof *s->in)};
    if (s->in == NULL) {
        return td_no_memory(err, sizeof *s->in, "what a device refuses");
    }
    enum td_code rc = TD_OK;
    for (int i = 0; rc == TD_OK && i < l->n_in; i++) {
        if (here[i] != NULL) {
            td_tensor_ref(&s->in[i], here[i]);
        } else if (l->in[i].device == NULL) {
            rc = td_tensor_copy(&s->in[i], &l->in[i], err);
        } else if (i < 32 && (l->kernel->judged >> i & 1)) {
            td_tensor_ref(&s->in[i], &l->in[i]);
        } else {
            s->in[i] = (struct td_tensor){.dtype = l->in[i].dtype, .shape = l->in[i].shape};
        }
    }
    l->fault = (int32_t *)x->words->data + x->n++;
    return rc;
}

enum td_code td_device_faults_bring(struct td_device_faults *x, struct td_err *err)
{
    return x->n == 0 ? TD_OK
                     : x->device->copy(x->device, x->stream, TD_COPY_TO_HOST, x->found, x->words->data,
                                       (size_t)x->n * sizeof *x->found, err);
}

/* ------------------------------------------------------------------ the host's words */

/* *t as the host's kernel sees it: its bytes, or zeros. */
static enum td_code come_back(const struct td_device_faults *x, struct td_tensor *t, struct td_err *err)
{
    struct td_tensor here;
    const size_t bytes = td_tensor_bytes(t);
    if (t->buf != NULL && t->device == NULL) {
        return TD_OK;
    }
    TD_TRY(td_tensor_new(&here, t->dtype, &t->shape, err));
    enum td_code rc = TD_OK;
    if (bytes > 0 && t->buf == NULL) {
        memset(here.data, 0, bytes);
    } else if (bytes > 0) {
        rc = x->device->copy(x->device, x->stream, TD_COPY_TO_HOST, here.data, t->data, bytes, err);
        rc = rc ? rc : x->device->event_record(x->device, x->stream, x->event, err);
        rc = rc ? rc : x->device->event_wait(x->device, x->event, err);
    }
    if (rc) {
        td_tensor_clear(&here);
        return rc;
    }
    td_tensor_clear(t);
    *t = here;
    return TD_OK;
}

/* Runs s's node on the host, which is to fail. */
static enum td_code refuse(const struct suspect *s, const struct td_tensor **in, struct td_tensor *out,
                           struct td_err *err)
{
    const struct td_kernel *rows[TD_KERNEL_MOST];
    const struct td_target host = td_target_host(td_model_opts_of(s->model));
    struct td_lone one = {.model = s->model, .node = s->node, .rows = rows};
    for (int i = 0; i < s->node->n_in; i++) {
        in[i] = &s->in[i];
    }
    TD_TRY(td_select_rows(s->node, &host, rows, &one.n_rows, NULL, 0, err));
    TD_TRY(td_lone_run(&one, in, out, err));
    for (int i = 0; i < s->node->n_out; i++) {
        td_tensor_clear(&out[i]);
    }
    TD_FAIL(err, INTERNAL, "%s: the device refuses data that the host takes", TD_NODE_STR(s->node));
}

static enum td_code explain(const struct td_device_faults *x, const struct suspect *s, struct td_err *err)
{
    const struct td_node *n = s->node;
    const struct td_tensor **in = td_calloc((size_t)n->n_in + 1, sizeof *in);
    struct td_tensor *out = td_calloc((size_t)n->n_out + 1, sizeof *out);
    enum td_code rc =
        in == NULL || out == NULL ? td_no_memory(err, sizeof *out, "what a device refuses") : TD_OK;
    for (int i = 0; rc == TD_OK && i < n->n_in; i++) {
        rc = come_back(x, &s->in[i], err);
    }
    rc = rc ? rc : refuse(s, in, out, err);
    td_free(in);
    td_free(out);
    return rc;
}

enum td_code td_device_faults_look(struct td_device_faults *x, struct td_err *err)
{
    enum td_code rc = TD_OK;
    for (int i = 0; rc == TD_OK && i < x->n; i++) {
        rc = x->found[i] != 0 ? explain(x, &x->list[i], err) : TD_OK;
    }
    forget(x);
    return rc;
}
