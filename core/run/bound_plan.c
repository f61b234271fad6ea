/* core/run/bound_plan.c - shape and value propagation over a plan, and the pool of frames.
 *
 * Propagation visits steps in order. Where a pure step's inputs are known values (or only shapes matter, as
 * for Shape), the step is run at once and its small result becomes a known value: the shape arithmetic of a
 * model is done here, once a set of input shapes, not in every request. An error found on the way is left for
 * the run to report in its turn, because steps before it (an Assert) may have more to say.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/bound_plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/run/exec.h"
#include "core/run/device_run.h"
#include "core/run/bound_plan_check.h"
#include "core/run/frame.h"
#include "core/run/inner.h"
#include "core/run/lone.h"
#include "core/base/mem.h"
#include "core/base/work.h"
#include "core/run/model.h"
#include "core/run/settled.h"
#include "core/run/stretch.h"
#include "core/run/trial.h"
#include "core/run/variable.h"

enum { KNOWN_BYTES = 2048 };

/* ------------------------------------------------------------------ propagation */

struct prop {
    struct td_bound_plan *l;
    const struct td_plan *p;
    const struct td_tensor **value; /* scratch: max_in */
    struct td_shape *in, *out;      /* scratch */
    struct td_tensor *fake;         /* scratch: max_in tensors that have a shape but no data */
    struct td_tensor *made;         /* scratch: max_out */
    struct td_target host, device;
};

static const struct td_tensor *known(const struct prop *x, int v)
{
    return x->l->known[v].dtype == TD_DTYPE_NONE ? NULL : &x->l->known[v];
}

/* Shape behind a reference edge: the variable's declared one, when the handle is known. */
static struct td_shape deref_shape(const struct prop *x, int v)
{
    const struct td_tensor *handle = known(x, v);
    if (handle != NULL && td_tensor_count(handle) == 1) {
        const struct td_obj *o = td_tensor_obj(handle, 0);
        if (o != NULL && o->type == &td_variable_type) {
            return ((const struct td_variable *)o)->shape;
        }
    }
    return td_shape_unknown();
}

static void gather(struct prop *x, const struct td_step *s, bool *shapes_known, bool *values_known)
{
    *shapes_known = *values_known = true;
    for (int i = 0; i < s->n_in; i++) {
        bool deref = s->deref != NULL && s->deref[i];
        x->in[i] = deref ? deref_shape(x, s->in[i]) : x->l->shape[s->in[i]];
        x->value[i] = deref ? NULL : known(x, s->in[i]);
        *shapes_known &= td_shape_known(&x->in[i]) && !deref;
        *values_known &= x->value[i] != NULL;
    }
}

static bool infer_outputs(struct prop *x, const struct td_step *s)
{
    for (int i = 0; i < s->n_out; i++) {
        x->out[i] = td_shape_unknown();
    }
    if (s->node->op == NULL || s->node->op->infer == NULL) {
        return s->n_out == 0;
    }
    struct td_infer c = {s->node, s->n_in, s->n_out, x->in, x->value, x->out};
    struct td_err ignored = {0};
    if (s->node->op->infer(&c, &ignored)) {
        return false; /* the run says so in its turn */
    }
    bool all = true;
    for (int i = 0; i < s->n_out; i++) {
        if (s->node->out_ref[i]) {
            x->out[i] = td_shape_unknown();
        }
        all &= td_shape_known(&x->out[i]) && td_shape_count(&x->out[i]) >= 0;
        x->l->shape[s->out0 + i] = x->out[i];
    }
    return all;
}

static bool evaluable(const struct prop *x, const struct td_step *s, bool shapes_known, bool values_known,
                      bool all_out)
{
    uint32_t never = TD_OP_STATEFUL | TD_OP_HANDLE | TD_OP_ARG | TD_OP_REFUSED | TD_OP_NO_FOLD |
                     TD_OP_SWITCH | TD_OP_DEAD_OK;
    bool enough = values_known || ((s->flags & TD_OP_SHAPE_ONLY) && shapes_known);
    if (!enough || !all_out || s->n_out == 0 || (s->flags & never) || s->n_rows == 0) {
        return false;
    }
    size_t bytes = 0;
    for (int i = 0; i < s->n_out; i++) {
        int64_t n = td_shape_count(&x->l->shape[s->out0 + i]);
        if (n > KNOWN_BYTES || td_dtype_in(x->p->dtype[s->out0 + i], TD_SET_OBJECTS)) {
            return false;
        }
        bytes += (size_t)n * td_dtype_size(x->p->dtype[s->out0 + i]);
    }
    return bytes <= KNOWN_BYTES;
}

