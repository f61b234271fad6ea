"""Draws of the ops on levels of quantized numbers: those of TensorFlow 1's quantized graphs. Levels come and go as the integers beneath, through Bitcast."""
import numpy as np

from draws_quantize import BENEATH, limits


def span(s):
    """A range of floats, mostly around 0."""
    lo, hi = limits(s, ())
    return (lo, hi) if s.chance(0.2) else (np.float32(-abs(lo)), np.float32(abs(hi) + 0.1))


def levels(s, t, shape):
    info = np.iinfo(BENEATH[t])
    wide = (info.min, info.max) if t != "qint32" or s.chance(0.3) else s.one([(-70000, 70000), (-5, 5), (-2000000000, 2000000000)])
    return np.asarray(s.r.integers(wide[0], wide[1] + 1, shape)).astype(BENEATH[t])


def call(op, of, **attrs):
    """The op as a program: of names the quantized type of each argument that has one."""
    def program(**tensors):
        import tensorflow as tf
        raw = tf.raw_ops
        put = lambda v, t: [raw.Bitcast(input=x, type=t) for x in v] if isinstance(v, list) else raw.Bitcast(input=v, type=t)
        y = getattr(raw, op)(**{k: put(v, of[k]) if k in of else v for k, v in tensors.items()}, **attrs)
        return [raw.Bitcast(input=x, type=BENEATH[x.dtype.name]) if x.dtype.name in BENEATH else x for x in y]
    return program


def convolution(s):
    k, c = (s.int(1, 3), s.int(1, 3)), s.int(1, 4)
    padding = s.one(["SAME", "VALID"])
    least = k if padding == "VALID" else (1, 1)   # TensorFlow's process ends where the window does not fit
    x = levels(s, "quint8", (s.int(1, 2), s.int(least[0], 7), s.int(least[1], 7), c))
    w = levels(s, "quint8", (*k, c, s.int(1, 4)))
    # TensorFlow's convolution pads with another zero point where a range begins above its end
    (a, b), (p, q), stride = sorted(span(s)), sorted(span(s)), s.int(1, 5)
    return ({"input": x, "filter": w, "min_input": a, "max_input": b, "min_filter": p, "max_filter": q},
            call("QuantizedConv2D", {"input": "quint8", "filter": "quint8"}, strides=[1, stride, stride, 1], padding=padding))


def product(s):
    m, k, n = (s.int(0, 6) if s.chance(0.1) else s.int(1, 9) for _ in range(3))
    ta, tb, (lo, hi), (p, q) = s.chance(0.3), s.chance(0.3), span(s), span(s)
    a, b = levels(s, "quint8", (k, m) if ta else (m, k)), levels(s, "quint8", (n, k) if tb else (k, n))
    return ({"a": a, "b": b, "min_a": lo, "max_a": hi, "min_b": p, "max_b": q},
            call("QuantizedMatMul", {"a": "quint8", "b": "quint8"}, transpose_a=ta, transpose_b=tb))


def bias(s):
    t, u, shape = s.one(["quint8", "qint8"]), s.one(["quint8", "qint8"]), s.shape(1, 3) + (s.int(1, 9),)
    (a, b), (p, q) = span(s), span(s)
    return ({"input": levels(s, t, shape), "bias": levels(s, u, shape[-1:]), "min_input": a, "max_input": b, "min_bias": p, "max_bias": q},
            call("QuantizedBiasAdd", {"input": t, "bias": u}, out_type="qint32"))


def activation(s):
    t, (a, b) = s.one(["quint8", "qint32"]), span(s)
    return {"features": levels(s, t, s.shape()), "min_features": a, "max_features": b}, call(s.op, {"features": t}, out_type=t)


