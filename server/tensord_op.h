/* server/tensord_op.h - ops of your own: what a shared object for --op_library is made of.
 *
 * Self-contained, installed beside tensord.h, C and C++. A library exports one function, named
 * tensord_op_library (declared at the end of this file), which is handed the table of everything that ops may
 * call and answers with the ops. It is not linked to tensord: a library built once works with every later
 * tensord of the same TENSORD_OP_ABI. Fields are only ever added at the end of the structs here, and their
 * sizes are passed along.
 *
 * An op is a row: name, signature, element types, a shape function and a kernel.
 *
 *   signature  TensorFlow's OpDef as text: "(x:T, w:float, more:N*T) -> (y:T, n:int64) {T:type; N:int;
 *              low:float=0.0}".
 *              Argument types are dtype names (half bfloat16 float double int8 .. uint64 bool complex64
 *              complex128 string), type attributes (T), lists of types (Tin where Tin:list(type)) or
 *              repetitions (N*T). Attributes are string int float bool type shape tensor func or list(...) of
 *              them, with "=default" where there is one.
 *   infer      computes output shapes, and checks ranks and sizes. It is called when a plan is bound to
 *              shapes, with dims and ranks that may be unknown (-1), and again before each run that had
 *              something unknown, then with every shape known. It sets what it can tell; an output that
 *              depends on data stays unknown.
 *   run        computes. Gets each output with api->output and writes every element of it.
 *
 * Both return 0 or what api->fail returned. They may run on any number of threads at once, so they keep no
 * state of their own. A context and what it hands out are valid until the function returns. Codes are gRPC's:
 * 3 INVALID_ARGUMENT, 8 RESOURCE_EXHAUSTED, 9 FAILED_PRECONDITION, 12 UNIMPLEMENTED, 13 INTERNAL.
 *
 * A row flagged TENSORD_OP_KERNEL is no op but a further kernel of an op that tensord has: it has that op's
 * name and no signature. It is asked before the op's own kernels, once for each set of shapes:
 *
 *   prepare    may refuse (api->refuse, with the reason), may make *state for run and ask for workspace
 *              bytes.
 *              Without one the kernel serves every shape.
 *   release    frees a state
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TENSORD_OP_H
#define TENSORD_OP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENSORD_OP_ABI 1
#define TENSORD_OP_MAX_RANK 12

typedef struct tensord_op_context tensord_op_context;

typedef struct {
    int rank;                          /* -1 unknown */
    int64_t dims[TENSORD_OP_MAX_RANK]; /* -1 unknown */
} tensord_op_shape;

/* dtype is TensorFlow's DataType number (1 float, 2 double, 3 int32, 7 string, 9 int64, 10 bool ...). data:
 * dense, row-major, may be NULL when there are no elements; elements of strings are reached by api->string
 * and set_string. */
typedef struct {
    int dtype;
    tensord_op_shape shape; /* known */
    int64_t count;          /* of elements */
    void *data;             /* of an input: not to be written */
} tensord_op_tensor;

