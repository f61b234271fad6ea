/* core/run/lone.c - a node without a plan: a frame of the node's inputs and outputs, and one step that reads
 * the first and makes the second.
 *
 * Value numbers are 0 .. n_in - 1 for the inputs, then the outputs. The step goes through td_exec_step(), as
 * a plan's steps do, so a kernel sees no difference; but there is no memory plan: an output that is allocated
 * gets a buffer of its own. td_lone_launch() is the exception: the kernel was chosen and the outputs were
 * allocated by somebody else, and the kernel is called with a td_call made here.
 *
 * Runs ahead of a request have an allowance of memory, twice the inputs and 64 MiB, so that a node that would
 * make many GiB fails before it does. The frame is made and freed in each call.
 *
 * Threads: whoever calls; nothing is shared, and kernels here get no helpers.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/lone.h"

#include <string.h>

#include "core/run/exec_impl.h"
#include "core/base/float_mode.h"
#include "core/base/mem.h"
#include "core/graph/fused.h"
#include "core/run/model.h"

enum { LONE_BYTES = 64 << 20 };

/* ------------------------------------------------------------------ a frame for one step */

struct room {
    struct td_frame frame;
    int *ids; /* value numbers: inputs, then outputs */
};

static void room_fini(struct room *r)
{
    td_free(r->frame.slots);
    td_free(r->frame.state);
    td_free(r->frame.in);
    td_free(r->frame.snapshots);
    td_free(r->frame.shapes);
    td_free(r->ids);
}

static enum td_code room_init(struct room *r, int n, struct td_err *err)
{
    const size_t total = (size_t)n + 1;
    *r = (struct room){.frame = {.slots = td_calloc(total, sizeof(struct td_tensor)),
                                 .state = td_calloc(total, 1),
                                 .in = td_calloc(total, sizeof(void *)),
                                 .snapshots = td_calloc(total, sizeof(struct td_tensor)),
                                 .shapes = td_calloc(total, sizeof(struct td_shape))},
                       .ids = td_calloc(total, sizeof *r->ids)};
    const struct td_frame *f = &r->frame;
    if (f->slots == NULL || f->state == NULL || f->in == NULL || f->snapshots == NULL || f->shapes == NULL ||
        r->ids == NULL) {
        room_fini(r);
        return td_no_memory(err, total, "running a node");
    }
    for (int i = 0; i < n; i++) {
        r->ids[i] = i;
    }
    return TD_OK;
}

static struct td_step step_of(const struct td_node *n, const struct room *r)
{
    return (struct td_step){.node = n,
                            .in = r->ids,
                            .n_in = n->n_in,
                            .n_out = n->n_out,
                            .out0 = n->n_in,
                            .flags = td_node_flags(n)};
}

static void set_input(struct td_exec *x, int i, const struct td_tensor *t)
{
    x->frame->slots[i] = *t;
    x->frame->state[i] = TD_SLOT_SET;
}

static void end(struct td_exec *x)
{
    td_exec_end_step(x);
    for (int v = 0; v < x->step->n_in + x->step->n_out; v++) {
        td_exec_release(x, v);
    }
}

/* ------------------------------------------------------------------ with outputs of its own */

static enum td_code take_outputs(const struct td_exec *x, struct td_tensor *out, struct td_err *err)
{
    enum td_code rc = TD_OK;
    for (int i = 0; rc == TD_OK && i < x->step->n_out; i++) {
        const struct td_tensor *t = &x->frame->slots[x->step->out0 + i];
        if (t->buf == NULL) {
            rc = td_tensor_copy(&out[i], t, err);
        } else {
            td_tensor_ref(&out[i], t);
        }
        while (rc && i-- > 0) {
            td_tensor_clear(&out[i]);
        }
    }
    return rc;
}

enum td_code td_lone_run(const struct td_lone *one, const struct td_tensor *const *in, struct td_tensor *out,
                         struct td_err *err)
{
    static const struct td_run_opts plain = {0};
    const struct td_node *n = one->node;
    struct td_run run = {.model = one->model, .opts = &plain};
    struct room r;
    TD_TRY(room_init(&r, n->n_in + n->n_out, err));
    if (one->within != NULL) {
        run = *one->within;
        run.gives = NULL;
        run.n_gives = 0;
        run.anywhere = false;
    }
    struct td_step s = step_of(n, &r);
    s.rows = one->rows;
    s.n_rows = one->n_rows;
    struct td_exec x = {.run = &run, .frame = &r.frame, .step = &s};
    uint64_t bytes = LONE_BYTES;
    for (int i = 0; i < n->n_in; i++) {
        set_input(&x, i, in[i]);
        bytes += 2 * td_tensor_bytes(in[i]);
    }
    const uint64_t had =
        one->ahead ? td_buffer_allow(bytes) : 0; /* a Fill of many GiB is judged before it is made */
    const unsigned long mode = td_float_mode_enter();
    enum td_code rc = td_exec_step(&x, err);
    td_float_mode_leave(mode);
    if (rc == TD_OK) {
        rc = take_outputs(&x, out, err);
    }
    end(&x);
    if (one->ahead) {
        td_buffer_allow(had);
    }
    room_fini(&r);
    return rc;
}

