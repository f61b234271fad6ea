/* proto/stablehlo/mlir_file.h - the sections of an MLIR bytecode file, divided into their entries.
 *
 * Strings, dialects, the names of operations, and where each attribute, type and set of properties lies;
 * what these say is read when they are asked for (mlir_pool.h), so that what nobody asks for (locations,
 * annotations of other dialects) need not be understood.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_STABLEHLO_MLIR_FILE_H
#define TD_PROTO_STABLEHLO_MLIR_FILE_H

#include "core/base/arena.h"
#include "core/graph/attr.h"
#include "proto/stablehlo/mlir_bytes.h"

enum td_mlir_dialect { TD_MLIR_BUILTIN, TD_MLIR_VHLO, TD_MLIR_FOREIGN };

struct td_mlir_dialect_entry {
    const char *name;
    enum td_mlir_dialect kind;
};

/* An attribute or a type. */
struct td_mlir_entry {
    struct td_mlir_bytes data;
    int dialect;
    bool coded; /* in the dialect's own encoding; else text */
};

struct td_mlir_op_name {
    const char *name;
    int dialect;
};

struct td_mlir_file {
    struct td_arena *a;
    int version;          /* 0 to 6 */
    const char *producer; /* "StableHLO_v1.8.3" */
    struct td_bytes *strings;
    struct td_mlir_dialect_entry *dialects;
    struct td_mlir_op_name *op_names;
    struct td_mlir_entry *attrs, *types;
    struct td_mlir_bytes *properties;
    int n_strings, n_dialects, n_op_names, n_attrs, n_types, n_properties;
    struct td_mlir_bytes ir;
};

/* What the versions of the format added. */
enum {
    TD_MLIR_DIALECT_VERSIONS = 1,
    TD_MLIR_REGION_SECTIONS = 2, /* an isolated region is a section */
    TD_MLIR_USE_ORDERS = 3,
    TD_MLIR_SHORT_ARGUMENTS = 4, /* an argument's location may be left out */
    TD_MLIR_PROPERTIES = 5,
    TD_MLIR_NEWEST = 6
};

/* Strings are copied to a, the rest points into bytes. */
TD_MUST enum td_code td_mlir_file_read(struct td_arena *a, struct td_bytes bytes, struct td_mlir_file *f,
                                       struct td_err *err);
/* n zeroed elements in the arena of f; never NULL where it returns TD_OK. */
TD_MUST enum td_code td_mlir_alloc(const struct td_mlir_file *f, size_t n, size_t size, void *out,
                                   struct td_err *err);
/* A string of the table that is a name: it holds no NUL. */
TD_MUST enum td_code td_mlir_name(const struct td_mlir_file *f, const struct td_mlir_bytes *b, uint64_t index,
                                  const char **out, struct td_err *err);

/* The number of a section. */
enum td_mlir_section_id {
    TD_MLIR_STRINGS,
    TD_MLIR_DIALECTS,
    TD_MLIR_ATTRS_TYPES,
    TD_MLIR_OFFSETS,
    TD_MLIR_IR,
    TD_MLIR_RESOURCES,
    TD_MLIR_RESOURCE_OFFSETS,
    TD_MLIR_DIALECT_VERSION,
    TD_MLIR_PROPERTY_SETS,
    TD_MLIR_N_SECTIONS
};

#endif
