"""Draws of ops that give tensors a shape or move them as a whole: identity, fill, reshape, transpose, concat, split, pad, tile, blocks, select, unique."""
import numpy as np

from draw_source import ANY, C, F, I, NUMBERS, S, axes_of, axis_of, same


def reshape(s):
    x = s.array(s.dtype(), s.shape())
    dims = list(s.r.permutation(x.shape)) if x.ndim else [1]
    if s.chance(0.3):   # axes of 1 come and go, as do axes that are folded into one
        dims = [int(np.prod(dims[:2]))] + [1] * s.int(0, 5) + dims[2:]
    for _ in range(2 if s.chance(0.02) else 1):
        if dims and s.chance(0.4):
            dims[s.int(0, len(dims) - 1)] = -1
    if s.chance(0.05):
        dims = [d + 1 for d in dims]
    return {"tensor": x, "shape": np.array(dims, s.one(I))}, {}


def many(s):
    """A shape of up to 8 axes, or of few and long ones."""
    if s.chance(0.7):
        return s.shape()
    return tuple(s.int(1, 3) for _ in range(s.int(5, 8))) if s.chance(0.5) else tuple(s.int(1, most) for most in s.one([(70, 70), (20, 7, 20), (3, 17, 33), (33, 33, 2)]))


def transpose(s):
    """Also of axes that stay side by side, which kernels fold."""
    x = s.array(s.dtype(), many(s))
    perm = s.r.permutation(x.ndim)
    if x.ndim > 1 and s.chance(0.3):
        perm = np.roll(np.arange(x.ndim), s.int(0, x.ndim - 1))
    if s.chance(0.05) and x.ndim:
        perm[0] = s.one([x.ndim, -1, perm[-1]])
    return {"x": x, "perm": np.array(perm, s.one(I))}, {}


def concat_parts(s):
    shape, d = list(s.shape(0 if s.chance(0.05) else 1, 4)), s.dtype()
    axis, n = axis_of(s, len(shape)), s.int(2, 4) if s.chance(0.8) else s.int(5, 20)

    def part():
        own = list(shape)
        if own:
            own[max(-len(own), min(axis, len(own) - 1))] = s.int(0, 40 if s.chance(0.1) else 3)
        return own + ([1] if s.chance(0.01) else [])
    return [s.array(d, part()) for _ in range(n)], axis


def concat(s):
    parts, axis = concat_parts(s)
    if s.op == "Concat":
        return {"concat_dim": np.int32(axis), "values": parts}, {}
    return {"values": parts, "axis": np.array(axis, s.one(I))}, {}


def concat_offset(s):
    d, rank = s.dtype("shape_type"), s.int(1, 3)
    base, axis = s.array(d, (rank,), 1, 4), axis_of(s, rank)

    def one():
        shape = base.copy()
        shape[axis % rank] = s.int(0, 4)
        shape[0] += s.chance(0.03)
        return shape
    return {"concat_dim": np.int32(axis), "shape": [one() for _ in range(s.int(2, 4))]}, {}


def pack(s):
    shape, d = s.shape(0, 5), s.dtype()
    return {"values": [s.array(d, shape if s.chance(0.98) else s.shape(0, 2)) for _ in range(s.int(1, 4) if s.chance(0.8) else s.int(5, 20))]}, {"axis": s.int(-len(shape) - 1, len(shape))}


def parallel_concat(s):
    n, shape, d = s.int(1, 4), s.shape(0, 3), s.dtype()
    return {"values": [s.array(d, (1,) + shape) for _ in range(n)]}, {"shape": [n] + list(shape)}


def unpack(s):
    x = s.array(s.dtype(), s.shape(0 if s.chance(0.02) else 1, 5))
    axis = axis_of(s, x.ndim)
    return {"value": x}, {"num": min((x.shape[axis] if -x.ndim <= axis < x.ndim else 1) + s.chance(0.03), 80), "axis": axis}


def split(s):
    n, shape = s.int(1, 4) if s.chance(0.8) else s.int(5, 20), list(s.shape(1, 5))
    axis = s.int(0, len(shape) - 1)
    shape[axis] = n * s.int(0, 2 if s.chance(0.8) else 9) + s.chance(0.05)
    return {"axis": np.int32(axis - (len(shape) if s.chance(0.3) else 0) + (9 if s.chance(0.03) else 0)), "value": s.array(s.dtype(), shape)}, {"num_split": n}


