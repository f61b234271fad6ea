/* server/models/variables.h - the variables of a version by the names that people know them by.
 *
 *   resource   what the engine calls it: "dense/kernel"; a part of a TF1 variable that was cut: "w/part_0"
 *   key        what the checkpoint calls it: "layer_with_weights-0/kernel/.ATTRIBUTES/VARIABLE_VALUE" (what
 *              stands before /.ATTRIBUTES will do); of a TF1 model its name, one for all parts of it
 *   object     what the object graph calls it, which need not be the only one of that name
 *
 * Which key belongs to which resource is read off the graph that restores them.
 *
 * Threads: any, once read. Ownership: names are the table's.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_VARIABLES_H
#define TD_SERVER_MODELS_VARIABLES_H

#include "proto/model/object_graph.h"
#include "server/models/servable.h"

struct td_variables;

/* A variable, or the parts of one in their order. */
struct td_variable_found {
    const char *name; /* that it was found by */
    const char *const *resources;
    int n;    /* parts */
    int axis; /* that they follow each other along, counted from the last: negative */
    enum td_dtype dtype;
};
typedef enum td_code td_variable_fn(void *ctx, const struct td_variable_found *v, struct td_err *err);

/* Returns new. */
TD_MUST enum td_code td_variables_read(struct td_servable *s, struct td_variables **out, struct td_err *err);
void td_variables_free(struct td_variables *v); /* accepts NULL */

/* One row of the table: a variable, or all parts of one. */
struct td_variable_row {
    const char *const *resources; /* n of them, parts in their order */
    int n, axis;                  /* as in td_variable_found */
    enum td_dtype dtype;
    struct td_shape shape; /* of what it holds, all parts together; unknown when it was never assigned */
    const char *key;       /* that the checkpoint has it by, in full; NULL: none is known */
    const char *stem;      /* the key without /.ATTRIBUTES/VARIABLE_VALUE; the key itself where it has none */
    const char *name;      /* its own */
    bool trainable;        /* as the file says */
};
int td_variables_count(const struct td_variables *v);
/* Row i, in the order of keys; borrowed. */
struct td_variable_row td_variables_row(const struct td_variables *v, int i);

/* The version's object graph, with the keys that its checkpoint's own has: new, or NULL where the file has
 * none. */
TD_MUST enum td_code td_variables_objects(struct td_servable *s, struct td_object_graph **out,
                                          struct td_err *err);

/* Calls fn for what `text` names: the variable of that key, resource or object, with ":0" behind it or not;
 * else, where it holds * or ?, each variable of a float or complex dtype that training moves and of whose
 * names one matches. INVALID_ARGUMENT lists what there is, or says that several have that name. */
TD_MUST enum td_code td_variables_find(const struct td_variables *v, const char *text, td_variable_fn *fn,
                                       void *ctx, struct td_err *err);

/* Keys that hold one variable twice, as Keras 3 exports do: `key` is the one the functions' variable is known
 * by in the object graph (tf.saved_model.load restores by it), `twin` the one that the graph restores it from
 * (TF Serving does). Calls fn for each such pair. */
typedef enum td_code td_twin_fn(void *ctx, const char *key, const char *twin, struct td_err *err);
TD_MUST enum td_code td_variables_each_twin(const struct td_variables *v, td_twin_fn *fn, void *ctx,
                                            struct td_err *err);

#endif
