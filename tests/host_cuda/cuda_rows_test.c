/* tests/host_cuda/cuda_rows_test.c - rows of kernels/cuda beside the host's kernels, where random draws do
 * not reach: ops that TensorFlow has on a GPU alone, sizes beyond 32 bits of key, and each refusal, which
 * must have the host's words.
 *
 * A graph is text (tests/fuzz/op_graph.h) with the float vectors x and y; r is compared. What follows from
 * constants alone would be folded on the host: indices are casts of x.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "core/run/model.h"
#include "kernels/cuda/base/device.h"
#include "tests/host_cuda/device_ops.h"
#include "tests/unit/core/pass_make.h"

enum { MOST = 16 };
struct given {
    int n;
    float v[MOST];
};

static struct td_tensor vector_of(const struct given *g)
{
    struct td_tensor t;
    struct td_err err = {0};
    const struct td_shape shape = td_shape_vector(g->n);
    CHECK_OK(td_tensor_new(&t, TD_FLOAT, &shape, &err));
    memcpy(t.data, g->v, (size_t)g->n * sizeof *g->v);
    return t;
}

/* device NULL: on the host. */
static enum td_code run_on(const struct td_device *device, const char *text, const struct td_tensor *in,
                           struct td_tensor *out, struct td_err *err)
{
    struct passed t;
    struct td_model *m;
    struct td_callable *f;
    passed_open_with(&t, device != NULL ? device_ops() : passed_ops(), text, "r");
    const struct td_model_opts opts = {.ops = t.ops, .device = device};
    CHECK_INT(td_model_new(&opts, NULL, &t.g.graph, &t.g.lib, &m, &t.err), TD_OK);
    CHECK_INT(td_callable_new(m, &t.how, &f, &t.err), TD_OK);
    const enum td_code rc = td_callable_run(f, in, out, NULL, err);
    td_model_unref(m);
    passed_close(&t);
    return rc;
}

/* `launches`: of the graph, at least. */
static void compare(const char *text, struct given x, struct given y, int launches)
{
    struct td_device *device;
    struct td_device_counts counts;
    struct td_err err = {0}, host = {0}, there = {0};
    struct td_tensor in[2] = {vector_of(&x), vector_of(&y)}, want, got;
    CHECK_OK(td_cuda_device_open(&(struct td_device_opts){0}, &device, &err));
    const enum td_code rc = run_on(NULL, text, in, &want, &host);
    CHECK_INT(run_on(device, text, in, &got, &there), rc);
    td_cuda_device_count(device, &counts);
    CHECK(counts.launches >= (uint64_t)launches);
    CHECK_STR(there.msg, host.msg);
    for (int64_t i = 0; rc == TD_OK && i < td_tensor_count(&want); i++) {
        CHECK(TD_DATA(&got, float)[i] == TD_DATA(&want, float)[i]);
    }
    if (rc == TD_OK) {
        CHECK(td_shape_equal(&want.shape, &got.shape));
        td_tensor_clear(&want);
        td_tensor_clear(&got);
    }
    td_tensor_clear(&in[0]);
    td_tensor_clear(&in[1]);
    td_cuda_device_close(device);
}

#define TO(name, type, from) name " = Cast {SrcT:type=float; DstT:type=" type "} (" from ")\n"
#define RESHAPE(name, type, from, shape) name " = Reshape {T:type=" type "} (" from ", " shape ")\n"
#define WINDOW "ksize:list(int)=[1,2,2,1]; strides:list(int)=[1,2,2,1]; padding:string='VALID'; "
#define PICKS                                                                                                \
    XY RESHAPE("image", "float", "x", "int32[4] 1 4 4 1") TO("w", "int64", "y") RESHAPE(                     \
        "where", "int64", "w", "int32[4] 1 2 2 1") "r = MaxPoolGradGradWithArgmax {" WINDOW                  \
                                                   "Targmax:type=int64; T:type=float} (image, image, where)"
