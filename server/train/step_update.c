/* server/train/step_update.c - from gradients to assigned variables, and a model around it all.
 *
 *   g (+ sum) / k -> clip -> [w decayed] -> optimizer(w, g, slots) -> w', slots'
 *                                 average' = m average + (1 - m) w'       w' constrained
 *
 * Slots, sums and averages are variables of the model's resources, of the variable's whole shape even where
 * it is kept in parts; they start when the step is made. The order is Keras's: an average is of the value
 * before its constraint.
 *
 * An update takes what it assigns (_TakeVariable), so that element-wise chains write over it: weights and
 * slots stay where they are, and there is no second copy of them. If such a run fails half way, what was
 * taken is gone; the job fails, or goes on from its saved progress.
 *
 * A sum of gradients begins by an assignment at the first batch of a cycle, so that it is never cleared.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "kernels/formula/formula.h"
#include "server/train/step_graph.h"

enum { FEW_EFFECTS = 64 };

static enum td_code refused(struct td_step_graph *k, enum td_code rc)
{
    return td_fault_of(k->f, rc, rc == TD_RESOURCE_EXHAUSTED ? "server_error" : "invalid_value",
                       "tensord.optimizer");
}

/* ------------------------------------------------------------------ variables */

struct td_value td_step_handle(struct td_emitter *e, const char *resource, enum td_dtype dtype,
                               const struct td_shape *shape)
{
    struct td_shape own = shape == NULL ? td_shape_unknown() : *shape;
    const struct td_attr attrs[] = {TD_ATTR_OF_TEXT("shared_name", resource),
                                    TD_ATTR_OF_TYPE("dtype", dtype),
                                    {.name = "shape", .kind = TD_ATTR_SHAPE, .n = 1, .shape = &own}};
    return td_emit(e, "VarHandleOp", TD_NO_INPUTS, attrs, (int)(sizeof attrs / sizeof *attrs));
}

/* A variable of the step's own. */
struct own {
    const char *resource;
    enum td_dtype dtype;
    struct td_shape shape;
    int state; /* its number */
};

static struct td_value handle_of(struct td_emitter *e, const struct own *v)
{
    return td_step_handle(e, v->resource, v->dtype, &v->shape);
}

static struct td_value read_own(struct td_emitter *e, const struct own *v)
{
    return td_emit(e, "ReadVariableOp", TD_IN(handle_of(e, v)), TD_ATTRS(TD_ATTR_OF_TYPE("dtype", v->dtype)));
}

/* Notes that run `kind` has n, which takes or assigns the variable. */
static void add_effect(struct td_step_graph *k, struct td_emitter *e, enum td_step_run_kind kind,
                       const char *resource, struct td_node *n)
{
    struct td_step_effects *all = &k->effects[kind];
    if (e->rc == TD_OK && all->n == all->cap) {
        const int cap = all->cap == 0 ? FEW_EFFECTS : 2 * all->cap;
        struct td_node **node = td_extend_room(&k->x, cap, sizeof *node);
        const char **names = td_extend_room(&k->x, cap, sizeof *names);
        if (node == NULL || names == NULL) {
            td_emit_fail(e, TD_RESOURCE_EXHAUSTED, "no memory for a training step");
            return;
        }
        for (int i = 0; i < all->n; i++) {
            node[i] = all->node[i];
            names[i] = all->resource[i];
        }
        all->node = node;
        all->resource = names;
        all->cap = cap;
    }
    if (e->rc == TD_OK) {
        all->node[all->n] = n;
        all->resource[all->n++] = resource;
    }
}

static void assign(struct td_step_graph *k, struct td_emitter *e, enum td_step_run_kind kind,
                   const struct own *v, struct td_value value)
{
    const struct td_value n = td_emit(e, "AssignVariableOp", TD_IN(handle_of(e, v), value), TD_NO_ATTRS);
    add_effect(k, e, kind, v->resource, n.node);
}

/* What the variable holds, for an update that assigns it again: the run has it to itself, once all that reads
 * it has done so, and may write into it. */
static struct td_value take(struct td_step_graph *k, struct td_emitter *e, enum td_step_run_kind kind,
                            const struct own *v)
{
    const struct td_value value =
        td_emit(e, "_TakeVariable", TD_IN(handle_of(e, v)), TD_ATTRS(TD_ATTR_OF_TYPE("dtype", v->dtype)));
    add_effect(k, e, kind, v->resource, value.node);
    return value;
}

