/* kernels/control/branch_grad.c - If, Case and calls: the branch that ran has a backward function, which is
 * run on what the branch kept for it.
 *
 *   y = If(c, x; then, else)      becomes   y, kept = If(c, x; then', else')
 *                                           dx = StatelessIf(c, x', kept, dy; then_back, else_back)
 *
 * Arguments are given to the backward function again, those that it needs (x'). All else that it reads of the
 * forward pass is kept: a further output. A branch that keeps less than another gives an empty tensor there,
 * which nobody reads; two branches share an output where the dtypes are equal.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/branch_grad.h"

#include <string.h>

#include "kernels/control/switch_grad.h"
#include "kernels/formula/formula.h"

struct branch {
    const char *name;
    struct td_ir ir;
    struct td_value *seed; /* by output of the node; no node: no gradient arrived there */
    struct td_value *back; /* by argument: its gradient; no node: none */
    struct td_grad_kept kept;
    struct td_handed handed; /* what is kept, and which of it was alive */
    int *slot;               /* by what is handed over: number of the further output */
};

struct branches {
    struct td_grad *g;
    struct td_grad_context *ctx;
    struct td_arena *arena;
    struct td_err *err;
    struct branch *at;
    int n;
    int first, n_args, n_out; /* of the node: inputs before the arguments; outputs that it had */
    struct td_value *dy;      /* by output: what arrived */
    enum td_dtype *given;     /* by argument: dtype of its gradient; NONE: no branch has one */
    bool *read;               /* by argument: a backward function needs it */
    enum td_dtype *slot;      /* of the further outputs */
    int n_slots;
};

/* ------------------------------------------------------------------ zeros */

struct td_value td_control_zeros(struct td_emitter *e, struct td_value v, enum td_dtype dtype)
{
    if (td_dtype_of(v) == TD_VARIANT) {
        return td_f_zeros_like(e, v);
    }
    const struct td_value shape =
        td_dtype_of(v) == TD_RESOURCE ? td_f_1(e, "VariableShape", v) : td_f_shape(e, v);
    return td_f_fill(e, shape, td_f_cast(e, td_emit_number(e, TD_FLOAT, 0), dtype));
}

void td_control_give_zeros(struct td_grad *g, int from, const bool *given, int n)
{
    for (int i = from; i < from + n; i++) {
        const enum td_dtype dtype = td_dtype_of(td_grad_in(g, i));
        if (!given[i - from] && td_grad_wants(g, i) && dtype != TD_RESOURCE && dtype != TD_VARIANT) {
            td_grad_give(g, i, td_control_zeros(g->e, td_grad_in(g, i), dtype));
        }
    }
}

/* ------------------------------------------------------------------ one branch, differentiated */

static void *room(struct branches *x, int n, size_t size)
{
    void *p = td_arena_alloc(x->arena, (size_t)n + 1, size);
    if (p == NULL && x->g->e->rc == TD_OK) {
        x->g->e->rc = td_no_memory(x->err, (size_t)n * size, "the gradient of a function");
    }
    return p;
}

static bool fine(struct branches *x, enum td_code rc)
{
    x->g->e->rc = x->g->e->rc ? x->g->e->rc : rc;
    return x->g->e->rc == TD_OK;
}

static bool open_branch(struct branches *x, struct branch *b)
{
    const struct td_node *n = x->g->node;
    b->seed = room(x, x->n_out, sizeof *b->seed);
    b->back = room(x, x->n_args, sizeof *b->back);
    if (x->g->e->rc || !fine(x, td_grad_open(x->ctx, x->arena, b->name, &b->ir, x->err))) {
        return false;
    }
    if (b->ir.n_feeds != x->n_args || b->ir.n_fetches < x->n_out) {
        td_emit_fail(x->g->e, TD_INVALID_ARGUMENT,
                     "%s calls function '%s' with %d inputs and %d outputs; it has %d and %d", TD_NODE_STR(n),
                     b->name, x->n_args, x->n_out, b->ir.n_feeds, b->ir.n_fetches);
    }
    return x->g->e->rc == TD_OK;
}

