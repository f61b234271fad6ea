/* tests/fuzz/op_maker.h - makes one hostile case of one op out of bytes.
 *
 * A case is either one of the op's recipes, which run, changed here and there (op_recipe.c), or made up:
 *
 * Attributes follow the signature and mostly make sense; inputs follow the dtypes that the op's kernel rows
 * take, with shapes that agree more often than not. Now and then each of them is what no caller would send:
 * huge and negative integers, lists of a wrong length, empty tensors, other ranks, NaN, strings with NULs.
 * Inputs that are resources or variants come from an op that makes one (a variable, a table, a list), usually
 * of the kind that the op wants.
 *
 * The bytes are read as a script; past their end a generator seeded by them goes on, so that eight bytes make
 * a case.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_FUZZ_OP_MAKER_H
#define TD_TESTS_FUZZ_OP_MAKER_H

#include "tests/fuzz/op_graph.h"

struct op_script {
    const uint8_t *p;
    size_t left;
    uint64_t state; /* of the generator */
};
void op_script_open(struct op_script *s, const uint8_t *bytes, size_t n);
/* A number in [0, n). */
uint64_t op_script_draw(struct op_script *s, uint64_t n);

/* Fills the empty graph g with one case of the op; the node under test is the last. False when no case could
 * be made. */
bool op_maker_fill(struct op_graph *g, const struct td_op_def *def, struct op_script *s);

/* The i-th recipe that cases are made from, text of op_graph.h, and its op; NULL past the last. */
const char *op_recipe(int i, const char **op);

/* Prints the graph: nodes, attributes, shapes of the values. For whoever looks at a failure. */
void op_maker_print(const struct op_graph *g);

#endif
