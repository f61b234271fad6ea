/* core/grad/custom.c - copies functions, finds the tensors that custom gradients read, and remakes the nodes.
 *
 * A tensor is named by function and "node:port". Where that is not the node's own function but one around
 * it, whose branch or body the node is in, the tensor has come in as an argument: it is followed through the
 * calls between the two. A hostile library may have any number of ways between them: all that is looked at is
 * counted, and past MOST_LOOKED a tensor counts as not found.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/grad/custom.h"

#include <ctype.h>
#include <string.h>

#include "core/graph/emit.h"

enum { DEEPEST = 16, MOST_LOOKED = 1 << 24 };

struct customizer {
    struct td_library *lib;
    const struct td_op_table *ops;
    struct td_arena *arena;
    struct td_err *err;
    int64_t looked; /* arguments and nodes, while tensors were followed */
};

const struct td_custom_gradient *td_custom_gradient_find(const struct td_library *lib, const char *type)
{
    for (int i = 0; i < lib->n_gradients; i++) {
        if (strcmp(lib->gradients[i].type, type) == 0) {
            return &lib->gradients[i];
        }
    }
    return NULL;
}

static const struct td_custom_gradient *gradient_of(const struct td_library *lib, const struct td_node *n)
{
    const struct td_attr *a = td_attr_find(n->attrs, n->n_attrs, TD_GRADIENT_TYPE);
    return a != NULL && a->kind == TD_ATTR_STRING && a->n == 1 ? td_custom_gradient_find(lib, a->str[0].p)
                                                               : NULL;
}

/* ------------------------------------------------------------------ copying a function */

static enum td_code copy_node(struct customizer *x, const struct td_node *n, struct td_node **copies)
{
    struct td_node *copy = copies[n->id];
    *copy = *n;
    copy->in = td_arena_alloc(x->arena, (size_t)n->n_in + 1, sizeof *copy->in);
    copy->control = td_arena_alloc(x->arena, (size_t)n->n_control + 1, sizeof(void *));
    if (copy->in == NULL || copy->control == NULL) {
        return td_no_memory(x->err, (size_t)n->n_in, "a custom gradient");
    }
    for (int i = 0; i < n->n_in; i++) {
        copy->in[i] = (struct td_value){copies[n->in[i].node->id], n->in[i].port};
    }
    for (int i = 0; i < n->n_control; i++) {
        copy->control[i] = copies[n->control[i]->id];
    }
    return TD_OK;
}

static enum td_code copy_ends(struct customizer *x, const struct td_function *f, struct td_function *copy)
{
    struct td_node **nodes = copy->body.nodes;
    copy->args = td_arena_alloc(x->arena, (size_t)f->n_args + 1, sizeof(void *));
    copy->rets = td_arena_alloc(x->arena, (size_t)f->n_rets + 1, sizeof *copy->rets);
    copy->control_rets = td_arena_alloc(x->arena, (size_t)f->n_control_rets + 1, sizeof(void *));
    if (copy->args == NULL || copy->rets == NULL || copy->control_rets == NULL) {
        return td_no_memory(x->err, (size_t)f->n_args, "a custom gradient");
    }
    for (int i = 0; i < f->n_args; i++) {
        copy->args[i] = nodes[f->args[i]->id];
    }
    for (int i = 0; i < f->n_rets; i++) {
        copy->rets[i] = (struct td_value){nodes[f->rets[i].node->id], f->rets[i].port};
    }
    for (int i = 0; i < f->n_control_rets; i++) {
        copy->control_rets[i] = nodes[f->control_rets[i]->id];
    }
    return TD_OK;
}

static enum td_code copy_function(struct customizer *x, const struct td_function *f, struct td_function **out)
{
    const int n = f->body.n_nodes;
    struct td_function *copy = td_arena_alloc(x->arena, 1, sizeof *copy);
    struct td_node **nodes = td_arena_alloc(x->arena, (size_t)n + 1, sizeof(void *));
    struct td_node *room = td_arena_alloc(x->arena, (size_t)n + 1, sizeof *room);
    if (copy == NULL || nodes == NULL || room == NULL) {
        return td_no_memory(x->err, (size_t)n, "a custom gradient");
    }
    *copy = *f;
    for (int i = 0; i < n; i++) {
        nodes[i] = &room[i];
    }
    for (int i = 0; i < n; i++) {
        TD_TRY(copy_node(x, f->body.nodes[i], nodes));
    }
    copy->body.arena = x->arena;
    copy->body.nodes = nodes;
    copy->body.cap_nodes = n;
    *out = copy;
    return copy_ends(x, f, copy);
}

/* ------------------------------------------------------------------ tensors of functions */

/* An argument's name in the file is that in Python in small letters, all else being '_'. */
static struct td_value by_argument(const struct td_function *f, const char *text)
{
    for (int i = 0; i < f->n_args; i++) {
        const char *a = f->args[i]->name, *t = text;
        while (*a != 0 && *t != 0 && *t != ':' && *a == (isalnum((unsigned char)*t) ? tolower(*t) : '_')) {
            a++;
            t++;
        }
        if (*a == 0 && (*t == 0 || *t == ':')) {
            return (struct td_value){f->args[i], 0};
        }
    }
    return td_no_value;
}

static struct td_value tensor_of(const struct td_function *f, const char *text)
{
    struct td_value v;
    struct td_err none = {0};
    return td_graph_value(&f->body, text, &v, &none) == TD_OK ? v : by_argument(f, text);
}

