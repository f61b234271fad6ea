/* tests/fuzz/infer_json_fuzz.c - any bytes as the body of a KServe v2 request over HTTP.
 *
 * The first two bytes say how many of the following are JSON. Tensors that are read are written in both
 * forms, which must be JSON again.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/json/infer_json.h"

#define MOST 16 /* inputs that are looked at */

static void write_both(const struct td_named *t, int n, const char *id)
{
    for (int binary = 0; binary <= 1; binary++) {
        bool which[MOST];
        struct td_err err = {0};
        struct td_sink s = {0};
        size_t n_json = 0;
        for (int i = 0; i < n; i++) {
            which[i] = binary || i % 2;
        }
        const struct td_infer_json_answer answer = {"m", id, 1, t, which, n, NULL};
        TD_CHECK(td_infer_json_write(&answer, &s, &n_json, &err) == TD_OK);
        TD_CHECK(td_sink_put(&s, "", 1, &err) == TD_OK);
        struct td_json j = td_json_make(s.p, n_json > 0 ? n_json : s.n - 1);
        TD_CHECK(td_json_skip(&j, &err) == TD_OK && td_json_peek(&j) == '\0' && j.at == j.end);
        td_sink_fini(&s);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    const size_t n = size - 2, said = (size_t)data[0] | (size_t)data[1] << 8;
    char *body = malloc(n + 1);
    memcpy(body, data + 2, n);
    body[n] = '\0';
    struct td_err err = {0};
    struct td_arena *a = td_arena_new((size_t)1 << 24);
    const struct td_infer_json_known known = {0};
    struct td_infer_json p;
    if (td_infer_json_read(body, n, said < n ? said : n, a, &known, &p, &err) == TD_OK) {
        struct td_named t[MOST];
        int n_t = 0;
        for (int i = 0; i < p.n_in && n_t < MOST; i++) {
            struct td_err bad = {0};
            if (td_infer_json_tensor(&p.in[i], (uint64_t)1 << 24, &t[n_t].t, &bad) == TD_OK) {
                t[n_t++].name = p.in[i].raw.name;
            }
        }
        write_both(t, n_t, p.id);
        for (int i = 0; i < n_t; i++) {
            td_tensor_clear(&t[i].t);
        }
    }
    td_infer_json_fini(&p);
    td_arena_free(a);
    free(body);
    return 0;
}
