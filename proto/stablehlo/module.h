/* proto/stablehlo/module.h - a StableHLO module, as its bytecode says it: functions of operations over
 * values.
 *
 * What hlo_read.h makes of the portable artifact (MLIR bytecode of the VHLO dialect) that a node
 * XlaCallModule carries, and what translate.h makes functions of a graph of. Every region of StableHLO is
 * one block, so that a function and the body of an operation are the same thing here.
 *
 * Names are StableHLO's, whatever version of VHLO wrote them: "add", not "vhlo.add_v1"; an operation of
 * another dialect keeps its dialect's name ("chlo.erf", "sdy.mesh"). Attributes are VHLO's, which has no
 * structures for dimension numbers: dot_general has "lhs_contracting_dimensions" and so on, gather
 * "offset_dims", send "channel_id"; a list of integers is DENSE, int64 (proto/stablehlo/vhlo_ops.def has
 * them all). Enumerations are texts as StableHLO prints them ("LT", "SIGNED", "DEFAULT"). What says nothing
 * about the numbers (locations, result names) is not kept.
 *
 * Plain data, all of it in one arena; nothing in it points to the bytes that it was read from, but dense
 * constants, which lie in the module's own bytes and need these as long as it lives. Immutable once read.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_STABLEHLO_MODULE_H
#define TD_PROTO_STABLEHLO_MODULE_H

#include "core/base/arena.h"
#include "core/base/tensor.h"
#include "core/graph/attr.h"

struct td_hlo_type {
    enum { TD_HLO_TENSOR, TD_HLO_TUPLE, TD_HLO_TOKEN, TD_HLO_FUNCTION, TD_HLO_NONE, TD_HLO_OTHER } kind;
    enum td_dtype dtype;   /* TENSOR: of the elements; index is int64 */
    struct td_shape shape; /* TENSOR: -1 where a dimension is dynamic */
    /* TENSOR: why there is no such dtype or shape here ("f8E4M3FN", "i4", "!quant.uniform", "rank above
     * 12"); else NULL */
    const char *unsupported;
    const struct td_hlo_type *parts; /* TUPLE; FUNCTION: its results */
    int n_parts;
};

enum td_hlo_attr_kind {
    TD_HLO_INT, /* of any width; indices too */
    TD_HLO_FLOAT,
    TD_HLO_BOOL,
    TD_HLO_STRING, /* and enumerations, and symbols (without "@") */
    TD_HLO_ARRAY,  /* n items */
    TD_HLO_DICT,   /* n items, each with its name; structures of VHLO too */
    TD_HLO_DENSE,  /* a tensor of type, whose bytes are raw */
    TD_HLO_TYPE,
    TD_HLO_UNIT /* it is there */
};

struct td_hlo_attr {
    const char *name; /* "" of an array's item */
    enum td_hlo_attr_kind kind;
    int n;
    int64_t i; /* INT, BOOL */
    double f;  /* FLOAT */
    struct td_bytes str;
    const struct td_hlo_attr *items;
    struct td_hlo_type type; /* DENSE, TYPE; of an INT or FLOAT: its own */
    /* DENSE: little-endian elements in row-major order, at any address (not aligned for their type);
     * booleans are bits, the first one lowest, as MLIR packs them. splat: one element stands for all; of
     * booleans, bit 0 does */
    struct td_bytes raw;
    bool splat;
};

struct td_hlo_op;
struct td_hlo_value {
    struct td_hlo_type type;
    const struct td_hlo_op *op; /* that it is a result of; NULL of a block's argument */
    int index;                  /* which result, or which argument */
    int id;                     /* numbers a function's values from 0, those of its regions too */
};

struct td_hlo_block {
    const struct td_hlo_value **args;
    int n_args;
    const struct td_hlo_op **ops; /* the last one returns ("return") */
    int n_ops;
};

struct td_hlo_op {
    const char *name;
    const struct td_hlo_value **in; /* of this block or of one around it */
    const struct td_hlo_value **out;
    const struct td_hlo_attr *attrs;
    const struct td_hlo_block *regions;
    int n_in, n_out, n_attrs, n_regions;
};

struct td_hlo_function {
    const char *name;
    bool is_private;
    struct td_hlo_block body;
    const struct td_hlo_type *results;
    int n_results;
    int n_values; /* how many ids there are */
};

struct td_hlo_module {
    const struct td_hlo_function *functions;
    int n_functions;
    const char *version; /* of StableHLO, as the producer says: "1.8.3"; "" unknown */
};

/* NULL where there is none. */
const struct td_hlo_function *td_hlo_function_find(const struct td_hlo_module *m, const char *name);
const struct td_hlo_attr *td_hlo_attr_find(const struct td_hlo_attr *attrs, int n, const char *name);

#endif