def split_v(s):
    n, shape, d = s.int(1, 4) if s.chance(0.8) else s.int(5, 20), list(s.shape(1, 5)), s.one(I + ["int8"])
    axis, sizes = s.int(0, len(shape) - 1), s.array(d, (n,), 0, 3)
    shape[axis] = int(sizes.sum()) + s.chance(0.05)
    if s.chance(0.4):
        sizes[s.int(0, n - 1)] = -1 if s.chance(0.97) else -2
    if s.chance(0.02):
        sizes[:2] = -1
    return {"value": s.array(s.dtype(), shape), "size_splits": sizes, "axis": np.int32(axis - (len(shape) if s.chance(0.3) else 0))}, {"num_split": n}


def tile(s):
    x = s.array(s.dtype(), s.shape(0, 4) if s.chance(0.5) else s.shape(1, 3))
    times = s.array(s.one(I), (x.ndim + s.chance(0.03),), -1 if s.chance(0.03) else 0 if s.chance(0.3) else 1, 3 if x.ndim < 5 else 2)
    if x.ndim and x.size < 50 and s.chance(0.1):
        times[s.int(0, x.ndim - 1)] = s.int(7, 40)
    return {"input": x, "multiples": times}, {}


def pad(s):
    """Some axes stay as they are, which kernels fold; some grow much."""
    x = s.array(s.dtype(), many(s) if s.chance(0.3) else s.shape())
    p = s.array(s.one(I), (x.ndim + s.chance(0.03), 2), -1 if s.chance(0.04) else 0, 2 if x.ndim < 5 else 1)
    p[s.r.random(len(p)) < s.one([0, 0, 0.5, 0.8])] = 0
    if x.ndim and x.ndim < 4 and s.chance(0.1):
        p[s.int(0, x.ndim - 1)] = s.int(5, 30)
    given = {"input": x, "paddings": p}
    if s.op == "PadV2":
        given["constant_values"] = s.array(x.dtype.name if x.dtype != object else "string", ())
    return given, {}


def mirror_pad(s):
    x, mode = s.array(s.dtype(), s.shape(0, 5)), s.one(["REFLECT", "SYMMETRIC"])
    most = [max(n - (mode == "REFLECT"), 0) for n in x.shape]
    p = np.array([[s.int(0, m), s.int(0, m)] for m in most]).reshape(x.ndim, 2)
    return {"input": x, "paddings": (p + s.chance(0.05)).astype(s.one(I))}, {"mode": mode}


def mirror_pad_grad(s):
    mode, rank = s.one(["REFLECT", "SYMMETRIC"]), s.int(0, 5)
    inner = [s.int(1, 4 if s.chance(0.9) else 12) for _ in range(rank)]
    p = np.array([[s.int(0, n - (mode == "REFLECT")), s.int(0, n - (mode == "REFLECT"))] for n in inner]).reshape(rank, 2)
    x = s.array(s.dtype(), [n + int(q.sum()) for n, q in zip(inner, p)])
    return {"input": x, "paddings": p.astype(s.one(I))}, {"mode": mode}


def select(s):
    d, shape = s.dtype(), s.shape()
    if s.op == "SelectV2":
        given = [s.alike(shape), shape if s.chance(0.5) else s.alike(shape), s.alike(shape)]
        return {"condition": s.array("bool", given[0]), "t": s.array(d, given[1]), "e": s.array(d, given[2])}, {}
    of = s.one([shape, shape, shape[:1], ()])
    return {"condition": s.array("bool", of), "x": s.array(d, shape), "y": s.array(d, shape if s.chance(0.97) else s.shape())}, {}


def one_hot(s):
    d, rank = s.dtype(), s.int(0, 3)
    return {"indices": s.array(s.one(I + ["uint8", "int8"]), tuple(s.int(0, 3 if s.chance(0.9) else 20) for _ in range(rank)), -1, 5), "depth": np.int32(s.int(-1 if s.chance(0.05) else 0, 5 if s.chance(0.8) else 40)),
            "on_value": s.array(d, ()), "off_value": s.array(d, () if s.chance(0.97) else (1,))}, {"axis": s.int(-1, rank + s.chance(0.03))}


def reverse(s):
    x = s.array(s.dtype(), s.shape())
    if s.op == "ReverseV2":
        return {"tensor": x, "axis": axes_of(s, x.ndim).reshape(-1)}, {}
    return {"tensor": x, "dims": s.array("bool", (x.ndim,))}, {}


def reverse_sequence(s):
    x = s.array(s.dtype(), s.shape(2, 5))
    batch, seq = (int(a) for a in s.r.permutation(x.ndim)[:2])
    if s.chance(0.03):
        seq = s.one([batch, x.ndim])
    return {"input": x, "seq_lengths": s.array(s.one(I), (x.shape[batch] + s.chance(0.02),), -1 if s.chance(0.05) else 0, x.shape[min(seq, x.ndim - 1)] + s.chance(0.05))}, {"seq_dim": seq, "batch_dim": batch}


