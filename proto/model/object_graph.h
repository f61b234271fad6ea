/* proto/model/object_graph.h - the object graph of a TF2 SavedModel: what Python objects it had, their
 * variables and functions.
 *
 * Needed to name variables as people know them, to tell which are trainable, to find the checkpoint key of
 * each, and to call functions of models that have no signatures. Node 0 is the root. The reader takes the
 * serialized SavedObjectGraph (td_saved_model.object_graph) and, where there is one, the checkpoint's own
 * graph of the same objects (key _CHECKPOINTABLE_OBJECT_GRAPH), which it joins by walking both from their
 * roots by child name.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_MODEL_OBJECT_GRAPH_H
#define TD_PROTO_MODEL_OBJECT_GRAPH_H

#include "core/base/arena.h"
#include "core/graph/attr.h"

enum td_object_kind { /* the numbers of SavedObject's oneof */
                      TD_OBJECT_NONE = 0,
                      TD_OBJECT_USER = 4,
                      TD_OBJECT_ASSET = 5,
                      TD_OBJECT_FUNCTION = 6,
                      TD_OBJECT_VARIABLE = 7,
                      TD_OBJECT_BARE_FUNCTION = 8,
                      TD_OBJECT_CONSTANT = 9,
                      TD_OBJECT_RESOURCE = 10,
                      TD_OBJECT_CAPTURED = 12
};

struct td_child {
    const char *name;
    int node;
};
struct td_object_slot {
    int variable, node;
    const char *name;
}; /* an optimizer's slot of a variable */

struct td_object {
    enum td_object_kind kind;
    const char
        *text; /* USER identifier, CONSTANT operation, name of VARIABLE or CAPTURED, BARE_FUNCTION function */
    const char *path; /* child names from the root, shortest, escaped: "layers/0/kernel"; NULL unreachable */
    const char *key;  /* VARIABLE: checkpoint key */
    struct td_child *children;
    int n_children;
    struct td_object_slot *slots;
    int n_slots;
    const char **functions; /* FUNCTION: names of its concrete functions; CAPTURED: of the one it is in */
    int n_functions;
    int asset;           /* ASSET: index of the asset file */
    enum td_dtype dtype; /* VARIABLE */
    struct td_shape shape;
    bool trainable;
};

struct td_spec {
    const char *name;
    int place; /* among all that the structure holds, also what is no tensor (None) */
    enum td_dtype dtype;
    struct td_shape shape;
};
struct td_concrete {
    const char *name; /* of the function in the library */
    int *bound;       /* nodes whose handles follow the tensor arguments */
    int n_bound;
    struct td_spec *in, *out; /* tensors of the structured signature, flattened */
    int n_in, n_out;
    bool given_true; /* a True is among its arguments, as of a layer that was called with training=True */
};

struct td_object_graph {
    struct td_arena *arena; /* owns everything, this struct too */
    struct td_object *nodes;
    int n_nodes;
    struct td_concrete *functions; /* sorted by name */
    int n_functions;
};

/* trackable: the checkpoint's graph, may be empty. Returns new. INVALID_ARGUMENT names the node. */
TD_MUST enum td_code td_object_graph_read(struct td_bytes saved, struct td_bytes trackable,
                                          struct td_object_graph **out, struct td_err *err);
void td_object_graph_free(struct td_object_graph *g); /* accepts NULL */
/* NULL when there is none of that name. */
const struct td_concrete *td_object_graph_function(const struct td_object_graph *g, const char *name);

#endif
