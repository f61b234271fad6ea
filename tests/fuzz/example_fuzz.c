/* tests/fuzz/example_fuzz.c - any bytes as an Example and as a SequenceExample; every value is copied out.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "proto/example.h"

#include "core/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(const struct td_feature *f)
{
    TD_CHECK(f->count >= 0);
    if (f->kind == TD_FEATURE_BYTES) {
        struct td_scan s = td_feature_values(f);
        const char *p;
        size_t len, sum = 0;
        int64_t n = 0;
        for (; td_feature_bytes_next(&s, &p, &len); n++) {
            sum += len > 0 ? (size_t)(unsigned char)p[len - 1] : 0;
        }
        TD_CHECK(n == f->count && sum + 1 > 0);
        return;
    }
    void *room = td_calloc((size_t)f->count + 1, 8); /* exact, so that a sanitizer sees one too many */
    TD_CHECK(room != NULL);
    if (f->kind == TD_FEATURE_FLOAT) {
        td_feature_floats(f, room, f->count);
    } else if (f->kind == TD_FEATURE_INT64) {
        td_feature_ints(f, room, f->count);
    }
    td_free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct td_features it = td_features_of(data, size);
    struct td_feature_lists lists = td_feature_lists_of(data, size);
    struct td_feature_list list;
    struct td_feature f;
    while (td_features_next(&it, &f)) {
        touch(&f);
    }
    while (td_feature_lists_next(&lists, &list)) {
        while (td_feature_list_next(&list, &f)) {
            touch(&f);
        }
    }
    return 0;
}
