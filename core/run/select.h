/* core/run/select.h - which kernel row serves a node: first without shapes, then with them.
 *
 *   op's rows --td_select_rows--> rows that take the node --td_select_bind--> the row for these shapes,
 *   prepared
 *
 * The first is done once a plan, the second once a set of shapes: when a plan is bound to them, or in the run
 * where they are found only then. Every row passed over has a reason.
 *
 * Invariant (choice_check): a row without prepare, and without neighbours that compete, is chosen without a
 * look at shapes.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_RUN_SELECT_H
#define TD_CORE_RUN_SELECT_H

#include "core/graph/graph.h"

/* Row i of n's op in order of preference: those that modules added, then its own. NULL behind the last. */
const struct td_kernel *td_select_row(const struct td_node *n, int i);

/* Whether the device runs some row of the op. */
bool td_select_runs_on(const struct td_op_def *def, const struct td_device *device);

/* The rows that take the node's dtypes on the target, are allowed and do not refuse the node, in order: at
 * least one. UNIMPLEMENTED names node, op, function and why no row fits. why (may be NULL) gets the reasons
 * of rows passed over before the first of them. */
TD_MUST enum td_code td_select_rows(const struct td_node *n, const struct td_target *t,
                                    const struct td_kernel *rows[TD_KERNEL_MOST], int *n_rows, char *why,
                                    size_t why_bytes, struct td_err *err);

/* A row chosen for one set of shapes, prepared. */
struct td_choice {
    const struct td_kernel *kernel; /* NULL: none */
    struct td_kernel_offer offer;
};
/* The name in reports: "fused(conv2d.dnnl)". Borrowed from the row or the choice. */
const char *td_choice_name(const struct td_choice *c);
void td_choice_fini(struct td_choice *c); /* releases the state */

/* Rows passed over at bind, by step. What there is no memory for is left out. */
struct td_select_note {
    const struct td_kernel *row;
    char *text; /* owned: what an error said; NULL: reason has it */
    const char *reason;
    int step;
};
struct td_select_notes {
    struct td_select_note *list;
    int n, room;
};
void td_select_notes_fini(struct td_select_notes *n);
/* Appends "row: reason; ..." of this step to text, which holds a string already. */
void td_select_notes_put(const struct td_select_notes *n, int step, char *text, size_t bytes);

/* Whether the first of the rows serves whatever the shapes are. */
static inline bool td_select_is_plain(const struct td_kernel *const *rows, const struct td_target *t)
{
    return rows[0]->prepare == NULL && (!rows[0]->competes || t->trial_ns == 0);
}

/* Chooses among rows of td_select_rows for the query's shapes; its notes are told of rows passed over. When
 * none serves: the error of the last row asked, or UNIMPLEMENTED with all reasons; out->kernel is NULL
 * then. */
TD_MUST enum td_code td_select_bind(const struct td_kernel_query *q, const struct td_kernel *const *rows,
                                    int n_rows, struct td_choice *out, struct td_err *err);

#endif
