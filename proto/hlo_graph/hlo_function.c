/* proto/hlo_graph/hlo_function.c - opens a function of the library, has the rules fill it, and closes it.
 *
 * The frames of one function of the module share the table of its values. A region's frame replaces the
 * entries of what it captured by its own arguments while it is made, and puts them back.
 *
 * Depth is bounded (TD_HLO_MAX_DEPTH): of regions in regions and of calls, which must not be circular.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_function.h"

#include <stdio.h>

#include "proto/hlo_graph/hlo_rules.h"

/* ------------------------------------------------------------------ a function */

static void open_function(struct td_hlo_frame *f, const char *name)
{
    struct td_arena *a = f->w->lib->arena;
    f->to = td_arena_alloc(a, 1, sizeof *f->to);
    if (f->to == NULL) { /* the emitter around stays whole */
        f->e =
            (struct td_emitter){.err = f->w->err, .rc = td_no_memory(f->w->err, sizeof *f->to, "a function")};
        return;
    }
    f->to->name = f->to->def.name = name;
    td_graph_init(&f->to->body, a, name);
    f->e = td_graph_emitter(&f->to->body, name, f->w->ops, f->w->err);
}

static struct td_arg_def *new_args(struct td_hlo_frame *f, int n)
{
    struct td_arg_def *args = f->e.rc ? NULL : td_arena_alloc(f->w->lib->arena, (size_t)n + 1, sizeof *args);
    if (args == NULL && f->e.rc == TD_OK) {
        f->e.rc = td_no_memory(f->e.err, (size_t)n * sizeof *args, "a function");
    }
    return args;
}

static const char *numbered(struct td_hlo_frame *f, const char *what, int i)
{
    char text[32];
    snprintf(text, sizeof text, "%s%d", what, i);
    const char *name = td_arena_strdup(f->w->lib->arena, text);
    if (name == NULL && f->e.rc == TD_OK) {
        f->e.rc = td_no_memory(f->e.err, sizeof text, "a function");
    }
    return name;
}

/* Argument i stands for v. */
static void add_arg(struct td_hlo_frame *f, int i, const struct td_hlo_value *v)
{
    const struct td_hlo_type *t = &v->type;
    if (t->kind != TD_HLO_TENSOR || t->unsupported != NULL || t->shape.rank < 0) {
        td_hlo_fail(f, TD_UNIMPLEMENTED, "argument %d is %s, which is not supported", i,
                    t->kind != TD_HLO_TENSOR ? "no tensor"
                    : t->unsupported != NULL ? t->unsupported
                                             : "of unknown rank");
        return;
    }
    const char *name = numbered(f, "arg", i);
    const struct td_value made = td_emit(
        &f->e, "_Arg", TD_NO_INPUTS, TD_ATTRS(TD_ATTR_OF_TYPE("T", t->dtype), TD_ATTR_OF_INT("index", i)));
    if (f->e.rc) {
        return;
    }
    made.node->name = name;
    f->to->args[i] = made.node;
    f->to->def.in[i] = (struct td_arg_def){.name = name, .type = t->dtype};
    f->made[v->id] = (struct td_hlo_made){
        .part = made, .whole = made, .sure = (1u << t->shape.rank) - 1, .rank = t->shape.rank};
}

static void room_for_args(struct td_hlo_frame *f, int n)
{
    f->to->def.in = new_args(f, n);
    f->to->args = f->e.rc ? NULL : td_arena_alloc(f->w->lib->arena, (size_t)n + 1, sizeof f->to->args[0]);
    f->to->n_args = f->to->def.n_in = n;
    if (f->to->args == NULL && f->e.rc == TD_OK) {
        f->e.rc = td_no_memory(f->e.err, (size_t)n * sizeof f->to->args[0], "a function");
    }
}

