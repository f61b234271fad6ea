/* core/attr.c - lookup by name.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/attr.h"

#include <string.h>

const struct td_attr *td_attr_find(const struct td_attr *attrs, int n_attrs, const char *name)
{
    for (int i = 0; i < n_attrs; i++) {
        if (strcmp(attrs[i].name, name) == 0) {
            return &attrs[i];
        }
    }
    return NULL;
}