static bool seed_branch(struct branches *x, struct branch *b)
{
    struct td_emitter e = td_grad_emitter(x->ctx, &b->ir, NULL, x->err);
    for (int o = 0; o < x->n_out; o++) {
        if (x->dy[o].node != NULL) {
            b->seed[o] = td_grad_feed(&e, "gradient", td_dtype_of(x->dy[o]));
        }
    }
    return fine(x, td_emit_close(&e));
}

/* Fills b->back. */
static void differentiate(struct branches *x, struct branch *b)
{
    struct td_value *targets = room(x, x->n_out, sizeof *targets), *seeds = room(x, x->n_out, sizeof *seeds),
                    *sources = room(x, x->n_args, sizeof *sources);
    int *of = room(x, x->n_args, sizeof *of);
    struct td_grad_value *found = room(x, x->n_args, sizeof *found);
    if (x->g->e->rc || !open_branch(x, b) || !seed_branch(x, b)) {
        return;
    }
    struct td_grad_query q = {.targets = targets, .seeds = seeds, .sources = sources};
    for (int o = 0; o < x->n_out; o++) {
        if (b->seed[o].node != NULL) {
            seeds[q.n_targets] = b->seed[o];
            targets[q.n_targets++] = b->ir.fetches[o];
        }
    }
    for (int i = 0; i < x->n_args; i++) {
        if (td_grad_wants(x->g, x->first + i)) {
            of[q.n_sources] = i;
            sources[q.n_sources++] = (struct td_value){b->ir.feeds[i], 0};
        }
    }
    if (!fine(x, td_grad_backward(x->ctx, &b->ir, &q, found, x->err))) {
        return;
    }
    struct td_emitter e = td_grad_emitter(x->ctx, &b->ir, NULL, x->err);
    e.at = x->g->node;
    for (int i = 0; i < q.n_sources; i++) {
        b->back[of[i]] = td_grad_dense(x->ctx, &e, &found[i]);
    }
    fine(x, td_emit_close(&e));
}

/* A gradient that one branch has, all have. */
static void fill_up(struct branches *x)
{
    for (int k = 0; k < x->n; k++) {
        for (int i = 0; i < x->n_args; i++) {
            const struct td_value v = x->at[k].back[i];
            x->given[i] = v.node != NULL ? td_dtype_of(v) : x->given[i];
        }
    }
    for (int k = 0; k < x->n; k++) {
        struct branch *b = &x->at[k];
        struct td_emitter e = td_grad_emitter(x->ctx, &b->ir, NULL, x->err);
        e.at = x->g->node;
        for (int i = 0; i < x->n_args; i++) {
            if (x->given[i] != TD_DTYPE_NONE && b->back[i].node == NULL) {
                b->back[i] = td_control_zeros(&e, (struct td_value){b->ir.feeds[i], 0}, x->given[i]);
            }
        }
        fine(x, td_emit_close(&e));
    }
}

/* ------------------------------------------------------------------ what is kept */

/* A further output of that dtype that this branch does not use yet. */
static int take_slot(struct branches *x, bool *taken, enum td_dtype dtype)
{
    int i = 0;
    while (i < x->n_slots && (taken[i] || x->slot[i] != dtype)) {
        i++;
    }
    if (i == x->n_slots) {
        x->slot[x->n_slots++] = dtype;
    }
    taken[i] = true;
    return i;
}

