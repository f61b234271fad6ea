/* proto/hlo_graph/hlo_frame.h - the function that is being made of StableHLO operations: what each value
 * became, and how rules (proto/hlo_graph/hlo_rules.h) add nodes.
 *
 * A rule reads its operands with td_hlo_whole (the value as its type says) or td_hlo_part (as it was made),
 * adds nodes and puts its results. Errors stick in the frame's emitter (core/graph/emit.h), so that rules
 * read as formulas.
 *
 * Parts: StableHLO spells every broadcast out, TensorFlow's element-wise ops imply it. A value may so be
 * kept as its part: a tensor of the same or a lower rank that broadcasts to the value by NumPy's rule.
 * `sure` has a bit for each dimension of the value along which the part has its full size. Element-wise
 * rules compute on parts (td_hlo_put_like); td_hlo_whole broadcasts where somebody needs the value itself,
 * once.
 *
 * A body that is applied to whole tensors (td_hlo_apply) is the same rules with its scalar arguments
 * replaced by tensors of one shape: a rule may therefore not lean on a scalar's type for the shape of what
 * it stands for. What is more than element by element there (regions, calls of long functions, anything that
 * is no scalar) is refused (proto/hlo_graph/hlo_rules.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_HLO_GRAPH_HLO_FRAME_H
#define TD_PROTO_HLO_GRAPH_HLO_FRAME_H

#include "core/graph/emit.h"
#include "proto/stablehlo/module.h"

enum { TD_HLO_MAX_DEPTH = 64, TD_HLO_MAX_UNROLL = 1024, TD_HLO_TO_END = INT32_MAX };

struct td_hlo_made {
    struct td_value part;  /* no node: not made yet, or a token */
    struct td_value whole; /* no node: not asked for yet */
    struct td_value
        dims; /* the value's shape as int32s, where its type does not say it; no node: not known apart */
    uint32_t sure;
    int rank; /* of part */
};

/* The module, and what has been made of it. */
struct td_hlo_whole_module {
    const struct td_hlo_module *m;
    const char *prefix;
    struct td_library *lib;
    const struct td_op_table *ops;
    struct td_err *err;
    struct td_arena *scratch;
    int *by_name;       /* indices of the module\'s functions, in the order of their names */
    const char **names; /* of the functions made, by index; NULL: not yet */
    bool *busy;         /* being made: a call of it is recursion */
    const struct td_bytes *host_functions; /* that the node lists, by index */
    int n_host_functions;
    int bodies;     /* made so far, which numbers them */
    bool unchecked; /* shape assertions are left out */
};

struct td_hlo_frame {
    struct td_emitter e;
    struct td_hlo_whole_module *w;
    const struct td_hlo_function *fn;
    const struct td_hlo_op *op; /* at hand */
    const char *as;             /* the third column of its rule's row */
    struct td_hlo_made *made;   /* by id of a value; shared by the frames of one function */
    uint32_t *mark;             /* by id: scratch of td_hlo_captured */
    uint32_t *marks;            /* the last mark given */
    struct td_function *to;
    int depth;
    bool wide; /* a body's scalars are tensors here */
};

typedef void td_hlo_rule(struct td_hlo_frame *f, const struct td_hlo_op *op);

/* "function 'main', stablehlo.sort: .." */
void td_hlo_fail(struct td_hlo_frame *f, enum td_code code, const char *fmt, ...) TD_PRINTF(3, 4);
/* Scratch of the translation, zeroed; NULL with the error noted. */
void *td_hlo_room(struct td_hlo_frame *f, size_t n, size_t size);

/* ------------------------------------------------------------------ values */

const struct td_hlo_made *td_hlo_part(struct td_hlo_frame *f, const struct td_hlo_value *v);
/* The parts of the first n operands of an operation of one result; false, and the frame has failed, where it
 * has fewer operands or more results. */
bool td_hlo_parts(struct td_hlo_frame *f, const struct td_hlo_op *op, int n, struct td_value *out);
struct td_value td_hlo_whole(struct td_hlo_frame *f, const struct td_hlo_value *v);
/* Operand i as a whole. */
struct td_value td_hlo_in(struct td_hlo_frame *f, const struct td_hlo_op *op, int i);
const struct td_shape *td_hlo_shape(const struct td_hlo_value *v);
/* Result i is this. */
void td_hlo_put(struct td_hlo_frame *f, const struct td_hlo_op *op, int i, struct td_value v);
void td_hlo_put_made(struct td_hlo_frame *f, const struct td_hlo_op *op, int i,
                     const struct td_hlo_made *made);
/* Result 0, an element-wise function of the parts of the first n operands, is this. */
void td_hlo_put_like(struct td_hlo_frame *f, const struct td_hlo_op *op, int n, struct td_value v);

