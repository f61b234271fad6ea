/* tests/fuzz/op_draw.h - what the files of the op maker share: the case being made, and draws for it.
 *
 * Draws come from the script; op_hostile says whether the next one is to be what no caller would send.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_FUZZ_OP_DRAW_H
#define TD_TESTS_FUZZ_OP_DRAW_H

#include "tests/fuzz/op_maker.h"

struct op_maker {
    struct op_graph *g;
    struct op_script *s;
    const struct td_op_def *def;
    const struct td_kernel *row; /* the kernel row whose dtypes are drawn */
    struct td_node *node;
    struct td_shape base;    /* the shape that inputs agree on */
    enum td_dtype list_type; /* the dtype that lists of types lean to */
    int64_t numbers;         /* length that "N" and lists of types lean to */
    int hostility;           /* one draw in this many is hostile */
    bool constants;          /* values are constants more often than feeds */
};

/* ---- op_draw.c */
uint64_t op_draw(struct op_maker *m, uint64_t n); /* in [0, n) */
bool op_one_in(struct op_maker *m, uint64_t n);
bool op_hostile(struct op_maker *m);
int64_t op_draw_hostile_int(struct op_maker *m);
int64_t op_draw_int(struct op_maker *m);
double op_draw_float(struct op_maker *m);
const char *op_draw_string(struct op_maker *m, size_t *len);
struct td_shape op_draw_shape(struct op_maker *m);
enum td_dtype op_draw_any_dtype(struct op_maker *m);
enum td_dtype op_draw_dtype_of(struct op_maker *m, uint32_t set);
/* False, and nothing to clear, without memory. */
bool op_draw_tensor(struct op_maker *m, enum td_dtype dtype, const struct td_shape *shape,
                    struct td_tensor *t);
/* Draws element i of t, which is no object other than a string. */
void op_draw_element(struct op_maker *m, struct td_tensor *t, int64_t i);

/* ---- op_attrs.c */
enum td_dtype op_draw_dtype(struct op_maker *m, const char *attr);
struct td_shape op_draw_attr_shape(struct op_maker *m);
void op_draw_attr_value(struct op_maker *m, const struct td_attr_def *d, struct td_attr *a, int i);
void op_draw_attr(struct op_maker *m, const struct td_attr_def *d);
/* The attribute of the node under test, or its default. */
const struct td_attr *op_maker_attr(const struct op_maker *m, const char *name);
enum td_dtype op_maker_type(const struct op_maker *m, const char *name, int i);

/* ---- op_producers.c: names of nodes */
const char *op_make_value(struct op_maker *m, enum td_dtype dtype, const struct td_shape *shape);
const char *op_make_variable(struct op_maker *m, bool reference);
const char *op_make_resource(struct op_maker *m);
const char *op_make_variant(struct op_maker *m);

/* ---- op_shapes.c */
struct td_shape op_draw_input_shape(struct op_maker *m, const struct td_arg_def *a);
int op_draw_rank(struct op_maker *m);

/* ---- op_recipe.c: a graph of the op that runs, then changed here and there. False when there is no recipe.
 */
bool op_recipe_fill(struct op_maker *m);

#endif
