/* core/compile/permute_nodes.c - permutations, and what turning a node needs made: Transpose nodes,
 * attributes and constants of its own (those of the loaded graph are shared).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/permute.h"

#include <string.h>

#include "core/base/mem.h"

/* ------------------------------------------------------------------ permutations */

struct td_perm td_perm_then(const struct td_perm *a, const struct td_perm *b)
{
    struct td_perm both = {.rank = a->rank};
    for (int i = 0; i < a->rank; i++) {
        both.at[i] = a->at[b->at[i]];
    }
    return both;
}

struct td_perm td_perm_inverse(const struct td_perm *p)
{
    struct td_perm back = {.rank = p->rank};
    for (int i = 0; i < p->rank; i++) {
        back.at[p->at[i]] = i;
    }
    return back;
}

bool td_perm_is_identity(const struct td_perm *p)
{
    bool same = true;
    for (int i = 0; same && i < p->rank; i++) {
        same = p->at[i] == i;
    }
    return same;
}

bool td_perm_equal(const struct td_perm *a, const struct td_perm *b)
{
    return a->rank == b->rank && memcmp(a->at, b->at, (size_t)a->rank * sizeof a->at[0]) == 0;
}

int td_perm_axis(const struct td_perm *p, int axis)
{
    int i = 0;
    while (p->at[i] != axis) {
        i++;
    }
    return i;
}

/* ------------------------------------------------------------------ Transpose nodes */

bool td_permute_is_index(const struct td_tensor *t)
{
    return t != NULL && (t->dtype == TD_INT32 || t->dtype == TD_INT64);
}

bool td_permute_is_transpose(const struct td_permuter *t, const struct td_node *n, struct td_perm *p)
{
    bool plain = n->op != NULL && strcmp(n->op_name, "Transpose") == 0 && n->n_in == 2 && n->n_control == 0;
    const struct td_tensor *c = plain ? td_node_const(n->in[1].node) : NULL;
    if (!td_permute_is_index(c) || c->shape.rank != 1 || c->shape.dim[0] > TD_MAX_RANK || n->out_ref[0] ||
        n->in[0].node->out_ref[n->in[0].port]) {
        return false;
    }
    int rank = td_ir_shape(t->shapes, n->in[0])->rank;
    uint32_t seen = 0;
    *p = (struct td_perm){.rank = (int)c->shape.dim[0]};
    for (int i = 0; i < p->rank; i++) {
        if (!td_shape_axis(p->rank, td_tensor_int(c, i), &p->at[i]) || (seen >> p->at[i] & 1u)) {
            return false;
        }
        seen |= 1u << p->at[i];
    }
    return p->rank > 0 && (rank < 0 || rank == p->rank);
}

/* A constant of int32 numbers: a vector, or for rank 0 a scalar. */
static enum td_code add_numbers(const struct td_permuter *t, const struct td_node *like, const int *numbers,
                                int count, int rank, struct td_value *out)
{
    struct td_shape shape = rank == 0 ? td_shape_scalar() : td_shape_vector(count);
    struct td_arena *a = t->ir->arena;
    struct td_tensor value;
    struct td_node *n;
    TD_TRY(td_tensor_new(&value, TD_INT32, &shape, t->err));
    for (int i = 0; i < count; i++) {
        TD_DATA(&value, int32_t)[i] = numbers[i];
    }
    enum td_code rc = td_ir_add(t->ir, like, like->name, &n, t->err);
    if (rc == TD_OK) {
        *n = (struct td_node){.name = n->name,
                              .id = n->id,
                              .device = like->device,
                              .function = like->function,
                              .path = like->path,
                              .n_out = 1,
                              .out_type = td_arena_alloc(a, 1, sizeof *n->out_type),
                              .out_ref = td_arena_alloc(a, 1, sizeof *n->out_ref)};
        rc = td_ir_make_literal(t->ir, n, &value, t->err);
    }
    td_tensor_clear(&value);
    TD_TRY(rc);
    if (n->out_type == NULL || n->out_ref == NULL) {
        return td_no_memory(t->err, sizeof *n, "compiler pass");
    }
    n->out_type[0] = TD_INT32;
    *out = (struct td_value){n, 0};
    return TD_OK;
}

/* A node of one output like `like`, with room for two inputs and three type attributes. */
static enum td_code add_node(const struct td_permuter *t, const struct td_node *like,
                             const struct td_op_def *def, enum td_dtype type, struct td_node **out)
{
    struct td_arena *a = t->ir->arena;
    struct td_node *n;
    TD_TRY(td_ir_add(t->ir, like, like->name, &n, t->err));
    *n = (struct td_node){.name = n->name,
                          .id = n->id,
                          .device = like->device,
                          .function = like->function,
                          .path = like->path,
                          .op_name = def->name,
                          .def = def,
                          .op = def->op,
                          .n_out = 1,
                          .in = td_arena_alloc(a, 3, sizeof *n->in),
                          .in_ref = td_arena_alloc(a, 3, sizeof *n->in_ref),
                          .out_type = td_arena_alloc(a, 1, sizeof *n->out_type),
                          .out_ref = td_arena_alloc(a, 1, sizeof *n->out_ref),
                          .attrs = td_arena_alloc(a, 4, sizeof *n->attrs)};
    if (n->in == NULL || n->in_ref == NULL || n->out_type == NULL || n->out_ref == NULL || n->attrs == NULL) {
        return td_no_memory(t->err, sizeof *n, "compiler pass");
    }
    n->out_type[0] = type;
    t->ir->changes++;
    *out = n;
    return TD_OK;
}

