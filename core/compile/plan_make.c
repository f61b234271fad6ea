/* core/compile/plan_make.c - from a rewritten IR to numbered values and steps.
 *
 *   values   feeds | constants | outputs of step 0 | outputs of step 1 | ...
 *
 * td_plan_make() is the compiler from one end to the other: build, check types, place, lift loops, rewrite,
 * and then this file. Nodes become steps in the IR's order, which parallel regions may change
 * (td_regions_find); feeds, constants and joins are none, but where values may be dead, joins are steps, and
 * so are constants that wait for something. Each step gets the kernel rows that may serve it, on the host and
 * on the device.
 *
 * Lifetimes come last: a value's last use is the last step that reads it, or that makes it when none does;
 * what several groups of a region read lives to the region's end. A value escapes, and must have a buffer of
 * its own, when it is fetched, kept by a kernel, or seen through a view that escapes; so steps are walked
 * backwards for that.
 *
 * All of it lies in the plan's arena. Does not: know shapes or choose a kernel (core/run/bound_plan.c), or
 * give values a place (core/run/memory_plan.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/compile/plan_make.h"

#include <string.h>

#include "core/base/check.h"
#include "core/run/device_run.h"
#include "core/compile/array_lists.h"
#include "core/compile/loops.h"
#include "core/base/mem.h"
#include "core/compile/parallel_regions.h"
#include "core/compile/placer.h"
#include "core/run/plan_check.h"
#include "core/compile/rewrite.h"
#include "core/run/select.h"

enum { PLAN_ARENA_BYTES = 512 << 20, MAX_VALUES = 1 << 23 };

struct maker {
    struct td_plan *p;
    struct td_ir *ir;
    struct td_node **steps; /* n_steps */
    int *first_value;       /* by node id: number of its output 0; -1 */
    int *step_of;           /* by node id; -1 for feeds, constants and joins */
    enum td_dtype *dtype;
    bool *is_ref;
    struct td_err *err;
};

/* Constants with control inputs are steps in graphs with dead values: they may be dead. */
static bool is_const_value(const struct maker *k, const struct td_node *n)
{
    return td_node_const(n) != NULL && !(k->p->dead_values && n->n_control > 0);
}

/* Nothing in, nothing out, no effect: a point that control edges meet at. (InitializeTable has an effect and
 * no flag.) */
static bool is_join(const struct td_node *n)
{
    return n->n_in == 0 && n->n_out == 0 && !(td_node_flags(n) & TD_OP_STATEFUL);
}

static bool is_step(const struct maker *k, const struct td_node *n)
{
    return n->op != &td_op_feed && !is_const_value(k, n) && !(is_join(n) && !k->p->dead_values);
}

static void *room(struct maker *k, size_t n, size_t size)
{
    return td_arena_alloc(k->p->arena, n + 1, size);
}

static void number(struct maker *k, const struct td_node *n, int *next)
{
    k->first_value[n->id] = *next;
    for (int i = 0; i < n->n_out; i++, (*next)++) {
        k->dtype[*next] = n->out_type[i];
        k->is_ref[*next] = n->out_ref[i];
    }
}

/* The nodes that become steps, in the order that they will have. */
static enum td_code list_steps(struct maker *k, bool parallel)
{
    k->steps = room(k, (size_t)k->ir->n_nodes, sizeof(void *));
    if (k->steps == NULL) {
        return td_no_memory(k->err, (size_t)k->ir->n_nodes, "compiling a plan");
    }
    for (int i = 0; i < k->ir->n_nodes; i++) {
        if (is_step(k, k->ir->nodes[i])) {
            k->steps[k->p->n_steps++] = k->ir->nodes[i];
        }
    }
    struct td_region *regions = NULL;
    if (parallel && !k->p->dead_values) {
        TD_TRY(td_regions_find(k->p->arena, k->steps, k->p->n_steps, &regions, &k->p->n_regions, k->err));
    }
    k->p->regions = regions;
    return TD_OK;
}