static void split(struct branches *x)
{
    bool *lasting = room(x, x->n_args, sizeof *lasting);
    int total = 0;
    for (int i = 0; lasting != NULL && i < x->n_args; i++) {
        lasting[i] = true;
    }
    for (int k = 0; x->g->e->rc == TD_OK && k < x->n; k++) {
        struct branch *b = &x->at[k];
        struct td_value *seeds = room(x, x->n_out, sizeof *seeds);
        struct td_grad_cut cut = {.seeds = seeds,
                                  .results = b->back,
                                  .n_results = x->n_args,
                                  .lasting = lasting,
                                  .recompute = x->ctx->recompute};
        for (int o = 0; seeds != NULL && o < x->n_out; o++) {
            if (b->seed[o].node != NULL) {
                seeds[cut.n_seeds++] = b->seed[o];
            }
        }
        if (seeds != NULL && fine(x, td_grad_split(x->ctx, &b->ir, &cut, &b->kept, x->err))) {
            struct td_emitter e = td_grad_emitter(x->ctx, &b->ir, NULL, x->err);
            e.at = x->g->node;
            td_handed_out(&e, &b->ir, &b->kept, &b->handed);
            fine(x, td_emit_close(&e));
            total += b->handed.n;
        }
    }
    x->slot = room(x, total, sizeof *x->slot);
    for (int k = 0; x->g->e->rc == TD_OK && k < x->n; k++) {
        struct branch *b = &x->at[k];
        bool *taken = room(x, total, sizeof *taken);
        b->slot = room(x, b->handed.n, sizeof *b->slot);
        for (int i = 0; x->g->e->rc == TD_OK && i < b->handed.n; i++) {
            b->slot[i] = take_slot(x, taken, td_dtype_of(b->handed.out[i]));
        }
        for (int i = 0; i < b->kept.n_feeds; i++) {
            x->read[b->kept.feeds[i]] = true;
        }
    }
}

/* ------------------------------------------------------------------ the functions */

static const char *freeze_forward(struct branches *x, struct branch *b)
{
    const char *name = "";
    struct td_value *args = room(x, x->n_args, sizeof *args),
                    *rets = room(x, x->n_out + x->n_slots, sizeof *rets);
    struct td_emitter e = td_grad_emitter(x->ctx, &b->ir, NULL, x->err);
    if (x->g->e->rc) {
        return name;
    }
    for (int i = 0; i < x->n_args; i++) {
        args[i] = (struct td_value){b->ir.feeds[i], 0};
    }
    memcpy(rets, b->ir.fetches, (size_t)x->n_out * sizeof *rets);
    for (int i = 0; i < b->handed.n; i++) {
        rets[x->n_out + b->slot[i]] = b->handed.out[i];
    }
    e.at = x->g->node;
    for (int i = 0; i < x->n_slots; i++) {
        if (rets[x->n_out + i].node == NULL) {
            rets[x->n_out + i] = td_handed_nothing(&e, x->slot[i]);
        }
    }
    const struct td_grad_part part = {.of = b->name,
                                      .args = args,
                                      .n_args = x->n_args,
                                      .rets = rets,
                                      .n_rets = x->n_out + x->n_slots,
                                      .roots = b->ir.roots,
                                      .n_roots = b->ir.n_roots};
    if (fine(x, td_emit_close(&e))) {
        fine(x, td_grad_freeze(x->ctx, &b->ir, &part, &name, x->err));
    }
    return name;
}

