/* tests/op_library/kernel.c - an op library that brings no op but a kernel for one that is there: MatMul of
 * floats, when neither operand is transposed and x has two rows or more.
 *
 * Its state remembers the sizes; its workspace holds one row of sums in double.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "server/tensord_op.h"

enum { INTERNAL = 13, RESOURCE_EXHAUSTED = 8 };

static const tensord_op_api *api;

struct sizes {
    int64_t m, k, n;
};

static int prepare(tensord_op_context *c, void **state, size_t *workspace_bytes)
{
    tensord_op_shape a, b;
    api->input_shape(c, 0, &a);
    api->input_shape(c, 1, &b);
    if (api->attr_bool(c, "transpose_a", 0) || api->attr_bool(c, "transpose_b", 0)) {
        return api->refuse(c, "an operand is transposed");
    }
    if (a.dims[0] < 2) {
        return api->refuse(c, "a single row");
    }
    struct sizes *s = malloc(sizeof *s);
    if (s == NULL) {
        return api->fail(c, RESOURCE_EXHAUSTED, "no memory");
    }
    *s = (struct sizes){a.dims[0], a.dims[1], b.dims[1]};
    *state = s;
    *workspace_bytes = (size_t)s->n * sizeof(double);
    return 0;
}

static int run(tensord_op_context *c)
{
    const struct sizes *s = api->state(c);
    double *sums = api->workspace(c);
    tensord_op_tensor a, b, y;
    int code = api->output(c, 0, NULL, &y);
    if (code || !api->input(c, 0, &a) || !api->input(c, 1, &b)) {
        return code;
    }
    if (s == NULL || a.count != s->m * s->k || b.count != s->k * s->n) {
        return api->fail(c, INTERNAL, "state of other shapes");
    }
    for (int64_t i = 0; i < s->m; i++) {
        memset(sums, 0, (size_t)s->n * sizeof *sums);
        for (int64_t p = 0; p < s->k; p++) {
            for (int64_t j = 0; j < s->n; j++) {
                sums[j] +=
                    (double)((const float *)a.data)[i * s->k + p] * ((const float *)b.data)[p * s->n + j];
            }
        }
        for (int64_t j = 0; j < s->n; j++) {
            ((float *)y.data)[i * s->n + j] = (float)sums[j];
        }
    }
    return api->stopped(c);
}

static const tensord_op rows[] = {
    {.name = "MatMul",
     .flags = TENSORD_OP_KERNEL,
     .types = "T: float",
     .run = run,
     .prepare = prepare,
     .release = free},
};

const tensord_op_library_info *tensord_op_library(const tensord_op_api *table)
{
    static const tensord_op_library_info info = {TENSORD_OP_ABI, sizeof(tensord_op), 1, rows};
    api = table;
    return table->size >= sizeof *table ? &info : NULL;
}
