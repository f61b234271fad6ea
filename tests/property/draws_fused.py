"""Draws of what TensorFlow's optimizers make of others: products and convolutions with what comes before and after them."""
import numpy as np

ACTIVATIONS = [[], ["Relu"], ["Relu6"], ["Elu"], ["LeakyRelu"]]


def hidden(op, **attrs):
    """A program of an op that tf.raw_ops leaves out."""
    def program(**tensors):
        from tensorflow.python.framework import op_def_library
        y = op_def_library.apply_op(op, name="x", **tensors, **attrs)
        return list(y) if isinstance(y, (list, tuple)) else [y]
    return program


def convolution(s):
    d, k, c = s.one(["float32", "float32", "float64"]), (s.int(1, 3), s.int(1, 3)), s.int(1, 4)
    x = s.array(d, (s.int(1, 2), s.int(5, 8), s.int(5, 8), c))
    w = s.array(d, (*k, c, s.int(1, 5)))
    padding, stride = s.one(["SAME", "VALID", "EXPLICIT"]), s.int(1, 2)
    norm, n = s.chance(0.4), (w.shape[-1],)
    args = [s.array(d, n) for _ in range(3)] + [s.array(d, n, 0.1, 3)] if norm else [s.array(d, n)]
    dilation = s.one([1, 1, 2]) if stride == 1 else 1
    attrs = {"fused_ops": ["FusedBatchNorm" if norm else "BiasAdd"] + s.one(ACTIVATIONS), "num_args": len(args), "strides": [1, stride, stride, 1], "padding": padding,
             "explicit_paddings": [0, 0, s.int(0, 2), s.int(0, 2), s.int(0, 2), s.int(0, 2), 0, 0] if padding == "EXPLICIT" else [], "dilations": [1, dilation, dilation, 1],
             "epsilon": s.one([0.001, 0.1]), "leakyrelu_alpha": s.one([0.2, 0.01]), "data_format": "NHWC", "filter_format": "HWIO", "use_cudnn_on_gpu": True}
    return {"input": x, "filter": w, "args": args}, hidden(s.op, host_args=[], **attrs)


def product(s):
    d, (m, k, n) = "float32", (s.int(1, 9) for _ in range(3))
    ta, tb = s.chance(0.3), s.chance(0.3)
    a, b = s.array(d, (k, m) if ta else (m, k)), s.array(d, (n, k) if tb else (k, n))
    fused = ["BiasAdd"] + s.one(ACTIVATIONS + [["Tanh"], ["Sigmoid"], ["GeluExact"]])
    return {"a": a, "b": b, "args": [s.array(d, (n,))]}, hidden(s.op, fused_ops=fused, transpose_a=ta, transpose_b=tb, leakyrelu_alpha=s.one([0.2, 0.5]), epsilon=0.0001)


def padded(s):
    resize = s.op == "FusedResizeAndPadConv2D"
    d, c = s.one(["float32", "float32", "float64"]), s.int(1, 3)
    x, k = s.array(d, (1, s.int(4, 7), s.int(4, 7), c)), (s.int(1, 3), s.int(1, 3))   # of several images TensorFlow answers the first one's result for each
    pads = np.array([[0, 0], [s.int(0, 2), s.int(0, 2)], [s.int(0, 2), s.int(0, 2)], [0, 0]], np.int32)
    given = {"input": x, "paddings": pads, "filter": s.array(d, (*k, c, s.int(1, 4)))}
    attrs = {"mode": s.one(["REFLECT", "SYMMETRIC"]), "strides": [1, s.int(1, 2), s.int(1, 2), 1], "padding": s.one(["SAME", "VALID"])}
    attrs["strides"][2] = attrs["strides"][1]
    if resize:
        given = {"input": x, "size": np.array([s.int(4, 9), s.int(4, 9)], np.int32), **{n: given[n] for n in ("paddings", "filter")}}
        return given, {**attrs, "resize_align_corners": s.chance(0.5)}, {"rtol": 1e-4, "atol": 1e-5}
    return given, attrs


DRAWS = {"_FusedConv2D": convolution, "_FusedMatMul": product, **{op: padded for op in ("FusedPadConv2D", "FusedResizeAndPadConv2D")}}
EXEMPT = {"_FusedBatchNormEx": "TensorFlow's kernel for processors leaves its outputs empty; tests/unit/core/test_expand.c",
          "_FusedDepthwiseConv2dNative": "TensorFlow runs it by oneDNN alone, which is off here; tests/unit/core/test_expand.c"}
