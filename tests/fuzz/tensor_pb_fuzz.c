/* tests/fuzz/tensor_pb_fuzz.c - any bytes as a TensorProto: what the decoder made must come back from its own
 * encoding.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/pb/tensor_pb.h"

enum { MAX_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool same(const struct td_tensor *a, const struct td_tensor *b)
{
    if (a->dtype != b->dtype || !td_shape_equal(&a->shape, &b->shape)) {
        return false;
    }
    int64_t n = td_tensor_count(a);
    for (int64_t i = 0; a->dtype == TD_STRING && i < n; i++) {
        size_t na, nb;
        const char *p = td_tensor_str(a, i, &na), *q = td_tensor_str(b, i, &nb);
        if (na != nb || memcmp(p, q, na) != 0) {
            return false;
        }
    }
    return a->dtype == TD_STRING || n == 0 || memcmp(a->data, b->data, td_tensor_bytes(a)) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct td_err err = {0};
    struct td_tensor t = {0}, back = {0};
    if (td_tensor_from_bytes(data, size, MAX_BYTES, &t, &err)) {
        return 0;
    }
    for (int as_content = 0; as_content < 2; as_content++) {
        struct td_sink s = {0};
        TD_CHECK(td_tensor_to_bytes(&t, as_content != 0, &s, &err) == TD_OK);
        TD_CHECK(s.n == td_tensor_pb_size(&t, as_content != 0));
        TD_CHECK(td_tensor_from_bytes(s.p, s.n, MAX_BYTES, &back, &err) == TD_OK);
        TD_CHECK(same(&t, &back));
        td_tensor_clear(&back);
        td_sink_fini(&s);
    }
    td_tensor_clear(&t);
    return 0;
}