/* What a variable of the step's starts as: a value, or a number everywhere. */
static void start_as(struct td_step_graph *k, struct td_emitter *e, const struct own *v,
                     struct td_value value, double number)
{
    if (value.node == NULL) {
        int64_t dims[TD_MAX_RANK];
        for (int d = 0; d < v->shape.rank; d++) {
            dims[d] = v->shape.dim[d];
        }
        const struct td_value shape = td_emit_ints(e, TD_INT64, dims, v->shape.rank);
        value = td_f_fill(e, shape, td_emit_number(e, v->dtype, number));
    }
    assign(k, e, TD_RUN_START, v, value);
}

/* A new state: resource "train/WHAT/KEY". */
static enum td_code add_own(struct td_step_graph *k, const char *what, const char *key, struct own *v)
{
    struct td_step *s = k->s;
    const size_t bytes = strlen(what) + strlen(key) + 8;
    char *name = td_step_room(s, (int)bytes, 1);
    if (name == NULL) {
        return td_step_no_memory(k->f);
    }
    (void)snprintf(name, bytes, "train/%s/%s", what, key);
    v->resource = name;
    v->state = s->n_state;
    s->state[s->n_state++] =
        (struct td_step_state){.name = name, .resource = name, .dtype = v->dtype, .shape = v->shape};
    return TD_OK;
}

/* ------------------------------------------------------------------ gradients, ready to be applied */

/* With accumulation: the mean of k batches, of which all but this one are in a sum. */
static enum td_code add_up(struct td_step_graph *k, struct td_emitter *e, struct td_step_trained *v)
{
    struct own sum = {.dtype = td_dtype_of(v->w), .shape = v->c->shape};
    TD_TRY(add_own(k, "sum", v->c->key, &sum));
    start_as(k, e, &sum, td_no_value, 0);
    assign(k, e, TD_RUN_BEGIN, &sum, v->g);
    assign(k, e, TD_RUN_ACCUMULATE, &sum, td_f_add(e, take(k, e, TD_RUN_ACCUMULATE, &sum), v->g));
    v->g = td_f_scale(e, td_f_add(e, read_own(e, &sum), v->g), 1.0 / (double)k->s->spec->accumulation);
    return TD_OK;
}

/* Clips those gradients of g whose optimizer says so itself (own), or that the job's clip is for. */
static void clip_group(struct td_step_graph *k, struct td_emitter *e, int optimizer, struct td_value *room)
{
    const struct td_job_spec *spec = k->s->spec;
    const struct td_clip_spec *clip = optimizer < 0 ? &spec->clip : &spec->optimizer[optimizer].clip;
    int n = 0;
    for (int i = 0; i < k->n_trained; i++) {
        const int o = k->trained[i].c->optimizer;
        if (optimizer < 0 || o == optimizer) { /* the job's norm is over all of them */
            room[n++] = k->trained[i].g;
        }
    }
    td_clip(e, room, n, clip->kind, clip->at);
    n = 0;
    for (int i = 0; i < k->n_trained; i++) {
        const int o = k->trained[i].c->optimizer;
        if (optimizer < 0 || o == optimizer) {
            const bool takes = optimizer >= 0 || !spec->optimizer[o].own_clip;
            k->trained[i].g = takes ? room[n] : k->trained[i].g;
            n++;
        }
    }
}

/* With every gradient in a list: what is told or done of them all, under a name of theirs. */
static enum td_code with_all(struct td_step_graph *k, struct td_emitter *e,
                             void (*act)(struct td_step_graph *k, struct td_emitter *e, struct td_value *g))
{
    struct td_value *g = td_extend_room(&k->x, k->n_trained, sizeof *g);
    if (g == NULL) {
        return td_step_no_memory(k->f);
    }
    for (int i = 0; i < k->n_trained; i++) {
        g[i] = k->trained[i].g;
    }
    const struct td_node at = {.name = "gradients", .function = ""};
    e->at = &at;
    act(k, e, g);
    e->at = NULL;
    return TD_OK;
}

/* The norm that is told, of this batch's gradients as they came. */
static void add_norm(struct td_step_graph *k, struct td_emitter *e, struct td_value *g)
{
    k->norm = td_global_norm(e, g, k->n_trained);
}

static void clip_all(struct td_step_graph *k, struct td_emitter *e, struct td_value *g)
{
    const struct td_job_spec *spec = k->s->spec;
    if (spec->clip.kind != TD_NO_CLIP) {
        clip_group(k, e, -1, g);
    }
    for (int i = 0; i < k->s->n_optimizers; i++) {
        const int o = k->s->optimizers[i];
        if (spec->optimizer[o].own_clip && spec->optimizer[o].clip.kind != TD_NO_CLIP) {
            clip_group(k, e, o, g);
        }
    }
}

