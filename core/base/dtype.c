/* core/base/dtype.c - names and sizes from dtype.def, in a table by number.
 *
 * The numbers are TensorFlow's DataType and have gaps; a row without a name is none, and every question about
 * it gets a harmless answer ("invalid", size 0). A static assertion a row holds each size to its C type.
 *
 * Does not: convert values; half and bfloat16 do so inline in dtype.h.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/dtype.h"

static const struct {
    const char *name, *tf_name;
    size_t size;
} rows[TD_DTYPE_END] = {
#define X(NAME, number, ctype, lower, bytes) [number] = {lower, "DT_" #NAME, bytes},
#include "core/base/dtype.def"
#undef X
};

#define X(NAME, number, ctype, lower, bytes) _Static_assert(sizeof(ctype) == (bytes), "size of " lower);
#include "core/base/dtype.def"
#undef X

bool td_dtype_valid(int number)
{
    return number > 0 && number < TD_DTYPE_END && rows[number].name != NULL;
}

const char *td_dtype_name(enum td_dtype t)
{
    return td_dtype_valid((int)t) ? rows[t].name : "invalid";
}

const char *td_dtype_tf_name(enum td_dtype t)
{
    return td_dtype_valid((int)t) ? rows[t].tf_name : "DT_INVALID";
}

size_t td_dtype_size(enum td_dtype t)
{
    return td_dtype_valid((int)t) ? rows[t].size : 0;
}

bool td_dtype_is_object(enum td_dtype t)
{
    return td_dtype_in(t, TD_SET_OBJECTS);
}
