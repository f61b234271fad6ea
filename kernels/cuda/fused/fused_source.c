/* kernels/cuda/fused/fused_source.c - writes the text of fused_source.h, in the order that it is read.
 *
 *   static __device__ T op_Relu(T x) { return x < 0 ? T(0) : x; }        the steps that there are
 *   go<N>: for each N elements, from i on
 *       p1 = .., p2 = ..                          where patterns are, the index taken apart once for all
 *       v0 = N of a0 at i, v1 = N of a1 at p1; v2 = a2[p2]           repeated inside: one
 *       for each of the N:  r0 = .., r1 = .., out = ..               registers as the program numbers them
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cuda/fused/fused_source.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/mem.h"

enum { MOST_WORDS = 256 }; /* of the first parameter */

struct text {
    char *at;
    size_t n;
    bool cut;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t room = TD_CUDA_FUSED_TEXT - t->n;
    const int n = vsnprintf(t->at + t->n, room, format, args);
    va_end(args);
    t->cut = t->cut || n < 0 || (size_t)n >= room;
    t->n += t->cut ? 0 : (size_t)n;
}

/* ------------------------------------------------------------------ formulas */

struct formula {
    const char *name, *parameters, *value;
};

static const struct formula formulas[] = {
#define UNARY_STEP(op, types, value) [TD_CUDA_FUSED_##op] = {#op, "T x", #value},
#include "kernels/cuda/math/unary.def"
#define BINARY_STEP(op, types, value) [TD_CUDA_FUSED_##op] = {#op, "T a, T b", #value},
#include "kernels/cuda/math/binary.def"
#define FUSED(op, value) [TD_CUDA_FUSED_##op] = {#op, "T a, T b, T parameter", #value},
#include "kernels/cuda/fused/fused.def"
};

/* What the formulas call beside CUDA's own, as kernels/cpu/scalar.h has it for floats. */
static const char functions[] =
    "static __device__ T sum(T a, T b) { return a + b; }\n"
    "static __device__ T difference(T a, T b) { return a - b; }\n"
    "static __device__ T product(T a, T b) { return a * b; }\n"
    "static __device__ T squared_distance(T a, T b) { return (a - b) * (a - b); }\n"
    "static __device__ T most(T a, T b) { return a >= b || a != a ? a : b; }\n"
    "static __device__ T least(T a, T b) { return a <= b || a != a ? a : b; }\n"
    "static __device__ T negative(T x) { return -x; }\n"
    "static __device__ T absolute(T x) { return fabs(x); }\n"
    "static __device__ T square(T x) { return x * x; }\n"
    "static __device__ T sign(T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : x; }\n"
    "static __device__ T relu(T x) { return x < 0 ? T(0) : x; }\n"
    "static __device__ T relu6(T x) { return x < 0 ? T(0) : x > 6 ? T(6) : x; }\n";

/* How elements are read and written, whose type is E: T itself, or 16 bits. What a step comes to is rounded
 * to what an E can hold. NVRTC has no headers of CUDA's here; bits are taken apart by hand, to the nearest,
 * ties to even. */
static const char as_it_is[] = "static __device__ T load(E x) { return x; }\n"
                               "static __device__ E store(T x) { return x; }\n"
                               "static __device__ T held(T x) { return x; }\n";
static const char bits[] = "union word { float f; unsigned u; };\n"
                           "static __device__ unsigned bits_of(float x) { word w; w.f = x; return w.u; }\n"
                           "static __device__ float of_bits(unsigned u) { word w; w.u = u; return w.f; }\n";
static const char bfloat16[] = "static __device__ T load(E x) { return of_bits((unsigned)x << 16); }\n"
                               "static __device__ E store(T x)\n{\n"
                               "    const unsigned u = bits_of(x);\n"
                               "    return (E)(x != x ? 0x7fffu : (u + 0x7fffu + (u >> 16 & 1u)) >> 16);\n}\n"
                               "static __device__ T held(T x) { return load(store(x)); }\n";
static const char half[] =
    "static __device__ T load(E x)\n{\n"
    "    const unsigned sign = (x & 0x8000u) << 16, u = x & 0x7fffu;\n"
    "    if (u < 0x400u) {\n"
    "        return of_bits(bits_of((float)u * 5.9604644775390625e-8f) | sign);\n"
    "    }\n"
    "    return of_bits(((u << 13) + (u < 0x7c00u ? 0x38000000u : 0x70000000u)) | sign);\n}\n"
    "static __device__ E store(T x)\n{\n"
    "    const unsigned u = bits_of(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;\n"
    "    if (x != x) {\n        return 0x7fff;\n    }\n"
    "    if (a >= 0x477ff000u) {\n        return (E)(sign | 0x7c00u);\n    }\n"
    "    if (a < 0x38800000u) {\n"
    "        return (E)(sign | (unsigned)rintf(of_bits(a) * 16777216.0f));\n"
    "    }\n"
    "    return (E)(sign | (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13);\n}\n"
    "static __device__ T held(T x) { return load(store(x)); }\n";