typedef struct {
    uint32_t abi, size; /* TENSORD_OP_ABI and sizeof of the program that loads the library */

    /* The op fails: "node 'x' (Op): ..." in front of a text in printf's manner. Returns code. */
    int (*fail)(tensord_op_context *c, int code, const char *format, ...);
    const char *(*node_name)(const tensord_op_context *c);

    /* Attributes: element i of a list, or 0. One that the signature does not have, or i beyond it, gives 0,
     * "" or rank -1. */
    int (*attr_length)(const tensord_op_context *c, const char *name);
    int64_t (*attr_int)(const tensord_op_context *c, const char *name, int i);
    double (*attr_float)(const tensord_op_context *c, const char *name, int i);
    int (*attr_bool)(const tensord_op_context *c, const char *name, int i);
    int (*attr_type)(const tensord_op_context *c, const char *name, int i);
    const char *(*attr_string)(const tensord_op_context *c, const char *name, int i, size_t *length);
    void (*attr_shape)(const tensord_op_context *c, const char *name, int i, tensord_op_shape *out);

    /* Inputs and outputs are counted as tensors, not as arguments: N of "N*T". Indices out of range have no
     * dtype (0) and no rank. In infer an input's shape may be unknown, and so may an output's in run. */
    int (*input_count)(const tensord_op_context *c);
    int (*output_count)(const tensord_op_context *c);
    int (*input_dtype)(const tensord_op_context *c, int i);
    int (*output_dtype)(const tensord_op_context *c, int i);
    void (*input_shape)(const tensord_op_context *c, int i, tensord_op_shape *out);

    /* Input i with its data. Returns 1; 0 where there is none or, in infer, the value is not known yet. */
    int (*input)(const tensord_op_context *c, int i, tensord_op_tensor *out);

    /* In infer: what is known of output i's shape. Returns 0 or a code. */
    int (*set_shape)(tensord_op_context *c, int i, const tensord_op_shape *shape);

    /* In run: output i to be written, of the shape that infer told (shape NULL) or of this one. Once an
     * output. Returns 0 or a code. Elements are uninitialised; strings are empty. */
    int (*output)(tensord_op_context *c, int i, const tensord_op_shape *shape, tensord_op_tensor *out);
    /* In run: bytes, aligned to 64, until the function returns. Returns 0 or a code. */
    int (*scratch)(tensord_op_context *c, size_t bytes, void **out);
    /* In run: 0, or the code to return at once because the request was cancelled or ran out of time; ask in
     * long loops. */
    int (*stopped)(tensord_op_context *c);

    /* Element i of a string tensor. string: valid until the element changes; a NUL follows the bytes. */
    const char *(*string)(const tensord_op_tensor *t, int64_t i, size_t *length);
    int (*set_string)(tensord_op_context *c, const tensord_op_tensor *output, int64_t i, const char *bytes,
                      size_t length);

    /* In prepare: this kernel does not serve these shapes, and why: a text that stays, such as a literal.
     * Returns what prepare shall return. */
    int (*refuse)(tensord_op_context *c, const char *reason);
    /* In run of a kernel row: what its prepare made and asked for (aligned to 64, uninitialised, this call's
     * alone). */
    void *(*state)(const tensord_op_context *c);
    void *(*workspace)(const tensord_op_context *c);
} tensord_op_api;

enum tensord_op_flags {
    /* every run counts: never computed ahead, merged with an equal node or left out */
    TENSORD_OP_STATEFUL = 1,
    TENSORD_OP_KERNEL = 2 /* a further kernel of the op of this name */
};

typedef struct {
    const char *name; /* "MyClip": letters, digits and '_', and no op that tensord has */
    const char *signature;
    uint32_t flags;
    const char *types; /* dtypes the kernel takes, by attribute: "T: float, double; U: string"; NULL: all */
    int (*infer)(tensord_op_context *c); /* NULL: output shapes are known when run */
    int (*run)(tensord_op_context *c);
    /* Of kernel rows; may be NULL. Inputs that are no constants have no data in prepare. */
    int (*prepare)(tensord_op_context *c, void **state, size_t *workspace_bytes);
    void (*release)(void *state);
} tensord_op;

typedef struct {
    uint32_t abi;     /* TENSORD_OP_ABI */
    uint32_t op_size; /* sizeof(tensord_op) */
    uint32_t n_ops;
    const tensord_op *ops;
} tensord_op_library_info;

/* What a library defines. The table stays valid as long as the library is loaded; so must the answer. NULL:
 * the library will not work with this program. */
#define TENSORD_OP_EXPORT __attribute__((visibility("default")))
TENSORD_OP_EXPORT const tensord_op_library_info *tensord_op_library(const tensord_op_api *api);

#ifdef __cplusplus
}
#endif
#endif
