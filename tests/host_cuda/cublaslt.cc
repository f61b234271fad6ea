/* tests/host_cuda/cublaslt.cc - libcublasLt.so.13 of the tests (stand_in.h).
 *
 * An algorithm carries what it was advised for: a call with other descriptors, or with less workspace or
 * alignment, is wrong. The second one that is advised is said not to work; one wants a workspace, which it
 * fills before the product is made.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/base/cublaslt_api.h"
#include "tests/host_cuda/reports.h"
#include "tests/host_cuda/stand_in.h"

#include <algorithm>
#include <cmath>
#include <cstring>

extern "C" {
#define CALL(type, name, parameters) __attribute__((visibility("default"))) type name parameters;
#include "kernels/cuda/base/cublaslt_api.def"
}

namespace
{

using host_cuda::text;
using stand_in::number;
using stand_in::place;
using stand_in::wrong;

enum { NOT_INITIALIZED = 1, INVALID_VALUE = 7, WORKSPACE_ALIGNED = 256, N_ALGORITHMS = 4, REFUSED = 1 };
constexpr uint64_t MAGIC = 0x7374616E64696E21;

struct handle {
    int device = 0;
    unsigned context = 0; /* of that device */
};
struct operation {
    int compute = 0, scale = 0;
    int32_t ta = 0, tb = 0, epilogue = TD_CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = nullptr;
};
struct matrix {
    int type = 0;
    uint64_t rows = 0, columns = 0;
    int64_t ld = 0;
    int32_t batches = 1;
    int64_t step = 0;
};
struct preference {
    uint64_t most = 0;
    uint32_t aligned[4] = {256, 256, 256, 256}; /* of A, B, C, D */
};

stand_in::registry<handle> handles;
stand_in::registry<operation> operations;
stand_in::registry<matrix> matrices;
stand_in::registry<preference> preferences;

number number_of(int type)
{
    return type == TD_CUBLASLT_R_32F    ? number::FLOAT
           : type == TD_CUBLASLT_R_64F  ? number::DOUBLE
           : type == TD_CUBLASLT_R_16F  ? number::HALF
           : type == TD_CUBLASLT_R_16BF ? number::BFLOAT16
                                        : number::NONE;
}

int status_of(bool fine)
{
    return fine ? static_cast<int>(TD_CUBLASLT_SUCCESS) : static_cast<int>(INVALID_VALUE);
}

/* ------------------------------------------------------------------ what is asked */

struct problem {
    operation o;
    matrix a, b, c, d;
    uint64_t m() const { return d.rows; }
    uint64_t n() const { return d.columns; }
    uint64_t k() const { return o.ta == TD_CUBLASLT_OP_N ? a.columns : a.rows; }
};

bool has_bias(const operation &o)
{
    return (o.epilogue & TD_CUBLASLT_EPILOGUE_BIAS) != 0;
}

bool check_types(const char *call, const problem &p)
{
    const bool wide = p.d.type == TD_CUBLASLT_R_64F;
    if (p.a.type != p.d.type || p.b.type != p.d.type || p.c.type != p.d.type) {
        return wrong(call, text("the matrices are of types %d, %d, %d and %d", p.a.type, p.b.type, p.c.type,
                                p.d.type));
    }
    if (number_of(p.d.type) == number::NONE) {
        return wrong(call, text("matrices of type %d", p.d.type));
    }
    if (p.o.scale != (wide ? TD_CUBLASLT_R_64F : TD_CUBLASLT_R_32F)) {
        return wrong(call, text("alpha and beta are of type %d", p.o.scale));
    }
    const bool fits =
        wide ? p.o.compute == TD_CUBLASLT_COMPUTE_64F
             : p.o.compute == TD_CUBLASLT_COMPUTE_32F ||
                   (p.o.compute == TD_CUBLASLT_COMPUTE_32F_FAST_TF32 && p.d.type == TD_CUBLASLT_R_32F);
    return fits || wrong(call, text("matrices of type %d are not computed as %d", p.d.type, p.o.compute));
}

