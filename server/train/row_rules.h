/* server/train/row_rules.h - what the values of a field must be: numbers that its dtype holds, classes that
 * its output has, probabilities from 0 to 1, signs.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_TRAIN_ROW_RULES_H
#define TD_SERVER_TRAIN_ROW_RULES_H

#include "server/train/row_cells.h"

/* Of the row in hand: elements from `from` on of the cell's list; of classes the numbers in c's scratch,
 * which are then appended to it. INVALID_ARGUMENT with the field, the value and the rule. */
TD_MUST enum td_code td_row_rules_check(struct td_row_cells *c, struct td_row_cell *cell, size_t from,
                                        struct td_err *err);

#endif
