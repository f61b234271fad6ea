/* kernels/control/recurrence_cells.h - which cell a loop's variable h is that of, and what the cell reads.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_RECURRENCE_CELLS_H
#define TD_KERNELS_CONTROL_RECURRENCE_CELLS_H

#include "core/graph/emit.h"
#include "kernels/control/recurrence.h"

struct td_cell_match {
    const struct td_loop_view *v;
    int h, c, o, items, items2, mask, lengths, lengths_rank, index; /* as in recurrence.h; -1: not found */
    struct td_value new_h, new_c;                                   /* of rows that count */
    int mask_index, z;                                              /* z: as in recurrence.h */
    struct td_value u, u2, bx, bh, b2;                              /* no node: none */
    enum td_cell cell;
    enum td_squash gate, state;
    bool sets_h, sets_output; /* lists collect h, or what differs from it in rows that do not count */
    float add[TD_CELL_GATES], slope, offset; /* as in recurrence.h */
    int64_t place[TD_CELL_GATES], units;     /* units: as slices have it; 0: as the shapes will say */
};

/* The first variable that becomes the h of a cell. */
bool td_cell_match(struct td_cell_match *m, const struct td_loop_view *v);

#endif
