/* proto/model/saved_model_write.h - writes saved_model.pb: a graph that was made of a loaded model's, its
 * signatures, and what saves and restores its variables.
 *
 * The file has TensorFlow 1's form: one meta graph whose nodes are all there is, a saver, an init op, and
 * collections that name the variables; no object graph. It is what tf.saved_model.load, Keras's TFSMLayer,
 * TensorFlow 1's loader and TensorFlow Serving load alike, whatever form the model had that it was made of.
 * Tags, the producer's versions, its list of ops, and functions that loops and branches call are that
 * model's, byte for byte.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_MODEL_SAVED_MODEL_WRITE_H
#define TD_PROTO_MODEL_SAVED_MODEL_WRITE_H

#include "proto/bytes/sink.h"
#include "proto/model/saved_model.h"

/* A variable as its collections have it: names of nodes ("w/Assign") and of values ("w/read:0"). */
struct td_new_variable {
    const char *name; /* "w:0" */
    const char *initializer, *snapshot, *initial_value;
    bool is_resource, trainable;
};

struct td_new_model {
    const char *dir, *tags;       /* of the model that it is made of, as td_saved_model_read was given them */
    const struct td_library *lib; /* its functions */
    struct td_node *const *nodes; /* resolved; their names differ from each other */
    int n_nodes;
    const struct td_signature *signatures;
    int n_signatures;
    const char *filename_tensor, *save_tensor, *restore_op; /* the saver's; NULL: no variables */
    const char *init_op;                                    /* NULL: none */
    const struct td_asset *assets;
    int n_assets;
    const struct td_new_variable *variables;
    int n_variables;
};

/* Appends the serialized SavedModel. NOT_FOUND, DATA_LOSS: the original's file is gone or damaged;
 * UNIMPLEMENTED names a function that it has only as a template; RESOURCE_EXHAUSTED beyond protobuf's 2 GiB.
 */
TD_MUST enum td_code td_saved_model_write(const struct td_new_model *m, struct td_sink *s,
                                          struct td_err *err);

#endif
