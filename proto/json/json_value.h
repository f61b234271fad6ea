/* proto/json/json_value.h - gathers JSON values, one after another, into the elements of one tensor to be.
 *
 * td_gather_value appends one dense value (a scalar or nested lists) and reports its shape; values appended
 * in turn become the rows of the tensor that td_gather_take makes. Strings are counted objects until then.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PROTO_JSON_JSON_VALUE_H
#define TD_PROTO_JSON_JSON_VALUE_H

#include "core/base/tensor.h"
#include "proto/json/json_read.h"

struct td_json_nest;

struct td_gather {
    enum td_dtype dtype;
    size_t elem;   /* bytes an element */
    char *data;    /* heap, or own while small */
    size_t n, cap; /* elements */
    bool is_view;  /* of data that is another's: it does not grow */
    struct td_buffer
        *block; /* that data lies in, to become the tensor's where it is about as large; or NULL */
    _Alignas(16) char own[512];
};

/* UNIMPLEMENTED for dtypes that JSON has no form for: "Conversion of JSON Value: ... to type: complex64". */
TD_MUST enum td_code td_gather_init(struct td_gather *g, enum td_dtype dtype, struct td_err *err);
void td_gather_fini(struct td_gather *g);
/* Room for n elements more, so that they are appended without growing. */
TD_MUST enum td_code td_gather_reserve(struct td_gather *g, size_t n, struct td_err *err);
/* Back to the first n elements. */
void td_gather_cut(struct td_gather *g, size_t n);
/* Appends the value at j. INVALID_ARGUMENT for ragged lists, wrong kinds and numbers out of range. */
TD_MUST enum td_code td_gather_value(struct td_gather *g, struct td_json *j, struct td_shape *shape,
                                     struct td_err *err);
/* Reads on in the lists of nest, until the value has ended, or (*more) the part of one that the text is. */
TD_MUST enum td_code td_gather_lists(struct td_gather *g, struct td_json_nest *nest, struct td_json *j,
                                     bool *more, struct td_err *err);
/* Appends every scalar of the value at j, in order, however they are nested. */
TD_MUST enum td_code td_gather_flat(struct td_gather *g, struct td_json *j, struct td_err *err);
/* Makes the tensor (elements move into it). shape must count exactly the elements gathered. */
TD_MUST enum td_code td_gather_take(struct td_gather *g, const struct td_shape *shape, struct td_tensor *out,
                                    struct td_err *err);
/* An element of g's dtype from a number: of a float the nearest, of an integer itself; false when it has
 * none. */
bool td_gather_store(const struct td_gather *g, void *to, const struct td_json_num *num);
/* True when the next token is {"b64": "..."}. */
bool td_json_at_b64(const struct td_json *j);

#endif
