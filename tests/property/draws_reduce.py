"""Draws of ops that fold an axis or look along it: reductions, scans, arg, sorting, searching, counting, segments and sparse segments."""
import numpy as np
from ml_dtypes import finfo

from draw_source import ANY, C, FLOATS, H, I, NUMBERS, axes_of, axis_of, edges_of, program

EXACT = {"float16": (2e-2, 2e-2), "bfloat16": (6e-2, 6e-2)}   # long sums in half precision depend on their order


def loose(d):
    return {"rtol": EXACT[d][0], "atol": EXACT[d][1]} if d in EXACT else {}


def reduction(lo=-2, hi=2, name="input", axis="axis", wild=0.2, among=ANY):
    def draw(s):
        d = s.dtype(among=among)
        x = s.wild(d, s.shape() if s.chance(0.85) else s.shape(5, 8), lo, hi, 0 if d in C else wild)
        # squares of halves stand still once their sum is 2^12 times theirs: how many parts TensorFlow adds up apart is its own
        options = {"rtol": 0.15, "atol": 0.05} if s.op == "EuclideanNorm" and d == "float16" else loose(d)
        return {name: x, axis: axes_of(s, x.ndim)}, {"keep_dims": s.chance(0.5)}, options
    return draw


def logical(s):
    x = s.array("bool", s.shape() if s.chance(0.85) else s.shape(5, 8)) ^ s.one([np.False_, np.True_])
    x = x & s.array("bool", x.shape) & s.array("bool", x.shape) if s.chance(0.5) else x | s.array("bool", x.shape) | s.array("bool", x.shape)
    return {"input": x, "axis": axes_of(s, x.ndim)}, {"keep_dims": s.chance(0.5)}


def rows(s, least, most=4):
    """A shape; at times of long rows, which kernels divide among threads."""
    return (s.int(1, 2), s.int(1000, 2500)) if s.chance(0.12) else s.shape(least, most)


def arg(s):
    """NaN is never greater than anything: no draw holds one, where a vector's answer depends on the lane."""
    d = s.dtype()
    x = s.ties(d, rows(s, 0 if s.chance(0.1) else 1, 4 if s.chance(0.9) else 7))
    if x.size and d not in ("bool",) and s.chance(0.3):
        x = np.where(s.r.random(x.shape) < 0.3, s.one([e for e in edges_of(d) if e == e]), x).astype(x.dtype)
    return {"input": x, "dimension": np.array(axis_of(s, x.ndim), s.one(I))}, {"output_type": s.one(I + (["int16", "uint16"] if s.op == "ArgMax" else []))}


def scan(s):
    d = s.dtype()
    shape = s.shape(0 if s.chance(0.1) else 1, 4 if s.chance(0.9) else 7)
    long = max(shape, default=0) > 30
    x = s.wild(d, shape, *(s.one([(1, 3), (-9, 9)]) if s.op != "Cumprod" or not long else (-1, 1)), 0 if d in C else s.one([0, 0, 0.2]))
    return {"x": x, "axis": np.array(axis_of(s, x.ndim), s.one(I))}, {"exclusive": s.chance(0.5), "reverse": s.chance(0.5)}, loose(d)


def top_k(s):
    """Equal values keep their order. What is not sorted is compared by its sum."""
    d = s.dtype()
    x = s.ties(d, rows(s, 0 if s.chance(0.05) else 1))
    if x.size and s.chance(0.2):
        x = np.where(s.r.random(x.shape) < 0.3, s.one([e for e in edges_of(d) if e == e]), x).astype(x.dtype)
    k = s.int(-1 if s.chance(0.05) else 0, (x.shape[-1] if x.ndim else 1) + s.chance(0.05))
    given, index = {"input": x, "k": np.array(k, s.one(I + ["int16"]))}, s.one(["int32", "int64", "int16"])
    if s.chance(0.8):
        return given, {"sorted": True, "index_type": index}

    def unsorted(raw, input, k):
        y, i = raw.TopKV2(input=input, k=k, sorted=False, index_type=index)
        return [raw.TopKV2(input=y, k=k, sorted=True)[0], raw.Shape(input=i)]
    return given, program(unsorted)


def approx_top_k(s):
    """The last axis and the greatest, which is what TensorFlow has a kernel for; other axes: tests/unseen."""
    d = s.one(["float32"] + H)
    x = s.ties(d, rows(s, 0 if s.chance(0.05) else 1))
    k = s.int(0, (x.shape[-1] if x.ndim else 1) + s.chance(0.05))
    return {"input": x}, {"k": k, "recall_target": s.one([0.5, 0.95, 1.0]) if s.chance(0.95) else s.one([0.0, 1.5]), "aggregate_to_topk": s.chance(0.8)}


def in_top_k(s):
    n, classes = s.int(0, 5), s.int(1, 6 if s.chance(0.8) else 60)
    targets = s.array(s.one(I), (n,), -1 if s.chance(0.2) else 0, classes - 1 + s.chance(0.2))
    k, p = s.int(0, classes + 1), s.wild("float32", (n, classes), p=0.2)
    p = np.rint(p) if s.chance(0.3) else p   # ties
    return ({"predictions": p, "targets": targets}, {"k": k}) if s.op == "InTopK" else ({"predictions": p, "targets": targets, "k": np.array(k, targets.dtype)}, {})


