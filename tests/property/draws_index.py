"""Draws of ops that read or write parts of tensors by index: slice, strided slice, gather, scatter, and their kin."""
import numpy as np

from draw_source import C, H, I, axis_of, program


def slice_(s):
    x, d = s.array(s.dtype(), s.shape() if s.chance(0.8) else s.shape(5, 8)), s.one(I)
    begin = [s.int(-1 if s.chance(0.01) else 0, n) for n in x.shape]
    size = [-1 if s.chance(0.3) else s.int(0, max(n - b, 0)) + s.chance(0.01) for n, b in zip(x.shape, begin)]
    return {"input": x, "begin": np.array(begin, d), "size": np.array(size, d)}, {}


def strided(s, rank):
    """Begin, end, strides and masks of a slice of at most that many axes, with new axes and an ellipsis."""
    d, n = s.one(I), s.int(0, rank)
    mask = lambda p: sum(1 << i for i in range(n) if s.chance(p))
    far = [np.iinfo(d).max, np.iinfo(d).min, 100, -100]
    at = lambda low, high: np.array([s.one(far) if s.chance(0.05) else s.int(low, high) for _ in range(n)], d)
    plain = s.chance(0.4)   # mostly inside, which leaves something
    step = np.array([(s.one([1, 1, 2, -1, -2, 3]) if s.chance(0.95) else s.one([40, -40, 7])) if s.chance(0.99) else 0 for _ in range(n)], d)
    if plain:
        step = np.abs(step)
    ellipsis = 1 << s.int(0, n - 1) if n and s.chance(0.2) else 0
    if n and s.chance(0.01):
        ellipsis = mask(0.6)
    return {"begin": at(0, 1) if plain else at(-6, 6), "end": at(1, 40) if plain else at(-6, 6), "strides": step}, \
        {"begin_mask": mask(0.3), "end_mask": mask(0.3), "ellipsis_mask": ellipsis, "new_axis_mask": mask(0.1), "shrink_axis_mask": mask(s.one([0, 0.1, 0.4]))}


def strided_slice(s):
    x = s.array(s.dtype(), s.shape(0, 5) if s.chance(0.8) else s.shape(6, 8))
    given, attrs = strided(s, x.ndim + 1)
    return {"input": x, **given}, attrs


def sliced(x, given, attrs):
    """The result of a strided slice in numpy, or None where the slice is not legal."""
    key, at = [], lambda m, i: attrs[m + "_mask"] >> i & 1
    for i in range(len(given["begin"])):
        b, e, st = (int(given[k][i]) for k in ("begin", "end", "strides"))
        key.append(Ellipsis if at("ellipsis", i) else np.newaxis if at("new_axis", i) else b if at("shrink_axis", i)
                   else slice(None if at("begin", i) else b, None if at("end", i) else e, st))
    try:
        return x[tuple(key)]
    except (IndexError, ValueError):
        return None


def strided_slice_grad(s):
    """dy of the shape that the slice of the given shape has."""
    shape = s.shape(0 if s.chance(0.05) else 1, 6)
    given, attrs = strided(s, len(shape))
    y = sliced(np.zeros(shape), given, attrs)
    dy = s.array(s.dtype(), (y.shape if y is not None else ()) + ((1,) if s.chance(0.02) else ()))
    return {"shape": np.array(shape, given["begin"].dtype), **given, "dy": dy}, attrs


def strided_slice_update(s):
    x = s.array(s.dtype(), s.shape(1, 6))
    given, attrs = strided(s, x.ndim)
    y = sliced(np.zeros(x.shape), given, attrs)
    name = x.dtype.name if x.dtype != object else "string"
    return {"input": x, **given, "value": s.array(name, y.shape if y is not None and s.chance(0.97) else ())}, attrs


def indices_of(s, n, shape, wrong=0.05):
    return s.array(s.one(I + (["int16"] if s.op in ("Gather", "GatherV2") else [])), shape, -1 if s.chance(wrong / 2) else 0, max(n - 1 + s.chance(wrong), 0))


def gather(s):
    x = s.array(s.dtype("Tparams"), s.shape(0 if s.chance(0.02) else 1, 4))
    if s.op == "Gather":
        return {"params": x, "indices": indices_of(s, x.shape[0] if x.ndim else 1, s.shape(0, 3))}, {"validate_indices": s.chance(0.5)}
    batch = s.int(0, x.ndim - 1) if x.ndim and s.chance(0.4) else 0
    axis = s.int(batch, x.ndim - 1) if x.ndim else 0
    i = indices_of(s, x.shape[axis] if x.ndim else 1, (x.shape[:batch] if s.chance(0.98) else s.shape(batch, batch)) + s.shape(0, 3))
    return {"params": x, "indices": i, "axis": np.array(axis - (x.ndim if s.chance(0.3) else 0) + (7 if s.chance(0.02) else 0), s.one(I + ["int16"]))}, \
        {"batch_dims": batch - (i.ndim if s.chance(0.1) and batch < i.ndim else 0)}


