"""Draws of sparse tensors: arithmetic, reductions, layout, rows, crosses, counts, and what they make with dense tensors; sets too.

A sparse tensor is (indices, values, shape). Its indices are sorted and distinct mostly; at times they are out of order, out of range, or the shapes of the parts do not fit.
"""
import numpy as np

from draw_source import ANY, C, F, FLOATS, H, I, NUMBERS, REAL, S, program

WIDE = F + I + S + C


def coo(s, dtype, shape=None, rank=None, sort=None, lo=-4, hi=4, index="int64", bad=0.02):
    """(indices, values, shape)"""
    shape = shape if shape is not None else tuple(s.int(1, 4) for _ in range(rank if rank is not None else s.int(1, 3)))
    size = int(np.prod(shape))
    n = s.int(0, min(size, 6))
    flat = s.r.permutation(size)[:n] if size else np.zeros(0, int)
    flat = np.sort(flat) if s.chance(0.85) or sort else flat
    i = np.stack(np.unravel_index(flat, shape), -1).astype(index) if len(shape) and size else np.zeros((0, len(shape)), index)
    v = s.array(dtype, (len(i),), lo, hi)
    if s.chance(bad) and len(i):
        i[s.int(0, len(i) - 1), s.int(0, len(shape) - 1)] = s.one([-1, 9])
    elif s.chance(bad):
        v = s.array(dtype, (len(i) + 1,), lo, hi)
    return i, v, np.array(shape, index)


def named(prefix, parts, names=("indices", "values", "shape")):
    return {prefix + n: p for n, p in zip(names, parts)}


def add(s):
    d = s.one(F + I + S + C)
    a = coo(s, d)
    b = coo(s, d, tuple(a[2]) if s.chance(0.97) else None)
    t = s.array("float32" if d in ("complex64",) else "float64" if d == "complex128" else d, (), 0, 2)
    return {**named("a_", a), **named("b_", b), "thresh": t}, {}


def add_grad(s):
    d = s.one(NUMBERS)
    rank = s.int(1, 3)
    shape = tuple(s.int(1, 4) for _ in range(rank))
    a, b = coo(s, d, shape, bad=0), coo(s, d, shape, bad=0)
    both = np.array(sorted(set(map(tuple, a[0].tolist())) | set(map(tuple, b[0].tolist()))), "int64").reshape(-1, rank)
    return {"backprop_val_grad": s.array(d, (len(both),)), "a_indices": a[0], "b_indices": b[0], "sum_indices": both}, {}


def reduce(dtypes):
    def draw(s):
        a = coo(s, s.one(dtypes), sort=s.chance(0.8))
        rank = len(a[2])
        axes = s.r.permutation(rank)[:s.int(0, rank)].astype("int32") - (rank if s.chance(0.2) else 0)
        axes = axes + (5 if s.chance(0.02) else 0)
        return {**named("input_", a), "reduction_axes": axes if len(axes) != 1 or s.chance(0.5) else axes[0]}, {"keep_dims": s.chance(0.5)}
    return draw


def pairwise(s):
    d = s.one(REAL)
    a = coo(s, d, sort=s.chance(0.9))
    return {**named("a_", a), **named("b_", coo(s, d, tuple(a[2]) if s.chance(0.97) else None, sort=s.chance(0.9)))}, {}


def softmax(s):
    return named("sp_", coo(s, s.one(F + ["float16"]), rank=s.int(2, 3))), {}


def concat(s):
    d, rank, n = s.one(ANY), s.int(1, 3), s.int(2, 3)
    shape, axis = [s.int(1, 4) for _ in range(rank)], s.int(0, rank - 1)
    parts = []
    for _ in range(n):
        shape[axis] = s.int(1, 4)
        parts.append(coo(s, d, tuple(shape), bad=0.01))
    return {"indices": [p[0] for p in parts], "values": [p[1] for p in parts], "shapes": [p[2] for p in parts]}, {"concat_dim": axis - (rank if s.chance(0.3) else 0)}


def reorder(s):
    return named("input_", coo(s, s.one(ANY), sort=False)), {}


def reshape(s):
    i, _, shape = coo(s, "int32")
    new = list(s.r.permutation(shape))
    if s.chance(0.4):
        new[s.int(0, len(new) - 1)] = -1
    if s.chance(0.3):
        new = [-1] if s.chance(0.5) else new + [1]
    if s.chance(0.05):
        new = new + [2]
    return {"input_indices": i, "input_shape": shape, "new_shape": np.array(new, "int64")}, {}


