/* core/run/variable.c - snapshots and copy-on-write updates of a variable.
 *
 * A read takes a reference to the tensor's buffer under the lock, and no copy; whoever holds it keeps those
 * bytes as they are. An assignment swaps the tensor and lets the old one go after the lock is given back. An
 * edit in place keeps the lock, and first makes the bytes the variable's own if a snapshot still holds them
 * (td_tensor_own).
 *
 * Threads: mu is each variable's own. It is held from td_variable_edit to td_variable_done, over a kernel's
 * work, and no other variable's lock is taken meanwhile by this file.
 *
 * Does not: find variables by name (core/run/model.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/variable.h"

#include <stdatomic.h>
#include <string.h>

#include "core/base/check.h"
#include "core/run/device_run.h"
#include "core/graph/graph.h"
#include "core/base/mem.h"

static atomic_uint_fast64_t writes; /* to all variables */

/* Under mu, or the last reference. */
static void is_made(struct td_variable *v)
{
    if (v->made != NULL) {
        v->there.device->event_close(v->there.device, v->made);
        v->made = NULL;
    }
}

/* Under mu, or the last reference: runs that read it hold it. */
static void forget_there(struct td_variable *v)
{
    is_made(v);
    td_tensor_clear(&v->there);
}

static void destroy(struct td_obj *o)
{
    struct td_variable *v = (struct td_variable *)o;
    td_tensor_clear(&v->value);
    td_tensor_clear(&v->home);
    forget_there(v);
    pthread_mutex_destroy(&v->mu);
    td_free(v->name);
    td_free(v);
}

const struct td_obj_type td_variable_type = {.name = "Variable", .destroy = destroy};

enum td_code td_variable_new(const char *name, enum td_dtype dtype, const struct td_shape *shape,
                             struct td_variable **out, struct td_err *err)
{
    struct td_variable *v = td_calloc(1, sizeof *v);
    char *copy = td_strdup(name);
    if (v == NULL || copy == NULL) {
        td_free(v);
        td_free(copy);
        return td_no_memory(err, sizeof *v, "variable");
    }
    td_obj_init(&v->obj, &td_variable_type);
    pthread_mutex_init(&v->mu, NULL);
    v->name = copy;
    v->dtype = dtype;
    v->shape = *shape;
    *out = v;
    return TD_OK;
}

/* Under mu: its value has come to be another. */
static void count_write(struct td_variable *v)
{
    v->generation++;
    atomic_fetch_add_explicit(&writes, 1, memory_order_release);
}

uint64_t td_variable_writes(void)
{
    return atomic_load_explicit(&writes, memory_order_acquire);
}

static enum td_code uninitialised(const struct td_variable *v, struct td_err *err)
{
    return td_fail(
        err, TD_FAILED_PRECONDITION,
        "Could not find variable %s. This could mean that the variable has been deleted. In TF1, it can also "
        "mean the variable is uninitialized. (Error while reading resource variable %s: it has no value)",
        v->name, v->name);
}

/* Under mu: a value, with bytes on the host. */
static enum td_code be_here(struct td_variable *v, struct td_err *err)
{
    if (v->value.dtype == TD_DTYPE_NONE) {
        return uninitialised(v, err);
    }
    return v->value.buf != NULL || v->there.buf == NULL ||
                   td_device_bring(&v->there, v->made, &v->value, err) == TD_OK
               ? TD_OK
               : td_err_wrap(err, "variable %s", v->name);
}

/* Under mu: whether the run of c may read it on its device, where what makes it is done or queued before. */
static enum td_code be_there(const struct td_call *c, struct td_variable *v, bool *there, struct td_err *err)
{
    *there = v->there.buf != NULL && v->there.device == td_call_device(c);
    if (*there) {
        TD_TRY(td_call_enter(c, err));
        *there = !td_buffer_is_gone(v->there.buf);
    }
    if (*there && v->made != NULL && v->maker != td_call_run_there(c)) {
        TD_TRY(v->there.device->event_wait(v->there.device, v->made, err));
        is_made(v);
    }
    return *there ? td_call_hold(c, &v->there, err) : TD_OK;
}

/* ------------------------------------------------------------------ its home */

/* Bytes by themselves, for values like that. */
static bool may_live(const struct td_tensor *at, const struct td_tensor *like)
{
    return at->buf != NULL && at->device == like->device && at->dtype == like->dtype &&
           td_shape_equal(&at->shape, &like->shape) && at->data == at->buf->data &&
           at->buf->bytes == td_tensor_bytes(like) && !td_buffer_is_gone(at->buf);
}

static bool is_held(const struct td_buffer *b, int times)
{
    return atomic_load_explicit(&b->refs, memory_order_acquire) == times;
}

/* Whether *at, which one has a reference to beside the run, may be home. */
static bool may_be_home(const struct td_tensor *at, const struct td_tensor *like,
                        const struct td_device_run *dev)
{
    return may_live(at, like) && is_held(at->buf, 1 + td_device_run_holds(dev, at->buf));
}

