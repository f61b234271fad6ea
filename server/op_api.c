/* server/op_api.c - the table of functions that ops of libraries call, and the two that call those ops.
 *
 * A context is one call of infer or of run: made on the caller's stack, gone when the op returns. What an op
 * asks for out of place (an output while shapes are inferred, an index out of range) fails the call with
 * INTERNAL, never the process. The first failure is kept: an op that goes on after one and returns 0 has
 * failed all the same.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/op_api.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/graph/graph.h"

enum { MAX_SCRATCH_CALLS = 8, TEXT_BYTES = 700 };

_Static_assert(TENSORD_OP_MAX_RANK == TD_MAX_RANK, "shapes of libraries hold as many dims as ours");

struct tensord_op_context {
    const struct td_node *node;
    struct td_infer *infer; /* one of these three */
    struct td_call *call;
    const struct td_kernel_query *query;
    const char *refusal;              /* with query */
    const struct kernel_state *state; /* of a kernel row's call */
    unsigned char *made;              /* by output: it was asked for */
    int scratches;
    enum td_code code; /* of the first failure */
    struct td_err *err;
};

/* ------------------------------------------------------------------ failing */

static int api_fail(tensord_op_context *c, int code, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    bool known = code > TD_OK && code <= TD_UNAUTHENTICATED;
    enum td_code rc =
        td_fail(c->err, known ? (enum td_code)code : TD_UNKNOWN, "%s: %s", TD_NODE_STR(c->node), text);
    c->code = c->code ? c->code : rc;
    return (int)c->code;
}

static int note(tensord_op_context *c, enum td_code rc)
{
    c->code = c->code ? c->code : rc;
    return (int)rc;
}

static const char *api_node_name(const tensord_op_context *c)
{
    return c->node->name;
}

/* ------------------------------------------------------------------ attributes */

static int api_attr_length(const tensord_op_context *c, const char *name)
{
    return td_attr_len(c->node, name);
}

#define ATTR_GETTER(fn, result, list_fn, ctype, none)                                                        \
    static result fn(const tensord_op_context *c, const char *name, int i)                                   \
    {                                                                                                        \
        int n;                                                                                               \
        const ctype *list = list_fn(c->node, name, &n);                                                      \
        return i >= 0 && i < n ? (result)list[i] : (none);                                                   \
    }
ATTR_GETTER(api_attr_int, int64_t, td_attr_ints, int64_t, 0)
ATTR_GETTER(api_attr_float, double, td_attr_floats, float, 0)
ATTR_GETTER(api_attr_bool, int, td_attr_bools, bool, 0)
ATTR_GETTER(api_attr_type, int, td_attr_types, enum td_dtype, 0)

static const char *api_attr_string(const tensord_op_context *c, const char *name, int i, size_t *length)
{
    int n;
    const struct td_bytes *list = td_attr_strs(c->node, name, &n);
    bool found = i >= 0 && i < n;
    *length = found ? list[i].len : 0;
    return found ? list[i].p : "";
}

static void put_shape(const struct td_shape *from, tensord_op_shape *to)
{
    to->rank = from->rank;
    for (int i = 0; i < from->rank; i++) {
        to->dims[i] = from->dim[i];
    }
}

static void api_attr_shape(const tensord_op_context *c, const char *name, int i, tensord_op_shape *out)
{
    int n;
    const struct td_shape *list = td_attr_shapes(c->node, name, &n);
    const struct td_shape unknown = td_shape_unknown();
    put_shape(i >= 0 && i < n ? &list[i] : &unknown, out);
}

/* ------------------------------------------------------------------ inputs and outputs */

static int api_input_count(const tensord_op_context *c)
{
    return c->node->n_in;
}

static int api_output_count(const tensord_op_context *c)
{
    return c->node->n_out;
}

static int api_input_dtype(const tensord_op_context *c, int i)
{
    return i >= 0 && i < c->node->n_in && c->node->in_type != NULL ? (int)c->node->in_type[i] : 0;
}

static int api_output_dtype(const tensord_op_context *c, int i)
{
    return i >= 0 && i < c->node->n_out ? (int)c->node->out_type[i] : 0;
}

static const struct td_tensor *input_of(const tensord_op_context *c, int i)
{
    if (i < 0 || i >= c->node->n_in) {
        return NULL;
    }
    return c->call != NULL ? c->call->in[i] : c->query != NULL ? c->query->value[i] : c->infer->value[i];
}

