/* tests/host_cuda/gpu_ops.c - prints which ops have kernels for a GPU, and why the others run on the CPU: the
 * page docs/gpu-ops.md.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "core/run/engine.h"
#include "kernels/cuda/rows.h"
#include "kernels/ops.h"

static const struct reason {
    const char *title, *why;
} REASONS[] = {
    {"Refused", "known, and run nowhere: they run code or touch files outside of the model"},
    {"State", "variables, tables, queues, datasets, counters: what a model keeps lies on the host"},
    {"Control flow and calls", "which step is next is decided there; what bodies compute is placed step by "
                               "step"},
    {"Other ops",
     "a node of these is nodes of others as soon as its graph is loaded, which run where they can"},
    {"Strings and objects", "their elements are no plain numbers"},
    {"Shapes",
     "the result follows from shapes alone, or is one, or a few numbers such as axes, and is wanted on "
     "the host"},
    {"Sizes",
     "how large a result is follows from values, and no kernel finds it there, as that of Where does"},
    {"TensorFlow has none either",
     "its kernels are of the CPU alone: what runs on its GPU is not lost on ours"},
    {"No kernel yet", "they could run on a GPU"},
};
enum reason_number { REFUSED, STATE, CONTROL, EXPANDED, OBJECTS, SHAPES, SIZES, NOWHERE, NOT_YET, N_REASONS };

/* What a shape function cannot tell without the values; what is mostly an axis, a size, an order or a shape;
 * what TensorFlow has no kernel for on a GPU; and what flags do not say of an op. */
static const char *const BY_VALUE[] = {"SparseSegmentMeanGradV2", "SparseSegmentSqrtNGradV2",
                                       "SparseSegmentSumGradV2"};
static const char *const SMALL[] = {"DataFormatDimMap",
                                    "DataFormatVecPermute",
                                    "InvertPermutation",
                                    "LinSpace",
                                    "Range",
                                    "SparseReshape",
                                    "StatelessRandomGetKeyCounter",
                                    "StatelessRandomGetKeyCounterAlg",
                                    "UnravelIndex"};
static const char *const CPU_ALONE[] = {"KMC2ChainInitialization",
                                        "KmeansPlusPlusInitialization",
                                        "MatrixExponential",
                                        "NearestNeighbors",
                                        "RequantizationRangePerChannel",
                                        "RequantizePerChannel",
                                        "StatelessParameterizedTruncatedNormal",
                                        "UniformDequantize",
                                        "UniformQuantize",
                                        "UniformQuantizedAdd",
                                        "UniformQuantizedClipByValue",
                                        "UniformQuantizedConvolution",
                                        "UniformQuantizedConvolutionHybrid",
                                        "UniformQuantizedDot",
                                        "UniformQuantizedDotHybrid",
                                        "UniformRequantize",
                                        "AudioSpectrogram",
                                        "BandedTriangularSolve",
                                        "BoostedTreesBucketize",
                                        "CTCBeamSearchDecoder",
                                        "CTCGreedyDecoder",
                                        "CTCLoss",
                                        "ComputeAccidentalHits",
                                        "DenseCountSparseOutput",
                                        "DenseToDenseSetOperation",
                                        "DenseToSparseSetOperation",
                                        "DeserializeSparse",
                                        "EditDistance",
                                        "Eig",
                                        "ExtractGlimpse",
                                        "ExtractGlimpseV2",
                                        "ListDiff",
                                        "MatrixLogarithm",
                                        "MatrixSquareRoot",
                                        "Mfcc",
                                        "QuantizeDownAndShrinkRange",
                                        "QuantizedAdd",
                                        "QuantizedAvgPool",
                                        "QuantizedBiasAdd",
                                        "QuantizedConcat",
                                        "QuantizedConv2D",
                                        "QuantizedMatMul",
                                        "QuantizedMaxPool",
                                        "QuantizedMul",
                                        "QuantizedRelu",
                                        "QuantizedRelu6",
                                        "QuantizedReshape",
                                        "RaggedBincount",
                                        "RaggedCountSparseOutput",
                                        "RaggedCross",
                                        "RaggedGather",
                                        "RaggedRange",
                                        "RaggedTensorToSparse",
                                        "RaggedTensorToTensor",
                                        "RequantizationRange",
                                        "Requantize",
                                        "SetSize",
                                        "SparseAdd",
                                        "SparseAddGrad",
                                        "SparseBincount",
                                        "SparseCountSparseOutput",
                                        "SparseCross",
                                        "SparseCrossHashed",
                                        "SparseMatMul",
                                        "SparseReduceMax",
                                        "SparseReduceMaxSparse",
                                        "SparseReduceSum",
                                        "SparseReduceSumSparse",
                                        "SparseSoftmax",
                                        "SparseSparseMaximum",
                                        "SparseSparseMinimum",
                                        "SparseToSparseSetOperation",
                                        "StatelessRandomPoisson",
                                        "StatelessSampleDistortedBoundingBox",
                                        "StatelessShuffle",
                                        "UnicodeScript",
                                        "_RoundHalf" /* of halves on the host */};
static const char *const MAKES_OBJECTS[] = {"SerializeManySparse", "SerializeSparse"};
static const char *const OF_REFERENCES[] = {"RefIdentity", "_Rows"};
static const char *const OF_BRANCHES[] = {"FakeParam"};

