/* core/run/variable.h - a variable of a model version: a tensor with a lock and a generation.
 *
 * Reading takes a counted snapshot; writing replaces the tensor, or changes it in place when nobody else
 * holds its bytes (copy on write), so that a request sees each variable whole.
 *
 * Its bytes may lie on the model's device: what a run has computed there and assigned is not brought back
 * before somebody on the host reads it, and is lost with the device's context. What a run has queued for it
 * may not be done yet: other runs wait for that, as does the host.
 *
 * Recorded plans (core/run/device_graph.h) want it at one address: that is its home, from the first
 * recording on that assigns it. What is assigned there is copied to the home, or was put there by a launch of
 * a run that had taken the variable. While somebody holds what lies there, an old value, the new one stays
 * away, and is copied by a run that reads it later.
 *
 * Threads: mu guards what follows it in the struct but dtype, shape and name; it is held for the length of an
 * in-place update.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_VARIABLE_H
#define TD_CORE_RUN_VARIABLE_H

#include <pthread.h>

#include "core/graph/op.h"
#include "core/run/model.h"

struct td_device_run;

struct td_variable {
    struct td_obj obj;
    pthread_mutex_t mu;
    struct td_tensor value; /* unset until initialised; buf NULL: its bytes are in `there` alone */
    struct td_tensor there; /* the same on the device; buf NULL: nowhere */
    struct td_event *made;  /* of `there`: a point behind what makes it; NULL: it is made */
    const void *maker;      /* the run that has queued that, which need not wait for it */
    struct td_tensor home;  /* on the device; buf NULL: it has none */
    uint64_t generation;    /* counts writes */
    enum td_dtype dtype;
    struct td_shape shape; /* declared; may be partly unknown */
    char *name;
};
extern const struct td_obj_type td_variable_type;

/* Returns new, uninitialised. */
TD_MUST enum td_code td_variable_new(const char *name, enum td_dtype dtype, const struct td_shape *shape,
                                     struct td_variable **out, struct td_err *err);
/* A counted snapshot (*out is the caller's). FAILED_PRECONDITION when not initialised, with TensorFlow's
 * words. */
TD_MUST enum td_code td_variable_read(struct td_variable *v, struct td_tensor *out, struct td_err *err);
/* The same for a kernel whose op is flagged TD_OP_ANYWHERE: *out lies on its run's device, if the value
 * does. */
TD_MUST enum td_code td_variable_read_in(const struct td_call *c, struct td_variable *v,
                                         struct td_tensor *out, struct td_err *err);
TD_MUST enum td_code td_variable_take_in(const struct td_call *c, struct td_variable *v,
                                         struct td_tensor *out, struct td_err *err);
/* The value itself moves to *out, and leaves the variable without one. FAILED_PRECONDITION as above. */
TD_MUST enum td_code td_variable_take(struct td_variable *v, struct td_tensor *out, struct td_err *err);
/* Takes *t over as the value (zeroing it). INVALID_ARGUMENT on another dtype. */
TD_MUST enum td_code td_variable_assign(struct td_variable *v, struct td_tensor *t, struct td_err *err);
/* The same of a kernel's input as td_keep gave it, which may lie on the run's device. */
TD_MUST enum td_code td_variable_assign_in(const struct td_call *c, struct td_variable *v,
                                           struct td_tensor *t, struct td_err *err);
/* Locks v and makes its value writable in place; the caller changes v->value, then calls td_variable_done. */
TD_MUST enum td_code td_variable_edit(struct td_variable *v, struct td_err *err);
void td_variable_done(struct td_variable *v);
/* A value is of the variable's type and fits its declared shape. Caller holds v->mu. */
TD_MUST enum td_code td_variable_check(const struct td_variable *v, struct td_err *err);
/* Its value was on a device alone, and went when that was restarted: reading it is DATA_LOSS until it is
 * assigned another. */
bool td_variable_is_lost(struct td_variable *v);
bool td_variable_initialized(struct td_variable *v);
/* Variable behind input i: a resource handle or a reference edge. Borrowed. */
TD_MUST enum td_code td_in_variable(const struct td_call *c, int i, struct td_variable **out,
                                    struct td_err *err);

/* The same, of an op that changes or inspects a value: NOT_FOUND, as TensorFlow has it, when a resource
 * variable was never assigned. (A reference variable exists all the same: td_variable_edit refuses it.) */
TD_MUST enum td_code td_in_made_variable(const struct td_call *c, int i, struct td_variable **out,
                                         struct td_err *err);

/* Its home on like's device, for values like that: the one that it has, or where it lies there, else *like
 * itself where that has bytes. None of them becomes it where anybody has a reference to its bytes but the
 * variable, the caller and the run of `dev`: they may be another variable's, too. *home is borrowed, for as
 * long as it is that; buf NULL: it has none. */
void td_variable_make_home(struct td_variable *v, const struct td_tensor *like,
                           const struct td_device_run *dev, struct td_tensor *home);
/* A reference to it, where it is that yet and nobody holds it but the variable, and the caller `held` times;
 * else NULL. */
struct td_buffer *td_variable_hold_home(struct td_variable *v, const struct td_tensor *home, int held);
/* It has no value any more. Returns whether it had one. */
bool td_variable_empty(struct td_variable *v);

/* Writes to any variable so far: while it is the same, so are they all. */
uint64_t td_variable_writes(void);

/* Sum of the bytes of all variables of a model. */
size_t td_variable_total_bytes(struct td_model *m);
/* Of those alone that lie in a mapped file still: no account was charged for them. */
size_t td_variable_mapped_bytes(struct td_model *m);

#endif
