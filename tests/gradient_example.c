/* tests/gradient_example.c - the C API's gradients: which pixels speak for the digit, and how far each weight
 * would move.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "server/tensord.h"

#include <math.h>
#include <stdio.h>

static float largest(const tensord_tensor *t)
{
    float most = 0;
    for (size_t i = 0; i < t->bytes / sizeof(float); i++) {
        most = fmaxf(most, fabsf(((const float *)t->data)[i]));
    }
    return most;
}

int main(int argc, char **argv)
{
    tensord_model *model;
    tensord_error err = {0};
    if (argc != 2 || tensord_load(argv[1], NULL, &model, &err)) {
        fprintf(stderr, "%s\n", argc != 2 ? "usage: gradient_example DIR" : err.message);
        return 1;
    }
    float image[64] = {0,  5, 12, 13, 16, 16, 2,  0,  0,  11, 16, 15, 8, 4, 0,  0,  0, 8, 14, 11, 1, 0,
                       0,  0, 0,  8,  16, 16, 14, 0,  0,  0,  0,  1,  6, 6, 16, 0,  0, 0, 0,  0,  0, 5,
                       16, 3, 0,  0,  0,  1,  5,  15, 13, 0,  0,  0,  0, 4, 15, 16, 2, 0, 0,  0};
    float five[10] = {[5] = 1};
    const tensord_tensor in = {
        .name = "images", .dtype = 1, .rank = 3, .dims = {1, 8, 8}, .data = image, .bytes = sizeof image};
    const tensord_tensor seed = {
        .name = "probabilities", .dtype = 1, .rank = 2, .dims = {1, 10}, .data = five, .bytes = sizeof five};
    const char *const target[] = {"probabilities"}, *const wrt[] = {"images", "var:*"};
    const tensord_gradient_options opts = {.targets = target,
                                           .n_targets = 1,
                                           .wrt = wrt,
                                           .n_wrt = 2,
                                           .output_gradients = &seed,
                                           .n_output_gradients = 1};
    tensord_gradient_result made;
    if (tensord_gradient(model, NULL, &in, 1, &opts, &made, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (int i = 0; i < made.n_gradients; i++) {
        printf("%-12s %g\n", made.gradients[i].name, largest(&made.gradients[i]));
    }
    const int right = made.n_gradients == 7 && made.n_outputs == 2 && largest(&made.gradients[0]) > 0;
    tensord_results_free(made.gradients, made.n_gradients);
    tensord_results_free(made.outputs, made.n_outputs);
    tensord_free(model);
    return right ? 0 : 1;
}
