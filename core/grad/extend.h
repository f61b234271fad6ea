/* core/grad/extend.h - a part of a model, opened as an IR, to which someone adds nodes, closed as a model
 * derived of it with one callable or several.
 *
 *   struct td_extend x;
 *   TD_TRY(td_extend_open(&x, base, &part, err));            the part's nodes, calls inlined, loops lifted
 *   td_extend_feed(&x, "rate", TD_FLOAT, &rate, err);        further feeds
 *   td_extend_gradients(&x, &q, gradient, err);              backward nodes (core/grad/backward.h)
 *   struct td_emitter e = td_extend_emitter(&x, err);        any other nodes: formulas
 *   td_extend_wait(&x, update, read, err);                   control edges
 *   td_extend_close(&x, callables, n, &model, f, err);       or td_extend_abandon
 *
 * The IR's nodes become the graph's: the same nodes, ids in order. Everything lies in one arena, which the
 * derived model takes. No pass runs here: a callable compiles the graph as it does any other, so that what
 * runs eagerly is what was built. Variables are those of the model that it was made of.
 *
 * Ownership: base is borrowed while it is open, and counted by the derived model. Threads: one at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAD_EXTEND_H
#define TD_CORE_GRAD_EXTEND_H

#include "core/function/callable.h"
#include "core/grad/backward.h"
#include "core/grad/sources.h"

struct td_extend {
    struct td_model *base;
    struct td_arena *arena;
    struct td_grad_context ctx; /* what transformations of it share */
    struct td_ir ir;            /* feeds, fetches and roots are the part's until it is closed */
    struct td_value *feed;      /* those added since */
    int n_feeds, cap_feeds;
};

/* On failure nothing is left open. */
TD_MUST enum td_code td_extend_open(struct td_extend *x, struct td_model *base,
                                    const struct td_callable_opts *part, struct td_err *err);
/* The same of a function of base's library: its arguments are the IR's feeds, its results the fetches. */
TD_MUST enum td_code td_extend_open_function(struct td_extend *x, struct td_model *base, const char *name,
                                             struct td_err *err);
/* Forgets it all. Does nothing to one that was closed. */
void td_extend_abandon(struct td_extend *x);

/* Room for n elements of the arena, and one more; NULL: no memory. */
void *td_extend_room(struct td_extend *x, int n, size_t size);
/* One more feed, behind those there are. name is copied. */
TD_MUST enum td_code td_extend_feed(struct td_extend *x, const char *name, enum td_dtype dtype,
                                    struct td_value *out, struct td_err *err);
/* Adds nodes named "NAME/OP_NUMBER", NAME that of the node at hand (core/graph/emit.h). */
struct td_emitter td_extend_emitter(struct td_extend *x, struct td_err *err);
/* n, of the IR, runs after `before` has. Twice the same does nothing more. */
TD_MUST enum td_code td_extend_wait(struct td_extend *x, struct td_node *n, struct td_node *before,
                                    struct td_err *err);

/* Brings the IR in order without dropping the further feeds, nor what these values need; those without a node
 * are passed over. */
TD_MUST enum td_code td_extend_order(struct td_extend *x, const struct td_value *keep, int n_keep,
                                     struct td_err *err);

/* Targets and what they are differentiated by. */
struct td_extend_gradients {
    struct td_grad_query targets; /* its sources are those below */
    const struct td_grad_source *source;
    int n_sources;
    const struct td_value *keep; /* what else was added to the IR and is needed */
    int n_keep;
};
/* result[i]: the dense gradient by source i (core/grad/sources.h); no node: nothing leads there. Orders the
 * IR first. */
TD_MUST enum td_code td_extend_gradients(struct td_extend *x, const struct td_extend_gradients *q,
                                         struct td_value *result, struct td_err *err);

/* callable[i] is what to make of the graph: its feeds, fetches and targets are values and nodes of the IR.
 * What none of them needs is gone. *model returns new; f[i] is its own. x is closed, also on failure. */
TD_MUST enum td_code td_extend_close(struct td_extend *x, const struct td_callable_opts *callable, int n,
                                     struct td_model **model, struct td_callable **f, struct td_err *err);

#endif
