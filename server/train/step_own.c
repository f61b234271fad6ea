/* server/train/step_own.c - the step of a model that brings its own: a signature that trains.
 *
 * Its callable is run as it is. Which variables it assigns is read off its part of the graph, calls
 * inlined: those whose handle, or reference, goes to an op with effects that does more than read. A loop or
 * branch that is left has functions with the handles as arguments; their bodies are walked with those in
 * mind.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/compile/ir.h"
#include "core/function/callable.h"
#include "core/grad/grad.h"
#include "server/models/variables.h"
#include "server/train/step_impl.h"

#define GRAPH_BYTES ((size_t)512 << 20)
#define MAX_NESTING 32 /* of functions in functions */

struct walk {
    struct td_step *s;
    const struct td_library *lib;
    const struct td_grad_formulas *formulas;
    struct td_variables *vars;
    bool **assigned; /* by row and part */
    int depth;
};

/* Nodes of a graph, and what its arguments are. */
struct scope {
    struct td_node *const *nodes;
    int n_nodes;
    struct td_node *const *args;
    const char *const *arg; /* by argument: the variable that it is a handle of; NULL */
    int n_args;
};

/* Flags of ops that show an input: number i as output i, or (of TF1's control flow) the first one. */
#define SHOWS (TD_OP_IDENTITY | TD_OP_SWITCH | TD_OP_ENTER)

/* The variable that v is, or has a handle of; NULL. */
static const char *variable_of(const struct walk *w, const struct scope *in, struct td_value v)
{
    while ((td_node_flags(v.node) & SHOWS) && v.node->op != NULL && v.node->n_in > 0) {
        v = v.node->in[v.port < v.node->n_in && (v.node->op->flags & TD_OP_IDENTITY) ? v.port : 0];
    }
    for (int i = 0; i < in->n_args; i++) {
        if (in->args[i] == v.node) {
            return in->arg[i];
        }
    }
    return v.node->n_out == 0 || v.node->op == NULL ? NULL : w->formulas->variable(v);
}

static void note(struct walk *w, const char *resource)
{
    for (int i = 0; i < td_variables_count(w->vars); i++) {
        const struct td_variable_row v = td_variables_row(w->vars, i);
        for (int part = 0; part < v.n; part++) {
            w->assigned[i][part] = w->assigned[i][part] || strcmp(v.resources[part], resource) == 0;
        }
    }
}

static enum td_code walk_scope(struct walk *w, const struct scope *in, struct td_fault *f);

/* The function `name`, called by n with its last inputs: those in front of them are the op's own. */
static enum td_code walk_function(struct walk *w, const struct scope *in, const struct td_node *n,
                                  const char *name, struct td_fault *f)
{
    const struct td_function *fn = td_library_find(w->lib, name);
    if (fn == NULL || w->depth >= MAX_NESTING || fn->n_args > n->n_in) {
        return TD_OK;
    }
    const char **arg = td_step_room(w->s, fn->n_args, sizeof *arg);
    bool any = false;
    if (arg == NULL) {
        return td_step_no_memory(f);
    }
    for (int i = 0; i < fn->n_args; i++) {
        arg[i] = variable_of(w, in, n->in[n->n_in - fn->n_args + i]);
        any = any || arg[i] != NULL;
    }
    const struct scope body = {.nodes = fn->body.nodes,
                               .n_nodes = fn->body.n_nodes,
                               .args = fn->args,
                               .arg = arg,
                               .n_args = fn->n_args};
    w->depth++;
    const enum td_code rc = walk_scope(w, &body, f);
    w->depth--;
    return rc;
}

