/* server/train/step_build.c - a training step as a graph: the signature's part of the model, extended.
 *
 *   fields (fed) -> part -> outputs -> losses -> total --backward--> gradients by the chosen variables
 *                              |                   |                 + those of penalties
 *                           metrics          Assert(finite)          (+ sums of earlier batches) / k
 *                                                  :                 clip, decay, update, average, constraint
 *                                                  :.............>   AssignVariableOp, each
 *
 * From the sums on it is step_update.c. Order (step_close.c): a variable's assignment waits for the check, by
 * a control edge, and for every node that has a handle of the variable, so that whatever reads it has read
 * it. It does not wait for other variables' gradients: a layer may be updated while the backward pass is at
 * the one below. Reads are snapshots, and an assignment puts another buffer in place of the old one, or the
 * same: nothing is copied.
 *
 * Where training computes something else than what is served (dropout), the batches of validation have a
 * graph of their own.
 *
 * Updates are listed in the order in which the backward pass makes the gradients, since roots are run in the
 * order in which they are listed and what has been updated is freed.
 *
 * Does not: run anything but the slots' start.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/grad/extend.h"
#include "core/grad/mixed.h"
#include "kernels/formula/formula.h"
#include "server/train/step_graph.h"

static enum td_code no_memory(struct td_step_graph *k)
{
    return td_step_no_memory(k->f);
}

/* An error of the engine's while a step is made: the job is refused. */
static enum td_code refused(struct td_step_graph *k, enum td_code rc, const char *param)
{
    return td_fault_of(k->f, rc, rc == TD_RESOURCE_EXHAUSTED ? "server_error" : "invalid_value", param);
}

/* ------------------------------------------------------------------ fields */

static int input_of(const struct td_signature *sig, const char *name)
{
    for (int i = 0; i < sig->n_in; i++) {
        if (strcmp(sig->in[i].key, name) == 0) {
            return i;
        }
    }
    return -1;
}

static enum td_code add_fields(struct td_step_graph *k)
{
    const struct td_row_layout *l = k->s->layout;
    k->field = td_extend_room(&k->x, l->n, sizeof *k->field);
    if (k->field == NULL) {
        return no_memory(k);
    }
    for (int i = 0; i < l->n; i++) {
        const struct td_row_field *field = &l->field[i];
        const int input = field->kind == TD_ROW_INPUT ? input_of(k->sig, field->name) : -1;
        if (input >= 0) {
            k->field[i] = (struct td_value){k->x.ir.feeds[input], 0};
        } else {
            TD_TRY(
                refused(k, td_extend_feed(&k->x, field->name, field->dtype, &k->field[i], &k->f->err), NULL));
        }
    }
    return TD_OK;
}

/* Products of the model, in training and in evaluation; those of losses and updates are added later. */
static enum td_code mix(struct td_step_graph *k)
{
    int n = 0;
    if (!k->s->spec->bfloat16) {
        return TD_OK;
    }
    TD_TRY(refused(k, td_mixed_products(&k->x.ctx, &k->x.ir, TD_BFLOAT16, &n, &k->f->err),
                   "tensord.compute_dtype"));
    k->s->n_mixed = k->evaluates ? k->s->n_mixed : n;
    return TD_OK;
}

/* ------------------------------------------------------------------ losses and metrics */

static struct td_value weights_of(const struct td_step_graph *k, const struct td_row_use *use)
{
    return use->weights < 0 ? td_no_value : k->field[use->weights];
}

static struct td_value output_of(const struct td_step_graph *k, struct td_emitter *e,
                                 const struct td_row_use *use)
{
    return td_loss_column(e, td_f_cast(e, k->x.ir.fetches[use->output], TD_FLOAT));
}

static struct td_value target_of(const struct td_step_graph *k, struct td_emitter *e,
                                 const struct td_row_use *use)
{
    const struct td_value target = k->field[use->target];
    const bool as_it_is = use->classes || k->s->layout->field[use->target].shape.rank > 1;
    return as_it_is ? target : td_loss_column(e, target);
}

