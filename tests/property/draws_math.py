"""Draws of element-wise arithmetic: functions of one, two and three tensors, gradients of functions, comparisons, bits, casts, complex numbers, and sums of lists."""
import numpy as np

from draw_source import ANY, C, F, FLOATS, H, I, NUMBERS, S, binary, same, unary

BOTH = [False, True]


def grads(s):
    """y is a function's value, dy any gradient of the same shape."""
    d, shape = s.dtype(), s.shape()
    return {"y": s.wild(d, shape, *s.one([(-1, 1), (-1, 1), (-100, 100)])), "dy": s.wild(d, shape, *s.one([(-4, 4), (-4, 4), (-1e-3, 1e-3)]))}, {}


def addn(s):
    d, shape = s.dtype(among=NUMBERS), s.shape()
    return {"inputs": [s.wild(d, shape if s.chance(0.98) else s.shape()) for _ in range(s.int(1, 20))]}, {}


def accumulate(s):
    d, shape = s.one(NUMBERS), s.shape()
    return {"inputs": [s.wild(d, shape) for _ in range(s.int(1, 5))]}, {"shape": shape}


def logical(s):
    shape = s.shape()
    return {"x": s.array("bool", shape), "y": s.array("bool", s.alike(shape))}, {}


def division(s):
    """Integers: also by zero, and the least number by -1."""
    d, shape = s.dtype(), s.shape()
    x, y = s.wild(d, shape, -20, 20), s.array(d, s.alike(shape), -5, 5) if d in C else s.wild(d, s.alike(shape), -5, 5, 0.2)
    if d in C or d in I + S and s.chance(0.9):
        y[y == 0] = 1
    return ({"x": x, "y": y} if s.chance(0.7) else {"x": y, "y": np.array(3, y.dtype)}), {}


def power(s):
    d, shape = s.dtype(), s.shape()
    if d in I + S:
        return {"x": s.array(d, shape, -3, 3), "y": s.array(d, s.alike(shape), -1 if s.chance(0.1) else 0, 5)}, {}
    return {"x": s.wild(d, shape, -3, 3), "y": s.wild(d, s.alike(shape)) if s.chance(0.5) else np.rint(s.array(d, s.alike(shape)).real).astype(d)}, {}


def shift(s):
    """The amounts stay inside of the width mostly: TensorFlow clamps the others."""
    d, shape = s.dtype(), s.shape()
    return {"x": s.wild(d, shape, -100, 100), "y": s.array(d, s.alike(shape), -9 if s.chance(0.05) else 0, 70 if s.chance(0.2) else 7)}, {}


def cast(s):
    """Floats that an integer cannot hold are left out: what they become is the machine's."""
    source, to, wide = s.one(NUMBERS + ["bool"]), s.one(NUMBERS + ["bool"]), s.chance(0.3)
    edges = 0.3 if source in I + S or to in FLOATS + C + ["bool"] else 0
    x = s.wild(source, s.shape(), -300 if wide else 0, 300 if wide else 9, edges)
    return {"x": x}, {"DstT": to, "Truncate": s.chance(0.15)}