bool check_matrix(const char *call, const char *name, const matrix &x, const problem &p)
{
    if (x.rows == 0 || x.columns == 0) {
        return wrong(
            call, text("%s is %llu x %llu", name, (unsigned long long)x.rows, (unsigned long long)x.columns));
    }
    if (x.ld < static_cast<int64_t>(x.rows)) {
        return wrong(call, text("%s has a leading dimension of %lld, and %llu rows", name,
                                static_cast<long long>(x.ld), (unsigned long long)x.rows));
    }
    if (x.batches != p.d.batches) {
        return wrong(call, text("%s has %d batches, D %d", name, x.batches, p.d.batches));
    }
    if (x.batches > 1 && (x.step < 0 || (x.step == 0 && &x == &p.d) ||
                          (x.step != 0 && x.step < static_cast<int64_t>(x.rows * x.columns)))) {
        return wrong(call, text("%s's batches are %lld elements apart, and have %llu", name,
                                static_cast<long long>(x.step), (unsigned long long)(x.rows * x.columns)));
    }
    return true;
}

bool check_sizes(const char *call, const problem &p)
{
    const bool ta = p.o.ta == TD_CUBLASLT_OP_T, tb = p.o.tb == TD_CUBLASLT_OP_T;
    if (p.o.ta < 0 || p.o.ta > 1 || p.o.tb < 0 || p.o.tb > 1) {
        return wrong(call, text("operations %d and %d", p.o.ta, p.o.tb));
    }
    if ((ta ? p.a.columns : p.a.rows) != p.d.rows || (tb ? p.b.rows : p.b.columns) != p.d.columns ||
        (tb ? p.b.columns : p.b.rows) != p.k()) {
        return wrong(call, text("A %llu x %llu%s and B %llu x %llu%s do not make D %llu x %llu",
                                (unsigned long long)p.a.rows, (unsigned long long)p.a.columns, ta ? "^T" : "",
                                (unsigned long long)p.b.rows, (unsigned long long)p.b.columns, tb ? "^T" : "",
                                (unsigned long long)p.d.rows, (unsigned long long)p.d.columns));
    }
    if (p.c.rows != p.d.rows || p.c.columns != p.d.columns || p.c.ld != p.d.ld || p.c.step != p.d.step) {
        return wrong(call, "C's layout is not D's");
    }
    return true;
}

bool check_problem(const char *call, const problem &p)
{
    static const int epilogues[] = {TD_CUBLASLT_EPILOGUE_DEFAULT, TD_CUBLASLT_EPILOGUE_RELU,
                                    TD_CUBLASLT_EPILOGUE_BIAS,    TD_CUBLASLT_EPILOGUE_RELU_BIAS,
                                    TD_CUBLASLT_EPILOGUE_GELU,    TD_CUBLASLT_EPILOGUE_GELU_BIAS};
    if (!check_types(call, p) || !check_matrix(call, "D", p.d, p) || !check_matrix(call, "A", p.a, p) ||
        !check_matrix(call, "B", p.b, p) || !check_matrix(call, "C", p.c, p) || !check_sizes(call, p)) {
        return false;
    }
    return std::count(std::begin(epilogues), std::end(epilogues), p.o.epilogue) == 1 ||
           wrong(call, text("epilogue %d", p.o.epilogue));
}

/* The bias, which differs from call to call, is not of it. */
uint64_t sum_of(const problem &p)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a, a number at a time */
    const auto add = [&h](uint64_t x) { h = (h ^ x) * 1099511628211u; };
    for (const int x : {p.o.compute, p.o.scale, p.o.ta, p.o.tb, p.o.epilogue}) {
        add(static_cast<uint64_t>(x));
    }
    for (const matrix *x : {&p.a, &p.b, &p.c, &p.d}) {
        for (const uint64_t v :
             {static_cast<uint64_t>(x->type), x->rows, x->columns, static_cast<uint64_t>(x->ld),
              static_cast<uint64_t>(x->batches), static_cast<uint64_t>(x->step)}) {
            add(v);
        }
    }
    return h;
}

