/* kernels/control/recurrence_tensors.h - a _Recurrence whose lists are made of tensors, and read as tensors,
 * as a node that has these instead (op _RecurrenceTensors): numbers in, numbers out, of shapes that can be
 * told beforehand, so that it may run on a device.
 *
 *   list of x      -> the tensor that it was made of [n, rows, width]; a mask's, likewise [n, rows, 1]
 *   list for h     -> how many elements were reserved; what it becomes is read as a tensor [n, rows, units]
 *   lengths [rows] -> [rows, 1]
 *   the rest       as it was; what the steps do not read is left out
 *
 * Attributes: _cell, _limits, _numbers and _becomes are those of the _Recurrence, with its numbers for inputs
 * and variables. And:
 *
 *   _inputs   for each input of the _Recurrence: which one is that here; -1: it was left out
 *   _types    its type
 *   _outputs  for each output: of which variable
 *   _shapes   two for each output: what was said of the shape of elements of the list; -1: nothing
 *
 * Numbers (argument 0) are integers that are wanted on the host: the limits of the loop, where it begins, and
 * how long lists are. Values (argument 1) are the rest.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_RECURRENCE_TENSORS_H
#define TD_KERNELS_CONTROL_RECURRENCE_TENSORS_H

#include "core/graph/graph.h"
#include "kernels/control/recurrence.h"

struct td_recurrence_tensors {
    const int64_t *cell, *limits, *becomes, *inputs, *outputs, *shapes; /* the attributes */
    const float *numbers;
    int n_limits, n_inputs, n_outputs; /* n_limits: conditions */
    enum td_cell kind;
    int64_t rows, units, x_width, n_x, n_x2, n_masks; /* n: elements of a list; 0: there is none */
};

/* What n says, where the inputs have these shapes. False: they are not known, or are not those of a cell. */
bool td_recurrence_tensors_read(const struct td_node *n, const struct td_shape *in,
                                struct td_recurrence_tensors *t);
/* The attributes alone. */
void td_recurrence_tensors_attrs(const struct td_node *n, struct td_recurrence_tensors *t);
/* The input here that is `what` of the cell (TD_RECURRENCE_ITEMS and so on); -1: none. */
static inline int td_recurrence_tensors_at(const struct td_recurrence_tensors *t, int what)
{
    return t->cell[what] < 0 ? -1 : (int)t->inputs[t->cell[what]];
}
/* Whether output k is a list's, of which input *count says how many elements were reserved. */
bool td_recurrence_tensors_is_list(const struct td_recurrence_tensors *t, int k, int *count);

td_unlist_fn td_recurrence_unlist;

#endif