/* The function that attribute a of a node names as its element i, when the node calls it with inputs. */
static const struct td_function *called(const struct td_library *lib, const struct td_node *n,
                                        const struct td_attr *a, int i)
{
    const struct td_function *f = a->kind == TD_ATTR_FUNC ? td_library_find(lib, a->func[i].name) : NULL;
    return f != NULL && !f->is_template && f->n_args <= n->n_in ? f : NULL;
}

static struct td_value follow(struct customizer *x, const struct td_function *from, struct td_value v,
                              const struct td_function *to, int depth);

/* What v is in `to`, when node n hands it on to a function. */
static struct td_value follow_node(struct customizer *x, const struct td_node *n, struct td_value v,
                                   const struct td_function *to, int depth)
{
    for (int k = 0; k < n->n_attrs; k++) {
        for (int i = 0; i < n->attrs[k].n; i++) {
            const struct td_function *f = called(x->lib, n, &n->attrs[k], i);
            for (int j = 0; f != NULL && j < f->n_args && x->looked++ < MOST_LOOKED; j++) {
                const struct td_value in = n->in[n->n_in - f->n_args + j];
                const struct td_value found = in.node == v.node && in.port == v.port
                                                  ? follow(x, f, (struct td_value){f->args[j], 0}, to, depth)
                                                  : td_no_value;
                if (found.node != NULL) {
                    return found;
                }
            }
        }
    }
    return td_no_value;
}

static struct td_value follow(struct customizer *x, const struct td_function *from, struct td_value v,
                              const struct td_function *to, int depth)
{
    if (strcmp(from->name, to->name) == 0) {
        return v;
    }
    for (int k = 0; depth < DEEPEST && k < from->body.n_nodes && x->looked++ < MOST_LOOKED; k++) {
        const struct td_value found = follow_node(x, from->body.nodes[k], v, to, depth + 1);
        if (found.node != NULL) {
            return found;
        }
    }
    return td_no_value;
}

/* ------------------------------------------------------------------ nodes */

/* Fills in[]: the node's inputs, then what its gradient reads. False: some of it cannot be found. */
static bool find_inputs(struct customizer *x, const struct td_function *f, const struct td_function *copy,
                        const struct td_node *n, const struct td_custom_gradient *c, struct td_value *in)
{
    memcpy(in, n->in, (size_t)n->n_in * sizeof *in);
    for (int i = 0; i < c->n_captured; i++) {
        const struct td_function *home = td_library_find(x->lib, c->captured_in[i]);
        const struct td_value v = home == NULL ? td_no_value : tensor_of(home, c->captured[i]);
        const struct td_value here = v.node == NULL ? v : follow(x, home, v, f, 0);
        if (here.node == NULL) {
            return false;
        }
        in[n->n_in + i] = (struct td_value){copy->body.nodes[here.node->id], here.port};
    }
    return true;
}

static enum td_code remake(struct customizer *x, const struct td_function *f, struct td_function *copy,
                           struct td_node *n, const struct td_custom_gradient *c)
{
    const struct td_op_def *def = td_op_of_role(x->ops, TD_ROLE_CUSTOM_GRADIENT);
    struct td_value *in = td_arena_alloc(x->arena, (size_t)(n->n_in + c->n_captured) + 1, sizeof *in);
    enum td_dtype *types = td_arena_alloc(x->arena, (size_t)n->n_in + 1, sizeof *types);
    if (in == NULL || types == NULL) {
        return td_no_memory(x->err, (size_t)n->n_in, "a custom gradient");
    }
    if (def == NULL || n->n_out > n->n_in || !find_inputs(x, f, copy, n, c, in)) {
        return TD_OK;
    }
    for (int i = 0; i < n->n_in; i++) {
        types[i] = td_dtype_of(n->in[i]);
    }
    struct td_emitter e = td_graph_emitter(&copy->body, "custom", x->ops, x->err);
    td_emit_again(&e, n, def, in, n->n_in + c->n_captured,
                  TD_ATTRS({.name = "T", .kind = TD_ATTR_TYPE, .is_list = true, .n = n->n_in, .type = types},
                           TD_ATTR_OF_TEXT("of", c->type)));
    return td_emit_close(&e);
}

/* Tensors are looked up in the functions as they were read, which are all in place until the end: a copy has
 * the same nodes at the same numbers. */
static enum td_code customize(struct customizer *x, const struct td_function *f, struct td_function **out)
{
    for (int k = 0; k < f->body.n_nodes; k++) {
        const struct td_custom_gradient *c = gradient_of(x->lib, f->body.nodes[k]);
        if (c == NULL) {
            continue;
        }
        if (*out == NULL) {
            TD_TRY(copy_function(x, f, out));
        }
        TD_TRY(remake(x, f, *out, (*out)->body.nodes[k], c));
    }
    return TD_OK;
}

enum td_code td_grad_customize(struct td_library *lib, const struct td_op_table *ops, struct td_arena *arena,
                               struct td_err *err)
{
    struct customizer x = {.lib = lib, .ops = ops, .arena = arena, .err = err};
    struct td_function **copies = td_arena_alloc(arena, (size_t)lib->n_functions + 1, sizeof(void *));
    if (copies == NULL) {
        return td_no_memory(err, (size_t)lib->n_functions, "custom gradients");
    }
    for (int i = 0; lib->n_gradients > 0 && i < lib->n_functions; i++) {
        if (!lib->functions[i]->is_template) {
            TD_TRY(customize(&x, lib->functions[i], &copies[i]));
        }
    }
    for (int i = 0; i < lib->n_functions; i++) {
        lib->functions[i] = copies[i] != NULL ? copies[i] : lib->functions[i];
    }
    return TD_OK;
}