void td_variable_make_home(struct td_variable *v, const struct td_tensor *like,
                           const struct td_device_run *dev, struct td_tensor *home)
{
    pthread_mutex_lock(&v->mu);
    if (!may_live(&v->home, like)) {
        td_tensor_clear(&v->home);
        if (may_be_home(&v->there, like, dev)) {
            td_tensor_ref(&v->home, &v->there);
        } else if (may_be_home(like, like, dev)) {
            td_tensor_ref(&v->home, like);
        }
    }
    *home = v->home;
    pthread_mutex_unlock(&v->mu);
}

struct td_buffer *td_variable_hold_home(struct td_variable *v, const struct td_tensor *home, int held)
{
    pthread_mutex_lock(&v->mu);
    const bool yes = v->home.buf == home->buf && v->home.data == home->data &&
                     !td_buffer_is_gone(v->home.buf) &&
                     is_held(v->home.buf, 1 + (v->there.buf == v->home.buf) + held);
    struct td_buffer *b = yes ? td_buffer_ref(v->home.buf) : NULL;
    pthread_mutex_unlock(&v->mu);
    return b;
}

/* Under mu: *t, of the run of c or a value that it may read, comes to lie at the variable's home, if it has
 * one that nobody else holds: *came. */
static enum td_code come_home(const struct td_call *c, struct td_variable *v, struct td_tensor *t, bool *came,
                              struct td_err *err)
{
    *came = false;
    if (v->home.buf == NULL || v->home.device != t->device || v->home.data == t->data ||
        !td_shape_equal(&v->home.shape, &t->shape)) {
        return TD_OK;
    }
    TD_TRY(td_call_enter(c, err)); /* before it is looked at */
    const int held = td_buffer_is_gone(v->home.buf) ? -1 : td_call_holds(c, v->home.buf);
    if (held < 0 || !is_held(v->home.buf, 1 + (v->there.buf == v->home.buf) + held)) {
        return TD_OK;
    }
    struct td_stream *stream;
    TD_TRY(td_call_stream(c, &stream, err));
    TD_TRY(td_call_hold(c, &v->home, err));
    TD_TRY(t->device->copy(t->device, stream, TD_COPY_ON_DEVICE, v->home.data, t->data, td_tensor_bytes(t),
                           err));
    td_tensor_clear(t);
    td_tensor_ref(t, &v->home);
    *came = true;
    return TD_OK;
}

