/* tests/fuzz/infer_pb_fuzz.c - the reader of ModelInferRequest over any bytes, whole and cut into blocks.
 *
 * The first byte chooses the size of the blocks. The reader must agree with itself however the bytes are cut,
 * and what it reads as tensors must come back from their raw form.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/request/infer_pb.h"

#define MAX_BLOCKS 4096
#define MAX_BYTES ((uint64_t)1 << 24)

static size_t cut(const uint8_t *p, size_t n, size_t block, struct td_seg *seg)
{
    size_t k = 0;
    for (size_t at = 0; at < n; k++) {
        const size_t len = k + 1 == MAX_BLOCKS || n - at < block ? n - at : block;
        seg[k] = (struct td_seg){p + at, len};
        at += len;
    }
    return k;
}

/* Writes the tensor raw and reads that back. */
static void there_and_back(const struct td_infer_in *in, const struct td_tensor *t)
{
    struct td_err err = {0};
    struct td_sink s = {0}, again = {0};
    struct td_tensor back = {0};
    TD_CHECK(td_v2_raw_write(t, &s, &err) == TD_OK && s.n == td_v2_raw_size(t));
    const struct td_seg seg = {(const uint8_t *)s.p, s.n};
    struct td_infer_in raw = *in;
    raw.typed = false;
    td_wire_init(&raw.data, &seg, 1);
    TD_CHECK(td_infer_tensor(&raw, MAX_BYTES * 8, &back, &err) == TD_OK);
    TD_CHECK(td_v2_raw_write(&back, &again, &err) == TD_OK);
    TD_CHECK(again.n == s.n && (s.n == 0 || memcmp(again.p, s.p, s.n) == 0));
    td_tensor_clear(&back);
    td_sink_fini(&s);
    td_sink_fini(&again);
}

/* How many bytes of tensors the request holds, or -1 when it is refused. */
static long long infer(struct td_wire w)
{
    struct td_err err = {0};
    struct td_arena *a = td_arena_new((size_t)1 << 24);
    struct td_infer_pb p;
    long long sum = -1;
    if (td_infer_read(w, a, &p, &err) == TD_OK) {
        sum = (long long)(strlen(p.id) + strlen(p.opts.signature)) + p.n_out;
        for (int i = 0; i < p.n_in; i++) {
            struct td_tensor t = {0};
            struct td_err bad = {0};
            if (td_infer_tensor(&p.in[i], MAX_BYTES, &t, &bad) == TD_OK) {
                there_and_back(&p.in[i], &t);
                sum += (long long)td_tensor_bytes(&t) + 1;
            }
            td_tensor_clear(&t);
        }
    }
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
    const long long whole = infer(w);
    td_wire_init(&w, seg, cut(data + 1, size - 1, data[0] % 31 + 1u, seg));
    if (infer(w) != whole) {
        abort();
    }
    return 0;
}
