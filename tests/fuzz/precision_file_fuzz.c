/* tests/fuzz/precision_file_fuzz.c - any bytes as a model's precision.json: what is read has names in order,
 * each with a range.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "core/base/mem.h"
#include "server/models/precision_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct td_err err = {0};
    struct td_precision *p;
    if (td_precision_parse((const char *)data, size, &p, &err)) {
        TD_CHECK(err.code == TD_INVALID_ARGUMENT || err.code == TD_RESOURCE_EXHAUSTED);
        return 0;
    }
    for (int i = 0; i < p->n; i++) {
        const struct td_precision_range *r = &p->range[i];
        TD_CHECK(i == 0 || strcmp(p->range[i - 1].weights, r->weights) < 0);
        TD_CHECK(isfinite(r->min) && isfinite(r->max) && r->min <= r->max);
        TD_CHECK(td_precision_find(p, r->weights) == r);
    }
    td_precision_unref(p);
    return 0;
}
