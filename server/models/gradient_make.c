/* server/models/gradient_make.c - from names to a program, and a signature around it.
 *
 * Targets are found among the outputs and sources among inputs and variables, a glob being as many sources as
 * it names variables; what is wrong with the ask is told here, before anything is built. Then the part of the
 * graph that the signature's callable runs becomes a program. All lists and names go into an arena of the
 * gradient's own, for the ask is gone when the request is.
 *
 * Does not: keep what was made (gradient.c), differentiate (core/grad).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/mem.h"
#include "core/function/callable_impl.h"
#include "server/base/name_list.h"
#include "server/models/servable_impl.h"
#include "server/models/variables.h"

#define ARENA_BYTES ((size_t)16 << 20)
#define MAX_NAMES 4096 /* of targets, and of sources */

static const char *const KINDS[] = {"gradient", "jacobian", "hessian", "hvp"};
#define N_KINDS ((int)(sizeof KINDS / sizeof KINDS[0]))

enum td_code td_gradient_kind(const char *name, enum td_grad_kind *out, struct td_err *err)
{
    *out = TD_GRADIENT;
    for (int i = 0; name != NULL && name[0] != 0; i++) {
        TD_FAIL_IF(i == N_KINDS, err, INVALID_ARGUMENT,
                   "kind is '%.100s'; it must be gradient, jacobian, hessian or hvp", name);
        if (strcmp(KINDS[i], name) == 0) {
            *out = (enum td_grad_kind)i;
            break;
        }
    }
    return TD_OK;
}

const char *td_gradient_kind_name(enum td_grad_kind kind)
{
    return KINDS[kind];
}

static bool is_variable(const char *source)
{
    return strncmp(source, "var:", 4) == 0;
}

bool td_gradient_ask_by_weights(const struct td_gradient_ask *ask)
{
    for (int i = 0; i < ask->n_wrt; i++) {
        if (is_variable(ask->wrt[i])) {
            return true;
        }
    }
    return false;
}

/* ------------------------------------------------------------------ names */

struct maker {
    struct td_servable *s;
    const struct td_signature *sig;
    struct td_gradient *g;
    struct td_callable_opts part;
    const struct td_variables *variables;
    int cap_sources;
    struct td_err *err;
};

static void *room(struct maker *k, int n, size_t size)
{
    return td_arena_alloc(k->g->arena, (size_t)n + 1, size);
}

static enum td_code no_memory(struct maker *k)
{
    return td_no_memory(k->err, 1, "a gradient");
}

static enum td_code copy_names(struct maker *k, const char *const *names, int n, const char *const **out)
{
    const char **copy = room(k, n, sizeof *copy);
    for (int i = 0; copy != NULL && i < n; i++) {
        copy[i] = td_arena_strdup(k->g->arena, names[i]);
        if (copy[i] == NULL) {
            return no_memory(k);
        }
    }
    *out = copy;
    return copy != NULL ? TD_OK : no_memory(k);
}

static enum td_code copy_ask(struct maker *k, const struct td_gradient_ask *ask)
{
    struct td_gradient_ask *mine = &k->g->ask;
    *mine = *ask;
    TD_TRY(copy_names(k, ask->targets, ask->n_targets, &mine->targets));
    TD_TRY(copy_names(k, ask->wrt, ask->n_wrt, &mine->wrt));
    TD_TRY(copy_names(k, ask->seeded, ask->n_seeded, &mine->seeded));
    return copy_names(k, ask->vectors, ask->n_vectors, &mine->vectors);
}

static struct td_name_list names_of(const struct td_tensor_info *list, int n)
{
    struct td_name_list t = {.n = 0};
    for (int i = 0; i < n; i++) {
        td_name_list_add(&t, "%.100s", list[i].key);
    }
    return t;
}

static struct td_name_list names_in(const char *const *names, int n)
{
    struct td_name_list t = {.n = 0};
    for (int i = 0; i < n; i++) {
        td_name_list_add(&t, "%.100s", names[i]);
    }
    return t;
}

