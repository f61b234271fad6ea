"""Draws of the commonest ops."""
import numpy as np

from draw_source import ANY, C, F, H, I, axes_of


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


def axis_vector(name, other, dtypes):
    def draw(s):
        x = s.array(s.one(dtypes), s.shape())
        return {name: x, other: axes_of(s, x.ndim)}, {}
    return draw


def softmax_loss(s):
    n, k = s.int(1, 4), s.int(1, 5)
    return {"features": s.array("float32", (n, k)), "labels": s.array(s.one(I), (n,), 0, k - 1)}, {}


DRAWS = {
    **{op: reduction(F + I + C) for op in "Sum Prod".split()}, "Mean": reduction(F), "Max": reduction(F + I), "Min": reduction(F + I),
    "All": reduction(["bool"]), "Any": reduction(["bool"]), "ArgMax": arg, "ArgMin": arg, "Cumsum": scan, "Cumprod": scan,
    "Reshape": reshape, "Transpose": transpose, "ConcatV2": concat, "Pack": pack, "Split": split, "Slice": slice_, "StridedSlice": strided_slice,
    "GatherV2": gather, "GatherNd": gather_nd, "Tile": tile, "Pad": pad, "MirrorPad": mirror_pad, "SelectV2": select, "TopKV2": top_k, "OneHot": one_hot,
    "ReverseV2": axis_vector("tensor", "axis", F + I + ["bool", "string"]),
    "MatMul": matmul, "BatchMatMulV2": batch_matmul, "Conv2D": conv2d, "DepthwiseConv2dNative": depthwise, "MaxPool": pool("input"), "AvgPool": pool("value"),
    "ResizeBilinear": resize, "ResizeNearestNeighbor": resize, 
    **{op: segment for op in "SegmentSum SegmentMax SegmentMin SegmentProd".split()},
    **{op: unsorted_segment for op in "UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd".split()},
    "Softmax": lambda s: ({"logits": s.array(s.one(F), s.shape(1, 3))}, {}), "LogSoftmax": lambda s: ({"logits": s.array(s.one(F), s.shape(1, 3))}, {}),
    "SparseSoftmaxCrossEntropyWithLogits": softmax_loss,
    "Where": lambda s: ({"condition": s.array(s.one(F + I + ["bool"]), s.shape(1, 4), -1, 1)}, {}),
    "Unique": lambda s: ({"x": s.array(s.one(F[:1] + I + ["string"]), (s.int(0, 9),), -2, 2)}, {"out_idx": s.one(I)}),
}
