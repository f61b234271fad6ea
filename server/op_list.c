/* server/op_list.c - walks the op table into a jansson document, one row an op.
 *
 * A row has the op's signature as text, whether it is stateful or refused and why, whether it has a gradient,
 * and its kernel rows with the dtypes that each takes for each attribute, read off the sets of bits. Nothing
 * is loaded or run. Does not: know models.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/op_list.h"

#include <jansson.h>

#include "core/grad/differentiable.h"

static json_t *type_names(uint32_t set)
{
    json_t *list = json_array();
    for (int t = 1; t < TD_DTYPE_END; t++) {
        if (td_dtype_valid(t) && td_dtype_in((enum td_dtype)t, set)) {
            json_array_append_new(list, json_string(td_dtype_name((enum td_dtype)t)));
        }
    }
    return list;
}

static json_t *kernel_row(const struct td_kernel *k)
{
    json_t *row = json_object(), *types = json_object();
    json_object_set_new(row, "name", json_string(k->name));
    json_object_set_new(row, "device", json_string(k->device == TD_CPU ? "CPU" : "GPU"));
    for (int i = 0; i < TD_TYPE_RULES && k->types[i].attr != NULL; i++) {
        json_object_set_new(types, k->types[i].attr, type_names(k->types[i].set));
    }
    json_object_set_new(row, "types", types);
    return row;
}

static json_t *op_row(const struct td_op_def *def)
{
    const struct td_op *op = def->op;
    json_t *row = json_object(), *kernels = json_array();
    const char *why;
    const enum td_differentiable d = td_op_differentiable(def, &why);
    json_object_set_new(row, "name", json_string(op->name));
    json_object_set_new(row, "signature", json_string(op->sig == NULL ? "() -> ()" : op->sig));
    json_object_set_new(row, "stateful", json_boolean(op->flags & TD_OP_STATEFUL));
    json_object_set_new(row, "gradient", json_string(td_differentiable_name(d)));
    if (why != NULL) {
        json_object_set_new(row, "gradient_why", json_string(why));
    }
    if (op->flags & TD_OP_REFUSED) {
        json_object_set_new(row, "refused", json_string(op->doc == NULL ? "" : op->doc));
    }
    for (const struct td_kernel *k = op->kernels; k != NULL && k->run != NULL; k++) {
        json_array_append_new(kernels, kernel_row(k));
    }
    json_object_set_new(row, "kernels", kernels);
    return row;
}

char *td_op_list_json(const struct td_op_table *ops)
{
    int n;
    const struct td_op_def *const *defs = td_op_list(ops, &n);
    json_t *doc = json_object(), *list = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(list, op_row(defs[i]));
    }
    json_object_set_new(doc, "ops", list);
    char *text = json_dumps(doc, JSON_INDENT(1));
    json_decref(doc);
    return text;
}