static int find(const struct td_tensor_info *list, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(list[i].key, name) == 0) {
            return i;
        }
    }
    return -1;
}

static int find_name(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

/* ------------------------------------------------------------------ targets */

static enum td_code find_target(struct maker *k, int i, int *out)
{
    const struct td_gradient_ask *ask = &k->g->ask;
    const char *name = ask->targets[i];
    const int at = find(k->sig->out, k->sig->n_out, name);
    TD_FAIL_IF(at < 0, k->err, INVALID_ARGUMENT,
               "target '%.200s' is no output of signature '%.100s'; its outputs are: %s", name, k->sig->key,
               names_of(k->sig->out, k->sig->n_out).s);
    TD_FAIL_IF(find_name(ask->targets, i, name) >= 0, k->err, INVALID_ARGUMENT,
               "target '%.200s' is listed twice", name);
    const enum td_dtype dtype = td_dtype_of(k->part.fetches[at]);
    TD_FAIL_IF(
        !td_dtype_in(dtype, TD_SET_FLOATS | TD_SET_COMPLEX), k->err, INVALID_ARGUMENT,
        "target '%.200s' is %s: only outputs of a floating-point or complex dtype can be differentiated",
        name, td_dtype_name(dtype));
    *out = at;
    return TD_OK;
}

static enum td_code find_targets(struct maker *k)
{
    const struct td_gradient_ask *ask = &k->g->ask;
    int *target = room(k, ask->n_targets, sizeof *target);
    if (target == NULL) {
        return no_memory(k);
    }
    TD_FAIL_IF(ask->n_targets == 0, k->err, INVALID_ARGUMENT,
               "a gradient needs a target, one output of signature '%.100s' or several: %s", k->sig->key,
               names_of(k->sig->out, k->sig->n_out).s);
    TD_FAIL_IF(ask->n_targets > 1 && (ask->kind == TD_JACOBIAN || ask->kind == TD_HESSIAN), k->err,
               INVALID_ARGUMENT, "kind '%s' is of one target, and %d are given: %s", KINDS[ask->kind],
               ask->n_targets, names_in(ask->targets, ask->n_targets).s);
    for (int i = 0; i < ask->n_targets; i++) {
        TD_TRY(find_target(k, i, &target[i]));
    }
    k->g->target = target;
    return TD_OK;
}

static enum td_code check_seeds(struct maker *k)
{
    const struct td_gradient_ask *ask = &k->g->ask;
    const bool takes = ask->kind == TD_GRADIENT || ask->kind == TD_HVP;
    TD_FAIL_IF(ask->n_seeded > 0 && !takes, k->err, INVALID_ARGUMENT,
               "output_gradients are given, but kind '%s' takes none: they belong to gradient and hvp",
               KINDS[ask->kind]);
    for (int i = 0; i < ask->n_seeded; i++) {
        TD_FAIL_IF(find_name(ask->targets, ask->n_targets, ask->seeded[i]) < 0, k->err, INVALID_ARGUMENT,
                   "output_gradients has '%.200s', which is no target; the targets are: %s", ask->seeded[i],
                   names_in(ask->targets, ask->n_targets).s);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ sources */

/* The place of a new source; NULL in *out: there is one of that name. */
static enum td_code new_source(struct maker *k, const char *name, struct td_gradient_source **out)
{
    struct td_gradient *g = k->g;
    *out = NULL;
    for (int i = 0; i < g->n_sources; i++) {
        if (strcmp(g->source[i].name, name) == 0) {
            return TD_OK;
        }
    }
    TD_FAIL_IF(g->n_sources >= MAX_NAMES, k->err, INVALID_ARGUMENT, "wrt names more than %d sources",
               MAX_NAMES);
    if (g->n_sources == k->cap_sources) {
        const int cap = k->cap_sources == 0 ? 32 : 2 * k->cap_sources;
        struct td_gradient_source *grown = room(k, cap, sizeof *grown);
        if (grown == NULL) {
            return no_memory(k);
        }
        if (g->n_sources > 0) {
            memcpy(grown, g->source, (size_t)g->n_sources * sizeof *grown);
        }
        g->source = grown;
        k->cap_sources = cap;
    }
    *out = &g->source[g->n_sources++];
    return TD_OK;
}

static enum td_code add_variable(void *ctx, const struct td_variable_found *v, struct td_err *err)
{
    struct maker *k = ctx;
    struct td_gradient_source *to;
    const size_t bytes = strlen(v->name) + sizeof "var:";
    char *name = td_arena_alloc(k->g->arena, bytes, 1);
    if (name == NULL) {
        return td_no_memory(err, bytes, "a gradient");
    }
    (void)snprintf(name, bytes, "var:%s", v->name);
    TD_TRY(new_source(k, name, &to));
    TD_FAIL_IF(v->n > 1 && k->g->ask.kind != TD_GRADIENT, err, UNIMPLEMENTED,
               "'%.200s' is a variable in %d parts, of which only the gradient is given as a whole: ask for "
               "kind '%s' by the parts, such as 'var:%.200s'",
               name, v->n, KINDS[k->g->ask.kind], v->resources[0]);
    if (to != NULL) {
        *to = (struct td_gradient_source){.name = name,
                                          .feed = -1,
                                          .resources = v->resources,
                                          .n_resources = v->n,
                                          .axis = v->axis,
                                          .dtype = v->dtype};
    }
    return TD_OK;
}

static enum td_code add_input(struct maker *k, const char *name)
{
    const int feed = find(k->sig->in, k->sig->n_in, name);
    struct td_gradient_source *to;
    TD_FAIL_IF(feed < 0, k->err, INVALID_ARGUMENT,
               "source '%.200s' is no input of signature '%.100s'; its inputs are: %s; a variable is written "
               "var:NAME",
               name, k->sig->key, names_of(k->sig->in, k->sig->n_in).s);
    TD_TRY(new_source(k, name, &to));
    if (to != NULL) {
        *to = (struct td_gradient_source){
            .name = name, .feed = feed, .dtype = td_servable_fed_dtype(k->s, k->sig, feed)};
    }
    return TD_OK;
}

/* The table of variables, read when the first one asks for it. */
static enum td_code need_variables(struct maker *k)
{
    struct td_gradients *all = &k->s->gradients;
    enum td_code rc = TD_OK;
    pthread_mutex_lock(&all->naming);
    if (all->variables == NULL) {
        rc = td_variables_read(k->s, &all->variables, k->err);
    }
    k->variables = all->variables;
    pthread_mutex_unlock(&all->naming);
    return rc;
}

static enum td_code find_sources(struct maker *k)
{
    const struct td_gradient_ask *ask = &k->g->ask;
    TD_FAIL_IF(ask->n_wrt == 0, k->err, INVALID_ARGUMENT,
               "wrt is empty: a gradient needs at least one source, an input of signature '%.100s' (%s) or a "
               "variable, written var:NAME",
               k->sig->key, names_of(k->sig->in, k->sig->n_in).s);
    TD_FAIL_IF(ask->n_wrt > MAX_NAMES || ask->n_targets > MAX_NAMES, k->err, INVALID_ARGUMENT,
               "%d sources and %d targets; at most %d of each", ask->n_wrt, ask->n_targets, MAX_NAMES);
    for (int i = 0; i < ask->n_wrt; i++) {
        if (!is_variable(ask->wrt[i])) {
            TD_TRY(add_input(k, ask->wrt[i]));
            continue;
        }
        TD_TRY(need_variables(k));
        TD_TRY(td_variables_find(k->variables, ask->wrt[i] + 4, add_variable, k, k->err));
    }
    return TD_OK;
}

static enum td_code check_vectors(struct maker *k)
{
    const struct td_gradient_ask *ask = &k->g->ask;
    const struct td_gradient *g = k->g;
    TD_FAIL_IF(ask->n_vectors > 0 && ask->kind != TD_HVP, k->err, INVALID_ARGUMENT,
               "vector is given, but kind '%s' takes none: it belongs to hvp", KINDS[ask->kind]);
    for (int i = 0; ask->kind == TD_HVP && i < g->n_sources; i++) {
        TD_FAIL_IF(find_name(ask->vectors, ask->n_vectors, g->source[i].name) < 0, k->err, INVALID_ARGUMENT,
                   "kind 'hvp' needs a vector for each source, and vector has none for '%.200s'",
                   g->source[i].name);
    }
    for (int i = 0; i < ask->n_vectors; i++) {
        int at = 0;
        while (at < g->n_sources && strcmp(g->source[at].name, ask->vectors[i]) != 0) {
            at++;
        }
        TD_FAIL_IF(at == g->n_sources, k->err, INVALID_ARGUMENT, "vector has '%.200s', which is no source",
                   ask->vectors[i]);
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ zeros, as a tape has them
 *
 * TensorFlow's tape sees a call of a function as one op, whose gradient takes zeros for those outputs that
 * nothing is differentiated by. So a source that leads to another output of the call than to the target's has
 * zeros, and only one that leads to none of them has no gradient. Which these are a program says that is made
 * for it, of all outputs of the call.
 */

/* The call that gives the value, seen through identities; NULL: none does. */
static const struct td_node *call_behind(struct td_value v)
{
    while (strcmp(v.node->op_name, "Identity") == 0 && v.node->n_in > 0) {
        v = v.node->in[0];
    }
    const char *op = v.node->op_name;
    const bool call = strcmp(op, "PartitionedCall") == 0 || strcmp(op, "StatefulPartitionedCall") == 0;
    return call ? v.node : NULL;
}

/* Outputs that can be differentiated, of the calls that targets are of; targets are among them. */
static int list_companions(struct maker *k, int *output, const char **name)
{
    const struct td_gradient *g = k->g;
    int n = 0;
    for (int i = 0; i < k->sig->n_out; i++) {
        const struct td_node *call = call_behind(k->part.fetches[i]);
        bool same = false;
        for (int t = 0; t < g->ask.n_targets; t++) {
            same = same || (call != NULL && call == call_behind(k->part.fetches[g->target[t]]));
        }
        if (same && td_dtype_in(td_dtype_of(k->part.fetches[i]), TD_SET_FLOATS | TD_SET_COMPLEX)) {
            output[n] = i;
            name[n++] = k->sig->out[i].key;
        }
    }
    return n;
}

/* source: those of the gradient, as its program has them. */
static enum td_code find_zeros(struct maker *k, const struct td_grad_source *source)
{
    struct td_gradient *g = k->g;
    int *output = room(k, k->sig->n_out, sizeof *output), *of = room(k, g->n_sources, sizeof *of);
    const char **name = room(k, k->sig->n_out, sizeof *name);
    struct td_grad_source *open = room(k, g->n_sources, sizeof *open);
    int n_open = 0;
    if (output == NULL || of == NULL || name == NULL || open == NULL) {
        return no_memory(k);
    }
    for (int i = 0; i < g->n_sources; i++) {
        if (td_program_fetch(g->program, i) < 0 &&
            td_dtype_in(g->source[i].dtype, TD_SET_FLOATS | TD_SET_COMPLEX)) {
            of[n_open] = i;
            open[n_open++] = source[i];
        }
    }
    const int n = n_open == 0 ? 0 : list_companions(k, output, name);
    if (n <= g->ask.n_targets) {
        return TD_OK;
    }
    const struct td_program_opts o = {.name = g->title,
                                      .part = k->part,
                                      .kind = TD_GRADIENT,
                                      .target = output,
                                      .target_name = name,
                                      .n_targets = n,
                                      .source = open,
                                      .n_sources = n_open};
    struct td_program *probe = NULL;
    struct td_err ignored = {0}; /* another output may have no gradient: nobody asked for it */
    if (td_program_new(td_servable_engine(k->s), &o, &probe, &ignored) == TD_OK) {
        for (int i = 0; i < n_open; i++) {
            g->source[of[i]].zero = td_program_fetch(probe, i) >= 0;
        }
    }
    td_program_unref(probe);
    return TD_OK;
}

/* ------------------------------------------------------------------ the program */

static enum td_code make_program(struct maker *k)
{
    struct td_gradient *g = k->g;
    struct td_grad_source *source = room(k, g->n_sources, sizeof *source);
    bool *seeded = room(k, g->ask.n_targets, sizeof *seeded);
    if (source == NULL || seeded == NULL) {
        return no_memory(k);
    }
    for (int i = 0; i < g->n_sources; i++) {
        const struct td_gradient_source *from = &g->source[i];
        source[i] = (struct td_grad_source){.feed = from->feed,
                                            .variables = from->resources,
                                            .n_variables = from->n_resources,
                                            .axis = from->axis,
                                            .dtype = from->dtype};
    }
    for (int i = 0; i < g->ask.n_targets; i++) {
        seeded[i] = find_name(g->ask.seeded, g->ask.n_seeded, g->ask.targets[i]) >= 0;
    }
    const struct td_program_opts o = {.name = g->title,
                                      .part = k->part,
                                      .kind = g->ask.kind,
                                      .target = g->target,
                                      .target_name = g->ask.targets,
                                      .n_targets = g->ask.n_targets,
                                      .seeded = seeded,
                                      .source = source,
                                      .n_sources = g->n_sources,
                                      .recompute = g->ask.recompute};
    TD_TRY(td_program_new(td_servable_engine(k->s), &o, &g->program, k->err));
    return find_zeros(k, source);
}

/* ------------------------------------------------------------------ the signature */

static const char *prefixed(struct maker *k, const char *prefix, const char *name)
{
    const size_t bytes = strlen(prefix) + strlen(name) + 1;
    char *text = td_arena_alloc(k->g->arena, bytes, 1);
    if (text != NULL) {
        (void)snprintf(text, bytes, "%s%s", prefix, name);
    }
    return text;
}

/* One more input, behind those there are. */
static enum td_code add_further(struct maker *k, const char *prefix, const char *name, enum td_dtype dtype,
                                const struct td_shape *shape)
{
    struct td_signature *sig = &k->g->derived.sig;
    const char *key = prefixed(k, prefix, name);
    if (key == NULL) {
        return no_memory(k);
    }
    TD_FAIL_IF(find(sig->in, sig->n_in, key) >= 0, k->err, INVALID_ARGUMENT,
               "signature '%.100s' has an input called '%.200s', as the one is that takes what is given for "
               "'%.200s'",
               k->sig->key, key, name);
    k->g->derived.entry.fed[sig->n_in] = dtype;
    sig->in[sig->n_in++] = (struct td_tensor_info){.key = key, .tensor = "", .dtype = dtype, .shape = *shape};
    return TD_OK;
}

static enum td_code fill_inputs(struct maker *k)
{
    struct td_gradient *g = k->g;
    struct td_signature *sig = &g->derived.sig;
    const struct td_shape unknown = td_shape_unknown();
    const int most = k->sig->n_in + g->ask.n_targets + g->n_sources;
    sig->in = room(k, most, sizeof *sig->in);
    sig->defaults = room(k, most, sizeof *sig->defaults);
    g->derived.entry.fed = td_calloc((size_t)most + 1, sizeof *g->derived.entry.fed);
    if (sig->in == NULL || sig->defaults == NULL || g->derived.entry.fed == NULL) {
        return no_memory(k);
    }
    for (int i = 0; i < k->sig->n_in; i++) {
        sig->in[i] = k->sig->in[i];
        sig->defaults[i] = k->sig->defaults[i];
        g->derived.entry.fed[i] = td_servable_fed_dtype(k->s, k->sig, i);
    }
    sig->n_in = k->sig->n_in;
    for (int i = 0; i < g->ask.n_targets; i++) {
        const int at = g->target[i];
        if (find_name(g->ask.seeded, g->ask.n_seeded, g->ask.targets[i]) >= 0) {
            TD_TRY(add_further(k, "output_gradients/", g->ask.targets[i], td_dtype_of(k->part.fetches[at]),
                               &k->sig->out[at].shape));
        }
    }
    for (int i = 0; g->ask.kind == TD_HVP && i < g->n_sources; i++) {
        const struct td_gradient_source *from = &g->source[i];
        TD_TRY(add_further(k, "vector/", from->name, from->dtype,
                           from->feed < 0 ? &unknown : &k->sig->in[from->feed].shape));
    }
    return TD_OK;
}

static enum td_code fill_outputs(struct maker *k)
{
    struct td_gradient *g = k->g;
    struct td_signature *sig = &g->derived.sig;
    sig->out = room(k, k->sig->n_out + g->n_sources, sizeof *sig->out);
    if (sig->out == NULL) {
        return no_memory(k);
    }
    for (int i = 0; i < k->sig->n_out; i++) {
        sig->out[i] = k->sig->out[i];
    }
    sig->n_out = k->sig->n_out;
    for (int i = 0; i < g->n_sources; i++) {
        struct td_gradient_source *from = &g->source[i];
        const bool shaped = from->feed >= 0 && (g->ask.kind == TD_GRADIENT || g->ask.kind == TD_HVP);
        const char *key = prefixed(k, "gradient/", from->name);
        from->output = td_program_fetch(g->program, i);
        if (key == NULL) {
            return no_memory(k);
        }
        if (from->output >= 0) { /* the program's fetches are numbered as they come */
            sig->out[from->output] =
                (struct td_tensor_info){.key = key,
                                        .tensor = "",
                                        .dtype = from->dtype,
                                        .shape = shaped ? k->sig->in[from->feed].shape : td_shape_unknown()};
            sig->n_out++;
        }
    }
    return TD_OK;
}

static enum td_code fill(struct maker *k, const struct td_gradient_ask *ask)
{
    struct td_gradient *g = k->g;
    char title[1600];
    td_callable_graph(td_servable_callable(k->s, k->sig), &k->part);
    TD_TRY(copy_ask(k, ask));
    TD_TRY(find_targets(k));
    TD_TRY(check_seeds(k));
    TD_TRY(find_sources(k));
    TD_TRY(check_vectors(k));
    (void)snprintf(title, sizeof title, "%.100s: %s of %s by %s", k->sig->key, KINDS[ask->kind],
                   names_in(ask->targets, ask->n_targets).s, names_in(ask->wrt, ask->n_wrt).s);
    g->title = td_arena_strdup(g->arena, title);
    if (g->title == NULL) {
        return no_memory(k);
    }
    TD_TRY(make_program(k));
    g->derived.sig = (struct td_signature){.key = k->sig->key, .method = "tensorflow/serving/predict"};
    g->derived.entry.callable = td_program_callable(g->program);
    g->derived.entry.latency = td_servable_latency(k->s, k->sig);
    TD_TRY(fill_inputs(k));
    return fill_outputs(k);
}

enum td_code td_gradient_make(struct td_servable *s, const struct td_signature *sig,
                              const struct td_gradient_ask *ask, struct td_gradient **out, struct td_err *err)
{
    struct td_gradient *g = td_calloc(1, sizeof *g);
    if (g == NULL) {
        return td_no_memory(err, sizeof *g, "a gradient");
    }
    atomic_init(&g->refs, 1);
    g->of = sig;
    g->derived.gradient = g;
    g->arena = td_arena_new(ARENA_BYTES);
    struct maker k = {.s = s, .sig = sig, .g = g, .err = err};
    enum td_code rc = g->arena == NULL ? no_memory(&k) : td_servable_closed(s, sig, err);
    rc = rc ? rc : fill(&k, ask);
    if (rc) {
        td_gradient_unref(g);
        return rc;
    }
    *out = g;
    return TD_OK;
}
