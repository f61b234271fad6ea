/* tests/host_cuda/fft_test.c - Fourier transforms on the host-run device against the host's: lengths of one,
 * odd, prime, longer than shared memory; boxes that are cut, no lines at all.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/both_sides.h"

/* Of small primes, of large ones, and longer than shared memory on either way. */
static const int lengths[] = {1,   2,   3,   4,   5,   6,   7,    8,    9,    12,   16,   31,   37,   60, 97,
                              128, 240, 251, 509, 512, 521, 1009, 1024, 2560, 2561, 3000, 4096, 4099, 0};

static struct td_shape rows_of(int64_t rows, int64_t n)
{
    return (struct td_shape){.rank = 2, .dim = {rows, n}};
}

TEST(transforms_of_any_length_are_the_hosts)
{
    setup();
    static const char *const graphs[] = {IN_X "r = FFT {Tcomplex:type=%s} (x)",
                                         IN_X "r = IFFT {Tcomplex:type=%s} (x)"};
    for (int g = 0; g < 2; g++) {
        for (int k = 2; k < TYPES; k++) {
            for (int i = 0; lengths[i] > 0; i++) {
                with_one(graphs[g], types[k],
                         random_of(types[k], rows_of(lengths[i] < 600 ? 7 : 2, lengths[i])));
            }
            with_one(graphs[g], types[k], random_of(types[k], rows_of(0, 8)));
            with_one(graphs[g], types[k], random_of(types[k], rows_of(300, 3)));
        }
    }
}

/* A transform of real numbers to `n` points, and back. */
static void real_lines(enum td_dtype t, int64_t rows, int n, int more)
{
    const enum td_dtype other = t == TD_FLOAT ? TD_COMPLEX64 : TD_COMPLEX128;
    char text[TEXT];
    snprintf(
        text, sizeof text,
        "x = Placeholder {dtype:type=%s} ()\nr = RFFT {Treal:type=%s; Tcomplex:type=%s} (x, int32[1] %d)",
        td_dtype_name(t), td_dtype_name(t), td_dtype_name(other), n);
    struct td_tensor x = random_of(t, rows_of(rows, n + more));
    compare(text, &x, exactness(t));
    td_tensor_clear(&x);
    snprintf(
        text, sizeof text,
        "x = Placeholder {dtype:type=%s} ()\nr = IRFFT {Treal:type=%s; Tcomplex:type=%s} (x, int32[1] %d)",
        td_dtype_name(other), td_dtype_name(t), td_dtype_name(other), n);
    x = random_of(other, rows_of(rows, n / 2 + 1 + more));
    compare(text, &x, exactness(t));
    td_tensor_clear(&x);
}

TEST(transforms_of_real_lines_are_the_hosts)
{
    setup();
    for (int k = 0; k < 2; k++) {
        for (int i = 0; lengths[i] > 0; i++) {
            real_lines(types[k], lengths[i] < 600 ? 5 : 1, lengths[i], i % 3);
        }
    }
}

/* Boxes of several axes: complex ones, and real ones that are cut to lengths. */
static void box_of(enum td_dtype t, const char *op, struct td_shape s, const char *given)
{
    char text[TEXT];
    const bool real = strchr(op, 'R') != NULL, doubles = !is_single(t);
    snprintf(text, sizeof text, "x = Placeholder {dtype:type=%s} ()\nr = %s {%s%s%sTcomplex:type=%s} (x%s)",
             td_dtype_name(t), op, real ? "Treal:type=" : "",
             !real     ? ""
             : doubles ? "double"
                       : "float",
             real ? "; " : "", doubles ? "complex128" : "complex64", given);
    struct td_tensor x = random_of(t, s);
    compare(text, &x, exactness(t));
    td_tensor_clear(&x);
}

TEST(transforms_of_several_axes_are_the_hosts)
{
    setup();
    const struct td_shape four = shape4(2, 6, 5, 11), large = shape4(1, 1, 37, 70);
    for (int k = 2; k < TYPES; k++) {
        box_of(types[k], "FFT2D", four, "");
        box_of(types[k], "FFT2D", large, "");
        box_of(types[k], "IFFT3D", four, "");
        box_of(types[k], "FFT3D", large, "");
        box_of(types[k - 2], "RFFT2D", four, ", int32[2] 4 10");
        box_of(types[k - 2], "RFFT3D", four, ", int32[3] 5 4 11");
        box_of(types[k], "IRFFT2D", four, ", int32[2] 4 18");
        box_of(types[k], "IRFFT3D", four, ", int32[3] 5 4 19");
        box_of(types[k], "IRFFT3D", four, ", int32[3] 6 5 20");
    }
    box_of(TD_COMPLEX64, "FFT2D", shape4(1, 1, 3001, 2), "");
}

TEST_MAIN(RUN(transforms_of_any_length_are_the_hosts) RUN(transforms_of_real_lines_are_the_hosts)
              RUN(transforms_of_several_axes_are_the_hosts))
