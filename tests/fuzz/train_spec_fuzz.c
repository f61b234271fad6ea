/* tests/fuzz/train_spec_fuzz.c - any JSON as the body of a fine-tuning job; what is taken is answered, and
 * laid out for a signature.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "core/base/mem.h"
#include "server/train/layout.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct td_tensor_info in[] = {
        {.key = "x", .tensor = "x", .dtype = TD_FLOAT, .shape = {2, {-1, 2}}}};
    static struct td_tensor_info out[] = {
        {.key = "k", .tensor = "k", .dtype = TD_FLOAT, .shape = {2, {-1, 4}}},
        {.key = "y", .tensor = "y", .dtype = TD_FLOAT, .shape = {1, {-1}}}};
    static const struct td_signature sig = {.key = "s", .in = in, .n_in = 1, .out = out, .n_out = 2};
    json_t *doc = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    struct td_fault f = {.err.code = TD_OK};
    struct td_job_spec *s;
    struct td_row_layout *l;
    if (doc == NULL) {
        return 0;
    }
    if (td_job_spec_read(doc, &s, &f)) {
        TD_CHECK(f.code[0] != '\0' && f.err.msg[0] != '\0');
        json_decref(doc);
        return 0;
    }
    json_decref(td_job_spec_hyperparameters(s));
    json_decref(td_job_spec_method(s));
    for (int i = 0; i < s->n_optimizers; i++) {
        (void)td_job_spec_rate(&s->optimizer[i], 10);
    }
    if (td_row_layout_new(s, &sig, &l, &f) == TD_OK) {
        td_row_layout_free(l);
    }
    td_job_spec_free(s);
    json_decref(doc);
    return 0;
}
