/* proto/stablehlo/hlo_blocks.c - reads operations: the IR section of MLIR's bytecode.
 *
 *   block      2 * n operations + has arguments, [n, their types, use orders], the operations
 *   region     n blocks, n values that its arguments and its operations' results are, the blocks
 *   operation  name, mask of what follows, location, [dictionary], [properties], [n, types of results],
 *              [n, operands], [use orders], [2 * n regions + isolated], the regions
 *
 * Values have no names but their number: a region's follow those of the one around it, and are free again
 * behind it; an isolated region begins at 0. A scope is such a region, its values lie in a table of its own,
 * and a number is looked up from the innermost outwards. Regions are read recursively, at most
 * TD_MLIR_MAX_NESTING deep. Use orders (the order in which a value's uses were made) are passed over.
 *
 * Every region of StableHLO is one block, in which an operand is defined before it is used: what refers
 * forward is refused.
 *
 * Casts between VHLO's types and builtin's, and Shardy's constraints, which JAX leaves beside VHLO, say
 * nothing about the numbers: their results are their operands, and the blocks do not have them.
 *
 * A region defines as many values as it says, at a byte each, so that tables cannot outgrow the file.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/stablehlo/hlo_blocks.h"

#include <string.h>

#include "proto/stablehlo/hlo_op_attrs.h"

enum mask {
    HAS_DICTIONARY = 1,
    HAS_RESULTS = 2,
    HAS_OPERANDS = 4,
    HAS_SUCCESSORS = 8,
    HAS_REGIONS = 16,
    HAS_USE_ORDERS = 32,
    HAS_PROPERTIES = 64
};

enum { FUNCTION_DEPTH = 1 }; /* of a function's operation: it lies in the module */

struct scope {
    const struct scope *outer; /* NULL: isolated */
    const struct td_hlo_value **values;
    int first, n, n_defined; /* number of values[0], ... */
};

/* What a name of the file's table is. */
struct known_name {
    const char *name; /* StableHLO's; NULL: not asked for yet */
    const struct td_vhlo_op *op;
    bool is_vhlo, is_function, is_module, is_same;
};

struct function_link {
    struct td_hlo_function f;
    struct function_link *next;
};

struct reader {
    struct td_mlir_pool *pool;
    const struct td_mlir_file *f;
    struct td_hlo_op_attrs attrs;
    struct known_name *names;
    int depth; /* regions around */
    int n_ids; /* of the function that is being read */
    struct function_link **last;
    int n_functions;
};

static enum td_code read_region(struct reader *r, struct td_mlir_bytes *b, const struct scope *outer,
                                struct td_hlo_block *out, struct td_err *err);

/* "gather" of "gather_v2". */
static enum td_code without_version(const struct reader *r, const char *name, const char **out,
                                    struct td_err *err)
{
    const char *end = strrchr(name, '_');
    size_t n = end != NULL && end[1] == 'v' ? (size_t)(end - name) : strlen(name);
    *out = td_arena_strndup(r->f->a, name, n);
    TD_FAIL_IF(*out == NULL, err, RESOURCE_EXHAUSTED, "StableHLO module: no memory for a name");
    return TD_OK;
}

static enum td_code with_dialect(const struct reader *r, const char *dialect, const char *name,
                                 const char **out, struct td_err *err)
{
    size_t n = strlen(dialect), size = n + strlen(name) + 2;
    char *text;
    TD_TRY(td_mlir_alloc(r->f, size, 1, &text, err));
    memcpy(text, dialect, n);
    text[n] = '.';
    memcpy(text + n + 1, name, size - n - 1);
    *out = text;
    return TD_OK;
}

