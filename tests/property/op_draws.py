"""Draws ops, attributes, dtypes, shapes and values at random, asks TensorFlow for the answers, and writes them as a suite that golden.py runs.

    python tests/property/op_draws.py OUT [--draws 400] [--seed 1] [--list]
    python tests/golden.py OUT --lib build/libtensord.so

Each draw is one signature that calls one raw op on inputs of unknown shape, with TensorFlow's result or its error code. TensorFlow and
libtensord never share a process (both bring a regex library). --list prints the ops that are covered. An op's line in DRAWS says how its inputs and attributes
come about: a function of the random source that returns (inputs, attributes); inputs are arrays, or lists of arrays for list arguments.
"""
import argparse
import json
import os
import sys

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
F = ["float32", "float64"]
H = ["float16", "bfloat16"]
I = ["int32", "int64"]
S = ["int8", "int16", "uint8", "uint16", "uint32", "uint64"]
C = ["complex64", "complex128"]
CODES = {1: "CANCELLED", 2: "UNKNOWN", 3: "INVALID_ARGUMENT", 5: "NOT_FOUND", 8: "RESOURCE_EXHAUSTED", 9: "FAILED_PRECONDITION",
         11: "OUT_OF_RANGE", 12: "UNIMPLEMENTED", 13: "INTERNAL"}


class Source:
    """The random source of one draw."""

    def __init__(self, seed):
        self.r = np.random.default_rng(seed)

    def one(self, choices):
        return choices[int(self.r.integers(len(choices)))]

    def int(self, lo, hi):
        return int(self.r.integers(lo, hi + 1))

    def chance(self, p):
        return bool(self.r.random() < p)

    def shape(self, lo=0, hi=4):
        return tuple(0 if self.chance(0.05) else self.int(1, 5) for _ in range(self.int(lo, hi)))

    def array(self, dtype, shape, lo=-4, hi=4):
        import tensorflow as tf
        if dtype == "bool":
            return self.r.random(shape) < 0.5
        if dtype == "string":
            words = ["", "a", "Hello World", "x,y", "naïve", "  pad ", "12", "-3.5", "\0nul"]
            return np.array([self.one(words) for _ in range(int(np.prod(shape)))], object).reshape(shape)
        kind = tf.as_dtype(dtype)
        if kind.is_complex:
            return (self.r.uniform(lo, hi, shape) + 1j * self.r.uniform(lo, hi, shape)).astype(dtype)
        if kind.is_integer:
            return self.r.integers(max(lo, 0) if dtype.startswith("u") else lo, hi + 1, shape).astype(dtype)
        return self.r.uniform(lo, hi, shape).astype(kind.as_numpy_dtype)

    def alike(self, shape):
        """A shape that broadcasts with the given one, mostly."""
        cut = self.int(0, len(shape))
        return tuple(1 if self.chance(0.3) else d + self.chance(0.03) for d in shape[cut:])


def unary(dtypes, lo=-4, hi=4, name="x"):
    return lambda s: ({name: s.array(s.one(dtypes), s.shape(), lo, hi)}, {})


def binary(dtypes, lo=-4, hi=4, names=("x", "y")):
    def draw(s):
        d, shape = s.one(dtypes), s.shape()
        pair = [s.array(d, shape, lo, hi), s.array(d, s.alike(shape), lo, hi)]
        return dict(zip(names, pair[::-1] if s.chance(0.5) else pair)), {}
    return draw


def axes_of(s, rank):
    """Some axes of a rank, as a vector or a scalar, negative at times, out of range rarely."""
    if rank == 0 or s.chance(0.1):
        return np.zeros([0], s.one(I))
    axes = s.r.permutation(rank)[:s.int(1, rank)] - (rank if s.chance(0.3) else 0)
    axes = axes + (rank + 3 if s.chance(0.02) else 0)
    return np.array(axes if len(axes) > 1 or s.chance(0.5) else axes[0], s.one(I))


