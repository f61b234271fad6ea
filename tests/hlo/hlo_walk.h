/* tests/hlo/hlo_walk.h - goes through a module that was read and touches all of it: what a translator may
 * rely on holds, or the program ends.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_HLO_HLO_WALK_H
#define TD_TESTS_HLO_HLO_WALK_H

#include <string.h>

#include "proto/stablehlo/module.h"

/* A list may hold one attribute often: that it is shared is the reader's matter, to see it once each is
 * enough. */
enum { HLO_WALK_ATTRS = 20000 };

static inline void hlo_walk_type(const struct td_hlo_type *t, int depth)
{
    TD_CHECK(depth < 100);
    TD_CHECK(t->kind != TD_HLO_TENSOR || t->dtype != TD_DTYPE_NONE || t->unsupported != NULL);
    TD_CHECK(t->kind != TD_HLO_TENSOR || (t->shape.rank >= -1 && t->shape.rank <= TD_MAX_RANK));
    for (int i = 0; i < t->n_parts; i++) {
        hlo_walk_type(&t->parts[i], depth + 1);
    }
}

static inline unsigned hlo_walk_dense(const struct td_hlo_attr *a)
{
    unsigned sum = 0;
    for (size_t i = 0; i < a->raw.len; i++) {
        sum += (unsigned char)a->raw.p[i];
    }
    if (a->type.unsupported == NULL) {
        uint64_t n = a->splat ? 1 : (uint64_t)td_shape_count(&a->type.shape);
        TD_CHECK(a->raw.len ==
                 (a->type.dtype == TD_BOOL ? n / 8 + (n % 8 != 0) : n * td_dtype_size(a->type.dtype)));
    }
    return sum;
}

static inline unsigned hlo_walk_attrs(const struct td_hlo_attr *attrs, int n, int *left)
{
    unsigned sum = 0;
    for (int i = 0; i < n && --*left > 0; i++) {
        const struct td_hlo_attr *a = &attrs[i];
        sum += (unsigned)strlen(a->name) + (unsigned)a->i + (a->f > 1);
        if (a->kind == TD_HLO_DENSE || a->kind == TD_HLO_TYPE) {
            hlo_walk_type(&a->type, 0);
        }
        if (a->kind == TD_HLO_STRING) {
            TD_CHECK(a->str.p[a->str.len] == 0);
        }
        if (a->kind == TD_HLO_DENSE) {
            sum += hlo_walk_dense(a);
        }
        sum += hlo_walk_attrs(a->items, a->n, left);
    }
    return sum;
}

/* seen: of each number of a value whether it is there; on the way out of a region its values are gone. */
static inline unsigned hlo_walk_block(const struct td_hlo_block *b, const struct td_hlo_value **seen, int n)
{
    unsigned sum = 0;
    for (int i = 0; i < b->n_args; i++) {
        const struct td_hlo_value *v = b->args[i];
        TD_CHECK(v->id >= 0 && v->id < n && v->op == NULL && v->index == i && seen[v->id] == NULL);
        hlo_walk_type(&v->type, 0);
        seen[v->id] = v;
    }
    for (int i = 0; i < b->n_ops; i++) {
        const struct td_hlo_op *op = b->ops[i];
        int left = HLO_WALK_ATTRS;
        sum += (unsigned)strlen(op->name) + hlo_walk_attrs(op->attrs, op->n_attrs, &left);
        for (int k = 0; k < op->n_in; k++) {
            TD_CHECK(seen[op->in[k]->id] == op->in[k]);
        }
        for (int k = 0; k < op->n_regions; k++) {
            sum += hlo_walk_block(&op->regions[k], seen, n);
        }
        for (int k = 0; k < op->n_out; k++) {
            const struct td_hlo_value *v = op->out[k];
            TD_CHECK(v->id >= 0 && v->id < n && v->op == op && v->index == k && seen[v->id] == NULL);
            hlo_walk_type(&v->type, 0);
            seen[v->id] = v;
        }
    }
    for (int i = 0; i < b->n_args; i++) {
        seen[b->args[i]->id] = NULL;
    }
    for (int i = 0; i < b->n_ops; i++) {
        for (int k = 0; k < b->ops[i]->n_out; k++) {
            seen[b->ops[i]->out[k]->id] = NULL;
        }
    }
    return sum;
}

/* a: for what it needs itself. */
static inline unsigned hlo_walk(const struct td_hlo_module *m, struct td_arena *a)
{
    unsigned sum = (unsigned)strlen(m->version);
    for (int i = 0; i < m->n_functions; i++) {
        const struct td_hlo_function *f = &m->functions[i];
        TD_CHECK(td_hlo_function_find(m, f->name) != NULL);
        for (int k = 0; k < f->n_results; k++) {
            hlo_walk_type(&f->results[k], 0);
        }
        const struct td_hlo_value **seen = td_arena_alloc(a, (size_t)f->n_values + 1, sizeof *seen);
        if (seen != NULL) {
            sum += hlo_walk_block(&f->body, seen, f->n_values);
        }
    }
    return sum;
}

#endif
