/* server/train/step_lora.c - method lora: low-rank updates of the weights of products.
 *
 *   w = w0 + alpha / rank * a b          w0, w [m, n]   a [m, rank]   b [rank, n]
 *
 * w stays the variable that it is, and always holds that sum: so the part of the model is not touched, is
 * evaluated as it will be served, and its gradient by w is that of any other job. The adapters' follow:
 *
 *   dL/da = alpha / rank * (dL/dw) b^T         dL/db = alpha / rank * a^T (dL/dw)
 *
 * They are what is clipped, accumulated and updated; then w is assigned anew. a starts with draws from a
 * normal distribution of standard deviation 1 / rank, b with zeros (Hu et al., "LoRA: Low-Rank Adaptation of
 * Large Language Models", 2021).
 *
 * A weight is a floating-point variable of rank 2 or more that goes into a product: MatMul, a batched one,
 * an Einsum, or a convolution as its filter. Which ones do is read off the part before anything is added,
 * through nodes that show or reshape a value and through the functions of loops and branches.
 *
 * As a matrix, its rows are the dimensions that an Einsum sums over when they come first (or those it keeps),
 * those that a Reshape makes the rows; of a convolution all but the last; else the first.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "kernels/formula/formula.h"
#include "kernels/train/initializers.h"
#include "server/train/step_graph.h"

enum { MOST_NESTING = 16, MOST_VISITS = 4096, FEW_WEIGHTS = 64 };

static enum td_code refused(struct td_step_graph *k, enum td_code rc)
{
    return td_fault_of(k->f, rc, rc == TD_RESOURCE_EXHAUSTED ? "server_error" : "invalid_value",
                       "method.lora");
}

/* ------------------------------------------------------------------ weights */

/* The variable that a value is or shows, and as how many columns; NULL: none. */
struct shown {
    const char *resource;
    int64_t columns;
};

/* Which variable each value of a list of nodes is or shows. */
struct tracing {
    struct td_step_graph *k;
    const struct td_library *lib;
    int depth, visits;
};