def reduction(dtypes):
    def draw(s):
        x = s.array(s.one(dtypes), s.shape(), -2, 2)
        return {"input": x, "axis": axes_of(s, x.ndim)}, {"keep_dims": s.chance(0.5)}
    return draw


def arg(s):
    x = s.array(s.one(F + I), s.shape(1, 4))
    return {"input": x, "dimension": np.int32(s.int(-x.ndim, x.ndim - 1))}, {"output_type": s.one(I)}


def scan(s):
    x = s.array(s.one(F + I), s.shape(1, 4), 1, 3)
    return {"x": x, "axis": np.int32(s.int(-x.ndim, x.ndim - 1))}, {"exclusive": s.chance(0.5), "reverse": s.chance(0.5)}


ANY = F + H + I + S + C + ["bool", "string"]


def reshape(s):
    x = s.array(s.one(ANY), s.shape())
    dims = list(s.r.permutation(x.shape)) if x.ndim else [1]
    if dims and s.chance(0.4):
        dims[s.int(0, len(dims) - 1)] = -1
    return {"tensor": x, "shape": np.array(dims, s.one(I))}, {}


def transpose(s):
    x = s.array(s.one(ANY), s.shape())
    return {"x": x, "perm": np.array(s.r.permutation(x.ndim), s.one(I))}, {}


def concat(s):
    shape, d = list(s.shape(1, 4)), s.one(ANY)
    axis, n = s.int(0, len(shape) - 1), s.int(2, 4)
    parts = [s.array(d, shape[:axis] + [s.int(0, 3)] + shape[axis + 1:]) for _ in range(n)]
    return {"values": parts, "axis": np.array(axis - (len(shape) if s.chance(0.3) else 0), s.one(I))}, {}


def pack(s):
    shape, d = s.shape(0, 3), s.one(ANY)
    return {"values": [s.array(d, shape) for _ in range(s.int(1, 4))]}, {"axis": s.int(-len(shape) - 1, len(shape))}


def split(s):
    n, shape = s.int(1, 4), list(s.shape(1, 3))
    axis = s.int(0, len(shape) - 1)
    shape[axis] = n * s.int(1, 2) + s.chance(0.05)
    return {"axis": np.int32(axis), "value": s.array(s.one(ANY), shape)}, {"num_split": n}


def slice_(s):
    x, d = s.array(s.one(ANY), s.shape(1, 4)), s.one(I)
    begin = [s.int(0, n) for n in x.shape]
    size = [-1 if s.chance(0.3) else s.int(0, n - b) for n, b in zip(x.shape, begin)]
    return {"input": x, "begin": np.array(begin, d), "size": np.array(size, d)}, {}


def strided_slice(s):
    x, d = s.array(s.one(ANY), s.shape(1, 4)), s.one(I)
    n = s.int(1, x.ndim)
    mask = lambda p: sum(1 << i for i in range(n) if s.chance(p))
    at = lambda: np.array([s.int(-6, 6) for _ in range(n)], d)
    step = np.array([s.one([1, 1, 2, -1, -2]) for _ in range(n)], d)
    ellipsis = 1 << s.int(0, n - 1) if s.chance(0.2) else 0
    return {"input": x, "begin": at(), "end": at(), "strides": step}, \
        {"begin_mask": mask(0.3), "end_mask": mask(0.3), "ellipsis_mask": ellipsis, "new_axis_mask": mask(0.1), "shrink_axis_mask": mask(0.1)}


def gather(s):
    x = s.array(s.one(ANY), s.shape(1, 4))
    axis = s.int(0, x.ndim - 1)
    i = s.array(s.one(I), s.shape(0, 3), 0, max(x.shape[axis] - 1 + s.chance(0.05), 0))
    return {"params": x, "indices": i, "axis": np.array(axis - (x.ndim if s.chance(0.3) else 0), s.one(I))}, {}