/* ------------------------------------------------------------------ updates */

/* What the variables of one optimizer share. */
struct group {
    const struct td_optimizer_spec *spec;
    struct td_value rate;
    struct td_value slot[TD_MOST_SLOTS]; /* shared ones, after their own update */
};

static double start_of(const struct td_optimizer_spec *o, const struct td_slot *slot)
{
    return slot->shared ? slot->start : slot->start_field >= 0 ? o->field.v[slot->start_field] : 0;
}

static enum td_code share(struct td_step_graph *k, struct td_emitter *e, int number, struct group *g)
{
    const struct td_optimizer *o = g->spec->optimizer;
    struct own own[TD_MOST_SLOTS];
    char key[24];
    struct td_update u = {.e = e, .rate = g->rate, .t = k->t, .field = g->spec->field};
    (void)snprintf(key, sizeof key, "%d", number);
    for (int i = 0; o->slots[i].name != NULL; i++) {
        if (o->slots[i].shared && td_optimizer_keeps(o, i, &g->spec->field)) {
            own[i] = (struct own){.dtype = TD_FLOAT, .shape = td_shape_scalar()};
            TD_TRY(add_own(k, o->slots[i].name, key, &own[i]));
            start_as(k, e, &own[i], td_no_value, start_of(g->spec, &o->slots[i]));
            u.slot[i] = read_own(e, &own[i]);
        }
    }
    if (o->update_shared != NULL) {
        o->update_shared(&u);
    }
    for (int i = 0; o->slots[i].name != NULL; i++) {
        g->slot[i] = u.new_slot[i].node != NULL ? u.new_slot[i] : u.slot[i];
        if (u.new_slot[i].node != NULL) {
            assign(k, e, TD_RUN_UPDATE, &own[i], u.new_slot[i]);
        }
    }
    return TD_OK;
}

void td_step_assign(struct td_step_graph *k, struct td_emitter *e, enum td_step_run_kind kind,
                    const char *resource, enum td_dtype dtype, const struct td_shape *shape,
                    struct td_value value)
{
    assign(k, e, kind, &(struct own){.resource = resource, .dtype = dtype, .shape = *shape}, value);
}

/* The variable comes to hold w: each part of it that part of w. */
enum td_code td_step_assign_trained(struct td_step_graph *k, struct td_emitter *e, enum td_step_run_kind kind,
                                    const struct td_step_trained *v, struct td_value w)
{
    const struct td_chosen *c = v->c;
    const struct td_step_state *state = &k->s->state[k->s->result[v - k->trained].state];
    int64_t from = 0;
    w = td_f_cast(e, w, c->dtype);
    for (int i = 0; i < c->n_resources; i++) {
        struct own part = {.resource = c->resources[i], .dtype = c->dtype, .shape = state[i].shape};
        struct td_value value = w;
        if (c->n_resources > 1) {
            int64_t begin[TD_MAX_RANK] = {0};
            const int axis = part.shape.rank + c->axis;
            begin[axis] = from;
            value = td_f_slice(e, w, td_emit_ints(e, TD_INT64, begin, part.shape.rank),
                               td_emit_ints(e, TD_INT64, part.shape.dim, part.shape.rank));
            from += part.shape.dim[axis];
        }
        assign(k, e, kind, &part, value);
    }
    return TD_OK;
}

static struct td_value take_trained(struct td_step_graph *k, struct td_emitter *e,
                                    const struct td_step_trained *v)
{
    const struct own own = {.resource = v->c->resources[0], .dtype = v->c->dtype, .shape = v->c->shape};
    return td_f_cast(e, take(k, e, TD_RUN_UPDATE, &own), td_dtype_of(v->w));
}

static enum td_code average(struct td_step_graph *k, struct td_emitter *e, const struct td_step_trained *v,
                            struct td_value w)
{
    struct own own = {.dtype = td_dtype_of(v->w), .shape = v->c->shape};
    TD_TRY(add_own(k, "average", v->c->key, &own));
    start_as(k, e, &own, v->w, 0); /* so that it is right before the first update, too */
    k->s->result[v - k->trained].average = own.state;
    assign(k, e, TD_RUN_UPDATE, &own,
           td_averaged(e, take(k, e, TD_RUN_UPDATE, &own), w, k->t, k->s->spec->ema.momentum));
    return td_step_assign_trained(k, e, TD_RUN_AVERAGES, v, read_own(e, &own));
}

