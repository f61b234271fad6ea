/* core/run/call.c - what kernels ask of a run beside their outputs (those are in core/run/exec.c): keeping
 * inputs, stopping, calling functions, resources, printing.
 *
 * Input bytes that a buffer owns are kept by a reference; planned bytes, which the run will use again, by a
 * copy. Whether a run was stopped is one relaxed read of a word that others set, and a look at the clock if
 * there is a deadline. A call of a function copies the run's record, one level deeper, and goes through the
 * model's table of functions, so that this room calls none above it.
 *
 * Threads: td_helpers() tells NULL in runs that somebody watches, so that those stay on one thread.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/run/device_run.h"
#include "core/run/exec.h"
#include "core/base/log.h"
#include "core/graph/fused.h"

enum { MAX_DEPTH = 48 };

enum td_code td_keep(struct td_call *c, int i, struct td_tensor *out, struct td_err *err)
{
    if (c->in[i]->buf == NULL) {
        return td_tensor_copy(out, c->in[i], err);
    }
    if (c->in[i]->device != NULL) {
        TD_TRY(td_call_hold(c, c->in[i], err));
    }
    td_tensor_ref(out, c->in[i]);
    return TD_OK;
}

enum td_code td_call_stop_reason(const struct td_run *run)
{
    return td_work_why(&run->opts->work);
}

bool td_watched(const struct td_call *c)
{
    return c->run->opts->observe != NULL;
}

struct td_thread_pool *td_helpers(const struct td_call *c)
{
    return td_watched(c) ? NULL : c->run->opts->pool;
}

bool td_stopped(const struct td_call *c)
{
    return td_call_stop_reason(c->run) != TD_OK;
}

enum td_code td_call_stop_error(const struct td_run *run, struct td_err *err)
{
    return td_work_error(td_call_stop_reason(run), err);
}

enum td_code td_stop_error(const struct td_call *c, struct td_err *err)
{
    return td_call_stop_error(c->run, err);
}

enum td_code td_call_function(struct td_call *c, const char *attr, int i, const struct td_function_values *v,
                              struct td_err *err)
{
    const struct td_func_ref *f = td_attr_func(c->node, attr, i);
    TD_FAIL_IF(f == NULL, err, INVALID_ARGUMENT, "%s: attribute '%s' names no function", TD_NODE_STR(c->node),
               attr);
    TD_FAIL_IF(c->run->depth >= MAX_DEPTH, err, INVALID_ARGUMENT,
               "%s: functions nest deeper than %d levels: recursion is not supported", TD_NODE_STR(c->node),
               MAX_DEPTH);
    const struct td_callable_calls *calls = td_model_calls(c->run->model);
    struct td_callable *fn;
    TD_TRY(calls->function(c->run->model, f->name, v->n_in, v->n_out, &fn, err));
    struct td_run inner = *c->run;
    inner.depth++;
    inner.gives = v->gives;
    inner.n_gives = v->n_in;
    inner.anywhere = v->anywhere;
    TD_TRY(v->anywhere ? td_call_wait(c, err) : TD_OK);
    return calls->run_inside(fn, v->in, v->out, &inner, err);
}

enum td_code td_in_resource(const struct td_call *c, int i, const struct td_obj_type *type,
                            struct td_obj **out, struct td_err *err)
{
    const struct td_tensor *t = c->in[i];
    TD_FAIL_IF(!td_dtype_is_object(t->dtype) || td_tensor_count(t) != 1, err, INVALID_ARGUMENT,
               "%s: input %d must be a scalar resource handle, but is %s of shape %s", TD_NODE_STR(c->node),
               i, td_dtype_name(t->dtype), TD_SHAPE_STR(&t->shape));
    struct td_obj *o = td_tensor_obj(t, 0);
    TD_FAIL_IF(o == NULL || o->type != type, err, INVALID_ARGUMENT,
               "%s: Trying to access resource using the wrong type. Expected %s got %s", TD_NODE_STR(c->node),
               type->name, o == NULL ? "an empty handle" : o->type->name);
    *out = o;
    return TD_OK;
}

void td_print(struct td_call *c, const char *stream, const char *text, size_t len)
{
    const struct td_run_opts *o = c->run->opts;
    if (o->print != NULL) {
        o->print(o->ctx, text, len);
    }
    enum td_log_level level = strstr(stream, "error") != NULL     ? TD_LOG_ERROR
                              : strstr(stream, "warning") != NULL ? TD_LOG_WARNING
                                                                  : TD_LOG_INFO;
    if (td_model_may_print(c->run->model)) {
        td_log(level, NULL, "%.*s", (int)(len > 1500 ? 1500 : len), text);
    }
}