enum td_code td_lone_node(struct td_model *m, const struct td_node *n, const struct td_tensor *const *in,
                          struct td_tensor *out, struct td_err *err)
{
    const struct td_kernel *rows[TD_KERNEL_MOST];
    const struct td_target host = td_target_host(td_model_opts_of(m));
    struct td_lone one = {.model = m, .node = n, .rows = rows, .ahead = true};
    TD_TRY(td_select_rows(n, &host, rows, &one.n_rows, NULL, 0, err));
    return td_lone_run(&one, in, out, err);
}

enum td_code td_lone_inside(const struct td_call *c, const struct td_node *n,
                            const struct td_tensor *const *in, struct td_tensor *out, struct td_err *err)
{
    const struct td_kernel *rows[TD_KERNEL_MOST];
    const struct td_target host = td_target_host(td_model_opts_of(c->run->model));
    struct td_lone one = {.model = c->run->model, .node = n, .rows = rows, .within = c->run};
    TD_TRY(td_select_rows(n, &host, rows, &one.n_rows, NULL, 0, err));
    return td_lone_run(&one, in, out, err);
}

enum td_code td_lone_head(struct td_call *c, enum td_kernel_choice kernels, struct td_tensor *out,
                          struct td_err *err)
{
    const struct td_node *head = c->node->fused->parts[0].node;
    const struct td_kernel *rows[TD_KERNEL_MOST];
    const struct td_target host = {.kernels = kernels};
    struct td_lone one = {.model = c->run->model, .node = head, .rows = rows};
    TD_TRY(td_select_rows(head, &host, rows, &one.n_rows, NULL, 0, err));
    return td_lone_run(&one, c->in, out, err);
}

/* ------------------------------------------------------------------ with outputs given */

enum td_code td_lone_launch(const struct td_launch *l, struct td_err *err)
{
    static const struct td_run_opts plain = {0};
    struct td_run run = {.model = l->model, .opts = &plain};
    struct room r;
    TD_TRY(room_init(&r, l->n_in + l->n_out, err));
    struct td_step s = step_of(l->node, &r);
    const struct td_choice choice = {.kernel = l->kernel};
    struct td_exec x = {.run = &run, .frame = &r.frame, .step = &s, .choice = &choice, .outputs_given = true};
    for (int i = 0; i < l->n_in; i++) {
        set_input(&x, i, &l->in[i]);
        r.frame.in[i] = &r.frame.slots[i];
    }
    for (int i = 0; i < l->n_out; i++) {
        r.frame.slots[l->n_in + i] = l->out[i];
        r.frame.shapes[i] = l->out[i].shape;
    }
    x.shapes = r.frame.shapes;
    struct td_call c = {.node = l->node,
                        .n_in = l->n_in,
                        .n_out = l->n_out,
                        .in = r.frame.in,
                        .state = l->state,
                        .workspace = l->workspace,
                        .post_in = l->post_in,
                        .stream = l->stream,
                        .fault = l->fault,
                        .counts = l->counts,
                        .swapped = l->swapped,
                        .drawn = l->drawn,
                        .run = &run,
                        .step = &x};
    const unsigned long mode = td_float_mode_enter();
    enum td_code rc = l->counts != NULL ? l->kernel->sized->count(&c, err) : l->kernel->run(&c, err);
    rc = rc == TD_OK && td_work_cut ? td_work_error(td_work_over(), err) : rc;
    td_float_mode_leave(mode);
    for (int i = 0; rc == TD_OK && i < l->n_out; i++) {
        const struct td_tensor *made = &r.frame.slots[l->n_in + i], *want = &l->out[i];
        if (made->data != want->data && td_tensor_bytes(want) > 0) {
            memcpy(want->data, made->data, td_tensor_bytes(want));
        }
    }
    end(&x);
    room_fini(&r);
    return rc;
}
