/* tests/host_cuda/linalg_test.c - linear algebra on the host-run device against the host's kernels: sizes of
 * one, odd, prime, larger than a block and than its shared memory, empty batches; and what a matrix must not
 * be is refused in the same words.
 *
 * Bases that are not unique are seen through what they must give: the matrix again, and the identity.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "tests/host_cuda/both_sides.h"

/* ADDED: n on the diagonal. BESIDE: n beside the diagonal, so that rows change places. HERMITIAN: so.
 * POSITIVE: both that and n on the diagonal. */
enum kind { PLAIN, ADDED, BESIDE, HERMITIAN, POSITIVE };
static struct td_tensor squares_of(enum td_dtype t, int64_t batch, int64_t n, enum kind kind)
{
    struct td_tensor x = random_of(t, matrices(batch, n, n));
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t row = b * n * n + i * n;
            for (int64_t j = 0; j < i && kind >= HERMITIAN; j++) {
                const double re = number(), im = number();
                set(&x, row + j, re + I * im);
                set(&x, b * n * n + j * n + i, re - I * im);
            }
            if (kind == HERMITIAN) {
                set(&x, row + i, number());
            } else if (kind == POSITIVE) {
                set(&x, row + i, 2.0 * (double)n);
            } else if (kind != PLAIN) {
                set(&x, row + (kind == BESIDE ? (i + 1) % n : i), (double)n + 1 + number());
            }
        }
    }
    return x;
}

/* ------------------------------------------------------------------ factors */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* a tenth as fast: a few of each kind */
static const int sizes[] = {1, 2, 7, 33, 0};
#else
static const int sizes[] = {1, 2, 3, 5, 7, 17, 33, 64, 0};
#endif
enum { LARGER = 100 }; /* than fits shared memory */

static void each_square(const char *format, enum kind kind)
{
    for (int k = 0; k < TYPES; k++) {
        for (int i = 0; sizes[i] > 0; i++) {
            with_one(format, types[k], squares_of(types[k], sizes[i] < 9 ? 3 : 1, sizes[i], kind));
        }
        with_one(format, types[k], squares_of(types[k], 0, 3, kind));
    }
    with_one(format, TD_FLOAT, squares_of(TD_FLOAT, 2, LARGER, kind));
}

TEST(matrices_have_the_hosts_factors)
{
    setup();
    each_square(IN_X "r = Cholesky {" T "} (x)", POSITIVE);
    each_square(IN_X "r = Cholesky {" T "} (x)", HERMITIAN);
    each_square(IN_X "r = Lu {" T "; output_idx_type:type=int64} (x)", BESIDE);
    each_square(IN_X "f = Lu {" T "} (x)\nr = Identity {T:type=int32} (f:1)", BESIDE);
    each_square(IN_X "r = MatrixInverse {" T "} (x)", BESIDE);
    each_square(IN_X "r = MatrixInverse {" T "; adjoint:bool=true} (x)", ADDED);
    each_square(IN_X "r = MatrixDeterminant {" T "} (x)", BESIDE);
    each_square(IN_X "r = LogMatrixDeterminant {" T "} (x)", BESIDE);
    each_square(IN_X "d = LogMatrixDeterminant {" T "} (x)\nr = Identity {" T "} (d:1)", BESIDE);
}

TEST(matrices_of_nothing_have_determinants)
{
    setup();
    for (int k = 0; k < TYPES; k++) {
        with_one(IN_X "r = MatrixDeterminant {" T "} (x)", types[k], random_of(types[k], matrices(2, 0, 0)));
    }
}

TEST(of_equal_pivots_the_first_is_taken)
{
    setup();
    static const double equal[] = {1, 2, 3, -1, 5, 1, 1, -4, 2};
    struct td_tensor x = squares_of(TD_DOUBLE, 1, 3, PLAIN);
    for (int i = 0; i < 9; i++) {
        set(&x, i, equal[i]);
    }
    with_one(IN_X "f = Lu {" T "} (x)\nr = Identity {T:type=int32} (f:1)", TD_DOUBLE, x);
}