static void add_loss(struct td_step_graph *k, struct td_emitter *e, int i)
{
    const struct td_loss_spec *spec = &k->s->spec->loss[i];
    const struct td_row_use *use = &k->s->layout->loss[i];
    struct td_loss_share *share = k->s->several ? &k->own : NULL;
    const struct td_node at = {.name = spec->loss->name, .function = ""};
    e->at = &at;
    const struct td_loss_args args = {
        .target = target_of(k, e, use), .output = output_of(k, e, use), .field = spec->field, .share = share};
    const struct td_value values = spec->loss->values(e, &args);
    const struct td_value counted = spec->loss->counted == NULL ? td_no_value : spec->loss->counted(e, &args);
    k->loss[i] = td_loss_reduce(e, values, weights_of(k, use), counted, spec->reduction, share);
    const struct td_value part = spec->weight == 1 ? k->loss[i] : td_f_scale(e, k->loss[i], spec->weight);
    k->data_loss = k->data_loss.node == NULL ? part : td_f_add(e, k->data_loss, part);
    e->at = NULL;
}

static enum td_code add_losses(struct td_step_graph *k)
{
    struct td_emitter e = td_extend_emitter(&k->x, &k->f->err);
    k->loss = td_extend_room(&k->x, k->s->spec->n_losses, sizeof *k->loss);
    if (k->loss == NULL) {
        return no_memory(k);
    }
    for (int i = 0; i < k->s->spec->n_losses; i++) {
        add_loss(k, &e, i);
    }
    return refused(k, td_emit_close(&e), "tensord.loss");
}

static enum td_code add_metric(struct td_step_graph *k, struct td_emitter *e, int i)
{
    const struct td_metric_spec *m = &k->s->spec->metric[i];
    const struct td_row_use *use = &k->s->layout->metric[i];
    const struct td_metric *metric = td_metric_find(m->name, use->classes, use->last_dim);
    if (metric == NULL) {
        return TD_FAULT(k->f, "invalid_value", "tensord.metrics", "there is no metric '%.100s'", m->name);
    }
    const struct td_node at = {.name = use->label, .function = ""};
    e->at = &at;
    const struct td_metric_args args = {.target = target_of(k, e, use),
                                        .output = output_of(k, e, use),
                                        .weights = weights_of(k, use),
                                        .field = m->field,
                                        .classes = use->classes};
    k->sums[i] = metric->sums(e, &args);
    e->at = NULL;
    return TD_OK;
}

static enum td_code add_metrics(struct td_step_graph *k)
{
    struct td_emitter e = td_extend_emitter(&k->x, &k->f->err);
    enum td_code rc = TD_OK;
    k->sums = td_extend_room(&k->x, k->s->spec->n_metrics, sizeof *k->sums);
    if (k->sums == NULL) {
        return no_memory(k);
    }
    for (int i = 0; rc == TD_OK && i < k->s->spec->n_metrics; i++) {
        rc = add_metric(k, &e, i);
    }
    const enum td_code closed = td_emit_close(&e);
    return rc ? rc : refused(k, closed, "tensord.metrics");
}

/* ------------------------------------------------------------------ gradients */

static enum td_dtype computed_in(enum td_dtype dtype)
{
    return dtype == TD_DOUBLE ? TD_DOUBLE : TD_FLOAT;
}

static struct td_grad_source source_of(const struct td_chosen *c)
{
    return (struct td_grad_source){.feed = -1,
                                   .variables = c->resources,
                                   .n_variables = c->n_resources,
                                   .axis = c->axis,
                                   .dtype = c->dtype};
}

