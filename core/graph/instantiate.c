/* core/graph/instantiate.c - makes an instance of a template for each set of values that it is called with.
 *
 * Works through a list: the nodes of the graph and of every plain function, then those of each instance as it
 * is made. An instance is known by the text of its values, which is also its name; a function that calls
 * itself with the same values finds itself, one that calls itself with ever new ones meets MAX_INSTANCES.
 * Texts are quoted, so that two sets of values never have the same one; instances are found by them in an
 * open-addressed table twice as large as their number may be.
 *
 * An argument that stands for several tensors (N*T, a list of types) becomes one argument for each, "x[0]",
 * "x[1]"; inputs "x:1" in the body are written anew, and "x" alone means all of them. Attributes that are
 * placeholders are replaced by the values; functions named in attributes are copied, since they will be named
 * anew.
 *
 * Instances are made in the library's arena. Does not: resolve the bodies (core/graph/resolve.c does,
 * afterwards), check dtypes of edges, remove the templates.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/instantiate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/mem.h"

enum {
    MAX_INSTANCES = 4096,
    SLOTS = 2 * MAX_INSTANCES,
    NAME_BYTES = 1000,
    MAX_TENSORS = 1 << 16,
    MAX_LISTS = 64
};

struct maker {
    struct td_library *lib;
    struct td_library templates;  /* the functions as they were: what names are looked up in */
    struct td_function **by_name; /* instances, open-addressed */
    int n_instances;
    const char *arg_op; /* the op of a function's arguments */
    struct td_err *err;
};

/* One instance being made. */
struct binding {
    struct maker *m;
    const struct td_function *of;
    struct td_function *to;
    const struct td_attr *values;              /* in the order of of->def.attrs */
    const struct td_arg_def *lists[MAX_LISTS]; /* arguments that stand for several tensors */
    int lengths[MAX_LISTS];
    int n_lists;
};

static enum td_code short_of_memory(struct td_err *err)
{
    return td_no_memory(err, 0, "instances of functions");
}

/* ------------------------------------------------------------------ names */

struct text {
    char s[NAME_BYTES];
    size_t n;
    bool full;
};

static void put(struct text *t, const char *s, size_t n)
{
    t->full |= n >= sizeof t->s - t->n;
    if (!t->full) {
        memcpy(t->s + t->n, s, n);
        t->n += n;
        t->s[t->n] = 0;
    }
}

static void put_words(struct text *t, const char *s)
{
    put(t, s, strlen(s));
}

/* Quoted, so that no two lists of values have the same text. */
static void put_string(struct text *t, struct td_bytes s)
{
    t->full |= memchr(s.p, 0, s.len) != NULL;
    put_words(t, "'");
    for (size_t i = 0; i < s.len && !t->full; i++) {
        put(t, "\\", s.p[i] == '\'' || s.p[i] == '\\');
        put(t, s.p + i, 1);
    }
    put_words(t, "'");
}

static void put_attrs(struct text *t, const struct td_attr *attrs, int n);

static void put_element(struct text *t, const struct td_attr *a, int i)
{
    char number[40] = "";
    switch (a->kind) {
    case TD_ATTR_STRING:
        put_string(t, a->str[i]);
        break;
    case TD_ATTR_INT:
        snprintf(number, sizeof number, "%lld", (long long)a->i[i]);
        break;
    case TD_ATTR_FLOAT:
        snprintf(number, sizeof number, "%.9g", (double)a->f[i]);
        break;
    case TD_ATTR_BOOL:
        put_words(t, a->b[i] ? "true" : "false");
        break;
    case TD_ATTR_TYPE:
        put_words(t, td_dtype_name(a->type[i]));
        break;
    case TD_ATTR_SHAPE:
        put_words(t, TD_SHAPE_STR(&a->shape[i]));
        break;
    case TD_ATTR_FUNC:
        put_words(t, a->func[i].name);
        put_attrs(t, a->func[i].attrs, a->func[i].n_attrs);
        break;
    default:
        t->full = true; /* tensors: nobody gives one to a function */
    }
    put_words(t, number);
}

/* "[T=float, N=2]"; as deep as the file's reader lets functions nest in attributes. */
static void put_attrs(struct text *t, const struct td_attr *attrs, int n)
{
    for (int k = 0; k < n; k++) {
        put_words(t, k > 0 ? ", " : "[");
        put_words(t, attrs[k].name);
        put_words(t, attrs[k].is_list ? "={" : "=");
        for (int i = 0; i < attrs[k].n && !t->full; i++) {
            put_words(t, i > 0 ? "," : "");
            put_element(t, &attrs[k], i);
        }
        put_words(t, attrs[k].is_list ? "}" : "");
    }
    put_words(t, n > 0 ? "]" : "");
}