static void forget_fakes(struct prop *x, const struct td_step *s)
{
    for (int i = 0; i < s->n_in; i++) {
        x->value[i] = x->value[i] == &x->fake[i] ? NULL : x->value[i];
    }
}

/* What could not be done may be done by another try. */
static void note_cut(struct prop *x, enum td_code rc)
{
    x->l->cut |= rc == TD_RESOURCE_EXHAUSTED || td_work_cut || td_work_over() != TD_OK;
}

static bool evaluate(struct prop *x, const struct td_step *s)
{
    for (int i = 0; i < s->n_in; i++) {
        if (x->value[i] == NULL) {
            x->fake[i] = (struct td_tensor){.dtype = x->p->dtype[s->in[i]], .shape = x->in[i]};
            x->value[i] = &x->fake[i];
        }
    }
    struct td_err ignored = {0};
    memset(x->made, 0, (size_t)x->p->max_out * sizeof x->made[0]);
    const struct td_lone one = {
        .model = x->p->model, .node = s->node, .rows = s->rows, .n_rows = s->n_rows, .ahead = true};
    if (td_lone_run(&one, x->value, x->made, &ignored)) {
        note_cut(x, ignored.code);
        forget_fakes(x, s);
        return false;
    }
    for (int i = 0; i < s->n_out; i++) {
        x->l->known[s->out0 + i] = x->made[i];
        x->l->shape[s->out0 + i] = x->made[i].shape;
    }
    return true;
}

/* An integer scalar or vector not known yet is what shape functions judge by value: sizes, axes, counts. */
static bool judges_values(const struct prop *x, const struct td_step *s)
{
    const bool by_shapes = (s->flags & (TD_OP_ELEMENTWISE | TD_OP_BY_SHAPES)) != 0 ||
                           (s->node->op != NULL && td_infer_is_by_shapes(s->node->op->infer));
    for (int i = (s->flags & TD_OP_VIEW) ? 1 : 0; !by_shapes && i < s->n_in; i++) { /* bytes are shown */
        const bool unjudged = s->node->op != NULL && i < 32 && (s->node->op->unjudged >> i & 1) != 0;
        if (x->value[i] == NULL && !unjudged && td_bound_plan_judges(&x->in[i], x->p->dtype[s->in[i]])) {
            return true;
        }
    }
    return false;
}

/* Chooses and prepares the step's kernel on a target. What no row serves is left for the run to report in its
 * turn. */
static bool choose(struct prop *x, int step, const struct td_target *target)
{
    const struct td_step *s = &x->p->steps[step];
    struct td_choice *c = &x->l->choice[step];
    const struct td_kernel *const *rows = target->device == NULL ? s->rows : s->device_rows;
    if (td_select_is_plain(rows, target)) {
        c->kernel = rows[0];
        return true;
    }
    const struct td_kernel_query q = {.node = s->node,
                                      .n_in = s->n_in,
                                      .n_out = s->n_out,
                                      .in = x->in,
                                      .out = x->out,
                                      .value = x->value,
                                      .target = *target,
                                      .on_host = target->device == NULL ? NULL : s->on_host,
                                      .notes = &x->l->passed_over,
                                      .step = step,
                                      .fastest = target->trial_ns > 0 ? td_trial_choose : NULL,
                                      .lasting = true};
    struct td_err ignored;
    ignored.code = TD_OK;
    if (td_select_bind(&q, rows, target->device == NULL ? s->n_rows : s->n_device_rows, c, &ignored)) {
        note_cut(x, ignored.code);
        return false;
    }
    x->l->bytes += c->offer.state_bytes;
    return true;
}

static enum td_step_mode device_mode(enum td_step_mode mode)
{
    return mode == TD_STEP_INFER   ? TD_STEP_DEVICE_INFER
           : mode == TD_STEP_CHECK ? TD_STEP_DEVICE_CHECK
                                   : TD_STEP_DEVICE;
}

/* Shapes that follow from what a step of control flow runs. */
static bool look_inside(struct prop *x, int k)
{
    const struct td_step *s = &x->p->steps[k];
    bool cut = false;
    x->l->inner[k] = td_inner_find(x->l, k, x->out, &cut);
    x->l->cut |= cut;
    for (int i = 0; x->l->inner[k] != NULL && i < s->n_out; i++) {
        x->l->shape[s->out0 + i] = x->out[i];
    }
    return x->l->inner[k] != NULL;
}

