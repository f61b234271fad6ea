/* kernels/data/parse_columns.h - features of many examples into dense, sparse and ragged outputs.
 *
 * A parsing op first finds the message of every (example, key), then writes each key's outputs in two passes
 * over these cells: count, then copy. Cells are spans of the serialized strings, which live as long as the
 * call.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_DATA_PARSE_COLUMNS_H
#define TD_KERNELS_DATA_PARSE_COLUMNS_H

#include "core/graph/graph.h"
#include "core/graph/op.h"
#include "kernels/data/example_reader.h"

struct td_parse {
    struct td_call *c;
    const struct td_tensor *serialized;
    const struct td_tensor *names; /* one an example, or empty: for error texts; may be NULL */
    int64_t rows;                  /* examples */
    bool single;                   /* a scalar was given: outputs have no batch axis */
    bool scalar_splits; /* then row splits are a scalar 0, as sequence examples have them; else [0] */
};

/* Cells of one key: feature of example i is cell[i * stride]. */
struct td_cells {
    struct td_bytes key;
    enum td_dtype dtype;
    const struct td_example_span *cell;
    int64_t stride;
};

/* Reads map `field` of every example: *found gets rows * n cells, example by example (call's scratch). */
TD_MUST enum td_code td_parse_read(const struct td_parse *p, uint32_t field, const struct td_bytes *keys,
                                   int n, struct td_example_span **found, struct td_err *err);
/* "Name: ..., Key: ..." of example i, in buf. */
char *td_parse_where(const struct td_parse *p, struct td_bytes key, int64_t i, char *buf, size_t bytes);
/* Number of values in a cell; 0 for an absent feature (*absent set). Checks its type. */
TD_MUST enum td_code td_parse_count(const struct td_parse *p, const struct td_cells *k, int64_t row,
                                    struct td_example_span cell, int64_t *n, bool *absent,
                                    struct td_err *err);

/* Outputs o, o + values, o + shape: [n, 2] indices, [n] values, [2] shape; one dimension less when single. */
TD_MUST enum td_code td_parse_sparse(const struct td_parse *p, const struct td_cells *k, int out_indices,
                                     int out_values, int out_shape, struct td_err *err);
TD_MUST enum td_code td_parse_ragged(const struct td_parse *p, const struct td_cells *k, int out_values,
                                     int out_splits, struct td_err *err);
/* [rows, shape...], with the default where a feature is absent; a first dim of -1 is padded to the
 * longest. */
TD_MUST enum td_code td_parse_dense(const struct td_parse *p, const struct td_cells *k,
                                    const struct td_shape *shape, const struct td_tensor *def, int out,
                                    struct td_err *err);

/* Checks of shape functions: a dtype that features have, and dense shapes with their defaults. */
TD_MUST enum td_code td_parse_check_type(const struct td_infer *c, enum td_dtype t, struct td_err *err);
/* The attribute lists a type of row splits, int32 or int64, for each of the n ragged values. */
TD_MUST enum td_code td_parse_check_splits(const struct td_infer *c, const char *attr, int n,
                                           struct td_err *err);
TD_MUST enum td_code td_parse_check_dense(const struct td_infer *c, const struct td_shape *shape,
                                          const struct td_shape *def, struct td_err *err);
/* [batch] + shape. */
TD_MUST enum td_code td_parse_dense_shape(const struct td_shape *batch, const struct td_shape *shape,
                                          struct td_shape *out, struct td_err *err);

#endif
