/* core/graph/define.c - one node against its definition: attributes first, as they say how many ports there
 * are and of what dtype.
 *
 * Attributes that are there are compared with the definition's kinds and allowed values; then the defaults of
 * those that are missing are appended to a list of the node's own. An argument is one tensor, as many as a
 * number attribute says, or as many as a list of types has; widths are added up with a limit before there is
 * room for them. Inputs, their dtypes and whether they are references lie in one block; so do outputs.
 *
 * Texts are those of TensorFlow, since clients see them. Holds no state.
 *
 * Does not: find the definition or the nodes that inputs name (core/graph/resolve.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/define.h"

#include <string.h>

#include "core/base/mem.h"

/* ------------------------------------------------------------------ attributes */

static enum td_code check_attr(const struct td_node *n, const struct td_attr_def *d, const struct td_attr *a,
                               struct td_err *err)
{
    static const char *const names[] = {"none", "string", "int",    "float", "bool",
                                        "type", "shape",  "tensor", "func",  "placeholder"};
    if (a->kind == TD_ATTR_PLACEHOLDER) {
        return TD_OK;
    }
    bool empty_list = a->is_list && a->n == 0;
    TD_FAIL_IF(a->is_list != d->is_list || (a->kind != d->kind && !empty_list), err, INVALID_ARGUMENT,
               "%s: AttrValue had value with type '%s%s' when '%s%s' expected for attr '%s'", TD_NODE_STR(n),
               a->is_list ? "list of " : "", names[a->kind], d->is_list ? "list of " : "", names[d->kind],
               a->name);
    bool fits = d->n_allowed == 0 || a->kind != TD_ATTR_STRING;
    for (int i = 0; !fits && !a->is_list && i < d->n_allowed; i++) {
        fits = d->allowed[i].len == a->str[0].len && memcmp(d->allowed[i].p, a->str[0].p, a->str[0].len) == 0;
    }
    TD_FAIL_IF(!fits && !a->is_list, err, INVALID_ARGUMENT,
               "%s: Value for attr '%s' of \"%.60s\" is not in the list of allowed values", TD_NODE_STR(n),
               a->name, a->str[0].p);
    return TD_OK;
}

/* Checks the attributes that are there; *missing counts those that the file left out and that have a
 * default. */
static enum td_code check_attrs(const struct td_node *n, int *missing, struct td_err *err)
{
    *missing = 0;
    for (int i = 0; i < n->def->n_attrs; i++) {
        const struct td_attr_def *d = &n->def->attrs[i];
        const struct td_attr *a = td_attr_find(n->attrs, n->n_attrs, d->name);
        if (a != NULL) {
            TD_TRY(check_attr(n, d, a, err));
        } else if (d->has_default) {
            ++*missing;
        } else {
            TD_FAIL_IF(n->op != NULL && d->kind != TD_ATTR_FUNC && d->kind != TD_ATTR_SHAPE, err,
                       INVALID_ARGUMENT, "NodeDef missing attr '%s' from Op<name=%s>: %s", d->name,
                       n->op_name, TD_NODE_STR(n));
        }
    }
    return TD_OK;
}

/* Appends the defaults of attributes that the file left out. */
enum td_code td_define_attrs(struct td_arena *a, struct td_node *n, struct td_err *err)
{
    int missing, given = n->n_attrs;
    TD_TRY(check_attrs(n, &missing, err));
    if (missing == 0) {
        return TD_OK;
    }
    struct td_attr *all = td_arena_alloc(a, (size_t)given + (size_t)missing, sizeof *all);
    if (all == NULL) {
        return td_no_memory(err, sizeof *all, "attributes");
    }
    if (given > 0) {
        memcpy(all, n->attrs, (size_t)given * sizeof *all);
    }
    for (int i = 0; i < n->def->n_attrs; i++) {
        const struct td_attr_def *d = &n->def->attrs[i];
        if (d->has_default && td_attr_find(all, given, d->name) == NULL) {
            all[n->n_attrs++] = d->value;
        }
    }
    n->attrs = all;
    return TD_OK;
}

/* ------------------------------------------------------------------ ports */

int td_define_width(const struct td_node *n, const struct td_arg_def *arg, struct td_err *err)
{
    int64_t len = 1;
    if (arg->number_attr != NULL) {
        len = td_attr_int(n, arg->number_attr);
    } else if (arg->list_attr != NULL) {
        len = td_attr_len(n, arg->list_attr);
    }
    if (len < 0 || len > TD_MAX_PORTS) {
        td_fail(err, TD_INVALID_ARGUMENT, "%s: argument '%s' has length %lld, must be in [0, %d]",
                TD_NODE_STR(n), arg->name, (long long)len, TD_MAX_PORTS);
        return -1;
    }
    return (int)len;
}

