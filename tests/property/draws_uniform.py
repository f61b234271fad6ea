"""Draws of the ops on even grids of levels (Uniform*): TensorFlow's quantized models. Levels come and go as the integers beneath, through Bitcast."""
import numpy as np

from draws_quantize import BENEATH

LIMITS = {"qint8": (-128, 127), "quint8": (0, 255), "qint32": (-2 ** 31, 2 ** 31 - 1)}


def call(op, of, **attrs):
    """The op as a program: of names the quantized type of each argument that has one."""
    def program(**tensors):
        import tensorflow as tf
        raw = tf.raw_ops
        y = getattr(raw, op)(**{k: raw.Bitcast(input=v, type=of[k]) if k in of else v for k, v in tensors.items()}, **attrs)
        return [raw.Bitcast(input=y, type=BENEATH[y.dtype.name]) if y.dtype.name in BENEATH else y]
    return program


def levels(s, t, shape):
    low, high = LIMITS[t]
    low, high = (low, high) if t != "qint32" or s.chance(0.2) else s.one([(-70000, 70000), (-5, 5), (-2000000, 2000000)])
    return np.asarray(s.r.integers(low, high + 1, shape)).astype(BENEATH[t])


def grid(s, shape, axis, t, wild=True):
    """Scales and zero points of a tensor of that shape; at times of another shape, or not positive."""
    n = () if axis < 0 else (shape[axis],) if axis < len(shape) and s.chance(0.97) else (3,)
    scales = np.asarray(s.r.choice([0.01, 0.25, 0.5, 1.5, 3.1], n) * s.r.uniform(0.5, 1.5, n)).astype(np.float32)
    if wild and s.chance(0.02):
        scales = scales * np.float32(s.one([-1, 0, np.nan, np.inf]))
    low, high = (-128, 127) if t == "qint32" and s.chance(0.7) else LIMITS[t]
    return scales, np.asarray(s.r.integers(low, high + 1, n) if s.chance(0.7) else np.zeros(n)).astype(np.int32)


