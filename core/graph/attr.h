/* core/graph/attr.h - typed attributes of a node, as in NodeDef.attr.
 *
 * Everything hangs on the graph's arena, except tensors, whose buffers are counted and dropped by an arena
 * cleanup.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_CORE_GRAPH_ATTR_H
#define TD_CORE_GRAPH_ATTR_H

#include "core/base/tensor.h"

enum td_attr_kind {
    TD_ATTR_NONE,
    TD_ATTR_STRING,
    TD_ATTR_INT,
    TD_ATTR_FLOAT,
    TD_ATTR_BOOL,
    TD_ATTR_TYPE,
    TD_ATTR_SHAPE,
    TD_ATTR_TENSOR,
    TD_ATTR_FUNC,
    TD_ATTR_PLACEHOLDER /* "$T" in the body of a polymorphic function: str names the attribute */
};

struct td_bytes {
    const char *p;
    size_t len;
}; /* NUL-terminated beyond len */

struct td_attr;
struct td_func_ref {
    const char *name;
    struct td_attr *attrs;
    int n_attrs;
};

struct td_attr {
    const char *name;
    enum td_attr_kind kind;
    bool is_list; /* list: n elements in the array of kind; else the single value is element 0 and n is 1 */
    int n;        /* kind of an empty list may be TD_ATTR_NONE */
    union {
        struct td_bytes *str; /* STRING, PLACEHOLDER */
        int64_t *i;
        float *f;
        bool *b;
        enum td_dtype *type; /* reference types (+100) already reduced to their base */
        struct td_shape *shape;
        struct td_tensor *tensor;
        struct td_func_ref *func;
    };
};

/* The attribute called name, or NULL. */
const struct td_attr *td_attr_find(const struct td_attr *attrs, int n_attrs, const char *name);

#endif