def nth(s):
    x = s.ties(s.dtype(), rows(s, 1))
    return {"input": x, "n": np.int32(s.int(-1 if s.chance(0.1) else 0, max(x.shape[-1] - 1, 0) + s.chance(0.1)))}, {"reverse": s.chance(0.5)}


def bound(s):
    rows, n, m, d = s.int(0, 3), s.int(0, 6 if s.chance(0.8) else 200), s.int(0, 5 if s.chance(0.8) else 40), s.dtype()
    return {"sorted_inputs": np.sort(s.ties(d, (rows, n)), -1), "values": s.ties(d, (rows + s.chance(0.03), m), -5, 5)}, {"out_type": s.one(I)}


def bucketize(s):
    return {"input": s.wild(s.dtype(), s.shape())}, {"boundaries": sorted((np.rint if s.chance(0.4) else np.asarray)(s.r.uniform(-4, 4, s.int(0, 5 if s.chance(0.8) else 40))).tolist()) if s.chance(0.95) else [3.0, 1.0]}


def boosted(s):
    n, rows = s.int(1, 3), s.int(0, 9)
    return {"float_values": [s.ties("float32", (rows,)) for _ in range(n)], "bucket_boundaries": [np.sort(s.ties("float32", (s.int(1, 9),))) for _ in range(n)]}, {}


def histogram(s):
    d = s.dtype()
    low, high = (s.int(-4, 0), s.int(1, 5)) if s.chance(0.95) else (2, 1)
    return {"values": s.wild(d, s.shape(), -6, 6, 0 if d in FLOATS else 0.2), "value_range": np.array([max(low, 0) if d.startswith("u") else low, high], d), "nbins": np.int32(s.int(0 if s.chance(0.05) else 1, 9))}, {"dtype": s.one(I)}


def weights(s, d, shape):
    """As many weights as values, or none."""
    return s.array(d, shape if s.chance(0.6) else (0,))


def bincount(s):
    shape, d = s.shape(0, 4), s.dtype()
    arr = s.array("int32", shape, -1 if s.chance(0.1) else 0, 9)
    return {"arr": arr, "size": np.int32(s.int(-1 if s.chance(0.05) else 0, 8)), "weights": weights(s, d, shape)}, {}


def dense_bincount(s):
    i, d, shape = s.dtype("Tidx"), s.dtype(), s.shape(0 if s.chance(0.1) else 1, 2 + s.chance(0.05))
    x = s.array(i, shape, -1 if s.chance(0.1) else 0, 7)
    return {"input": x, "size": np.array(s.int(-1 if s.chance(0.05) else 0, 8), i), "weights": weights(s, d, shape)}, {"binary_output": s.chance(0.5)}


def sparse_bincount(s):
    i, d, n = s.dtype("Tidx"), s.dtype(), s.int(0, 6)
    shape = [s.int(1, 4), 5] if s.chance(0.7) else [9]
    at = np.stack([s.r.integers(0, m + s.chance(0.03), n) for m in shape], 1) if n else np.zeros((0, len(shape)), np.int64)
    at = at[np.lexsort(at.T[::-1])]
    return {"indices": at.astype(np.int64), "values": s.array(i, (n,), -1 if s.chance(0.1) else 0, 7), "dense_shape": np.array(shape, np.int64), "size": np.array(s.int(0, 8), i),
            "weights": weights(s, d, (n,))}, {"binary_output": s.chance(0.5)}


def ragged_bincount(s):
    i, d, lengths = s.dtype("Tidx"), s.dtype(), s.r.integers(0, 4, s.int(1, 4))
    n = int(lengths.sum())
    splits = np.concatenate([[0], np.cumsum(lengths)]) + (s.one([0] * 20 + [1]))
    return {"splits": splits.astype(np.int64), "values": s.array(i, (n,), -1 if s.chance(0.1) else 0, 7), "size": np.array(s.int(0, 8), i),
            "weights": weights(s, d, (n,))}, {"binary_output": s.chance(0.5)}


def segment(s):
    d = s.dtype()
    x = s.wild(d, s.shape(0 if s.chance(0.03) else 1, 4), -2, 3, 0 if d in C else s.one([0, 0, 0.2]))
    ids = np.sort(s.array(s.dtype("Tindices"), (x.shape[0] if x.ndim else 1,), -1 if s.chance(0.05) else s.int(0, 3), 6 if s.chance(0.8) else 40))
    if s.chance(0.05):
        ids = ids[::-1].copy()
    if s.chance(0.03):
        ids = ids[:-1] if s.chance(0.5) else ids.reshape(1, -1)
    return {"data": x, "segment_ids": ids}, {}, loose(d)


