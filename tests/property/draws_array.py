"""Draws of ops that give tensors a shape or move them as a whole: identity, fill, reshape, transpose, concat, split, pad, tile, blocks, select, unique."""
import numpy as np

from draw_source import ANY, C, F, I, NUMBERS, S, axes_of, axis_of, same


def reshape(s):
    x = s.array(s.dtype(), s.shape())
    dims = list(s.r.permutation(x.shape)) if x.ndim else [1]
    if dims and s.chance(0.4):
        dims[s.int(0, len(dims) - 1)] = -1
    if s.chance(0.05):
        dims = [d + 1 for d in dims]
    return {"tensor": x, "shape": np.array(dims, s.one(I))}, {}


def transpose(s):
    x = s.array(s.dtype(), s.shape())
    perm = s.r.permutation(x.ndim)
    if s.chance(0.05) and x.ndim:
        perm[0] = s.one([x.ndim, -1, perm[-1]])
    return {"x": x, "perm": np.array(perm, s.one(I))}, {}


def concat_parts(s):
    shape, d = list(s.shape(0 if s.chance(0.05) else 1, 4)), s.dtype()
    axis, n = axis_of(s, len(shape)), s.int(2, 4)

    def part():
        own = list(shape)
        if own:
            own[max(-len(own), min(axis, len(own) - 1))] = s.int(0, 3)
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
    shape, d = s.shape(0, 3), s.dtype()
    return {"values": [s.array(d, shape if s.chance(0.98) else s.shape(0, 2)) for _ in range(s.int(1, 4))]}, {"axis": s.int(-len(shape) - 1, len(shape))}


def parallel_concat(s):
    n, shape, d = s.int(1, 4), s.shape(0, 3), s.dtype()
    return {"values": [s.array(d, (1,) + shape) for _ in range(n)]}, {"shape": [n] + list(shape)}


def unpack(s):
    x = s.array(s.dtype(), tuple(s.int(1, 4) for _ in range(s.int(1, 4))))
    axis = s.int(-x.ndim, x.ndim - 1)
    return {"value": x}, {"num": x.shape[axis] + s.chance(0.03), "axis": axis}


def split(s):
    n, shape = s.int(1, 4), list(s.shape(1, 3))
    axis = s.int(0, len(shape) - 1)
    shape[axis] = n * s.int(0, 2) + s.chance(0.05)
    return {"axis": np.int32(axis - (len(shape) if s.chance(0.3) else 0) + (9 if s.chance(0.03) else 0)), "value": s.array(s.dtype(), shape)}, {"num_split": n}


def split_v(s):
    n, shape, d = s.int(1, 4), list(s.shape(1, 3)), s.one(I)
    axis, sizes = s.int(0, len(shape) - 1), s.array(d, (n,), 0, 3)
    shape[axis] = int(sizes.sum()) + s.chance(0.05)
    if s.chance(0.4):
        sizes[s.int(0, n - 1)] = -1
    return {"value": s.array(s.dtype(), shape), "size_splits": sizes, "axis": np.int32(axis - (len(shape) if s.chance(0.3) else 0))}, {"num_split": n}


def tile(s):
    x = s.array(s.dtype(), s.shape(0, 4) if s.chance(0.5) else s.shape(1, 3))
    return {"input": x, "multiples": s.array(s.one(I), (x.ndim + s.chance(0.03),), -1 if s.chance(0.03) else 0, 3)}, {}


def pad(s):
    x = s.array(s.dtype(), s.shape())
    given = {"input": x, "paddings": s.array(s.one(I), (x.ndim + s.chance(0.03), 2), -1 if s.chance(0.04) else 0, 2)}
    if s.op == "PadV2":
        given["constant_values"] = s.array(x.dtype.name if x.dtype != object else "string", ())
    return given, {}