/* Under mu: what the run of c may read on its device comes home. */
static enum td_code bring_home(const struct td_call *c, struct td_variable *v, struct td_err *err)
{
    struct td_event *made;
    bool came;
    TD_TRY(come_home(c, v, &v->there, &came, err));
    if (came) {
        TD_TRY(td_call_event(c, &made, err));
        is_made(v);
        v->made = made;
        v->maker = td_call_run_there(c);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ reading */

/* Under mu: the variable has no value any more. */
static void empty(struct td_variable *v)
{
    td_tensor_clear(&v->value);
    forget_there(v);
    memset(&v->value, 0, sizeof v->value);
    count_write(v);
}

static enum td_code get(const struct td_call *c, struct td_variable *v, bool take, struct td_tensor *out,
                        struct td_err *err)
{
    bool there = false;
    pthread_mutex_lock(&v->mu);
    enum td_code rc = c != NULL ? be_there(c, v, &there, err) : TD_OK;
    rc = rc ? rc : there ? bring_home(c, v, err) : be_here(v, err);
    if (rc == TD_OK) {
        td_tensor_ref(out, there ? &v->there : &v->value);
    }
    if (rc == TD_OK && take) {
        empty(v);
    }
    pthread_mutex_unlock(&v->mu);
    return rc;
}

enum td_code td_variable_read(struct td_variable *v, struct td_tensor *out, struct td_err *err)
{
    return get(NULL, v, false, out, err);
}

enum td_code td_variable_read_in(const struct td_call *c, struct td_variable *v, struct td_tensor *out,
                                 struct td_err *err)
{
    return get(c, v, false, out, err);
}

enum td_code td_variable_take(struct td_variable *v, struct td_tensor *out, struct td_err *err)
{
    return get(NULL, v, true, out, err);
}

enum td_code td_variable_take_in(const struct td_call *c, struct td_variable *v, struct td_tensor *out,
                                 struct td_err *err)
{
    return get(c, v, true, out, err);
}

bool td_variable_empty(struct td_variable *v)
{
    pthread_mutex_lock(&v->mu);
    const bool was_set = v->value.dtype != TD_DTYPE_NONE;
    empty(v);
    pthread_mutex_unlock(&v->mu);
    return was_set;
}

/* ------------------------------------------------------------------ assigning */

/* *t comes to be the value: here, or there with what a run has queued for it. */
static enum td_code assign(const struct td_call *c, struct td_variable *v, struct td_tensor *t,
                           struct td_err *err)
{
    struct td_event *made = NULL;
    const bool there = t->device != NULL;
    TD_FAIL_IF(v->dtype != t->dtype, err, INVALID_ARGUMENT,
               "Trying to assign variable %s of dtype %s a value of dtype %s", v->name,
               td_dtype_name(v->dtype), td_dtype_name(t->dtype));
    pthread_mutex_lock(&v->mu);
    bool came;
    enum td_code rc = there ? come_home(c, v, t, &came, err) : TD_OK;
    rc = rc || !there ? rc : td_call_event(c, &made, err);
    if (rc) {
        pthread_mutex_unlock(&v->mu);
        return rc;
    }
    struct td_tensor old = v->value;
    forget_there(v);
    v->value = *t;
    if (there) {
        v->there = *t;
        v->made = made;
        v->maker = td_call_run_there(c);
        v->value = (struct td_tensor){.dtype = t->dtype, .shape = t->shape};
    }
    count_write(v);
    TD_HOLDS(td_variable_check, v);
    pthread_mutex_unlock(&v->mu);
    memset(t, 0, sizeof *t);
    td_tensor_clear(&old);
    return TD_OK;
}

enum td_code td_variable_assign(struct td_variable *v, struct td_tensor *t, struct td_err *err)
{
    return assign(NULL, v, t, err);
}

enum td_code td_variable_assign_in(const struct td_call *c, struct td_variable *v, struct td_tensor *t,
                                   struct td_err *err)
{
    return assign(c, v, t, err);
}

enum td_code td_variable_edit(struct td_variable *v, struct td_err *err)
{
    pthread_mutex_lock(&v->mu);
    enum td_code rc = be_here(v, err);
    rc = rc ? rc : td_tensor_own(&v->value, err);
    if (rc == TD_OK) {
        forget_there(v);
    } else {
        pthread_mutex_unlock(&v->mu);
    }
    return rc;
}

void td_variable_done(struct td_variable *v)
{
    count_write(v);
    TD_HOLDS(td_variable_check, v);
    pthread_mutex_unlock(&v->mu);
}

enum td_code td_variable_check(const struct td_variable *v, struct td_err *err)
{
    TD_WANT(v->value.dtype == TD_DTYPE_NONE ||
                (v->value.dtype == v->dtype && td_shape_compatible(&v->value.shape, &v->shape)),
            err, "variable %s of type %s and shape %s holds %s %s", v->name, td_dtype_name(v->dtype),
            TD_SHAPE_STR(&v->shape), td_dtype_name(v->value.dtype), TD_SHAPE_STR(&v->value.shape));
    return TD_OK;
}

bool td_variable_is_lost(struct td_variable *v)
{
    pthread_mutex_lock(&v->mu);
    const bool yes = v->value.buf == NULL && td_buffer_is_gone(v->there.buf);
    pthread_mutex_unlock(&v->mu);
    return yes;
}

bool td_variable_initialized(struct td_variable *v)
{
    pthread_mutex_lock(&v->mu);
    bool yes = v->value.dtype != TD_DTYPE_NONE;
    pthread_mutex_unlock(&v->mu);
    return yes;
}

enum td_code td_in_variable(const struct td_call *c, int i, struct td_variable **out, struct td_err *err)
{
    struct td_obj *o;
    TD_TRY(td_in_resource(c, i, &td_variable_type, &o, err));
    *out = (struct td_variable *)o;
    return TD_OK;
}

enum td_code td_in_made_variable(const struct td_call *c, int i, struct td_variable **out, struct td_err *err)
{
    const struct td_op_def *def = c->node->def;
    TD_TRY(td_in_variable(c, i, out, err));
    bool reference = def && i < def->n_in && def->in[i].is_ref;
    TD_FAIL_IF(!reference && !td_variable_initialized(*out), err, NOT_FOUND,
               "%s: Could not find resource: variable '%s' has no value", TD_NODE_STR(c->node), (*out)->name);
    return TD_OK;
}

static void add_bytes(void *ctx, const char *name, struct td_obj *o)
{
    struct td_variable *v = (struct td_variable *)o;
    (void)name;
    pthread_mutex_lock(&v->mu);
    *(size_t *)ctx += v->value.dtype == TD_DTYPE_NONE ? 0 : td_tensor_bytes(&v->value);
    pthread_mutex_unlock(&v->mu);
}

size_t td_variable_total_bytes(struct td_model *m)
{
    size_t sum = 0;
    td_model_each_resource(m, &td_variable_type, add_bytes, &sum);
    return sum;
}

static void add_mapped(void *ctx, const char *name, struct td_obj *o)
{
    struct td_variable *v = (struct td_variable *)o;
    (void)name;
    pthread_mutex_lock(&v->mu);
    const struct td_buffer *b = v->value.dtype == TD_DTYPE_NONE ? NULL : v->value.buf;
    *(size_t *)ctx += b != NULL && b->read_only ? td_tensor_bytes(&v->value) : 0;
    pthread_mutex_unlock(&v->mu);
}

size_t td_variable_mapped_bytes(struct td_model *m)
{
    size_t sum = 0;
    td_model_each_resource(m, &td_variable_type, add_mapped, &sum);
    return sum;
}