def gather_nd(s):
    x = s.array(s.one(ANY), tuple(s.int(1, 4) for _ in range(s.int(1, 4))))
    depth = s.int(0, x.ndim)
    i = np.stack([s.array("int64", (s.int(0, 3), 2), 0, 0)] * max(depth, 1), -1)[..., :depth]
    for k in range(depth):
        i[..., k] = s.r.integers(0, x.shape[k], i.shape[:-1])
    return {"params": x, "indices": i.astype(s.one(I))}, {}


def tile(s):
    x = s.array(s.one(F + I + ["string", "bool"]), s.shape())
    return {"input": x, "multiples": s.array(s.one(I), (x.ndim,), 0, 3)}, {}


def pad(s):
    x = s.array(s.one(F + I + H), s.shape())
    return {"input": x, "paddings": s.array(s.one(I), (x.ndim, 2), 0, 2)}, {}


def mirror_pad(s):
    x = s.array(s.one(F + I), s.shape(1, 4))
    most = max(min(x.shape) - 1, 0)
    return {"input": x, "paddings": s.array(s.one(I), (x.ndim, 2), 0, most)}, {"mode": s.one(["REFLECT", "SYMMETRIC"])}


def select(s):
    d, shape = s.one(ANY), s.shape()
    return {"condition": s.array("bool", s.alike(shape)), "t": s.array(d, shape), "e": s.array(d, s.alike(shape))}, {}


def top_k(s):
    x = s.array(s.one(F + I), s.shape(1, 3))
    return {"input": x, "k": np.int32(s.int(0, x.shape[-1] + s.chance(0.05)))}, {"sorted": True}


def one_hot(s):
    d, rank = s.one(F + I + ["bool"]), s.int(0, 3)
    return {"indices": s.array(s.one(I), tuple(s.int(0, 3) for _ in range(rank)), -1, 5), "depth": np.int32(s.int(0, 5)),
            "on_value": s.array(d, ()), "off_value": s.array(d, ())}, {"axis": s.int(-1, rank)}


def matmul(s):
    d, m, k, n, ta, tb = s.one(F + H + I + C), s.int(0, 6), s.int(0, 6), s.int(0, 6), s.chance(0.5), s.chance(0.5)
    a, b = (k, m) if ta else (m, k + s.chance(0.05)), (n, k) if tb else (k, n)
    return {"a": s.array(d, a), "b": s.array(d, b)}, {"transpose_a": ta, "transpose_b": tb}


def batch_matmul(s):
    d, m, k, n, batch = s.one(F + I + C), s.int(1, 4), s.int(1, 4), s.int(1, 4), s.shape(0, 2)
    ax, ay = s.chance(0.5), s.chance(0.5)
    return {"x": s.array(d, batch + ((k, m) if ax else (m, k))), "y": s.array(d, s.alike(batch) + ((n, k) if ay else (k, n)))}, {"adj_x": ax, "adj_y": ay}


def conv2d(s):
    groups, depth, out = s.int(1, 2), s.int(1, 3), s.int(1, 3)
    x = s.array(s.one(F), (s.int(1, 2), s.int(3, 8), s.int(3, 8), groups * depth), -1, 1)
    w = s.array(str(x.dtype), (s.int(1, 3), s.int(1, 3), depth, groups * out), -1, 1)
    rate = s.one([1, 1, 2])
    return {"input": x, "filter": w}, {"strides": [1, s.int(1, 2), s.int(1, 2), 1] if rate == 1 else [1, 1, 1, 1], "padding": s.one(["SAME", "VALID"]),
                                       "dilations": [1, rate, rate, 1]}


def depthwise(s):
    x = s.array(s.one(F), (s.int(1, 2), s.int(3, 8), s.int(3, 8), s.int(1, 4)), -1, 1)
    w, stride = s.array(str(x.dtype), (s.int(1, 3), s.int(1, 3), x.shape[3], s.int(1, 2)), -1, 1), s.int(1, 2)
    return {"input": x, "filter": w}, {"strides": [1, stride, stride, 1], "padding": s.one(["SAME", "VALID"])}