def limits(s, t, prefix=""):
    low, high = LIMITS[t]
    low, high = (low + 1, high) if s.chance(0.3) else (low // 2, high // 3) if s.chance(0.2) else (low, high)
    return {prefix + "quantization_min_val": low, prefix + "quantization_max_val": high}


def axis_of(s, rank):
    return s.int(0, rank - 1) if rank and s.chance(0.5) else -1 if s.chance(0.97) else rank + 1


def quantize(s):
    t, shape = s.one(["qint8", "quint8", "qint32"]), s.shape(0, 4)
    axis = axis_of(s, len(shape))
    scales, zeros = grid(s, shape, axis, t, wild=False)
    return ({"input": s.wild("float32", shape, -60, 60), "scales": scales, "zero_points": zeros},
            call(s.op, {}, Tout=t, quantization_axis=axis, **limits(s, t)))


def dequantize(s):
    t, shape = s.one(["qint8", "quint8", "qint32"]), s.shape(0, 4)
    axis = axis_of(s, len(shape))
    scales, zeros = grid(s, shape, axis, t)
    return {"input": levels(s, t, shape), "scales": scales, "zero_points": zeros}, call(s.op, {"input": t}, Tout="float32", quantization_axis=axis, **limits(s, t))


def requantize(s):
    t, shape = s.one(["qint8", "qint32"]), s.shape(0, 4)
    a = axis_of(s, len(shape))
    b = a if s.chance(0.5) else -1 if a >= 0 and s.chance(0.95) else axis_of(s, len(shape))
    (scales, zeros), (to, to_zeros) = grid(s, shape, a, t), grid(s, shape, b, "qint8")
    return ({"input": levels(s, t, shape), "input_scales": scales, "input_zero_points": zeros, "output_scales": to, "output_zero_points": to_zeros},
            call(s.op, {"input": t}, Tout="qint8", input_quantization_axis=a, output_quantization_axis=b, **limits(s, t, "input_"), **limits(s, "qint8", "output_")))


def add(s):
    shape = s.shape(1, 3)
    other = shape[s.int(0, len(shape)):] if s.chance(0.7) else s.alike(shape)
    if s.chance(0.5) or not other:   # one grid each
        axes = (s.one([-1, s.int(0, len(shape) - 1)]), -1, -1)
    else:                            # all along one axis from the end
        back = s.int(1, len(other))
        axes = (len(shape) - back, len(other) - back, max(len(shape), len(other)) - back if s.chance(0.6) else -1)
        other = tuple(m if i != len(other) - back else shape[len(shape) - back] for i, m in enumerate(other))
    try:
        out = np.broadcast_shapes(shape, other)
    except ValueError:
        out = shape
    given = {"lhs": levels(s, "qint32", shape), "rhs": levels(s, "qint32", other)}
    for name, of, axis in zip(("lhs", "rhs", "output"), (shape, other, out), axes):
        given[name + "_scales"], given[name + "_zero_points"] = grid(s, of, axis, "qint32")
    attrs = {f"{n}_quantization_axis": a for n, a in zip(("lhs", "rhs", "output"), axes)}
    return given, call(s.op, {"lhs": "qint32", "rhs": "qint32"}, **attrs, **limits(s, "qint32", "lhs_"), **limits(s, "qint32", "rhs_"), **limits(s, "qint32", "output_"))


def clip(s):
    shape = s.shape(0, 4)
    axis = axis_of(s, len(shape))
    scales, zeros = grid(s, shape, axis, "qint32")
    n = scales.shape if s.chance(0.97) else (2,)
    return ({"operand": levels(s, "qint32", shape), "min": levels(s, "qint32", n), "max": levels(s, "qint32", scales.shape), "scales": scales, "zero_points": zeros},
            call(s.op, {"operand": "qint32", "min": "qint32", "max": "qint32"}, quantization_axis=axis, **limits(s, "qint32")))


def dot(s):
    m, k, n = (s.int(0, 6) if s.chance(0.1) else s.int(1, 9) for _ in range(3))
    rhs_axis = s.one([-1, 1])
    rhs = levels(s, "qint8", (k, n) if s.chance(0.97) else (k + 1, n))
    scales, zeros = grid(s, rhs.shape, rhs_axis, "qint8")
    shared = {"rhs_quantization_axis": rhs_axis, **limits(s, "qint8", "rhs_")}
    if s.op == "UniformQuantizedDotHybrid":
        return {"lhs": s.array("float32", (m, k), -9, 9), "rhs": rhs, "rhs_scales": scales, "rhs_zero_points": zeros}, call(s.op, {"rhs": "qint8"}, Tout="float32", **shared)
    axis = rhs_axis if s.chance(0.5) else -1
    (a, b), (p, q) = grid(s, (m, k), -1, "qint8"), grid(s, (m, n), axis, "qint32")
    return ({"lhs": levels(s, "qint8", (m, k)), "rhs": rhs, "lhs_scales": a, "lhs_zero_points": b, "rhs_scales": scales, "rhs_zero_points": zeros, "output_scales": p, "output_zero_points": q},
            call(s.op, {"lhs": "qint8", "rhs": "qint8"}, Tout="qint32", output_quantization_axis=axis, **shared, **limits(s, "qint8", "lhs_"), **limits(s, "qint32", "output_")))


def numbers(s, rank):
    """Dimension numbers: text of the message, and the order of each tensor's axes (what the usual order's axis i is called)."""
    from tensorflow.core.util.quantization import uniform_quant_ops_attr_pb2 as pb
    orders = [s.r.permutation(rank).tolist() for _ in range(3)]
    d = pb.UniformQuantizedConvolutionDimensionNumbersAttr()
    for name, first, order in (("input", "batch", orders[0]), ("kernel", "output_feature", orders[1]), ("output", "batch", orders[2])):
        setattr(d, f"{name}_{first}_dimension", order[0])
        setattr(d, f"{name}_{'input_' if name == 'kernel' else ''}feature_dimension", order[1])
        getattr(d, f"{name}_spatial_dimensions").extend(order[2:])
    return d.SerializeToString(), orders


def placed(shape, order):
    """A shape in the usual order, with axis i at order[i]."""
    out = [0] * len(shape)
    for i, at in enumerate(order):
        out[at] = shape[i]
    return tuple(out)


def convolution(s):
    spatial, groups = s.int(1, 3), s.one([1, 1, 2])
    by_batch = 1 if groups > 1 or s.chance(0.85) else 2
    channels, outs, batch = s.int(1, 3), s.int(1, 3) * groups * by_batch, s.int(1, 2) * by_batch
    k = [s.int(1, 3) for _ in range(spatial)]
    rhs_step, lhs_step = [s.int(1, 2) for _ in k], [s.one([1, 1, 2]) for _ in k]
    size = [s.int((n - 1) * d + 1, (n - 1) * d + 4) for n, d in zip(k, rhs_step)]
    lhs, rhs = (batch, channels * groups, *size), (outs, channels, *k)
    text, orders = numbers(s, spatial + 2) if s.chance(0.6) else (b"", [list(range(spatial + 2))] * 3)
    padding = s.one(["SAME", "VALID", "EXPLICIT"])
    attrs = {"padding": padding, "window_strides": [s.int(1, 2) for _ in k], "lhs_dilation": lhs_step, "rhs_dilation": rhs_step, "feature_group_count": groups,
             "batch_group_count": by_batch, "dimension_numbers": text, "explicit_padding": [s.int(0, 2) for _ in range(2 * spatial)] if padding == "EXPLICIT" else []}
    rhs_axis = s.one([-1, orders[1][0]])
    w = levels(s, "qint8", placed(rhs, orders[1]))
    scales, zeros = grid(s, w.shape, rhs_axis, "qint8")
    shared = {"rhs_quantization_axis": rhs_axis, **limits(s, "qint8", "rhs_"), **attrs}
    if s.op == "UniformQuantizedConvolutionHybrid":
        x = s.array("float32", placed(lhs, orders[0]), -9, 9)
        return {"lhs": x, "rhs": w, "rhs_scales": scales, "rhs_zero_points": zeros}, call(s.op, {"rhs": "qint8"}, Tout="float32", **shared)
    axis = orders[2][1] if rhs_axis >= 0 and s.chance(0.5) else -1
    x = levels(s, "qint8", placed(lhs, orders[0]))
    (a, b), (p, q) = grid(s, x.shape, -1, "qint8"), grid(s, [outs] * (spatial + 2), axis, "qint32")
    return ({"lhs": x, "rhs": w, "lhs_scales": a, "lhs_zero_points": b, "rhs_scales": scales, "rhs_zero_points": zeros, "output_scales": p, "output_zero_points": q},
            call(s.op, {"lhs": "qint8", "rhs": "qint8"}, Tout="qint32", output_quantization_axis=axis, **shared, **limits(s, "qint8", "lhs_"), **limits(s, "qint32", "output_")))


DRAWS = {
    "UniformQuantize": quantize, "UniformDequantize": dequantize, "UniformRequantize": requantize, "UniformQuantizedAdd": add, "UniformQuantizedClipByValue": clip,
    **{op: dot for op in ("UniformQuantizedDot", "UniformQuantizedDotHybrid")}, **{op: convolution for op in ("UniformQuantizedConvolution", "UniformQuantizedConvolutionHybrid")},
}


def far(inputs, attrs):
    """Whether a level may lie so far from its zero point that no int32 holds it."""
    pairs = [(n, z) for n, z in (("input", "input_zero_points"), ("lhs", "lhs_zero_points"), ("rhs", "rhs_zero_points")) if n in inputs and z in inputs]
    most = lambda v: int(np.abs(np.asarray(v, np.int64)).max(initial=0))
    return any(most(inputs[n]) + most(inputs[z]) >= 2 ** 31 for n, z in pairs)


KNOWN = {op: (far, "TensorFlow's differences overflow, of which its compiler makes what it likes") for op in ("UniformQuantizedAdd", "UniformRequantize")}
