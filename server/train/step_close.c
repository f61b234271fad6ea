/* server/train/step_close.c - the finished graph of a step: what waits for what, and its callables.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "server/train/step_graph.h"

static enum td_code failed(struct td_step_graph *k, enum td_code rc)
{
    return td_fault_of(k->f, rc, rc == TD_RESOURCE_EXHAUSTED ? "server_error" : "invalid_value", NULL);
}

/* ------------------------------------------------------------------ what waits for what */

/* Flags of ops that show an input: number i as output i, or (of TF1's control flow) the first one. */
#define SHOWS (TD_OP_IDENTITY | TD_OP_SWITCH | TD_OP_ENTER)

/* The variable that v is or has a handle of, seen through nodes that show their input; NULL. */
static const char *variable_of(const struct td_step_graph *k, struct td_value v)
{
    while ((td_node_flags(v.node) & SHOWS) && v.node->op != NULL && v.node->n_in > 0) {
        v = v.node->in[v.port < v.node->n_in && (v.node->op->flags & TD_OP_IDENTITY) ? v.port : 0];
    }
    return k->x.ctx.formulas->variable(v);
}

static bool is_effect(const struct td_step_graph *k, const struct td_node *n)
{
    for (int kind = 0; kind < TD_RUN_KINDS; kind++) {
        for (int i = 0; i < k->effects[kind].n; i++) {
            if (k->effects[kind].node[i] == n) {
                return true;
            }
        }
    }
    return false;
}

/* Those of the effects that are on the variable wait for n, which has it. */
static enum td_code wait_for(struct td_step_graph *k, const char *resource, struct td_node *n)
{
    for (int kind = 0; kind < TD_RUN_START; kind++) {
        for (int i = 0; i < k->effects[kind].n; i++) {
            if (strcmp(k->effects[kind].resource[i], resource) == 0) {
                TD_TRY(failed(k, td_extend_wait(&k->x, k->effects[kind].node[i], n, &k->f->err)));
            }
        }
    }
    return TD_OK;
}