static const struct given SIXTEEN = {16, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

TEST(maxima_are_picked_where_they_are_said_to_be)
{
    compare(PICKS, SIXTEEN, (struct given){4, {5, 7, 13, 15}}, 2);
    compare(PICKS, SIXTEEN, (struct given){4, {5, 7, 16, 15}}, 2);
}

#define EINSUM(equation, of_x, of_y)                                                                         \
    XY RESHAPE("a", "float", "x", of_x)                                                                      \
        RESHAPE("b", "float", "y", of_y) "r = Einsum {N:int=2; T:type=float; equation:string='" equation     \
                                         "'} (a, b)"
#define FOUR_BY_TWO "int32[4] 2 2 2 2"

/* Matrices that lie well, with gaps, and the other way round; batches of one axis, and of two. */
TEST(products_of_labels_are_those_of_the_host)
{
    compare(EINSUM("abc,cd->abd", "int32[3] 2 2 4", "int32[2] 4 4"), SIXTEEN, SIXTEEN, 1);
    compare(EINSUM("abc,dc->abd", "int32[3] 2 2 4", "int32[2] 4 4"), SIXTEEN, SIXTEEN, 1);
    compare(EINSUM("abc,cde->abde", "int32[3] 2 4 2", "int32[3] 2 2 4"), SIXTEEN, SIXTEEN, 1);
    compare(EINSUM("aecd,abcd->acbe", FOUR_BY_TWO, FOUR_BY_TWO), SIXTEEN, SIXTEEN, 1);
    compare(EINSUM("acbe,aecd->abcd", FOUR_BY_TWO, FOUR_BY_TWO), SIXTEEN, SIXTEEN, 1);
    compare(EINSUM("ab,ab->b", "int32[2] 4 4", "int32[2] 4 4"), SIXTEEN, SIXTEEN, 1);
    compare(EINSUM("ab,c->abc", "int32[2] 4 4", "int32[1] 16"), SIXTEEN, SIXTEEN, 1);
}

/* Of terms that cancel: what is left tells the order that they are added in. */
TEST(many_terms_are_added_in_the_order_of_the_host)
{
    static const struct given large = {2, {1e8f, 3e38f}}, small = {2, {1, 1}};
#define SUM(n, of) XY "n = Neg {T:type=float} (x)\nr = AddN {T:type=float; N:int=" n "} (" of ")\n"
    compare(SUM("7", "y, y, x, y, n, y, y"), large, small, 1);
    compare(SUM("8", "y, y, x, y, y, y, n, y"), large, small, 1);
    compare(SUM("9", "y, y, x, y, y, y, n, y, y"), large, small, 1);
    compare(SUM("12", "y, y, x, y, y, y, n, y, y, y, y, y"), large, small, 1);
    compare(SUM("17", "y, y, x, y, y, y, y, y, y, y, n, y, y, y, y, y, y"), large, small, 1);
    compare(SUM("24", "y, y, x, y, y, y, y, y, y, y, x, y, n, y, y, y, y, y, n, y, y, y, y, y"),
            (struct given){2, {1e8f, 1e30f}}, small, 1);
}

#define ENTRIES(n, rank) XY TO("w", "int64", "x") RESHAPE("at", "int64", "w", "int32[2] " n " " rank)
#define REORDER(n, rank, shape, port)                                                                        \
    ENTRIES(n, rank)                                                                                         \
    "s = SparseReorder {T:type=float} (at, y, int64[" rank "] " shape ")\n" port

TEST(entries_are_sorted_along_axes_that_one_key_does_not_count)
{
    static const struct given at = {12, {7, 1, 2, 1e12F, 0, 3, 0, 5, 7, 0, 0, 9}}, v = {4, {1, 2, 3, 4}};
    compare(REORDER("4", "3", "8 1000000 9000000000", "r = Identity {T:type=float} (s:1)"), at, v, 2);
    compare(REORDER("4", "3", "4000000000 2 1000000000", "r = Cast {SrcT:type=int64; DstT:type=float} (s)"),
            at, v, 2);
    compare(REORDER("4", "3", "3 3 3", "r = Cast {SrcT:type=int64; DstT:type=float} (s)"),
            (struct given){12, {2, 1, 2, 2, 1, 0, 0, 2, 2, 0, 0, 1}}, v, 2);
    compare(REORDER("4", "3", "-1 3 3", "r = Identity {T:type=float} (s:1)"), at, v, 2);
}

#define CONCAT(a, b, port)                                                                                   \
    ENTRIES("2", "2")                                                                                        \
    "s = SparseConcat {concat_dim:int=1; N:int=2; T:type=float} (at, at, y, y, int64[2] " a ", int64[2] " b  \
    ")\n" port

TEST(sparse_tensors_are_joined_in_order)
{
    static const struct given at = {4, {1, 0, 0, 2}}, v = {2, {1, 2}};
    compare(CONCAT("2 3", "2 4", "r = Identity {T:type=float} (s:1)"), at, v, 2);
    compare(CONCAT("2 3", "2 4", "r = Cast {SrcT:type=int64; DstT:type=float} (s)"), at, v, 2);
    compare(CONCAT("2 3", "2 4", "r = Cast {SrcT:type=int64; DstT:type=float} (s:2)"), at, v, 2);
    compare(CONCAT("2 3", "3 4", "r = Identity {T:type=float} (s:1)"), at, v, 2);
}

#define TO_DENSE(validate)                                                                                   \
    ENTRIES("3", "2")                                                                                        \
    "r = SparseToDense {validate_indices:bool=" validate "; T:type=float; Tindices:type=int64} "             \
    "(at, int64[2] 2 3, y, float[] -1)"

TEST(what_a_dense_tensor_is_made_of_must_ascend_where_that_is_asked_for)
{
    static const struct given v = {3, {1, 2, 3}}, one = {1, {1}};
    compare(TO_DENSE("true"), (struct given){6, {0, 1, 1, 0, 1, 2}}, v, 2);
    compare(TO_DENSE("true"), (struct given){6, {0, 1, 1, 2, 1, 0}}, v, 2);
    compare(TO_DENSE("true"), (struct given){6, {0, 1, 1, 2, 1, 2}}, v, 2);
    compare(TO_DENSE("false"), (struct given){6, {0, 1, 1, 2, 0, 1}}, v, 2);
    compare(TO_DENSE("false"), (struct given){6, {0, 1, 2, 2, 0, 1}}, v, 2);
    compare(ENTRIES("3", "2") "z = Sum {T:type=float} (y, int32[1] 0)\n"
                              "r = SparseToDense {T:type=float; Tindices:type=int64} "
                              "(at, int64[2] 2 3, z, float[] -1)",
            (struct given){6, {0, 1, 1, 0, 1, 2}}, one, 2);
}

#define ADD(shape)                                                                                           \
    ENTRIES("2", "1")                                                                                        \
    "b = ZerosLike {T:type=float} (y)\n"                                                                     \
    "r = SparseTensorDenseAdd {T:type=float; Tindices:type=int64} (at, y, int64[1] " shape ", b)"
#define DIVIDE(shape)                                                                                        \
    ENTRIES("2", "1")                                                                                        \
    TO("v", "int32", "y")                                                                                    \
    TO("d", "int32", "x")                                                                                    \
    "q = SparseDenseCwiseDiv {T:type=int32} (at, v, int64[1] " shape ", d)\n"                                \
    "r = Cast {SrcT:type=int32; DstT:type=float} (q)"

TEST(sparse_tensors_must_fit_beside_dense_ones)
{
    static const struct given v = {2, {6, 8}};
    compare(ADD("2"), (struct given){2, {1, 1}}, v, 3);
    compare(ADD("3"), (struct given){2, {1, 1}}, v, 3);
    compare(ADD("2"), (struct given){2, {1, 2}}, v, 3);
    compare(DIVIDE("2"), (struct given){2, {1, 1}}, v, 3);
    compare(DIVIDE("2"), (struct given){2, {1, 0}}, v, 3);
    compare(DIVIDE("3"), (struct given){2, {1, 1}}, v, 3);
}

#define PRODUCT                                                                                              \
    ENTRIES("2", "2")                                                                                        \
    RESHAPE("b", "float", "y", "int32[2] 2 1")                                                               \
    "r = SparseTensorDenseMatMul {T:type=float} (at, float[2] 2 3, int64[2] 2 2, b)"
#define BINS TO("w", "int32", "x") "r = Bincount {T:type=float} (w, int32[] 4, y)"
#define LEVELS                                                                                               \
    "p = Unpack {num:int=2; T:type=float} (y)\n"                                                             \
    "q = QuantizeV2 {T:type=quint8} (x, p, p:1)\nr = Identity {T:type=float} (q:1)"

TEST(values_that_cannot_be_are_refused_with_the_words_of_the_host)
{
    static const struct given two = {2, {2, 4}};
    compare(PRODUCT, (struct given){4, {0, 1, 1, 0}}, two, 2);
    compare(PRODUCT, (struct given){4, {0, 1, 1, 2}}, two, 2);
    compare(XY BINS, (struct given){2, {3, 3}}, two, 2);
    compare(XY BINS, (struct given){2, {3, -1}}, two, 2);
    compare(XY LEVELS, two, (struct given){2, {-1, 4}}, 2);
    compare(XY LEVELS, two, (struct given){2, {3, -2}}, 2);
}

TEST_MAIN(RUN(maxima_are_picked_where_they_are_said_to_be) RUN(products_of_labels_are_those_of_the_host)
              RUN(many_terms_are_added_in_the_order_of_the_host)
                  RUN(entries_are_sorted_along_axes_that_one_key_does_not_count)
                      RUN(sparse_tensors_are_joined_in_order)
                          RUN(what_a_dense_tensor_is_made_of_must_ascend_where_that_is_asked_for)
                              RUN(sparse_tensors_must_fit_beside_dense_ones)
                                  RUN(values_that_cannot_be_are_refused_with_the_words_of_the_host))
