/* server/train/step_graph.h - the graph of a training step while it is made: from the signature to the
 * gradients in step_build.c, from there to assigned variables in step_update.c.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_STEP_GRAPH_H
#define TD_SERVER_TRAIN_STEP_GRAPH_H

#include "core/grad/extend.h"
#include "kernels/train/losses.h"
#include "server/train/step_impl.h"

/* A variable that is trained. */
struct td_step_trained {
    const struct td_chosen *c;
    struct td_value w;       /* what it holds, all parts, in the dtype that is computed in: float or double */
    struct td_value g;       /* its gradient: as it comes, later in the dtype of w, all in it, clipped */
    struct td_value penalty; /* the gradient of its penalties; no node: it has none */
    struct td_value new_w;   /* what it is updated to */
    int place;               /* in the order in which gradients are made */
    bool adapter;            /* a factor of what is added to a weight (step_lora.c): the step's own */
};

/* A weight of a product: what a low-rank update can be made for. As a matrix, its first `split` dimensions
 * are the rows (-1: all but the last), or as many as leave `columns` for the others. */
struct td_step_weight {
    const char *resource;
    int split;
    int64_t columns; /* that a Reshape before the product makes; 0: there is none, or it does not tell */
};

/* What is added to a weight: scale * a b, of adapters a and b. */
struct td_step_lora {
    const struct td_chosen *weight, *a, *b;
    const char *base; /* resource of what the weight was */
    enum td_dtype dtype;
    int64_t rows, columns;
};

/* Nodes that take or assign variables in one kind of run. */
struct td_step_effects {
    struct td_node **node;
    const char **resource; /* the variable */
    int n, cap;
};

struct td_step_graph {
    struct td_step *s;
    const struct td_signature *sig;
    struct td_fault *f;
    struct td_extend x;
    struct td_value *field; /* by field of the layout: its feed */
    struct td_value *loss;  /* by loss, before its weight */
    struct td_value data_loss, penalty, total, norm;
    struct td_value *sums; /* by metric */
    /* of several processes: the feed (enum td_step_share_field), what losses need of it, and how many
     * processes are to stop */
    struct td_value share, stops;
    struct td_loss_share own;
    struct td_node *check;    /* fails unless total is finite */
    struct td_value *rate, t; /* fed: by optimizer in use */
    struct td_value number;   /* fed: steps so far, int32; no node: nothing is drawn */
    bool evaluates;           /* the graph that evaluates, and no other */
    struct td_step_trained *trained;
    int n_trained;
    /* method lora: the weights themselves stand behind the trained adapters */
    int n_merged;
    struct td_step_lora *lora; /* by weight */
    struct td_step_weight *weight;
    int n_weights, cap_weights;
    /* the training form: variables that it assigns by itself */
    const char **moved;
    int n_moved;
    struct td_step_effects effects[TD_RUN_KINDS];
};

/* A handle of the variable `resource`; shape NULL: one that the model has. */
struct td_value td_step_handle(struct td_emitter *e, const char *resource, enum td_dtype dtype,
                               const struct td_shape *shape);
/* Dropout of the part, which is inert as it is served, becomes what it is in training (step_draw.c). */
TD_MUST enum td_code td_step_draw(struct td_step_graph *k);
/* The part of the model that a signature is; an error is param's. */
TD_MUST enum td_code td_step_open_signature(struct td_step_graph *k, const struct td_signature *sig,
                                            const char *param);
/* Opens the training form that the file carries in place of the signature (step_form.c); and, before anything
 * is added, which variables it assigns: names of resources. */
TD_MUST enum td_code td_step_open_form(struct td_step_graph *k);
TD_MUST enum td_code td_step_form_assigned(struct td_step_graph *k, const char ***out, int *n);
/* Method lora (step_lora.c): notes which variables are weights of products, before anything is added; what is
 * trained then are adapters of those that are chosen; after their update they are merged. */
TD_MUST enum td_code td_step_find_weights(struct td_step_graph *k);
TD_MUST enum td_code td_step_adapt(struct td_step_graph *k);
TD_MUST enum td_code td_step_merge(struct td_step_graph *k, struct td_emitter *e);
/* In run `kind` the variable is assigned the value. */
void td_step_assign(struct td_step_graph *k, struct td_emitter *e, enum td_step_run_kind kind,
                    const char *resource, enum td_dtype dtype, const struct td_shape *shape,
                    struct td_value value);
/* v, one of k->trained, with all of its parts. */
TD_MUST enum td_code td_step_assign_trained(struct td_step_graph *k, struct td_emitter *e,
                                            enum td_step_run_kind kind, const struct td_step_trained *v,
                                            struct td_value w);

/* ---- of several processes (step_share.c): without others each does nothing */
/* Before the losses: the feed that says what of the batch is at hand. */
TD_MUST enum td_code td_step_add_share(struct td_step_graph *k);
/* Behind losses, gradients and metrics: losses and sums of metrics become those of the whole batch. */
TD_MUST enum td_code td_step_share_numbers(struct td_step_graph *k);
/* The gradient over all processes; last: no other comes behind it. */
struct td_value td_step_share_gradient(struct td_step_graph *k, struct td_emitter *e,
                                       const struct td_step_trained *v, bool last);
/* shape with the rows of the whole batch in place of those at hand; and of x, which is of that shape, the
 * rows at hand. */
struct td_value td_step_share_whole(struct td_step_graph *k, struct td_emitter *e, struct td_value shape);
struct td_value td_step_share_rows(struct td_step_graph *k, struct td_emitter *e, struct td_value x,
                                   struct td_value shape);
/* The nodes that begin sums, in the order of their numbers: what is run first. Room for all of
 * k->own.n_sums. */
int td_step_list_sums(const struct td_step_graph *k, enum td_step_run_kind kind, struct td_node **out);

/* From gradients to assignments; makes the states and rows of the result. */
TD_MUST enum td_code td_step_add_updates(struct td_step_graph *k);
/* Makes the model and its callables, and starts the slots. */
TD_MUST enum td_code td_step_close(struct td_step_graph *k);

#endif
