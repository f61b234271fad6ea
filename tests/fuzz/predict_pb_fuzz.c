/* tests/fuzz/predict_pb_fuzz.c - every reader of gRPC requests over any bytes, whole and cut into blocks.
 *
 * The first byte chooses the size of the blocks. The readers must agree with themselves however the bytes are
 * cut.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/request/classify_pb.h"
#include "proto/model/model_pb.h"

#define MAX_BLOCKS 4096
#define MAX_BYTES ((uint64_t)1 << 24)

static size_t cut(const uint8_t *p, size_t n, size_t block, struct td_seg *seg)
{
    size_t k = 0;
    for (size_t at = 0; at < n; k++) {
        size_t len = k + 1 == MAX_BLOCKS || n - at < block ? n - at : block;
        seg[k] = (struct td_seg){p + at, len};
        at += len;
    }
    return k;
}

/* Returns how many bytes of tensors the request holds, or -1 when it is refused. */
static long long predict(struct td_wire w)
{
    struct td_err err = {0};
    struct td_arena *a = td_arena_new((size_t)1 << 24);
    struct td_predict_pb p;
    long long sum = -1;
    if (td_predict_read(w, a, &p, &err) == TD_OK) {
        sum = 0;
        for (int i = 0; i < p.n_in; i++) {
            struct td_tensor t = {0};
            struct td_err bad = {0};
            if (td_wire_tensor(p.in[i].tensor, MAX_BYTES, &t, &bad) == TD_OK) {
                sum += (long long)td_tensor_bytes(&t) + 1;
            }
            td_tensor_clear(&t);
        }
    }
    td_arena_free(a);
    return sum;
}

static long long others(struct td_wire w)
{
    struct td_err err = {0};
    struct td_arena *a = td_arena_new((size_t)1 << 24);
    struct td_examples_pb e;
    struct td_multi_pb m;
    struct td_metadata_pb d;
    struct td_tensor t = {0};
    long long sum = 0;
    if (td_examples_read(w, a, &e, &err) == TD_OK && td_input_read(e.input, MAX_BYTES, &t, &err) == TD_OK) {
        sum += td_tensor_count(&t);
    }
    td_tensor_clear(&t);
    err = (struct td_err){0};
    sum += td_multi_read(w, a, &m, &err) == TD_OK ? m.n_task : 0;
    err = (struct td_err){0};
    sum += td_metadata_read(w, a, &d, &err) == TD_OK ? d.n_field : 0;
    td_arena_free(a);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct td_seg seg[MAX_BLOCKS];
    if (size == 0) {
        return 0;
    }
    struct td_wire w;
    td_wire_init(&w, seg, cut(data + 1, size - 1, size, seg));
    const long long whole = predict(w), more = others(w);
    td_wire_init(&w, seg, cut(data + 1, size - 1, data[0] % 31 + 1u, seg));
    if (predict(w) != whole || others(w) != more) {
        abort();
    }
    return 0;
}