static enum td_code walk_node(struct walk *w, const struct scope *in, const struct td_node *n,
                              struct td_fault *f)
{
    bool calls = false;
    for (int a = 0; a < n->n_attrs; a++) {
        const struct td_attr *attr = &n->attrs[a];
        for (int i = 0; attr->kind == TD_ATTR_FUNC && i < attr->n; i++) {
            calls = true;
            TD_TRY(walk_function(w, in, n, attr->func[i].name, f));
        }
    }
    if (calls || (td_node_flags(n) & (TD_OP_READS | SHOWS))) {
        return TD_OK;
    }
    for (int i = 0; i < n->n_in; i++) {
        const bool handle = td_dtype_of(n->in[i]) == TD_RESOURCE || (n->in_ref != NULL && n->in_ref[i]);
        const char *resource = handle ? variable_of(w, in, n->in[i]) : NULL;
        if (resource != NULL) {
            note(w, resource);
        }
    }
    return TD_OK;
}

static enum td_code walk_scope(struct walk *w, const struct scope *in, struct td_fault *f)
{
    for (int i = 0; i < in->n_nodes; i++) {
        TD_TRY(walk_node(w, in, in->nodes[i], f));
    }
    return TD_OK;
}

/* Rows with an assigned part become states and values of the result. */
static enum td_code list_assigned(struct walk *w, struct td_fault *f)
{
    struct td_step *s = w->s;
    int most = 0;
    for (int i = 0; i < td_variables_count(w->vars); i++) {
        most += td_variables_row(w->vars, i).n;
    }
    s->state = td_step_room(s, most, sizeof *s->state);
    s->result = td_step_room(s, most, sizeof *s->result);
    if (s->state == NULL || s->result == NULL) {
        return td_step_no_memory(f);
    }
    for (int i = 0; i < td_variables_count(w->vars); i++) {
        const struct td_variable_row v = td_variables_row(w->vars, i);
        bool any = false;
        for (int part = 0; part < v.n; part++) {
            any = any || w->assigned[i][part];
        }
        if (!any) {
            continue;
        }
        if (v.key != NULL) {
            s->result[s->n_result++] = (struct td_step_result_row){.key = td_arena_strdup(s->arena, v.key),
                                                                   .state = s->n_state,
                                                                   .n = v.n,
                                                                   .axis = v.axis,
                                                                   .average = -1};
        }
        for (int part = 0; part < v.n; part++) {
            const char *resource = td_arena_strdup(s->arena, v.resources[part]);
            const char *name = v.n == 1 && v.stem != NULL ? td_arena_strdup(s->arena, v.stem) : resource;
            s->state[s->n_state++] = (struct td_step_state){.name = name,
                                                            .resource = resource,
                                                            .dtype = v.dtype,
                                                            .shape = td_shape_unknown(),
                                                            .model = v.key != NULL};
            TD_TRY(name == NULL || resource == NULL ? td_step_no_memory(f) : TD_OK);
        }
    }
    return s->n_result > 0
               ? TD_OK
               : TD_FAULT(f, "invalid_value", "tensord.train_signature",
                          "signature '%.100s' assigns no variable that the checkpoint has: it trains nothing",
                          s->spec->train_signature);
}

static enum td_code find_assigned(struct td_step *s, struct td_callable *callable, struct td_arena *arena,
                                  struct td_variables *vars, struct td_fault *f)
{
    struct td_model *engine = td_servable_engine(s->servable);
    const struct td_op_def *seed = td_op_of_role(td_model_opts_of(engine)->ops, TD_ROLE_GRADIENT_SEED);
    struct walk w = {.s = s, .lib = td_model_library(engine), .vars = vars};
    struct td_callable_opts part;
    struct td_ir ir;
    if (seed == NULL) {
        return TD_FAULT(f, "server_error", NULL, "this build's ops have no gradients");
    }
    w.formulas = seed->op->formulas;
    w.assigned = td_step_room(s, td_variables_count(vars), sizeof *w.assigned);
    for (int i = 0; w.assigned != NULL && i < td_variables_count(vars); i++) {
        w.assigned[i] = td_step_room(s, td_variables_row(vars, i).n, sizeof(bool));
        TD_TRY(w.assigned[i] == NULL ? td_step_no_memory(f) : TD_OK);
    }
    TD_TRY(w.assigned == NULL ? td_step_no_memory(f) : TD_OK);
    const struct td_graph *graph = td_callable_graph(callable, &part);
    TD_TRY(td_fault_of(f, td_ir_build(&ir, arena, graph, w.lib, &part, TD_IR_INLINE, &f->err),
                       "invalid_value", "tensord.train_signature"));
    const struct scope all = {.nodes = ir.nodes, .n_nodes = ir.n_nodes};
    TD_TRY(walk_scope(&w, &all, f));
    return list_assigned(&w, f);
}

