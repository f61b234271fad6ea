/* server/debug/debug_store.h - the values of one run by node, and where another run differs from them.
 *
 * A node is known by its function, its name with the calls around it, and how often it has run: the third
 * turn of a loop is compared with the third. Values are copies, so that the run they come from does as it
 * always does. What does not fit into the store's bytes is not compared, and the answer says how many nodes
 * were.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_DEBUG_DEBUG_STORE_H
#define TD_SERVER_DEBUG_DEBUG_STORE_H

#include "core/graph/graph.h"
#include "server/debug/debug.h"

struct td_debug_store {
    const struct td_debug_opts *opts;
    struct td_store_slot **slots;    /* by hash of the key */
    size_t bytes;                    /* of the copies held */
    bool full;                       /* something was left out: nothing is added any more */
    int64_t n_kept, n_compared;      /* nodes */
    struct td_sink first_difference; /* a JSON object; empty: none found */
};

TD_MUST enum td_code td_store_init(struct td_debug_store *s, const struct td_debug_opts *opts,
                                   struct td_err *err);
void td_store_fini(struct td_debug_store *s);
void td_store_keep(struct td_debug_store *s, const struct td_node *n, const struct td_tensor *out, int n_out,
                   const char *kernel);
/* Compares with what was kept (and forgets it). *max_abs: the largest difference; -1 when there was nothing
 * to compare. */
void td_store_compare(struct td_debug_store *s, const struct td_node *n, const struct td_tensor *out,
                      int n_out, const char *kernel, double *max_abs);

#endif