/* Whether a pivot is zero hangs on the last bit: those of real numbers are the host's. */
TEST(factors_of_reals_are_the_hosts_to_the_bit)
{
    setup();
    static const char *const graphs[] = {IN_X "r = Cholesky {" T "} (x)", IN_X "r = Lu {" T "} (x)",
                                         IN_X "r = MatrixDeterminant {" T "} (x)"};
    for (int g = 0; g < 3; g++) {
        for (int i = 0; sizes[i] > 0; i++) {
            struct td_tensor x = squares_of(TD_DOUBLE, 1, sizes[i], g == 0 ? POSITIVE : BESIDE);
            compare(graph(graphs[g], TD_DOUBLE), &x, 0);
            td_tensor_clear(&x);
        }
    }
}

TEST(systems_have_the_hosts_solutions)
{
    setup();
    static const char *const graphs[] = {
        IN_XY "r = MatrixSolve {" T "} (x, y)",
        IN_XY "r = MatrixSolve {" T "; adjoint:bool=true} (x, y)",
        IN_XY "r = MatrixTriangularSolve {" T "} (x, y)",
        IN_XY "r = MatrixTriangularSolve {" T "; lower:bool=false} (x, y)",
        IN_XY "r = MatrixTriangularSolve {" T "; adjoint:bool=true} (x, y)",
        IN_XY "r = MatrixTriangularSolve {" T "; lower:bool=false; adjoint:bool=true} (x, y)",
    };
    for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++) {
        for (int k = 0; k < TYPES; k++) {
            for (int i = 0; sizes[i] > 0; i++) {
                const int64_t n = sizes[i], m = i % 3 == 0 ? 1 : i % 3 == 1 ? 5 : 70;
                with_two(graphs[g], types[k], squares_of(types[k], 2, n, ADDED),
                         random_of(types[k], matrices(2, n, m)));
            }
            with_two(graphs[g], types[k], squares_of(types[k], 0, 3, ADDED),
                     random_of(types[k], matrices(0, 3, 2)));
        }
        with_two(graphs[g], TD_DOUBLE, squares_of(TD_DOUBLE, 1, LARGER, ADDED),
                 random_of(TD_DOUBLE, matrices(1, LARGER, 90)));
    }
    with_two(graphs[2], TD_FLOAT, squares_of(TD_FLOAT, 3, 4, ADDED), random_of(TD_FLOAT, matrices(1, 4, 2)));
    with_two(graphs[3], TD_FLOAT, squares_of(TD_FLOAT, 1, 4, ADDED), random_of(TD_FLOAT, matrices(3, 4, 2)));
}

/* Bands of which the main one, the first or the last, is large. */
static struct td_tensor bands_of(enum td_dtype t, int64_t bands, int64_t n, int64_t main)
{
    struct td_tensor x = random_of(t, matrices(2, bands, n));
    for (int64_t i = 0; i < 2 * n; i++) {
        set(&x, (i / n * bands + main) * n + i % n, 4 + number());
    }
    return x;
}

TEST(few_diagonals_are_solved_as_on_the_host)
{
    setup();
    for (int k = 0; k < TYPES; k++) {
        for (int i = 0; sizes[i] > 0; i++) {
            const enum td_dtype t = types[k];
            const int64_t n = sizes[i], m = i % 2 == 0 ? 3 : 40, bands = n < 4 ? 1 : 4;
            with_two(IN_XY "r = TridiagonalSolve {" T "} (x, y)", t, random_of(t, matrices(2, 3, n)),
                     random_of(t, matrices(2, n, m)));
            with_two(IN_XY "r = TridiagonalSolve {" T "; partial_pivoting:bool=false} (x, y)", t,
                     bands_of(t, 3, n, 1), random_of(t, matrices(2, n, m)));
            with_two(IN_XY "r = TridiagonalMatMul {" T "} (x, x, x, y)", t, random_of(t, matrices(2, 1, n)),
                     random_of(t, matrices(2, n, m)));
            with_two(IN_XY "r = BandedTriangularSolve {" T "} (x, y)", t, bands_of(t, bands, n, 0),
                     random_of(t, matrices(2, n, m)));
            with_two(IN_XY "r = BandedTriangularSolve {" T "; lower:bool=false; adjoint:bool=true} (x, y)", t,
                     bands_of(t, bands, n, bands - 1), random_of(t, matrices(1, n, m)));
        }
    }
    with_two(IN_XY "r = TridiagonalSolve {" T "} (x, y)", TD_DOUBLE, bands_of(TD_DOUBLE, 3, 3000, 1),
             random_of(TD_DOUBLE, matrices(2, 3000, 2)));
}