def unsorted(s):
    d = s.dtype()
    x = s.wild(d, s.shape(0 if s.chance(0.03) else 1, 4), -2, 3, 0 if d in C else s.one([0, 0, 0.2]))
    n = s.one([5, 5, 5, 40, 1])
    ids = s.array(s.dtype("Tindices"), x.shape[:s.int(0, x.ndim)], -1 if s.chance(0.5) else -3, n - 1 + s.chance(0.05))
    return {"data": x, "segment_ids": ids, "num_segments": np.array(s.int(-1, 3) if s.chance(0.05) else n, s.dtype("Tnumsegments"))}, {}, loose(d)


def sparse_segment(s):
    d, n = s.dtype(), s.int(0, 6 if s.chance(0.8) else 70)
    x = s.wild(d, (s.int(0 if s.chance(0.05) else 1, 5 if s.chance(0.8) else 40),) + s.shape(0, 3), p=s.one([0, 0, 0.2]))
    given = {"data": x, "indices": s.array(s.dtype("Tidx"), (n,), -1 if s.chance(0.03) else 0, max(x.shape[0] - 1 + s.chance(0.03), 0)),
             "segment_ids": np.sort(s.array(s.dtype("Tsegmentids"), (n,), -1 if s.chance(0.03) else s.int(0, 2), 4 if s.chance(0.8) else 30))}
    if s.chance(0.04):
        given["segment_ids"] = given["segment_ids"][::-1].copy()
    if s.op.endswith("NumSegments"):
        given["num_segments"] = np.array(s.int(-1, 4) if s.chance(0.1) else s.one([5, 31]), s.dtype("Tnumsegments"))
    return given, {"sparse_gradient": s.chance(0.5)}, loose(d)


def sparse_segment_grad(s):
    """Gradients of as many rows as there are segments, spread over the rows of the data."""
    d, n, rows = s.dtype(), s.int(0, 6 if s.chance(0.8) else 70), s.int(1, 4 if s.chance(0.8) else 20)
    ids = np.sort(s.array(s.dtype("Tsegmentids"), (n,), 0, rows - 1 + s.chance(0.03)))
    v2 = s.op.endswith("V2")
    dense = s.int(1, 6 if s.chance(0.8) else 40)
    given = {"grad": s.array(d, (rows,) + s.shape(0, 3)), "indices": s.array(s.dtype("Tidx"), (n,), 0, dense - 1 + s.chance(0.03)), "segment_ids": ids,
             "dense_output_dim0" if v2 else "output_dim0": np.int32(dense)}
    return given, {}, loose(d)


DRAWS = {
    "Sum": reduction(among=NUMBERS), "Prod": reduction(among=NUMBERS), "Mean": reduction(), "Max": reduction(-9, 9, wild=0), "Min": reduction(-9, 9, wild=0), "EuclideanNorm": reduction(),
    "All": logical, "Any": logical, "ArgMax": arg, "ArgMin": arg, "Cumsum": scan, "Cumprod": scan, "CumulativeLogsumexp": scan,
    "TopKV2": top_k, "ApproxTopK": approx_top_k, "InTopK": in_top_k, "InTopKV2": in_top_k, "NthElement": nth, "LowerBound": bound, "UpperBound": bound,
    "Bucketize": bucketize, "BoostedTreesBucketize": boosted, "HistogramFixedWidth": histogram,
    "Bincount": bincount, "DenseBincount": dense_bincount, "SparseBincount": sparse_bincount, "RaggedBincount": ragged_bincount,
    **{op: segment for op in "SegmentSum SegmentMax SegmentMin SegmentProd SegmentMean".split()},
    **{op: unsorted for op in "UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd".split()},
    **{op: sparse_segment for op in "SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN SparseSegmentSumWithNumSegments SparseSegmentMeanWithNumSegments "
       "SparseSegmentSqrtNWithNumSegments".split()},
    **{op: sparse_segment_grad for op in "SparseSegmentSumGrad SparseSegmentMeanGrad SparseSegmentSqrtNGrad SparseSegmentSumGradV2 SparseSegmentMeanGradV2 "
       "SparseSegmentSqrtNGradV2".split()},
}


def order_decides(inputs, attrs):
    """A product over it may overflow in one order and be a zero's in another."""
    x = inputs["input"]
    if x.dtype.kind == "c":
        return x.size > 100
    if x.dtype.name not in FLOATS or not x.size:
        return False
    a, kind = np.abs(x[np.isfinite(x)].astype("float64")), finfo(x.dtype)
    return bool((a < float(kind.tiny)).any() and np.log(a[a > 1]).sum() > np.log(float(kind.max)))


EXEMPT = {"TopK": "TensorFlow 2.21 cannot run it: its kernels ask for an attribute that only TopKV2 has (ours is TopKV2's kernel)"}
KNOWN = {**{op: (lambda inputs, attrs: inputs["indices"].size == 0, "without indices TensorFlow leaves its output uninitialised")
         for op in "SparseSegmentSumGrad SparseSegmentMeanGrad SparseSegmentSqrtNGrad".split()},
         "Prod": (order_decides, "the order of multiplications decides whether a product that overflows is inf, NaN or 0")}