/* What is left to a run, and its kernel when that follows from the shapes. */
static void bind_step(struct prop *x, int k, enum td_step_mode mode)
{
    const struct td_step *s = &x->p->steps[k];
    struct td_bound_plan *l = x->l;
    l->mode[k] = mode;
    if (s->n_device_rows > 0 && (mode == TD_STEP_INFER || choose(x, k, &x->device))) {
        l->mode[k] = device_mode(mode);
        l->uses_device = true;
    } else if (s->n_rows > 0 && (mode != TD_STEP_INFER || td_select_is_plain(s->rows, &x->host))) {
        (void)choose(x, k, &x->host);
    }
}

static void propagate(struct prop *x)
{
    for (int k = 0; k < x->p->n_steps; k++) {
        const struct td_step *s = &x->p->steps[k];
        bool shapes_known, values_known;
        gather(x, s, &shapes_known, &values_known);
        bool all_out = infer_outputs(x, s);
        if (look_inside(x, k)) {
            bind_step(x, k, TD_STEP_READY);
        } else if (evaluable(x, s, shapes_known, values_known, all_out) && evaluate(x, s)) {
            if (x->p->dead_values) {
                bind_step(x, k, TD_STEP_READY);
            } else {
                x->l->mode[k] = TD_STEP_SKIP;
            }
        } else {
            bind_step(x, k,
                      !all_out || !shapes_known ? TD_STEP_INFER
                      : judges_values(x, s)     ? TD_STEP_CHECK
                                                : TD_STEP_READY);
        }
    }
}

/* ------------------------------------------------------------------ making and freeing */

static bool allocate(struct td_bound_plan *l, const struct td_plan *p)
{
    size_t v = (size_t)p->n_values + 1, s = (size_t)p->n_steps + 1;
    l->key = td_calloc((size_t)p->n_feeds + 1, sizeof *l->key);
    l->shape = td_calloc(v, sizeof *l->shape);
    l->known = td_calloc(v, sizeof *l->known);
    l->offset = td_calloc(v, sizeof *l->offset);
    l->mode = td_calloc(s, 1);
    l->choice = td_calloc(s, sizeof *l->choice);
    l->workspace = td_calloc(s, sizeof *l->workspace);
    l->inner = td_calloc(s, sizeof(struct td_inner *));
    l->region_cost = td_calloc((size_t)p->n_regions + 1, sizeof *l->region_cost);
    l->bytes = sizeof *l + v * (sizeof *l->shape + sizeof *l->known + sizeof *l->offset) +
               s * (1 + sizeof *l->choice + sizeof *l->workspace + sizeof(struct td_inner *));
    return l->key && l->shape && l->known && l->offset && l->mode && l->choice && l->workspace && l->inner &&
           l->region_cost;
}

static void destroy(struct td_bound_plan *l)
{
    td_frame_unlist(l);
    td_frame_free_idle(l);
    td_settled_free(l->settled);
    for (int k = 0; l->choice != NULL && k < l->plan->n_steps; k++) {
        td_choice_fini(&l->choice[k]);
    }
    for (int k = 0; l->inner != NULL && k < l->plan->n_steps; k++) {
        td_inner_free(l->inner[k]); /* behind the frames, whose recordings have them */
    }
    td_select_notes_fini(&l->passed_over);
    for (int v = 0; l->known != NULL && v < l->plan->n_values; v++) {
        td_tensor_clear(&l->known[v]);
    }
    pthread_mutex_destroy(&l->mu);
    td_free(l->key);
    td_free(l->shape);
    td_free(l->known);
    td_free(l->offset);
    td_free(l->mode);
    td_free(l->choice);
    td_free(l->workspace);
    td_free(l->inner);
    td_free(l->region_cost);
    td_free(l->stretches);
    td_plan_unref(l->plan);
    td_free(l);
}

static void start_values(struct td_bound_plan *l, const struct td_plan *p, const struct td_shape *feeds)
{
    for (int v = 0; v < p->n_values; v++) {
        l->shape[v] = td_shape_unknown();
    }
    for (int i = 0; i < p->n_feeds; i++) {
        l->key[i] = l->shape[i] = feeds[i];
    }
    for (int i = 0; i < p->n_consts; i++) {
        td_tensor_ref(&l->known[p->first_const + i], p->consts[i]);
        l->shape[p->first_const + i] = p->consts[i]->shape;
    }
}

