/* server/train/step_form.c - "training": "graph" or "signature:NAME": the form that a file has for training.
 *
 *   object graph: root.__call__, root.call_and_return_all_conditional_losses, .. -> a concrete function that
 *   was traced with True among its arguments (training=True)
 *   else: the one signature that says "training" in its name; or the one that the job names
 *
 * Keras 2 saves its models with such a function. Its arguments are the signature's inputs and handles of what
 * it is bound to; its first results are the model's outputs. Keras 3's ExportArchive can add a signature,
 * whose inputs and outputs are known by their keys. The step's graph is made of the form in place of the
 * job's signature, whose inputs and outputs are put where that has them; validation stays with it.
 *
 * What the form assigns (the averages of batch normalisation) is assigned, and is part of the result. Random
 * ops of its body become stateless ones, drawn by the job's seed and the number of the step.
 *
 * Does not: train by functions that are bound to tables or constants, or by forms that have other inputs than
 * the signature, or lack an output.
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
    const char *name = x->k->s->spec->training_signature;
    return TD_FAULT(x->k->f, "invalid_value", PARAM,
                    PARAM " is \"%s%.100s\", but the file of model '%.100s' carries no training form of "
                          "signature '%.100s': %s",
                    name == NULL ? "graph" : "signature:", name == NULL ? "" : name,
                    td_servable_name(x->k->s->servable), x->k->sig->key, why);
}

/* ------------------------------------------------------------------ a signature */

static int find_key(const struct td_tensor_info *list, int n, const char *key)
{
    int i = 0;
    while (i < n && strcmp(list[i].key, key) != 0) {
        i++;
    }
    return i < n ? i : -1;
}

/* Every tensor of `want` is among those of `has`, with the same type and a shape that can be the same. */
static bool covers(const struct td_tensor_info *has, int n_has, const struct td_tensor_info *want, int n_want)
{
    for (int i = 0; i < n_want; i++) {
        const int at = find_key(has, n_has, want[i].key);
        if (at < 0 || has[at].dtype != want[i].dtype ||
            !td_shape_compatible(&has[at].shape, &want[i].shape)) {
            return false;
        }
    }
    return true;
}

/* Why the signature cannot stand for the job's; NULL: it can. */
static const char *misfit(const struct td_signature *sig, const struct td_signature *form)
{
    return form->n_in != sig->n_in || !covers(form->in, form->n_in, sig->in, sig->n_in)
               ? "it takes inputs of other names, types or shapes"
           : !covers(form->out, form->n_out, sig->out, sig->n_out)
               ? "it does not give all of the outputs, by the same names, types and shapes"
               : NULL;
}

/* The only other signature that fits and calls itself one of training; NULL. */
static const struct td_signature *training_signature(const struct td_step_graph *k)
{
    const struct td_saved_model *m = td_servable_model(k->s->servable);
    const struct td_signature *found = NULL;
    int n = 0;
    for (int i = 0; i < m->n_signatures; i++) {
        const struct td_signature *s = &m->signatures[i];
        if (strcmp(s->key, k->sig->key) != 0 && strstr(s->key, "training") != NULL &&
            misfit(k->sig, s) == NULL) {
            found = s;
            n++;
        }
    }
    return n == 1 ? found : NULL;
}

/* Feeds and fetches in the order of the job's signature, without what only the form has. */
static enum td_code order_as_signature(struct td_step_graph *k, const struct td_signature *form)
{
    struct td_ir *ir = &k->x.ir;
    struct td_node **feeds = td_extend_room(&k->x, k->sig->n_in, sizeof(void *));
    struct td_value *fetches = td_extend_room(&k->x, k->sig->n_out, sizeof *fetches);
    if (feeds == NULL || fetches == NULL) {
        return td_step_no_memory(k->f);
    }
    for (int i = 0; i < k->sig->n_in; i++) {
        feeds[i] = ir->feeds[find_key(form->in, form->n_in, k->sig->in[i].key)];
    }
    for (int i = 0; i < k->sig->n_out; i++) {
        fetches[i] = ir->fetches[find_key(form->out, form->n_out, k->sig->out[i].key)];
    }
    ir->feeds = feeds;
    ir->fetches = fetches;
    ir->n_fetches = k->sig->n_out;
    return TD_OK;
}

static enum td_code open_signature(struct td_step_graph *k, const struct td_signature *form)
{
    TD_TRY(td_step_open_signature(k, form, PARAM));
    return order_as_signature(k, form);
}

/* The signature that the job names. */
static enum td_code open_named(struct td_step_graph *k, const char *name)
{
    const struct form x = {.k = k};
    const struct td_signature *form = td_servable_signature(k->s->servable, name);
    if (form == NULL) {
        return no_form(&x, "it has no signature of that name");
    }
    const char *why = misfit(k->sig, form);
    return why != NULL ? no_form(&x, why) : open_signature(k, form);
}

/* ------------------------------------------------------------------ a function */

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

static void find_function(struct form *x)
{
    static const char *const children[] = {"__call__", "call_and_return_all_conditional_losses", NULL};
    for (int i = 0; x->objects != NULL && x->objects->n_nodes > 0 && i < 3 && x->function == NULL; i++) {
        x->function = form_of(x, children[i]);
    }
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
    if (k->sig->n_out != 1) {
        return no_form(x, "the signature has several outputs, whose order in its function is not told");
    }
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

/* A function, else a signature; outputs of a function are told apart only where there is one. */
static enum td_code open_any(struct form *x)
{
    find_function(x);
    const bool told = x->function != NULL && x->k->sig->n_out == 1;
    const struct td_signature *form = told ? NULL : training_signature(x->k);
    return form != NULL ? open_signature(x->k, form)
           : x->function != NULL
               ? open_function(x)
               : no_form(x, "no function of its root object was saved with training=True and "
                            "takes its inputs, and there is not one other signature with "
                            "\"training\" in its name and the same inputs and outputs");
}

enum td_code td_step_open_form(struct td_step_graph *k)
{
    struct form x = {.k = k};
    struct td_servable *s = k->s->servable;
    if (k->s->spec->training_signature != NULL) {
        return open_named(k, k->s->spec->training_signature);
    }
    TD_TRY(td_fault_of(k->f, td_variables_objects(s, &x.objects, &k->f->err), "invalid_value", PARAM));
    enum td_code rc = td_fault_of(k->f, td_variables_read(s, &x.names, &k->f->err), "invalid_value", PARAM);
    rc = rc ? rc : open_any(&x);
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