/* False: some object is none, or no more. */
bool gather(const char *call, void *const objects[6], problem *p)
{
    const handle *const h = handles.find(objects[0]);
    const operation *const o = operations.find(objects[1]);
    if (h == nullptr || o == nullptr) {
        return wrong(call, h == nullptr ? "no such handle" : "no such descriptor");
    }
    if (h->device != stand_in::current_device()) {
        return wrong(call, "the handle is another device's");
    }
    if (h->context != stand_in::current_context()) {
        return wrong(call, "the handle is of a context that is gone");
    }
    p->o = *o;
    matrix *const to[] = {&p->a, &p->b, &p->c, &p->d};
    for (int i = 0; i < 4; i++) {
        const matrix *const x = matrices.find(objects[2 + i]);
        if (x == nullptr) {
            return wrong(call, text("no such layout for %c", "ABCD"[i]));
        }
        *to[i] = *x;
    }
    return true;
}

/* ------------------------------------------------------------------ the product */

size_t extent(const matrix &x)
{
    return static_cast<size_t>((x.batches - 1) * x.step + static_cast<int64_t>(x.columns - 1) * x.ld) +
           x.rows;
}

double after(const operation &o, double x)
{
    const int what = o.epilogue & ~TD_CUBLASLT_EPILOGUE_BIAS;
    const double inner = 0.7978845608028654 * (x + 0.044715 * x * x * x); /* sqrt(2 / pi) */
    return what == TD_CUBLASLT_EPILOGUE_RELU   ? (x > 0    ? x
                                                  : x != x ? x
                                                           : 0)
           : what == TD_CUBLASLT_EPILOGUE_GELU ? 0.5 * x * (1 + std::tanh(inner))
                                               : x;
}

/* One batch's A as sums want it: row i, k at [k * m + i]. */
std::vector<double> by_k(const problem &p, const double *a)
{
    const bool ta = p.o.ta == TD_CUBLASLT_OP_T;
    const auto ld = static_cast<size_t>(p.a.ld);
    std::vector<double> all(p.m() * p.k());
    for (size_t i = 0; i < p.m(); i++) {
        for (size_t k = 0; k < p.k(); k++) {
            all[k * p.m() + i] = ta ? a[i * ld + k] : a[k * ld + i];
        }
    }
    return all;
}

/* The sum as the library has it when the bias comes, or what is added: so a product with a bias has the bits
 * of the two in turn. */
double accumulated(const operation &o, double sum)
{
    return o.compute == TD_CUBLASLT_COMPUTE_64F ? sum : static_cast<double>(static_cast<float>(sum));
}

/* c: of the batch, NULL where nothing is added. */
void multiply_batch(const problem &p, const double *a, const double *b, const double *c,
                    const std::vector<double> &shift, const std::function<void(size_t, size_t, double)> &put)
{
    const bool tb = p.o.tb == TD_CUBLASLT_OP_T;
    const auto ld = static_cast<size_t>(p.b.ld);
    const std::vector<double> left = by_k(p, a);
    std::vector<double> sums(p.m());
    for (size_t j = 0; j < p.n(); j++) {
        std::fill(sums.begin(), sums.end(), 0);
        for (size_t k = 0; k < p.k(); k++) {
            const double factor = tb ? b[k * ld + j] : b[j * ld + k];
            for (size_t i = 0; i < p.m(); i++) {
                sums[i] += left[k * p.m() + i] * factor;
            }
        }
        for (size_t i = 0; i < p.m(); i++) {
            double y = shift.empty() ? sums[i] : accumulated(p.o, sums[i]) + shift[i];
            if (c != nullptr) {
                y = accumulated(p.o, y) + c[j * static_cast<size_t>(p.c.ld) + i];
            }
            put(i, j, after(p.o, y));
        }
    }
}

