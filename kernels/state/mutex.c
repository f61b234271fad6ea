/* kernels/state/mutex.c - MutexV2, MutexLock, ConsumeMutexLock: a lock that one run holds while it has the
 * lock's variant.
 *
 * The lock ends when it is consumed or its variant is dropped. Waiting polls the stop word. A run that asks
 * again for what it holds gets it at once: nothing orders the second MutexLock behind the first lock's end,
 * and a run that waits for itself would wait for ever.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"

#include <time.h>

#include "core/base/mem.h"

struct mutex {
    struct td_obj obj;
    _Atomic(struct td_run *) owner; /* NULL: free */
    atomic_int depth;               /* locks that the owner has */
};
struct mutex_lock {
    struct td_obj obj;
    struct mutex *mutex;
    atomic_bool consumed;
};

static void mutex_destroy(struct td_obj *o)
{
    td_free(o);
}
static const struct td_obj_type mutex_type = {.name = "Mutex", .destroy = mutex_destroy};

static void lock_release(struct mutex_lock *l)
{
    if (!atomic_exchange(&l->consumed, true)) {
        if (atomic_fetch_sub(&l->mutex->depth, 1) == 1) {
            atomic_store(&l->mutex->owner, NULL);
        }
    }
}

static void lock_destroy(struct td_obj *o)
{
    struct mutex_lock *l = (struct mutex_lock *)o;
    lock_release(l);
    td_obj_unref(&l->mutex->obj);
    td_free(l);
}
static const struct td_obj_type lock_type = {.name = "MutexLock", .destroy = lock_destroy};

static enum td_code create_mutex(const void *arg, struct td_obj **out, struct td_err *err)
{
    (void)arg;
    struct mutex *m = td_calloc(1, sizeof *m);
    if (!m) {
        return td_no_memory(err, sizeof *m, "mutex");
    }
    td_obj_init(&m->obj, &mutex_type);
    *out = &m->obj;
    return TD_OK;
}

static enum td_code mutex_run(struct td_call *c, struct td_err *err)
{
    struct td_obj *o;
    struct td_tensor *out;
    const char *name = td_attr_str(c->node, "shared_name");
    struct td_resource_key key = {&mutex_type, td_attr_str(c->node, "container"),
                                  name[0] ? name : c->node->name};
    TD_TRY(td_resource_get(c, &key, create_mutex, NULL, &o, err));
    TD_TRY(td_out(c, 0, NULL, &out, err));
    td_tensor_set_obj(out, 0, td_obj_ref(o));
    return TD_OK;
}

static bool take(struct mutex *m, struct td_run *run)
{
    struct td_run *owner = NULL;
    bool mine = atomic_compare_exchange_strong(&m->owner, &owner, run) || owner == run;
    if (mine) {
        atomic_fetch_add(&m->depth, 1);
    }
    return mine;
}

/* Waits by polling, so that a run which is to end does end. */
static enum td_code mutex_lock_run(struct td_call *c, struct td_err *err)
{
    struct td_obj *o;
    struct td_tensor *out;
    struct td_shape scalar = td_shape_scalar();
    TD_TRY(td_in_resource(c, 0, &mutex_type, &o, err));
    TD_TRY(td_out(c, 0, &scalar, &out, err));
    struct mutex_lock *l = td_calloc(1, sizeof *l);
    if (!l) {
        return td_no_memory(err, sizeof *l, "mutex lock");
    }
    struct mutex *m = (struct mutex *)o;
    const struct timespec pause = {0, 200000};
    while (!take(m, c->run)) {
        if (td_stopped(c)) {
            td_free(l);
            return td_stop_error(c, err);
        }
        nanosleep(&pause, NULL);
    }
    td_obj_init(&l->obj, &lock_type);
    l->mutex = (struct mutex *)td_obj_ref(o);
    td_tensor_set_obj(out, 0, &l->obj);
    return TD_OK;
}

static enum td_code consume_lock_run(struct td_call *c, struct td_err *err)
{
    const struct td_tensor *t = c->in[0];
    TD_FAIL_IF(td_tensor_count(t) != 1 || !td_tensor_obj(t, 0) || td_tensor_obj(t, 0)->type != &lock_type,
               err, INVALID_ARGUMENT, "%s: mutex_lock is not a lock made by MutexLock", TD_NODE_STR(c->node));
    lock_release((struct mutex_lock *)td_tensor_obj(t, 0));
    return TD_OK;
}

const struct td_op td_ops_mutex[] = {
    {.name = "MutexV2",
     .sig = "() -> (resource:resource) {container:string=''; shared_name:string=''}",
     .flags = TD_OP_STATEFUL | TD_OP_HANDLE,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("mutex.cpu", mutex_run)},
    {.name = "MutexLock",
     .sig = "(mutex:resource) -> (mutex_lock:variant) {}",
     .flags = TD_OP_STATEFUL,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("mutex.cpu", mutex_lock_run)},
    {.name = "ConsumeMutexLock",
     .sig = "(mutex_lock:variant) -> () {}",
     .flags = TD_OP_STATEFUL,
     .kernels = TD_KERNEL("mutex.cpu", consume_lock_run)},
    {.name = NULL},
};
