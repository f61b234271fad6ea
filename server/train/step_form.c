/* server/train/step_form.c - "training": "graph": the form that a file carries for training.
 *
 *   object graph: root.__call__, root.call_and_return_all_conditional_losses, .. -> a concrete function that
 *   was traced with True among its arguments (training=True)
 *
 * Keras 2 saves its models with one. Its arguments are the signature's inputs and handles of what it is bound
 * to; its first results are the model's outputs. The step's graph is made of it in place of the signature's,
 * whose inputs and outputs are put where the signature has them; validation stays with the signature.
 *
 * What the function assigns (the averages of batch normalisation) is assigned, and is part of the result.
 * Random ops of its body become stateless ones, drawn by the job's seed and the number of the step.
 *
 * Does not: train by functions that are bound to tables or constants, or that have other inputs or outputs
 * than the signature.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "kernels/formula/formula.h"
#include "server/train/step_graph.h"

#define PARAM "tensord.training"

struct form {
    struct td_step_graph *k;
    struct td_object_graph *objects;
    struct td_variables *names;
    const struct td_concrete *function;
};

static enum td_code no_form(const struct form *x, const char *why)
{
    return TD_FAULT(x->k->f, "invalid_value", PARAM,
                    PARAM
                    " is \"graph\", but the file of model '%.100s' carries no training form of signature "
                    "'%.100s': %s",
                    td_servable_name(x->k->s->servable), x->k->sig->key, why);
}

/* Whether the function takes the signature's inputs and gives at least its outputs. */
static bool fits(const struct form *x, const struct td_concrete *f)
{
    const struct td_signature *sig = x->k->sig;
    bool same = f->given_true && f->n_in == sig->n_in && f->n_out >= sig->n_out;
    for (int i = 0; same && i < f->n_in; i++) {
        bool found = sig->n_in == 1;
        for (int n = 0; n < sig->n_in && !found; n++) {
            found = strcmp(sig->in[n].key, f->in[i].name) == 0;
        }
        same = found && (sig->n_in > 1 || (f->in[0].dtype == sig->in[0].dtype &&
                                           td_shape_compatible(&f->in[0].shape, &sig->in[0].shape)));
    }
    return same;
}

static const struct td_concrete *form_of(const struct form *x, const char *child)
{
    const struct td_object *root = &x->objects->nodes[0];
    for (int i = 0; i < root->n_children; i++) {
        const struct td_object *o = &x->objects->nodes[root->children[i].node];
        const bool wanted = child == NULL || strcmp(root->children[i].name, child) == 0;
        for (int n = 0; wanted && o->kind == TD_OBJECT_FUNCTION && n < o->n_functions; n++) {
            const struct td_concrete *f = td_object_graph_function(x->objects, o->functions[n]);
            if (f != NULL && fits(x, f)) {
                return f;
            }
        }
    }
    return NULL;
}

static enum td_code find_form(struct form *x)
{
    static const char *const children[] = {"__call__", "call_and_return_all_conditional_losses", NULL};
    if (x->objects == NULL || x->objects->n_nodes == 0) {
        return no_form(x, "it has no object graph");
    }
    for (int i = 0; i < 3 && x->function == NULL; i++) {
        x->function = form_of(x, children[i]);
    }
    if (x->function == NULL) {
        return no_form(x, "no function of its root object was saved with training=True and takes its inputs");
    }
    return x->k->sig->n_out == 1 ? TD_OK
                                 : no_form(x, "the signature has several outputs, whose order in it is "
                                              "not told");
}

/* ------------------------------------------------------------------ the function as the part */

static const char *resource_of(const struct form *x, const struct td_object *o)
{
    for (int i = 0; o->kind == TD_OBJECT_VARIABLE && o->key != NULL && i < td_variables_count(x->names);
         i++) {
        const struct td_variable_row row = td_variables_row(x->names, i);
        if (row.n == 1 && row.key != NULL && strcmp(row.key, o->key) == 0) {
            return row.resources[0];
        }
    }
    return NULL;
}