/* A value's shape, int32s: a constant where the type says it. */
struct td_value td_hlo_dims(struct td_hlo_frame *f, const struct td_hlo_value *v);
/* Its size along an axis, an int32. */
struct td_value td_hlo_dim(struct td_hlo_frame *f, const struct td_hlo_value *v, int axis);

/* The block runs now on these arguments; it must return n_out results. What it reads from outside is this
 * frame's. */
void td_hlo_apply(struct td_hlo_frame *f, const struct td_hlo_block *b, const struct td_value *args,
                  int n_args, struct td_value *out, int n_out);

/* ------------------------------------------------------------------ attributes */

const struct td_hlo_attr *td_hlo_attr(const struct td_hlo_op *op, const char *name);
int64_t td_hlo_int(const struct td_hlo_op *op, const char *name, int64_t absent);
/* The same of a call by another name: among the op's own attributes, or in the dictionary that it
 * carries. */
int64_t td_hlo_option(const struct td_hlo_op *op, const char *name, int64_t absent);
bool td_hlo_text_is(const struct td_hlo_op *op, const char *name, const char *text);
/* Integers of a dense or an array attribute, in scratch; *n -1: there is no such attribute. */
const int64_t *td_hlo_ints(struct td_hlo_frame *f, const struct td_hlo_op *op, const char *name, int *n);
/* The same, of which there must be n, each `absent` without the attribute. */
const int64_t *td_hlo_ints_of(struct td_hlo_frame *f, const struct td_hlo_op *op, const char *name, int n,
                              int64_t absent);
/* The same for axes: below rank, none twice. */
const int64_t *td_hlo_axes(struct td_hlo_frame *f, const struct td_hlo_op *op, const char *name, int rank,
                           int *n);

/* ------------------------------------------------------------------ nodes */

struct td_value td_hlo_1(struct td_hlo_frame *f, const char *op, struct td_value x);
struct td_value td_hlo_2(struct td_hlo_frame *f, const char *op, struct td_value x, struct td_value y);
struct td_value td_hlo_3(struct td_hlo_frame *f, const char *op, struct td_value x, struct td_value y,
                         struct td_value z);
struct td_value td_hlo_i32(struct td_hlo_frame *f, int64_t v);
struct td_value td_hlo_i32s(struct td_hlo_frame *f, const int64_t *v, int n);
struct td_value td_hlo_cast(struct td_hlo_frame *f, struct td_value x, enum td_dtype to);
struct td_value td_hlo_bits(struct td_hlo_frame *f, struct td_value x, enum td_dtype to);
/* Indices as int32s; what does not fit becomes the least or the most, which is outside or the end, too. */
struct td_value td_hlo_index(struct td_hlo_frame *f, struct td_value x);
struct td_value td_hlo_pick(struct td_hlo_frame *f, struct td_value vector, int i); /* element i, a scalar */
struct td_value td_hlo_pack(struct td_hlo_frame *f, const struct td_value *v, int n, int axis);
struct td_value td_hlo_concat(struct td_hlo_frame *f, const struct td_value *v, int n, int axis);
struct td_value td_hlo_reshape(struct td_hlo_frame *f, struct td_value x, const int64_t *dims, int n);
/* x itself where the permutation changes nothing. */
struct td_value td_hlo_transpose(struct td_hlo_frame *f, struct td_value x, const int64_t *perm, int n);
/* x[.., from:to:step along axis, ..] by NumPy's rule: to < 0 counts from the end; TD_HLO_TO_END: all of
 * it. */
struct td_value td_hlo_cut(struct td_hlo_frame *f, struct td_value x, int axis, int64_t from, int64_t to,
                           int64_t step);
/* A scalar: 0, 1, the least and the most of a dtype (infinities of floats). */
struct td_value td_hlo_zero(struct td_hlo_frame *f, enum td_dtype dtype);
struct td_value td_hlo_number(struct td_hlo_frame *f, enum td_dtype dtype, double v);
struct td_value td_hlo_limit(struct td_hlo_frame *f, enum td_dtype dtype, bool least);

static inline bool td_hlo_is_float(enum td_dtype t)
{
    return t == TD_FLOAT || t == TD_DOUBLE || t == TD_HALF || t == TD_BFLOAT16;
}
static inline bool td_hlo_is_unsigned(enum td_dtype t)
{
    return t == TD_UINT8 || t == TD_UINT16 || t == TD_UINT32 || t == TD_UINT64;
}
static inline bool td_hlo_is_complex(enum td_dtype t)
{
    return t == TD_COMPLEX64 || t == TD_COMPLEX128;
}
static inline bool td_hlo_is_integer(enum td_dtype t)
{
    return t != TD_BOOL && !td_hlo_is_float(t) && !td_hlo_is_complex(t);
}

#endif