/* ------------------------------------------------------------------ bases */

/* The last are a block's, the others a warp's; all have every type, but for those from SLOW on. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const int sides[][2] = {{1, 1}, {5, 3}, {3, 5}, {17, 33}, {0, 0}};
enum { SLOW = 3 };
#else
static const int sides[][2] = {{1, 1},  {1, 4},   {4, 1},   {5, 3},   {3, 5},   {7, 7},
                               {11, 6}, {120, 3}, {17, 33}, {300, 4}, {36, 36}, {0, 0}};
enum { SLOW = 8 };
#endif

static bool is_left_out(enum td_dtype t, int side)
{
    return side >= SLOW && t != TD_DOUBLE && t != TD_COMPLEX64;
}

static void each_rectangle(const char *format)
{
    for (int k = 0; k < TYPES; k++) {
        for (int i = 0; sides[i][0] > 0 && !is_left_out(types[k], i); i++) {
            with_one(format, types[k],
                     random_of(types[k], matrices(i < SLOW ? 2 : 1, sides[i][0], sides[i][1])));
        }
        with_one(format, types[k], random_of(types[k], matrices(0, 3, 2)));
    }
}

TEST(reflections_give_the_hosts_factors)
{
    setup();
    each_rectangle(IN_X "r = Qr {" T "} (x)");
    each_rectangle(IN_X "r = Qr {" T "; full_matrices:bool=true} (x)");
    each_rectangle(IN_X "q = Qr {" T "; full_matrices:bool=true} (x)\nr = Identity {" T "} (q:1)");
    with_one(IN_X "r = Qr {" T "} (x)", TD_DOUBLE, random_of(TD_DOUBLE, matrices(1, LARGER, 70)));
    with_one(IN_X "r = Qr {" T "} (x)", TD_FLOAT, squares_of(TD_FLOAT, 2, 0, PLAIN));
}

/* r on the device is the identity, in each of its matrices. */
static void is_identity(const char *format, const struct td_tensor *x)
{
    struct outcome got;
    compute(graph(format, x->dtype), device, x, &got);
    CHECK_INT(got.rc, TD_OK);
    struct td_tensor want = random_of(x->dtype, got.r.shape);
    const int64_t n = got.r.shape.dim[2];
    for (int64_t i = 0; i < td_tensor_count(&want); i++) {
        set(&want, i, i % (n * n) % (n + 1) == 0);
    }
    check_close(format, &want, &got.r, exactness(x->dtype));
    td_tensor_clear(&want);
    td_tensor_clear(&got.r);
}

/* r on the device is x. */
static void is_input(const char *format, const struct td_tensor *x)
{
    struct outcome got;
    compute(graph(format, x->dtype), device, x, &got);
    CHECK_INT(got.rc, TD_OK);
    check_close(format, x, &got.r, exactness(x->dtype) * 10);
    td_tensor_clear(&got.r);
}

#define ITSELF(port) "r = BatchMatMulV2 {" T "; adj_x:bool=true} (s:" #port ", s:" #port ")"
#define GIVES(left, values, right)                                                                           \
    "e = ExpandDims {" T "; Tdim:type=int32} (" values ", int32[] -2)\nm = Mul {" T "} (s:" #left            \
    ", e)\nr = BatchMatMulV2 {" T "; adj_y:bool=true} (m, s:" #right ")"