def roll(s):
    x = s.array(s.dtype(), s.shape(0 if s.chance(0.05) else 1, 4))
    if s.chance(0.3):
        return {"input": x, "shift": np.array(s.int(-9, 9), s.one(I)), "axis": np.array(axis_of(s, x.ndim), s.one(I))}, {}
    n = s.int(0, 5)
    return {"input": x, "shift": s.array(s.one(I), (n,), -9, 9) if s.chance(0.8) else s.array(s.one(I), (n,), -2**30, 2**30), "axis": np.array([axis_of(s, x.ndim) for _ in range(n)], s.one(I))}, {}


def fill(s):
    return {"dims": np.array(s.shape(0, 6) if s.chance(0.95) else (2, -1), s.one(I)), "value": s.array(s.dtype(), () if s.chance(0.97) else (1,))}, {}


def range_(s):
    d = s.dtype("Tidx")
    if d in I:
        step, most = s.one([1, 2, -1, -3, 0 if s.chance(0.2) else 1]), s.one([9, 9, 9, 300])
        if s.chance(0.1):   # from one end of the type towards the other
            low, high = int(np.iinfo(d).min), int(np.iinfo(d).max)
            start, limit, step = s.one([(low, high, high // 3), (high, low, low // 3), (high - 7, high, 3), (low + 5, low, -2), (low, low + 9, 4)])
            return {"start": np.array(start, d), "limit": np.array(limit, d), "delta": np.array(step, d)}, {}
        return {"start": s.array(d, (), -most, most), "limit": s.array(d, (), -most, most), "delta": np.array(step, d)}, {}
    start, limit = s.ties(d, (), -4, 4), s.ties(d, (), -4, 4)
    step = s.one([0.5, 0.5, 1, 0.1, 0.3, 0.01, 7, 0])
    return {"start": start, "limit": limit, "delta": np.asarray(step if limit > start or s.chance(0.1) else -step).astype(start.dtype)}, {}


def lin_space(s):
    d = s.dtype()
    return {"start": s.wild(d, (), p=0.1), "stop": s.wild(d, (), p=0.1), "num": np.array(s.int(0 if s.chance(0.1) else 1, 9 if s.chance(0.8) else 300), s.one(I))}, {}


def broadcast_to(s):
    shape = s.shape(0, 6) if s.chance(0.8) else many(s)
    cut = s.int(0, len(shape))
    return {"input": s.array(s.dtype(), tuple(1 if s.chance(0.4) else n + s.chance(0.02) for n in shape[cut:])), "shape": np.array(shape, s.one(I))}, {}


def broadcast_args(s):
    shape, d = s.shape(0, 8), s.dtype()
    pair = [s.alike(shape) if s.chance(0.3) else shape, s.alike(shape)]
    return dict(zip(("s0", "s1"), [np.array(p, d) for p in (pair if s.chance(0.5) else pair[::-1])])), {}


def expand(s):
    x = s.array(s.dtype(), s.shape())
    return {"input": x, "axis": np.array(axis_of(s, x.ndim + 1), s.one(I)) if s.chance(0.8) else np.array([axis_of(s, x.ndim + 1)], s.one(I))}, {}


def squeeze(s):
    x = s.array(s.dtype(), tuple(1 if s.chance(0.6) else s.int(0, 3) for _ in range(s.int(0, 8))))
    ones = [i - (x.ndim if s.chance(0.3) else 0) for i, n in enumerate(x.shape) if (n == 1 or s.chance(0.03)) and s.chance(0.6)]
    return {"input": x}, {"axis": ones}


def depth_space(s):
    block, form = s.int(2, 4), s.one(["NHWC"] * 7 + ["NCHW"])
    n, h, w, c = s.int(0 if s.chance(0.03) else 1, 2), s.int(1, 3), s.int(0 if s.chance(0.03) else 1, 3), s.int(1, 3 if s.chance(0.8) else 20)
    if s.op == "DepthToSpace":
        c = c * block * block + s.chance(0.03)
    else:
        h, w = h * block, w * block + s.chance(0.03)
    return {"input": s.array(s.dtype(), (n, h, w, c) if form == "NHWC" else (n, c, h, w))}, {"block_size": block, "data_format": form}


def space_batch(s):
    """SpaceToBatch and its inverse, with one block size for height and width or a block shape."""
    nd, back = s.op.endswith("ND"), s.op.startswith("Batch")
    m = s.int(1, 3) if nd else 2
    block = [s.int(1, 3) for _ in range(m)] if nd else [s.int(2, 3)] * m
    edge = np.array([[s.int(0, 2), 0] for _ in range(m)])
    space = []
    for i in range(m):
        outer = block[i] * s.int(1, 3)
        if back:
            space.append(outer // block[i])
            edge[i] = [s.int(0, 1), s.int(0, 1)] if outer > 2 else [0, 0]
        else:
            space.append(max(outer - int(edge[i, 0]), 0) + s.chance(0.03))
            edge[i, 1] = (-(space[i] + int(edge[i, 0]))) % block[i] if s.chance(0.95) else 1
    batch = s.int(1, 2) * (int(np.prod(block)) if back else 1) + s.chance(0.03)
    rest = [s.int(1, 3 if s.chance(0.8) else 20) for _ in range(1 if not nd else s.int(0, 2))]
    x = s.array(s.dtype(), [batch if s.chance(0.97) else 0] + space + rest)
    given = {"input": x, "crops" if back else "paddings": edge.astype(s.one(I))}
    if not nd:
        return given, {"block_size": block[0]}
    return {**given, "block_shape": np.array(block, s.one(I))}, {}


def whole(s, x):
    """Equal numbers, mostly, among floats too."""
    return np.rint(x) if x.dtype.kind in "fV" and s.chance(0.7) else x


def unique(s):
    """Along an axis, with V2; in the order of their first coming."""
    d, attrs = s.dtype(), {"out_idx": s.one(I)}
    span, p = s.one([(-2, 2), (-2, 2), (0, 300)]), s.one([0, 0.3])
    if not s.op.endswith("V2"):
        return {"x": whole(s, s.wild(d, (s.int(0, 9 if s.chance(0.7) else 300),) if s.chance(0.97) else (2, 2), *span, p))}, attrs
    x = whole(s, s.wild(d, s.shape(1, 4), *(span if s.chance(0.3) else (-1, 1)), p))
    return {"x": x, "axis": np.array([axis_of(s, x.ndim)] if x.ndim > 1 or s.chance(0.5) else [0] * (s.chance(0.02) * 2), s.one(I))}, attrs


def list_diff(s):
    d = s.dtype()
    n, m = (s.int(0, 9), s.int(0, 4)) if s.chance(0.8) else (s.int(10, 200), s.int(5, 60))
    x, y = (whole(s, s.wild(d, (k,) if s.chance(0.98) else (1, k), -3 * k // 8 - 1, 3 * k // 8 + 1, 0.2)) for k in (n, m))
    return {"x": x, "y": y}, {"out_idx": s.one(I)}


def where(s):
    x = s.wild(s.dtype(), s.shape(0, 5) if s.chance(0.8) else many(s), -1, 1)
    return {"condition": whole(s, x)}, {}


def invert_permutation(s):
    n = s.int(0, 7 if s.chance(0.8) else 300)
    p = s.r.permutation(n)
    if n and s.chance(0.1):
        p[0] = s.one([n, -1, p[-1]])
    return {"x": p.astype(s.dtype())}, {}


def ensure_shape(s):
    x = s.array(s.dtype(), s.shape())
    return {"input": x}, {"shape": [None if s.chance(0.3) else n + s.chance(0.03) for n in x.shape] if s.chance(0.9) else None}


def shape_n(s):
    d = s.dtype()
    return {"input": [s.array(d, s.shape()) for _ in range(s.int(1, 3))]}, {"out_type": s.one(I)}


def one_tensor(name="input", **attrs):
    return lambda s: ({name: s.wild(s.dtype(), s.shape())}, {k: s.one(v) for k, v in attrs.items()})


def identity_n(s):
    return {"input": [s.array(s.one(ANY), s.shape()) for _ in range(s.int(1, 3))]}, {}


def empty(s):
    """What a new tensor holds is not said, unless init asks for zeros."""
    init = s.chance(0.7)
    return {"shape": s.array("int32", (s.int(0, 4),), 0, 4)}, {"dtype": s.dtype("dtype"), "init": init}, {} if init else {"shape_only": ["y0"]}


def constant(s):
    import tensorflow as tf
    x = s.wild(s.one(ANY), s.shape())
    return {}, {"value": tf.make_tensor_proto(x), "dtype": tf.as_dtype(x.dtype if x.dtype != object else "string")}


def with_default(s):
    x = s.array(s.one(ANY), s.shape())
    return {"input": x}, {"shape": list(x.shape) if s.chance(0.5) else None}


def dynamic_partition(s):
    x, n = s.array(s.dtype(), s.shape()), s.int(1, 4 if s.chance(0.8) else 20)
    return {"data": x, "partitions": s.array("int32", x.shape[:s.int(0, x.ndim)], -1 if s.chance(0.03) else 0, n - 1 + s.chance(0.03))}, {"num_partitions": n}


def dynamic_stitch(s):
    """An index twice is legal: the last one holds."""
    d, tail, n = s.dtype(), s.shape(0, 3), s.int(1, 3 if s.chance(0.8) else 12)
    shapes = [s.shape(0, 2) if s.chance(0.9) else (0,) for _ in range(n)]
    total = sum(int(np.prod(x)) for x in shapes)
    order, at, indices = s.r.permutation(total), 0, []
    if total > 1 and s.chance(0.3) and s.op == "DynamicStitch":
        order = np.minimum(order, np.max(order[total // 2:]))
    for shape in shapes:
        k = int(np.prod(shape))
        indices.append(order[at:at + k].reshape(shape).astype(np.int32) - (s.chance(0.02)))
        at += k
    return {"indices": indices, "data": [s.array(d, shape + tail + ((1,) if s.chance(0.01) else ())) for shape in shapes]}, {}


def data_format(s):
    a, b = s.one([("NHWC", "NCHW"), ("NCHW", "NHWC"), ("NDHWC", "NCDHW"), ("NCDHW", "NDHWC"), ("HWNC", "NHWC"), ("NHWC", "NHWC")])
    attrs, n = {"src_format": a, "dst_format": b if s.chance(0.96) else "NHWWC"}, len(a)
    if s.op == "DataFormatDimMap":
        return {"x": np.asarray(s.r.integers(-n, n, s.shape())).astype(s.one(I))}, attrs
    size = s.one([n, n, n - 2]) if s.chance(0.96) else 7
    return {"x": s.array(s.one(I), s.one([(size,), (size, 2)]))}, attrs


DRAWS = {
    "DataFormatDimMap": data_format, "DataFormatVecPermute": data_format,
    "Reshape": reshape, "Transpose": transpose, "ConjugateTranspose": transpose, "ConcatV2": concat, "Concat": concat, "ConcatOffset": concat_offset, "Pack": pack, "Unpack": unpack,
    "ParallelConcat": parallel_concat, "Split": split, "SplitV": split_v, "Tile": tile, "Pad": pad, "PadV2": pad, "MirrorPad": mirror_pad, "MirrorPadGrad": mirror_pad_grad,
    "Select": select, "SelectV2": select, "OneHot": one_hot, "ReverseV2": reverse, "Reverse": reverse, "ReverseSequence": reverse_sequence, "Roll": roll, "Fill": fill,
    "Range": range_, "LinSpace": lin_space, "BroadcastTo": broadcast_to, "BroadcastArgs": broadcast_args, "BroadcastGradientArgs": broadcast_args, "ExpandDims": expand, "Squeeze": squeeze,
    "DepthToSpace": depth_space, "SpaceToDepth": depth_space, **{op: space_batch for op in "SpaceToBatch SpaceToBatchND BatchToSpace BatchToSpaceND".split()},
    **{op: unique for op in "Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2".split()}, "ListDiff": list_diff, "Where": where, "InvertPermutation": invert_permutation,
    "EnsureShape": ensure_shape, "Shape": one_tensor(out_type=I), "Size": one_tensor(out_type=I), "Rank": one_tensor(), "ShapeN": shape_n, "IdentityN": identity_n,
    **{op: one_tensor() for op in "Identity Snapshot StopGradient PreventGradient GuaranteeConst DebugGradientIdentity".split()},
    **{op: one_tensor("x") for op in "ZerosLike OnesLike DeepCopy".split()}, "Copy": one_tensor(), "CopyHost": one_tensor(), "Empty": empty,
    "Const": constant, "PlaceholderWithDefault": with_default,
    "DynamicPartition": dynamic_partition, "DynamicStitch": dynamic_stitch, "ParallelDynamicStitch": dynamic_stitch,
}
EXEMPT = {
    "ImmutableConst": "reads a region of memory that a file of the model's own does not name",
    "HostConst": "TensorFlow's own: a Const that its optimizer has moved; no program names it",
    "Placeholder": "the argument of every draw", "PlaceholderV2": "gone from TensorFlow since version 23 of GraphDef; an argument",
    "FakeParam": "the output of a branch that is not taken: its value may not be read", "_Arg": "TensorFlow's own: the argument of a function, in every program of draws_control.py",
}
KNOWN = {"SplitV": (lambda inputs, attrs: attrs["num_split"] == 1 and inputs["size_splits"][0] == -1, "TensorFlow refuses -1 as the only size")}