static enum td_dtype arg_type(const struct td_node *n, const struct td_arg_def *a, int i)
{
    if (a->list_attr != NULL) {
        int count;
        const enum td_dtype *list = td_attr_types(n, a->list_attr, &count);
        return i < count ? list[i] : TD_DTYPE_NONE;
    }
    return a->type_attr != NULL ? td_attr_type(n, a->type_attr) : a->type;
}

static enum td_code count_ports(const struct td_node *n, const struct td_arg_def *args, int n_args,
                                int *total, struct td_err *err)
{
    *total = 0;
    for (int i = 0; i < n_args; i++) {
        int len = td_define_width(n, &args[i], err);
        if (len < 0) {
            return err->code;
        }
        *total += len;
        TD_FAIL_IF(*total > TD_MAX_PORTS, err, INVALID_ARGUMENT, "%s has more than %d tensors",
                   TD_NODE_STR(n), TD_MAX_PORTS);
    }
    return TD_OK;
}

/* One block. */
enum td_code td_define_output_room(struct td_arena *a, struct td_node *n, int total, struct td_err *err)
{
    const size_t room = (size_t)total + 1;
    n->out_type = td_arena_alloc(a, room, sizeof n->out_type[0] + sizeof n->out_ref[0]);
    if (n->out_type == NULL) {
        return td_no_memory(err, room, "node outputs");
    }
    n->out_ref = (bool *)(n->out_type + room);
    return TD_OK;
}

enum td_code td_define_outputs(struct td_arena *a, struct td_node *n, struct td_err *err)
{
    int total;
    TD_TRY(count_ports(n, n->def->out, n->def->n_out, &total, err));
    TD_TRY(td_define_output_room(a, n, total, err));
    for (int i = 0; i < n->def->n_out; i++) {
        int len = td_define_width(n, &n->def->out[i], err);
        for (int k = 0; k < len; k++) {
            n->out_ref[n->n_out] = n->def->out[i].is_ref;
            n->out_type[n->n_out++] = arg_type(n, &n->def->out[i], k);
        }
    }
    return TD_OK;
}

/* One block: values, dtypes, references. */
enum td_code td_define_input_room(struct td_arena *a, struct td_node *n, int total, struct td_err *err)
{
    const size_t room = (size_t)total;
    n->in = td_arena_alloc(a, room + 1, sizeof n->in[0] + sizeof n->in_type[0] + sizeof n->in_ref[0]);
    if (n->in == NULL) {
        return td_no_memory(err, room, "node inputs");
    }
    n->in_ref = (bool *)((enum td_dtype *)(n->in + room) + room);
    return TD_OK;
}

static enum td_code check_edge(const struct td_node *n, int i, enum td_dtype want, bool want_ref,
                               struct td_err *err)
{
    const struct td_value *v = &n->in[i];
    enum td_dtype have = v->node->out_type[v->port];
    bool wrong_type = want != TD_DTYPE_NONE && have != TD_DTYPE_NONE && want != have;
    TD_FAIL_IF(wrong_type || (want_ref && !v->node->out_ref[v->port]), err, INVALID_ARGUMENT,
               "Input %d of node %s was passed %s from %s:%d incompatible with expected %s%s. (op %s%s%s)", i,
               n->name, td_dtype_name(have), v->node->name, v->port, td_dtype_name(want),
               want_ref ? "_ref" : "", n->op_name, n->function[0] ? ", function " : "", n->function);
    return TD_OK;
}

enum td_code td_define_inputs(struct td_node *n, struct td_err *err)
{
    int want, i = 0;
    TD_TRY(count_ports(n, n->def->in, n->def->n_in, &want, err));
    TD_FAIL_IF(want != n->n_in, err, INVALID_ARGUMENT, "%s has %d inputs, its definition wants %d",
               TD_NODE_STR(n), n->n_in, want);
    n->in_type = (enum td_dtype *)(n->in + n->n_in);
    for (int a = 0; a < n->def->n_in; a++) {
        int len = td_define_width(n, &n->def->in[a], err);
        for (int k = 0; k < len; k++, i++) {
            n->in_ref[i] = n->def->in[a].is_ref;
            n->in_type[i] = arg_type(n, &n->def->in[a], k);
            TD_TRY(check_edge(n, i, n->in_type[i], n->in_ref[i], err));
        }
    }
    return TD_OK;
}