static enum td_code add_type(const struct td_permuter *t, struct td_node *n, const char *name,
                             enum td_dtype type)
{
    enum td_dtype *value = td_arena_alloc(t->ir->arena, 1, sizeof *value);
    if (value == NULL) {
        return td_no_memory(t->err, sizeof *value, "compiler pass");
    }
    *value = type;
    n->attrs[n->n_attrs++] = (struct td_attr){.name = name, .kind = TD_ATTR_TYPE, .n = 1, .type = value};
    return TD_OK;
}

enum td_code td_permute_add_transpose(const struct td_permuter *t, const struct td_node *like,
                                      struct td_value v, const struct td_perm *p, struct td_value *out)
{
    enum td_dtype type = v.node->out_type[v.port];
    struct td_value perm;
    struct td_node *n;
    TD_TRY(add_numbers(t, like, p->at, p->rank, 1, &perm));
    TD_TRY(add_node(t, like, t->transpose, type, &n));
    TD_TRY(add_type(t, n, "T", type));
    TD_TRY(add_type(t, n, "Tperm", TD_INT32));
    n->in[n->n_in++] = v;
    n->in[n->n_in++] = perm;
    *out = (struct td_value){n, 0};
    return TD_OK;
}

enum td_code td_permute_add_shape(const struct td_permuter *t, const struct td_node *shape,
                                  struct td_value permuted, const struct td_perm *p, struct td_value *out)
{
    const struct td_perm back = td_perm_inverse(p);
    const int first_axis = 0;
    struct td_value axis, order;
    struct td_node *of_permuted, *n;
    int64_t *batch_dims = td_arena_alloc(t->ir->arena, 1, sizeof *batch_dims);
    TD_TRY(add_node(t, shape, shape->def, shape->out_type[0], &of_permuted));
    of_permuted->attrs = shape->attrs;
    of_permuted->n_attrs = shape->n_attrs;
    of_permuted->in[of_permuted->n_in++] = permuted;
    TD_TRY(add_numbers(t, shape, back.at, p->rank, 1, &order));
    TD_TRY(add_numbers(t, shape, &first_axis, 1, 0, &axis));
    TD_TRY(add_node(t, shape, t->gather, shape->out_type[0], &n));
    TD_TRY(add_type(t, n, "Tparams", shape->out_type[0]));
    TD_TRY(add_type(t, n, "Tindices", TD_INT32));
    TD_TRY(add_type(t, n, "Taxis", TD_INT32));
    if (batch_dims == NULL) {
        return td_no_memory(t->err, sizeof *batch_dims, "compiler pass");
    }
    n->attrs[n->n_attrs++] =
        (struct td_attr){.name = "batch_dims", .kind = TD_ATTR_INT, .n = 1, .i = batch_dims};
    n->in[n->n_in++] = (struct td_value){of_permuted, 0};
    n->in[n->n_in++] = order;
    n->in[n->n_in++] = axis;
    *out = (struct td_value){n, 0};
    return TD_OK;
}

/* ------------------------------------------------------------------ changing a node's own arguments */

enum td_code td_permute_own_input(const struct td_permuter *t, struct td_node *n, int i,
                                  struct td_tensor *edited)
{
    const struct td_node *from = n->in[i].node;
    struct td_node *literal;
    TD_TRY(td_tensor_copy(edited, td_node_const(from), t->err));
    enum td_code rc = td_ir_add(t->ir, from, from->name, &literal, t->err);
    rc = rc ? rc : td_ir_make_literal(t->ir, literal, edited, t->err);
    if (rc) {
        td_tensor_clear(edited);
        return rc;
    }
    literal->n_control = 0;
    n->in[i] = (struct td_value){literal, 0};
    return TD_OK;
}

/* The attribute, in a list of n's own: those of the loaded graph are shared. */
static struct td_attr *own_attr(const struct td_permuter *t, struct td_node *n, const char *name)
{
    struct td_attr *own = td_arena_alloc(t->ir->arena, (size_t)n->n_attrs + 1, sizeof *own);
    if (own == NULL) {
        return NULL;
    }
    memcpy(own, n->attrs, (size_t)n->n_attrs * sizeof *own);
    n->attrs = own;
    return (struct td_attr *)td_attr_find(own, n->n_attrs, name);
}

enum td_code td_permute_set_text(const struct td_permuter *t, struct td_node *n, const char *name,
                                 const char *text)
{
    struct td_attr *a = own_attr(t, n, name);
    struct td_bytes *value = td_arena_alloc(t->ir->arena, 1, sizeof *value);
    if (a == NULL || value == NULL) {
        return td_no_memory(t->err, sizeof *value, "compiler pass");
    }
    *value = (struct td_bytes){text, strlen(text)};
    a->str = value;
    return TD_OK;
}

enum td_code td_permute_set_ints(const struct td_permuter *t, struct td_node *n, const char *name,
                                 const int64_t *v, int count)
{
    struct td_attr *a = own_attr(t, n, name);
    int64_t *value = td_arena_alloc(t->ir->arena, (size_t)count + 1, sizeof *value);
    if (a == NULL || value == NULL) {
        return td_no_memory(t->err, sizeof *value, "compiler pass");
    }
    memcpy(value, v, (size_t)count * sizeof *value);
    a->i = value;
    a->n = count;
    return TD_OK;
}

enum td_code td_permute_ints(const struct td_permuter *t, struct td_node *n, const char *name,
                             const struct td_perm *p, int each)
{
    int count;
    const int64_t *old = td_attr_ints(n, name, &count);
    int64_t permuted[2 * TD_MAX_RANK];
    for (int i = 0; count == each * p->rank && i < count; i++) {
        permuted[i] = old[p->at[i / each] * each + i % each];
    }
    return count == each * p->rank ? td_permute_set_ints(t, n, name, permuted, count) : TD_OK;
}