static enum td_code number_values(struct maker *k)
{
    int next = 0, total = 0;
    struct td_ir *ir = k->ir;
    for (int i = 0; i < ir->n_nodes; i++) {
        total += ir->nodes[i]->n_out; /* each at most 65536: no overflow before the check */
        TD_FAIL_IF(total > MAX_VALUES, k->err, RESOURCE_EXHAUSTED, "function has more than %d values",
                   MAX_VALUES);
    }
    k->dtype = room(k, (size_t)total, sizeof *k->dtype);
    k->is_ref = room(k, (size_t)total, sizeof *k->is_ref);
    k->p->consts = room(k, (size_t)ir->n_nodes, sizeof *k->p->consts);
    k->p->steps = room(k, (size_t)ir->n_nodes, sizeof *k->p->steps);
    if (k->dtype == NULL || k->is_ref == NULL || k->p->consts == NULL || k->p->steps == NULL) {
        return td_no_memory(k->err, (size_t)total, "compiling a plan");
    }
    for (int i = 0; i < ir->n_feeds; i++) {
        number(k, ir->feeds[i], &next);
    }
    k->p->n_feeds = ir->n_feeds;
    k->p->first_const = next;
    for (int i = 0; i < ir->n_nodes; i++) {
        if (is_const_value(k, ir->nodes[i])) {
            k->p->consts[k->p->n_consts++] = td_node_const(ir->nodes[i]);
            number(k, ir->nodes[i], &next);
        }
    }
    for (int i = 0; i < k->p->n_steps; i++) {
        k->step_of[k->steps[i]->id] = i;
        number(k, k->steps[i], &next);
    }
    k->p->n_values = next;
    k->p->dtype = k->dtype;
    k->p->is_ref = k->is_ref;
    return TD_OK;
}

static enum td_code make_inputs(struct maker *k, struct td_step *s)
{
    const struct td_node *n = s->node;
    int *in = room(k, (size_t)n->n_in, sizeof *in);
    bool *deref = room(k, (size_t)n->n_in, sizeof *deref), any = false;
    if (in == NULL || deref == NULL) {
        return td_no_memory(k->err, (size_t)n->n_in, "compiling a plan");
    }
    for (int i = 0; i < n->n_in; i++) {
        in[i] = k->first_value[n->in[i].node->id] + n->in[i].port;
        deref[i] = k->is_ref[in[i]] && !n->in_ref[i];
        any |= deref[i];
    }
    s->in = in;
    s->n_in = n->n_in;
    s->deref = any ? deref : NULL;
    return TD_OK;
}

static enum td_code make_after(struct maker *k, struct td_step *s)
{
    int *after = room(k, (size_t)s->node->n_control, sizeof *after);
    if (after == NULL) {
        return td_no_memory(k->err, (size_t)s->node->n_control, "compiling a plan");
    }
    for (int i = 0; i < s->node->n_control; i++) {
        int step = k->step_of[s->node->control[i]->id];
        if (step >= 0) {
            after[s->n_after++] = step;
        }
    }
    s->after = after;
    return TD_OK;
}

static enum td_code make_rows(struct maker *k, const struct td_node *n, const struct td_target *target,
                              struct td_step *s)
{
    const struct td_kernel *found[TD_KERNEL_MOST];
    TD_TRY(td_select_rows(n, target, found, &s->n_rows, NULL, 0, k->err));
    const struct td_kernel **rows = room(k, (size_t)s->n_rows, sizeof *rows);
    if (rows == NULL) {
        return td_no_memory(k->err, (size_t)s->n_rows, "compiling a plan");
    }
    memcpy(rows, found, (size_t)s->n_rows * sizeof *rows);
    s->rows = rows;
    return TD_OK;
}

static enum td_code make_step(struct maker *k, struct td_node *n, struct td_step *s)
{
    *s = (struct td_step){
        .node = n, .n_out = n->n_out, .out0 = k->first_value[n->id], .flags = td_node_flags(n)};
    if (!is_join(n) && td_node_const(n) == NULL) {
        const struct td_target host = td_target_host(td_model_opts_of(k->p->model));
        TD_TRY(make_rows(k, n, &host, s));
    }
    TD_TRY(make_inputs(k, s));
    TD_TRY(td_placer_step(k->p, s, k->err));
    k->p->max_in = n->n_in > k->p->max_in ? n->n_in : k->p->max_in;
    k->p->max_out = n->n_out > k->p->max_out ? n->n_out : k->p->max_out;
    return k->p->dead_values ? make_after(k, s) : TD_OK;
}

