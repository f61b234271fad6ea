/* kernels/control/stack.c - StackV2: a TensorList used from one end, under a lock, made anew by every run.
 *
 * The object is handed about as a resource, so pushes and pops of one run may come from several threads; each
 * takes the lock for its own check and change. A push keeps its input and passes it on as the output. Closing
 * drops the elements and makes every later use an error.
 *
 * Does not: outlive its run, or move elements to another memory (swap_memory is accepted and ignored).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/ops.h"

#include <pthread.h>

#include "core/base/mem.h"
#include "kernels/control/tensor_list.h"

struct stack {
    struct td_obj obj;
    const char *name;   /* the graph's */
    pthread_mutex_t mu; /* guards what follows */
    struct td_tensor_list *list;
    bool closed;
};

static void stack_destroy(struct td_obj *o)
{
    struct stack *s = (struct stack *)o;
    if (s->list) {
        td_obj_unref(&s->list->nest.obj);
    }
    pthread_mutex_destroy(&s->mu);
    td_free(s);
}

static const struct td_obj_type stack_type = {.name = "Stack", .destroy = stack_destroy};

static enum td_code stack_run(struct td_call *c, struct td_err *err)
{
    struct td_shape any = td_shape_unknown();
    enum td_dtype type = td_attr_type(c->node, "elem_type");
    TD_FAIL_IF(td_tensor_count(c->in[0]) != 1, err, INVALID_ARGUMENT,
               "%s: Stack size must be a scalar, got %s", TD_NODE_STR(c->node),
               TD_SHAPE_STR(&c->in[0]->shape));
    TD_FAIL_IF(type == TD_RESOURCE, err, INVALID_ARGUMENT, "%s: elem_type is resource, want a value type",
               TD_NODE_STR(c->node));
    struct stack *s = td_calloc(1, sizeof *s);
    if (!s) {
        return td_no_memory(err, sizeof *s, "stack");
    }
    td_obj_init(&s->obj, &stack_type);
    pthread_mutex_init(&s->mu, NULL);
    const char *name = td_attr_str(c->node, "stack_name");
    s->name = name[0] ? name : c->node->name;
    enum td_code rc = td_tensor_list_new(type, &any, 0, &s->list, err);
    if (rc) {
        td_obj_unref(&s->obj);
        return rc;
    }
    s->list->max_n = td_tensor_int(c->in[0], 0);
    return td_out_obj(c, 0, &s->obj, err);
}

/* Input 0, locked: the caller unlocks s->mu. */
static enum td_code in_stack(const struct td_call *c, struct stack **out, struct td_err *err)
{
    struct td_obj *o;
    TD_TRY(td_in_resource(c, 0, &stack_type, &o, err));
    struct stack *s = (struct stack *)o;
    pthread_mutex_lock(&s->mu);
    if (s->closed) {
        pthread_mutex_unlock(&s->mu);
        TD_FAIL(err, INVALID_ARGUMENT, "%s: Stack[%s] has already been closed.", TD_NODE_STR(c->node),
                s->name);
    }
    *out = s;
    return TD_OK;
}

static enum td_code push(struct td_call *c, struct stack *s, struct td_tensor *t, struct td_err *err)
{
    struct td_tensor_list *l = s->list;
    TD_FAIL_IF(t->dtype != l->dtype, err, INVALID_ARGUMENT, "%s: Must have type %d but got %d",
               TD_NODE_STR(c->node), (int)l->dtype, (int)t->dtype);
    TD_FAIL_IF(l->max_n >= 0 && l->n >= l->max_n, err, INVALID_ARGUMENT,
               "%s: Stack[%s] overflowed its max_size (%lld)", TD_NODE_STR(c->node), s->name,
               (long long)l->max_n);
    TD_TRY(td_tensor_list_resize(l, l->n + 1, err));
    return td_tensor_list_set(l, l->n - 1, t, err);
}

static enum td_code push_run(struct td_call *c, struct td_err *err)
{
    struct stack *s;
    struct td_tensor t, out;
    TD_TRY(td_keep(c, 1, &t, err));
    td_tensor_ref(&out, &t);
    enum td_code rc = in_stack(c, &s, err);
    if (!rc) {
        rc = push(c, s, &t, err);
        pthread_mutex_unlock(&s->mu);
    }
    td_tensor_clear(&t);
    if (rc) {
        td_tensor_clear(&out);
        return rc;
    }
    td_out_move(c, 0, &out);
    return TD_OK;
}

static enum td_code pop(struct td_call *c, struct stack *s, struct td_tensor *out, struct td_err *err)
{
    struct td_tensor_list *l = s->list;
    TD_FAIL_IF(l->n == 0, err, INVALID_ARGUMENT, "%s: Stack[%s] is empty when calling Pop().",
               TD_NODE_STR(c->node), s->name);
    TD_FAIL_IF(l->dtype != c->node->out_type[0], err, INVALID_ARGUMENT, "%s: Must have type %d but got %d",
               TD_NODE_STR(c->node), (int)l->dtype, (int)c->node->out_type[0]);
    td_tensor_ref(out, &l->items[l->n - 1]);
    return td_tensor_list_resize(l, l->n - 1, err);
}

static enum td_code pop_run(struct td_call *c, struct td_err *err)
{
    struct stack *s;
    struct td_tensor t;
    TD_TRY(in_stack(c, &s, err));
    enum td_code rc = pop(c, s, &t, err);
    pthread_mutex_unlock(&s->mu);
    if (rc) {
        return rc;
    }
    td_out_move(c, 0, &t);
    return TD_OK;
}

static enum td_code close_run(struct td_call *c, struct td_err *err)
{
    struct td_obj *o;
    TD_TRY(td_in_resource(c, 0, &stack_type, &o, err));
    struct stack *s = (struct stack *)o;
    pthread_mutex_lock(&s->mu);
    s->closed = true;
    enum td_code rc = td_tensor_list_resize(s->list, 0, err);
    pthread_mutex_unlock(&s->mu);
    return rc;
}

static enum td_code push_infer(struct td_infer *c, struct td_err *err)
{
    (void)err;
    c->out[0] = c->in[1];
    return TD_OK;
}

const struct td_op td_ops_stack[] = {
    {.name = "StackV2",
     .sig = "(max_size:int32) -> (handle:resource) {elem_type:type; stack_name:string=''}",
     .flags = TD_OP_STATEFUL,
     .infer = td_infer_scalar,
     .kernels = TD_KERNEL("stack.cpu", stack_run),
     .grad = td_not_differentiable},
    {.name = "StackPushV2",
     .sig = "(handle:resource, elem:T) -> (output:T) {T:type; swap_memory:bool=false}",
     .flags = TD_OP_STATEFUL | TD_OP_KEEPS,
     .infer = push_infer,
     .kernels = TD_KERNEL("stack.cpu", push_run)},
    {.name = "StackPopV2",
     .sig = "(handle:resource) -> (elem:elem_type) {elem_type:type}",
     .flags = TD_OP_STATEFUL,
     .kernels = TD_KERNEL("stack.cpu", pop_run)},
    {.name = "StackCloseV2",
     .sig = "(handle:resource) -> () {}",
     .flags = TD_OP_STATEFUL,
     .kernels = TD_KERNEL("stack.cpu", close_run),
     .grad = td_not_differentiable},
    {.name = NULL},
};