static void set_results(struct td_hlo_frame *f, const struct td_hlo_block *b,
                        const struct td_hlo_captures *more)
{
    const struct td_hlo_op *last = b->ops[b->n_ops - 1];
    const int n = last->n_in + (more == NULL ? 0 : more->n_values);
    struct td_function *to = f->to;
    to->def.out = new_args(f, n);
    to->rets = f->e.rc ? NULL : td_arena_alloc(f->w->lib->arena, (size_t)n + 1, sizeof to->rets[0]);
    if (to->rets == NULL) {
        f->e.rc = f->e.rc ? f->e.rc : td_no_memory(f->e.err, (size_t)n * sizeof to->rets[0], "a function");
        return;
    }
    to->n_rets = to->def.n_out = n;
    for (int i = 0; f->e.rc == TD_OK && i < n; i++) {
        to->rets[i] = td_hlo_whole(f, i < last->n_in ? last->in[i] : more->values[i - last->n_in]);
        to->def.out[i] =
            (struct td_arg_def){.name = numbered(f, "result", i), .type = td_dtype_of(to->rets[i])};
    }
}

/* What the library keeps, or the error. */
static enum td_code close_function(struct td_hlo_frame *f)
{
    enum td_code rc = td_emit_close(&f->e);
    if (rc == TD_OK) {
        f->to->resolved = true;
        rc = td_library_insert(f->w->lib, f->to, f->w->err);
    }
    return rc;
}

void td_hlo_must_run(struct td_hlo_frame *f, struct td_value v)
{
    struct td_function *to = f->to;
    struct td_node **more =
        f->e.rc ? NULL : td_arena_alloc(f->w->lib->arena, (size_t)to->n_control_rets + 1, sizeof *more);
    if (more == NULL || to->n_control_rets >= TD_HLO_MAX_UNROLL) {
        td_hlo_fail(f, TD_RESOURCE_EXHAUSTED, "too many assertions");
        return;
    }
    if (to->n_control_rets > 0) {
        memcpy(more, to->control_rets, (size_t)to->n_control_rets * sizeof *more);
    }
    more[to->n_control_rets++] = v.node;
    to->control_rets = more;
}

/* ------------------------------------------------------------------ of the module */

static const char *name_function(struct td_hlo_whole_module *w, const char *name, struct td_err *err)
{
    const size_t bytes = strlen(w->prefix) + strlen(name) + 2;
    char *text = td_arena_alloc(w->lib->arena, bytes, 1);
    if (text == NULL) {
        (void)td_no_memory(err, bytes, "a function's name");
        return NULL;
    }
    snprintf(text, bytes, "%s/%s", w->prefix, name);
    return text;
}

static enum td_code make_function(struct td_hlo_whole_module *w, const struct td_hlo_function *fn, int depth,
                                  struct td_function **out, struct td_err *err)
{
    struct td_hlo_frame f = {.w = w, .fn = fn, .depth = depth, .e.err = err};
    const struct td_hlo_block *b = &fn->body;
    const char *name = name_function(w, fn->name, err);
    uint32_t marks = 0;
    TD_FAIL_IF(b->n_ops == 0, err, INVALID_ARGUMENT, "StableHLO function '%s' has no body", fn->name);
    f.made = td_hlo_room(&f, (size_t)fn->n_values, sizeof *f.made);
    f.mark = td_hlo_room(&f, (size_t)fn->n_values, sizeof *f.mark);
    f.marks = &marks;
    if (name == NULL || f.e.rc) {
        return err->code;
    }
    open_function(&f, name);
    if (f.e.rc == TD_OK) {
        room_for_args(&f, b->n_args);
    }
    for (int i = 0; f.e.rc == TD_OK && i < b->n_args; i++) {
        add_arg(&f, i, b->args[i]);
    }
    td_hlo_block(&f, b);
    if (f.e.rc == TD_OK) {
        set_results(&f, b, NULL);
    }
    *out = f.to;
    return close_function(&f);
}