def mirror_pad(s):
    x, mode = s.array(s.dtype(), s.shape(0, 3)), s.one(["REFLECT", "SYMMETRIC"])
    most = [max(n - (mode == "REFLECT"), 0) for n in x.shape]
    p = np.array([[s.int(0, m), s.int(0, m)] for m in most]).reshape(x.ndim, 2)
    return {"input": x, "paddings": (p + s.chance(0.05)).astype(s.one(I))}, {"mode": mode}


def mirror_pad_grad(s):
    mode, rank = s.one(["REFLECT", "SYMMETRIC"]), s.int(0, 4)
    inner = [s.int(1, 4) for _ in range(rank)]
    p = np.array([[s.int(0, n - (mode == "REFLECT")), s.int(0, n - (mode == "REFLECT"))] for n in inner]).reshape(rank, 2)
    x = s.array(s.dtype(), [n + int(q.sum()) for n, q in zip(inner, p)])
    return {"input": x, "paddings": p.astype(s.one(I))}, {"mode": mode}


def select(s):
    d, shape = s.dtype(), s.shape()
    if s.op == "SelectV2":
        return {"condition": s.array("bool", s.alike(shape)), "t": s.array(d, shape), "e": s.array(d, s.alike(shape))}, {}
    of = s.one([shape, shape, shape[:1], ()])
    return {"condition": s.array("bool", of), "x": s.array(d, shape), "y": s.array(d, shape if s.chance(0.97) else s.shape())}, {}


def one_hot(s):
    d, rank = s.dtype(), s.int(0, 3)
    return {"indices": s.array(s.one(I + ["uint8", "int8"]), tuple(s.int(0, 3) for _ in range(rank)), -1, 5), "depth": np.int32(s.int(-1 if s.chance(0.05) else 0, 5)),
            "on_value": s.array(d, ()), "off_value": s.array(d, ())}, {"axis": s.int(-1, rank)}


def reverse(s):
    x = s.array(s.dtype(), s.shape())
    if s.op == "ReverseV2":
        return {"tensor": x, "axis": axes_of(s, x.ndim).reshape(-1)}, {}
    return {"tensor": x, "dims": s.array("bool", (x.ndim,))}, {}


def reverse_sequence(s):
    x = s.array(s.dtype(), tuple(s.int(1, 4) for _ in range(s.int(2, 4))))
    batch, seq = (int(a) for a in s.r.permutation(x.ndim)[:2])
    return {"input": x, "seq_lengths": s.array(s.one(I), (x.shape[batch],), -1 if s.chance(0.05) else 0, x.shape[seq] + s.chance(0.05))}, {"seq_dim": seq, "batch_dim": batch}


def roll(s):
    x = s.array(s.dtype(), s.shape(0 if s.chance(0.05) else 1, 4))
    if s.chance(0.3):
        return {"input": x, "shift": np.array(s.int(-9, 9), s.one(I)), "axis": np.array(axis_of(s, x.ndim), s.one(I))}, {}
    n = s.int(0, 3)
    return {"input": x, "shift": s.array(s.one(I), (n,), -9, 9), "axis": np.array([axis_of(s, x.ndim) for _ in range(n)], s.one(I))}, {}


def fill(s):
    return {"dims": s.array(s.one(I), (s.int(0, 5),), -1 if s.chance(0.05) else 0, 4), "value": s.array(s.dtype(), () if s.chance(0.97) else (1,))}, {}


def range_(s):
    d = s.dtype("Tidx")
    if d in I:
        step = s.one([1, 2, -1, -3, 0 if s.chance(0.2) else 1])
        return {"start": s.array(d, (), -9, 9), "limit": s.array(d, (), -9, 9), "delta": np.array(step, d)}, {}
    start, limit = s.array(d, (), -4, 4), s.array(d, (), -4, 4)
    return {"start": start, "limit": limit, "delta": np.asarray((0.5 if limit > start or s.chance(0.1) else -0.5)).astype(start.dtype)}, {}