def pool(name):
    def draw(s):
        x = s.array(s.one(F), (s.int(1, 2), s.int(3, 8), s.int(3, 8), s.int(1, 3)))
        return {name: x}, {"ksize": [1, s.int(1, 3), s.int(1, 3), 1], "strides": [1, s.int(1, 3), s.int(1, 3), 1], "padding": s.one(["SAME", "VALID"])}
    return draw


def resize(s):
    half = s.chance(0.5)
    return {"images": s.array(s.one(F + ["uint8", "int32"]), (s.int(1, 2), s.int(1, 6), s.int(1, 6), s.int(1, 3)), 0, 9),
            "size": s.array("int32", (2,), 1, 9)}, {"half_pixel_centers": half, "align_corners": not half and s.chance(0.5)}


def segment(s):
    x = s.array(s.one(F + I), s.shape(1, 3))
    return {"data": x, "segment_ids": np.sort(s.array(s.one(I), (x.shape[0],), 0, 4))}, {}


def unsorted_segment(s):
    x = s.array(s.one(F + I), s.shape(1, 3))
    return {"data": x, "segment_ids": s.array(s.one(I), x.shape[:s.int(1, x.ndim)], -1, 4), "num_segments": np.int32(5)}, {}


def cast(s):
    numbers = F + H + I + ["int8", "uint8", "int16", "uint16", "bool"] + C
    return {"x": s.array(s.one(numbers), s.shape(), 0, 9)}, {"DstT": s.one(numbers)}


def axis_vector(name, other, dtypes):
    def draw(s):
        x = s.array(s.one(dtypes), s.shape())
        return {name: x, other: axes_of(s, x.ndim)}, {}
    return draw


def string_split(s):
    return {"input": s.array("string", (s.int(0, 5),)), "sep": np.array(s.one(["", ",", " ", "l"]), object)}, {"maxsplit": s.int(-1, 2)}


def substr(s):
    x = s.array("string", s.shape(0, 2))
    return {"input": x, "pos": s.array("int32", (), -3, 3), "len": s.array("int32", (), 0, 4)}, {"unit": s.one(["BYTE", "UTF8_CHAR"])}


def softmax_loss(s):
    n, k = s.int(1, 4), s.int(1, 5)
    return {"features": s.array("float32", (n, k)), "labels": s.array(s.one(I), (n,), 0, k - 1)}, {}