def places(s, shape, outer, depth, wrong=0.05):
    """Indices into the first `depth` axes of a shape."""
    at = np.zeros(outer + (depth,), np.int64)
    for k in range(depth):
        at[..., k] = s.r.integers(0, max(shape[k], 1) + s.chance(wrong / 2), outer) - s.chance(wrong / 2)
    return at.astype(s.one(I + (["int16"] if s.op == "GatherNd" else [])))


def gather_nd(s):
    x = s.array(s.dtype("Tparams"), s.shape(0 if s.chance(0.03) else 1, 6))
    depth = s.int(0, x.ndim) + s.chance(0.02)
    return {"params": x, "indices": places(s, x.shape + (1,), s.shape(0, 3), depth)}, {"bad_indices_policy": s.one(["", "", "ERROR", "IGNORE"])}


def scatter_nd(s):
    """Into zeros of a shape, or a tensor; the same place twice only where order does not matter."""
    d = s.dtype()
    shape = s.shape(1, 5)
    depth, outer = s.int(0 if s.chance(0.05) else 1, len(shape)), s.shape(0, 3)
    at = places(s, shape + (1,), outer, depth + s.chance(0.01), s.one([0.05, 0.05, 0.5]))
    depth = at.shape[-1]
    if s.op.endswith("Update") and at.size or d == "string":
        flat = at.reshape(-1, depth)
        at = flat[np.sort(np.unique(flat, axis=0, return_index=True)[1])]
        outer = at.shape[:-1]
    updates = s.array(d, outer + shape[depth:] + ((2,) if s.chance(0.02) else ()))
    loose = {"rtol": 2e-2, "atol": 2e-2} if d in ("float16", "bfloat16") else {}
    if s.op == "ScatterNd":
        return {"indices": at, "updates": updates, "shape": np.array(shape, at.dtype)}, {"bad_indices_policy": s.one(["", "", "ERROR", "IGNORE"])}, loose
    name = "input" if s.op == "ScatterNdNonAliasingAdd" else "tensor"
    return {name: s.array(d, shape), "indices": at, "updates": updates}, {"bad_indices_policy": s.one(["", "", "ERROR", "IGNORE"])}, loose


def unravel(s):
    dims = s.array(s.dtype("Tidx"), (s.int(1, 4),), 0 if s.chance(0.05) else 1, 4 if s.chance(0.8) else 40)
    return {"indices": s.array(dims.dtype.name, s.shape(0, 1 + s.chance(0.03)), -1 if s.chance(0.03) else 0, max(int(np.prod(dims)) - 1 + s.chance(0.1), 0)), "dims": dims}, {}


def dynamic_update(s):
    d, shape = s.one(["float32", "float16", "int32", "int64", "bool", "complex64"]), s.shape(0, 3)
    part = tuple(s.int(0, n) for n in shape)
    inputs = {"input": s.array(d, shape), "update": s.array(d, part), "indices": s.array(s.one(["int32", "int64"]), (len(shape),), -2, 4)}

    def call(raw, input, update, indices):
        from tensorflow.compiler.tf2xla.python import xla   # it is no raw op
        return [xla.dynamic_update_slice(input, update, indices)]
    return inputs, program(call)


def inplace(s):
    d = s.one(H + I + C + ["int8", "uint8", "int16"]) if s.op != "InplaceUpdate" else s.one(H + I + C + ["string", "bool"])
    rows, rest, k = s.int(1, 5), s.shape(0, 2), s.int(0, 4)
    v = s.array(d, (k,) + (rest if s.chance(0.96) else s.shape(0, 2)))
    i = s.array("int32", (k if s.chance(0.97) else k + 1,), -7, 7)
    return {"x": s.array(d, (rows,) + rest), "i": i, "v": v}, program(lambda raw, x, i, v: getattr(raw, s.op)(x=raw.DeepCopy(x=x), i=i, v=v))


DRAWS = {
    "XlaDynamicUpdateSlice": dynamic_update,
    "InplaceUpdate": inplace, "InplaceAdd": inplace, "InplaceSub": inplace,
    "Slice": slice_, "StridedSlice": strided_slice, "StridedSliceGrad": strided_slice_grad, "TensorStridedSliceUpdate": strided_slice_update, "Gather": gather, "GatherV2": gather,
    "GatherNd": gather_nd, "UnravelIndex": unravel,
    **{op: scatter_nd for op in "ScatterNd ScatterNdNonAliasingAdd TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin TensorScatterUpdate".split()},
}
