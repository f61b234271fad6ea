/* tests/op_library/example.c - an op library to start from: three ops, on server/tensord_op.h alone.
 *
 *   TensordExampleClipScale   y = min(max(x, low), high) * scale, for four dtypes; the shape is the input's
 *   TensordExampleWithin      the elements of a vector between low and high, and where they were: how many
 *                             depends on data
 *   TensordExampleTag         a prefix before each string
 *
 *     cc -shared -fPIC -I/usr/include -o libexample.so example.c
 *     tensord DIR --op_library=./libexample.so
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "server/tensord_op.h" /* installed: <tensord_op.h> */

enum { INVALID_ARGUMENT = 3 };
enum { FLOAT = 1, DOUBLE = 2, INT32 = 3, INT64 = 9 };

static const tensord_op_api *api;

static int infer_same(tensord_op_context *c)
{
    tensord_op_shape shape;
    api->input_shape(c, 0, &shape);
    return api->set_shape(c, 0, &shape);
}

/* ------------------------------------------------------------------ ClipScale */

struct range {
    double low, high, scale;
};

static struct range range_of(const tensord_op_context *c)
{
    return (struct range){api->attr_float(c, "low", 0), api->attr_float(c, "high", 0),
                          api->attr_float(c, "scale", 0)};
}

static int clip_scale_infer(tensord_op_context *c)
{
    struct range r = range_of(c);
    if (!(r.low <= r.high)) {
        return api->fail(c, INVALID_ARGUMENT, "low is %g, must not exceed high, %g", r.low, r.high);
    }
    return infer_same(c);
}

static double clipped(double x, const struct range *r)
{
    return (x < r->low ? r->low : x > r->high ? r->high : x) * r->scale;
}

#define CLIP_SCALE(ctype)                                                                                    \
    for (int64_t i = 0; i < x.count; i++) {                                                                  \
        ((ctype *)y.data)[i] = (ctype)clipped((double)((const ctype *)x.data)[i], &r);                       \
    }

static int clip_scale_run(tensord_op_context *c)
{
    const struct range r = range_of(c);
    tensord_op_tensor x, y;
    int code = api->output(c, 0, NULL, &y);
    if (code || !api->input(c, 0, &x)) {
        return code;
    }
    switch (x.dtype) {
    case FLOAT:
        CLIP_SCALE(float)
        break;
    case DOUBLE:
        CLIP_SCALE(double)
        break;
    case INT32:
        CLIP_SCALE(int32_t)
        break;
    case INT64:
        CLIP_SCALE(int64_t)
        break;
    }
    return 0;
}

/* ------------------------------------------------------------------ Within */

static int within_infer(tensord_op_context *c)
{
    tensord_op_shape shape;
    const tensord_op_shape some = {.rank = 1, .dims = {-1}};
    api->input_shape(c, 0, &shape);
    if (shape.rank >= 0 && shape.rank != 1) {
        return api->fail(c, INVALID_ARGUMENT, "x has %d dimensions, must be a vector", shape.rank);
    }
    int code = api->set_shape(c, 0, &some);
    return code ? code : api->set_shape(c, 1, &some);
}

static int within_run(tensord_op_context *c)
{
    const struct range r = range_of(c);
    tensord_op_tensor x, values, indices;
    tensord_op_shape found = {.rank = 1};
    api->input(c, 0, &x);
    const float *from = x.data;
    for (int64_t i = 0; i < x.count; i++) {
        found.dims[0] += from[i] >= r.low && from[i] <= r.high;
    }
    int code = api->output(c, 0, &found, &values);
    code = code ? code : api->output(c, 1, &found, &indices);
    for (int64_t i = 0, k = 0; code == 0 && i < x.count; i++) {
        if (from[i] >= r.low && from[i] <= r.high) {
            ((float *)values.data)[k] = from[i];
            ((int64_t *)indices.data)[k++] = i;
        }
        code = i % 4096 == 0 ? api->stopped(c) : 0;
    }
    return code;
}

/* ------------------------------------------------------------------ Tag */

static int tag_run(tensord_op_context *c)
{
    enum { MOST = 1000 };
    tensord_op_tensor s, t;
    size_t n, length;
    const char *prefix = api->attr_string(c, "prefix", 0, &n);
    int code = api->output(c, 0, NULL, &t);
    for (int64_t i = 0; code == 0 && api->input(c, 0, &s) && i < s.count; i++) {
        char joined[MOST];
        const char *from = api->string(&s, i, &length);
        if (n > MOST || length > MOST - n) {
            return api->fail(c, INVALID_ARGUMENT, "string %lld has %zu bytes, with its tag at most %d fit",
                             (long long)i, length, MOST);
        }
        memcpy(joined, prefix, n);
        memcpy(joined + n, from, length);
        code = api->set_string(c, &t, i, joined, n + length);
    }
    return code;
}

/* ------------------------------------------------------------------ the library */

static const tensord_op ops[] = {
    {.name = "TensordExampleClipScale",
     .signature = "(x:T) -> (y:T) {T:type; low:float; high:float; scale:float=1.0}",
     .types = "T: float, double, int32, int64",
     .infer = clip_scale_infer,
     .run = clip_scale_run},
    {.name = "TensordExampleWithin",
     .signature = "(x:float) -> (values:float, indices:int64) {low:float; high:float}",
     .infer = within_infer,
     .run = within_run},
    {.name = "TensordExampleTag",
     .signature = "(s:string) -> (t:string) {prefix:string='#'}",
     .infer = infer_same,
     .run = tag_run},
};

const tensord_op_library_info *tensord_op_library(const tensord_op_api *table)
{
    static const tensord_op_library_info info = {TENSORD_OP_ABI, sizeof(tensord_op),
                                                 sizeof ops / sizeof ops[0], ops};
    api = table;
    return table->size >= sizeof *table ? &info : NULL;
}