def pool(s):
    t, (a, b) = s.one(["quint8", "qint8"]), span(s)
    x = levels(s, t, (s.int(1, 2), s.int(3, 8), s.int(3, 8), s.int(1, 5)))
    return ({"input": x, "min_input": a, "max_input": b},
            call(s.op, {"input": t}, ksize=[1, s.int(1, 3), s.int(1, 3), 1], strides=[1, s.int(1, 3), s.int(1, 3), 1], padding=s.one(["SAME", "VALID"])))


def requantize(s):
    (a, b), (p, q) = span(s), limits(s, ())
    given = {"input": levels(s, "qint32", s.shape()), "input_min": a, "input_max": b}
    if s.op == "RequantizationRange":
        return given, call(s.op, {"input": "qint32"})
    if s.op == "QuantizeDownAndShrinkRange":
        return given, call(s.op, {"input": "qint32"}, out_type="quint8")
    return {**given, "requested_output_min": min(p, np.float32(s.one([0, 1]))), "requested_output_max": q}, call(s.op, {"input": "qint32"}, out_type=s.one(["quint8", "qint8"]))


def channels(s):
    """Levels of images, a range a channel."""
    shape = (s.int(1, 2), s.int(1, 3), s.int(1, 3), s.int(1, 5))
    n = shape[3:] if s.chance(0.97) or s.op != "RequantizationRangePerChannel" else (7,)   # the other op reads what it wants
    given = {"input": levels(s, "qint32", shape), "input_min": s.array("float32", n, -4, 0), "input_max": s.array("float32", n, 0, 4)}
    if s.op == "RequantizationRangePerChannel":
        return given, call(s.op, {"input": "qint32"}, clip_value_max=s.one([1e30, 0.5]))
    t = s.one(["quint8", "qint8"])
    low = np.float32(-s.r.uniform(0.001, 3) if s.chance(0.8) else 0)
    return {**given, "requested_output_min": low, "requested_output_max": np.float32(s.r.uniform(0.001, 3))}, call(s.op, {"input": "qint32"}, out_type=t)


def concat(s):
    t, n, shape = s.one(["quint8", "quint8", "qint32"]), s.int(2, 4), list(s.shape(1, 3))
    axis, same, ranges = s.int(0, len(shape) - 1), s.chance(0.3), [span(s) for _ in range(n)]
    # no part is empty: TensorFlow then takes the ranges of the wrong parts
    parts = [levels(s, t, tuple(shape[:axis] + [s.int(1, 4)] + shape[axis + 1:])) for _ in range(n)]
    ranges = ranges[:1] * n if same else ranges
    return ({"concat_dim": np.int32(axis if s.chance(0.97) else 7), "values": parts, "input_mins": [r[0] for r in ranges], "input_maxes": [r[1] for r in ranges]},
            call("QuantizedConcat", {"values": t}))


def binary(s):
    shape = tuple(max(n, 1) for n in s.shape(1, 4))   # without elements TensorFlow refuses some shapes
    other = shape if s.chance(0.4) else shape[s.int(0, len(shape)):]   # equal, a scalar, or the last axes: TensorFlow broadcasts no more
    (a, b), (p, q) = span(s), span(s)
    x, y = levels(s, "quint8", shape), levels(s, "quint8", other)
    x, y = (y, x) if s.chance(0.5) else (x, y)
    return {"x": x, "y": y, "min_x": a, "max_x": b, "min_y": p, "max_y": q}, call(s.op, {"x": "quint8", "y": "quint8"})


DRAWS = {
    "RequantizationRangePerChannel": channels, "RequantizePerChannel": channels,
    "QuantizedConv2D": convolution, "QuantizedMatMul": product, "QuantizedBiasAdd": bias, "QuantizedConcat": concat,
    **{op: activation for op in ("QuantizedRelu", "QuantizedRelu6")}, **{op: pool for op in ("QuantizedMaxPool", "QuantizedAvgPool")},
    **{op: requantize for op in ("Requantize", "RequantizationRange", "QuantizeDownAndShrinkRange")}, **{op: binary for op in ("QuantizedAdd", "QuantizedMul")},
}