static bool is_short(enum td_cuda_type type)
{
    return type == TD_CUDA_HALF || type == TD_CUDA_BFLOAT16;
}

static void put_types(struct text *t, enum td_cuda_type type, bool small)
{
    const char *wide = type == TD_CUDA_DOUBLE ? "double" : "float";
    put(t, "typedef %s T;\ntypedef %s E;\ntypedef %s I;\n", wide, is_short(type) ? "unsigned short" : wide,
        small ? "unsigned" : "long long");
    put(t, "%s%s", is_short(type) ? bits : "",
        type == TD_CUDA_HALF       ? half
        : type == TD_CUDA_BFLOAT16 ? bfloat16
                                   : as_it_is);
}

static bool has_parameter(int op)
{
    return strstr(formulas[op].parameters, "parameter") != NULL;
}

static void put_formulas(struct text *t, const struct td_cuda_fused *p)
{
    bool there[TD_CUDA_FUSED_OPS] = {false};
    put(t, "%s", functions);
    for (int k = 0; k < p->n_instr; k++) {
        const int op = p->instr[k].op;
        if (!there[op]) {
            put(t, "static __device__ T op_%s(%s) { return %s; }\n", formulas[op].name,
                formulas[op].parameters, formulas[op].value);
        }
        there[op] = true;
    }
}

/* ------------------------------------------------------------------ the loop */

static bool repeated_inside(const struct td_cuda_fused *p, int pattern)
{
    return p->rank == 0 || p->step[pattern][0] == 0;
}

/* Where the patterns but the first are. */
static void put_places(struct text *t, const struct td_cuda_fused *p)
{
    for (int k = 1; k < p->n_patterns; k++) {
        put(t, "        I p%d = 0;\n", k);
    }
    if (p->n_patterns > 1 && p->rank > 0) {
        put(t, p->rank > 1 ? "        I k, up, rest = i;\n" : "        I k, rest = i;\n");
    }
    for (int d = 0; p->n_patterns > 1 && d < p->rank; d++) {
        if (d + 1 < p->rank) {
            put(t,
                "        up = rest / (I)s.dim[%d];\n        k = rest - up * (I)s.dim[%d];\n        rest = "
                "up;\n",
                d, d);
        } else {
            put(t, "        k = rest;\n");
        }
        for (int q = 1; q < p->n_patterns; q++) {
            if (p->step[q][d] != 0) {
                put(t, "        p%d += k * (I)s.step[%d][%d];\n", q, q - 1, d);
            }
        }
    }
}

static void put_reads(struct text *t, const struct td_cuda_fused *p)
{
    for (int k = 0; k < p->n_operands; k++) {
        char place[16];
        (void)snprintf(place, sizeof place, p->pattern[k] == 0 ? "i" : "p%d", p->pattern[k]);
        put(t,
            repeated_inside(p, p->pattern[k])
                ? "        const E v%d = a%d[%s];\n"
                : "        const several<N> v%d = *(const several<N> *)(a%d + %s);\n",
            k, k, place);
    }
}

static void put_steps(struct text *t, const struct td_cuda_fused *p)
{
    for (int k = 0; k < p->n_operands; k++) {
        put(t, "            const T r%d = load(v%d%s);\n", k, k,
            repeated_inside(p, p->pattern[k]) ? "" : ".v[e]");
    }
    for (int k = 0; k < p->n_instr; k++) {
        const struct td_cuda_instr *s = &p->instr[k];
        put(t, "            const T r%d = held(op_%s(r%d", p->n_operands + k, formulas[s->op].name, s->a);
        if (has_parameter(s->op)) {
            put(t, s->b < 0 ? ", T(0)" : ", r%d", s->b);
            put(t, ", (T)%af", (double)s->parameter);
        } else if (s->b >= 0) {
            put(t, ", r%d", s->b);
        }
        put(t, "));\n");
    }
}

