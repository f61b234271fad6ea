/* proto/stablehlo/module.c - finds things in a module by their names.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/stablehlo/module.h"

#include <string.h>

const struct td_hlo_function *td_hlo_function_find(const struct td_hlo_module *m, const char *name)
{
    for (int i = 0; i < m->n_functions; i++) {
        if (strcmp(m->functions[i].name, name) == 0) {
            return &m->functions[i];
        }
    }
    return NULL;
}

const struct td_hlo_attr *td_hlo_attr_find(const struct td_hlo_attr *attrs, int n, const char *name)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(attrs[i].name, name) == 0) {
            return &attrs[i];
        }
    }
    return NULL;
}
