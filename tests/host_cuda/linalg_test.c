/* tests/host_cuda/linalg_test.c - Fourier transforms and linear algebra on the host-run device against the
 * host's kernels: lengths and sizes of one, odd, prime, larger than a block and than its shared memory, empty
 * batches; and what a matrix must not be is refused in the same words.
 *
 * A case is a graph (tests/fuzz/op_graph.h) whose value r, of inputs x and y, is computed on both sides. Bases that
 * are not unique are seen through what they must give: the matrix again, and the identity.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <complex.h>

#include "kernels/cuda/base/device.h"
#include "kernels/cuda/rows.h"
#include "tests/unit/core/pass_make.h"

enum { TEXT = 2000 };

static struct td_device *device;

static void setup(void)
{
    struct td_err err = {0};
    CHECK_OK(td_cuda_device_open(&(struct td_device_opts){0}, &device, &err));
}

/* ------------------------------------------------------------------ both sides */

struct outcome {
    enum td_code rc;
    struct td_tensor r;
    char msg[1024];
};

static void add_rows(struct td_op_table *ops)
{
    struct td_err err = {0};
    for (int f = 0; td_cuda_families[f] != NULL; f++) {
        for (const struct td_op_rows *r = td_cuda_families[f]; r->op != NULL; r++) {
            CHECK_OK(td_op_table_add_kernels(ops, r->op, r->rows, &err));
        }
    }
}

static void compute(const char *text, const struct td_device *d, const struct td_tensor *in,
                    struct outcome *out)
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    *out = (struct outcome){0};
    passed_open(&t, text, "r");
    if (d != NULL) {
        add_rows(t.ops);
    }
    const struct td_model_opts opts = {.ops = t.ops, .device = d};
    CHECK_INT(td_model_new(&opts, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    out->rc = td_callable_run(f, in, &out->r, NULL, &t.err);
    memcpy(out->msg, t.err.msg, sizeof out->msg);
    td_model_unref(m);
    passed_close(&t);
}

static uint64_t launches(void)
{
    struct td_device_counts c;
    td_cuda_device_count(device, &c);
    return c.launches;
}

static bool is_complex(enum td_dtype t)
{
    return t == TD_COMPLEX64 || t == TD_COMPLEX128;
}
static bool is_single(enum td_dtype t)
{
    return t == TD_FLOAT || t == TD_COMPLEX64;
}

static double part(const struct td_tensor *t, int64_t i)
{
    return t->dtype == TD_INT32                                        ? TD_DATA(t, int32_t)[i]
           : t->dtype == TD_INT64                                      ? (double)TD_DATA(t, int64_t)[i]
           : td_dtype_size(t->dtype) == (is_complex(t->dtype) ? 8 : 4) ? (double)TD_DATA(t, float)[i]
                                                                       : TD_DATA(t, double)[i];
}

/* got within so much of the largest wanted; what is not finite is the same. */
static void check_near(const char *text, const struct td_tensor *want, const struct td_tensor *got,
                       double off)
{
    const int64_t n = td_tensor_count(want) * (is_complex(want->dtype) ? 2 : 1);
    double most = 0;
    CHECK(td_shape_equal(&want->shape, &got->shape) && want->dtype == got->dtype);
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, isfinite(part(want, i)) ? fabs(part(want, i)) : 0);
    }
    for (int64_t i = 0; i < n; i++) {
        const double a = part(want, i), b = part(got, i);
        if (!(fabs(a - b) <= off * most || a == b || (isnan(a) && isnan(b)))) {
            fprintf(stderr, "%s\nof %s, element %lld: %.17g, %.17g on the host\n", text,
                    TD_SHAPE_STR(&want->shape), (long long)i, b, a);
            exit(1);
        }
    }
}

/* r is the same on both sides, within `off`, and a kernel was launched for it, if it has elements. */
static void compare(const char *text, const struct td_tensor *in, double off)
{
    struct outcome want, got;
    compute(text, NULL, in, &want);
    const uint64_t before = launches();
    compute(text, device, in, &got);
    if (want.rc != TD_OK || got.rc != TD_OK) {
        fprintf(stderr, "%s\n%s\n%s\n", text, want.msg, got.msg);
        exit(1);
    }
    if (td_tensor_count(&want.r) > 0 && launches() == before) {
        fprintf(stderr, "%s\nran on the host, of %s\n", text, TD_SHAPE_STR(&in[0].shape));
        exit(1);
    }
    check_near(text, &want.r, &got.r, off);
    td_tensor_clear(&want.r);
    td_tensor_clear(&got.r);
}