static void put_loop(struct text *t, const struct td_cuda_fused *p)
{
    put(t, "template <int N> struct alignas(N * sizeof(E)) several { E v[N]; };\n"
           "template <int N> static __device__ void go(const shape &s");
    for (int k = 0; k < p->n_operands; k++) {
        put(t, ", const E *a%d", k);
    }
    put(t, ", E *y, I n)\n{\n"
           "    (void)s;\n"
           "    for (I i = ((I)blockIdx.x * blockDim.x + threadIdx.x) * N; i < n;\n"
           "         i += (I)gridDim.x * blockDim.x * N) {\n");
    put_places(t, p);
    put_reads(t, p);
    put(t, "        several<N> out;\n#pragma unroll\n        for (int e = 0; e < N; e++) {\n");
    put_steps(t, p);
    put(t, "            out.v[e] = store(r%d);\n        }\n        *(several<N> *)(y + i) = out;\n    }\n}\n",
        p->n_operands + p->n_instr - 1);
}

static void put_kernel(struct text *t, const struct td_cuda_fused *p, const char *name, int width)
{
    put(t, "extern \"C\" __global__ void __launch_bounds__(%d) %s(shape s", TD_CUDA_MADE_THREADS, name);
    for (int k = 0; k < p->n_operands; k++) {
        put(t, ", const E *a%d", k);
    }
    put(t, ", E *y, long long n)\n{\n    go<%d>(s", width);
    for (int k = 0; k < p->n_operands; k++) {
        put(t, ", a%d", k);
    }
    put(t, ", y, (I)n);\n}\n");
}

/* ------------------------------------------------------------------ the whole */

static int widest(enum td_cuda_type type)
{
    return type == TD_CUDA_DOUBLE ? 2 : is_short(type) ? 8 : 4;
}

char *td_cuda_fused_source(enum td_cuda_type type, const struct td_cuda_fused *p)
{
    const bool known = type == TD_CUDA_FLOAT || type == TD_CUDA_DOUBLE || is_short(type);
    struct text t = {.at = known && p->n_patterns * p->rank <= MOST_WORDS ? td_calloc(1, TD_CUDA_FUSED_TEXT)
                                                                          : NULL};
    if (t.at == NULL) {
        return NULL;
    }
    const bool small = p->n < INT32_MAX; /* and a turn beyond it is no overflow */
    put_types(&t, type, small);
    put(&t, "struct shape { long long dim[%d], step[%d][%d]; };\n", p->rank > 0 ? p->rank : 1,
        p->n_patterns > 1 ? p->n_patterns - 1 : 1, p->rank > 0 ? p->rank : 1);
    put_formulas(&t, p);
    put_loop(&t, p);
    put_kernel(&t, p, TD_CUDA_MADE_ONE, 1);
    put_kernel(&t, p, TD_CUDA_MADE_MANY, widest(type));
    if (t.cut) {
        td_free(t.at);
        return NULL;
    }
    return t.at;
}

/* ------------------------------------------------------------------ running it */

/* Elements that fused_many has at a time; 1: dims or operands are not made for it. */
static int width_of(enum td_cuda_type type, const struct td_cuda_fused *p, const struct td_cuda_operands *a,
                    const void *y)
{
    const int width = widest(type);
    uintptr_t all = (uintptr_t)y;
    for (int k = 0; k < p->n_operands; k++) {
        all |= repeated_inside(p, p->pattern[k]) ? 0 : (uintptr_t)a->at[k];
    }
    return p->rank > 0 && p->dim[0] % width == 0 && all % 16 == 0 ? width : 1;
}

static void set_parameters(const struct td_cuda_fused *p, int64_t *word)
{
    for (int d = 0; d < p->rank; d++) {
        *word++ = p->dim[d];
    }
    for (int q = 1; q < p->n_patterns; q++) {
        for (int d = 0; d < p->rank; d++) {
            *word++ = p->step[q][d];
        }
    }
}

int td_cuda_fused_launch(const struct td_cuda_made *made, enum td_cuda_type type,
                         const struct td_cuda_fused *p, const struct td_cuda_operands *a, void *y,
                         struct td_cuda_stream *stream)
{
    int64_t shape[MOST_WORDS] = {0}, n = p->n;
    void *args[TD_CUDA_FUSED_OPERANDS + 3] = {shape};
    const int64_t width = width_of(type, p, a, y), threads = TD_CUDA_MADE_THREADS;
    set_parameters(p, shape);
    for (int k = 0; k < p->n_operands; k++) {
        args[1 + k] = (void *)&a->at[k];
    }
    args[1 + p->n_operands] = &y;
    args[2 + p->n_operands] = &n;
    return td_cuda_launch_made(width > 1 ? made->many : made->one, (n / width + threads - 1) / threads, args,
                               stream);
}
