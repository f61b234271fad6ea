/* kernels/control/recurrence.h - a loop that is nothing but the steps of a recurrent cell, as attributes of
 * its node (op _Recurrence): what kernels/control/recurrence_match.c found, and recurrence.c runs.
 *
 *   _cell     TD_RECURRENCE_INTS integers, by the names below
 *   _limits   three for each condition:  variable, 0 and an input, or 1 and a number: it goes on below that
 *   _numbers  TD_RECURRENCE_NUMBERS floats
 *   _becomes  two for each variable: what becomes of it in a round (enum td_becomes), and by what
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_CONTROL_RECURRENCE_H
#define TD_KERNELS_CONTROL_RECURRENCE_H

#include "kernels/dense/recurrence_steps.h"

/* Inputs of the node by number; variables are the first of them. */
enum {
    TD_RECURRENCE_CELL,         /* enum td_cell */
    TD_RECURRENCE_ITEMS,        /* the list of x */
    TD_RECURRENCE_INDEX,        /* the variable that counts its elements */
    TD_RECURRENCE_H,            /* variable */
    TD_RECURRENCE_C,            /* variable; -1: the cell has none */
    TD_RECURRENCE_O,            /* the variable that is TD_O; -1: none */
    TD_RECURRENCE_Z,            /* what TD_O is in rows that do not count; -1: what it was */
    TD_RECURRENCE_MASK,         /* the list of which rows a round counts for, [rows, 1] each; -1: none */
    TD_RECURRENCE_LENGTHS,      /* how many rounds count for each row; -1: none */
    TD_RECURRENCE_LENGTHS_RANK, /* [rows], or [rows, 1] */
    TD_RECURRENCE_U,
    TD_RECURRENCE_BX, /* -1: none */
    TD_RECURRENCE_BH,
    TD_RECURRENCE_ITEMS2, /* GRU_BEFORE: the list of x2; -1: x2 is behind the other gates in x */
    TD_RECURRENCE_U2,     /* -1: none; likewise */
    TD_RECURRENCE_B2,
    TD_RECURRENCE_GATE, /* enum td_squash, both */
    TD_RECURRENCE_STATE,
    TD_RECURRENCE_UNITS, /* that the graph speaks of; 0: of none */
    TD_RECURRENCE_PLACE, /* TD_CELL_GATES of them */
    TD_RECURRENCE_INTS = TD_RECURRENCE_PLACE + TD_CELL_GATES
};

enum {
    TD_RECURRENCE_ADD, /* what is added to each gate of an LSTM, i f g o: TD_CELL_GATES of them */
    TD_RECURRENCE_SLOPE = TD_RECURRENCE_ADD + TD_CELL_GATES, /* of TD_SQUASH_HARD */
    TD_RECURRENCE_OFFSET,
    TD_RECURRENCE_NUMBERS
};

enum td_becomes {
    TD_STAYS,
    TD_COUNTS,  /* up by so much */
    TD_H,       /* the cell's new h */
    TD_C,       /* its new c */
    TD_O,       /* h in rows that count; else what TD_RECURRENCE_Z says */
    TD_SETS_AT, /* a list: h (or what a TD_O becomes) is put at this index; -1: at that of the round */
};

td_loop_rule_fn td_recurrence_rule;

#endif