FLOATS, NUMBERS = F + H, F + H + I + S + C
DRAWS = {
    **{op: unary(FLOATS) for op in "Exp Expm1 Sin Cos Sinh Cosh Tanh Atan Asinh Sigmoid Floor Ceil Erf Erfc IsNan IsInf IsFinite".split()},
    **{op: unary(FLOATS, 0.1, 4) for op in "Sqrt Rsqrt Log Log1p Reciprocal Acosh Digamma".split() if op != "Acosh"},
    **{op: unary(FLOATS, -0.9, 0.9) for op in "Asin Acos Atanh Erfinv".split() if op != "Erfinv"},
    **{op: unary(F + H + I) for op in "Abs Neg Sign Square".split()},
    **{op: unary(FLOATS, name="features") for op in "Elu Selu Softplus Softsign Relu Relu6 LeakyRelu".split()},
    **{op: binary(F + H + I + S) for op in "Maximum Minimum".split()},
    **{op: binary(F + H + I + ["int8", "int16", "uint8", "uint16"]) for op in "Less LessEqual Greater GreaterEqual Equal NotEqual".split()},
    **{op: binary(F + H + I + C + ["int8", "uint8", "int16"]) for op in "AddV2 Sub Mul".split()},
    **{op: binary(F + I, 1, 9) for op in "FloorDiv FloorMod Div Pow".split() if op != "Pow"},
    "Pow": binary(F, 0.2, 3), "RealDiv": binary(F, 1, 4), "SquaredDifference": binary(F + I), "Atan2": binary(F, 0.1, 4, ("y", "x")),
    **{op: binary(F) for op in "DivNoNan Xlogy MulNoNan".split()},
    **{op: binary(["bool"]) for op in "LogicalAnd LogicalOr".split()}, "LogicalNot": unary(["bool"]),
    **{op: binary(I + ["int8", "uint8", "int16", "uint16"]) for op in "BitwiseAnd BitwiseOr BitwiseXor".split()},
    **{op: reduction(F + I + C) for op in "Sum Prod".split()}, "Mean": reduction(F), "Max": reduction(F + I), "Min": reduction(F + I),
    "All": reduction(["bool"]), "Any": reduction(["bool"]), "ArgMax": arg, "ArgMin": arg, "Cumsum": scan, "Cumprod": scan,
    "Reshape": reshape, "Transpose": transpose, "ConcatV2": concat, "Pack": pack, "Split": split, "Slice": slice_, "StridedSlice": strided_slice,
    "GatherV2": gather, "GatherNd": gather_nd, "Tile": tile, "Pad": pad, "MirrorPad": mirror_pad, "SelectV2": select, "TopKV2": top_k, "OneHot": one_hot,
    "ReverseV2": axis_vector("tensor", "axis", F + I + ["bool", "string"]),
    "MatMul": matmul, "BatchMatMulV2": batch_matmul, "Conv2D": conv2d, "DepthwiseConv2dNative": depthwise, "MaxPool": pool("input"), "AvgPool": pool("value"),
    "ResizeBilinear": resize, "ResizeNearestNeighbor": resize, "Cast": cast,
    **{op: segment for op in "SegmentSum SegmentMax SegmentMin SegmentProd".split()},
    **{op: unsorted_segment for op in "UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd".split()},
    "Softmax": lambda s: ({"logits": s.array(s.one(F), s.shape(1, 3))}, {}), "LogSoftmax": lambda s: ({"logits": s.array(s.one(F), s.shape(1, 3))}, {}),
    "SparseSoftmaxCrossEntropyWithLogits": softmax_loss,
    "Where": lambda s: ({"condition": s.array(s.one(F + I + ["bool"]), s.shape(1, 4), -1, 1)}, {}),
    "Unique": lambda s: ({"x": s.array(s.one(F[:1] + I + ["string"]), (s.int(0, 9),), -2, 2)}, {"out_idx": s.one(I)}),
    "StringSplitV2": string_split, "Substr": substr,
    **{op: (lambda s: ({"input": s.array("string", s.shape(0, 2))}, {})) for op in "StringLength StringStrip StringLower StringUpper".split()},
    "StringToHashBucketFast": lambda s: ({"input": s.array("string", s.shape(0, 2))}, {"num_buckets": s.int(1, 1000)}),
    "AsString": lambda s: ({"input": s.array(s.one(F + I + ["bool"]), s.shape(0, 2))}, {}),
}
LOOSE = {"float16": (4e-3, 4e-3), "bfloat16": (3e-2, 3e-2), "float32": (1e-4, 2e-5), "complex64": (1e-4, 2e-5)}


def outputs_of(result):
    """A raw op's result as {name: array}."""
    parts = list(result) if isinstance(result, (list, tuple)) else [result]
    return {f"y{i}": np.asarray(p.numpy()) for i, p in enumerate(parts)}


def put(arrays, key, value):
    a = np.asarray(value)
    if a.dtype.kind in "OSU":
        items = [x if isinstance(x, bytes) else str(x).encode() for x in a.reshape(-1).tolist()]
        arrays[key + "#bytes"] = np.frombuffer(b"".join(items), np.uint8)
        arrays[key + "#offsets"] = np.cumsum([0] + [len(x) for x in items]).astype(np.int64)
        arrays[key + "#shape"] = np.array(a.shape, np.int64)
    elif a.dtype.name == "bfloat16":
        arrays[key + "#bf16"] = a.view(np.uint16)
    else:
        arrays[key] = a


