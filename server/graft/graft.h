/* server/graft/graft.h - a part of a loaded version with nodes and variables added to it, as a version of its
 * own: a new head on the layers of another model.
 *
 *   td_graft_open       the signature's part of the graph, calls inlined; what the init op runs beside it
 *   td_graft_cut        "NODE:PORT" as a value; what only the signature's outputs needed will be gone
 *   td_graft_emitter    further nodes: formulas
 *   td_graft_variable   a further variable, and what it starts with
 *   td_graft_close      one output; saver, initializers, names
 *   td_graft_write      saved_model.pb, variables/ and assets/
 *
 * The version that is written has one signature: the inputs of the one that it was made of, under its key,
 * and the new output. Variables that are still read keep their checkpoint keys, names and values; tables and
 * assets are initialised as before. Its form is TensorFlow 1's (proto/model/saved_model_write.h), whatever
 * that of the original is.
 *
 * A node is named as tensorctl and :debug show it; the last parts of a name will do where they tell it apart
 * ("dense_1/Relu" for "StatefulPartitionedCall/model/dense_1/Relu"), and ":0" may be left out.
 *
 * Ownership: the version it is made of is counted until td_graft_free. Threads: one at a time.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_GRAFT_GRAFT_H
#define TD_SERVER_GRAFT_GRAFT_H

#include "core/graph/emit.h"
#include "server/models/servable.h"
#include "server/models/variables.h"

struct td_graft;

/* Returns new. UNIMPLEMENTED: the signature has inputs that are no dense tensors. */
TD_MUST enum td_code td_graft_open(struct td_servable *s, const struct td_signature *sig,
                                   struct td_graft **out, struct td_err *err);
void td_graft_free(struct td_graft *g); /* accepts NULL */

/* The value that `at` names, and its shape as far as it can be told. INVALID_ARGUMENT: there is no such node
 * (names some that there are), several, or it lies inside of a loop or a branch. */
TD_MUST enum td_code td_graft_cut(struct td_graft *g, const char *at, struct td_value *out,
                                  struct td_shape *shape, struct td_err *err);

/* Adds nodes named "SCOPE/OP". scope: borrowed until the next call. Owned by g; errors stick in it. */
struct td_emitter *td_graft_emitter(struct td_graft *g, const char *scope);
/* `stem`, or with a number behind it: what no variable's name or key begins with. */
#define TD_GRAFT_SCOPE 80
void td_graft_scope(const struct td_variables *names, const char *stem, char out[TD_GRAFT_SCOPE]);

struct td_graft_variable {
    const char *name; /* and checkpoint key; the graft's scope in front makes it unique */
    struct td_shape shape;
    struct td_value start; /* float32: what it holds at first, made by the emitter */
};
/* Its value, as a read of it. */
TD_MUST enum td_code td_graft_variable(struct td_graft *g, const struct td_graft_variable *v,
                                       struct td_value *read, struct td_err *err);

/* The signature's one output is `value`, of that shape as far as it is known, under that key. Reports what
 * has stuck in the emitter. */
TD_MUST enum td_code td_graft_close(struct td_graft *g, const char *key, struct td_value value,
                                    const struct td_shape *shape, struct td_err *err);
/* The signature, and variable i by key and name (NULL past the end), of one that is closed: borrowed. */
const struct td_signature *td_graft_signature(const struct td_graft *g);
const char *td_graft_variable_key(const struct td_graft *g, int i);
const char *td_graft_variable_name(const struct td_graft *g, int i);
/* Into dir, which must not be there; on disk when it returns. On failure some of it may be there. */
TD_MUST enum td_code td_graft_write(struct td_graft *g, const char *dir, struct td_err *err);

#endif