static void api_input_shape(const tensord_op_context *c, int i, tensord_op_shape *out)
{
    const struct td_shape unknown = td_shape_unknown();
    const struct td_tensor *t = c->call != NULL ? input_of(c, i) : NULL;
    bool inferring = c->infer != NULL && i >= 0 && i < c->infer->n_in;
    const bool asked = c->query != NULL && i >= 0 && i < c->query->n_in;
    put_shape(t != NULL   ? &t->shape
              : inferring ? &c->infer->in[i]
              : asked     ? &c->query->in[i]
                          : &unknown,
              out);
}

static void put_tensor(const struct td_tensor *from, tensord_op_tensor *to)
{
    *to = (tensord_op_tensor){.dtype = (int)from->dtype, .count = td_tensor_count(from), .data = from->data};
    put_shape(&from->shape, &to->shape);
}

static int api_input(const tensord_op_context *c, int i, tensord_op_tensor *out)
{
    const struct td_tensor *t = input_of(c, i);
    if (t == NULL) {
        *out = (tensord_op_tensor){0};
        return 0;
    }
    put_tensor(t, out);
    return 1;
}

static int api_set_shape(tensord_op_context *c, int i, const tensord_op_shape *shape)
{
    if (c->infer == NULL || i < 0 || i >= c->infer->n_out) {
        return api_fail(c, TD_INTERNAL, "set_shape of output %d, of %d, must be called by infer", i,
                        c->node->n_out);
    }
    if (shape->rank < 0) {
        c->infer->out[i] = td_shape_unknown();
        return TD_OK;
    }
    return note(c, td_shape_make(&c->infer->out[i], shape->dims, shape->rank, c->err));
}

static int api_output(tensord_op_context *c, int i, const tensord_op_shape *shape, tensord_op_tensor *out)
{
    if (c->call == NULL || i < 0 || i >= c->call->n_out || c->made[i]) {
        return api_fail(c, TD_INTERNAL, "output %d, of %d, must be asked for by run, and once", i,
                        c->node->n_out);
    }
    struct td_shape own;
    struct td_tensor *t;
    enum td_code rc = shape == NULL ? TD_OK : td_shape_make(&own, shape->dims, shape->rank, c->err);
    if (rc == TD_OK && shape != NULL && !td_shape_known(&own)) {
        return api_fail(c, TD_INTERNAL, "output %d was asked for with the shape %s", i, TD_SHAPE_STR(&own));
    }
    rc = rc ? rc : td_out(c->call, i, shape == NULL ? NULL : &own, &t, c->err);
    if (rc == TD_OK) {
        c->made[i] = 1;
        put_tensor(t, out);
    }
    return note(c, rc);
}

static int api_scratch(tensord_op_context *c, size_t bytes, void **out)
{
    if (c->call == NULL || c->scratches == MAX_SCRATCH_CALLS) {
        return api_fail(c, TD_INTERNAL, "scratch memory must be asked for by run, at most %d times",
                        MAX_SCRATCH_CALLS);
    }
    c->scratches++;
    return note(c, td_scratch(c->call, bytes, out, c->err));
}

static int api_stopped(tensord_op_context *c)
{
    return c->call != NULL && td_stopped(c->call) ? note(c, td_stop_error(c->call, c->err)) : TD_OK;
}

/* ------------------------------------------------------------------ strings */

static struct td_tensor strings_of(const tensord_op_tensor *t)
{
    return (struct td_tensor){.dtype = TD_STRING, .data = t->data};
}

static bool has_string(const tensord_op_tensor *t, int64_t i)
{
    return t->dtype == TD_STRING && i >= 0 && i < t->count;
}

static const char *api_string(const tensord_op_tensor *t, int64_t i, size_t *length)
{
    *length = 0;
    if (!has_string(t, i)) {
        return "";
    }
    const struct td_tensor strings = strings_of(t);
    return td_tensor_str(&strings, i, length);
}

static int api_set_string(tensord_op_context *c, const tensord_op_tensor *output, int64_t i,
                          const char *bytes, size_t length)
{
    if (!has_string(output, i)) {
        return api_fail(c, TD_INTERNAL, "set_string of element %lld of a tensor that has no such string",
                        (long long)i);
    }
    struct td_tensor strings = strings_of(output);
    return note(c, td_tensor_set_str(&strings, i, bytes, length, c->err));
}

/* ------------------------------------------------------------------ kernels of other ops */

