"""Draws of XLA's ops that graphs lowered by other frameworks carry (jax2tf): TensorFlow compiles each on the processor. Sizes and dimension numbers are constants of the program."""
import numpy as np

from draw_source import F


def lowered(op, **attrs):
    """A program of an op that tf.raw_ops leaves out; what it is to know when it is compiled is among attrs, as arrays."""
    def program(**tensors):
        import tensorflow as tf
        from tensorflow.python.framework import op_def_library
        given = {k: tf.constant(v) if isinstance(v, np.ndarray) else v for k, v in attrs.items()}
        y = op_def_library.apply_op(op, name="x", **tensors, **given)
        return list(y) if isinstance(y, (list, tuple)) else [y]
    return program


def message(**lists):
    """A message of lists of int64s, by field numbers: f1=[..]; one number for a field that is no list."""
    out = b""
    for name, v in lists.items():
        for x in v if isinstance(v, list) else [v]:
            out += bytes([int(name[1:]) << 3, x])
    return out


def barrier(s):
    return {"a": s.array(s.one(F), s.shape(0, 3)), "b": s.array("int32", s.shape(0, 2))}, lambda **t: lowered("XlaOptimizationBarrier")(input=[t["a"], t["b"]])


def sharding(s):
    return {"input": s.array(s.one(F), s.shape(1, 3))}, lowered(s.op, sharding=b"", unspecified_dims=[])


def einsum(s):
    m, k, n, b = (s.int(1, 5) for _ in range(4))
    equation, x, y = s.one([("ab,bc->ac", (m, k), (k, n)), ("abc,acd->abd", (b, m, k), (b, k, n)), ("ab,ab->a", (m, k), (m, k))])
    return {"a": s.array("float32", x), "b": s.array("float32", y)}, lowered(s.op, equation=equation)


def dynamic_slice(s):
    shape = tuple(s.int(1, 6) for _ in range(s.int(1, 4)))
    size = np.array([s.int(0, n) for n in shape], s.one(["int32", "int64"]))
    start = np.array([s.int(-3, n + 3) for n in shape], size.dtype)
    return {"input": s.array(s.one(F + ["int32"]), shape), "start_indices": start}, lowered(s.op, size_indices=size)


def pad(s):
    shape, d = s.shape(1, 4), s.one(F + ["int32"])
    t = s.one(["int32", "int64"])
    side = lambda lo: np.array([s.int(lo, 3) for _ in shape], t)
    low, high, between = side(-1), side(-1), np.array([s.one([0, 0, 1, 2]) for _ in shape], t)
    return {"input": s.array(d, shape), "padding_value": s.array(d, ())}, lowered(s.op, padding_low=low, padding_high=high, padding_interior=between)


def precision(s):
    d = s.one(F + ["float16", "bfloat16"])
    return {"operand": s.wild(d, s.shape(0, 3), -9, 9)}, lowered(s.op, exponent_bits=s.int(2, 11), mantissa_bits=s.int(0, 23))


def sort(s):
    return {"input": s.wild(s.one(F + ["int32", "int64", "uint8"]), tuple(max(n, 1) for n in s.shape(1, 3)), -9, 9)}, lowered(s.op)


def dot(s):
    batch, free, summed = s.int(0, 2), (s.int(0, 2), s.int(0, 2)), s.int(0, 2)
    size = lambda n: [s.int(1, 4) for _ in range(n)]
    b, k, sides, numbers = size(batch), size(summed), [], {}
    for side in range(2):
        dims = b + k + size(free[side])
        order = s.r.permutation(len(dims)).tolist()
        sides.append(tuple(dims[i] for i in order))
        numbers[f"f{3 + side}"] = [order.index(i) for i in range(batch)]
        numbers[f"f{1 + side}"] = [order.index(batch + i) for i in range(summed)]
    d = s.one(F + ["int32"])
    attrs = {"dimension_numbers": message(**numbers), "precision_config": b""}
    if s.op == "XlaDotV2":
        d, to = s.one([("float32", "float32"), ("float64", "float64"), ("int8", "int32"), ("int32", "int32"), ("bfloat16", "float32")])
        attrs["preferred_element_type"] = to
    return {"lhs": s.array(d, sides[0]), "rhs": s.array(d, sides[1])}, lowered(s.op, **attrs)


def gather(s):
    rank, places = s.int(1, 3), s.int(0, 2)
    operand = tuple(s.int(1, 5) for _ in range(rank))
    mapped = s.r.permutation(rank)[:s.int(0, rank)].tolist()
    vector = s.int(0, places) if len(mapped) != 1 or s.chance(0.7) else None   # None: each index is a vector of one
    indices = [s.int(1, 3) for _ in range(places)]
    at = list(indices)
    if vector is not None:
        at.insert(vector, len(mapped))
    collapsed = sorted(s.r.permutation(rank)[:s.int(0, rank)].tolist())
    sizes = [1 if d in collapsed else s.int(1, n) for d, n in enumerate(operand)]
    offset = sorted(s.r.permutation(places + rank - len(collapsed))[:rank - len(collapsed)].tolist())
    numbers = message(f1=offset, f2=collapsed, f3=mapped, f4=len(at) if vector is None else vector)
    t = s.one(["int32", "int64"])
    return ({"operand": s.array(s.one(F + ["int32"]), operand), "start_indices": np.asarray(s.r.integers(-2, 7, at)).astype(t)},
            lowered(s.op, slice_sizes=np.array(sizes, t), dimension_numbers=numbers, indices_are_sorted=False))


def convolution(s):
    spatial, groups = s.int(1, 3), s.one([1, 1, 2])
    k = [s.int(1, 3) for _ in range(spatial)]
    size, channels, outs = [n + s.int(3, 6) for n in k], s.int(1, 3), s.int(1, 3) * groups
    orders = [s.r.permutation(spatial + 2).tolist() for _ in range(3)] if s.chance(0.6) else [list(range(spatial + 2))] * 3
    x, w, y = orders
    numbers = message(f7=x[0], f8=x[1], f11=x[2:], f4=w[0], f3=w[1], f6=w[2:], f9=y[0], f10=y[1], f12=y[2:])

    def placed(shape, order):
        out = [0] * len(shape)
        for i, at in enumerate(order):
            out[at] = shape[i]
        return tuple(out)
    t, d = s.one(["int32", "int64"]), s.one(["float32", "float32", "float64"])
    each = lambda choices: np.array([s.one(choices) for _ in k], t)
    attrs = {"window_strides": each([1, 1, 2]), "padding": np.array([[s.int(-1 if s.chance(0.2) else 0, 2) for _ in range(2)] for _ in k], t), "lhs_dilation": each([1, 1, 1, 2]),
             "rhs_dilation": each([1, 1, 1, 2]), "feature_group_count": np.array(groups, t), "dimension_numbers": numbers, "precision_config": b""}
    if s.op == "XlaConvV2":
        attrs.update(preferred_element_type=d, batch_group_count=1)
    return {"lhs": s.array(d, placed([s.int(1, 2), channels * groups, *size], x)), "rhs": s.array(d, placed([outs, channels, *k], w))}, lowered(s.op, **attrs)


DRAWS = {"XlaOptimizationBarrier": barrier, "XlaSharding": sharding, "XlaEinsum": einsum, "XlaDynamicSlice": dynamic_slice, "XlaPad": pad, "XlaReducePrecision": precision, "XlaSort": sort,
         "XlaDot": dot, "XlaDotV2": dot, "XlaGather": gather, **{op: convolution for op in ("XlaConv", "XlaConvV2")}}