/* What is needed of the IR when it is sorted once more. */
static enum td_code keep_all(struct td_step_graph *k, const struct td_value **keep, int *n)
{
    struct td_value *all = td_extend_room(&k->x, 2 * k->n_trained + k->s->spec->n_losses, sizeof *all);
    if (all == NULL) {
        return no_memory(k);
    }
    *n = 0;
    for (int i = 0; i < k->n_trained; i++) {
        all[(*n)++] = k->trained[i].g;
        all[(*n)++] = k->trained[i].w;
    }
    for (int i = 0; i < k->s->spec->n_losses; i++) {
        all[(*n)++] = k->loss[i];
    }
    *keep = all;
    return TD_OK;
}

static enum td_code no_gradient(struct td_step_graph *k)
{
    char names[300] = "";
    for (int i = 0; i < k->s->spec->n_losses; i++) {
        const size_t n = strlen(names);
        (void)snprintf(names + n, sizeof names - n, "%s'%.100s'", i > 0 ? ", " : "",
                       k->sig->out[k->s->layout->loss[i].output].key);
    }
    return TD_FAULT(k->f, "invalid_value", "tensord.loss",
                    "no gradient leads from the loss on %s to any of the %d chosen variables: nothing on the "
                    "way from there can be differentiated, or none of them has a part in it",
                    names, k->s->selection->n);
}

/* Sorts the chosen into those that have a gradient and those that are left alone. */
static enum td_code sort_out(struct td_step_graph *k, const struct td_value *g)
{
    struct td_step *s = k->s;
    int alone = 0;
    s->left_alone = td_step_room(s, s->selection->n, sizeof *s->left_alone);
    s->chosen = td_step_room(s, s->selection->n, sizeof(void *));
    k->trained = td_step_room(s, s->selection->n, sizeof *k->trained);
    if (s->left_alone == NULL || s->chosen == NULL || k->trained == NULL) {
        return no_memory(k);
    }
    for (int i = 0; i < s->selection->n; i++) {
        const struct td_chosen *c = &s->selection->chosen[i];
        if (g[i].node == NULL) {
            s->left_alone[alone++] = c->name;
        } else {
            s->chosen[k->n_trained] = c;
            k->trained[k->n_trained++] = (struct td_step_trained){.c = c, .g = g[i], .place = g[i].node->id};
        }
    }
    return k->n_trained > 0 ? TD_OK : no_gradient(k);
}

static enum td_code differentiate(struct td_step_graph *k)
{
    const struct td_selection *chosen = k->s->selection;
    struct td_grad_source *source = td_extend_room(&k->x, chosen->n, sizeof *source);
    struct td_value *g = td_extend_room(&k->x, chosen->n, sizeof *g);
    if (source == NULL || g == NULL) {
        return no_memory(k);
    }
    for (int i = 0; i < chosen->n; i++) {
        source[i] = source_of(&chosen->chosen[i]);
    }
    const struct td_value none = td_no_value;
    const struct td_extend_gradients q = {
        .targets = {.targets = &k->data_loss, .seeds = &none, .n_targets = 1},
        .source = source,
        .n_sources = chosen->n,
        .keep = k->loss,
        .n_keep = k->s->spec->n_losses};
    TD_TRY(refused(k, td_extend_gradients(&k->x, &q, g, &k->f->err), "tensord.loss"));
    return sort_out(k, g);
}

/* The variable as a whole, read through handles of its own. */
static struct td_value read_variable(struct td_step_graph *k, struct td_emitter *e, const struct td_chosen *c)
{
    struct td_value *part = td_extend_room(&k->x, c->n_resources, sizeof *part);
    for (int i = 0; part != NULL && i < c->n_resources; i++) {
        const struct td_value handle = td_step_handle(e, c->resources[i], c->dtype, NULL);
        part[i] = td_emit(e, "ReadVariableOp", TD_IN(handle), TD_ATTRS(TD_ATTR_OF_TYPE("dtype", c->dtype)));
    }
    return part == NULL          ? td_emit_fail(e, TD_RESOURCE_EXHAUSTED, "no memory for a training step")
           : c->n_resources == 1 ? part[0]
                                 : td_f_concat(e, part, c->n_resources, c->axis);
}