/* c: NULL where nothing is added. */
void multiply(const problem &p, const void *a, const void *b, const void *c, const void *bias, void *d)
{
    const number t = number_of(p.d.type);
    std::vector<double> of_a = stand_in::load(t, a, extent(p.a)), of_b = stand_in::load(t, b, extent(p.b));
    const std::vector<double> of_c = stand_in::load(t, c, c != nullptr ? extent(p.c) : 0);
    const std::vector<double> shift = stand_in::load(t, bias, bias != nullptr ? p.m() : 0);
    if (p.o.compute == TD_CUBLASLT_COMPUTE_32F_FAST_TF32) {
        std::transform(of_a.begin(), of_a.end(), of_a.begin(), stand_in::to_tf32);
        std::transform(of_b.begin(), of_b.end(), of_b.begin(), stand_in::to_tf32);
    }
    for (int32_t batch = 0; batch < p.d.batches; batch++) {
        const auto first = static_cast<size_t>(batch * p.d.step), ld = static_cast<size_t>(p.d.ld);
        multiply_batch(p, of_a.data() + batch * p.a.step, of_b.data() + batch * p.b.step,
                       c == nullptr ? nullptr : of_c.data() + batch * p.c.step, shift,
                       [&](size_t i, size_t j, double y) { stand_in::store(t, d, first + j * ld + i, y); });
    }
}

template <class T> bool get(const char *call, const void *value, size_t bytes, T *to)
{
    if (value == nullptr || bytes != sizeof *to) {
        return wrong(call, text("an attribute of %zu bytes is given as %zu", sizeof *to, bytes));
    }
    memcpy(to, value, sizeof *to);
    return true;
}

template <class T> int destroy(const char *call, stand_in::registry<T> *all, const void *at)
{
    return status_of(all->remove(at) || wrong(call, "no such object"));
}

/* alpha 1, beta 0 or, where C is added, 1. */
bool check_scalars(const char *call, const problem &p, const void *alpha, const void *beta, bool *adds)
{
    double one = 0, some = -1;
    if (alpha != nullptr && beta != nullptr) {
        one = stand_in::load(number_of(p.o.scale), alpha, 1)[0];
        some = stand_in::load(number_of(p.o.scale), beta, 1)[0];
    }
    *adds = some == 1;
    return (one == 1 && (some == 0 || some == 1)) || wrong(call, "alpha is not 1, or beta neither 0 nor 1");
}

bool check_algorithm(const char *call, const problem &p, const td_cublaslt_algo *algo, size_t workspace_bytes)
{
    if (algo == nullptr || algo->data[0] != MAGIC) {
        return wrong(call, "the algorithm was not advised");
    }
    if (algo->data[1] != sum_of(p)) {
        return wrong(call, "the algorithm was advised for another product");
    }
    if (algo->data[2] == REFUSED) {
        return wrong(call, "the algorithm was said not to work");
    }
    return workspace_bytes >= algo->data[3] ||
           wrong(call, text("the algorithm wants a workspace of %llu bytes, %zu are given",
                            (unsigned long long)algo->data[3], workspace_bytes));
}

} // namespace

/* ------------------------------------------------------------------ the library's functions */

int cublasLtCreate(void **to)
{
    if (!stand_in::usable("cublaslt")) {
        return NOT_INITIALIZED;
    }
    handle *const h = handles.add();
    h->device = stand_in::current_device();
    h->context = stand_in::current_context();
    *to = h;
    return TD_CUBLASLT_SUCCESS;
}

int cublasLtDestroy(void *h)
{
    const size_t left = operations.count() + matrices.count() + preferences.count();
    if (handles.count() == 1 && left > 0 && stand_in::device_works()) {
        wrong("cublasLtDestroy", text("%zu descriptors, layouts and preferences were not destroyed", left));
    }
    return destroy("cublasLtDestroy", &handles, h);
}

