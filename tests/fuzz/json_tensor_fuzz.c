/* tests/fuzz/json_tensor_fuzz.c - any bytes as the body of a predict request: the first picks the dtypes, the
 * rest is the text. What parses is printed; the text in a form whose numbers are read one by one must give
 * the same.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/json/json_tensor.h"
#include "tests/fuzz/json_spaced.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int parse(const char *text, size_t n, const struct td_json_field *fields, struct td_named *out,
                 enum td_json_form *form)
{
    struct td_err err = {0};
    struct td_json_body body;
    struct td_arena *arena = td_arena_new(1 << 20);
    int n_out = 0;
    if (td_json_body(text, n, arena, &body, &err) || td_json_inputs(&body, fields, 2, out, &n_out, &err)) {
        n_out = -1;
    }
    *form = body.form;
    td_arena_free(arena);
    return n_out;
}

static void clear(struct td_named *t, int n)
{
    for (int i = 0; i < n; i++) {
        td_tensor_clear(&t[i].t);
    }
}

/* Strings hold pointers. */
static bool same(const struct td_tensor *a, const struct td_tensor *b)
{
    return a->dtype == b->dtype && td_shape_equal(&a->shape, &b->shape) &&
           (a->dtype == TD_STRING || td_tensor_bytes(a) == 0 ||
            memcmp(a->data, b->data, td_tensor_bytes(a)) == 0);
}

/* The text gave n of these. */
static void hold_against_spaced(const char *text, size_t size, const struct td_json_field *fields,
                                const struct td_named *t, int n)
{
    char *spaced = malloc(2 * size + 1);
    struct td_named out[2];
    enum td_json_form form = TD_JSON_NO_FORM;
    const size_t n_spaced = json_spaced(text, size, spaced);
    TD_CHECK(parse(spaced, n_spaced, fields, out, &form) == n);
    for (int i = 0; i < n; i++) {
        TD_CHECK(same(&out[i].t, &t[i].t));
    }
    clear(out, n);
    free(spaced);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum td_dtype dtypes[] = {TD_FLOAT, TD_DOUBLE, TD_HALF, TD_INT8,
                                           TD_INT64, TD_UINT64, TD_BOOL, TD_STRING};
    if (size < 1) {
        return 0;
    }
    const struct td_json_field fields[2] = {{"a", dtypes[data[0] & 7], false},
                                            {"b", dtypes[data[0] >> 3 & 7], true}};
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    struct td_named out[2];
    enum td_json_form form = TD_JSON_NO_FORM;
    const int n = parse(text, size - 1, fields, out, &form);
    struct td_err err = {0};
    struct td_sink sink = {.limit = 1 << 24};
    if (n > 0) {
        const bool printed = td_json_outputs(&sink, out, n, form, &err) == TD_OK;
        TD_CHECK(printed || err.code == TD_INVALID_ARGUMENT);
    }
    hold_against_spaced(text, size - 1, fields, out, n);
    clear(out, n);
    td_sink_fini(&sink);
    free(text);
    return 0;
}
