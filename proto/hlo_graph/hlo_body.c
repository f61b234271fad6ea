/* proto/hlo_graph/hlo_body.c - bodies of one operation by its name; others are asked, by a few numbers.
 *
 * Which way a comparator sorts, or whether a body keeps the larger of two, is written in many ways. It is
 * found by evaluating the body for numbers that tell the ways apart.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/hlo_graph/hlo_body.h"

#include <math.h>

enum { MOST_VALUES = 96 };

const char *td_hlo_body_op(const struct td_hlo_block *b)
{
    if (b->n_ops != 2 || b->n_args != 2) {
        return "";
    }
    const struct td_hlo_op *op = b->ops[0], *last = b->ops[1];
    const bool both = op->n_in == 2 && op->n_out == 1 && op->n_regions == 0 && last->n_in == 1 &&
                      last->in[0] == op->out[0] &&
                      ((op->in[0] == b->args[0] && op->in[1] == b->args[1]) ||
                       (op->in[0] == b->args[1] && op->in[1] == b->args[0]));
    return both ? op->name : "";
}

int td_hlo_body_returns(const struct td_hlo_block *b)
{
    if (b->n_ops == 1 && b->ops[0]->n_in == 1) {
        for (int i = 0; i < b->n_args; i++) {
            if (b->ops[0]->in[0] == b->args[i]) {
                return i;
            }
        }
    }
    return -1;
}

const struct td_hlo_reducer *td_hlo_reducer(const struct td_hlo_block *b, enum td_dtype dtype)
{
    static const struct {
        const char *name;
        struct td_hlo_reducer numbers, booleans;
    } rows[] = {
        {"add",
         {"Sum", "AddV2", "Cumsum", "UnsortedSegmentSum", TD_HLO_FROM_ZERO},
         {"Any", "LogicalOr", NULL, NULL, TD_HLO_FROM_ZERO}},
        {"multiply",
         {"Prod", "Mul", "Cumprod", "UnsortedSegmentProd", TD_HLO_FROM_ONE},
         {"All", "LogicalAnd", NULL, NULL, TD_HLO_FROM_ONE}},
        {"maximum",
         {"Max", "Maximum", NULL, "UnsortedSegmentMax", TD_HLO_FROM_LEAST},
         {"Any", "LogicalOr", NULL, NULL, TD_HLO_FROM_ZERO}},
        {"minimum",
         {"Min", "Minimum", NULL, "UnsortedSegmentMin", TD_HLO_FROM_MOST},
         {"All", "LogicalAnd", NULL, NULL, TD_HLO_FROM_ONE}},
        {"or",
         {NULL, NULL, NULL, NULL, TD_HLO_FROM_ZERO},
         {"Any", "LogicalOr", NULL, NULL, TD_HLO_FROM_ZERO}},
        {"and",
         {NULL, NULL, NULL, NULL, TD_HLO_FROM_ONE},
         {"All", "LogicalAnd", NULL, NULL, TD_HLO_FROM_ONE}},
    };
    const char *name = td_hlo_body_op(b);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            const struct td_hlo_reducer *r = dtype == TD_BOOL ? &rows[i].booleans : &rows[i].numbers;
            return r->over == NULL ? NULL : r;
        }
    }
    return NULL;
}

struct td_value td_hlo_neutral(struct td_hlo_frame *f, const struct td_hlo_reducer *r, enum td_dtype dtype)
{
    return r->from == TD_HLO_FROM_ZERO  ? td_hlo_zero(f, dtype)
           : r->from == TD_HLO_FROM_ONE ? td_hlo_number(f, dtype, 1)
                                        : td_hlo_limit(f, dtype, r->from == TD_HLO_FROM_LEAST);
}

/* The number that a scalar constant is, as far as a double holds it. */
static bool number_of(const struct td_tensor *t, double *out)
{
    const void *p = t->data;
    switch (t->dtype) {
    case TD_FLOAT:
        *out = *(const float *)p;
        return true;
    case TD_DOUBLE:
        *out = *(const double *)p;
        return true;
    case TD_HALF: {
        const uint16_t bits = *(const uint16_t *)p;
        *out = (bits & 0x7fff) == 0        ? 0
               : bits == 0x3c00            ? 1
               : (bits & 0x7fff) == 0x7c00 ? (bits >> 15 ? -INFINITY : INFINITY)
                                           : NAN;
        return true;
    }
    case TD_BFLOAT16: {
        const uint32_t bits = (uint32_t) * (const uint16_t *)p << 16;
        float v;
        memcpy(&v, &bits, sizeof v);
        *out = v;
        return true;
    }
    case TD_BOOL:
        *out = *(const unsigned char *)p != 0;
        return true;
    default:
        return false;
    }
}

