/* proto/hlo_graph/hlo_custom.c - custom calls and composites.
 *
 *   Sharding and its like          what they are called with: there is one device
 *   shape_assertion                an Assert that the function waits for
 *   mhlo.NAME, composite chlo.NAME the rule of chlo.NAME, where there is one
 *   tf.call_tf_function            a call of that function of the model's library
 *
 * All others are code of somebody else's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "proto/hlo_graph/hlo_control.h"
#include "proto/hlo_graph/hlo_function.h"
#include "proto/hlo_graph/hlo_rules.h"

static bool is_one_of(const char *name, const char *const *list)
{
    for (int i = 0; list[i] != NULL; i++) {
        if (strcmp(name, list[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* A scalar string of these bytes. */
static struct td_value text(struct td_hlo_frame *f, const char *s, size_t n)
{
    const struct td_shape shape = td_shape_scalar();
    struct td_tensor t;
    if (f->e.rc || (f->e.rc = td_tensor_new(&t, TD_STRING, &shape, f->e.err)) != TD_OK) {
        return td_no_value;
    }
    f->e.rc = td_tensor_set_str(&t, 0, s, n, f->e.err);
    const struct td_value v = td_emit_literal(&f->e, &t);
    td_tensor_clear(&t);
    return v;
}

/* Operand 0 must be true; the others are what the message shows. */
static void assert_shapes(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    static const char unknown[] = "an assertion about shapes does not hold";
    const struct td_hlo_attr *message = td_hlo_attr(op, "error_message");
    const bool named = message != NULL && message->kind == TD_HLO_STRING;
    if (f->w->unchecked || op->n_in < 1) {
        return;
    }
    struct td_value *in = td_hlo_room(f, (size_t)op->n_in + 1, sizeof *in);
    for (int i = 0; in != NULL && i < op->n_in; i++) {
        in[i == 0 ? 0 : i + 1] = td_hlo_in(f, op, i);
    }
    if (in == NULL) {
        return;
    }
    in[1] = named ? text(f, message->str.p, message->str.len) : text(f, unknown, sizeof unknown - 1);
    const struct td_value check = td_emit(&f->e, "Assert", in, op->n_in + 1, TD_NO_ATTRS);
    if (f->e.rc == TD_OK) {
        td_hlo_must_run(f, check);
    }
}

static void call_host(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    const struct td_hlo_attr *config = td_hlo_attr(op, "tf.backend_config");
    const struct td_hlo_attr *index =
        config == NULL ? NULL : td_hlo_attr_find(config->items, config->n, "called_index");
    const struct td_bytes *name = index == NULL || index->i < 0 || index->i >= f->w->n_host_functions
                                      ? NULL
                                      : &f->w->host_functions[index->i];
    const struct td_function *called = name == NULL ? NULL : td_library_find(f->w->lib, name->p);
    if (called == NULL || called->n_args != op->n_in || called->n_rets != op->n_out) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "a call of TensorFlow's function '%s'", name == NULL ? "" : name->p);
        return;
    }
    td_hlo_call_function(f, op, called);
}

/* Another name of an operation: its rule runs; false: there is none. */
static bool run_as(struct td_hlo_frame *f, const struct td_hlo_op *op, const char *prefix,
                   const struct td_bytes *name)
{
    char chlo[64];
    const size_t skip = strlen(prefix);
    if (name->len <= skip || memcmp(name->p, prefix, skip) != 0 || name->len - skip > 40) {
        return false;
    }
    snprintf(chlo, sizeof chlo, "chlo.%.*s", (int)(name->len - skip), name->p + skip);
    if (strcmp(chlo, "chlo.topk") == 0) {
        snprintf(chlo, sizeof chlo, "chlo.top_k");
    }
    return td_hlo_run_as(f, op, chlo);
}

void td_hlo_composite(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    const struct td_hlo_attr *name = td_hlo_attr(op, "name");
    if (name == NULL || name->kind != TD_HLO_STRING || !run_as(f, op, "chlo.", &name->str)) {
        td_hlo_call_named(f, op, "decomposition");
    }
}

void td_hlo_custom_call(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    static const char *const identities[] = {"Sharding",
                                             "SPMDFullToShardShape",
                                             "SPMDShardToFullShape",
                                             "annotate_device_placement",
                                             "LayoutConstraint",
                                             "MoveToDevice",
                                             "MoveToHost",
                                             "xla.sdy.FuncResultSharding",
                                             "xla.sdy.GlobalToLocalShape",
                                             "xla.sdy.LocalToGlobalShape",
                                             NULL};
    const struct td_hlo_attr *target = td_hlo_attr(op, "call_target_name");
    char name[128] = "";
    if (target != NULL && target->kind == TD_HLO_STRING) {
        snprintf(name, sizeof name, "%.*s", (int)(target->str.len > 120 ? 120 : target->str.len),
                 target->str.p);
    }
    if (is_one_of(name, identities)) {
        td_hlo_same(f, op);
    } else if (strcmp(name, "shape_assertion") == 0) {
        assert_shapes(f, op);
    } else if (strcmp(name, "tf.call_tf_function") == 0) {
        call_host(f, op);
    } else if (target == NULL || !run_as(f, op, "mhlo.", &target->str)) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "custom call '%s'", name);
    }
}