def bitcast(s):
    sizes = {d: np.dtype(d).itemsize if d not in ("bfloat16", "string") else 2 for d in ANY}
    d, to = s.one(NUMBERS), s.one(NUMBERS)
    shape = s.shape()
    if sizes[to] > sizes[d] and s.chance(0.9):
        shape = shape + (sizes[to] // sizes[d],)
    return {"input": s.wild(d, shape)}, {"type": to}


def clip(s):
    """Also of a least bound that is above the greatest, and of bounds that are not numbers."""
    d, shape, one, p = s.dtype(among=NUMBERS), s.shape(), s.chance(0.5), s.one([0, 0, 0.3])
    bound = lambda lo, hi: s.wild(d, () if one or s.chance(0.4) else shape, *((lo, hi) if s.chance(0.9) else (-3, 3)), p)
    return {"t": s.wild(d, shape), "clip_value_min": bound(-3, -1), "clip_value_max": bound(0, 3)}, {}


def parts(name, to):
    """Ops from a complex number to a real one."""
    def draw(s):
        d = s.one(C)
        return {name: s.wild(d, s.shape())}, {"Tout": "float32" if d == "complex64" else "float64"}
    return draw


def complex_(s):
    d, shape = s.one(F), s.shape()
    return {"real": s.wild(d, shape), "imag": s.wild(d, s.alike(shape))}, {"Tout": "complex64" if d == "float32" else "complex128"}


def threes(names, lo, hi):
    """Functions of three tensors of one shape, scalars among them."""
    def draw(s):
        d, shape = s.dtype(), s.shape()
        return {n: s.wild(d, shape if s.chance(0.8) else (), *span, s.one([0, 0, 0, 0.2])) for n, span in zip(names, zip(lo, hi))}, {}
    return draw


def gradient(wild=0.3, names=("gradients", "features"), **attrs):
    return same(names, wild=wild, **attrs)


def polygamma(s):
    d, shape = s.dtype(), s.shape()
    return {"a": np.rint(s.array(d, s.alike(shape), 0, 5)), "x": s.array(d, shape, 0.2 if s.chance(0.7) else -3, 8)}, {}


def cross(s):
    d, shape = s.dtype(), s.shape(0, 4) + ((3,) if s.chance(0.95) else (2,))
    return {"a": s.wild(d, shape), "b": s.wild(d, shape)}, {}


def approximate(s):
    d, shape = s.dtype(), s.shape()
    x = s.wild(d, shape)
    return {"x": x, "y": x + s.array(d, shape, -1, 1).astype(d) * s.one([1e-6, 1e-3])}, {"tolerance": s.one([1e-5, 1e-3])}


def quotients(s):
    """A quotient that is nothing where the divisor or factor is."""
    d, shape = s.dtype(), s.shape()
    zeroes = lambda a: np.where(s.r.random(a.shape) < 0.3, 0, a).astype(a.dtype)
    return {"x": zeroes(s.wild(d, shape)), "y": zeroes(s.wild(d, s.alike(shape))) if d not in C else s.array(d, s.alike(shape))}, {}


UNARY = "Exp Expm1 Sin Cos Tan Sinh Cosh Tanh Atan Asinh Sigmoid Floor Ceil Rint Round Erf Erfc IsNan IsInf IsFinite Abs Neg Sign Square Inv Reciprocal Sqrt Rsqrt " \
    "Log Log1p Acosh Asin Acos Atanh Invert PopulationCount Lgamma Digamma"
def isotonic(s):
    d = s.one(F + H + ["int8", "int16"] + I)
    return {"input": s.ties(d, s.shape(0 if s.chance(0.03) else 1, 3))}, {"output_dtype": {"int8": "float32", "int16": "float32", "int32": "float64", "int64": "float64"}.get(d, d)}


DRAWS = {
    "IsotonicRegression": isotonic,
    **{op: unary() for op in UNARY.split()},
    **{op: unary(-30, 30, wild=0.2) for op in "BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1".split()},
    **{op: unary(0.1, 40, wild=0.2) for op in "BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1".split()},
    **{op: unary(-20, 20, wild=0.2) for op in "Dawsn FresnelCos FresnelSin".split()},
    "Expint": unary(-6, 20, wild=0.2), "Spence": unary(0, 9, wild=0.2), "Erfinv": unary(-1, 1), "Ndtri": unary(0, 1),
    **{op: unary(name="features") for op in "Elu Selu Softplus Softsign Relu Relu6".split()},
    "LeakyRelu": unary(name="features", alpha=[0.2, 0.0, -0.5, 1.0, 1.5]),
    "LeakyReluGrad": gradient(alpha=[0.2, 0.0, -0.5, 1.5]),
    **{op: gradient() for op in "ReluGrad Relu6Grad SoftplusGrad SoftsignGrad".split()},
    **{op: gradient(names=("gradients", "outputs")) for op in "EluGrad SeluGrad".split()},
    **{op: grads for op in "InvGrad ReciprocalGrad RsqrtGrad SqrtGrad SigmoidGrad TanhGrad".split()},
    **{op: binary() for op in "Maximum Minimum Less LessEqual Greater GreaterEqual AddV2 Add Sub Mul SquaredDifference".split()},
    **{op: binary(incompatible_shape_error=[True, True, False]) for op in "Equal NotEqual".split()},
    "Atan2": binary(names=("y", "x")), "NextAfter": binary(names=("x1", "x2")),
    **{op: binary() for op in "BitwiseAnd BitwiseOr BitwiseXor".split()}, "LeftShift": shift, "RightShift": shift,
    **{op: logical for op in "LogicalAnd LogicalOr".split()}, "LogicalNot": lambda s: ({"x": s.array("bool", s.shape())}, {}),
    **{op: division for op in "FloorDiv FloorMod Div Mod TruncateDiv TruncateMod RealDiv".split()}, "Pow": power,
    **{op: quotients for op in "DivNoNan Xlogy Xlog1py Xdivy MulNoNan".split()},
    "Igamma": binary(0.1, 30, ("a", "x"), wild=0.2), "Igammac": binary(0.1, 30, ("a", "x"), wild=0.2), "IgammaGradA": binary(0.2, 30, ("a", "x"), wild=0),
    "RandomGammaGrad": binary(0.2, 30, ("alpha", "sample"), wild=0), "Zeta": binary(1.1, 20, ("x", "q"), wild=0.2), "Polygamma": polygamma,
    "Betainc": threes(("a", "b", "x"), (0.1, 0.1, 0), (5, 5, 1)), "ClipByValue": clip, "AddN": addn, "AccumulateNV2": accumulate,
    "Cast": cast, "Bitcast": bitcast, "Cross": cross, "ApproximateEqual": approximate, "Complex": complex_,
    "Real": parts("input", 1), "Imag": parts("input", 1), "Angle": parts("input", 1), "ComplexAbs": parts("x", 1), "Conj": unary(name="input", among=C),
}


def denormal(a):
    least = {"float32": 1.2e-38, "bfloat16": 1.2e-38, "float64": 2.3e-308}.get(a.dtype.name, 0)
    return least > 0 and bool(np.any((a != 0) & (np.abs(a.astype(np.float64)) < least)))


def complex_zero(inputs, attrs, pole=0):
    return any(a.dtype.kind == "c" and np.any(a == pole) for a in inputs.values())


def out_of_range(inputs, attrs):
    """Numbers that a narrow integer cannot hold, in a tensor as long as vectors are."""
    import tensorflow as tf
    x, to = inputs["x"], tf.as_dtype(attrs["DstT"])
    if x.dtype.kind not in "fVc" or not to.is_integer or to.size > 2 or x.size < 8:
        return False
    wide = x.real.astype(np.float64)
    return bool(np.any(~((wide > to.min - 1) & (wide < to.max + 1))))


LANE = "complex division by zero: TensorFlow's answer depends on the lane (NaN in vectors, infinity in remainders)"
NOISE = "of a denormal number the C library's logarithm, power and atan2 make noise when denormals are flushed"
KNOWN = {
    "AddN": (lambda inputs, attrs: inputs["inputs"][0].dtype.itemsize == 2 and any(bool((np.abs(x.astype(np.float64)) > 1e3).any()) for x in inputs["inputs"]),
             "in 16 bits the order of additions decides what is left when large numbers cancel"),
    "Erf": (lambda inputs, attrs: inputs["x"].dtype == np.float64 and bool((np.abs(inputs["x"]) > 1e150).any()),
            "TensorFlow's vector lanes square a huge double and divide inf by inf"),
    "Cast": (out_of_range, "what does not fit an integer of 8 or 16 bits TensorFlow saturates in vectors and wraps in remainders"),
    "Betainc": (lambda inputs, attrs: any(bool(np.any(np.isfinite(inputs[k]) & (np.abs(inputs[k]) > 1e5))) for k in "ab"), "of huge parameters TensorFlow's floats leave noise, infinities and NaN"),
    "BesselY1": (lambda inputs, attrs: inputs["x"].dtype == np.float32 and denormal(inputs["x"]), "of a denormal float TensorFlow's vector lanes say NaN and remainders -inf"),
    "Expint": (lambda inputs, attrs: denormal(inputs["x"]), "of a denormal number TensorFlow's logarithm makes noise"),
    "Round": (lambda inputs, attrs: inputs["x"].dtype.kind == "i", "TensorFlow 2.21 rounds every integer to 0; tf.round does not call it for integers"),
    **{op: (complex_zero, LANE) for op in "Inv Reciprocal Rsqrt InvGrad ReciprocalGrad RsqrtGrad".split()},
    "SqrtGrad": (lambda inputs, attrs: complex_zero(inputs, attrs) or any(bool((np.abs(x.astype(np.float64)) > 8e37).any()) for x in inputs.values() if x.dtype.kind != "c"),
                 LANE + "; so does a quotient of floats whose reciprocal is denormal"),
    **{op: (lambda inputs, attrs: complex_zero(inputs, attrs) or any(denormal(x) for x in inputs.values()), NOISE) for op in "Lgamma Log Xlogy Pow Atan2".split()},
    **{op: (lambda inputs, attrs: complex_zero(inputs, attrs, -1) or any(denormal(x) for x in inputs.values()), NOISE + "; at the pole the phase is lost in inf / inf")
       for op in "Log1p Xlog1py".split()},
}