bool td_hlo_is_neutral(const struct td_hlo_reducer *r, struct td_value v)
{
    const struct td_tensor *t = td_known_value(v);
    double number;
    if (t == NULL || t->shape.rank != 0 || td_hlo_is_complex(t->dtype)) {
        return false;
    }
    if (number_of(t, &number)) {
        return number == (r->from == TD_HLO_FROM_ZERO    ? 0
                          : r->from == TD_HLO_FROM_ONE   ? 1
                          : r->from == TD_HLO_FROM_LEAST ? -INFINITY
                                                         : INFINITY);
    }
    const int bits = 8 * (int)td_dtype_size(t->dtype);
    const int64_t top = (int64_t)((uint64_t)1 << (bits - 1));
    const bool u = td_hlo_is_unsigned(t->dtype);
    const int64_t i = td_tensor_int(t, 0);
    const int64_t least = u ? 0 : bits == 64 ? INT64_MIN : -top;
    const int64_t most = u ? (bits == 64 ? -1 : 2 * top - 1) : bits == 64 ? INT64_MAX : top - 1;
    return i == (r->from == TD_HLO_FROM_ZERO    ? 0
                 : r->from == TD_HLO_FROM_ONE   ? 1
                 : r->from == TD_HLO_FROM_LEAST ? least
                                                : most);
}

/* ------------------------------------------------------------------ evaluating */

struct values {
    int id[MOST_VALUES];
    struct td_hlo_scalar v[MOST_VALUES];
    int n;
};

static const struct td_hlo_scalar *get(const struct values *s, int id)
{
    for (int i = 0; i < s->n; i++) {
        if (s->id[i] == id) {
            return &s->v[i];
        }
    }
    return NULL;
}

static bool set(struct values *s, int id, struct td_hlo_scalar v)
{
    if (s->n == MOST_VALUES) {
        return false;
    }
    s->id[s->n] = id;
    s->v[s->n++] = v;
    return true;
}

static struct td_hlo_scalar of_bool(bool b)
{
    return (struct td_hlo_scalar){.i = b};
}

/* As IEEE's total order has them, NaNs by their sign at the ends. */
static double total_rank(double x)
{
    return isnan(x) ? (signbit(x) ? -3 : 3) : isinf(x) ? (x < 0 ? -2 : 2) : 0;
}

static int compare_total(double a, double b)
{
    const double ra = total_rank(a), rb = total_rank(b);
    if (ra != rb) {
        return ra < rb ? -1 : 1;
    }
    if (isnan(a) || a == b) {
        return (signbit(a) == 0) - (signbit(b) == 0);
    }
    return a < b ? -1 : 1;
}

static bool compare(const struct td_hlo_op *op, const struct td_hlo_scalar *a, const struct td_hlo_scalar *b)
{
    const bool total = td_hlo_text_is(op, "compare_type", "TOTALORDER");
    const bool unordered = a->is_float && !total && (isnan(a->f) || isnan(b->f));
    const int by = !a->is_float ? (a->i > b->i) - (a->i < b->i)
                   : total      ? compare_total(a->f, b->f)
                                : (a->f > b->f) - (a->f < b->f);
    return td_hlo_text_is(op, "comparison_direction", "EQ")   ? !unordered && by == 0
           : td_hlo_text_is(op, "comparison_direction", "NE") ? unordered || by != 0
           : td_hlo_text_is(op, "comparison_direction", "LT") ? !unordered && by < 0
           : td_hlo_text_is(op, "comparison_direction", "LE") ? !unordered && by <= 0
           : td_hlo_text_is(op, "comparison_direction", "GT") ? !unordered && by > 0
                                                              : !unordered && by >= 0;
}

