/* core/graph/attr.c - lookup by name: a walk over the few attributes that a node has.
 *
 * The first letters are compared before the rest, since kernels ask at every run. Attributes are in the order
 * of the file; names are unique in a node, which its reader has checked (proto/model/attr_pb.c).
 *
 * Does not: check kinds or give defaults (the getters of core/graph/graph.c do, on resolved nodes).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/graph/attr.h"

#include <string.h>

const struct td_attr *td_attr_find(const struct td_attr *attrs, int n_attrs, const char *name)
{
    for (int i = 0; i < n_attrs; i++) {
        if (attrs[i].name[0] == name[0] && strcmp(attrs[i].name, name) == 0) { /* kernels ask at every run */
            return &attrs[i];
        }
    }
    return NULL;
}