static bool is_op(const struct td_node *n, const char *const *ops)
{
    for (int i = 0; ops[i] != NULL; i++) {
        if (strcmp(n->op_name, ops[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool shows_input(const struct td_node *n)
{
    static const char *const ops[] = {"ReadVariableOp", "Identity",     "Cast",   "Reshape",  "ExpandDims",
                                      "Squeeze",        "Enter",        "Switch", "RefEnter", "Transpose",
                                      "EnsureShape",    "StopGradient", NULL};
    return is_op(n, ops);
}

/* The label of dimension d of input i in an Einsum's equation stands in its result, too. */
static bool is_kept(const char *equation, int i, int d, bool *known)
{
    const char *arrow = strstr(equation, "->"), *from = equation;
    for (int skipped = 0; arrow != NULL && skipped < i && from < arrow; from++) {
        skipped += *from == ',';
    }
    const size_t n = arrow == NULL ? 0 : strcspn(from, ",-");
    *known = arrow != NULL && strchr(equation, '.') == NULL && strchr(equation, ' ') == NULL && (size_t)d < n;
    return *known && strchr(arrow + 2, from[d]) != NULL;
}

static int einsum_split(const struct td_node *n, int i)
{
    const char *equation = td_attr_str(n, "equation");
    bool known;
    const bool first = is_kept(equation, i, 0, &known);
    int d = 1;
    while (known && d < TD_MAX_RANK && is_kept(equation, i, d, &known) == first && known) {
        d++;
    }
    return known ? d : 1; /* past the last label: all alike */
}

/* Rows of the matrix that input i of a product is; 0: n is none, -1: all but the last dimension. */
static int split_of(const struct td_node *n, int i)
{
    static const char *const products[] = {"MatMul",        "BatchMatMul",  "BatchMatMulV2",
                                           "BatchMatMulV3", "SparseMatMul", NULL};
    static const char *const convolutions[] = {
        "Conv2D", "Conv3D", "Conv2DBackpropInput", "Conv3DBackpropInputV2", "Conv", NULL};
    return is_op(n, products) && i < 2         ? 1
           : is_op(n, convolutions) && i == 1  ? -1
           : strcmp(n->op_name, "Einsum") == 0 ? einsum_split(n, i)
                                               : 0;
}

static enum td_code note(struct td_step_graph *k, struct shown v, int split)
{
    for (int i = 0; i < k->n_weights; i++) {
        if (strcmp(k->weight[i].resource, v.resource) == 0) {
            return TD_OK;
        }
    }
    if (k->n_weights == k->cap_weights) {
        const int cap = k->cap_weights == 0 ? FEW_WEIGHTS : 2 * k->cap_weights;
        struct td_step_weight *grown = td_step_room(k->s, cap, sizeof *grown);
        if (grown == NULL) {
            return td_step_no_memory(k->f);
        }
        for (int i = 0; i < k->n_weights; i++) {
            grown[i] = k->weight[i];
        }
        k->weight = grown;
        k->cap_weights = cap;
    }
    k->weight[k->n_weights++] = (struct td_step_weight){v.resource, split, v.columns};
    return TD_OK;
}

static enum td_code follow(struct tracing *x, struct td_node *const *nodes, int n, struct shown *of);

/* The functions of a loop or branch, whose arguments are the node's inputs from `first` on. */
static enum td_code follow_functions(struct tracing *x, const struct td_node *n, const struct shown *of)
{
    for (int a = 0; a < n->n_attrs && x->depth < MOST_NESTING; a++) {
        for (int i = 0; n->attrs[a].kind == TD_ATTR_FUNC && i < n->attrs[a].n; i++) {
            const struct td_function *f = td_library_find(x->lib, n->attrs[a].func[i].name);
            const int first = f == NULL ? 0 : n->n_in - f->n_args;
            if (f == NULL || f->is_template || first < 0 || x->visits++ > MOST_VISITS) {
                continue;
            }
            struct shown *inner = td_calloc((size_t)f->body.n_nodes + 1, sizeof *inner);
            if (inner == NULL) {
                return td_step_no_memory(x->k->f);
            }
            for (int arg = 0; arg < f->n_args; arg++) {
                inner[f->args[arg]->id] = of[n->in[first + arg].node->id];
            }
            x->depth++;
            const enum td_code rc = follow(x, f->body.nodes, f->body.n_nodes, inner);
            x->depth--;
            td_free(inner);
            TD_TRY(rc);
        }
    }
    return TD_OK;
}

/* The last dimension of a Reshape to a matrix, where that is a constant; 0. */
static int64_t columns_of(const struct td_node *n)
{
    const struct td_tensor *shape = n->n_in < 2 ? NULL : td_node_const(n->in[1].node);
    const bool fits = shape != NULL && shape->shape.rank == 1 && td_dtype_in(shape->dtype, TD_SET_INDEX) &&
                      td_tensor_count(shape) == 2;
    const int64_t last = fits ? td_tensor_int(shape, 1) : 0;
    return last > 0 ? last : 0;
}

static struct shown look(const struct tracing *x, struct td_node *n, const struct shown *of)
{
    const struct td_value v = {n, 0};
    const char *own = n->n_out == 0 || n->op == NULL ? NULL : x->k->x.ctx.formulas->variable(v);
    if (own != NULL || n->n_in == 0 || !shows_input(n)) {
        return (struct shown){own, 0};
    }
    struct shown s = of[n->in[0].node->id];
    if (s.resource != NULL && strcmp(n->op_name, "Reshape") == 0) {
        s.columns = columns_of(n);
    }
    return s;
}

/* of[id]: what the node's first output is or shows. Nodes need not be in order. */
static enum td_code follow(struct tracing *x, struct td_node *const *nodes, int n, struct shown *of)
{
    bool more = true;
    for (int round = 0; more && round < MOST_NESTING; round++) {
        more = false;
        for (int i = 0; i < n; i++) {
            if (of[i].resource == NULL) {
                of[i] = look(x, nodes[i], of);
                more = more || of[i].resource != NULL;
            }
        }
    }
    for (int i = 0; i < n; i++) {
        const struct td_node *node = nodes[i];
        for (int in = 0; in < node->n_in; in++) {
            const struct shown v = of[node->in[in].node->id];
            const int split = v.resource == NULL ? 0 : split_of(node, in);
            TD_TRY(split == 0 ? TD_OK : note(x->k, v, split));
        }
        TD_TRY(follow_functions(x, node, of));
    }
    return TD_OK;
}

static enum td_code check_goes_with(struct td_step_graph *k)
{
    const struct td_job_spec *spec = k->s->spec;
    const char *what = spec->ema.on              ? "ema"
                       : spec->n_penalties > 0   ? "regularizers"
                       : spec->n_constraints > 0 ? "constraints"
                                                 : NULL;
    char param[40];
    if (what == NULL) {
        return TD_OK;
    }
    (void)snprintf(param, sizeof param, "tensord.%s", what);
    return TD_FAULT(k->f, "invalid_value", param, "%s does not go with method lora, which trains adapters",
                    param);
}

enum td_code td_step_find_weights(struct td_step_graph *k)
{
    struct tracing x = {.k = k, .lib = k->x.ctx.lib};
    TD_TRY(check_goes_with(k));
    struct shown *of = td_calloc((size_t)k->x.ir.n_nodes + 1, sizeof *of);
    if (of == NULL) {
        return td_step_no_memory(k->f);
    }
    const enum td_code rc = follow(&x, k->x.ir.nodes, k->x.ir.n_nodes, of);
    td_free(of);
    return rc;
}

/* ------------------------------------------------------------------ adapters */

/* How many leading dimensions of c are rows; 0: it is no weight. */
static int rows_of(const struct td_step_graph *k, const struct td_chosen *c)
{
    const int rank = c->shape.rank;
    for (int i = 0; i < k->n_weights && rank > 1; i++) {
        const struct td_step_weight *w = &k->weight[i];
        if (strcmp(w->resource, c->resources[0]) == 0) {
            for (int d = 1; w->columns > 0 && d < rank; d++) {
                if (td_shape_range(&c->shape, d, rank) == w->columns) {
                    return d;
                }
            }
            return w->split > 0 && w->split < rank ? w->split : w->split > 0 ? 1 : rank - 1;
        }
    }
    return 0;
}

static const char *named(struct td_step_graph *k, const char *format, const char *key)
{
    const size_t bytes = strlen(format) + strlen(key) + 1;
    char *text = td_step_room(k->s, (int)bytes, 1);
    if (text != NULL) {
        (void)snprintf(text, bytes, format, key);
    }
    return text;
}

/* An adapter is trained as the weight would be. */
static enum td_code new_adapter(struct td_step_graph *k, const struct td_chosen *of, bool first,
                                const struct td_step_lora *l, const struct td_chosen **out)
{
    struct td_chosen *c = td_step_room(k->s, 1, sizeof *c);
    const char **resource = td_step_room(k->s, 1, sizeof *resource);
    const int64_t rank = k->s->spec->lora.rank;
    if (c == NULL || resource == NULL) {
        return td_step_no_memory(k->f);
    }
    *c = *of;
    c->key = c->full_key = named(k, first ? "%s/lora_a" : "%s/lora_b", of->key);
    c->name = named(k, first ? "%s/lora_a" : "%s/lora_b", of->name);
    resource[0] = named(k, first ? "train/lora_a/%s" : "train/lora_b/%s", of->key);
    c->resources = resource;
    c->n_resources = 1;
    c->axis = 0;
    c->dtype = l->dtype;
    c->shape = first ? td_shape_matrix(l->rows, rank) : td_shape_matrix(rank, l->columns);
    *out = c;
    return c->key == NULL || c->name == NULL || resource[0] == NULL ? td_step_no_memory(k->f) : TD_OK;
}

static struct td_value read_own(struct td_emitter *e, const char *resource, enum td_dtype dtype,
                                const struct td_shape *shape)
{
    const struct td_value handle = td_step_handle(e, resource, dtype, shape);
    return td_emit(e, "ReadVariableOp", TD_IN(handle), TD_ATTRS(TD_ATTR_OF_TYPE("dtype", dtype)));
}

static double scale_of(const struct td_step_graph *k)
{
    return k->s->spec->lora.alpha / (double)k->s->spec->lora.rank;
}

static struct td_value matrix_of(struct td_emitter *e, struct td_value v, int64_t rows, int64_t columns)
{
    return td_f_reshape(e, v, td_emit_ints(e, TD_INT64, (const int64_t[]){rows, columns}, 2));
}

/* What they start with, and what the weight was. */
static void start(struct td_step_graph *k, struct td_emitter *e, const struct td_step_lora *l, int number,
                  const struct td_step_trained *w)
{
    const struct td_initializer normal = *td_initializer_find("random_normal");
    struct td_initializer row = normal;
    row.scale = 1.0 / (double)k->s->spec->lora.rank;
    const int64_t seed = (int64_t)((uint64_t)k->s->spec->seed + (uint64_t)number);
    const struct td_value a = td_initializer_draw(e, &row, &l->a->shape, seed);
    const struct td_value zeros =
        td_f_fill(e, td_emit_ints(e, TD_INT64, l->b->shape.dim, 2), td_emit_number(e, l->dtype, 0));
    td_step_assign(k, e, TD_RUN_START, l->a->resources[0], l->dtype, &l->a->shape, td_f_cast(e, a, l->dtype));
    td_step_assign(k, e, TD_RUN_START, l->b->resources[0], l->dtype, &l->b->shape, zeros);
    td_step_assign(k, e, TD_RUN_START, l->base, l->dtype, &l->weight->shape, w->w);
}

static void differentiate(struct td_step_graph *k, struct td_emitter *e, const struct td_step_lora *l,
                          const struct td_step_trained *w, struct td_step_trained *out)
{
    const struct td_value a = read_own(e, l->a->resources[0], l->dtype, &l->a->shape);
    const struct td_value b = read_own(e, l->b->resources[0], l->dtype, &l->b->shape);
    const struct td_value g = matrix_of(e, td_f_cast(e, w->g, l->dtype), l->rows, l->columns);
    out[0] = (struct td_step_trained){.c = l->a,
                                      .w = a,
                                      .g = td_f_scale(e, td_f_matmul(e, g, b, false, true), scale_of(k)),
                                      .place = w->place,
                                      .adapter = true};
    out[1] = (struct td_step_trained){.c = l->b,
                                      .w = b,
                                      .g = td_f_scale(e, td_f_matmul(e, a, g, true, false), scale_of(k)),
                                      .place = w->place,
                                      .adapter = true};
}

static enum td_code adapt(struct td_step_graph *k, struct td_emitter *e, const struct td_step_trained *w,
                          struct td_step_trained *out)
{
    const int number = k->n_merged, split = rows_of(k, w->c);
    struct td_step_lora *l = &k->lora[number];
    *l = (struct td_step_lora){.weight = w->c, .dtype = td_dtype_of(w->w), .rows = 1, .columns = 1};
    for (int d = 0; d < w->c->shape.rank; d++) {
        *(d < split ? &l->rows : &l->columns) *= w->c->shape.dim[d];
    }
    l->base = named(k, "train/lora_base/%s", w->c->key);
    TD_TRY(l->base == NULL ? td_step_no_memory(k->f) : TD_OK);
    TD_TRY(new_adapter(k, w->c, true, l, &l->a));
    TD_TRY(new_adapter(k, w->c, false, l, &l->b));
    start(k, e, l, number, w);
    differentiate(k, e, l, w, out);
    k->n_merged++;
    return TD_OK;
}

static enum td_code nothing_to_adapt(struct td_step_graph *k)
{
    return TD_FAULT(
        k->f, "invalid_value", "method.lora.targets",
        "of the %d variables that method.lora.targets match none is the weight of a matrix product "
        "or a convolution",
        k->n_trained);
}

enum td_code td_step_adapt(struct td_step_graph *k)
{
    struct td_step *s = k->s;
    const struct td_step_trained *w = k->trained;
    const int n = k->n_trained;
    int kept = 0;
    struct td_step_trained *all = td_step_room(s, 3 * n, sizeof *all);
    k->lora = td_step_room(s, n, sizeof *k->lora);
    if (all == NULL || k->lora == NULL) {
        return td_step_no_memory(k->f);
    }
    for (int i = 0; i < n; i++) {
        kept += rows_of(k, w[i].c) > 0;
    }
    struct td_emitter e = td_extend_emitter(&k->x, &k->f->err);
    enum td_code rc = TD_OK;
    for (int i = 0; rc == TD_OK && i < n; i++) {
        if (rows_of(k, w[i].c) > 0) {
            const struct td_node at = {.name = w[i].c->name, .function = ""};
            e.at = &at;
            s->chosen[k->n_merged] = w[i].c;
            all[2 * kept + k->n_merged] = w[i];
            rc = adapt(k, &e, &w[i], &all[2 * k->n_merged]);
            e.at = NULL;
        }
    }
    const enum td_code closed = td_emit_close(&e);
    TD_TRY(rc ? rc : refused(k, closed));
    if (kept == 0) {
        return nothing_to_adapt(k);
    }
    s->chosen[kept] = NULL;
    k->trained = all;
    k->n_trained = 2 * kept;
    return TD_OK;
}

/* ------------------------------------------------------------------ merging */

static struct td_value updated(const struct td_step_graph *k, const struct td_chosen *c)
{
    for (int i = 0; i < k->n_trained; i++) {
        if (k->trained[i].c == c) {
            return k->trained[i].new_w;
        }
    }
    return td_no_value;
}

enum td_code td_step_merge(struct td_step_graph *k, struct td_emitter *e)
{
    for (int i = 0; i < k->n_merged; i++) {
        const struct td_step_lora *l = &k->lora[i];
        const struct td_shape *shape = &l->weight->shape;
        const struct td_node at = {.name = l->weight->name, .function = ""};
        e->at = &at;
        const struct td_value ab = td_f_matmul(e, updated(k, l->a), updated(k, l->b), false, false);
        const struct td_value more = td_f_reshape(e, td_f_scale(e, ab, scale_of(k)),
                                                  td_emit_ints(e, TD_INT64, shape->dim, shape->rank));
        const struct td_value base = read_own(e, l->base, l->dtype, shape);
        TD_TRY(td_step_assign_trained(k, e, TD_RUN_UPDATE, &k->trained[k->n_trained + i],
                                      td_f_add(e, base, more)));
        e->at = NULL;
    }
    return TD_OK;
}