/* Arguments: those of the branches that are read, what is kept, the gradients that arrived. */
static const char *freeze_backward(struct branches *x, struct branch *b)
{
    const char *name = "";
    struct td_value *args = room(x, x->n_args + x->n_slots + x->n_out, sizeof *args),
                    *rets = room(x, x->n_args, sizeof *rets);
    struct td_grad_part part = {.of = b->name, .args = args, .rets = rets};
    struct td_emitter e = td_grad_emitter(x->ctx, &b->ir, NULL, x->err);
    if (x->g->e->rc) {
        return name;
    }
    td_handed_in(&e, &b->ir, &b->handed, b->back, x->n_args);
    for (int i = 0; i < x->n_args; i++) {
        if (x->read[i]) {
            args[part.n_args++] = (struct td_value){b->ir.feeds[i], 0};
        }
        if (x->given[i] != TD_DTYPE_NONE) {
            rets[part.n_rets++] = b->back[i];
        }
    }
    for (int i = 0; i < b->handed.n; i++) {
        args[part.n_args + b->slot[i]] = b->handed.in[i];
    }
    for (int i = 0; i < x->n_slots; i++, part.n_args++) {
        if (args[part.n_args].node == NULL) {
            args[part.n_args] = td_grad_feed(&e, "nothing", x->slot[i]);
        }
    }
    for (int o = 0; o < x->n_out; o++) {
        if (b->seed[o].node != NULL) {
            args[part.n_args++] = b->seed[o];
        }
    }
    if (fine(x, td_emit_close(&e))) {
        fine(x, td_grad_freeze(x->ctx, &b->ir, &part, &name, x->err));
    }
    return name;
}

/* ------------------------------------------------------------------ the two nodes */

/* Names of the functions as the op's attributes want them. */
static struct td_func_ref *freeze_all(struct branches *x,
                                      const char *(*freeze)(struct branches *x, struct branch *b))
{
    struct td_func_ref *f = room(x, x->n, sizeof *f);
    for (int k = 0; x->g->e->rc == TD_OK && k < x->n; k++) {
        f[k].name = freeze(x, &x->at[k]);
    }
    return x->g->e->rc ? NULL : f;
}

/* How an op says which functions it has. */
struct form {
    const char *attr[2]; /* each names one; or the one names all */
    const char *backward;
};

/* Attributes of a node with such functions and outputs. */
static int list_attrs(const struct branches *x, const struct form *form, struct td_func_ref *f,
                      enum td_dtype *out, int n_out, struct td_attr *attrs)
{
    int n = 0;
    attrs[n++] =
        (struct td_attr){.name = "Tout", .kind = TD_ATTR_TYPE, .is_list = true, .n = n_out, .type = out};
    if (form->attr[1] != NULL) {
        attrs[n++] = (struct td_attr){.name = form->attr[0], .kind = TD_ATTR_FUNC, .n = 1, .func = &f[0]};
        attrs[n++] = (struct td_attr){.name = form->attr[1], .kind = TD_ATTR_FUNC, .n = 1, .func = &f[1]};
    } else {
        attrs[n++] = (struct td_attr){.name = form->attr[0],
                                      .kind = TD_ATTR_FUNC,
                                      .is_list = strcmp(form->attr[0], "branches") == 0,
                                      .n = x->n,
                                      .func = f};
    }
    return n;
}

static void emit_forward(struct branches *x, const struct form *form)
{
    struct td_node *n = x->g->node;
    struct td_attr attrs[3];
    struct td_func_ref *f = freeze_all(x, freeze_forward);
    enum td_dtype *out = room(x, x->n_out + x->n_slots, sizeof *out);
    if (f == NULL || out == NULL) {
        return;
    }
    memcpy(out, n->out_type, (size_t)x->n_out * sizeof *out);
    memcpy(out + x->n_out, x->slot, (size_t)x->n_slots * sizeof *out);
    const int n_attrs = list_attrs(x, form, f, out, x->n_out + x->n_slots, attrs);
    td_emit_again(x->g->e, n, n->def, n->in, n->n_in, attrs, n_attrs);
}