/* What the function is bound to: feeds behind the inputs become handles. */
static enum td_code bind(struct form *x, struct td_emitter *e)
{
    struct td_ir *ir = &x->k->x.ir;
    const struct td_concrete *f = x->function;
    if (ir->n_feeds != f->n_in + f->n_bound) {
        return no_form(x, "its function has other arguments than its signature says");
    }
    for (int i = 0; i < f->n_bound; i++) {
        const struct td_object *o = &x->objects->nodes[f->bound[i]];
        const char *resource = resource_of(x, o);
        if (resource == NULL) {
            return no_form(x, "its function is bound to something that is no variable of the checkpoint");
        }
        struct td_shape shape = o->shape;
        enum td_dtype dtype = o->dtype;
        const struct td_attr attrs[] = {
            TD_ATTR_OF_TEXT("shared_name", resource),
            {.name = "dtype", .kind = TD_ATTR_TYPE, .n = 1, .type = &dtype},
            {.name = "shape", .kind = TD_ATTR_SHAPE, .n = 1, .shape = &shape},
        };
        td_emit_again(e, ir->feeds[f->n_in + i], td_op_find(e->ops, "VarHandleOp"), TD_NO_INPUTS, attrs, 3);
    }
    ir->n_feeds = f->n_in;
    return TD_OK;
}

/* Feeds in the order of the signature's inputs. */
static enum td_code order_feeds(struct form *x)
{
    const struct td_signature *sig = x->k->sig;
    struct td_ir *ir = &x->k->x.ir;
    struct td_node **feeds = td_extend_room(&x->k->x, sig->n_in, sizeof(void *));
    if (feeds == NULL) {
        return td_step_no_memory(x->k->f);
    }
    for (int i = 0; i < sig->n_in; i++) {
        for (int n = 0; n < sig->n_in; n++) {
            if (sig->n_in == 1 || strcmp(sig->in[i].key, x->function->in[n].name) == 0) {
                feeds[i] = ir->feeds[n];
            }
        }
        if (feeds[i] == NULL || feeds[i]->out_type[0] != sig->in[i].dtype) {
            return no_form(x, "its function takes inputs of other names or types");
        }
    }
    ir->feeds = feeds;
    return TD_OK;
}

static enum td_code open_function(struct form *x)
{
    struct td_step_graph *k = x->k;
    TD_TRY(find_form(x));
    TD_TRY(td_fault_of(
        k->f,
        td_extend_open_function(&k->x, td_servable_engine(k->s->servable), x->function->name, &k->f->err),
        "invalid_value", PARAM));
    struct td_emitter e = td_extend_emitter(&k->x, &k->f->err);
    const enum td_code rc = bind(x, &e);
    const enum td_code closed = td_emit_close(&e);
    TD_TRY(rc ? rc : td_fault_of(k->f, closed, "invalid_value", PARAM));
    return order_feeds(x);
}

enum td_code td_step_open_form(struct td_step_graph *k)
{
    struct form x = {.k = k};
    struct td_servable *s = k->s->servable;
    TD_TRY(td_fault_of(k->f, td_variables_objects(s, &x.objects, &k->f->err), "invalid_value", PARAM));
    enum td_code rc = td_fault_of(k->f, td_variables_read(s, &x.names, &k->f->err), "invalid_value", PARAM);
    rc = rc ? rc : open_function(&x);
    td_variables_free(x.names);
    td_object_graph_free(x.objects);
    return rc;
}

/* ------------------------------------------------------------------ what it assigns */

static bool assigns(const struct td_node *n)
{
    static const char *const ops[] = {"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (strcmp(n->op_name, ops[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Variables that nodes of the part assign, as names of the model's resources; n of them, in *out. */
enum td_code td_step_form_assigned(struct td_step_graph *k, const char ***out, int *n)
{
    const char **all = td_step_room(k->s, k->x.ir.n_nodes, sizeof *all);
    *n = 0;
    *out = all;
    if (all == NULL) {
        return td_step_no_memory(k->f);
    }
    for (int i = 0; i < k->x.ir.n_nodes; i++) {
        const struct td_node *node = k->x.ir.nodes[i];
        const char *resource =
            assigns(node) && node->n_in > 0 ? k->x.ctx.formulas->variable(node->in[0]) : NULL;
        bool known = resource == NULL;
        for (int j = 0; j < *n && !known; j++) {
            known = strcmp(all[j], resource) == 0;
        }
        if (!known) {
            all[(*n)++] = resource;
        }
    }
    return TD_OK;
}