static enum td_code make_steps(struct maker *k)
{
    for (int i = 0; i < k->p->n_steps; i++) {
        TD_TRY(make_step(k, k->steps[i], &k->p->steps[i]));
    }
    return TD_OK;
}

static enum td_code make_fetches(struct maker *k)
{
    int *fetches = room(k, (size_t)k->ir->n_fetches, sizeof *fetches);
    if (fetches == NULL) {
        return td_no_memory(k->err, (size_t)k->ir->n_fetches, "compiling a plan");
    }
    for (int i = 0; i < k->ir->n_fetches; i++) {
        struct td_value v = k->ir->fetches[i];
        fetches[i] = k->first_value[v.node->id] + v.port;
    }
    k->p->fetches = fetches;
    k->p->n_fetches = k->ir->n_fetches;
    return TD_OK;
}

/* By value: the last step that uses it. */
static void find_last_uses(const struct td_plan *p, int *last)
{
    memset(last, 0xff, (size_t)p->n_values * sizeof *last);
    for (int s = 0; s < p->n_steps; s++) {
        for (int o = 0; o < p->steps[s].n_out; o++) {
            last[p->steps[s].out0 + o] = s;
        }
        for (int i = 0; i < p->steps[s].n_in; i++) {
            last[p->steps[s].in[i]] = s;
        }
    }
    for (int i = 0; i < p->n_fetches; i++) {
        last[p->fetches[i]] = p->n_steps;
    }
}

struct sharing {
    const struct td_plan *p;
    int *last, *late, n_late;
    int *reader; /* by value: the group that read it last, numbered over all regions from 1 */
};

/* A value from before region r that several of its groups read lives until the step behind it, and joins
 * late. */
static void keep_shared(struct sharing *x, int r, int group)
{
    const struct td_region *region = &x->p->regions[r];
    const int me = r * TD_REGION_GROUPS + group + 1, end = td_region_end(region);
    for (int s = td_region_start(region, group); s < region->end[group]; s++) {
        for (int i = 0; i < x->p->steps[s].n_in; i++) {
            const int v = x->p->steps[s].in[i];
            const bool shared = x->reader[v] > r * TD_REGION_GROUPS && x->reader[v] != me;
            if (shared && x->last[v] < end) {
                x->last[v] = end;
                x->late[x->n_late++] = v;
            }
            x->reader[v] = me;
        }
    }
}

/* Which values must have buffers of their own. */
static void find_escapes(const struct td_plan *p, bool *escapes)
{
    for (int i = 0; i < p->n_fetches; i++) {
        escapes[p->fetches[i]] = true;
    }
    for (int s = p->n_steps - 1; s >= 0; s--) {
        const struct td_step *step = &p->steps[s];
        bool view_escapes = (step->flags & TD_OP_VIEW) && step->n_out > 0 && escapes[step->out0];
        for (int i = 0; i < step->n_in; i++) {
            escapes[step->in[i]] |= (step->flags & TD_OP_KEEPS) || (view_escapes && i == 0);
        }
    }
}

/* Release lists, from the last uses: of what the step reads and makes, and of late[0 .. n_late). */
static void list_releases(struct td_plan *p, const int *last, const int *late, int n_late, int *list,
                          bool *listed)
{
    int used = 0, next = 0;
    for (int s = 0; s < p->n_steps; s++) {
        struct td_step *step = &p->steps[s];
        const int ends = step->n_in + step->n_out;
        int mine = next;
        while (mine < n_late && last[late[mine]] == s) {
            mine++;
        }
        step->release = list + used;
        for (int i = 0; i < ends + mine - next; i++) {
            int v = i < step->n_in ? step->in[i]
                    : i < ends     ? step->out0 + i - step->n_in
                                   : late[next + i - ends];
            if (last[v] == s && !listed[v] && v >= p->first_const + p->n_consts) {
                listed[v] = true;
                list[used++] = v;
                step->n_release++;
            }
        }
        next = mine;
    }
}