static struct td_function **slot_of(const struct maker *m, const char *name)
{
    size_t i = td_hash_bytes(name, strlen(name)) % SLOTS;
    while (m->by_name[i] != NULL && strcmp(m->by_name[i]->name, name) != 0) {
        i = (i + 1) % SLOTS;
    }
    return &m->by_name[i];
}

/* ------------------------------------------------------------------ values */

static const struct td_attr *value_of(const struct binding *b, const char *attr)
{
    for (int i = 0; attr != NULL && i < b->of->def.n_attrs; i++) {
        if (strcmp(b->of->def.attrs[i].name, attr) == 0) {
            return &b->values[i];
        }
    }
    return NULL;
}

/* The values of f's attributes among those of a caller, and defaults; NULL *out when one is left out. */
static enum td_code bind_values(const struct maker *m, const struct td_function *f,
                                const struct td_attr *given, int n_given, struct td_attr **out)
{
    struct td_attr *values = td_arena_alloc(m->lib->arena, (size_t)f->def.n_attrs + 1, sizeof *values);
    if (values == NULL) {
        return short_of_memory(m->err);
    }
    *out = NULL;
    for (int i = 0; i < f->def.n_attrs; i++) {
        const struct td_attr_def *d = &f->def.attrs[i];
        const struct td_attr *a = td_attr_find(given, n_given, d->name);
        if ((a == NULL && !d->has_default) || (a != NULL && a->kind == TD_ATTR_PLACEHOLDER)) {
            return TD_OK;
        }
        values[i] = a != NULL ? *a : d->value;
        values[i].name = d->name;
        bool empty = values[i].is_list && values[i].n == 0;
        TD_FAIL_IF(
            values[i].is_list != d->is_list || (values[i].kind != d->kind && !empty), m->err,
            INVALID_ARGUMENT,
            "function '%s': the value of its attribute '%s' is of another type than its signature says",
            f->name, d->name);
    }
    *out = values;
    return TD_OK;
}

/* ------------------------------------------------------------------ arguments and results */

/* How many tensors an argument stands for. */
static enum td_code width_of(const struct binding *b, const struct td_arg_def *a, int *out)
{
    const struct td_attr *v = value_of(b, a->number_attr != NULL ? a->number_attr : a->list_attr);
    bool number = a->number_attr != NULL,
         wrong = v == NULL || v->kind != (number ? TD_ATTR_INT : TD_ATTR_TYPE);
    bool empty = v != NULL && v->is_list && v->n == 0 && !number;
    *out = 1;
    if (!number && a->list_attr == NULL) {
        return TD_OK;
    }
    TD_FAIL_IF(wrong && !empty, b->m->err, INVALID_ARGUMENT,
               "function '%s': argument '%s' is as long as '%s', which is no such attribute of it",
               b->of->name, a->name, number ? a->number_attr : a->list_attr);
    int64_t n = number ? v->i[0] : v->n;
    TD_FAIL_IF(n < 0 || n > MAX_TENSORS, b->m->err, INVALID_ARGUMENT,
               "function '%s': argument '%s' stands for %lld tensors, must be in [0, %d]", b->of->name,
               a->name, (long long)n, MAX_TENSORS);
    *out = (int)n;
    return TD_OK;
}

static bool is_list(const struct td_arg_def *a)
{
    return a->number_attr != NULL || a->list_attr != NULL;
}

static enum td_dtype type_of(const struct binding *b, const struct td_arg_def *a, int i)
{
    const struct td_attr *v = value_of(b, a->list_attr != NULL ? a->list_attr : a->type_attr);
    if (a->list_attr == NULL && a->type_attr == NULL) {
        return a->type;
    }
    i = a->list_attr != NULL ? i : 0;
    return v != NULL && v->kind == TD_ATTR_TYPE && i < v->n ? v->type[i] : TD_DTYPE_NONE;
}

static const char *element_name(struct td_arena *arena, const char *name, int i)
{
    size_t bytes = strlen(name) + 16;
    char *s = td_arena_alloc(arena, bytes, 1);
    if (s != NULL) {
        snprintf(s, bytes, "%s[%d]", name, i);
    }
    return s;
}

