/* kernels/dataset.h - datasets and their iterators, as far as a loop over a dataset inside a function needs
 * them.
 *
 *   dataset   variant, immutable: where its elements come from (inputs, kept tensors, a function's name,
 * numbers) iterator  a place in it; makes one element at a time in the calling thread
 *
 * An element is an array of n_out tensors. Functions are called through the op that pulls elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_DATASET_H
#define TD_KERNELS_DATASET_H

#include "core/graph.h"
#include "kernels/philox.h"
#include "kernels/tensor_list.h"

struct td_dataset_iter;

/* out: n_out zeroed tensors, to be filled with tensors of the caller's unless *end; cleared by the caller on
 * failure. */
typedef enum td_code td_dataset_next_fn(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                        bool *end, struct td_err *err);

#define TD_DATASET_INFINITE (-1)
#define TD_DATASET_UNKNOWN (-2)

struct td_dataset {
    struct td_nest nest;
    td_dataset_next_fn *next;
    int n_out;
    struct td_dataset **from; /* n_from inputs, counted */
    int n_from;
    struct td_tensor *arg; /* components, or initial state and captured arguments */
    int n_args, n_state;
    int64_t number[4]; /* the op's scalar inputs behind those, in order */
    char *function;    /* NULL: none */
    int64_t cardinality;
    uint64_t seed[2];
};

struct td_dataset_iter {
    struct td_dataset *ds; /* counted */
    struct td_dataset_iter **from;
    int64_t at;
    bool over;
    struct td_tensor *state;       /* n_state of ds */
    struct td_dataset_iter **open; /* of datasets that the function made */
    int n_open;
    struct td_tensor *buffer; /* n_buffered elements of n_out */
    int64_t n_buffered;
    struct td_philox generator;
};

/* Returns new. n_from inputs and n_args tensors are to be filled in. */
TD_MUST enum td_code td_dataset_new(td_dataset_next_fn *next, int n_out, int n_from, int n_args,
                                    struct td_dataset **out, struct td_err *err);
/* Input i of the op as a dataset; borrowed. */
TD_MUST enum td_code td_dataset_in(const struct td_call *c, int i, struct td_dataset **out,
                                   struct td_err *err);
TD_MUST enum td_code td_dataset_iter_new(struct td_dataset *ds, struct td_dataset_iter **out,
                                         struct td_err *err);
void td_dataset_iter_free(struct td_dataset_iter *it); /* accepts NULL */
/* The next element into out (ds->n_out zeroed tensors), or *end; on failure out is cleared. */
TD_MUST enum td_code td_dataset_next(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                     bool *end, struct td_err *err);
/* Calls the function with the tensors of two or three arrays as its arguments. */
TD_MUST enum td_code td_dataset_call(struct td_call *c, const char *function,
                                     const struct td_tensor *const parts[3], const int n_part[3],
                                     struct td_tensor *out, int n_out, struct td_err *err);
void td_dataset_clear(struct td_tensor *t, int64_t n);

/* What each kind of dataset does next (dataset_next.c). */
td_dataset_next_fn td_dataset_next_once, td_dataset_next_slice, td_dataset_next_range, td_dataset_next_map,
    td_dataset_next_filter, td_dataset_next_take_while, td_dataset_next_scan, td_dataset_next_flat_map,
    td_dataset_next_interleave, td_dataset_next_batch, td_dataset_next_unbatch, td_dataset_next_take,
    td_dataset_next_skip, td_dataset_next_repeat, td_dataset_next_concatenate, td_dataset_next_zip,
    td_dataset_next_shard, td_dataset_next_shuffle;

#endif