def lin_space(s):
    d = s.dtype()
    return {"start": s.array(d, ()), "stop": s.array(d, ()), "num": np.array(s.int(0 if s.chance(0.1) else 1, 9), s.one(I))}, {}


def broadcast_to(s):
    shape = s.shape(0, 6)
    cut = s.int(0, len(shape))
    return {"input": s.array(s.dtype(), tuple(1 if s.chance(0.4) else n + s.chance(0.02) for n in shape[cut:])), "shape": np.array(shape, s.one(I))}, {}


def broadcast_args(s):
    shape, d = s.shape(0, 5), s.dtype()
    return {"s0": np.array(shape, d), "s1": np.array(s.alike(shape), d)}, {}


def expand(s):
    x = s.array(s.dtype(), s.shape())
    return {"input": x, "axis": np.array(axis_of(s, x.ndim + 1), s.one(I)) if s.chance(0.8) else np.array([axis_of(s, x.ndim + 1)], s.one(I))}, {}


def squeeze(s):
    x = s.array(s.dtype(), tuple(1 if s.chance(0.6) else s.int(0, 3) for _ in range(s.int(0, 5))))
    ones = [i - (x.ndim if s.chance(0.3) else 0) for i, n in enumerate(x.shape) if (n == 1 or s.chance(0.03)) and s.chance(0.6)]
    return {"input": x}, {"axis": ones}


def depth_space(s):
    block, form = s.int(2, 3), s.one(["NHWC", "NHWC", "NCHW"])
    n, h, w, c = s.int(1, 2), s.int(1, 3), s.int(1, 3), s.int(1, 3)
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
    x = s.array(s.dtype(), [batch] + space + ([s.int(1, 3)] if not nd or s.chance(0.5) else []))
    given = {"input": x, "crops" if back else "paddings": edge.astype(s.one(I))}
    if not nd:
        return given, {"block_size": block[0]}
    return {**given, "block_shape": np.array(block, s.one(I))}, {}


def unique(s):
    """Along an axis, with V2; in the order of their first coming."""
    d, attrs = s.dtype(), {"out_idx": s.one(I)}
    if not s.op.endswith("V2"):
        return {"x": s.array(d, (s.int(0, 9),) if s.chance(0.97) else (2, 2), -2, 2)}, attrs
    x = s.array(d, s.shape(1, 3), -1, 1)
    return {"x": x, "axis": np.array([axis_of(s, x.ndim)] if x.ndim > 1 or s.chance(0.5) else [], s.one(I))}, attrs


def list_diff(s):
    d = s.dtype()
    return {"x": s.array(d, (s.int(0, 9),), -3, 3), "y": s.array(d, (s.int(0, 4),), -3, 3)}, {"out_idx": s.one(I)}


def where(s):
    return {"condition": s.wild(s.dtype(), s.shape(0, 5), -1, 1)}, {}


def invert_permutation(s):
    n = s.int(0, 7)
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
    x, n = s.array(s.dtype(), s.shape()), s.int(1, 4)
    return {"data": x, "partitions": s.array("int32", x.shape[:s.int(0, x.ndim)], -1 if s.chance(0.03) else 0, n - 1 + s.chance(0.03))}, {"num_partitions": n}


def dynamic_stitch(s):
    d, tail, n = s.dtype(), s.shape(0, 2), s.int(1, 3)
    shapes = [s.shape(0, 2) for _ in range(n)]
    total = sum(int(np.prod(x)) for x in shapes)
    order, at, indices = s.r.permutation(total), 0, []
    for shape in shapes:
        k = int(np.prod(shape))
        indices.append(order[at:at + k].reshape(shape).astype(np.int32) - (s.chance(0.02)))
        at += k
    return {"indices": indices, "data": [s.array(d, shape + tail + ((1,) if s.chance(0.01) else ())) for shape in shapes]}, {}


DRAWS = {
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