static bool is_scalar(const struct td_tensor_info *t)
{
    return t->shape.rank <= 0 && td_dtype_in(t->dtype, TD_SET_FLOATS | TD_SET_INTS | TD_BIT(TD_BOOL));
}

/* Which fetch is the loss, and which are told beside it; which field each input is fed. */
static enum td_code list_ends(struct td_step *s, const struct td_signature *sig, struct td_fault *f)
{
    s->loss_at = -1;
    s->n_outputs = 0;
    s->output_name = td_step_room(s, sig->n_out, sizeof *s->output_name);
    s->output_at = td_step_room(s, sig->n_out, sizeof *s->output_at);
    s->outputs = td_step_room(s, sig->n_out, sizeof *s->outputs);
    s->input_field = td_step_room(s, sig->n_in, sizeof *s->input_field);
    if (s->output_name == NULL || s->output_at == NULL || s->outputs == NULL || s->input_field == NULL) {
        return td_step_no_memory(f);
    }
    for (int i = 0; i < sig->n_out; i++) {
        if (strcmp(sig->out[i].key, s->spec->train_loss_output) == 0) {
            s->loss_at = i;
        } else if (is_scalar(&sig->out[i])) {
            s->output_name[s->n_outputs] = sig->out[i].key;
            s->output_at[s->n_outputs++] = i;
        }
    }
    if (s->loss_at < 0) {
        return TD_FAULT(f, "invalid_value", "tensord.train_loss_output",
                        "signature '%.100s' has no output '%.100s'", sig->key, s->spec->train_loss_output);
    }
    for (int i = 0; i < sig->n_in; i++) {
        s->input_field[i] = -1;
        for (int k = 0; k < s->layout->n; k++) {
            s->input_field[i] = strcmp(s->layout->field[k].name, sig->in[i].key) == 0 ? k : s->input_field[i];
        }
        if (s->input_field[i] < 0) {
            return TD_FAULT(f, "server_error", NULL, "no field of a row is input '%.100s'", sig->in[i].key);
        }
    }
    return TD_OK;
}

enum td_code td_step_build_own(struct td_step *s, const struct td_signature *sig, struct td_fault *f)
{
    struct td_callable *callable = td_servable_callable(s->servable, sig);
    struct td_variables *vars = NULL;
    if (s->several) {
        return TD_FAULT(f, "invalid_value", "tensord.train_signature",
                        "signature '%.100s' updates its variables itself: several processes cannot share its "
                        "batches",
                        sig->key);
    }
    if (callable == NULL) {
        return td_fault_of(f, td_servable_closed(s->servable, sig, &f->err), "invalid_value",
                           "tensord.train_signature");
    }
    TD_TRY(list_ends(s, sig, f));
    TD_TRY(td_fault_of(f, td_variables_read(s->servable, &vars, &f->err), "invalid_value", "model"));
    struct td_arena *arena = td_arena_new(GRAPH_BYTES);
    const enum td_code rc = arena == NULL ? td_step_no_memory(f) : find_assigned(s, callable, arena, vars, f);
    td_arena_free(arena);
    td_variables_free(vars);
    TD_TRY(rc);
    s->run[TD_RUN_UPDATE] = callable;
    return td_fault_of(f, td_step_bind_state(s, &f->err), "server_error", NULL);
}
