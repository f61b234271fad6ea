/* kernels/control/recurrence_terms.h - the values of a loop's body that cells are made of: masks, squashes,
 * sums of x, products and biases, and parts of these.
 *
 * What is found is put into the match (recurrence_cells.h), and must be the same when it is met again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_RECURRENCE_TERMS_H
#define TD_KERNELS_CONTROL_RECURRENCE_TERMS_H

#include "kernels/control/recurrence_cells.h"

/* Nothing is left out, or every row that does not count keeps its value: both are `masked`. */
bool td_cell_has_mask(const struct td_cell_match *m);
/* v is `then` in rows that count, and `other` in those that do not. */
bool td_cell_masked(struct td_cell_match *m, struct td_value v, struct td_value *then,
                    struct td_value *other);
/* The variable that v is, as the round begins; -1. */
int td_cell_variable(const struct td_cell_match *m, struct td_value v);
/* What passes through nodes that hand their inputs on. */
struct td_value td_cell_behind(struct td_value v);
bool td_cell_same(struct td_value a, struct td_value b);
/* The node of this op whose first output v is; NULL. */
const struct td_node *td_cell_made_by(struct td_value v, const char *op);
/* The sum of two that v is; NULL. */
const struct td_node *td_cell_sum_of_two(struct td_value v);
/* v is a known integer, a scalar. */
bool td_cell_number(struct td_value v, int64_t *number);

/* v is a known float; what it is added to has no more axes for it. */
bool td_cell_real(struct td_value v, double *number);
/* v = inside + number */
bool td_cell_plus(struct td_value v, struct td_value *inside, double *number);
/* v is a squash of `inside`: the one that *squash is, or, the first time that it is asked for, becomes. */
bool td_cell_squash(struct td_cell_match *m, struct td_value v, enum td_squash *squash,
                    struct td_value *inside);

enum { TD_CELL_TERMS = 6 };
struct td_cell_sum {
    struct td_value term[TD_CELL_TERMS];
    int n;
};
/* Adds the terms of v, sums within sums opened, to *s. False: more than there can be. */
bool td_cell_terms(struct td_value v, struct td_cell_sum *s);
/* v = MatMul(h, U), or, with a reset gate, of r h. */
bool td_cell_product(struct td_cell_match *m, struct td_value v, struct td_value reset, struct td_value *u);

/* What a sum may hold. */
struct td_cell_wants {
    int *items;            /* x of this list; NULL: none */
    struct td_value *u;    /* the product with this; NULL: none */
    struct td_value reset; /* of which r h; no node: of h */
    struct td_value *bias[2];
};

/* The terms of a sum that holds x, p, or both; the rest are biases, of which each of the two can be one. */
bool td_cell_take_sum(struct td_cell_match *m, struct td_value v, const struct td_cell_wants *w);
/* Which of n parts of the columns v is, all of them of one value. -1: none. */
int64_t td_cell_gate(struct td_cell_match *m, struct td_value v, int n, struct td_value *whole);

#endif