/* What such a kernel's prepare leaves. */
struct kernel_state {
    const struct td_library_op *op;
    void *own;
};

static int api_refuse(tensord_op_context *c, const char *reason)
{
    if (c->query == NULL || reason == NULL) {
        return api_fail(c, TD_INTERNAL, "only prepare may refuse, and with a reason");
    }
    c->refusal = reason;
    return TD_OK;
}

static void *api_state(const tensord_op_context *c)
{
    return c->state == NULL ? NULL : c->state->own;
}

static void *api_workspace(const tensord_op_context *c)
{
    return c->call == NULL ? NULL : c->call->workspace;
}

const tensord_op_api td_op_api = {
    .abi = TENSORD_OP_ABI,
    .size = sizeof td_op_api,
    .fail = api_fail,
    .node_name = api_node_name,
    .attr_length = api_attr_length,
    .attr_int = api_attr_int,
    .attr_float = api_attr_float,
    .attr_bool = api_attr_bool,
    .attr_type = api_attr_type,
    .attr_string = api_attr_string,
    .attr_shape = api_attr_shape,
    .input_count = api_input_count,
    .output_count = api_output_count,
    .input_dtype = api_input_dtype,
    .output_dtype = api_output_dtype,
    .input_shape = api_input_shape,
    .input = api_input,
    .set_shape = api_set_shape,
    .output = api_output,
    .scratch = api_scratch,
    .stopped = api_stopped,
    .string = api_string,
    .set_string = api_set_string,
    .refuse = api_refuse,
    .state = api_state,
    .workspace = api_workspace,
};

/* ------------------------------------------------------------------ calling an op */

static const struct td_library_op *op_of(const struct td_node *n)
{
    return (const struct td_library_op *)n->op;
}

/* What the op returned, unless it failed before. */
static enum td_code outcome(tensord_op_context *c, int returned, const char *what)
{
    if (returned != 0 && c->code == TD_OK) {
        api_fail(c, returned, "%s failed with code %d and no text", what, returned);
    }
    return c->code;
}

enum td_code td_op_api_infer(struct td_infer *c, struct td_err *err)
{
    tensord_op_context context = {.node = c->node, .infer = c, .err = err};
    return outcome(&context, op_of(c->node)->infer(&context), "its shape function");
}

static enum td_code run_with(tensord_op_context *c, int (*run)(tensord_op_context *c), struct td_err *err)
{
    void *made;
    const size_t n = (size_t)c->call->n_out;
    TD_TRY(td_scratch(c->call, n + 1, &made, err));
    memset(made, 0, n + 1);
    c->made = made;
    TD_TRY(outcome(c, run(c), "its kernel"));
    for (int i = 0; i < c->call->n_out; i++) {
        TD_FAIL_IF(!c->made[i], err, INTERNAL, "%s: its kernel made no output %d", TD_NODE_STR(c->node), i);
    }
    return TD_OK;
}

enum td_code td_op_api_run(struct td_call *c, struct td_err *err)
{
    tensord_op_context context = {.node = c->node, .call = c, .err = err};
    return run_with(&context, op_of(c->node)->run, err);
}

enum td_code td_op_api_run_kernel(struct td_call *c, struct td_err *err)
{
    const struct kernel_state *s = c->state;
    tensord_op_context context = {.node = c->node, .call = c, .state = s, .err = err};
    return run_with(&context, s->op->run, err);
}

void td_op_api_release(void *state)
{
    struct kernel_state *s = state;
    if (s->own != NULL && s->op->release != NULL) {
        s->op->release(s->own);
    }
    td_free(s);
}

enum td_code td_op_api_prepare(const struct td_kernel_query *q, struct td_kernel_offer *o, struct td_err *err)
{
    const char *row = (const char *)o->row;
    const struct td_library_op *op = (const void *)(row - offsetof(struct td_library_op, kernels));
    struct kernel_state *s = td_calloc(1, sizeof *s);
    if (s == NULL) {
        return td_no_memory(err, sizeof *s, "a library's kernel");
    }
    s->op = op;
    o->state = s;
    o->state_bytes = sizeof *s;
    if (op->prepare == NULL) {
        return TD_OK;
    }
    tensord_op_context context = {.node = q->node, .query = q, .err = err};
    TD_TRY(outcome(&context, op->prepare(&context, &s->own, &o->workspace_bytes), "its prepare"));
    o->refusal = context.refusal;
    return TD_OK;
}