/* Plain arguments in place of those of the template. */
static enum td_code expand_args(struct binding *b, const struct td_arg_def *from, int n,
                                struct td_arg_def **out, int *n_out)
{
    struct td_arena *arena = b->m->lib->arena;
    int total = 0, at = 0, width;
    for (int i = 0; i < n; i++) {
        TD_TRY(width_of(b, &from[i], &width));
        total += width;
        TD_FAIL_IF(total > MAX_TENSORS, b->m->err, INVALID_ARGUMENT, "function '%s' has more than %d tensors",
                   b->of->name, MAX_TENSORS);
    }
    *out = td_arena_alloc(arena, (size_t)total + 1, sizeof **out);
    if (*out == NULL) {
        return short_of_memory(b->m->err);
    }
    for (int i = 0; i < n; i++) {
        TD_TRY(width_of(b, &from[i], &width));
        for (int k = 0; k < width; k++, at++) {
            const char *name = is_list(&from[i]) ? element_name(arena, from[i].name, k) : from[i].name;
            (*out)[at] =
                (struct td_arg_def){.name = name, .type = type_of(b, &from[i], k), .is_ref = from[i].is_ref};
            if (name == NULL) {
                return short_of_memory(b->m->err);
            }
        }
    }
    *n_out = total;
    return TD_OK;
}

static enum td_code note_lists(struct binding *b)
{
    const struct td_op_def *d = &b->of->def;
    for (int i = 0; i < d->n_in; i++) {
        if (!is_list(&d->in[i])) {
            continue;
        }
        TD_FAIL_IF(b->n_lists == MAX_LISTS, b->m->err, INVALID_ARGUMENT,
                   "function '%s' has more than %d lists of arguments", b->of->name, MAX_LISTS);
        TD_TRY(width_of(b, &d->in[i], &b->lengths[b->n_lists]));
        b->lists[b->n_lists++] = &d->in[i];
    }
    return TD_OK;
}

/* ------------------------------------------------------------------ the body */

/* The list argument that text begins with, by number; *index: which element, -1 for all. -1 when it is none.
 */
static int list_named(const struct binding *b, const char *text, int *index)
{
    size_t n = strcspn(text, ":");
    for (int i = 0; i < b->n_lists; i++) {
        if (strlen(b->lists[i]->name) == n && memcmp(b->lists[i]->name, text, n) == 0) {
            char *end = NULL;
            long at = text[n] == ':' ? strtol(text + n + 1, &end, 10) : -1;
            bool digits = text[n] == 0 || (end != text + n + 1 && *end == 0 && at >= 0);
            *index = (int)(at < MAX_TENSORS ? at : MAX_TENSORS);
            return digits ? i : -1;
        }
    }
    return -1;
}

/* Writes input texts anew into out (NULL: counts only). Returns their number, -1 without memory. */
static int write_inputs(const struct binding *b, const char *const *texts, int n, const char **out)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        int index, list = list_named(b, texts[i], &index);
        int from = index < 0 ? 0 : index, to = list < 0 ? 0 : index < 0 ? b->lengths[list] : index + 1;
        if (list < 0 && out != NULL) {
            out[count] = texts[i];
        }
        count += list < 0;
        for (int k = from; list >= 0 && k < to; k++, count++) {
            const char *name = out == NULL ? "" : element_name(b->m->lib->arena, b->lists[list]->name, k);
            if (name == NULL || count >= MAX_TENSORS) {
                return -1;
            }
            if (out != NULL) {
                out[count] = name;
            }
        }
    }
    return count;
}

static enum td_code rewrite_inputs(const struct binding *b, const char **texts, int n, const char ***out,
                                   int *n_out)
{
    int count = b->n_lists == 0 ? n : write_inputs(b, texts, n, NULL);
    *out = texts;
    *n_out = n;
    if (b->n_lists == 0) {
        return TD_OK;
    }
    *out = count < 0 ? NULL : td_arena_alloc(b->m->lib->arena, (size_t)count + 1, sizeof **out);
    *n_out = *out == NULL ? -1 : write_inputs(b, texts, n, *out);
    return *n_out < 0 ? short_of_memory(b->m->err) : TD_OK;
}

static enum td_code substitute(const struct binding *b, const struct td_node *n, const struct td_attr *from,
                               int count, struct td_attr **out);