static enum td_code update(struct td_step_graph *k, struct td_emitter *e, struct td_step_trained *v,
                           const struct group *g)
{
    const struct td_optimizer *o = g->spec->optimizer;
    const bool decays = v->c->decays && g->spec->weight_decay != 0;
    const struct td_value w = v->c->n_resources > 1 ? v->w : take_trained(k, e, v);
    struct own own[TD_MOST_SLOTS];
    struct td_update u = {.e = e,
                          .w = decays ? td_decayed(e, w, g->spec->weight_decay, g->rate) : w,
                          .g = v->g,
                          .rate = g->rate,
                          .t = k->t,
                          .field = g->spec->field};
    for (int i = 0; o->slots[i].name != NULL; i++) {
        if (o->slots[i].shared) {
            u.slot[i] = g->slot[i];
        } else if (td_optimizer_keeps(o, i, &g->spec->field)) {
            own[i] = (struct own){.dtype = td_dtype_of(v->w), .shape = v->c->shape};
            TD_TRY(add_own(k, o->slots[i].name, v->c->key, &own[i]));
            start_as(k, e, &own[i], td_no_value, start_of(g->spec, &o->slots[i]));
            u.slot[i] = take(k, e, TD_RUN_UPDATE, &own[i]);
        }
    }
    o->update(&u);
    for (int i = 0; o->slots[i].name != NULL; i++) {
        if (!o->slots[i].shared && u.new_slot[i].node != NULL) {
            assign(k, e, TD_RUN_UPDATE, &own[i], u.new_slot[i]);
        }
    }
    TD_TRY(k->s->spec->ema.on ? average(k, e, v, u.new_w) : TD_OK);
    const struct td_constraint_spec *c = v->c->constraint;
    v->new_w = c == NULL ? u.new_w : c->constraint->project(e, u.new_w, &c->field);
    return td_step_assign_trained(k, e, TD_RUN_UPDATE, v, v->new_w);
}

/* ------------------------------------------------------------------ all of them */

/* Which optimizers are in use, and what feeds them. */
static enum td_code list_optimizers(struct td_step_graph *k)
{
    struct td_step *s = k->s;
    s->optimizers = td_step_room(s, s->spec->n_optimizers, sizeof *s->optimizers);
    k->rate = td_extend_room(&k->x, s->spec->n_optimizers, sizeof *k->rate);
    if (s->optimizers == NULL || k->rate == NULL) {
        return td_step_no_memory(k->f);
    }
    for (int o = 0; o < s->spec->n_optimizers; o++) {
        bool used = false;
        for (int i = 0; i < k->n_trained; i++) {
            used = used || k->trained[i].c->optimizer == o;
        }
        if (used) {
            TD_TRY(
                refused(k, td_extend_feed(&k->x, "rate", TD_FLOAT, &k->rate[s->n_optimizers], &k->f->err)));
            s->optimizers[s->n_optimizers++] = o;
        }
    }
    return refused(k, td_extend_feed(&k->x, "t", TD_FLOAT, &k->t, &k->f->err));
}

/* The shape of what the part holds. */
static enum td_code part_shape(struct td_step_graph *k, const char *resource, struct td_shape *out)
{
    struct td_variable *v = (struct td_variable *)td_model_resource(td_servable_engine(k->s->servable),
                                                                    &td_variable_type, resource);
    struct td_tensor now;
    if (v == NULL) {
        return TD_FAULT(k->f, "server_error", NULL, "variable '%.200s' is gone", resource);
    }
    TD_TRY(refused(k, td_variable_read(v, &now, &k->f->err)));
    *out = now.shape;
    td_tensor_clear(&now);
    return TD_OK;
}

/* The trained variables as states and as rows of the result. */
/* What the training form assigns by itself: part of the model and of the result. */
static enum td_code list_moved(struct td_step_graph *k)
{
    struct td_step *s = k->s;
    struct td_variables *names;
    TD_TRY(refused(k, td_variables_read(s->servable, &names, &k->f->err)));
    enum td_code rc = TD_OK;
    for (int i = 0; rc == TD_OK && i < td_variables_count(names); i++) {
        const struct td_variable_row row = td_variables_row(names, i);
        bool moved = false, trained = false;
        for (int m = 0; m < k->n_moved && row.n == 1; m++) {
            moved = moved || strcmp(k->moved[m], row.resources[0]) == 0;
        }
        for (int t = 0; t < s->n_state && moved; t++) {
            trained = trained || strcmp(s->state[t].resource, row.resources[0]) == 0;
        }
        if (!moved || trained || row.key == NULL) {
            continue;
        }
        const char *key = td_arena_strdup(s->arena, row.key), *stem = td_arena_strdup(s->arena, row.stem);
        const char *resource = td_arena_strdup(s->arena, row.resources[0]);
        s->result[s->n_result++] =
            (struct td_step_result_row){.key = key, .state = s->n_state, .n = 1, .average = -1};
        s->state[s->n_state++] = (struct td_step_state){
            .name = stem, .resource = resource, .dtype = row.dtype, .shape = row.shape, .model = true};
        rc = key == NULL || stem == NULL || resource == NULL ? td_step_no_memory(k->f) : TD_OK;
    }
    td_variables_free(names);
    return rc;
}

