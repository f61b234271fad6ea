/* tests/embed_example.c - the C API in thirty lines, as docs/embedding.md shows it: loads a SavedModel, runs
 * it, prints a result.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/tensord.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    tensord_model *model;
    tensord_error err = {0};
    if (argc != 2 || tensord_load(argv[1], NULL, &model, &err)) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: embed_example DIR" : err.message);
        return 1;
    }
    float image[64] = {0,  5, 12, 13, 16, 16, 2,  0,  0,  11, 16, 15, 8, 4, 0,  0,  0, 8, 14, 11, 1, 0,
                       0,  0, 0,  8,  16, 16, 14, 0,  0,  0,  0,  1,  6, 6, 16, 0,  0, 0, 0,  0,  0, 5,
                       16, 3, 0,  0,  0,  1,  5,  15, 13, 0,  0,  0,  0, 4, 15, 16, 2, 0, 0,  0};
    tensord_tensor in = {
        .name = "images", .dtype = 1, .rank = 3, .dims = {1, 8, 8}, .data = image, .bytes = sizeof image};
    tensord_tensor *out;
    int n_out;
    if (tensord_run(model, NULL, &in, 1, &out, &n_out, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("%s is %lld\n", out[0].name, (long long)*(const int64_t *)out[0].data);
    int right = *(const int64_t *)out[0].data == 5;
    tensord_results_free(out, n_out);
    tensord_free(model);
    return right ? 0 : 1;
}
