/* proto/pb/shape_pb.c - shapes from bytes and from protobuf-c's struct; dtypes from numbers.
 *
 * Both readers of shapes collect dims in an array of TD_MAX_RANK and leave it to td_shape_make to judge them;
 * -1 is an unknown size there. The one over bytes serves the many shapes of a graph, the other the few
 * messages that are unpacked as a whole (signatures, the object graph).
 *
 * Does not: write shapes; proto/pb/tensor_pb.c and proto/model/model_pb.c each do for their messages.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/shape_pb.h"

#include "proto/pb/pb_reader.h"
#include "proto/schema/tensorflow.pb-c.h"

enum { DIM = 2, UNKNOWN_RANK = 3, DIM_SIZE = 1 };

static enum td_code read_dim(const struct td_scan_field *dim, int64_t *size, struct td_err *err)
{
    struct td_scan s = td_scan_make(dim->p, dim->len);
    struct td_scan_field f;
    *size = 0;
    while (td_scan_next(&s, &f)) {
        if (f.number == DIM_SIZE && f.type == TD_WIRE_VARINT) {
            *size = (int64_t)f.u64;
        }
    }
    return s.bad ? td_pb_malformed("TensorShapeProto", err) : TD_OK;
}

enum td_code td_shape_from_bytes(const void *bytes, size_t n, struct td_shape *out, struct td_err *err)
{
    struct td_scan s = td_scan_make(bytes, n);
    struct td_scan_field f;
    int64_t dims[TD_MAX_RANK];
    int rank = 0;
    bool unknown = false;
    while (td_scan_next(&s, &f)) {
        if (f.number == DIM && f.type == TD_WIRE_BYTES) {
            TD_FAIL_IF(rank == TD_MAX_RANK, err, INVALID_ARGUMENT,
                       "shape: its rank is above %d, the largest here", TD_MAX_RANK);
            TD_TRY(read_dim(&f, &dims[rank++], err));
        } else if (f.number == UNKNOWN_RANK && f.type == TD_WIRE_VARINT) {
            unknown = f.u64 != 0;
        }
    }
    if (s.bad) {
        return td_pb_malformed("TensorShapeProto", err);
    }
    if (unknown) {
        *out = td_shape_unknown();
        return TD_OK;
    }
    return td_shape_make(out, dims, rank, err);
}

enum td_code td_shape_from_proto(const struct Tensorflow__TensorShapeProto *p, struct td_shape *out,
                                 struct td_err *err)
{
    int64_t dims[TD_MAX_RANK];
    if (p == NULL || p->unknown_rank) {
        *out = td_shape_unknown();
        return TD_OK;
    }
    TD_FAIL_IF(p->n_dim > TD_MAX_RANK, err, INVALID_ARGUMENT, "shape of rank %zu: the largest rank is %d",
               p->n_dim, TD_MAX_RANK);
    for (size_t i = 0; i < p->n_dim; i++) {
        dims[i] = p->dim[i]->size;
    }
    return td_shape_make(out, dims, (int)p->n_dim, err);
}

enum td_code td_dtype_from_number(int number, enum td_dtype *out, struct td_err *err)
{
    enum { REF = 100, LAST_KNOWN = 33 };
    int base = number > REF ? number - REF : number;
    TD_FAIL_IF(base < 0 || base > LAST_KNOWN, err, INVALID_ARGUMENT, "%d is not a DataType", number);
    *out = td_dtype_valid(base) ? (enum td_dtype)base : TD_DTYPE_NONE;
    return TD_OK;
}
