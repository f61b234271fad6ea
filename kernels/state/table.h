/* kernels/state/table.h - the lookup tables behind HashTable, MutableHashTable, MutableHashTableOfTensors and
 * MutableDenseHashTable: one open-addressed map with a lock.
 *
 * Keys are scalars or short rows (dense tables) of string, int32 or int64; values are rows of value_shape of
 * any dtype. Entries keep the order they were put in, except that removing one moves the last entry to its
 * place. Threads: callers hold `lock` (read for finding and exporting, write for changing) around the
 * td_table_* calls.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KERNELS_STATE_TABLE_H
#define TD_KERNELS_STATE_TABLE_H

#include <pthread.h>

#include "core/graph/graph.h"
#include "core/graph/op.h"

enum td_table_kind { TD_TABLE_STATIC, TD_TABLE_MUTABLE, TD_TABLE_TENSORS, TD_TABLE_DENSE };

struct td_table {
    struct td_obj obj;
    pthread_rwlock_t lock; /* guards all below `value_shape` */
    enum td_table_kind kind;
    enum td_dtype key_dtype, value_dtype;
    struct td_shape key_shape, value_shape;
    int64_t key_width, value_width;          /* elements a key, a value */
    struct td_tensor empty_key, deleted_key; /* dense tables: keys that may not be used; unset otherwise */
    bool initialized;                        /* static tables: filled, and fixed from then on */
    void *keys, *values;                     /* n rows each, in room for cap */
    int64_t n, cap;
    int64_t *slot; /* n_slots (a power of two): entry + 1, or 0 */
    int64_t n_slots;
};
extern const struct td_obj_type td_table_type;

struct td_table_opts {
    const struct td_node *node; /* for error texts */
    enum td_table_kind kind;
    enum td_dtype key_dtype, value_dtype;
    struct td_shape value_shape;
    const struct td_tensor *empty_key, *deleted_key; /* NULL: none */
};
/* td_resource_create_fn: arg is a struct td_table_opts. Returns new. */
enum td_code td_table_create(const void *arg, struct td_obj **out, struct td_err *err);

/* Entry of key i of keys; -1: absent. */
int64_t td_table_find(const struct td_table *t, const struct td_tensor *keys, int64_t i);
/* Puts key i with value i, over a value that is there. */
TD_MUST enum td_code td_table_put(struct td_table *t, const struct td_tensor *keys,
                                  const struct td_tensor *values, int64_t i, struct td_err *err);
void td_table_remove(struct td_table *t, const struct td_tensor *keys, int64_t i);
void td_table_clear(struct td_table *t);
/* Copies the value of an entry to row i of y. */
void td_table_value(const struct td_table *t, int64_t entry, struct td_tensor *y, int64_t i);
/* Whether two rows of `width` elements hold the same values (strings by their bytes). */
bool td_table_rows_equal(enum td_dtype dtype, const void *a, const void *b, int64_t width);
bool td_table_value_equals(const struct td_table *t, int64_t entry, const struct td_tensor *values,
                           int64_t i);

#endif