def slice_(s):
    i, v, shape = coo(s, s.one(ANY))
    return {"indices": i, "values": v, "shape": shape, "start": np.array([s.int(0, k) for k in shape]), "size": np.array([s.int(0, 4) for _ in shape])}, {}


def slice_grad(s):
    d = s.one(NUMBERS)
    i, v, shape = coo(s, d, bad=0)
    start, size = np.array([s.int(0, k) for k in shape]), np.array([s.int(1, 4) for _ in shape])
    keep = np.all((i >= start) & (i < start + size), -1) if len(i) else np.zeros(0, bool)
    out = i[keep] - start
    return {"backprop_val_grad": s.array(d, (len(out),)), "input_indices": i, "input_start": start, "output_indices": out}, {}


def split(s):
    i, v, shape = coo(s, s.one(ANY), bad=0.01)
    axis = s.int(0, len(shape) - 1) if s.chance(0.97) else len(shape)
    return {"split_dim": np.int64(axis), "indices": i, "values": v, "shape": shape}, {"num_split": s.int(1, int(shape[min(axis, len(shape) - 1)]) + s.chance(0.05))}


def cwise(s):
    i, v, shape = coo(s, s.one(REAL), lo=-4, bad=0.01)
    d = v.dtype.name
    dense = s.array(d, s.alike(tuple(shape)), 1, 4)
    return {"sp_indices": i, "sp_values": v, "sp_shape": shape, "dense": dense}, {}


def dense_add(s):
    index = s.one(I)
    i, v, shape = coo(s, s.one(NUMBERS), index=index)
    return {"a_indices": i, "a_values": v, "a_shape": shape, "b": s.array(v.dtype.name, tuple(shape) if s.chance(0.96) else s.shape(1, 3))}, {}


def matmul(s):
    d, ta, tb = s.one(F + C + ["int32"]), s.chance(0.4), s.chance(0.4)
    m, k, n = s.int(1, 4), s.int(1, 4), s.int(0, 4)
    i, v, shape = coo(s, d, (k, m) if ta else (m, k))
    b = s.array(d, (n, k) if tb else (k if s.chance(0.97) else k + 1, n))
    return {"a_indices": i.astype(s.one(I)), "a_values": v, "a_shape": shape, "b": b}, {"adjoint_a": ta, "adjoint_b": tb}


def to_dense(s):
    d, index = s.one(ANY), s.one(I)
    i, v, shape = coo(s, d, index=index, sort=s.chance(0.97), bad=0.02)
    if s.chance(0.2):
        v = s.array(d, ())
    if len(shape) == 1 and s.chance(0.3):
        i = i[:, 0]
    return {"sparse_indices": i, "output_shape": shape, "sparse_values": v, "default_value": s.array(d, () if s.chance(0.98) else (1,))}, {"validate_indices": s.chance(0.8)}


def fill_rows(s):
    d = s.one(ANY)
    i, v, shape = coo(s, d, rank=s.int(1, 3), sort=s.chance(0.8), bad=0.03)
    if s.chance(0.1):
        shape[0] = 0
        i, v = i[:0], v[:0]
    return {"indices": i, "values": v, "dense_shape": shape, "default_value": s.array(d, () if s.chance(0.98) else (1,))}, {}


def fill_rows_grad(s):
    n, m = s.int(0, 4), s.int(0, 6)
    return {"reverse_index_map": s.array("int64", (n,), -1 if s.chance(0.03) else 0, max(m - 1, 0)), "grad_values": s.array(s.one(NUMBERS), (m,))}, {}


def counted(s, shape):
    """Values and weights of a count op."""
    v = s.array(s.one(I), shape, -1 if s.chance(0.03) else 0, 6)
    w = s.one(["int32", "int64", "float32", "float64"])
    return v, s.array(w, shape if s.chance(0.97) else s.shape(1, 1)) if s.chance(0.5) else s.array(w, (0,))


def limits(s):
    low = s.one([-1, -1, 0, 3])
    return {"minlength": low, "maxlength": s.one([-1, -1, 5, 8]) if s.chance(0.9) else 2, "binary_output": s.chance(0.3)}