#define IS_IN(name, list) is_in(name, list, (int)(sizeof(list) / sizeof *(list)))
static bool is_in(const char *name, const char *const *list, int n)
{
    bool is = false;
    for (int i = 0; i < n; i++) {
        is = is || strcmp(name, list[i]) == 0;
    }
    return is;
}

static bool has_objects(const struct td_arg_def *args, int n)
{
    for (int i = 0; i < n; i++) {
        if (args[i].type != TD_DTYPE_NONE && td_dtype_in(args[i].type, TD_SET_OBJECTS)) {
            return true;
        }
    }
    return false;
}

/* In the order of the placer (core/compile/placer.c). */
static enum reason_number reason_of(const struct td_op_def *d)
{
    const uint32_t flags = d->op->flags;
    const uint32_t control = TD_OP_CALL | TD_OP_DEAD_OK | TD_OP_SWITCH | TD_OP_ENTER | TD_OP_EXIT |
                             TD_OP_NEXT | TD_OP_LOOP_COND | TD_OP_ARG | TD_OP_CONST;
    bool calls = false;
    for (int i = 0; i < d->n_attrs; i++) {
        calls = calls || d->attrs[i].kind == TD_ATTR_FUNC;
    }
    return flags & TD_OP_REFUSED                                                      ? REFUSED
           : calls || (flags & control) != 0 || IS_IN(d->name, OF_BRANCHES)           ? CONTROL
           : d->op->expand != NULL                                                    ? EXPANDED
           : flags & (TD_OP_STATEFUL | TD_OP_HANDLE | TD_OP_NO_FOLD)                  ? STATE
           : IS_IN(d->name, OF_REFERENCES)                                            ? STATE
           : has_objects(d->in, d->n_in) || has_objects(d->out, d->n_out)             ? OBJECTS
           : IS_IN(d->name, MAKES_OBJECTS)                                            ? OBJECTS
           : (flags & TD_OP_SHAPE_ONLY) != 0 || d->op->host_out != 0 || d->n_out == 0 ? SHAPES
           : IS_IN(d->name, SMALL)                                                    ? SHAPES
           : d->op->infer == NULL || IS_IN(d->name, BY_VALUE)                         ? SIZES
           : IS_IN(d->name, CPU_ALONE)                                                ? NOWHERE
                                                                                      : NOT_YET;
}

/* The types of an attribute that any of the rows takes: the second may serve what the first does not. */
static uint32_t types_of(const struct td_kernel *rows, const char *attr)
{
    uint32_t set = 0;
    for (const struct td_kernel *row = rows; row->name != NULL; row++) {
        for (int r = 0; r < TD_TYPE_RULES && row->types[r].attr != NULL; r++) {
            set |= strcmp(row->types[r].attr, attr) == 0 ? row->types[r].set : 0;
        }
    }
    return set;
}

static void print_types(const struct td_kernel *rows)
{
    for (int r = 0; r < TD_TYPE_RULES && rows->types[r].attr != NULL; r++) {
        const uint32_t set = types_of(rows, rows->types[r].attr);
        printf("%s%s:", r > 0 ? "; " : "", rows->types[r].attr);
        for (int t = 1; t < TD_DTYPE_END; t++) {
            if (td_dtype_valid(t) && td_dtype_in((enum td_dtype)t, set)) {
                printf(" %s", td_dtype_name((enum td_dtype)t));
            }
        }
    }
}

static void print_there(const struct td_op_def *const *list, int n)
{
    printf("| op | types |\n| --- | --- |\n");
    for (int i = 0; i < n; i++) {
        if (list[i]->added != NULL) {
            printf("| %s | ", list[i]->name);
            print_types(list[i]->added->rows);
            printf(" |\n");
        }
    }
}

static void print_others(const struct td_op_def *const *list, int n, enum reason_number why)
{
    int printed = 0;
    printf("\n## %s\n\n%s.\n\n", REASONS[why].title, REASONS[why].why);
    for (int i = 0; i < n; i++) {
        if (list[i]->op != NULL && list[i]->added == NULL && reason_of(list[i]) == why) {
            printf("%s%s", printed > 0 ? ", " : "", list[i]->name);
            printed++;
        }
    }
    printf("%s\n", printed > 0 ? "." : "None.");
}

int main(void)
{
    struct td_err err = {0};
    struct td_engine engine = {0};
    TD_CHECK(td_engine_init(&engine, td_op_families, &err) == TD_OK);
    for (int f = 0; td_cuda_families[f] != NULL; f++) {
        for (const struct td_op_rows *r = td_cuda_families[f]; r->op != NULL; r++) {
            TD_CHECK(td_engine_add_kernels(&engine, r->op, r->rows, &err) == TD_OK);
        }
    }
    int n, there = 0;
    const struct td_op_def *const *list = td_op_list(engine.ops, &n);
    for (int i = 0; i < n; i++) {
        there += list[i]->added != NULL;
    }
    printf("# Ops on a GPU\n\n<!-- Made by docs/generate.sh from the tables of ops and of kernels/cuda. "
           "-->\n\n");
    printf(
        "%d of %d ops have kernels for a GPU ([gpu.md](gpu.md)), for these types; the others run on the CPU, "
        "and why.\nA node of the first may run there all the same: `:debug` placement says so of each.\n\n",
        there, n);
    print_there(list, n);
    for (int why = 0; why < N_REASONS; why++) {
        print_others(list, n, (enum reason_number)why);
    }
    td_engine_fini(&engine);
    return 0;
}
