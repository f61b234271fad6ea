/* clients/tensorctl_tensors.c - field by field.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "clients/tensorctl_tensors.h"

void tdc_to_wire(const tensord_tensor *t, struct tdc_tensor *out)
{
    *out = (struct tdc_tensor){.name = t->name,
                               .dtype = t->dtype,
                               .rank = t->rank < 0 ? 0 : t->rank,
                               .data = t->data,
                               .bytes = t->bytes};
    for (int i = 0; i < out->rank && i < TDC_MAX_RANK; i++) {
        out->dims[i] = t->dims[i];
    }
}

void tdc_from_wire(const struct tdc_tensor *t, tensord_tensor *out)
{
    *out = (tensord_tensor){
        .name = t->name, .dtype = t->dtype, .rank = t->rank, .data = t->data, .bytes = t->bytes};
    for (int i = 0; i < t->rank && i < TENSORD_MAX_RANK; i++) {
        out->dims[i] = t->dims[i];
    }
}