static enum td_code add_waits(struct td_step_graph *k)
{
    for (int i = 0; i < k->x.ir.n_nodes; i++) {
        struct td_node *n = k->x.ir.nodes[i];
        for (int in = 0; in < n->n_in; in++) {
            const char *resource = variable_of(k, n->in[in]);
            TD_TRY(resource == NULL || is_effect(k, n) ? TD_OK : wait_for(k, resource, n));
        }
    }
    for (int kind = 0; kind < TD_RUN_START; kind++) {
        for (int i = 0; i < k->effects[kind].n; i++) {
            TD_TRY(failed(k, td_extend_wait(&k->x, k->effects[kind].node[i], k->check, &k->f->err)));
        }
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ callables */

/* Loss, losses, sums of the metrics; of several processes how many are to stop; norm; gradients, where they
 * are shown. */
static enum td_code list_fetches(struct td_step_graph *k, struct td_value **out, int *n)
{
    const struct td_job_spec *spec = k->s->spec;
    *out = td_extend_room(&k->x, 3 + spec->n_losses + spec->n_metrics + k->n_trained, sizeof **out);
    if (*out == NULL) {
        return td_step_no_memory(k->f);
    }
    (*out)[(*n)++] = k->total;
    for (int i = 0; i < spec->n_losses; i++) {
        (*out)[(*n)++] = k->loss[i];
    }
    for (int i = 0; i < spec->n_metrics; i++) {
        (*out)[(*n)++] = k->sums[i];
    }
    if (k->s->several) {
        (*out)[(*n)++] = k->stops;
    }
    (*out)[*n] = k->norm;
    for (int i = 0; i < k->n_trained; i++) {
        (*out)[*n + 1 + i] = k->trained[i].g;
    }
    return TD_OK;
}

/* Fields, of several processes the share, the step's number where it is asked for; rates, t. */
static enum td_code list_feeds(struct td_step_graph *k, struct td_value **out, int *n)
{
    const struct td_row_layout *l = k->s->layout;
    *out = td_extend_room(&k->x, l->n + k->s->n_optimizers + 3, sizeof **out);
    if (*out == NULL) {
        return td_step_no_memory(k->f);
    }
    for (int i = 0; i < l->n; i++) {
        (*out)[(*n)++] = k->field[i];
    }
    if (k->s->several) {
        (*out)[(*n)++] = k->share;
    }
    if (k->number.node != NULL) {
        (*out)[(*n)++] = k->number;
    }
    for (int i = 0; !k->evaluates && i < k->s->n_optimizers; i++) {
        (*out)[*n + i] = k->rate[i];
    }
    (*out)[*n + k->s->n_optimizers] = k->t;
    return TD_OK;
}

/* What begins sums over processes, the part's own effects, the check, and the assignments. */
static enum td_code list_targets(struct td_step_graph *k, enum td_step_run_kind kind, bool part,
                                 struct td_callable_opts *o)
{
    const struct td_ir *ir = &k->x.ir;
    const struct td_step_effects *effects = &k->effects[kind];
    struct td_node **all =
        td_extend_room(&k->x, k->own.n_sums + ir->n_roots + 1 + effects->n, sizeof(void *));
    if (all == NULL) {
        return td_step_no_memory(k->f);
    }
    o->n_targets = part ? td_step_list_sums(k, kind, all) : 0;
    for (int i = 0; part && i < ir->n_roots; i++) {
        all[o->n_targets++] = ir->roots[i];
    }
    if (part && kind != TD_RUN_EVALUATE) {
        all[o->n_targets++] = k->check;
    }
    for (int i = 0; i < effects->n; i++) {
        all[o->n_targets++] = effects->node[i];
    }
    o->targets = all;
    return TD_OK;
}

static bool is_needed(const struct td_step_graph *k, enum td_step_run_kind kind)
{
    const bool adds = kind == TD_RUN_BEGIN || kind == TD_RUN_ACCUMULATE;
    if (k->evaluates || (k->s->draws && kind == TD_RUN_EVALUATE)) {
        return k->evaluates && kind == TD_RUN_EVALUATE;
    }
    return adds ? k->s->spec->accumulation > 1
                : kind == TD_RUN_UPDATE || kind == TD_RUN_EVALUATE || k->effects[kind].n > 0;
}

static enum td_code make_callables(struct td_step_graph *k)
{
    static const char *const names[TD_RUN_KINDS] = {"train: update",   "train: begin", "train: accumulate",
                                                    "train: evaluate", "train: start", "train: averages"};
    struct td_callable_opts opts[TD_RUN_KINDS];
    struct td_callable *made[TD_RUN_KINDS];
    enum td_step_run_kind of[TD_RUN_KINDS];
    struct td_value *feeds, *fetches;
    int n_feeds = 0, n_fetches = 0, n = 0;
    const int shown = k->s->spec->histograms ? k->n_trained : 0;
    TD_TRY(list_feeds(k, &feeds, &n_feeds));
    TD_TRY(list_fetches(k, &fetches, &n_fetches));
    for (enum td_step_run_kind kind = 0; kind < TD_RUN_KINDS; kind++) {
        const bool batch = kind < TD_RUN_START, updates = kind == TD_RUN_UPDATE;
        if (is_needed(k, kind)) {
            struct td_callable_opts *o = &opts[n];
            of[n++] = kind;
            *o = (struct td_callable_opts){
                .name = names[kind],
                .feeds = feeds,
                .n_feeds = !batch    ? 0
                           : updates ? n_feeds + k->s->n_optimizers + 1
                                     : n_feeds,
                .fetches = fetches,
                .n_fetches = !batch ? 0 : n_fetches + (kind != TD_RUN_EVALUATE) + (updates ? shown : 0),
                .once = kind == TD_RUN_START};
            TD_TRY(list_targets(k, kind, batch, o));
        }
    }
    struct td_model **model = k->evaluates ? &k->s->evaluated : &k->s->model;
    TD_TRY(failed(k, td_extend_close(&k->x, opts, n, model, made, &k->f->err)));
    for (int i = 0; i < n; i++) {
        k->s->run[of[i]] = made[i];
    }
    return TD_OK;
}

static enum td_code start(struct td_step *s, struct td_fault *f)
{
    struct td_callable *run = s->run[TD_RUN_START];
    enum td_code rc = TD_OK;
    if (run != NULL) {
        rc = s->dry ? TD_OK : td_callable_run(run, NULL, NULL, NULL, &f->err);
        td_callable_drop(run);
        s->run[TD_RUN_START] = NULL;
    }
    rc = rc || s->dry ? rc : td_step_bind_state(s, &f->err);
    return td_fault_of(f, rc, "server_error", NULL);
}

enum td_code td_step_close(struct td_step_graph *k)
{
    TD_TRY(add_waits(k));
    TD_TRY(make_callables(k));
    return k->evaluates ? TD_OK : start(k->s, k->f);
}
