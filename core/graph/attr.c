/* core/graph/attr.c - lookup by name.
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
