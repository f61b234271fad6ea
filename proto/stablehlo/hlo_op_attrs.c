/* proto/stablehlo/hlo_op_attrs.c - makes an operation's attributes of its properties and its dictionary.
 *
 * From bytecode version 5 on, what belongs to an operation are properties, whose names are vhlo_ops.def's;
 * before, and what others annotate, is a dictionary. Behind these come the lists that a later version of the
 * operation has. Left out is what says nothing: an attribute that is the type none, and a result's accuracy
 * that is the default.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/stablehlo/hlo_op_attrs.h"

#include <string.h>

struct td_hlo_op_attrs_made {
    struct td_hlo_op_refs refs;
    const struct td_hlo_attr *attrs; /* NULL: none made yet */
    int n;
};

enum td_code td_hlo_op_attrs_init(struct td_hlo_op_attrs *a, struct td_mlir_pool *pool, struct td_err *err)
{
    const struct td_mlir_file *f = pool->f;
    *a = (struct td_hlo_op_attrs){.pool = pool};
    TD_TRY(td_mlir_alloc(f, (size_t)f->n_properties, sizeof *a->of_properties, &a->of_properties, err));
    return td_mlir_alloc(f, (size_t)f->n_attrs, sizeof *a->of_dictionaries, &a->of_dictionaries, err);
}

static bool is_default(const struct td_hlo_attr *attr)
{
    if (attr->kind == TD_HLO_TYPE) {
        return attr->type.kind == TD_HLO_NONE;
    }
    if (attr->kind != TD_HLO_DICT || strcmp(attr->name, "result_accuracy") != 0) {
        return false;
    }
    const struct td_hlo_attr *mode = td_hlo_attr_find(attr->items, attr->n, "mode");
    return mode != NULL && mode->kind == TD_HLO_STRING && strcmp(mode->str.p, "DEFAULT") == 0;
}

static void add(struct td_hlo_attr *attrs, int *n, const struct td_hlo_attr *attr, const char *name)
{
    attrs[*n] = *attr;
    attrs[*n].name = name;
    *n += !is_default(&attrs[*n]);
}

static int n_of(const char *const *names)
{
    int n = 0;
    while (names[n] != NULL) {
        n++;
    }
    return n;
}

static enum td_code add_properties(struct td_hlo_op_attrs *a, const struct td_hlo_op_refs *refs,
                                   struct td_hlo_attr *attrs, int *n, struct td_err *err)
{
    struct td_mlir_bytes b = a->pool->f->properties[refs->properties];
    for (int i = 0; refs->op->properties[i] != NULL; i++) {
        const struct td_hlo_attr *attr;
        TD_TRY(td_mlir_attr_of(a->pool, &b, &attr, err));
        add(attrs, n, attr, refs->op->properties[i]);
    }
    return td_mlir_end(&b, refs->op->name, err);
}

static void add_lists(const struct td_vhlo_op *op, struct td_hlo_attr *attrs, int *n)
{
    const struct td_hlo_attr empty = {
        .kind = TD_HLO_DENSE,
        .type = {.kind = TD_HLO_TENSOR, .dtype = TD_INT64, .shape = td_shape_vector(0)},
        .raw = {"", 0},
    };
    for (int i = 0; op->later_lists[i] != NULL; i++) {
        add(attrs, n, &empty, op->later_lists[i]);
    }
}

static enum td_code make(struct td_hlo_op_attrs *a, const struct td_hlo_op_refs *refs,
                         struct td_hlo_op_attrs_made *made, struct td_err *err)
{
    const struct td_hlo_attr none = {.n = 0}, *dictionary = &none;
    if (refs->dictionary >= 0) {
        TD_TRY(td_mlir_attr_at(a->pool, refs->dictionary, &dictionary, err));
        TD_FAIL_IF(dictionary->kind != TD_HLO_DICT, err, INVALID_ARGUMENT,
                   "StableHLO module: attribute %d, of an operation, is no dictionary", refs->dictionary);
    }
    bool has_properties = refs->op != NULL && refs->properties >= 0;
    size_t most = (size_t)dictionary->n;
    if (refs->op != NULL) {
        most += (size_t)n_of(refs->op->later_lists) + (size_t)n_of(refs->op->properties);
    }
    struct td_hlo_attr *attrs;
    int n = 0;
    TD_TRY(td_mlir_alloc(a->pool->f, most, sizeof *attrs, &attrs, err));
    if (has_properties) {
        TD_TRY(add_properties(a, refs, attrs, &n, err));
    }
    for (int i = 0; i < dictionary->n; i++) {
        add(attrs, &n, &dictionary->items[i], dictionary->items[i].name);
    }
    if (refs->op != NULL) {
        add_lists(refs->op, attrs, &n);
    }
    *made = (struct td_hlo_op_attrs_made){*refs, attrs, n};
    return TD_OK;
}

enum td_code td_hlo_op_attrs_get(struct td_hlo_op_attrs *a, const struct td_hlo_op_refs *refs,
                                 const struct td_hlo_attr **attrs, int *n, struct td_err *err)
{
    *attrs = NULL;
    *n = 0;
    if (refs->properties < 0 && refs->dictionary < 0) {
        return TD_OK;
    }
    struct td_hlo_op_attrs_made *made =
        refs->properties >= 0 ? &a->of_properties[refs->properties] : &a->of_dictionaries[refs->dictionary];
    if (made->attrs == NULL || made->refs.op != refs->op || made->refs.dictionary != refs->dictionary) {
        TD_TRY(make(a, refs, made, err));
    }
    *attrs = made->attrs;
    *n = made->n;
    return TD_OK;
}