enum td_code td_hlo_function(struct td_hlo_whole_module *w, int index, int depth, struct td_function **out,
                             struct td_err *err)
{
    const struct td_hlo_function *fn = &w->m->functions[index];
    TD_FAIL_IF(w->busy[index], err, INVALID_ARGUMENT, "StableHLO function '%s' calls itself", fn->name);
    TD_FAIL_IF(depth > TD_HLO_MAX_DEPTH, err, INVALID_ARGUMENT,
               "StableHLO function '%s': calls nest too deep", fn->name);
    w->busy[index] = true;
    TD_TRY(make_function(w, fn, depth, out, err));
    w->busy[index] = false;
    w->names[index] = (*out)->name;
    return TD_OK;
}

int td_hlo_function_index(const struct td_hlo_whole_module *w, const char *name, size_t len)
{
    int from = 0, to = w->m->n_functions;
    while (from < to) {
        const int middle = from + (to - from) / 2;
        const char *is = w->m->functions[w->by_name[middle]].name;
        const int by = strncmp(is, name, len);
        const int order = by == 0 ? is[len] != 0 : by;
        if (order == 0) {
            return w->by_name[middle];
        }
        from = order < 0 ? middle + 1 : from;
        to = order < 0 ? to : middle;
    }
    return -1;
}

const struct td_function *td_hlo_called(struct td_hlo_frame *f, const char *name, size_t len)
{
    struct td_function *made = NULL;
    const int index = td_hlo_function_index(f->w, name, len);
    if (index < 0) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "the module has no function '%.*s'", (int)(len > 200 ? 200 : len),
                    name);
    } else if (f->w->names[index] != NULL) {
        return td_library_find(f->w->lib, f->w->names[index]);
    } else if (f->e.rc == TD_OK) {
        f->e.rc = td_hlo_function(f->w, index, f->depth + 1, &made, f->w->err);
    }
    return f->e.rc ? NULL : made;
}

/* ------------------------------------------------------------------ regions */

static void mark_defined(struct td_hlo_frame *f, const struct td_hlo_block *b, uint32_t mark, int depth)
{
    if (depth > TD_HLO_MAX_DEPTH) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "its regions nest too deep");
        return;
    }
    for (int i = 0; i < b->n_args; i++) {
        f->mark[b->args[i]->id] = mark;
    }
    for (int i = 0; f->e.rc == TD_OK && i < b->n_ops; i++) {
        const struct td_hlo_op *op = b->ops[i];
        for (int k = 0; k < op->n_out; k++) {
            f->mark[op->out[k]->id] = mark;
        }
        for (int k = 0; k < op->n_regions; k++) {
            mark_defined(f, &op->regions[k], mark, depth + 1);
        }
    }
}

static void append(struct td_hlo_frame *f, const struct td_hlo_value ***list, int *n, int *cap,
                   const struct td_hlo_value *v)
{
    if (*n == *cap) {
        const int bigger = *cap == 0 ? 16 : 2 * *cap;
        const struct td_hlo_value **fresh = td_hlo_room(f, (size_t)bigger, sizeof *fresh);
        if (fresh == NULL) {
            return;
        }
        if (*n > 0) {
            memcpy(fresh, *list, (size_t)*n * sizeof *fresh);
        }
        *list = fresh;
        *cap = bigger;
    }
    (*list)[(*n)++] = v;
}

/* The values that neither mark is on; the second is put on them. */
static void find_captured(struct td_hlo_frame *f, const struct td_hlo_block *b, uint32_t defined,
                          struct td_hlo_captures *out)
{
    for (int i = 0; f->e.rc == TD_OK && i < b->n_ops; i++) {
        const struct td_hlo_op *op = b->ops[i];
        for (int k = 0; k < op->n_in; k++) {
            const struct td_hlo_value *v = op->in[k];
            if (f->mark[v->id] == defined || f->mark[v->id] == defined + 1) {
                continue;
            }
            f->mark[v->id] = defined + 1;
            if (v->op != NULL && strcmp(v->op->name, "constant") == 0) {
                append(f, &out->again, &out->n_again, &out->cap_again, v);
            } else {
                append(f, &out->values, &out->n_values, &out->cap_values, v);
            }
        }
        for (int k = 0; k < op->n_regions; k++) {
            find_captured(f, &op->regions[k], defined, out);
        }
    }
}