static enum td_code list_trained(struct td_step_graph *k)
{
    struct td_step *s = k->s;
    const int n = k->n_trained + k->n_merged;
    int most = s->n_optimizers * TD_MOST_SLOTS + k->n_moved;
    for (int i = 0; i < n; i++) {
        most += k->trained[i].c->n_resources + TD_MOST_SLOTS + 2;
    }
    s->state = td_step_room(s, most, sizeof *s->state);
    s->result = td_step_room(s, n + k->n_moved, sizeof *s->result);
    if (s->state == NULL || s->result == NULL) {
        return td_step_no_memory(k->f);
    }
    for (int i = 0; i < n; i++) {
        const struct td_chosen *c = k->trained[i].c;
        s->result[s->n_result++] =
            (struct td_step_result_row){.key = k->trained[i].adapter ? NULL : c->full_key,
                                        .state = s->n_state,
                                        .n = c->n_resources,
                                        .axis = c->axis,
                                        .average = -1};
        for (int part = 0; part < c->n_resources; part++) {
            struct td_step_state *state = &s->state[s->n_state++];
            *state = (struct td_step_state){.name = c->n_resources == 1 ? c->key : c->resources[part],
                                            .resource = c->resources[part],
                                            .dtype = c->dtype,
                                            .model = true};
            state->shape = c->shape;
            TD_TRY(k->trained[i].adapter ? TD_OK : part_shape(k, c->resources[part], &state->shape));
        }
    }
    return k->n_moved > 0 ? list_moved(k) : TD_OK;
}

static enum td_code update_all(struct td_step_graph *k, struct td_emitter *e)
{
    struct group *group = td_extend_room(&k->x, k->s->spec->n_optimizers, sizeof *group);
    if (group == NULL) {
        return td_step_no_memory(k->f);
    }
    for (int i = 0; i < k->n_trained; i++) {
        struct td_step_trained *v = &k->trained[i];
        const struct td_node at = {.name = v->c->name, .function = ""};
        e->at = &at;
        v->g = td_f_cast(e, v->g, td_dtype_of(v->w));
        v->g = td_step_share_gradient(k, e, v, i == k->n_trained - 1);
        if (v->penalty.node != NULL) {
            v->g = td_f_add(e, v->g, td_f_cast(e, v->penalty, td_dtype_of(v->w)));
        }
        e->at = NULL;
    }
    TD_TRY(with_all(k, e, add_norm));
    for (int i = 0; k->s->spec->accumulation > 1 && i < k->n_trained; i++) {
        const struct td_node at = {.name = k->trained[i].c->name, .function = ""};
        e->at = &at;
        TD_TRY(add_up(k, e, &k->trained[i]));
        e->at = NULL;
    }
    TD_TRY(with_all(k, e, clip_all));
    for (int i = 0; i < k->s->n_optimizers; i++) {
        const int o = k->s->optimizers[i];
        const struct td_node at = {.name = "optimizer", .function = ""};
        e->at = &at;
        group[o] = (struct group){.spec = &k->s->spec->optimizer[o], .rate = k->rate[i]};
        TD_TRY(share(k, e, o, &group[o]));
        e->at = NULL;
    }
    for (int i = 0; i < k->n_trained; i++) {
        const struct td_node at = {.name = k->trained[i].c->name, .function = ""};
        e->at = &at;
        TD_TRY(update(k, e, &k->trained[i], &group[k->trained[i].c->optimizer]));
        e->at = NULL;
    }
    return td_step_merge(k, e);
}

enum td_code td_step_add_updates(struct td_step_graph *k)
{
    TD_TRY(list_optimizers(k));
    TD_TRY(list_trained(k));
    struct td_emitter e = td_extend_emitter(&k->x, &k->f->err);
    const enum td_code rc = update_all(k, &e), closed = td_emit_close(&e);
    return rc ? rc : refused(k, closed);
}