#define EIGEN IN_X "s = SelfAdjointEigV2 {" T "} (x)\n"
#define SVD IN_X "s = Svd {" T "} (x)\n"
#define WHOLE_SVD IN_X "s = Svd {" T "; full_matrices:bool=true} (x)\n"
/* values come as T, and are real */
#define EIGEN_VALUES IN_X "r = SelfAdjointEigV2 {" T "; compute_v:bool=false} (x)"
#define SVD_VALUES IN_X "r = Svd {" T "; compute_uv:bool=false} (x)"

TEST(self_adjoint_matrices_have_the_hosts_values_and_a_base)
{
    setup();
    each_square(EIGEN_VALUES, HERMITIAN);
    for (int k = 0; k < TYPES; k++) {
        for (int i = 0; sizes[i] > 0; i++) {
            struct td_tensor x = squares_of(types[k], 2, sizes[i], HERMITIAN);
            for (int64_t j = 0; j < sizes[i] && i % 2 == 0; j++) { /* an eigenvalue of zero */
                set(&x, j * sizes[i], 0);
                set(&x, j, 0);
            }
            is_identity(EIGEN ITSELF(1), &x);
            is_input(EIGEN GIVES(1, "s", 1), &x);
            td_tensor_clear(&x);
        }
    }
}

/* Matrices of which the second is a few vectors again and again, or nothing. */
static struct td_tensor poor_of(enum td_dtype t, int64_t m, int64_t n, bool nothing)
{
    struct td_tensor x = random_of(t, matrices(2, m, n));
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            set(&x, m * n + i * n + j, nothing ? 0 : (double)((i + 1) * (j % 2 + 1)));
        }
    }
    return x;
}

TEST(singular_values_are_the_hosts_and_vectors_bases)
{
    setup();
    each_rectangle(SVD_VALUES);
    for (int k = 0; k < TYPES; k++) {
        for (int i = 0; i < SLOW; i++) {
            struct td_tensor x = poor_of(types[k], sides[i][0], sides[i][1], i % 2 == 0);
            is_identity(SVD ITSELF(1), &x);
            is_identity(SVD ITSELF(2), &x);
            is_input(SVD GIVES(1, "s", 2), &x);
            is_identity(WHOLE_SVD ITSELF(1), &x);
            is_identity(WHOLE_SVD ITSELF(2), &x);
            td_tensor_clear(&x);
        }
    }
    struct td_tensor x = poor_of(TD_DOUBLE, 40, 34, false); /* a block's */
    is_identity(WHOLE_SVD ITSELF(1), &x);
    is_input(SVD GIVES(1, "s", 2), &x);
    td_tensor_clear(&x);
    x = random_of(TD_DOUBLE, matrices(2, 4, 3));
    set(&x, 3, NAN);
    with_one(SVD_VALUES, TD_DOUBLE, x);
}

TEST(least_squares_are_the_hosts)
{
    setup();
    static const char *const graphs[] = {
        IN_XY "r = MatrixSolveLs {" T "; fast:bool=true} (x, y, double[] 0.25)",
        IN_XY "r = MatrixSolveLs {" T "; fast:bool=false} (x, y, double[] 0.0)"};
    for (int g = 0; g < 2; g++) {
        for (int k = 0; k < TYPES; k++) {
            for (int i = 0; sides[i][0] > 0 && !is_left_out(types[k], i); i++) {
                const int64_t m = sides[i][0], n = sides[i][1];
                if (m == n && m > 9) {
                    continue; /* as badly conditioned as luck will have it */
                }
                with_two(graphs[g], types[k], random_of(types[k], matrices(2, m, n)),
                         random_of(types[k], matrices(2, m, 3)));
            }
        }
    }
    struct td_tensor x = random_of(TD_DOUBLE, matrices(1, 6, 4)); /* the last column is the others' */
    for (int i = 0; i < 24; i += 4) {
        set(&x, i + 3, part(&x, i) / 3 + part(&x, i + 1));
    }
    with_two(graphs[1], TD_DOUBLE, x, random_of(TD_DOUBLE, matrices(1, 6, 3)));
}