size_t cublasLtGetVersion(void)
{
    return 130099;
}

const char *cublasLtGetStatusString(int status)
{
    return status == NOT_INITIALIZED ? "the stand-in is not to be used (HOST_CUDA_LIBRARIES)"
                                     : "CUBLAS_STATUS_INVALID_VALUE";
}

int cublasLtMatmulDescCreate(void **to, int compute, int scale)
{
    operation *const o = operations.add();
    o->compute = compute;
    o->scale = scale;
    *to = o;
    return TD_CUBLASLT_SUCCESS;
}

int cublasLtMatmulDescSetAttribute(void *desc, int attribute, const void *value, size_t bytes)
{
    const char *const call = "cublasLtMatmulDescSetAttribute";
    operation *const o = operations.find(desc);
    const bool set = o == nullptr                             ? wrong(call, "no such descriptor")
                     : attribute == TD_CUBLASLT_DESC_TRANSA   ? get(call, value, bytes, &o->ta)
                     : attribute == TD_CUBLASLT_DESC_TRANSB   ? get(call, value, bytes, &o->tb)
                     : attribute == TD_CUBLASLT_DESC_EPILOGUE ? get(call, value, bytes, &o->epilogue)
                     : attribute == TD_CUBLASLT_DESC_BIAS_POINTER
                         ? get(call, value, bytes, &o->bias)
                         : wrong(call, text("attribute %d", attribute));
    return status_of(set);
}

int cublasLtMatmulDescDestroy(void *desc)
{
    return destroy("cublasLtMatmulDescDestroy", &operations, desc);
}

int cublasLtMatrixLayoutCreate(void **to, int type, uint64_t rows, uint64_t columns, int64_t ld)
{
    matrix *const x = matrices.add();
    x->type = type;
    x->rows = rows;
    x->columns = columns;
    x->ld = ld;
    *to = x;
    return TD_CUBLASLT_SUCCESS;
}

int cublasLtMatrixLayoutSetAttribute(void *layout, int attribute, const void *value, size_t bytes)
{
    const char *const call = "cublasLtMatrixLayoutSetAttribute";
    matrix *const x = matrices.find(layout);
    const bool set = x == nullptr                                  ? wrong(call, "no such layout")
                     : attribute == TD_CUBLASLT_LAYOUT_BATCH_COUNT ? get(call, value, bytes, &x->batches)
                     : attribute == TD_CUBLASLT_LAYOUT_BATCH_OFFSET
                         ? get(call, value, bytes, &x->step)
                         : wrong(call, text("attribute %d", attribute));
    return status_of(set);
}

int cublasLtMatrixLayoutDestroy(void *layout)
{
    return destroy("cublasLtMatrixLayoutDestroy", &matrices, layout);
}

int cublasLtMatmulPreferenceCreate(void **to)
{
    *to = preferences.add();
    return TD_CUBLASLT_SUCCESS;
}

int cublasLtMatmulPreferenceSetAttribute(void *at, int attribute, const void *value, size_t bytes)
{
    const char *const call = "cublasLtMatmulPreferenceSetAttribute";
    preference *const p = preferences.find(at);
    const int which = attribute - TD_CUBLASLT_PREF_MIN_ALIGNMENT_A_BYTES;
    const bool set = p == nullptr                                        ? wrong(call, "no such preference")
                     : attribute == TD_CUBLASLT_PREF_MAX_WORKSPACE_BYTES ? get(call, value, bytes, &p->most)
                     : which >= 0 && which < 4 ? get(call, value, bytes, &p->aligned[which])
                                               : wrong(call, text("attribute %d", attribute));
    return status_of(set);
}

int cublasLtMatmulPreferenceDestroy(void *at)
{
    return destroy("cublasLtMatmulPreferenceDestroy", &preferences, at);
}