/* Its results are its operands. */
static bool is_same(const char *name)
{
    static const char *const names[] = {"builtin.unrealized_conversion_cast", "sdy.sharding_constraint",
                                        "sdy.reshard", "sdy.propagation_barrier"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static enum td_code name_of(struct reader *r, const struct td_mlir_bytes *b, int i,
                            const struct known_name **out, struct td_err *err)
{
    struct known_name *k = &r->names[i];
    *out = k;
    if (k->name != NULL) {
        return TD_OK;
    }
    const char *name = r->f->op_names[i].name;
    const struct td_mlir_dialect_entry *dialect = &r->f->dialects[r->f->op_names[i].dialect];
    switch (dialect->kind) {
    case TD_MLIR_VHLO:
        k->is_vhlo = true;
        k->op = td_vhlo_ops_find(name);
        TD_FAIL_IF(k->op == NULL, err, UNIMPLEMENTED,
                   "StableHLO module, byte %zu: operation vhlo.%s is newer than this reader", td_mlir_at(b),
                   name);
        TD_TRY(without_version(r, name, &k->name, err));
        k->is_function = strcmp(k->name, "func") == 0;
        return TD_OK;
    default:
        TD_TRY(with_dialect(r, dialect->name, name, &k->name, err));
        k->is_module = strcmp(k->name, "builtin.module") == 0;
        k->is_same = is_same(k->name);
        return TD_OK;
    }
}

static enum td_code skip_use_orders(struct td_mlir_bytes *b, int n_values, struct td_err *err)
{
    int n = 1;
    if (n_values > 1) {
        TD_TRY(td_mlir_count(b, "use orders", &n, err));
    }
    for (int i = 0; i < n; i++) {
        uint64_t v, n_uses;
        bool pairs;
        if (n_values > 1) {
            TD_TRY(td_mlir_varint(b, &v, err));
        }
        TD_TRY(td_mlir_flagged(b, &n_uses, &pairs, err));
        for (; n_uses > 0; n_uses--) {
            TD_TRY(td_mlir_varint(b, &v, err));
        }
    }
    return TD_OK;
}

/* The next n values of the scope; their types are the caller's to fill in. */
static enum td_code new_values(struct reader *r, const struct td_mlir_bytes *b, struct scope *s, int n,
                               struct td_hlo_value **values, const struct td_hlo_value ***pointers,
                               struct td_err *err)
{
    TD_FAIL_IF(n > s->n - s->n_defined, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: %d values more in a region of %d", td_mlir_at(b), n, s->n);
    TD_TRY(td_mlir_alloc(r->f, (size_t)n, sizeof **values, values, err));
    TD_TRY(td_mlir_alloc(r->f, (size_t)n, sizeof **pointers, pointers, err));
    for (int i = 0; i < n; i++) {
        (*values)[i].index = i;
        (*values)[i].id = r->n_ids++;
        (*pointers)[i] = &(*values)[i];
    }
    return TD_OK;
}

static void define(struct scope *s, const struct td_hlo_value **pointers, int n)
{
    if (n > 0) {
        memcpy(s->values + s->n_defined, pointers, (size_t)n * sizeof *pointers);
    }
    s->n_defined += n;
}

static enum td_code read_operand(const struct scope *s, struct td_mlir_bytes *b,
                                 const struct td_hlo_value **out, struct td_err *err)
{
    int i;
    TD_TRY(td_mlir_index(b, "value", s->first + s->n, &i, err));
    while (i < s->first) { /* an outermost scope begins at 0 */
        s = s->outer;
    }
    TD_FAIL_IF(i - s->first >= s->n_defined, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: value %d is used before it is there", td_mlir_at(b), i);
    *out = s->values[i - s->first];
    return TD_OK;
}

static enum td_code read_operands(struct reader *r, struct td_mlir_bytes *b, const struct scope *s,
                                  struct td_hlo_op *op, struct td_err *err)
{
    TD_TRY(td_mlir_count(b, "operands", &op->n_in, err));
    TD_TRY(td_mlir_alloc(r->f, (size_t)op->n_in, sizeof *op->in, &op->in, err));
    for (int i = 0; i < op->n_in; i++) {
        TD_TRY(read_operand(s, b, &op->in[i], err));
    }
    return TD_OK;
}

static enum td_code read_results(struct reader *r, struct td_mlir_bytes *b, struct scope *s,
                                 struct td_hlo_op *op, struct td_err *err)
{
    struct td_hlo_value *values;
    TD_TRY(td_mlir_count(b, "results", &op->n_out, err));
    TD_TRY(new_values(r, b, s, op->n_out, &values, &op->out, err));
    for (int i = 0; i < op->n_out; i++) {
        const struct td_mlir_type *t;
        TD_TRY(td_mlir_type_of(r->pool, b, &t, err));
        values[i].type = t->t;
        values[i].op = op;
    }
    return TD_OK;
}

static enum td_code read_argument_type(struct reader *r, struct td_mlir_bytes *b,
                                       const struct td_mlir_type **t, struct td_err *err)
{
    uint64_t type;
    bool has_location = true;
    int i;
    if (r->f->version >= TD_MLIR_SHORT_ARGUMENTS) {
        TD_TRY(td_mlir_flagged(b, &type, &has_location, err));
    } else {
        TD_TRY(td_mlir_varint(b, &type, err));
    }
    if (has_location) {
        TD_TRY(td_mlir_index(b, "location", r->f->n_attrs, &i, err));
    }
    TD_TRY(td_mlir_index_is(b, "type", type, r->f->n_types, &i, err));
    return td_mlir_type_at(r->pool, i, t, err);
}

static enum td_code read_arguments(struct reader *r, struct td_mlir_bytes *b, struct scope *s,
                                   struct td_hlo_block *out, struct td_err *err)
{
    struct td_hlo_value *values;
    TD_TRY(td_mlir_count(b, "arguments", &out->n_args, err));
    TD_TRY(new_values(r, b, s, out->n_args, &values, &out->args, err));
    for (int i = 0; i < out->n_args; i++) {
        const struct td_mlir_type *t;
        TD_TRY(read_argument_type(r, b, &t, err));
        values[i].type = t->t;
    }
    define(s, out->args, out->n_args);
    if (r->f->version >= TD_MLIR_USE_ORDERS) {
        uint8_t has_orders;
        TD_TRY(td_mlir_byte(b, &has_orders, err));
        if (has_orders) {
            TD_TRY(skip_use_orders(b, out->n_args, err));
        }
    }
    return TD_OK;
}

static const char *text_of(const struct td_hlo_op *op, const char *name)
{
    const struct td_hlo_attr *attr = td_hlo_attr_find(op->attrs, op->n_attrs, name);
    return attr != NULL && attr->kind == TD_HLO_STRING ? attr->str.p : NULL;
}

static enum td_code add_function(struct reader *r, const struct td_mlir_bytes *b, const struct td_hlo_op *op,
                                 struct td_err *err)
{
    const char *name = text_of(op, "sym_name"), *visible = text_of(op, "sym_visibility");
    const struct td_hlo_attr *type = td_hlo_attr_find(op->attrs, op->n_attrs, "function_type");
    TD_FAIL_IF(
        r->depth != FUNCTION_DEPTH || op->n_regions != 1 || name == NULL || type == NULL ||
            type->kind != TD_HLO_TYPE || type->type.kind != TD_HLO_FUNCTION,
        err, INVALID_ARGUMENT,
        "StableHLO module, byte %zu: a function of %d regions at depth %d, want 1 at %d, a name and a type",
        td_mlir_at(b), op->n_regions, r->depth, FUNCTION_DEPTH);
    struct function_link *link;
    TD_TRY(td_mlir_alloc(r->f, 1, sizeof *link, &link, err));
    link->f = (struct td_hlo_function){
        .name = name,
        .is_private = visible != NULL && strcmp(visible, "private") == 0,
        .body = op->regions[0],
        .results = type->type.parts,
        .n_results = type->type.n_parts,
        .n_values = r->n_ids,
    };
    *r->last = link;
    r->last = &link->next;
    r->n_functions++;
    return TD_OK;
}

/* An isolated region is a section of its own from version 2 on. A function's is isolated whatever the file
 * says: values of the module around it have ids of no function. */
static enum td_code read_regions(struct reader *r, struct td_mlir_bytes *b, const struct scope *s,
                                 bool is_function, struct td_hlo_op *op, struct td_err *err)
{
    uint64_t n;
    bool isolated;
    TD_TRY(td_mlir_flagged(b, &n, &isolated, err));
    TD_TRY(td_mlir_count_is(b, "regions", n, &op->n_regions, err));
    struct td_hlo_block *regions;
    TD_TRY(td_mlir_alloc(r->f, (size_t)op->n_regions, sizeof *regions, &regions, err));
    op->regions = regions;
    struct td_mlir_bytes section = *b;
    bool own = isolated && op->n_regions > 0 && r->f->version >= TD_MLIR_REGION_SECTIONS;
    if (own) {
        int id;
        TD_TRY(td_mlir_section(b, &id, &section, err));
        TD_FAIL_IF(id != TD_MLIR_IR, err, INVALID_ARGUMENT,
                   "StableHLO module, byte %zu: section %d where a region is wanted", td_mlir_at(&section),
                   id);
    }
    for (int i = 0; i < op->n_regions; i++) {
        TD_TRY(read_region(r, &section, isolated || is_function ? NULL : s, &regions[i], err));
    }
    if (own) {
        return td_mlir_end(&section, "the region", err);
    }
    *b = section;
    return TD_OK;
}

/* Name, attributes: all before the results. */
static enum td_code read_head(struct reader *r, struct td_mlir_bytes *b, const struct known_name **known,
                              uint8_t *mask, struct td_hlo_op *op, struct td_err *err)
{
    int name, location;
    TD_TRY(td_mlir_index(b, "operation name", r->f->n_op_names, &name, err));
    TD_TRY(name_of(r, b, name, known, err));
    TD_TRY(td_mlir_byte(b, mask, err));
    TD_TRY(td_mlir_index(b, "location", r->f->n_attrs, &location, err));
    op->name = (*known)->name;
    struct td_hlo_op_refs refs = {(*known)->op, -1, -1};
    if (*mask & HAS_DICTIONARY) {
        TD_TRY(td_mlir_index(b, "attribute", r->f->n_attrs, &refs.dictionary, err));
    }
    if (*mask & HAS_PROPERTIES) {
        TD_TRY(td_mlir_index(b, "set of properties", r->f->n_properties, &refs.properties, err));
    }
    TD_FAIL_IF(*mask & HAS_SUCCESSORS, err, UNIMPLEMENTED, "StableHLO module, byte %zu: %s jumps to a block",
               td_mlir_at(b), op->name);
    if ((*known)->is_module) { /* its annotations are XLA's matter */
        return TD_OK;
    }
    return td_hlo_op_attrs_get(&r->attrs, &refs, &op->attrs, &op->n_attrs, err);
}

static enum td_code check_bodies(const struct td_mlir_bytes *b, const struct td_hlo_op *op,
                                 struct td_err *err)
{
    for (int i = 0; i < op->n_regions; i++) {
        const struct td_hlo_block *body = &op->regions[i];
        TD_FAIL_IF(body->n_ops > 0 && strcmp(body->ops[body->n_ops - 1]->name, "return") != 0, err,
                   INVALID_ARGUMENT, "StableHLO module, byte %zu: region %d of %s ends with %s, want return",
                   td_mlir_at(b), i, op->name, body->ops[body->n_ops - 1]->name);
    }
    return TD_OK;
}

static bool type_equal(const struct td_hlo_type *a, const struct td_hlo_type *b)
{
    return a->kind == b->kind && a->dtype == b->dtype && td_shape_equal(&a->shape, &b->shape) &&
           (a->unsupported == NULL) == (b->unsupported == NULL) && a->n_parts == b->n_parts;
}

/* op's results are its operands. */
static enum td_code pass_through(const struct td_mlir_bytes *b, struct scope *s, const struct td_hlo_op *op,
                                 struct td_err *err)
{
    bool same = op->n_in == op->n_out;
    for (int i = 0; i < op->n_out && same; i++) {
        same = type_equal(&op->in[i]->type, &op->out[i]->type);
    }
    TD_FAIL_IF(!same, err, UNIMPLEMENTED, "StableHLO module, byte %zu: %s to another type", td_mlir_at(b),
               op->name);
    define(s, op->in, op->n_in);
    return TD_OK;
}

/* *out is NULL where the operation says nothing. */
static enum td_code read_op(struct reader *r, struct td_mlir_bytes *b, struct scope *s,
                            const struct td_hlo_op **out, struct td_err *err)
{
    const struct known_name *known;
    uint8_t mask;
    struct td_hlo_op *op;
    TD_TRY(td_mlir_alloc(r->f, 1, sizeof *op, &op, err));
    TD_TRY(read_head(r, b, &known, &mask, op, err));
    if (known->is_function) {
        r->n_ids = 0;
    }
    if (mask & HAS_RESULTS) {
        TD_TRY(read_results(r, b, s, op, err));
    }
    if (mask & HAS_OPERANDS) {
        TD_TRY(read_operands(r, b, s, op, err));
    }
    if (r->f->version >= TD_MLIR_USE_ORDERS && mask & HAS_USE_ORDERS) {
        TD_TRY(skip_use_orders(b, op->n_out, err));
    }
    if (mask & HAS_REGIONS) {
        TD_TRY(read_regions(r, b, s, known->is_function, op, err));
    }
    *out = NULL;
    if (known->is_same) {
        return pass_through(b, s, op, err);
    }
    define(s, op->out, op->n_out);
    *out = op;
    if (known->is_vhlo) {
        TD_TRY(check_bodies(b, op, err));
    }
    return known->is_function ? add_function(r, b, op, err) : TD_OK;
}

static enum td_code read_block(struct reader *r, struct td_mlir_bytes *b, struct scope *s,
                               struct td_hlo_block *out, struct td_err *err)
{
    uint64_t n;
    bool has_args;
    TD_TRY(td_mlir_flagged(b, &n, &has_args, err));
    int n_ops;
    TD_TRY(td_mlir_count_is(b, "operations", n, &n_ops, err));
    if (has_args) {
        TD_TRY(read_arguments(r, b, s, out, err));
    }
    TD_TRY(td_mlir_alloc(r->f, (size_t)n_ops, sizeof *out->ops, &out->ops, err));
    for (int i = 0; i < n_ops; i++) {
        TD_TRY(read_op(r, b, s, &out->ops[out->n_ops], err));
        out->n_ops += out->ops[out->n_ops] != NULL;
    }
    return TD_OK;
}

static enum td_code read_region(struct reader *r, struct td_mlir_bytes *b, const struct scope *outer,
                                struct td_hlo_block *out, struct td_err *err)
{
    uint64_t n_blocks;
    TD_TRY(td_mlir_varint(b, &n_blocks, err));
    if (n_blocks == 0) {
        return TD_OK;
    }
    TD_FAIL_IF(n_blocks != 1, err, UNIMPLEMENTED,
               "StableHLO module, byte %zu: a region of %llu blocks, want one", td_mlir_at(b),
               (unsigned long long)n_blocks);
    TD_FAIL_IF(r->depth >= TD_MLIR_MAX_NESTING, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: a region in %d others, want fewer", td_mlir_at(b), r->depth);
    struct scope s = {.outer = outer, .first = outer != NULL ? outer->first + outer->n : 0};
    TD_TRY(td_mlir_count(b, "values", &s.n, err));
    TD_TRY(td_mlir_alloc(r->f, (size_t)s.n, sizeof *s.values, &s.values, err));
    r->depth++;
    TD_TRY(read_block(r, b, &s, out, err));
    r->depth--;
    TD_FAIL_IF(s.n_defined != s.n, err, INVALID_ARGUMENT,
               "StableHLO module, byte %zu: a region of %d values says that it has %d", td_mlir_at(b),
               s.n_defined, s.n);
    return TD_OK;
}

enum td_code td_hlo_blocks_read(struct td_mlir_pool *pool, struct td_hlo_module *out, struct td_err *err)
{
    struct function_link *first = NULL;
    struct reader r = {.pool = pool, .f = pool->f, .last = &first};
    TD_TRY(td_hlo_op_attrs_init(&r.attrs, pool, err));
    TD_TRY(td_mlir_alloc(r.f, (size_t)r.f->n_op_names, sizeof *r.names, &r.names, err));
    struct td_mlir_bytes b = r.f->ir;
    struct scope none = {0};
    struct td_hlo_block top = {0};
    TD_TRY(read_block(&r, &b, &none, &top, err));
    TD_TRY(td_mlir_end(&b, "the module", err));
    TD_FAIL_IF(top.n_ops != 1 || strcmp(top.ops[0]->name, "builtin.module") != 0, err, INVALID_ARGUMENT,
               "StableHLO module: %d operations beside each other, want one builtin.module", top.n_ops);
    struct td_hlo_function *functions;
    TD_TRY(td_mlir_alloc(r.f, (size_t)r.n_functions, sizeof *functions, &functions, err));
    for (struct function_link *link = first; link != NULL; link = link->next) {
        functions[out->n_functions++] = link->f;
    }
    out->functions = functions;
    return TD_OK;
}
