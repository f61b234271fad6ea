/* server/train/select.c - a job's patterns against the table of a version's variables.
 *
 * First every pattern of the job is looked up among all variables, so that a misspelt one is told before
 * anything else. Then each variable is asked one question after the other; what it fell out by is counted,
 * and if none is left the counts are the message. Which variables the signature reads is seen in its part of
 * the graph with all calls inlined, and in the bodies of the loops and branches that are left.
 *
 * Does not: know which variables a gradient leads to (server/train/step.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/train/select.h"

#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/compile/ir.h"
#include "core/function/callable.h"
#include "core/grad/grad.h"
#include "server/base/glob.h"

#define SELECTION_BYTES ((size_t)64 << 20)
#define GRAPH_BYTES ((size_t)512 << 20)
#define MAX_NESTING 32 /* of functions in functions */

enum fate { CHOSEN, NO_FLOAT, NOT_TRAINABLE, NOT_READ, NO_MATCH, FROZEN, FATES };

struct selector {
    struct td_servable *s;
    const struct td_signature *sig;
    const struct td_job_spec *spec;
    struct td_variables *vars;
    bool *read; /* by row: the signature reads it */
    struct td_selection *out;
    int fallen[FATES];
    const char *example[FATES]; /* the first name that fell so */
    struct td_fault *f;
};

static enum td_code no_memory(struct selector *k)
{
    return td_fault_of(k->f, td_no_memory(&k->f->err, 1, "the variables of a job"), "server_error", NULL);
}

/* By its key or by its name. */
static bool matches(const char *pattern, const struct td_variable_row *v)
{
    return (v->stem != NULL && td_glob(pattern, v->stem)) || (v->name != NULL && td_glob(pattern, v->name));
}