static enum td_code read_variables(struct td_step_graph *k)
{
    struct td_emitter e = td_extend_emitter(&k->x, &k->f->err);
    for (int i = 0; i < k->n_trained; i++) {
        struct td_step_trained *v = &k->trained[i];
        const struct td_node at = {.name = v->c->name, .function = ""};
        e.at = &at;
        v->w = td_f_cast(&e, read_variable(k, &e, v->c), computed_in(v->c->dtype));
    }
    return refused(k, td_emit_close(&e), NULL);
}

/* The sum of all penalties, and the variables that have one. */
static enum td_code add_penalties(struct td_step_graph *k, struct td_grad_source *source, int *of, int *n)
{
    struct td_emitter e = td_extend_emitter(&k->x, &k->f->err);
    for (int i = 0; i < k->n_trained; i++) {
        const struct td_step_trained *v = &k->trained[i];
        const struct td_node at = {.name = v->c->name, .function = ""};
        e.at = &at;
        struct td_value one = td_penalty(&e, v->w, v->c->l1, v->c->l2);
        if (one.node != NULL) {
            one = td_f_cast(&e, one, TD_FLOAT);
            k->penalty = k->penalty.node == NULL ? one : td_f_add(&e, k->penalty, one);
            of[*n] = i;
            source[(*n)++] = source_of(v->c);
        }
    }
    return refused(k, td_emit_close(&e), "tensord.regularizers");
}

static enum td_code differentiate_penalties(struct td_step_graph *k)
{
    struct td_grad_source *source = td_extend_room(&k->x, k->n_trained, sizeof *source);
    struct td_value *g = td_extend_room(&k->x, k->n_trained, sizeof *g);
    int *of = td_extend_room(&k->x, k->n_trained, sizeof *of), n = 0;
    const struct td_value none = td_no_value;
    if (source == NULL || g == NULL || of == NULL) {
        return no_memory(k);
    }
    TD_TRY(add_penalties(k, source, of, &n));
    if (n == 0) {
        return TD_OK;
    }
    struct td_extend_gradients q = {.targets = {.targets = &k->penalty, .seeds = &none, .n_targets = 1},
                                    .source = source,
                                    .n_sources = n};
    TD_TRY(keep_all(k, &q.keep, &q.n_keep));
    TD_TRY(refused(k, td_extend_gradients(&k->x, &q, g, &k->f->err), "tensord.regularizers"));
    for (int i = 0; i < n; i++) {
        k->trained[of[i]].penalty = g[i];
    }
    return TD_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct td_step_trained *x = a, *y = b;
    return x->place != y->place ? (x->place > y->place) - (x->place < y->place)
                                : (x->c > y->c) - (x->c < y->c);
}

/* The loss of a step, and the node that fails unless it is finite. */
static enum td_code add_total(struct td_step_graph *k)
{
    struct td_emitter e = td_extend_emitter(&k->x, &k->f->err);
    struct td_tensor text;
    const struct td_shape scalar = td_shape_scalar();
    TD_TRY(refused(k, td_tensor_new(&text, TD_STRING, &scalar, &k->f->err), NULL));
    enum td_code rc = td_tensor_set_str(&text, 0, TD_NOT_FINITE, strlen(TD_NOT_FINITE), &k->f->err);
    const struct td_node at = {.name = "loss", .function = ""};
    e.at = &at;
    k->total = k->penalty.node == NULL ? k->data_loss : td_f_add(&e, k->data_loss, k->penalty);
    const struct td_value finite = td_f_1(&e, "IsFinite", k->total);
    const struct td_value says = rc ? td_no_value : td_emit_literal(&e, &text);
    k->check = td_emit(&e, "Assert", TD_IN(finite, says), TD_NO_ATTRS).node;
    td_tensor_clear(&text);
    const enum td_code closed = td_emit_close(&e);
    return refused(k, rc ? rc : closed, NULL);
}

