/* proto/hlo_graph/hlo_gather.h - places in a tensor that indices name: what gather and scatter share.
 *
 * Both say: an index vector names the corner of a window of the operand; each axis of the operand is
 * `inserted` (the window has size 1 there and no axis of its own), `batching` (its place is that along an
 * axis of the indices), or an axis of the window. `full`: the window is as long as the operand.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_HLO_GRAPH_HLO_GATHER_H
#define TD_PROTO_HLO_GRAPH_HLO_GATHER_H

#include "proto/hlo_graph/hlo_frame.h"

struct td_hlo_places {
    const struct td_hlo_value *operand, *indices, *windows; /* windows: gather's result, scatter's updates */
    int rank;                                               /* of operand */
    int n_map;
    const int64_t *map; /* axis of the operand of each number of an index vector */
    int n_batching;
    const int64_t *batching, *indices_batching;
    int n_window;
    const int64_t *window;      /* axes of `windows` */
    int window_of[TD_MAX_RANK]; /* by the operand's axis: its axis in `windows`; -1: none */
    int batch_of[TD_MAX_RANK];  /* by batch axis of the indices: its axis in `windows` */
    int n_batch;                /* axes of the indices but that of the vector */
    int vector;                 /* that axis; the indices' rank: they are single numbers */
    bool inserted[TD_MAX_RANK], mapped[TD_MAX_RANK], full[TD_MAX_RANK];
    int64_t size[TD_MAX_RANK]; /* of the window along the operand's axes; -1: unknown */
    struct td_value sizes; /* of the windows along the operand's axes, int32s; no node: `windows` has them */
    struct td_value index; /* [batch.., n_map], int32 */
};

/* The names of the attributes differ. */
struct td_hlo_places_names {
    const char *inserted, *batching, *indices_batching, *map, *window;
};
bool td_hlo_places(struct td_hlo_frame *f, const struct td_hlo_op *op,
                   const struct td_hlo_places_names *names, struct td_hlo_places *p);
/* The index vector axis by axis against where a window fits: the last corner that does, a vector of
 * n_map. */
struct td_value td_hlo_last_corner(struct td_hlo_frame *f, const struct td_hlo_places *p);
/* The number of each element of the windows' in the operand seen as a vector, of corners index [batch..,
 * n_map], an int32 tensor that broadcasts to the shape of `windows`. */
struct td_value td_hlo_element_numbers(struct td_hlo_frame *f, const struct td_hlo_places *p,
                                       struct td_value index);
/* Whether mapped axes have windows of size 1, and all others are full. */
bool td_hlo_whole_rows(const struct td_hlo_places *p);
/* How many elements lie between neighbours along each axis of the operand, int32 scalars. */
void td_hlo_steps(struct td_hlo_frame *f, const struct td_hlo_value *v, struct td_value *step);

#endif