static void emit_backward(struct branches *x, const struct form *form)
{
    struct td_grad *g = x->g;
    struct td_attr attrs[3];
    struct td_func_ref *f = freeze_all(x, freeze_backward);
    enum td_dtype *out = room(x, x->n_args, sizeof *out);
    struct td_value *in = room(x, x->first + x->n_args + x->n_slots + x->n_out, sizeof *in);
    int n_in = 0, n_out = 0;
    if (f == NULL || out == NULL || in == NULL) {
        return;
    }
    for (int i = 0; i < g->node->n_in; i++) {
        if (i < x->first || x->read[i - x->first]) {
            in[n_in++] = td_grad_in(g, i);
        }
        if (i >= x->first && x->given[i - x->first] != TD_DTYPE_NONE) {
            out[n_out++] = x->given[i - x->first];
        }
    }
    for (int i = 0; i < x->n_slots; i++) {
        in[n_in++] = (struct td_value){g->node, x->n_out + i};
    }
    for (int o = 0; o < x->n_out; o++) {
        if (x->dy[o].node != NULL) {
            in[n_in++] = x->dy[o];
        }
    }
    const int n_attrs = list_attrs(x, form, f, out, n_out, attrs);
    const struct td_value dx = td_emit(g->e, form->backward, in, n_in, attrs, n_attrs);
    for (int i = 0, o = 0; i < x->n_args; i++) {
        if (x->given[i] != TD_DTYPE_NONE) {
            td_grad_give(g, x->first + i, td_f_port(dx, o++));
        }
    }
}

/* ------------------------------------------------------------------ the ops */

static bool any_given(const struct branches *x)
{
    for (int i = 0; i < x->n_args; i++) {
        if (x->given[i] != TD_DTYPE_NONE) {
            return true;
        }
    }
    return false;
}

static bool start(struct branches *x, const struct form *form)
{
    const struct td_node *n = x->g->node;
    x->ctx = td_grad_context_of(x->g);
    x->arena = td_grad_ir_of(x->g)->arena;
    x->err = x->g->e->err;
    x->n = form->attr[1] != NULL ? 2 : td_attr_len(n, form->attr[0]);
    x->n_args = n->n_in - x->first;
    x->n_out = n->n_out;
    x->at = room(x, x->n, sizeof *x->at);
    x->dy = room(x, x->n_out, sizeof *x->dy);
    x->given = room(x, x->n_args, sizeof *x->given);
    x->read = room(x, x->n_args, sizeof *x->read);
    for (int k = 0; x->g->e->rc == TD_OK && k < x->n; k++) {
        const bool each = form->attr[1] != NULL;
        const struct td_func_ref *f = td_attr_func(n, form->attr[each ? k : 0], each ? 0 : k);
        x->at[k].name = f == NULL ? "" : f->name;
    }
    for (int o = 0; x->g->e->rc == TD_OK && o < x->n_out; o++) {
        x->dy[o] = td_grad_arrived(x->g, o) ? td_grad_at(x->g, o) : td_no_value;
    }
    return x->g->e->rc == TD_OK;
}

/* first: inputs of the node before the functions' arguments. */
static void branches_grad(struct td_grad *g, int first, const struct form *form)
{
    struct branches x = {.g = g, .first = first};
    if (!start(&x, form)) {
        return;
    }
    for (int k = 0; k < x.n; k++) {
        differentiate(&x, &x.at[k]);
    }
    if (g->e->rc) {
        return;
    }
    fill_up(&x);
    bool *given = room(&x, x.n_args, sizeof *given);
    for (int i = 0; given != NULL && i < x.n_args; i++) {
        given[i] = x.given[i] != TD_DTYPE_NONE;
    }
    if (g->e->rc == TD_OK && any_given(&x)) {
        split(&x);
        emit_forward(&x, form);
        emit_backward(&x, form);
    }
    if (g->e->rc == TD_OK && first == 0) { /* a call; what no branch leads to is not connected */
        td_control_give_zeros(g, first, given, x.n_args);
    }
}

void td_if_grad(struct td_grad *g)
{
    branches_grad(g, 1, &(struct form){{"then_branch", "else_branch"}, "StatelessIf"});
}

void td_case_grad(struct td_grad *g)
{
    branches_grad(g, 1, &(struct form){{"branches", NULL}, "StatelessCase"});
}

void td_call_grad(struct td_grad *g)
{
    branches_grad(g, 0, &(struct form){{"f", NULL}, "PartitionedCall"});
}
