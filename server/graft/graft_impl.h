/* server/graft/graft_impl.h - what the files of a graft share: graft.c (its graph), graft_find.c,
 * graft_saver.c, graft_names.c and graft_write.c (files).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRAFT_GRAFT_IMPL_H
#define TD_SERVER_GRAFT_GRAFT_IMPL_H

#include "core/compile/ir.h"
#include "core/grad/grad.h"
#include "core/run/variable.h"
#include "proto/model/saved_model_write.h"
#include "server/models/variables.h"
#include "server/graft/graft.h"

struct td_graft_kept {              /* a variable that the new graph reads */
    const char *name, *key, *slice; /* slice: "" for a whole one */
    bool trainable, is_resource;
    struct td_variable *from; /* the original's, whose value it gets; NULL: a further one */
    struct td_value handle, read, start;
    struct td_node *assign;
};

struct td_graft {
    struct td_servable *servable;
    const struct td_signature *sig;
    struct td_arena *arena; /* NULL once the model has it */
    struct td_ir ir;
    struct td_emitter e;
    const char *scope;
    struct td_node *init; /* what the init op has become; NULL: none */
    const struct td_grad_formulas *formulas;
    struct td_variables *names; /* of the original's variables */
    struct td_graft_kept *kept;
    int n_kept, cap_kept;
    struct td_signature made; /* the new one */
    struct td_asset *assets;  /* those of the original that it still has */
    int n_assets;
    const char *filename, *save, *restore; /* the saver's */
    struct td_model *model; /* the finished graph: what the further variables start with runs there */
};

#define TD_GRAFT_BYTES ((size_t)2 << 30) /* of nodes, at most */

/* Edge e of n, of data or (behind those) control: the node it comes from. */
static inline struct td_node *td_graft_edge(const struct td_node *n, int e)
{
    return e < n->n_in ? n->in[e].node : n->control[e - n->n_in];
}
/* Room for n elements, and one more, in the graft's arena. */
void *td_graft_room(struct td_graft *g, int n, size_t size);
enum td_code td_graft_no_memory(struct td_err *err);
/* Feeds become placeholders of the shapes that the signature declares. */
void td_graft_placeholders(struct td_emitter *e, struct td_ir *ir, const struct td_signature *sig);
/* *yes: n, or something that it needs, has a flag of `wanted`; what those with a flag of `ends` need does not
 * count. In any order, cycles or not. */
TD_MUST enum td_code td_graft_below(const struct td_ir *ir, const struct td_node *n, uint32_t wanted,
                                    uint32_t ends, bool *yes, struct td_err *err);
/* graft_find.c */
TD_MUST enum td_code td_graft_find(struct td_graft *g, const char *at, struct td_value *out,
                                   struct td_shape *shape, struct td_err *err);
/* Nodes that nothing needs go: not the fetches, the roots, the init op, the signature's inputs. */
TD_MUST enum td_code td_graft_sweep(struct td_graft *g, struct td_err *err);
/* One more variable, all but empty. *out is good until the next. */
TD_MUST enum td_code td_graft_keep(struct td_graft *g, struct td_graft_kept **out, struct td_err *err);
/* The node that reads k's handle: k->read. */
TD_MUST enum td_code td_graft_reader(struct td_graft *g, struct td_graft_kept *k, struct td_err *err);
/* graft_saver.c: lists the variables that are read, and adds what saves, restores and initialises them. */
TD_MUST enum td_code td_graft_saver(struct td_graft *g, struct td_err *err);
/* graft_names.c: the finished nodes get ops, attributes and names that TensorFlow takes, the signature the
 * names of its tensors. */
TD_MUST enum td_code td_graft_names(struct td_graft *g);
/* The two texts, one behind the other, in the graft's arena; NULL: no memory. */
const char *td_graft_joined(struct td_graft *g, const char *a, const char *b);

#endif
