/* proto/model/custom_gradient.c - a gradient function's captures and results, from its concrete function.
 *
 *   arguments   one gradient for each output of the node, then what it is bound to: captured tensors
 *   results     the structured output has one place for each input of the node; None where none is given
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/model/custom_gradient.h"

#include "proto/model/object_graph.h"

static enum td_code no_memory(struct td_err *err, int n)
{
    return td_no_memory(err, (size_t)n, "custom gradients");
}

static enum td_code copy_captures(const struct td_object_graph *g, const struct td_concrete *f,
                                  struct td_arena *a, struct td_custom_gradient *c, bool *complete,
                                  struct td_err *err)
{
    c->captured = td_arena_alloc(a, (size_t)f->n_bound + 1, sizeof *c->captured);
    c->captured_in = td_arena_alloc(a, (size_t)f->n_bound + 1, sizeof *c->captured_in);
    if (c->captured == NULL || c->captured_in == NULL) {
        return no_memory(err, f->n_bound);
    }
    for (int i = 0; *complete && i < f->n_bound; i++) {
        const struct td_object *o = &g->nodes[f->bound[i]];
        *complete = o->kind == TD_OBJECT_CAPTURED && o->n_functions == 1;
        c->captured[i] = *complete ? td_arena_strdup(a, o->text) : "";
        c->captured_in[i] = *complete ? td_arena_strdup(a, o->functions[0]) : "";
        if (c->captured[i] == NULL || c->captured_in[i] == NULL) {
            return no_memory(err, f->n_bound);
        }
    }
    c->n_captured = f->n_bound;
    return TD_OK;
}

static enum td_code complete(const struct td_object_graph *g, struct td_arena *a,
                             struct td_custom_gradient *c, bool *keep, struct td_err *err)
{
    const struct td_concrete *f = td_object_graph_function(g, c->function);
    *keep = f != NULL;
    if (!*keep) {
        return TD_OK;
    }
    c->input = td_arena_alloc(a, (size_t)f->n_out + 1, sizeof *c->input);
    if (c->input == NULL) {
        return no_memory(err, f->n_out);
    }
    for (int i = 0; i < f->n_out; i++) {
        c->input[i] = f->out[i].place;
    }
    c->n_results = f->n_out;
    return copy_captures(g, f, a, c, keep, err);
}

enum td_code td_custom_gradients_complete(struct td_bytes object_graph, struct td_library *lib,
                                          struct td_err *err)
{
    struct td_object_graph *g;
    if (lib->n_gradients == 0) {
        return TD_OK;
    }
    TD_TRY(td_object_graph_read(object_graph, (struct td_bytes){"", 0}, &g, err));
    int kept = 0;
    enum td_code rc = TD_OK;
    for (int i = 0; rc == TD_OK && i < lib->n_gradients; i++) {
        bool keep;
        rc = complete(g, lib->arena, &lib->gradients[i], &keep, err);
        if (rc == TD_OK && keep) {
            lib->gradients[kept++] = lib->gradients[i];
        }
    }
    lib->n_gradients = kept;
    td_object_graph_free(g);
    return rc;
}
