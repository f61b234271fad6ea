/* proto/model/saved_model.h - reads a SavedModel directory: saved_model.pb or .pbtxt into graph, functions
 * and signatures.
 *
 * Everything in the file is hostile: sizes, counts, nesting and names are bounded (limits below) before use.
 * Reading does not run anything; server/models/servable.c restores variables and runs the init op.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_MODEL_SAVED_MODEL_H
#define TD_PROTO_MODEL_SAVED_MODEL_H

#include "core/graph/graph.h"

/* One input or output of a signature. */
struct td_tensor_info {
    const char *key;     /* the alias: "x" */
    const char *tensor;  /* "serving_default_x:0"; "" for composite and sparse encodings */
    enum td_dtype dtype; /* DT_FLOAT_REF counts as float; TD_DTYPE_NONE when the file says DT_INVALID */
    bool is_ref;
    struct td_shape shape;
    /* tensor names of a coo_sparse (values, indices, dense_shape) or composite tensor */
    const char *const *parts;
    int n_parts;
};

struct td_signature {
    const char *key;                 /* "serving_default" */
    const char *method;              /* "tensorflow/serving/predict" */
    struct td_tensor_info *in, *out; /* sorted by key */
    int n_in, n_out;
    struct td_tensor *defaults; /* n_in of them; dtype TD_DTYPE_NONE where the input has none */
};

/* A file in assets/ whose path is fed to a tensor when the init op runs. */
struct td_asset {
    const char *tensor, *filename;
};

struct td_saved_model {
    struct td_arena *arena; /* owns everything below */
    struct td_graph *graph;
    struct td_library *lib;
    struct td_signature *signatures; /* sorted by key; "__saved_model_init_op" included */
    int n_signatures;
    struct td_asset *assets;
    int n_assets;
    const char *restore_op;      /* saver_def.restore_op_name; NULL without saver */
    const char *filename_tensor; /* that the checkpoint's prefix is fed to */
    const char *save_tensor;     /* of the saver's saving half */
    const char *init_op;         /* node to run after restoring; NULL none */
    const char *const *tags;
    int n_tags;
    const char *const *trainable; /* TF1: names of the variables that its training moved ("w:0") */
    int n_trainable;
    struct td_bytes object_graph; /* SavedObjectGraph, serialized; empty without */
    const char *tf_version;
};

/* The meta graph whose tag set equals `tags` (comma-separated; "" the empty set; NULL: "serve", or the only
 * meta graph there is). Graph and functions come resolved against ops. NOT_FOUND for a missing file or tag
 * set, INVALID_ARGUMENT / FAILED_PRECONDITION / DATA_LOSS / UNIMPLEMENTED for a bad one; texts name file,
 * node and rule. Returns new; free with td_saved_model_free unless the arena was taken (td_model_new). */
TD_MUST enum td_code td_saved_model_read(const char *dir, const char *tags, const struct td_op_table *ops,
                                         struct td_saved_model **out, struct td_err *err);
/* The same from the bytes of a serialized SavedModel, borrowed for the call; dir is for error texts. */
TD_MUST enum td_code td_saved_model_parse(const char *dir, const void *bytes, size_t n, const char *tags,
                                          const struct td_op_table *ops, struct td_saved_model **out,
                                          struct td_err *err);
void td_saved_model_free(struct td_saved_model *m);
/* The file of dir as a serialized SavedModel, which the caller td_frees, and *chosen in it, the meta graph of
 * these tags: for who copies from it. Errors as td_saved_model_read. */
TD_MUST enum td_code td_saved_model_bytes(const char *dir, const char *tags, char **bytes,
                                          struct td_bytes *chosen, struct td_err *err);

#endif