static void compare_refusals(const char *text, const struct td_tensor *in)
{
    struct outcome want, got;
    compute(text, NULL, in, &want);
    compute(text, device, in, &got);
    CHECK(want.rc != TD_OK);
    CHECK_INT(got.rc, want.rc);
    CHECK_STR(got.msg, want.msg);
}

/* ------------------------------------------------------------------ inputs */

static double number(void)
{
    static uint64_t drawn = 7;
    drawn = drawn * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (double)(drawn >> 40) / (double)(1 << 23) - 1;
}

static void set(struct td_tensor *t, int64_t i, double _Complex v)
{
    if (t->dtype == TD_FLOAT) {
        TD_DATA(t, float)[i] = (float)creal(v);
    } else if (t->dtype == TD_DOUBLE) {
        TD_DATA(t, double)[i] = creal(v);
    } else if (t->dtype == TD_COMPLEX64) {
        TD_DATA(t, float _Complex)[i] = (float _Complex)v;
    } else {
        TD_DATA(t, double _Complex)[i] = v;
    }
}

static struct td_shape matrices(int64_t batch, int64_t m, int64_t n)
{
    return (struct td_shape){.rank = 3, .dim = {batch, m, n}};
}

static struct td_tensor random_of(enum td_dtype t, struct td_shape s)
{
    struct td_err err = {0};
    struct td_tensor x;
    CHECK_OK(td_tensor_new(&x, t, &s, &err));
    for (int64_t i = 0; i < td_tensor_count(&x); i++) {
        const double re = number();
        set(&x, i, re + I * number());
    }
    return x;
}

/* ADDED: n on the diagonal. TURNED: n beside the diagonal, so that rows change places. HERMITIAN: so. POSITIVE:
 * both that and n on the diagonal. */
enum kind { PLAIN, ADDED, TURNED, HERMITIAN, POSITIVE };
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
                set(&x, row + (kind == TURNED ? (i + 1) % n : i), (double)n + 1 + number());
            }
        }
    }
    return x;
}

static const enum td_dtype types[] = {TD_FLOAT, TD_DOUBLE, TD_COMPLEX64, TD_COMPLEX128};
enum { TYPES = 4 };

static double exactness(enum td_dtype t)
{
    return is_single(t) ? 1e-5 : 1e-11;
}

/* The graph of format, in which every %s is the type. */
static const char *graph(const char *format, enum td_dtype t)
{
    static char text[TEXT];
    const char *const name = td_dtype_name(t), *from = format;
    size_t at = 0;
    for (; *from != '\0'; from++) {
        if (from[0] == '%') {
            at += (size_t)snprintf(text + at, TEXT - at, "%s", name);
            from++;
        } else {
            text[at++] = *from;
        }
        CHECK(at + 32 < TEXT);
    }
    text[at] = '\0';
    return text;
}

#define IN_X "x = Placeholder {dtype:type=%s} ()\n"
#define IN_XY IN_X "y = Placeholder {dtype:type=%s} ()\n"
#define T "T:type=%s"

/* Matrices of so many rows and columns, and right-hand sides. */
static void with_two(const char *format, enum td_dtype t, struct td_tensor a, struct td_tensor b)
{
    const struct td_tensor in[2] = {a, b};
    compare(graph(format, t), in, exactness(t));
    td_tensor_clear(&a);
    td_tensor_clear(&b);
}
static void with_one(const char *format, enum td_dtype t, struct td_tensor a)
{
    compare(graph(format, t), &a, exactness(t));
    td_tensor_clear(&a);
}

/* ------------------------------------------------------------------ factors */

static const int sizes[] = {1, 2, 3, 5, 7, 17, 33, 64, 0};
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
    each_square(IN_X "r = Lu {" T "; output_idx_type:type=int64} (x)", TURNED);
    each_square(IN_X "f = Lu {" T "} (x)\nr = Identity {T:type=int32} (f:1)", TURNED);
    each_square(IN_X "r = MatrixInverse {" T "} (x)", TURNED);
    each_square(IN_X "r = MatrixInverse {" T "; adjoint:bool=true} (x)", ADDED);
    each_square(IN_X "r = MatrixDeterminant {" T "} (x)", TURNED);
    each_square(IN_X "r = LogMatrixDeterminant {" T "} (x)", TURNED);
    each_square(IN_X "d = LogMatrixDeterminant {" T "} (x)\nr = Identity {" T "} (d:1)", TURNED);
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

