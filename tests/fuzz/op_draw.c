/* tests/fuzz/op_draw.c - draws numbers, strings, shapes and tensors, plain and hostile.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/op_draw.h"

#include <math.h>
#include <string.h>

void op_script_open(struct op_script *s, const uint8_t *bytes, size_t n)
{
    *s = (struct op_script){.p = bytes, .left = n, .state = 0x9e3779b97f4a7c15u};
    for (size_t i = 0; i < n; i++) {
        s->state = (s->state ^ bytes[i]) * 0x100000001b3u;
    }
}

uint64_t op_script_draw(struct op_script *s, uint64_t n)
{
    if (s->left > 0 && n <= 256) {
        s->left--;
        return *s->p++ % n;
    }
    uint64_t z = s->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

uint64_t op_draw(struct op_maker *m, uint64_t n)
{
    return op_script_draw(m->s, n);
}

bool op_one_in(struct op_maker *m, uint64_t n)
{
    return op_draw(m, n) == n - 1;
}

bool op_hostile(struct op_maker *m)
{
    return op_one_in(m, (uint64_t)m->hostility);
}

/* ------------------------------------------------------------------ values */

int64_t op_draw_hostile_int(struct op_maker *m)
{
    static const int64_t v[] = {0,         -1,        -2,        INT32_MAX, INT32_MIN,  INT64_MAX,
                                INT64_MIN, 1LL << 32, 1LL << 40, 65536,     0xdeadbeef, 0xb500005b,
                                1LL << 62, 100,       -100,      1610637938};
    return v[op_draw(m, sizeof v / sizeof v[0])];
}

int64_t op_draw_int(struct op_maker *m)
{
    return op_hostile(m) ? op_draw_hostile_int(m) : (int64_t)op_draw(m, 6) - (int64_t)op_one_in(m, 4);
}

double op_draw_float(struct op_maker *m)
{
    static const double v[] = {NAN,   INFINITY, -INFINITY, 1e38,         -1e38,
                               1e-40, 1e300,    -0.0,      4294967296.0, 9.3e18};
    return op_hostile(m) ? v[op_draw(m, 10)] : ((double)op_draw(m, 64) - 16) / 8;
}

const char *op_draw_string(struct op_maker *m, size_t *len)
{
    static const char *const v[] = {"",
                                    "a",
                                    "ab,bc->ac",
                                    "...ij->...ji",
                                    "hello world",
                                    "3.5",
                                    "-7",
                                    "12,\"x\",",
                                    "[a-z]+",
                                    "\\1",
                                    "%d %s",
                                    "{\"a\":1}",
                                    "UTF-8",
                                    "SAME",
                                    "VALID",
                                    "NHWC",
                                    "NCHW",
                                    "/etc/passwd",
                                    "../x",
                                    "ii->i",
                                    "\xff\xfe",
                                    "aGVsbG8",
                                    "sum",
                                    "mean",
                                    "1,2,3",
                                    "\xe4\xbd\xa0\xe5\xa5\xbd",
                                    "float32",
                                    "UTF-16-BE",
                                    "value0",
                                    "GIF89a",
                                    "BM"};
    const char *text = v[op_draw(m, sizeof v / sizeof v[0])];
    *len = strlen(text);
    if (op_hostile(m)) {
        *len = 3;
        return "a\0b";
    }
    return text;
}

struct td_shape op_draw_shape(struct op_maker *m)
{
    struct td_shape s = m->base;
    const uint64_t how = op_draw(m, 16);
    if (how < 7) {
        return s;
    }
    if (how < 9) {
        return td_shape_scalar();
    }
    if (how < 11) {
        return td_shape_vector((int64_t)op_draw(m, 5));
    }
    if (how == 11) {
        s.rank = s.rank > 0 ? s.rank - 1 : 0;
    } else if (how == 12 && s.rank < TD_MAX_RANK) {
        s.dim[s.rank++] = (int64_t)op_draw(m, 4);
    } else if (how == 13 && s.rank > 0) {
        s.dim[op_draw(m, (uint64_t)s.rank)] = 0;
    } else if (how == 14 && s.rank > 0) {
        s.dim[op_draw(m, (uint64_t)s.rank)] = (int64_t)op_draw(m, 5);
    } else {
        s.rank = (int)op_draw(m, 6);
        for (int i = 0; i < s.rank; i++) {
            s.dim[i] = (int64_t)op_draw(m, 4);
        }
    }
    return s;
}

enum td_dtype op_draw_any_dtype(struct op_maker *m)
{
    for (;;) {
        const int t = 1 + (int)op_draw(m, TD_DTYPE_END - 1);
        if (td_dtype_valid(t)) {
            return (enum td_dtype)t;
        }
    }
}

enum td_dtype op_draw_dtype_of(struct op_maker *m, uint32_t set)
{
    enum td_dtype list[32];
    int n = 0;
    for (int t = 1; t < TD_DTYPE_END; t++) {
        if (td_dtype_valid(t) && td_dtype_in((enum td_dtype)t, set)) {
            list[n++] = (enum td_dtype)t;
        }
    }
    return n == 0 ? TD_FLOAT : list[op_draw(m, (uint64_t)n)];
}

void op_draw_element(struct op_maker *m, struct td_tensor *t, int64_t i)
{
    struct td_err err = {0};
    if (t->dtype == TD_STRING) {
        size_t len;
        const char *text = op_draw_string(m, &len);
        (void)!td_tensor_set_str(t, i, text, len, &err); /* without memory it stays what it was */
    } else if (!td_dtype_is_object(t->dtype)) {
        const int64_t v = op_draw_int(m);
        op_graph_put(t->dtype, (unsigned char *)t->data + (size_t)i * td_dtype_size(t->dtype), v,
                     op_draw_float(m));
    }
}

bool op_draw_tensor(struct op_maker *m, enum td_dtype dtype, const struct td_shape *shape,
                    struct td_tensor *t)
{
    struct td_err err = {0};
    if (td_tensor_new(t, dtype, shape, &err)) {
        return false;
    }
    const int64_t n = td_tensor_count(t);
    const uint64_t how = op_draw(m, 6); /* 0: rising, 1: all equal, else drawn one by one */
    const int64_t number = op_draw_int(m);
    for (int64_t i = 0; i < n; i++) {
        if (dtype == TD_STRING || how >= 2) {
            op_draw_element(m, t, i);
        } else if (!td_dtype_is_object(dtype)) {
            const int64_t v = how == 0 ? i : number;
            op_graph_put(dtype, (unsigned char *)t->data + (size_t)i * td_dtype_size(dtype), v, (double)v);
        }
    }
    return true;
}
