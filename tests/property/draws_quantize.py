"""Draws of quantization. Quantized types have no numpy types of their own: they come and go as the integers beneath, through Bitcast."""
import numpy as np

from draw_source import I

BENEATH = {"quint8": "uint8", "qint8": "int8", "quint16": "uint16", "qint16": "int16", "qint32": "int32"}
FEW = ["quint8", "qint8", "quint16", "qint16", "qint32"]


def raw():
    import tensorflow as tf
    return tf.raw_ops


def limits(s, shape):
    wide = s.one([1, 1, 1, 100, 0.01])
    lo = np.asarray(s.r.uniform(-6, -0.5 if s.chance(0.7) else 3, shape) * wide, np.float32)
    hi = np.asarray(lo + s.r.uniform(0.5, 9, shape) * wide, np.float32)
    if s.chance(0.1):   # symmetric, from or to zero, or nothing between
        lo, hi = s.one([(-np.abs(lo), np.abs(lo)), (np.zeros_like(lo), np.abs(hi)), (-np.abs(hi), np.zeros_like(hi)), (lo, lo), (hi, lo)])
    return np.asarray(lo, np.float32), np.asarray(hi, np.float32)


def shape_of(s):
    shape = s.shape(0, 4)
    return shape if s.chance(0.5) else tuple(max(n, 1) for n in shape)


def per_axis(s, x):
    """-1, or an axis of which every slice has limits of its own; and how many."""
    if x.ndim == 0 or s.chance(0.7):
        return -1, ()
    axis = s.int(0, x.ndim - 1)
    return axis, (x.shape[axis],)


def quantize(s):
    t, mode = s.one(FEW), s.one(["MIN_COMBINED", "MIN_FIRST", "SCALED"])
    x = s.wild("float32", shape_of(s), -7, 7, 0) * np.float32(s.one([1, 1, 1, 100, 0.01]))
    axis, shape = per_axis(s, x) if mode == "SCALED" or s.chance(0.3) else (-1, ())
    lo, hi = limits(s, shape)
    attrs = {"mode": mode, "round_mode": s.one(["HALF_AWAY_FROM_ZERO", "HALF_TO_EVEN"] if mode == "SCALED" or s.chance(0.05) else ["HALF_AWAY_FROM_ZERO"]), "narrow_range": s.chance(0.3),
             "axis": axis, "ensure_minimum_range": s.one([0.01, 0.01, 1.0, 0.0, 20.0])}

    def program(input, min_range, max_range):
        y, a, b = raw().QuantizeV2(input=input, min_range=min_range, max_range=max_range, T=t, **attrs)
        return [raw().Bitcast(input=y, type=BENEATH[t]), a, b]
    return {"input": x, "min_range": lo, "max_range": hi}, program


def dequantize(s):
    t, mode, to = s.one(FEW), s.one(["MIN_COMBINED", "MIN_FIRST", "SCALED"]), s.one(["float32", "float32", "bfloat16"])
    base = BENEATH[t]
    info = np.iinfo(base)
    x = s.r.integers(max(info.min, -40000), min(info.max, 70000) + 1, shape_of(s)).astype(base)
    x = np.asarray(x)
    axis, shape = per_axis(s, x)
    lo, hi = limits(s, shape)
    attrs = {"mode": mode, "narrow_range": s.chance(0.3), "axis": axis, "dtype": to}

    def program(input, min_range, max_range):
        return raw().Dequantize(input=raw().Bitcast(input=input, type=t), min_range=min_range, max_range=max_range, **attrs)
    return {"input": x, "min_range": lo, "max_range": hi}, program, {"rtol": 1e-2, "atol": 1e-2} if to == "bfloat16" else {"rtol": 1e-4, "atol": 1e-4}


def reshape(s):
    t = s.one(["quint8", "qint32"])
    x = s.array(BENEATH[t], s.shape(0, 3), 0, 100)

    def program(tensor, shape, lo, hi):
        y, a, b = raw().QuantizedReshape(tensor=raw().Bitcast(input=tensor, type=t), shape=shape, input_min=lo, input_max=hi)
        return [raw().Bitcast(input=y, type=BENEATH[t]), a, b]
    return {"tensor": x, "shape": np.array(s.one([[-1], list(x.shape), list(x.shape)[::-1]]), s.one(I)), "lo": np.float32(-1), "hi": np.float32(3)}, program