static bool prop_init(struct prop *x, const struct td_plan *p)
{
    size_t in = (size_t)p->max_in + 1, out = (size_t)p->max_out + 1;
    x->p = p;
    x->host = td_target_host(td_model_opts_of(p->model));
    x->device = td_target_device(td_model_opts_of(p->model));
    x->value = td_calloc(in, sizeof(void *));
    x->in = td_calloc(in, sizeof(struct td_shape));
    x->out = td_calloc(out, sizeof(struct td_shape));
    x->fake = td_calloc(in, sizeof(struct td_tensor));
    x->made = td_calloc(out, sizeof(struct td_tensor));
    return x->value && x->in && x->out && x->fake && x->made;
}

static void prop_fini(struct prop *x)
{
    td_free(x->value);
    td_free(x->in);
    td_free(x->out);
    td_free(x->fake);
    td_free(x->made);
}

static enum td_code fill(struct td_bound_plan *l, const struct td_plan *p, struct td_err *err)
{
    size_t v = (size_t)p->n_values + 1;
    struct prop x = {.l = l};
    bool ok = prop_init(&x, p);
    if (ok) {
        propagate(&x);
        ok = td_memory_plan(l) && td_stretches_find(l) && td_settled_find(l);
    }
    prop_fini(&x);
    if (ok) {
        TD_HOLDS(td_bound_plan_check, l);
    }
    return ok ? TD_OK : td_no_memory(err, v, "laying out a plan");
}

enum td_code td_bound_plan_new(const struct td_plan *p, const struct td_shape *feeds,
                               struct td_bound_plan **out, struct td_err *err)
{
    struct td_bound_plan *l = td_calloc(1, sizeof *l);
    if (l == NULL) {
        return td_no_memory(err, sizeof *l, "bound plan");
    }
    l->plan = td_plan_ref(p);
    atomic_init(&l->refs, 1);
    pthread_mutex_init(&l->mu, NULL);
    enum td_code rc = allocate(l, p) ? TD_OK : td_no_memory(err, sizeof *l, "bound plan");
    if (rc == TD_OK) {
        start_values(l, p, feeds);
        rc = fill(l, p, err);
    }
    if (rc) {
        destroy(l);
        return rc;
    }
    td_frame_list(l);
    *out = l;
    return TD_OK;
}

/* ------------------------------------------------------------------ walking */

struct td_bound_walk {
    struct prop x;
};

enum td_code td_bound_walk_new(const struct td_plan *p, const struct td_shape *feeds,
                               struct td_bound_walk **out, struct td_err *err)
{
    struct td_bound_walk *w = td_calloc(1, sizeof *w);
    struct td_bound_plan *l = td_calloc(1, sizeof *l);
    if (w == NULL || l == NULL) {
        td_free(w);
        td_free(l);
        return td_no_memory(err, sizeof *w, "walking a plan");
    }
    l->plan = td_plan_ref(p);
    atomic_init(&l->refs, 1);
    pthread_mutex_init(&l->mu, NULL);
    w->x.l = l;
    if (!allocate(l, p) || !prop_init(&w->x, p)) {
        td_bound_walk_free(w);
        return td_no_memory(err, sizeof *w, "walking a plan");
    }
    start_values(l, p, feeds);
    *out = w;
    return TD_OK;
}

struct td_bound_plan *td_bound_walk_plan(struct td_bound_walk *w)
{
    return w->x.l;
}

const struct td_shape *td_bound_walk_step(struct td_bound_walk *w, int k)
{
    const struct td_step *s = &w->x.p->steps[k];
    bool shapes_known, values_known;
    gather(&w->x, s, &shapes_known, &values_known);
    bool all_out = infer_outputs(&w->x, s);
    if (evaluable(&w->x, s, shapes_known, values_known, all_out)) {
        (void)evaluate(&w->x, s); /* what does not run now stays unknown */
    }
    return w->x.in;
}

void td_bound_walk_free(struct td_bound_walk *w)
{
    if (w != NULL) {
        prop_fini(&w->x);
        destroy(w->x.l);
        td_free(w);
    }
}

const char *td_bound_plan_kernel_name(const struct td_bound_plan *l, int k)
{
    const struct td_step *s = &l->plan->steps[k];
    return l->choice[k].kernel != NULL     ? td_choice_name(&l->choice[k])
           : td_step_on_device(l->mode[k]) ? s->device_rows[0]->name
           : s->n_rows > 0                 ? s->rows[0]->name
                                           : "nothing";
}

struct td_bound_plan *td_bound_plan_ref(struct td_bound_plan *l)
{
    atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    return l;
}

void td_bound_plan_unref(struct td_bound_plan *l)
{
    if (l != NULL && atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel) == 1) {
        destroy(l);
    }
}