void td_hlo_captured(struct td_hlo_frame *f, const struct td_hlo_op *op, struct td_hlo_captures *out)
{
    *out = (struct td_hlo_captures){0};
    const uint32_t defined = *f->marks + 1;
    *f->marks += 2;
    for (int i = 0; f->e.rc == TD_OK && i < op->n_regions; i++) {
        mark_defined(f, &op->regions[i], defined, f->depth);
    }
    for (int i = 0; f->e.rc == TD_OK && i < op->n_regions; i++) {
        find_captured(f, &op->regions[i], defined, out);
    }
}

static const char *name_region(struct td_hlo_frame *f, const struct td_hlo_op *op)
{
    const size_t bytes = strlen(f->w->prefix) + strlen(f->fn->name) + strlen(op->name) + 32;
    char *text = td_arena_alloc(f->w->lib->arena, bytes, 1);
    if (text == NULL) {
        f->e.rc = td_no_memory(f->e.err, bytes, "a function's name");
        return NULL;
    }
    snprintf(text, bytes, "%s/%s/%s_%d", f->w->prefix, f->fn->name, op->name, f->w->bodies++);
    return text;
}

/* The region's arguments, the captured values, and the constants made again. */
static void fill_region(struct td_hlo_frame *in, const struct td_hlo_block *b,
                        const struct td_hlo_captures *c)
{
    room_for_args(in, b->n_args + c->n_values);
    for (int i = 0; in->e.rc == TD_OK && i < b->n_args; i++) {
        add_arg(in, i, b->args[i]);
    }
    for (int i = 0; in->e.rc == TD_OK && i < c->n_values; i++) {
        add_arg(in, b->n_args + i, c->values[i]);
    }
    for (int i = 0; in->e.rc == TD_OK && i < c->n_again; i++) {
        in->op = c->again[i]->op;
        td_hlo_constant(in, c->again[i]->op);
    }
    td_hlo_block(in, b);
}

static void swap_captured(struct td_hlo_frame *f, const struct td_hlo_captures *c, struct td_hlo_made *other)
{
    for (int i = 0; i < c->n_values + c->n_again; i++) {
        const int id = (i < c->n_values ? c->values[i] : c->again[i - c->n_values])->id;
        const struct td_hlo_made was = f->made[id];
        f->made[id] = other[i];
        other[i] = was;
    }
}

const char *td_hlo_region(struct td_hlo_frame *f, const struct td_hlo_op *op, int region,
                          const struct td_hlo_captures *c, bool hands_on)
{
    const struct td_hlo_block *b = &op->regions[region];
    struct td_hlo_made *outer = td_hlo_room(f, (size_t)c->n_values + (size_t)c->n_again, sizeof *outer);
    const char *name = f->e.rc ? NULL : name_region(f, op);
    if (name == NULL || f->depth >= TD_HLO_MAX_DEPTH || b->n_ops == 0) {
        td_hlo_fail(f, TD_INVALID_ARGUMENT, "its region is empty or nests too deep");
        return NULL;
    }
    struct td_hlo_frame in = *f;
    in.depth++;
    swap_captured(f, c, outer);
    open_function(&in, name);
    if (in.e.rc == TD_OK) {
        fill_region(&in, b, c);
    }
    if (in.e.rc == TD_OK) {
        set_results(&in, b, hands_on ? c : NULL);
    }
    swap_captured(f, c, outer);
    f->e.rc = close_function(&in);
    return f->e.rc ? NULL : name;
}