/* A scalar constant of the types that bodies are written in. */
static bool constant(const struct td_hlo_op *op, struct td_hlo_scalar *out)
{
    const struct td_hlo_attr *a = td_hlo_attr(op, "value");
    if (a == NULL || a->kind != TD_HLO_DENSE ||
        a->raw.len < (a->type.dtype == TD_BOOL ? 1 : td_dtype_size(a->type.dtype))) {
        return false;
    }
    char bytes[16] = {0};
    memcpy(bytes, a->raw.p, a->raw.len < sizeof bytes ? a->raw.len : sizeof bytes);
    const struct td_tensor t = {.data = bytes, .dtype = a->type.dtype, .shape = td_shape_scalar()};
    double number;
    if (t.dtype == TD_BOOL) {
        *out = of_bool(bytes[0] != 0);
    } else if (td_hlo_is_float(t.dtype) && number_of(&t, &number)) {
        *out = (struct td_hlo_scalar){.is_float = true, .f = number};
    } else if (td_hlo_is_integer(t.dtype)) {
        *out = (struct td_hlo_scalar){.i = td_tensor_int(&t, 0)};
    } else {
        return false;
    }
    return true;
}

static bool evaluate(const struct td_hlo_op *op, const struct values *s, struct td_hlo_scalar *out)
{
    const struct td_hlo_scalar *in[3] = {0};
    struct td_hlo_scalar outside[3]; /* constants of the function around the body */
    for (int i = 0; i < op->n_in; i++) {
        if (i == 3) {
            return false;
        }
        in[i] = get(s, op->in[i]->id);
        const struct td_hlo_op *made = op->in[i]->op;
        if (in[i] == NULL && made != NULL && strcmp(made->name, "constant") == 0 &&
            constant(made, &outside[i])) {
            in[i] = &outside[i];
        }
        if (in[i] == NULL) {
            return false;
        }
    }
    if (strcmp(op->name, "constant") == 0) {
        return constant(op, out);
    }
    if (op->n_in == 2 && strcmp(op->name, "compare") == 0) {
        *out = of_bool(compare(op, in[0], in[1]));
    } else if (op->n_in == 2 && strcmp(op->name, "and") == 0) {
        *out = (struct td_hlo_scalar){.i = in[0]->i & in[1]->i};
    } else if (op->n_in == 2 && strcmp(op->name, "or") == 0) {
        *out = (struct td_hlo_scalar){.i = in[0]->i | in[1]->i};
    } else if (op->n_in == 2 && strcmp(op->name, "xor") == 0) {
        *out = (struct td_hlo_scalar){.i = in[0]->i ^ in[1]->i};
    } else if (op->n_in == 3 && strcmp(op->name, "select") == 0) {
        *out = *(in[0]->i ? in[1] : in[2]);
    } else if (op->n_in == 1 && op->in[0]->type.dtype == TD_BOOL && strcmp(op->name, "not") == 0) {
        *out = of_bool(in[0]->i == 0);
    } else {
        return false;
    }
    return true;
}

bool td_hlo_evaluate(const struct td_hlo_block *b, const struct td_hlo_scalar *args, int n_args,
                     struct td_hlo_scalar *out, int n_out)
{
    struct values s = {.n = 0};
    if (b->n_args != n_args || b->n_ops == 0 || b->ops[b->n_ops - 1]->n_in < n_out) {
        return false;
    }
    for (int i = 0; i < n_args; i++) {
        if (!set(&s, b->args[i]->id, args[i])) {
            return false;
        }
    }
    for (int i = 0; i + 1 < b->n_ops; i++) {
        struct td_hlo_scalar v;
        if (b->ops[i]->n_out != 1 || !evaluate(b->ops[i], &s, &v) || !set(&s, b->ops[i]->out[0]->id, v)) {
            return false;
        }
    }
    for (int i = 0; i < n_out; i++) {
        const struct td_hlo_scalar *v = get(&s, b->ops[b->n_ops - 1]->in[i]->id);
        if (v == NULL) {
            return false;
        }
        out[i] = *v;
    }
    return true;
}
