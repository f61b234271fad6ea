/* kernels/control/ragged_value.c - made, copied but for the values, freed.
 *
 * Does not: check that splits and values fit; who makes one has (kernels/sparse/ragged_variant.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/control/ragged_value.h"

#include "core/base/mem.h"

static void ragged_destroy(struct td_obj *o)
{
    struct td_ragged *r = (struct td_ragged *)o;
    for (int k = 0; k < r->levels; k++) {
        td_tensor_clear(&r->splits[k]);
    }
    td_tensor_clear(&r->values);
    td_free(r);
}

const struct td_obj_type td_ragged_type = {.name = "RaggedTensorVariant", .destroy = ragged_destroy};

enum td_code td_ragged_new(int levels, struct td_ragged **out, struct td_err *err)
{
    struct td_ragged *r = td_calloc(1, sizeof(*r));
    if (r == NULL) {
        return td_no_memory(err, sizeof(*r), "a ragged tensor");
    }
    td_obj_init(&r->obj, &td_ragged_type);
    r->levels = levels;
    *out = r;
    return TD_OK;
}

enum td_code td_ragged_with(const struct td_ragged *r, struct td_tensor *values, struct td_ragged **out,
                            struct td_err *err)
{
    struct td_ragged *with = NULL;
    const enum td_code rc = td_ragged_new(r->levels, &with, err);
    if (rc) {
        td_tensor_clear(values);
        return rc;
    }
    for (int k = 0; k < r->levels; k++) {
        td_tensor_ref(&with->splits[k], &r->splits[k]);
    }
    with->values = *values;
    *values = (struct td_tensor){0};
    *out = with;
    return TD_OK;
}

struct td_ragged *td_ragged_of(struct td_obj *o)
{
    return o != NULL && o->type == &td_ragged_type ? (struct td_ragged *)o : NULL;
}