def flatten(inputs):
    """Arguments of a signature: a list argument becomes NAME__0, NAME__1 ..."""
    flat = {}
    for name, value in inputs.items():
        if isinstance(value, list):
            flat.update({f"{name}__{i}": np.asarray(v) for i, v in enumerate(value)})
        else:
            flat[name] = np.asarray(value)
    return flat


def signature(tf, op, inputs, attrs):
    """A concrete function of unknown shapes that calls the op."""
    flat = flatten(inputs)

    def call(**given):
        args = {n: [given[f"{n}__{i}"] for i in range(len(v))] if isinstance(v, list) else given[n] for n, v in inputs.items()}
        result = getattr(tf.raw_ops, op)(**args, **attrs)
        parts = list(result) if isinstance(result, (list, tuple)) else [result]
        return {f"y{i}": p for i, p in enumerate(parts)}
    specs = {n: tf.TensorSpec(None, tf.string if v.dtype == object else v.dtype, name=n) for n, v in flat.items()}
    return tf.function(call).get_concrete_function(**specs)


def draw_case(tf, op, seed):
    """(inputs, attributes, outputs or None, code or None)"""
    inputs, attrs = DRAWS[op](Source(seed))
    args = {n: [tf.constant(x) for x in v] if isinstance(v, list) else tf.constant(v) for n, v in inputs.items()}
    try:
        return inputs, attrs, outputs_of(getattr(tf.raw_ops, op)(**args, **attrs)), None
    except tf.errors.OpError as e:
        return inputs, attrs, None, CODES.get(e.error_code, "UNKNOWN")


def write_model(tf, out, name, seeds):
    """One SavedModel of a signature a draw, with its cases. Returns the number of cases."""
    module, signatures, cases = tf.Module(), {}, []
    folder = os.path.join(out, "goldens", name)
    os.makedirs(folder, exist_ok=True)
    for k, (op, seed) in enumerate(seeds):
        inputs, attrs, outputs, code = draw_case(tf, op, seed)
        if code in ("NOT_FOUND", "UNIMPLEMENTED"):
            continue   # TensorFlow has no such kernel
        try:
            f = signature(tf, op, inputs, attrs)
        except (ValueError, TypeError, tf.errors.OpError):
            continue   # TensorFlow refuses to trace it: no model can hold it
        key, flat = f"{op}_{k}", flatten(inputs)
        signatures[key] = f
        dtypes = [a.dtype.name for a in list(flat.values()) + list((outputs or {}).values())]
        loose = [LOOSE[d] for d in ("bfloat16", "float16", "complex64", "float32") if d in dtypes]
        case = {"id": f"{key}.{seed}", "signature": key, "file": key + ".npz"}
        if loose:
            case["rtol"], case["atol"] = loose[0]
        if code:
            case["error"] = {"code": [code, "INVALID_ARGUMENT"], "contains": []}
        arrays = {}
        for n, v in flat.items():
            put(arrays, "in/" + n, v)
        for n, v in (outputs or {}).items():
            put(arrays, "out/" + n, v)
        np.savez_compressed(os.path.join(folder, case["file"]), **arrays)
        cases.append(case)
    tf.saved_model.save(module, os.path.join(out, "models", name), signatures=signatures)
    with open(os.path.join(folder, "cases.json"), "w") as f:
        json.dump(cases, f, indent=1)
    return len(cases)


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("out", nargs="?")
    ap.add_argument("--draws", type=int, default=400)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--list", action="store_true", help="print the ops covered")
    args = ap.parse_args()
    if args.list or not args.out:
        print("\n".join(sorted(DRAWS)))
        return 0
    import tensorflow as tf
    ops, total, at = sorted(DRAWS), 0, 0
    while at < args.draws:
        seeds = [(ops[i % len(ops)], args.seed * 1000003 + i) for i in range(at, min(at + 250, args.draws))]
        total += write_model(tf, args.out, f"draws_{at}", seeds)
        at += len(seeds)
    print(f"{total} cases of {len(ops)} ops in {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