static const int sides[][2] = {{1, 1},   {1, 4},   {4, 1},   {5, 3},   {3, 5},   {7, 7},
                               {17, 33}, {33, 17}, {300, 3}, {3, 300}, {40, 40}, {0, 0}};

static void each_rectangle(const char *format)
{
    for (int k = 0; k < TYPES; k++) {
        for (int i = 0; sides[i][0] > 0; i++) {
            with_one(format, types[k], random_of(types[k], matrices(2, sides[i][0], sides[i][1])));
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
    check_near(format, &want, &got.r, exactness(x->dtype));
    td_tensor_clear(&want);
    td_tensor_clear(&got.r);
}

/* r on the device is x. */
static void is_input(const char *format, const struct td_tensor *x)
{
    struct outcome got;
    compute(graph(format, x->dtype), device, x, &got);
    CHECK_INT(got.rc, TD_OK);
    check_near(format, x, &got.r, exactness(x->dtype) * 10);
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
    each_square(IN_X "r = SelfAdjointEigV2 {" T "} (x)", HERMITIAN);
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
    each_rectangle(IN_X "r = Svd {" T "} (x)");
    for (int k = 0; k < TYPES; k++) {
        for (int i = 0; sides[i][0] > 0; i++) {
            struct td_tensor x = poor_of(types[k], sides[i][0], sides[i][1], i % 2 == 0);
            is_identity(SVD ITSELF(1), &x);
            is_identity(SVD ITSELF(2), &x);
            is_input(SVD GIVES(1, "s", 2), &x);
            if (sides[i][0] < 50 && sides[i][1] < 50) {
                is_identity(WHOLE_SVD ITSELF(1), &x);
                is_identity(WHOLE_SVD ITSELF(2), &x);
            }
            td_tensor_clear(&x);
        }
    }
    struct td_tensor x = random_of(TD_DOUBLE, matrices(2, 4, 3));
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
            for (int i = 0; sides[i][0] > 0; i++) {
                const int64_t m = sides[i][0], n = sides[i][1];
                if (m == n && m > 9) {
                    continue; /* as badly conditioned as luck will have it */
                }
                with_two(graphs[g], types[k], random_of(types[k], matrices(2, m, n)),
                         random_of(types[k], matrices(2, m, 3)));
            }
        }
    }
    with_two(graphs[1], TD_DOUBLE, poor_of(TD_DOUBLE, 6, 4, false), random_of(TD_DOUBLE, matrices(2, 6, 3)));
}

/* ------------------------------------------------------------------ refusals */

TEST(what_cannot_be_is_refused_in_the_hosts_words)
{
    setup();
    static const char *const one[] = {IN_X "r = MatrixInverse {" T "} (x)", IN_X "r = Lu {" T "} (x)"};
    static const char *const two[] = {IN_XY "r = MatrixSolve {" T "} (x, y)",
                                      IN_XY "r = MatrixSolveLs {" T "} (x, y, double[] 0.0)"};
    struct td_tensor in[2] = {random_of(TD_FLOAT, matrices(3, 2, 2)), random_of(TD_FLOAT, matrices(3, 2, 1))};
    static const double singular[] = {1, 3, 3, 9};
    for (int i = 0; i < 4; i++) {
        set(&in[0], 4 + i, singular[i]);
    }
    for (int g = 0; g < 2; g++) {
        compare_refusals(graph(one[g], TD_FLOAT), in);
        compare_refusals(graph(two[g], TD_FLOAT), in);
    }
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

/* ------------------------------------------------------------------ Fourier transforms */

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

TEST_MAIN(RUN(matrices_have_the_hosts_factors) RUN(systems_have_the_hosts_solutions)
              RUN(few_diagonals_are_solved_as_on_the_host) RUN(reflections_give_the_hosts_factors)
                  RUN(self_adjoint_matrices_have_the_hosts_values_and_a_base)
                      RUN(singular_values_are_the_hosts_and_vectors_bases) RUN(least_squares_are_the_hosts)
                          RUN(what_cannot_be_is_refused_in_the_hosts_words)
                              RUN(transforms_of_any_length_are_the_hosts)
                                  RUN(transforms_of_real_lines_are_the_hosts)
                                      RUN(transforms_of_several_axes_are_the_hosts))