/* ------------------------------------------------------------------ refusals */

TEST(what_cannot_be_is_refused_in_the_hosts_words)
{
    setup();
    static const char *const one[] = {IN_X "r = MatrixInverse {" T "} (x)", IN_X "r = Lu {" T "} (x)"};
    static const char *const two[] = {IN_XY "r = MatrixSolve {" T "} (x, y)",
                                      IN_XY "r = MatrixSolveLs {" T "} (x, y, double[] 0.0)"};
    struct td_tensor in[2] = {random_of(TD_FLOAT, matrices(3, 2, 2)), random_of(TD_FLOAT, matrices(3, 2, 1))};
    static const double singular[] = {1, 2, 2, 4};
    for (int i = 0; i < 4; i++) {
        set(&in[0], 4 + i, singular[i]);
    }
    for (int g = 0; g < 2; g++) {
        compare_refusals(graph(one[g], TD_FLOAT), in);
    }
    compare_refusals(graph(two[0], TD_FLOAT), in);
    for (int i = 0; i < 4; i++) {
        set(&in[0], 4 + i, 0);
    }
    compare_refusals(graph(two[1], TD_FLOAT), in);
    set(&in[0], 5, NAN);
    compare_refusals(graph(EIGEN_VALUES, TD_FLOAT), in);
    td_tensor_clear(&in[0]);
    in[0] = random_of(TD_FLOAT, matrices(3, 3, 2));
    for (int i = 0; i < 6; i++) {
        set(&in[0], 6 + i, 0);
    }
    compare_refusals(graph(IN_XY "r = TridiagonalSolve {" T "} (x, y)", TD_FLOAT), in);
    td_tensor_clear(&in[0]);
    in[0] = bands_of(TD_FLOAT, 1, 2, 0);
    set(&in[0], 1, 0);
    compare_refusals(graph(IN_XY "r = BandedTriangularSolve {" T "} (x, y)", TD_FLOAT), in);
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
}

/* Of matrices whose last row is a part of the sum of the others: rounding decides. */
TEST(both_sides_find_the_same_matrices_singular)
{
    setup();
    int refused = 0;
    for (int i = 0; i < 60; i++) {
        const enum td_dtype t = types[i % TYPES];
        const char *const text = graph(IN_X "r = MatrixInverse {" T "} (x)", t);
        struct td_tensor x = squares_of(t, 1, 3, PLAIN);
        struct outcome want, got;
        for (int64_t j = 0; j < 3; j++) {
            const double a = rint(number() * 9), b = rint(number() * 9),
                         im = is_complex(t) ? (double)(j + 1) : 0;
            set(&x, j, a + I * im);
            set(&x, 3 + j, b - I * im);
            set(&x, 6 + j, (a + b) / 3);
        }
        compute(text, NULL, &x, &want);
        compute(text, device, &x, &got);
        CHECK_INT(got.rc, want.rc);
        CHECK_STR(got.msg, want.msg);
        refused += want.rc != TD_OK;
        td_tensor_clear(&x);
        td_tensor_clear(&want.r);
        td_tensor_clear(&got.r);
    }
    CHECK(refused > 0);
}

TEST_MAIN(RUN(both_sides_find_the_same_matrices_singular) RUN(matrices_have_the_hosts_factors)
              RUN(matrices_of_nothing_have_determinants) RUN(of_equal_pivots_the_first_is_taken)
                  RUN(factors_of_reals_are_the_hosts_to_the_bit) RUN(systems_have_the_hosts_solutions)
                      RUN(few_diagonals_are_solved_as_on_the_host) RUN(reflections_give_the_hosts_factors)
                          RUN(self_adjoint_matrices_have_the_hosts_values_and_a_base)
                              RUN(singular_values_are_the_hosts_and_vectors_bases)
                                  RUN(least_squares_are_the_hosts)
                                      RUN(what_cannot_be_is_refused_in_the_hosts_words))