static enum td_code make_lifetimes(struct maker *k)
{
    struct td_plan *p = k->p;
    const size_t n = (size_t)p->n_values;
    int *last = room(k, n, sizeof *last), *list = room(k, n, sizeof *list);
    bool *escapes = room(k, n, sizeof *escapes), *listed = room(k, n, sizeof *listed);
    const size_t few = p->n_regions > 0 ? n : 0;
    int *late = room(k, few, sizeof *late), *reader = room(k, few, sizeof *reader);
    if (last == NULL || list == NULL || escapes == NULL || listed == NULL || late == NULL || reader == NULL) {
        return td_no_memory(k->err, n, "compiling a plan");
    }
    find_last_uses(p, last);
    struct sharing x = {.p = p, .last = last, .late = late, .reader = reader};
    for (int i = 0; i < p->n_regions * TD_REGION_GROUPS; i++) {
        if (i % TD_REGION_GROUPS < p->regions[i / TD_REGION_GROUPS].n_groups) {
            keep_shared(&x, i / TD_REGION_GROUPS, i % TD_REGION_GROUPS);
        }
    }
    list_releases(p, last, late, x.n_late, list, listed);
    find_escapes(p, escapes);
    p->last_use = last;
    p->escapes = escapes;
    return TD_OK;
}

static enum td_code make(struct td_plan *p, struct td_ir *ir, bool parallel, struct td_err *err)
{
    struct maker k = {.p = p, .ir = ir, .err = err};
    size_t n = (size_t)ir->n_nodes;
    k.first_value = room(&k, n, sizeof(int));
    k.step_of = room(&k, n, sizeof(int));
    if (k.first_value == NULL || k.step_of == NULL) {
        return td_no_memory(err, n, "compiling a plan");
    }
    memset(k.step_of, 0xff, (n + 1) * sizeof(int));
    p->dead_values = td_ir_has_switch(ir);
    p->graph_nodes = ir->n_nodes;
    TD_TRY(list_steps(&k, parallel));
    TD_TRY(number_values(&k));
    TD_TRY(make_steps(&k));
    TD_TRY(make_fetches(&k));
    return make_lifetimes(&k);
}

/* From the graph's nodes to steps: every phase of the compiler, in its order. */
static enum td_code compile(struct td_plan *p, const struct td_graph *graph, const struct td_callable_opts *f,
                            const struct td_plan_opts *opts, struct td_err *err)
{
    struct td_model *m = p->model;
    struct td_ir ir;
    const unsigned share = td_rewrite_is_off(opts->passes_off, "cse") ? 0 : TD_IR_SHARE;
    const unsigned how = share | (opts->inline_calls ? TD_IR_INLINE : 0u);
    TD_TRY(td_ir_build(&ir, p->arena, graph, td_model_library(m), f, how, err));
    TD_TRY(td_ir_check_types(&ir, err));
    TD_TRY(td_array_lists(&ir, m, err));
    TD_TRY(td_placer_run(td_model_opts_of(m), &ir, opts->log_placement, err));
    TD_TRY(td_loops_lift(&ir, m, err));
    TD_TRY(td_rewrite_run(&ir, m, opts->passes_off, err));
    TD_TRY(td_ir_schedule(&ir, err));
    return make(p, &ir, !td_rewrite_is_off(opts->passes_off, "parallel"), err);
}

enum td_code td_plan_make(struct td_model *m, const struct td_graph *graph, const struct td_callable_opts *f,
                          const struct td_plan_opts *opts, struct td_plan **out, struct td_err *err)
{
    struct td_plan *p = td_calloc(1, sizeof *p);
    struct td_arena *arena = td_arena_new(PLAN_ARENA_BYTES);
    if (p == NULL || arena == NULL) {
        td_free(p);
        td_arena_free(arena);
        return td_no_memory(err, sizeof *p, "plan");
    }
    p->arena = arena;
    p->model = m;
    atomic_init(&p->refs, 1);
    enum td_code rc = compile(p, graph, f, opts, err);
    if (rc) {
        td_plan_unref(p);
        return rc;
    }
    TD_HOLDS(td_plan_check, p);
    *out = p;
    return TD_OK;
}
