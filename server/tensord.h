/* server/tensord.h - the C API of libtensord: load a SavedModel, list its signatures, run one, free.
 *
 * Self-contained and installed. Every call that can fail returns 0 or a canonical status code (3
 * INVALID_ARGUMENT, 5 NOT_FOUND, ...) and writes a sentence to err (may be NULL). A model may be used from
 * any number of threads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TENSORD_H
#define TENSORD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENSORD_MAX_RANK 12
#define TENSORD_API __attribute__((visibility("default")))

typedef struct tensord_model tensord_model;
typedef struct {
    int code;
    char message[1024];
} tensord_error;

/* A named tensor. dtype is TensorFlow's DataType number (1 float, 3 int32, 7 string, 9 int64, 10 bool ...).
 * data: dense row-major elements; for strings an array of count tensord_bytes. */
typedef struct {
    const char *bytes;
    size_t length;
} tensord_bytes;
typedef struct {
    const char *name;
    int dtype;
    int rank;                       /* -1 unknown (signatures only) */
    int64_t dims[TENSORD_MAX_RANK]; /* -1 unknown (signatures only) */
    const void *data; /* borrowed in inputs; owned by the result in outputs; NULL in signatures */
    size_t bytes;     /* size of data */
    void *owner;      /* private; NULL in inputs */
} tensord_tensor;

typedef struct {
    const char *tags;        /* comma-separated; NULL: "serve" */
    const char *kernels;     /* NULL or "fast", "openblas", "reference" */
    const char *passes_off;  /* compiler passes not to run, by name; "all" */
    const char *scratch_dir; /* where the model's own save signatures may write; NULL: nowhere */
    const char *op_library;  /* comma-separated shared objects with further ops (tensord_op.h); NULL: none */
    int threads;             /* that one run may use, the caller's included; 0 and 1: it alone */
    const char *devices;     /* where runs compute: NULL or "cpu", "gpu", or "auto" */
    const char *device_module; /* path of the GPU's module; NULL: looked for where this library is */
    /* "streams=4,memory_limit=BYTES,memory_fraction=0.5,pinned_memory=BYTES,graph_run=3,tf32=1": the daemon's
     * flags for GPUs; NULL: none */
    const char *device_options;
} tensord_options;

TENSORD_API int tensord_load(const char *dir, const tensord_options *opts, tensord_model **out,
                             tensord_error *err);
TENSORD_API void tensord_free(tensord_model *m);
TENSORD_API int tensord_signature_count(const tensord_model *m);
/* Borrowed until tensord_free; NULL past the end. */
TENSORD_API const char *tensord_signature_name(const tensord_model *m, int i);
TENSORD_API const char *tensord_signature_method(const tensord_model *m, const char *signature);
/* Declared inputs (output = 0) or outputs (1): fills at most cap rows, returns how many there are, -1 for no
 * such signature. */
TENSORD_API int tensord_signature_tensors(const tensord_model *m, const char *signature, int output,
                                          tensord_tensor *rows, int cap);
/* Runs a signature ("" or NULL: the default one). *outputs is an array of *n_outputs tensors, freed by
 * tensord_results_free. */
TENSORD_API int tensord_run(tensord_model *m, const char *signature, const tensord_tensor *inputs,
                            int n_inputs, tensord_tensor **outputs, int *n_outputs, tensord_error *err);
/* What a gradient is asked of: targets are output names (their sums are added), wrt input names or
 * "var:NAME" (a variable's name or checkpoint key; a glob names several). */
typedef struct {
    const char *const *targets;
    int n_targets;
    const char *const *wrt;
    int n_wrt;
    const char *kind;                       /* NULL or "gradient", "jacobian", "hessian", "hvp" */
    const tensord_tensor *output_gradients; /* by name of the target; none: ones */
    int n_output_gradients;
    const tensord_tensor *vectors; /* of hvp: by name of the source */
    int n_vectors;
    int zero_unconnected; /* a source that nothing leads to gets zeros; else a tensor of dtype 0, no data */
    int recompute;
} tensord_gradient_options;
/* A tensor for each source, named as asked for (of a glob: "var:" and each variable's own name); and the
 * outputs, as tensord_run has them. Each array is freed by tensord_results_free. */
typedef struct {
    tensord_tensor *gradients, *outputs;
    int n_gradients, n_outputs;
} tensord_gradient_result;
/* Runs a signature and differentiates it. */
TENSORD_API int tensord_gradient(tensord_model *m, const char *signature, const tensord_tensor *inputs,
                                 int n_inputs, const tensord_gradient_options *opts,
                                 tensord_gradient_result *result, tensord_error *err);
TENSORD_API void tensord_results_free(tensord_tensor *outputs, int n_outputs);
/* JSON text listing all ops of this build with their dtypes; free with free(). */
TENSORD_API char *tensord_ops_json(void);
/* JSON text: signatures, ops, what is unsupported, sizes. Free with free(). */
TENSORD_API char *tensord_inspect_json(tensord_model *m);
/* Runs a signature to look inside: options is a JSON object with "mode" ("eager", "compare", "placement"),
 * "watch", "values", "max_nodes", "stop_on_nonfinite", "rtol", "atol" (NULL: {}). *out is the JSON document
 * that the server's :debug answers with; free with free(). */
TENSORD_API int tensord_debug_json(tensord_model *m, const char *signature, const tensord_tensor *inputs,
                                   int n_inputs, const char *options, char **out, tensord_error *err);
/* JSON text: names, dtypes, shapes and sizes in the checkpoint of a SavedModel directory, or at a checkpoint
 * prefix. Free with free(). */
TENSORD_API int tensord_checkpoint_json(const char *path, char **out, tensord_error *err);
/* JSON text: the GPUs that "gpu" in tensord_options would choose among, or what is missing. device_module: as
 * there. Free with free(). */
TENSORD_API int tensord_devices_json(const char *device_module, char **out, tensord_error *err);
TENSORD_API const char *tensord_version(void);

#ifdef __cplusplus
}
#endif
#endif