/* ------------------------------------------------------------------ all of it */

static enum td_code build_graph(struct td_step_graph *k)
{
    TD_TRY(add_fields(k));
    TD_TRY(k->s->spec->lora.on ? td_step_find_weights(k) : TD_OK);
    TD_TRY(k->s->spec->training_form ? td_step_form_assigned(k, &k->moved, &k->n_moved) : TD_OK);
    TD_TRY(td_step_add_share(k));
    TD_TRY(td_step_draw(k));
    TD_TRY(mix(k));
    TD_TRY(add_losses(k));
    TD_TRY(differentiate(k));
    TD_TRY(read_variables(k));
    TD_TRY(k->s->spec->lora.on ? td_step_adapt(k) : TD_OK);
    TD_TRY(differentiate_penalties(k));
    qsort(k->trained, (size_t)k->n_trained, sizeof *k->trained, by_place);
    TD_TRY(add_metrics(k));
    TD_TRY(td_step_share_numbers(k));
    TD_TRY(add_total(k));
    TD_TRY(td_step_add_updates(k));
    return td_step_close(k);
}

/* The signature as it is served, with losses and metrics, for what k trains. */
static enum td_code build_evaluation(const struct td_step_graph *of, struct td_step_graph *k)
{
    struct td_grad_source *source = td_extend_room(&k->x, of->n_trained, sizeof *source);
    int *ignored = td_extend_room(&k->x, of->n_trained, sizeof *ignored), n = 0;
    k->trained = td_step_room(k->s, of->n_trained, sizeof *k->trained);
    if (source == NULL || ignored == NULL || k->trained == NULL) {
        return no_memory(k);
    }
    k->evaluates = true;
    k->n_trained = of->n_trained;
    for (int i = 0; i < of->n_trained; i++) {
        k->trained[i].c = of->trained[i].c;
    }
    TD_TRY(add_fields(k));
    TD_TRY(td_step_add_share(k));
    TD_TRY(mix(k));
    TD_TRY(add_losses(k));
    TD_TRY(read_variables(k));
    TD_TRY(add_penalties(k, source, ignored, &n));
    TD_TRY(add_metrics(k));
    TD_TRY(td_step_share_numbers(k));
    TD_TRY(add_total(k));
    return td_step_close(k);
}

enum td_code td_step_open_signature(struct td_step_graph *k, const struct td_signature *sig,
                                    const char *param)
{
    struct td_callable *callable = td_servable_callable(k->s->servable, sig);
    struct td_callable_opts part;
    if (callable == NULL) {
        return refused(k, td_servable_closed(k->s->servable, sig, &k->f->err), param);
    }
    td_callable_graph(callable, &part);
    return refused(k, td_extend_open(&k->x, td_servable_engine(k->s->servable), &part, &k->f->err), param);
}

/* As it is served. */
static enum td_code open_served(struct td_step_graph *k)
{
    return td_step_open_signature(k, k->sig, "tensord.signature");
}

static enum td_code build_both(struct td_step *s, const struct td_signature *sig, struct td_step_graph *k)
{
    TD_TRY(build_graph(k));
    struct td_step_graph evaluation = {.s = s, .sig = sig, .f = k->f};
    if (!s->draws) {
        return TD_OK;
    }
    TD_TRY(open_served(&evaluation));
    const enum td_code rc = build_evaluation(k, &evaluation);
    td_extend_abandon(&evaluation.x);
    return rc;
}

enum td_code td_step_build(struct td_step *s, const struct td_signature *sig, struct td_fault *f)
{
    struct td_step_graph k = {.s = s, .sig = sig, .f = f};
    TD_TRY(td_select_variables(s->servable, sig, s->spec, &s->selection, f));
    TD_TRY(s->spec->training_form ? td_step_open_form(&k) : open_served(&k));
    const enum td_code rc = build_both(s, sig, &k);
    td_extend_abandon(&k.x);
    return rc;
}