def dense_count(s):
    v, w = counted(s, s.shape(1, 2))
    return {"values": v, "weights": w}, limits(s)


def sparse_count(s):
    i, _, shape = coo(s, "int32", rank=s.int(1, 2), bad=0.02)
    v, w = counted(s, (len(i),))
    return {"indices": i, "values": v, "dense_shape": shape, "weights": w}, limits(s)


def ragged_count(s):
    n = s.int(0, 6)
    v, w = counted(s, (n,))
    cuts = np.sort(s.array("int64", (s.int(0, 3),), 0, n))
    splits = np.concatenate([[0], cuts, [n + (1 if s.chance(0.03) else 0)]])
    return {"splits": splits, "values": v, "weights": w}, limits(s)


SETS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "string"]
OPERATIONS = ["a-b", "b-a", "intersection", "union"]


def set_side(s, d, lead, dense):
    if dense:
        return s.array(d, lead + (s.int(0, 4),), 0, 4)
    return coo(s, d, lead + (s.int(1, 4),), lo=0, bad=0.01)


def set_operation(dense_a, dense_b):
    def draw(s):
        d, lead = s.one(SETS), tuple(s.int(1, 3) for _ in range(s.int(1, 2)))
        inputs = {}
        for k, dense in (("1", dense_a), ("2", dense_b)):
            x = set_side(s, d, lead if s.chance(0.97) else lead + (2,), dense)
            inputs.update({"set" + k: x} if dense else named(f"set{k}_", x))
        return inputs, {"set_operation": s.one(OPERATIONS) if s.chance(0.98) else "xor", "validate_indices": s.chance(0.7)}
    return draw


def edit_distance(s):
    d, rank, few = s.one(ANY), s.int(2, 3), s.chance(0.8)
    lead = tuple(s.int(1, 3) for _ in range(rank - 1))
    side = lambda: coo(s, d, tuple(k + s.chance(0.1) for k in lead) + (s.int(1, 5),), lo=0, hi=2 if few else 4, sort=s.chance(0.9))
    hypothesis, truth = side(), side() if s.chance(0.97) else coo(s, d)
    if s.chance(0.1):
        truth = hypothesis
    return {**named("hypothesis_", hypothesis), **named("truth_", truth)}, {"normalize": s.chance(0.5)}


def set_size(s):
    return named("set_", coo(s, s.one(SETS), rank=s.int(2, 3), lo=0, sort=s.chance(0.95))), {"validate_indices": s.chance(0.7)}


def columns(s, numbers="int64"):
    """Sparse and dense columns of one batch, as crosses take them."""
    rows, sparse, dense = s.int(1, 3), [], []
    for _ in range(s.int(0, 2)):
        d = s.one(["string", numbers])
        sparse.append(coo(s, d, (rows, s.int(1, 3)), bad=0))
    for _ in range(s.int(0 if sparse else 1, 2)):
        dense.append(s.array(s.one(["string", numbers]), (rows, s.int(1, 3))))
    return {"indices": [x[0] for x in sparse], "values": [x[1] for x in sparse], "shapes": [x[2] for x in sparse], "dense_inputs": dense}


def kind(x):
    return "string" if x.dtype == object else x.dtype.name


def cross(s):
    inputs, hashed = columns(s), s.chance(0.5)
    if s.chance(0.5):   # the op knows two internal types: text and int64
        hashed = True
    return inputs, {"hashed_output": hashed, "num_buckets": s.one([0, 7, 1000]), "hash_key": s.int(0, 1 << 50), "out_type": "int64" if hashed else "string", "internal_type": s.one(["string", "int64"]) if hashed else "string"}


def cross2(s):
    return {**columns(s), "sep": np.array(s.one(["_X_", "", ","]), object)}, {}


def cross_hashed(s):
    return {**columns(s), "num_buckets": np.int64(s.one([0, 7, 1000])), "strong_hash": np.array(s.chance(0.5)), "salt": s.array("int64", (2,), 0, 1 << 40)}, {}


