/* proto/stablehlo/mlir_pool.c - reads attributes and types on demand, each once.
 *
 * The tables hold a pointer for each entry of the file. What an entry says is its dialect's matter:
 * mlir_types.h for types, vhlo_attrs.h and builtin_attrs.h for attributes; these call back here for what
 * theirs refers to.
 *
 * depth is the number of entries that are being read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/stablehlo/mlir_pool.h"

#include "proto/stablehlo/builtin_attrs.h"
#include "proto/stablehlo/mlir_types.h"
#include "proto/stablehlo/vhlo_attrs.h"

enum td_code td_mlir_pool_init(struct td_mlir_pool *pool, const struct td_mlir_file *f, struct td_err *err)
{
    *pool = (struct td_mlir_pool){.f = f};
    TD_TRY(td_mlir_alloc(f, (size_t)f->n_types, sizeof(void *), &pool->types, err));
    return td_mlir_alloc(f, (size_t)f->n_attrs, sizeof(void *), &pool->attrs, err);
}

/* Text is what a dialect writes where it has no encoding of its own; nothing that VHLO's writers leave is
 * text. */
static enum td_code enter(struct td_mlir_pool *pool, const struct td_mlir_entry *e, const char *what,
                          struct td_err *err)
{
    TD_FAIL_IF(!e->coded, err, UNIMPLEMENTED, "StableHLO module, byte %zu: %s of dialect %s as text: '%.*s'",
               td_mlir_at(&e->data), what, pool->f->dialects[e->dialect].name, (int)td_mlir_left(&e->data),
               (const char *)e->data.p);
    TD_FAIL_IF(pool->depth >= TD_MLIR_MAX_NESTING, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: %s lies in %d others, want fewer", td_mlir_at(&e->data), what,
               pool->depth);
    pool->depth++;
    return TD_OK;
}

static enum td_code read_type(struct td_mlir_pool *pool, const struct td_mlir_entry *e,
                              struct td_mlir_bytes *b, struct td_mlir_type *out, struct td_err *err)
{
    switch (pool->f->dialects[e->dialect].kind) {
    case TD_MLIR_VHLO:
        return td_mlir_types_vhlo(pool, b, out, err);
    case TD_MLIR_BUILTIN:
        return td_mlir_types_builtin(pool, b, out, err);
    default:
        TD_FAIL(err, UNIMPLEMENTED, "StableHLO module, byte %zu: a type of dialect %s", td_mlir_at(b),
                pool->f->dialects[e->dialect].name);
    }
}

enum td_code td_mlir_type_at(struct td_mlir_pool *pool, int i, const struct td_mlir_type **out,
                             struct td_err *err)
{
    if (pool->types[i] == NULL) {
        const struct td_mlir_entry *e = &pool->f->types[i];
        struct td_mlir_bytes b = e->data;
        struct td_mlir_type *t;
        TD_TRY(enter(pool, e, "a type", err));
        TD_TRY(td_mlir_alloc(pool->f, 1, sizeof *t, &t, err));
        TD_TRY(read_type(pool, e, &b, t, err));
        TD_TRY(td_mlir_end(&b, "the type", err));
        pool->depth--;
        pool->types[i] = t;
    }
    *out = pool->types[i];
    return TD_OK;
}

static enum td_code read_attr(struct td_mlir_pool *pool, const struct td_mlir_entry *e,
                              struct td_mlir_bytes *b, struct td_hlo_attr *out, struct td_err *err)
{
    switch (pool->f->dialects[e->dialect].kind) {
    case TD_MLIR_VHLO:
        return td_vhlo_attrs_read(pool, b, out, err);
    case TD_MLIR_BUILTIN:
        return td_builtin_attrs_read(pool, b, out, err);
    default:
        TD_FAIL(err, UNIMPLEMENTED, "StableHLO module, byte %zu: an attribute of dialect %s", td_mlir_at(b),
                pool->f->dialects[e->dialect].name);
    }
}

enum td_code td_mlir_attr_at(struct td_mlir_pool *pool, int i, const struct td_hlo_attr **out,
                             struct td_err *err)
{
    if (pool->attrs[i] == NULL) {
        const struct td_mlir_entry *e = &pool->f->attrs[i];
        struct td_mlir_bytes b = e->data;
        struct td_hlo_attr *attr;
        TD_TRY(enter(pool, e, "an attribute", err));
        TD_TRY(td_mlir_alloc(pool->f, 1, sizeof *attr, &attr, err));
        attr->name = "";
        TD_TRY(read_attr(pool, e, &b, attr, err));
        TD_TRY(td_mlir_end(&b, "the attribute", err));
        pool->depth--;
        pool->attrs[i] = attr;
    }
    *out = pool->attrs[i];
    return TD_OK;
}

enum td_code td_mlir_type_of(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                             const struct td_mlir_type **out, struct td_err *err)
{
    int i;
    TD_TRY(td_mlir_index(b, "type", pool->f->n_types, &i, err));
    return td_mlir_type_at(pool, i, out, err);
}

enum td_code td_mlir_attr_of(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                             const struct td_hlo_attr **out, struct td_err *err)
{
    int i;
    TD_TRY(td_mlir_index(b, "attribute", pool->f->n_attrs, &i, err));
    return td_mlir_attr_at(pool, i, out, err);
}

enum td_code td_mlir_types_of(struct td_mlir_pool *pool, struct td_mlir_bytes *b,
                              const struct td_hlo_type **out, int *n, struct td_err *err)
{
    TD_TRY(td_mlir_count(b, "types", n, err));
    struct td_hlo_type *types;
    TD_TRY(td_mlir_alloc(pool->f, (size_t)*n, sizeof *types, &types, err));
    for (int i = 0; i < *n; i++) {
        const struct td_mlir_type *t;
        TD_TRY(td_mlir_type_of(pool, b, &t, err));
        types[i] = t->t;
    }
    *out = types;
    return TD_OK;
}
