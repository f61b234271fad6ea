/* tests/bench/call.h - a signature call read from a file, timed on either of two engines.
 *
 * call.c is the program; call_tensord.c and call_tensorflow.c are the two backends it is linked with. Both
 * get the same bytes. op_calls.py writes the files: native integers, names and strings as a 32-bit length and
 * the bytes,
 *
 *   signature, number of inputs { name, "node:port", dtype, rank, dims as int64, elements, data }, number of
 * outputs { name, "node:port" }
 *
 * where the data of a string tensor is a length and the bytes for each element.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_BENCH_CALL_H
#define TD_TESTS_BENCH_CALL_H

#include <stdio.h>

#include "server/tensord.h"

enum { BENCH_MAX_TENSORS = 64, BENCH_STRING = 7 };

struct bench_tensor {
    char *name, *node; /* the signature's key, the graph's "node:port" */
    int dtype, rank;
    int64_t dims[TENSORD_MAX_RANK];
    size_t count, bytes; /* elements; bytes of data */
    void *data;          /* strings: tensord_bytes[count] */
};

struct bench_case {
    char *signature;
    int threads; /* that a call may use */
    int n_in, n_out;
    struct bench_tensor in[BENCH_MAX_TENSORS], out[BENCH_MAX_TENSORS];
};

/* Load a SavedModel and make ready to run c; NULL or what went wrong. */
const char *bench_load(const char *dir, const struct bench_case *c);
/* One call: inputs in, outputs made, written to `to` by bench_write where it is not NULL (not those of
 * strings), and freed. NULL or what went wrong. */
const char *bench_run(FILE *to);
/* An output, as inputs are in a case but for the number of elements; the name twice. */
void bench_write(FILE *to, const char *name, int dtype, int rank, const int64_t *dims, const void *data,
                 size_t bytes);

#endif