/* A value of its own of the functions that an attribute names, since they will be named anew. */
static enum td_code copy_funcs(const struct binding *b, const struct td_node *n, struct td_attr *a)
{
    struct td_func_ref *own = td_arena_alloc(b->m->lib->arena, (size_t)a->n + 1, sizeof *own);
    if (own == NULL) {
        return short_of_memory(b->m->err);
    }
    for (int i = 0; i < a->n; i++) {
        own[i] = a->func[i];
        TD_TRY(substitute(b, n, a->func[i].attrs, a->func[i].n_attrs, &own[i].attrs));
    }
    a->func = own;
    return TD_OK;
}

static enum td_code substitute(const struct binding *b, const struct td_node *n, const struct td_attr *from,
                               int count, struct td_attr **out)
{
    *out = td_arena_alloc(b->m->lib->arena, (size_t)count + 1, sizeof **out);
    if (*out == NULL) {
        return short_of_memory(b->m->err);
    }
    for (int i = 0; i < count; i++) {
        struct td_attr *a = &(*out)[i];
        *a = from[i];
        if (a->kind == TD_ATTR_PLACEHOLDER) {
            const struct td_attr *v = value_of(b, a->str[0].p);
            TD_FAIL_IF(v == NULL, b->m->err, INVALID_ARGUMENT,
                       "%s: attribute '%s' stands for '%.60s', which is no attribute of function '%s'",
                       TD_NODE_STR(n), a->name, a->str[0].p, b->of->name);
            *a = *v;
            a->name = from[i].name;
        }
        if (a->kind == TD_ATTR_FUNC) {
            TD_TRY(copy_funcs(b, n, a));
        }
    }
    return TD_OK;
}

static enum td_code copy_body(const struct binding *b)
{
    for (int i = 0; i < b->of->body.n_nodes; i++) {
        const struct td_node *from = b->of->body.nodes[i];
        struct td_node *n;
        TD_TRY(td_graph_add(&b->to->body, from->name, from->op_name, from->device, &n, b->m->err));
        TD_TRY(rewrite_inputs(b, from->inputs, from->n_inputs, &n->inputs, &n->n_inputs));
        TD_TRY(substitute(b, from, from->attrs, from->n_attrs, &n->attrs));
        n->n_attrs = from->n_attrs;
    }
    return TD_OK;
}

/* The texts of one result of the template, "node:out" for all tensors of an output among them. */
static enum td_code add_result(const struct binding *b, int i, int *at)
{
    struct td_arena *arena = b->m->lib->arena;
    const char *text = b->of->ret_texts[i], **list;
    int width, n;
    TD_TRY(width_of(b, &b->of->def.out[i], &width));
    TD_TRY(rewrite_inputs(b, &text, 1, &list, &n));
    const char *colon = strchr(text, ':');
    bool whole = is_list(&b->of->def.out[i]) && list[0] == text && colon != NULL &&
                 strchr(colon + 1, ':') == NULL && strspn(colon + 1, "0123456789") != strlen(colon + 1);
    TD_FAIL_IF(!whole && n != width, b->m->err, INVALID_ARGUMENT,
               "function '%s': result '%s' stands for %d tensors, '%.60s' for %d", b->to->name,
               b->of->def.out[i].name, width, text, n);
    for (int k = 0; k < width; k++) {
        char *element = whole ? td_arena_alloc(arena, strlen(text) + 16, 1) : NULL;
        if (whole && element == NULL) {
            return short_of_memory(b->m->err);
        }
        if (whole) {
            snprintf(element, strlen(text) + 16, "%s:%d", text, k);
        }
        b->to->ret_texts[(*at)++] = whole ? element : list[k];
    }
    return TD_OK;
}

static enum td_code add_results(const struct binding *b)
{
    struct td_function *f = b->to;
    int at = 0;
    f->n_rets = f->def.n_out;
    f->ret_texts = td_arena_alloc(b->m->lib->arena, (size_t)f->n_rets + 1, sizeof f->ret_texts[0]);
    if (f->ret_texts == NULL) {
        return short_of_memory(b->m->err);
    }
    for (int i = 0; i < b->of->def.n_out; i++) {
        TD_TRY(add_result(b, i, &at));
    }
    f->control_texts = b->of->control_texts;
    f->n_control_rets = b->of->n_control_rets;
    return TD_OK;
}

static enum td_code fill(struct binding *b)
{
    struct td_op_def *def = &b->to->def;
    TD_TRY(note_lists(b));
    TD_TRY(expand_args(b, b->of->def.in, b->of->def.n_in, &def->in, &def->n_in));
    TD_TRY(expand_args(b, b->of->def.out, b->of->def.n_out, &def->out, &def->n_out));
    TD_TRY(td_function_add_args(b->m->lib->arena, b->to, b->m->arg_op, b->m->err));
    TD_TRY(copy_body(b));
    return add_results(b);
}

