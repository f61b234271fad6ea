/* tests/fuzz/gradient_json_fuzz.c - any bytes as the body of a gradient request: the first picks a dtype, the
 * rest is the text. Tensors that are given for names are read in that dtype, and an answer is made of them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/json/gradient_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void answer(const struct td_named *made, int n)
{
    struct td_err err = {0};
    struct td_sink sink = {.limit = 1 << 24};
    const bool written = td_gradient_json_write(&sink, made, n, made, n, &err) == TD_OK;
    TD_CHECK(written || err.code == TD_INVALID_ARGUMENT || err.code == TD_RESOURCE_EXHAUSTED);
    td_sink_fini(&sink);
}

static void read_tensors(const struct td_gradient_json_tensors *t, enum td_dtype dtype, struct td_arena *a)
{
    struct td_err err = {0};
    const int n = t->names.n;
    struct td_json_field *fields = td_arena_alloc(a, (size_t)n + 1, sizeof *fields);
    struct td_named *made = td_arena_alloc(a, (size_t)n + 1, sizeof *made);
    int n_made = 0;
    if (n == 0 || fields == NULL || made == NULL) {
        return;
    }
    for (int i = 0; i < n; i++) {
        fields[i] = (struct td_json_field){.name = t->names.name[i], .dtype = dtype};
    }
    if (td_json_inputs(&t->body, fields, n, made, &n_made, &err) == TD_OK) {
        TD_CHECK(n_made <= n);
        answer(made, n_made);
        for (int i = 0; i < n_made; i++) {
            td_tensor_clear(&made[i].t);
        }
    }
}

static void parse(const char *text, size_t n, enum td_dtype dtype)
{
    struct td_err err = {0};
    struct td_json_body body;
    struct td_gradient_json g;
    struct td_arena *arena = td_arena_new(1 << 22);
    if (td_json_body(text, n, arena, &body, &err) == TD_OK &&
        td_gradient_json_read(body.root, arena, &g, &err) == TD_OK) {
        TD_CHECK(g.target.n <= TD_GRADIENT_JSON_NAMES && g.wrt.n <= TD_GRADIENT_JSON_NAMES);
        read_tensors(&g.output_gradients, dtype, arena);
        read_tensors(&g.vector, dtype, arena);
    }
    td_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum td_dtype dtypes[] = {TD_FLOAT, TD_DOUBLE, TD_HALF, TD_BFLOAT16, TD_INT64, TD_STRING};
    if (size < 1) {
        return 0;
    }
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    parse(text, size - 1, dtypes[data[0] % 6]);
    free(text);
    return 0;
}