static bool any_matches(const struct td_patterns *p, const struct td_variable_row *v)
{
    for (int i = 0; i < p->n; i++) {
        if (matches(p->pattern[i], v)) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ every pattern matches something */

/* What the model's variables are called, for messages; cut when there are many. */
static void list_names(const struct td_variables *vars, char *text, size_t bytes)
{
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < td_variables_count(vars) && n + 1 < bytes; i++) {
        const struct td_variable_row v = td_variables_row(vars, i);
        const int put = snprintf(text + n, bytes - n, "%s%s", i > 0 ? ", " : "", v.name);
        n += put > 0 ? (size_t)put : 0;
    }
    if (n + 1 >= bytes) {
        memcpy(text + bytes - 3, "..", 3);
    }
}

static enum td_code look_up(struct selector *k, const char *pattern, const char *param)
{
    char names[400];
    for (int i = 0; i < td_variables_count(k->vars); i++) {
        const struct td_variable_row v = td_variables_row(k->vars, i);
        if (matches(pattern, &v)) {
            return TD_OK;
        }
    }
    list_names(k->vars, names, sizeof names);
    return TD_FAULT(k->f, "invalid_value", param, "%s: pattern '%.200s' matches no variable of the model: %s",
                    param, pattern, names[0] != 0 ? names : "it has none");
}

static enum td_code look_up_all(struct selector *k, const struct td_patterns *p, const char *param)
{
    for (int i = 0; i < p->n; i++) {
        TD_TRY(look_up(k, p->pattern[i], param));
    }
    return TD_OK;
}

static enum td_code check_patterns(struct selector *k)
{
    const struct td_job_spec *spec = k->spec;
    char param[80];
    TD_TRY(look_up_all(k, &spec->trainable, "tensord.trainable"));
    TD_TRY(look_up_all(k, &spec->frozen, "tensord.frozen"));
    TD_TRY(spec->lora.on ? look_up_all(k, &spec->lora.targets, "method.lora.targets") : TD_OK);
    for (int i = 0; i < spec->n_penalties; i++) {
        (void)snprintf(param, sizeof param, "tensord.regularizers[%d].pattern", i);
        TD_TRY(look_up(k, spec->penalty[i].pattern, param));
    }
    for (int i = 0; i < spec->n_constraints; i++) {
        (void)snprintf(param, sizeof param, "tensord.constraints[%d].pattern", i);
        TD_TRY(look_up(k, spec->constraint[i].pattern, param));
    }
    for (int i = 0; i < spec->n_optimizers; i++) {
        const struct td_optimizer_spec *o = &spec->optimizer[i];
        (void)snprintf(param, sizeof param, "tensord.optimizers[%d].pattern", i);
        TD_TRY(o->pattern == NULL ? TD_OK : look_up(k, o->pattern, param));
        (void)snprintf(param, sizeof param,
                       o->pattern == NULL ? "tensord.optimizer.exclude_from_weight_decay"
                                          : "tensord.optimizers[%d].exclude_from_weight_decay",
                       i);
        TD_TRY(look_up_all(k, &o->no_decay, param));
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ what the signature reads */

struct scan {
    struct selector *k;
    const struct td_grad_formulas *formulas;
    const struct td_library *lib;
    const char *in[MAX_NESTING]; /* functions around the one that is looked at */
    int depth;
};

static void note_read(struct selector *k, const char *resource)
{
    for (int i = 0; i < td_variables_count(k->vars); i++) {
        const struct td_variable_row v = td_variables_row(k->vars, i);
        for (int part = 0; part < v.n; part++) {
            k->read[i] = k->read[i] || strcmp(v.resources[part], resource) == 0;
        }
    }
}

static void scan_nodes(struct scan *x, struct td_node *const *nodes, int n);

/* Variables that a function makes handles of by itself; those that it is given are its caller's. */
static void scan_function(struct scan *x, const char *name)
{
    const struct td_function *f = td_library_find(x->lib, name);
    for (int i = 0; i < x->depth; i++) {
        f = strcmp(x->in[i], name) == 0 ? NULL : f;
    }
    if (f != NULL && x->depth < MAX_NESTING) {
        x->in[x->depth++] = name;
        scan_nodes(x, f->body.nodes, f->body.n_nodes);
        x->depth--;
    }
}

static void scan_nodes(struct scan *x, struct td_node *const *nodes, int n)
{
    for (int i = 0; i < n; i++) {
        const struct td_node *node = nodes[i];
        const char *resource = node->n_out == 0 || node->op == NULL
                                   ? NULL
                                   : x->formulas->variable((struct td_value){(struct td_node *)node, 0});
        if (resource != NULL) {
            note_read(x->k, resource);
        }
        for (int a = 0; a < node->n_attrs; a++) {
            const struct td_attr *attr = &node->attrs[a];
            for (int f = 0; attr->kind == TD_ATTR_FUNC && f < attr->n; f++) {
                scan_function(x, attr->func[f].name);
            }
        }
    }
}

static enum td_code find_reads(struct selector *k)
{
    struct td_model *engine = td_servable_engine(k->s);
    const struct td_op_def *seed = td_op_of_role(td_model_opts_of(engine)->ops, TD_ROLE_GRADIENT_SEED);
    struct td_callable *f = td_servable_callable(k->s, k->sig);
    struct td_callable_opts part;
    struct td_ir ir;
    struct td_err *err = &k->f->err;
    if (seed == NULL || f == NULL) {
        const enum td_code rc = seed == NULL
                                    ? td_fail(err, TD_UNIMPLEMENTED, "this build's ops have no gradients")
                                    : td_servable_closed(k->s, k->sig, err);
        return td_fault_of(k->f, rc, "invalid_value", "tensord.signature");
    }
    struct td_arena *arena = td_arena_new(GRAPH_BYTES);
    if (arena == NULL) {
        return no_memory(k);
    }
    const struct td_graph *graph = td_callable_graph(f, &part);
    const enum td_code rc =
        td_ir_build(&ir, arena, graph, td_model_library(engine), &part, TD_IR_INLINE, err);
    if (rc == TD_OK) {
        struct scan x = {.k = k, .formulas = seed->op->formulas, .lib = td_model_library(engine)};
        scan_nodes(&x, ir.nodes, ir.n_nodes);
    }
    td_arena_free(arena);
    return td_fault_of(k->f, rc, "invalid_value", "tensord.signature");
}

/* ------------------------------------------------------------------ choosing */

static enum fate fate_of(const struct selector *k, int i, const struct td_variable_row *v)
{
    return !td_dtype_in(v->dtype, TD_SET_FLOATS)                         ? NO_FLOAT
           : !any_matches(&k->spec->trainable, v)                        ? NO_MATCH
           : k->spec->lora.on && !any_matches(&k->spec->lora.targets, v) ? NO_MATCH
           : !v->trainable                                               ? NOT_TRAINABLE
           : !k->read[i]                                                 ? NOT_READ
           : any_matches(&k->spec->frozen, v)                            ? FROZEN
                                                                         : CHOSEN;
}

/* The first optimizer that takes it; -1: none does. */
static int optimizer_of(const struct td_job_spec *spec, const struct td_variable_row *v)
{
    for (int i = 0; i < spec->n_optimizers; i++) {
        if (spec->optimizer[i].pattern == NULL || matches(spec->optimizer[i].pattern, v)) {
            return i;
        }
    }
    return -1;
}

static void add_penalties(const struct td_job_spec *spec, const struct td_variable_row *v,
                          struct td_chosen *c)
{
    for (int i = 0; i < spec->n_penalties; i++) {
        if (matches(spec->penalty[i].pattern, v)) {
            c->l1 += spec->penalty[i].l1;
            c->l2 += spec->penalty[i].l2;
        }
    }
    for (int i = 0; i < spec->n_constraints && c->constraint == NULL; i++) {
        c->constraint = matches(spec->constraint[i].pattern, v) ? &spec->constraint[i] : NULL;
    }
}

static enum td_code copy_texts(struct selector *k, const struct td_variable_row *v, struct td_chosen *c)
{
    struct td_arena *a = k->out->arena;
    const char **resources = td_arena_alloc(a, (size_t)v->n + 1, sizeof *resources);
    c->key = td_arena_strdup(a, v->stem);
    c->full_key = td_arena_strdup(a, v->key);
    c->name = td_arena_strdup(a, v->name);
    for (int i = 0; resources != NULL && i < v->n; i++) {
        resources[i] = td_arena_strdup(a, v->resources[i]);
        resources = resources[i] == NULL ? NULL : resources;
    }
    c->resources = resources;
    return resources == NULL || c->key == NULL || c->full_key == NULL || c->name == NULL ? no_memory(k)
                                                                                         : TD_OK;
}

static enum td_code choose(struct selector *k, const struct td_variable_row *v)
{
    struct td_chosen *c = &k->out->chosen[k->out->n];
    const int o = optimizer_of(k->spec, v);
    if (v->key == NULL) {
        return TD_FAULT(k->f, "invalid_value", "tensord.trainable",
                        "variable '%.200s' has no key in the model's checkpoint that a tuned value could be "
                        "written under: freeze it",
                        v->name);
    }
    if (!td_shape_known(&v->shape)) {
        return TD_FAULT(k->f, "invalid_value", "tensord.trainable",
                        "variable '%.200s' has no value: freeze it", v->name);
    }
    if (o < 0) {
        return TD_FAULT(
            k->f, "invalid_value", "tensord.optimizers",
            "variable '%.200s' (key '%.200s') is trained, but no pattern of `optimizers` takes it "
            "and there is no `optimizer` for the rest: add one, or freeze the variable",
            v->name, v->stem);
    }
    *c = (struct td_chosen){.n_resources = v->n,
                            .axis = v->n > 1 ? v->axis : 0,
                            .dtype = v->dtype,
                            .shape = v->shape,
                            .optimizer = o,
                            .decays = !any_matches(&k->spec->optimizer[o].no_decay, v)};
    add_penalties(k->spec, v, c);
    k->out->n++;
    return copy_texts(k, v, c);
}

/* "2 are frozen (w)" */
static void tell_fallen(const struct selector *k, enum fate fate, const char *what, char *text, size_t bytes)
{
    const size_t n = strlen(text);
    if (k->fallen[fate] > 0) {
        (void)snprintf(text + n, bytes - n, "%s%d %s (%.80s%s)", n > 0 ? ", " : "", k->fallen[fate], what,
                       k->example[fate], k->fallen[fate] > 1 ? ", .." : "");
    }
}

static enum td_code nothing_left(struct selector *k)
{
    char text[700] = "";
    const bool frozen = k->fallen[FROZEN] > 0;
    tell_fallen(k, FROZEN, "frozen", text, sizeof text);
    tell_fallen(k, NOT_TRAINABLE, "not marked trainable in the file", text, sizeof text);
    tell_fallen(k, NOT_READ, "not read by the signature", text, sizeof text);
    tell_fallen(k, NO_MATCH, "matched by no `trainable` pattern, or no target", text, sizeof text);
    tell_fallen(k, NO_FLOAT, "of no floating-point dtype", text, sizeof text);
    return TD_FAULT(k->f, "invalid_value", frozen ? "tensord.frozen" : "tensord.trainable",
                    "no trainable variable of signature '%.100s' is left; of the model's %d variables: %s",
                    k->sig->key, td_variables_count(k->vars), text[0] != 0 ? text : "there are none");
}

static enum td_code choose_all(struct selector *k)
{
    const int n = td_variables_count(k->vars);
    k->out->chosen = td_arena_alloc(k->out->arena, (size_t)n + 1, sizeof *k->out->chosen);
    k->read = td_arena_alloc(k->out->arena, (size_t)n + 1, sizeof *k->read);
    if (k->out->chosen == NULL || k->read == NULL) {
        return no_memory(k);
    }
    memset(k->read, 0, (size_t)n + 1);
    TD_TRY(find_reads(k));
    for (int i = 0; i < n; i++) {
        const struct td_variable_row v = td_variables_row(k->vars, i);
        const enum fate fate = fate_of(k, i, &v);
        if (k->fallen[fate]++ == 0) {
            k->example[fate] = v.name;
        }
        TD_TRY(fate == CHOSEN ? choose(k, &v) : TD_OK);
    }
    return k->out->n > 0 ? TD_OK : nothing_left(k);
}

static enum td_code select_all(struct selector *k)
{
    TD_TRY(td_fault_of(k->f, td_variables_read(k->s, &k->vars, &k->f->err), "invalid_value", "model"));
    TD_TRY(check_patterns(k));
    return choose_all(k);
}

enum td_code td_select_variables(struct td_servable *s, const struct td_signature *sig,
                                 const struct td_job_spec *spec, struct td_selection **out,
                                 struct td_fault *f)
{
    struct selector k = {.s = s, .sig = sig, .spec = spec, .f = f, .out = td_calloc(1, sizeof *k.out)};
    if (k.out == NULL) {
        return no_memory(&k);
    }
    k.out->arena = td_arena_new(SELECTION_BYTES);
    const enum td_code rc = k.out->arena == NULL ? no_memory(&k) : select_all(&k);
    td_variables_free(k.vars);
    if (rc) {
        td_selection_free(k.out);
        return rc;
    }
    *out = k.out;
    return TD_OK;
}

void td_selection_free(struct td_selection *s)
{
    if (s != NULL) {
        td_arena_free(s->arena);
        td_free(s);
    }
}
