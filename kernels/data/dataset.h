/* kernels/data/dataset.h - datasets and their iterators, as far as a loop over a dataset inside a function
 * needs them.
 *
 *   dataset   variant, immutable: where its elements come from (inputs, kept tensors, a function's name,
 *             numbers)
 *   iterator  a place in it; makes one element at a time in the calling thread
 *
 * An element is an array of n_out tensors. Functions are called through the op that pulls elements.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_DATA_DATASET_H
#define TD_KERNELS_DATA_DATASET_H

#include "core/graph/graph.h"
#include "kernels/math/philox.h"
#include "kernels/control/tensor_list.h"

struct td_dataset_iter;

/* out: n_out zeroed tensors, to be filled with tensors of the caller's unless *end; cleared by the caller on
 * failure. */
typedef enum td_code td_dataset_next_fn(struct td_call *c, struct td_dataset_iter *it, struct td_tensor *out,
                                        bool *end, struct td_err *err);

#define TD_DATASET_INFINITE (-1)
#define TD_DATASET_UNKNOWN (-2)
#define TD_DATASET_NUMBERS 5

extern const struct td_obj_type td_dataset_type;

struct td_dataset {
    struct td_nest nest;
    td_dataset_next_fn *next;
    int n_out;
    struct td_dataset **from; /* n_from inputs, counted */
    int n_from;
    struct td_tensor *arg; /* components, or initial state and captured arguments */
    int n_args, n_state;
    int64_t number[TD_DATASET_NUMBERS]; /* the op's scalar inputs behind those, in order */
    char *function;                     /* NULL: none */
    char *reduce, *window_size;         /* of groups, beside `function`, the key; NULL: none */
    int n_key_args, n_reduce_args;      /* of arg: those of the key, the reducer, the size, in this order */
    int64_t cardinality;
    struct td_obj *seeds; /* where a shuffling gets its seeds from; NULL: it is none */
    struct td_obj *cache; /* of a CacheDataset; NULL: it is none */
};

/* How to make a dataset from an op's inputs. */
struct td_dataset_kind {
    int n_from;    /* datasets in; -1: all inputs */
    bool all_args; /* all other inputs are components to keep */
    td_dataset_next_fn *next;
    /* Checks numbers and tensors, sets the cardinality; NULL: nothing to do. */
    enum td_code (*finish)(const struct td_node *n, struct td_dataset *ds, struct td_err *err);
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
    bool reads_cache; /* of a CacheDataset: an earlier iterator has filled it */
    int64_t
        /* of a shuffling: the first buffered element that is still there; of an interleaving: whose turn it
         * is */
        front;
    struct td_philox generator;
    struct td_philox_words words; /* of generator */
    void *own;                    /* what the kind alone knows; NULL: nothing */
    void (*own_free)(void *own, int width);
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

/* Element i along axis 0, sharing its bytes. */
void td_dataset_row(struct td_tensor *dst, const struct td_tensor *src, int64_t i);
/* Component k of n elements of `width` components, stacked into *out, which is new. */
TD_MUST enum td_code td_dataset_stack(const struct td_tensor *items, int64_t n, int width, int k,
                                      struct td_tensor *out, struct td_err *err);
/* A tensor that a function gave as a dataset of n_out components; borrowed. */
TD_MUST enum td_code td_dataset_given(const struct td_tensor *t, const char *function, int n_out,
                                      struct td_dataset **out, struct td_err *err);
/* Returns new: the n elements of `width` components, of which each takes a reference, or component k alone.
 */
TD_MUST enum td_code td_dataset_of_elements(const struct td_tensor *items, int64_t n, int64_t stride,
                                            int width, int k, struct td_dataset **out, struct td_err *err);
enum { TD_DATASET_ALL = -1 }; /* k: all components */

/* Sets the datasets that the op's first inputs are. */
TD_MUST enum td_code td_dataset_keep_from(struct td_call *c, struct td_dataset *ds, struct td_err *err);
/* Returns new, of the op's inputs. */
TD_MUST enum td_code td_dataset_build(struct td_call *c, const struct td_dataset_kind *k,
                                      struct td_dataset **out, struct td_err *err);
/* A dataset that passes on elements as they are has as many components as its inputs. */
TD_MUST enum td_code td_dataset_same_width(const struct td_node *n, const struct td_dataset *ds,
                                           struct td_err *err);
/* Shape inference of ops whose outputs are handles. */
TD_MUST enum td_code td_dataset_scalars(struct td_infer *c, struct td_err *err);

/* Buffers elements of the input until n are there or it ends; *cap: the capacity of the buffer. */
TD_MUST enum td_code td_dataset_buffer_fill(struct td_call *c, struct td_dataset_iter *it, int64_t n,
                                            int64_t *cap, struct td_err *err);
void td_dataset_move(struct td_tensor *out, struct td_tensor *in, int n);

/* Seeds the iterator of a shuffling: once, when it is made. */
void td_dataset_shuffle_seed(struct td_dataset_iter *it);

/* Whether the cache of ds, which has one, is complete. */
bool td_dataset_cache_ready(const struct td_dataset *ds);

/* What each kind of dataset does next (dataset_next.c). */
td_dataset_next_fn td_dataset_next_once, td_dataset_next_slice, td_dataset_next_range, td_dataset_next_map,
    td_dataset_next_filter, td_dataset_next_take_while, td_dataset_next_scan, td_dataset_next_flat_map,
    td_dataset_next_interleave, td_dataset_next_batch, td_dataset_next_unbatch, td_dataset_next_take,
    td_dataset_next_skip, td_dataset_next_repeat, td_dataset_next_concatenate, td_dataset_next_zip,
    td_dataset_next_shard, td_dataset_next_counted;

#endif