def fake_limits(s, shape):
    lo, hi = limits(s, shape)
    if s.chance(0.03):
        lo, hi = hi, lo
    return lo, hi


def fake(s):
    """Fake quantization with limits as attributes, inputs, or a vector of a limit a channel; and the gradients."""
    kind, grad = s.op.replace("Gradient", ""), s.op.endswith("Gradient")
    channels = s.int(1, 4) if s.chance(0.8) else s.int(5, 40)
    x = s.array("float32", s.shape(0, 4) + ((channels,) if kind.endswith("PerChannel") else ()), -7, 7)
    lo, hi = fake_limits(s, (channels,) if kind.endswith("PerChannel") else ())
    attrs = {"num_bits": s.int(2, 16) if s.chance(0.97) else s.one([0, 1, 17]), "narrow_range": s.chance(0.3)}
    given = {"gradients": s.array("float32", x.shape)} if grad else {}
    if kind == "FakeQuantWithMinMaxArgs":
        return {**given, "inputs": x}, {"min": float(lo), "max": float(hi), **attrs}
    return {**given, "inputs": x, "min": lo, "max": hi}, attrs, {"rtol": 1e-4, "atol": 1e-4}   # limits go up to 1000, in floats


def quantize_dequantize(s):
    d = s.dtype()
    x = s.array(d, shape_of(s), -7, 7)
    axis, shape = per_axis(s, x) if s.op != "QuantizeAndDequantize" else (-1, ())
    lo, hi = (np.asarray(v, d) for v in limits(s, shape))
    signed, given, bits = s.chance(0.6), s.chance(0.6), s.int(2, 16) if s.chance(0.9) else s.one([1, 17, 24, 30, 31, 32, 62, 63, 64, 0])
    if not signed and s.chance(0.9):
        lo, hi = np.abs(lo), np.abs(lo) + np.abs(hi)
    attrs = {"signed_input": signed, "range_given": given}
    if s.op == "QuantizeAndDequantize":
        return {"input": x}, {**attrs, "num_bits": bits, "input_min": float(lo), "input_max": float(hi)}
    attrs.update({"narrow_range": s.chance(0.3), "axis": axis})
    if s.op == "QuantizeAndDequantizeV3":
        return {"input": x, "input_min": lo, "input_max": hi, "num_bits": np.int32(bits)}, attrs
    return {"input": x, "input_min": lo, "input_max": hi}, {**attrs, "num_bits": bits, "round_mode": s.one(["HALF_TO_EVEN", "HALF_UP"])}


def quantize_grad(s):
    d = s.dtype()
    x = s.array(d, shape_of(s), -7, 7)
    axis, shape = per_axis(s, x)
    lo, hi = (np.asarray(v, d) for v in limits(s, shape))
    return {"gradients": s.array(d, x.shape), "input": x, "input_min": lo, "input_max": hi}, {"axis": axis}


DRAWS = {
    "QuantizeV2": quantize, "Dequantize": dequantize, "QuantizedReshape": reshape, "QuantizeAndDequantizeV4Grad": quantize_grad,
    **{op: fake for op in "FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient "
       "FakeQuantWithMinMaxVarsPerChannel FakeQuantWithMinMaxVarsPerChannelGradient".split()},
    **{op: quantize_dequantize for op in "QuantizeAndDequantize QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4".split()},
}
KNOWN = {
    **{op: (lambda inputs, attrs: attrs["axis"] >= 0 and attrs["range_given"], "with an axis TensorFlow 2.21 asks for scalars and for vectors: no given range passes")
       for op in "QuantizeAndDequantizeV2 QuantizeAndDequantizeV4".split()},
    "QuantizeAndDequantizeV3": (lambda inputs, attrs: inputs["input"].ndim == 0 or attrs["axis"] >= 0 and attrs["range_given"], "as V2; and it refuses scalars for their axis -1"),
}
