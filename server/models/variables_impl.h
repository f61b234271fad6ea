/* server/models/variables_impl.h - the table of variables as its two halves see it: variables.c reads it,
 * variables_find.c finds in it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SERVER_MODELS_VARIABLES_IMPL_H
#define TD_SERVER_MODELS_VARIABLES_IMPL_H

#include <string.h>

#include "core/base/arena.h"
#include "proto/checkpoint/slice.h"
#include "server/models/variables.h"

struct row {
    const char *resource, *key, *object; /* the last two may be NULL */
    const char *stem; /* the key without what all keys of objects end with; NULL: it is no such key */
    const char *twin; /* the key that the graph restores it from, where that is another; else NULL */
    enum td_dtype dtype;
    struct td_shape shape; /* of what it holds */
    bool trainable;
    struct td_shape whole; /* of the variable that it is a part of */
    struct td_box box;     /* rank -1: it is no part */
};

/* Rows [first, first + n) of the sorted table. */
struct group {
    const char **resources;
    int first, n, axis;
};

struct td_variables {
    struct td_arena *arena;
    struct row *rows;
    int n_rows, cap_rows;
    struct group *groups;
    int n_groups;
};

/* text is name, or name with ":0" behind it. */
static inline bool td_variable_is_named(const char *text, const char *name)
{
    const size_t n = name == NULL ? 0 : strlen(name);
    return name != NULL && strncmp(text, name, n) == 0 && (text[n] == 0 || strcmp(text + n, ":0") == 0);
}

#endif