/* ------------------------------------------------------------------ calls */

/* The instance of f for these values; NULL when one is left out. */
static enum td_code instance_of(struct maker *m, const struct td_function *f, const struct td_attr *given,
                                int n_given, struct td_function **out)
{
    struct td_attr *values;
    struct text name = {.n = 0};
    *out = NULL;
    TD_TRY(bind_values(m, f, given, n_given, &values));
    if (values == NULL) {
        return TD_OK;
    }
    put_words(&name, f->name);
    put_attrs(&name, values, f->def.n_attrs);
    TD_FAIL_IF(name.full, m->err, INVALID_ARGUMENT,
               "function '%s' is called with a tensor as an attribute, or with attributes of more than %d "
               "characters",
               f->name, NAME_BYTES);
    struct td_function **slot = slot_of(m, name.s);
    if (*slot != NULL) {
        *out = *slot;
        return TD_OK;
    }
    TD_FAIL_IF(
        m->n_instances == MAX_INSTANCES, m->err, RESOURCE_EXHAUSTED,
        "the functions of the model are called with more than %d sets of attributes; the last was %.200s",
        MAX_INSTANCES, name.s);
    const char *kept = td_arena_strdup(m->lib->arena, name.s);
    if (kept == NULL) {
        return short_of_memory(m->err);
    }
    TD_TRY(td_library_add(m->lib, kept, out, m->err));
    *slot = *out;
    m->n_instances++;
    struct binding b = {.m = m, .of = f, .to = *out, .values = values};
    return fill(&b) ? td_err_wrap(m->err, "function '%s'", f->name) : TD_OK;
}

/* Lets n name instances where it calls templates. */
static enum td_code bind_node(struct maker *m, struct td_node *n)
{
    struct td_function *inst;
    const struct td_function *f = td_library_find(&m->templates, n->op_name);
    if (f != NULL && f->is_template) {
        TD_TRY(instance_of(m, f, n->attrs, n->n_attrs, &inst));
        n->op_name = inst == NULL ? n->op_name : inst->name;
    }
    for (int a = 0; a < n->n_attrs; a++) {
        for (int i = 0; n->attrs[a].kind == TD_ATTR_FUNC && i < n->attrs[a].n; i++) {
            struct td_func_ref *ref = &n->attrs[a].func[i];
            f = td_library_find(&m->templates, ref->name);
            if (f != NULL && f->is_template) {
                TD_TRY(instance_of(m, f, ref->attrs, ref->n_attrs, &inst));
                ref->name = inst == NULL ? ref->name : inst->name;
            }
        }
    }
    return TD_OK;
}

static enum td_code bind_graph(struct maker *m, struct td_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        TD_TRY(bind_node(m, g->nodes[i]));
    }
    return TD_OK;
}

enum td_code td_functions_instantiate(struct td_graph *g, struct td_library *lib,
                                      const struct td_op_table *ops, bool *any, struct td_err *err)
{
    bool templates = false;
    *any = false;
    for (int i = 0; !templates && i < lib->n_functions; i++) {
        templates = lib->functions[i]->is_template;
    }
    if (!templates) {
        return TD_OK;
    }
    const struct td_op_def *arg = td_op_of_role(ops, TD_ROLE_ARG);
    TD_FAIL_IF(arg == NULL, err, INTERNAL, "no op has the role of a function's argument");
    struct maker m = {.lib = lib,
                      .templates = *lib,
                      .arg_op = arg->name,
                      .err = err,
                      .by_name = td_calloc(SLOTS, sizeof *m.by_name)};
    m.templates.functions = td_calloc((size_t)lib->n_functions + 1, sizeof *lib->functions);
    enum td_code rc = m.by_name == NULL || m.templates.functions == NULL ? short_of_memory(err) : TD_OK;
    if (rc == TD_OK) {
        memcpy(m.templates.functions, lib->functions, (size_t)lib->n_functions * sizeof *lib->functions);
        rc = bind_graph(&m, g);
    }
    for (int i = 0; rc == TD_OK && i < lib->n_functions; i++) {
        rc = lib->functions[i]->is_template ? TD_OK : bind_graph(&m, &lib->functions[i]->body);
    }
    *any = m.n_instances > 0;
    td_free(m.by_name);
    td_free(m.templates.functions);
    return rc;
}