int cublasLtMatmulAlgoGetHeuristic(void *h, void *desc, void *a, void *b, void *c, void *d, void *at,
                                   int wanted, td_cublaslt_found *found, int *n)
{
    static const uint64_t wants[N_ALGORITHMS] = {1024, 0, 0, 65536};
    const char *const call = "cublasLtMatmulAlgoGetHeuristic";
    void *const objects[6] = {h, desc, a, b, c, d};
    problem p;
    const preference *const most = preferences.find(at);
    if (most == nullptr || wanted < 1 || found == nullptr || n == nullptr) {
        wrong(call, most == nullptr ? "no such preference" : "no algorithm is wanted");
        return INVALID_VALUE;
    }
    if (!gather(call, objects, &p) || !check_problem(call, p)) {
        return INVALID_VALUE;
    }
    *n = 0;
    for (int i = 0; i < N_ALGORITHMS && *n < wanted; i++) {
        if (wants[i] <= most->most) {
            td_cublaslt_found *const f = &found[(*n)++];
            *f = {};
            f->algo.data[0] = MAGIC;
            f->algo.data[1] = sum_of(p);
            f->algo.data[2] = static_cast<uint64_t>(i);
            f->algo.data[3] = f->workspace_bytes = wants[i];
            memcpy(&f->algo.data[4], most->aligned, sizeof most->aligned);
            f->status = i == REFUSED ? TD_CUBLASLT_NOT_SUPPORTED : TD_CUBLASLT_SUCCESS;
        }
    }
    return status_of(*n > 0);
}

int cublasLtMatmul(void *h, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,
                   void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                   const td_cublaslt_algo *algo, void *workspace, size_t workspace_bytes,
                   td_cuda_stream *stream)
{
    const char *const call = "cublasLtMatmul";
    void *const objects[6] = {h, desc, a_layout, b_layout, c_layout, d_layout};
    const auto queue_on = reinterpret_cast<cudaStream_t>(stream);
    problem p;
    bool adds = false;
    if (!gather(call, objects, &p) || !check_problem(call, p) ||
        !check_scalars(call, p, alpha, beta, &adds) || !check_algorithm(call, p, algo, workspace_bytes) ||
        !stand_in::check_stream(call, queue_on)) {
        return INVALID_VALUE;
    }
    const size_t each = stand_in::size_of(number_of(p.d.type)), room = algo->data[3];
    const void *const bias = has_bias(p.o) ? p.o.bias : nullptr;
    uint32_t aligned[4];
    memcpy(aligned, &algo->data[4], sizeof aligned);
    std::vector<place> places = {{"A", a, extent(p.a) * each, false},
                                 {"B", b, extent(p.b) * each, false},
                                 {"D", d, extent(p.d) * each, true}};
    bool fit = stand_in::check_place(call, places[0], aligned[0]) &&
               stand_in::check_place(call, places[1], aligned[1]) &&
               stand_in::check_place(call, places[2], aligned[3]) &&
               (adds || c == d || wrong(call, "C is not D, and nothing is added"));
    if (fit && adds && c != d) {
        places.push_back({"C", c, extent(p.c) * each, false});
        fit = stand_in::check_place(call, places.back(), aligned[2]);
    }
    if (fit && has_bias(p.o)) {
        places.push_back({"the bias", bias, p.m() * each, false});
        fit = stand_in::check_place(call, places.back(), each);
    }
    if (fit && workspace_bytes > 0) {
        places.push_back({"the workspace", workspace, workspace_bytes, true});
        fit = stand_in::check_place(call, places.back(), WORKSPACE_ALIGNED);
    }
    if (!fit || !stand_in::check_apart(call, places)) {
        return INVALID_VALUE;
    }
    const cudaError_t e = stand_in::queue(queue_on, call, places, [=] {
        if (room > 0) {
            memset(workspace, 0xFF, room);
        }
        multiply(p, a, b, adds ? c : nullptr, bias, d);
    });
    return status_of(e == cudaSuccess);
}
