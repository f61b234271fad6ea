/* tests/fuzz/gradient_pb_fuzz.c - any bytes as a GradientRequest, cut into blocks; its tensors are made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/base/mem.h"
#include "proto/request/gradient_pb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make(const struct td_named_wire *in, int n)
{
    for (int i = 0; i < n; i++) {
        struct td_err err = {0};
        struct td_tensor t = {0};
        if (td_wire_tensor(in[i].tensor, 1 << 20, &t, &err) == TD_OK) {
            struct td_sink s = {0};
            const struct td_named named = {in[i].name, t};
            const struct td_gradient_pb_answer answer = {.gradients = &named,
                                                         .n_gradients = 1,
                                                         .outputs = &named,
                                                         .n_outputs = 1,
                                                         .name = "",
                                                         .signature = ""};
            (void)!td_gradient_pb_write(&answer, &s, &err);
            td_sink_fini(&s);
        }
        td_tensor_clear(&t);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct td_err err = {0};
    struct td_gradient_pb p;
    struct td_wire w;
    const size_t half = size / 2;
    const struct td_seg seg[2] = {{data, half}, {data + half, size - half}};
    struct td_arena *arena = td_arena_new(1 << 22);
    td_wire_init(&w, seg, 2);
    if (td_gradient_pb_read(w, arena, &p, &err) == TD_OK) {
        TD_CHECK(p.n_target <= TD_GRADIENT_PB_MOST && p.vector.n <= TD_GRADIENT_PB_MOST);
        make(p.predict.in, p.predict.n_in);
        make(p.output_gradients.at, p.output_gradients.n);
        make(p.vector.at, p.vector.n);
    }
    td_arena_free(arena);
    return 0;
}
