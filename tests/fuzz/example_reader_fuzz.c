/* tests/fuzz/example_reader_fuzz.c - any bytes as an Example and as a SequenceExample, of which a few keys
 * are wanted; every value of theirs is copied out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/data/example_reader.h"

#include "core/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One of them twice, as a spec may want it. */
static const struct td_bytes wanted[] = {{"b", 1}, {"i", 1}, {"f", 1}, {"l", 1}, {"", 0}, {"f", 1}};
enum { N_WANTED = sizeof wanted / sizeof wanted[0] };

static void touch(struct td_example_span feature)
{
    struct td_err err = {0};
    struct td_tensor t;
    enum td_dtype type;
    if (!td_example_type(feature, &type) || type == TD_DTYPE_NONE) {
        return;
    }
    const struct td_shape shape = td_shape_vector(td_example_count(feature));
    if (shape.dim[0] >= 0 && td_tensor_new(&t, type, &shape, &err) == TD_OK) {
        TD_CHECK(td_example_copy(feature, &t, 0, &err) == TD_OK);
        td_tensor_clear(&t);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct td_example_keys keys;
    struct td_example_span found[N_WANTED], feature;
    int32_t *slots = td_calloc((size_t)td_example_slots(N_WANTED), sizeof *slots);
    TD_CHECK(slots != NULL);
    td_example_keys_init(&keys, wanted, N_WANTED, slots);
    if (td_example_map(data, size, 1, &keys, found)) {
        for (int i = 0; i < N_WANTED; i++) {
            touch(found[i]);
        }
    }
    if (td_example_map(data, size, 2, &keys, found)) {
        for (int i = 0; i < N_WANTED; i++) {
            while (found[i].p != NULL && td_example_list_next(&found[i], &feature) == 1) {
                touch(feature);
            }
        }
    }
    td_free(slots);
    return 0;
}