def ragged_cross(s):
    inputs, rows = columns(s), None
    rows = (list(inputs["shapes"]) + [np.array(x.shape) for x in inputs["dense_inputs"]])[0][0]
    values, splits, index = [], [], s.one(I)   # of row splits of another type than the result's TensorFlow dies
    for _ in range(s.int(0, 2)):
        cuts = np.cumsum([0] + [s.int(0, 2) for _ in range(int(rows))])
        values.append(s.array(s.one(["string", "int64"]), (int(cuts[-1]),)))
        splits.append(cuts.astype(index))
    hashed = s.chance(0.5)
    order = "".join(str(c) for c in s.r.permutation(list("R" * len(values) + "S" * len(inputs["values"]) + "D" * len(inputs["dense_inputs"]))))
    return {"ragged_values": values, "ragged_row_splits": splits, "sparse_indices": inputs["indices"], "sparse_values": inputs["values"], "sparse_shape": inputs["shapes"],
            "dense_inputs": inputs["dense_inputs"]}, {"input_order": order, "hashed_output": hashed, "num_buckets": s.one([0, 7, 1000]), "hash_key": s.int(0, 1 << 50),
                                                      "out_values_type": "int64" if hashed else "string", "out_row_splits_type": index}


def unchecked(inputs, attrs):
    """Sets by a negative index that nobody looks at."""
    return not attrs["validate_indices"] and any((v < 0).any() for n, v in inputs.items() if n.endswith("indices"))


def carried(s):
    """A sparse tensor through its serialized form: in one, in rows, in some of the rows."""
    d, many = s.one(NUMBERS + ["string", "bool"]), s.op in ("SerializeManySparse", "DeserializeManySparse")
    kind = "string" if s.op == "DeserializeManySparse" or s.chance(0.5) else "variant"
    parts, rows = coo(s, d, rank=s.int(2 - s.chance(0.05), 3) if many else None, sort=True), s.chance(0.3)

    def call(raw, i, v, n):
        whole = (raw.SerializeManySparse if many else raw.SerializeSparse)(sparse_indices=i, sparse_values=v, sparse_shape=n, out_type=kind)
        if many and rows:
            whole = raw.GatherV2(params=whole, indices=[0, 0], axis=0)
        back = raw.DeserializeManySparse if s_op == "DeserializeManySparse" else raw.DeserializeSparse
        return list(back(serialized_sparse=whole, dtype=v.dtype))
    s_op = s.op
    return named("", parts, ("i", "v", "n")), program(call)


DRAWS = {
    **{op: carried for op in "SerializeSparse SerializeManySparse DeserializeSparse DeserializeManySparse".split()},
    "SparseAdd": add, "SparseAddGrad": add_grad, "SparseReduceSum": reduce(NUMBERS), "SparseReduceSumSparse": reduce(NUMBERS), "SparseReduceMax": reduce(REAL),
    "SparseReduceMaxSparse": reduce(REAL), "SparseSparseMaximum": pairwise, "SparseSparseMinimum": pairwise, "SparseSoftmax": softmax, "SparseConcat": concat, "SparseReorder": reorder,
    "SparseReshape": reshape, "SparseSlice": slice_, "SparseSliceGrad": slice_grad, "SparseSplit": split, "SparseDenseCwiseAdd": cwise, "SparseDenseCwiseMul": cwise,
    "SparseDenseCwiseDiv": cwise, "SparseTensorDenseAdd": dense_add, "SparseTensorDenseMatMul": matmul, "SparseToDense": to_dense,
    "SparseFillEmptyRows": fill_rows, "SparseFillEmptyRowsGrad": fill_rows_grad, "DenseCountSparseOutput": dense_count, "SparseCountSparseOutput": sparse_count,
    "RaggedCountSparseOutput": ragged_count, "DenseToDenseSetOperation": set_operation(True, True), "DenseToSparseSetOperation": set_operation(True, False),
    "SparseToSparseSetOperation": set_operation(False, False), "SetSize": set_size, "EditDistance": edit_distance, "SparseCross": cross, "SparseCrossV2": cross2,
    "SparseCrossHashed": cross_hashed, "RaggedCross": ragged_cross,
}
UNCHECKED = (unchecked, "an index below 0 TensorFlow passes on to the result, or writes there; here it is refused")
KNOWN = {"DenseToSparseSetOperation": UNCHECKED, "SparseToSparseSetOperation": UNCHECKED, "SetSize": UNCHECKED,
         "SparseCrossHashed": (lambda inputs, attrs: bool(inputs["strong_hash"]) and any(x.dtype == np.int64 for x in inputs["dense_inputs"]),
                               "of dense numbers and a strong hash TensorFlow dies")}
