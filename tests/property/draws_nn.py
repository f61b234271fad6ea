"""Draws of what neural networks are made of: convolutions and their gradients, pooling and its gradients, normalization, softmax, losses, morphology, patches."""
import numpy as np

from draw_source import F, H, I

HALF = {"float16": (2e-2, 2e-2), "bfloat16": (6e-2, 0.2)}


def loose(d, more=1):
    return {"rtol": HALF[d][0] * more, "atol": HALF[d][1] * more} if d in HALF else {}


class Window:
    """Strides, dilations and padding of a convolution or a pool over n axes, in a layout; and the shapes that go with them."""

    def __init__(self, s, n, layouts, explicit=True, dilated=True, most=3):
        self.n, self.layout = n, s.one(layouts)
        self.first = self.layout.find("C") == 1 or self.layout == "CHANNELS_FIRST"
        most = most if s.chance(0.85) else most + 4
        self.kernel = [s.int(1, most) for _ in range(n)] if s.chance(0.9) else [1] * n
        self.stride = [s.int(1, 3 if s.chance(0.9) else 7) if s.chance(0.4) else 1 for _ in range(n)]
        self.rate = [s.int(1, 2 if s.chance(0.8) else 5) if dilated and s.chance(0.25) else 1 for _ in range(n)]
        self.padding = s.one(["SAME", "VALID"] + ["EXPLICIT"] * explicit)
        self.edges = [[s.int(0, 2), s.int(0, 2)] if self.padding == "EXPLICIT" else [0, 0] for _ in range(n)]
        reach = lambda i: (self.kernel[i] - 1) * self.rate[i] + 1
        least = lambda i: 1 if self.padding == "SAME" else max(reach(i) - sum(self.edges[i]), 1)
        room = 4 if n == 3 or s.chance(0.85) else 20
        self.size = [least(i) + s.int(0, room) for i in range(n)]
        total = lambda i: self.size[i] + sum(self.edges[i])
        self.out = [-(-self.size[i] // self.stride[i]) if self.padding == "SAME" else (total(i) - reach(i)) // self.stride[i] + 1 for i in range(n)]

    def laid(self, batch, space, depth):
        return [batch, depth] + list(space) if self.first else [batch] + list(space) + [depth]

    def attrs(self, explicit=True, dilated=True, ksize=False):
        a = {"strides": self.laid(1, self.stride, 1), "padding": self.padding, "data_format": self.layout}
        if dilated:
            a["dilations"] = self.laid(1, self.rate, 1)
        if ksize:
            a["ksize"] = self.laid(1, self.kernel, 1)
        if explicit and self.padding == "EXPLICIT":
            a["explicit_paddings"] = [int(e) for pair in self.laid([0, 0], self.edges, [0, 0]) for e in pair]
        return a


def channels(s, most):
    """A number of channels: few, or as many as vectors and blocks need."""
    return s.int(1, most) if s.chance(0.75) else s.int(4, 40)


def conv(s):
    """Convolution of 2 or 3 axes, forward or gradient, grouped at times (2 axes)."""
    n = 3 if "3D" in s.op else 2
    forward = "Backprop" not in s.op
    layouts = ["NHWC", "NHWC", "NCHW"] if n == 2 else ["NDHWC"]
    if s.op == "Conv3DBackpropFilter" or s.op == "Conv3DBackpropInput":
        layouts = ["NDHWC"]
    w = Window(s, n, layouts, n == 2, dilated=forward or n == 2)
    groups = s.int(1, 4) if n == 2 and s.chance(0.3) else 1
    depth, filters, batch, d = channels(s, 3), groups * (channels(s, 3) if groups == 1 else s.int(1, 9)), s.int(1, 3), s.dtype()
    if s.chance(0.03):
        batch = 0
    x, k = w.laid(batch, w.size, groups * depth), w.kernel + [depth, filters]
    y = w.laid(batch, w.out, filters)
    attrs = w.attrs(explicit=n == 2)
    if w.layout == "NDHWC" and s.op in ("Conv3DBackpropFilter", "Conv3DBackpropInput"):
        del attrs["data_format"]
    a = lambda shape: s.array(d, shape, -1, 1)
    if forward:
        return {"input": a(x), "filter": a(k)}, attrs, loose(d)
    if s.op.endswith("Input") or s.op.endswith("InputV2"):
        first = {"input": a(x)} if s.op == "Conv3DBackpropInput" else {"input_sizes": np.array(x, np.int32)}
        return {**first, "filter": a(k), "out_backprop": a(y)}, attrs, loose(d, 2 * n)
    second = {"filter": a(k)} if s.op == "Conv3DBackpropFilter" else {"filter_sizes": np.array(k, np.int32)}
    return {"input": a(x), **second, "out_backprop": a(y)}, attrs, loose(d, 3)


def conv_any(s):
    """The op Conv, of 2 or 3 axes and any number of batch axes."""
    n = s.int(2, 3)
    w = Window(s, n, ["CHANNELS_LAST", "CHANNELS_LAST", "CHANNELS_FIRST"] if n == 2 else ["CHANNELS_LAST"], explicit=n == 2)
    depth, filters, d, batch = channels(s, 3), channels(s, 3), s.dtype(), s.int(1, 2) if n == 2 else 1
    x = w.laid(s.int(1, 2), w.size, depth)
    attrs = w.attrs()
    if batch == 2:
        x = [s.int(1, 2)] + x
        for name in ("strides", "dilations"):
            attrs[name] = [1] + attrs[name]
        if "explicit_paddings" in attrs:
            attrs["explicit_paddings"] = [0, 0] + attrs["explicit_paddings"]
    return {"input": s.array(d, x, -3, 3), "filter": s.array(d, w.kernel + [depth, filters], -3, 3)}, {**attrs, "batch_dims": batch, "groups": 1}, loose(d, 12)


def depthwise(s):
    w = Window(s, 2, ["NHWC"], most=4)
    w.stride = [w.stride[0]] * 2   # TensorFlow's depthwise kernels take equal strides alone
    if max(w.rate) > 1:
        w.stride = [1, 1]
    if w.padding != "SAME":
        w.out = [(w.size[i] + sum(w.edges[i]) - (w.kernel[i] - 1) * w.rate[i] - 1) // w.stride[i] + 1 for i in range(2)]
    else:
        w.out = [-(-w.size[i] // w.stride[i]) for i in range(2)]
    depth, times, batch, d = channels(s, 9), s.int(1, 3), s.int(1, 2), s.dtype()
    x, k, y = w.laid(batch, w.size, depth), w.kernel + [depth, times], w.laid(batch, w.out, depth * times)
    a = lambda shape: s.array(d, shape, -1, 1)
    attrs = w.attrs()
    if s.op == "DepthwiseConv2dNative":
        return {"input": a(x), "filter": a(k)}, attrs, loose(d)
    attrs["dilations"] = [1, 1, 1, 1]
    if max(w.rate) > 1:
        w.rate = [1, 1]
        w.out = [(w.size[i] + sum(w.edges[i]) - w.kernel[i]) + 1 for i in range(2)] if w.padding != "SAME" else w.size
        y = w.laid(batch, w.out, depth * times)
    if s.op.endswith("Input"):
        return {"input_sizes": np.array(x, np.int32), "filter": a(k), "out_backprop": a(y)}, attrs, loose(d, 2)
    return {"input": a(x), "filter_sizes": np.array(k, np.int32), "out_backprop": a(y)}, attrs, loose(d, 3)


def pool(s):
    """Max and average pools of 2 and 3 axes; V2 takes window and strides as inputs."""
    n = 3 if "3D" in s.op else 2
    w = Window(s, n, ["NHWC"] if n == 2 else ["NDHWC"], explicit=s.op == "MaxPool", dilated=False)
    if s.op == "MaxPool":
        w.edges = [[min(a, k - 1), min(b, k - 1)] for (a, b), k in zip(w.edges, w.kernel)]
    d = s.dtype()
    shape = w.laid(s.int(0 if s.chance(0.03) else 1, 2), w.size, channels(s, 5))
    x = s.wild(d, shape, p=0.15) if "Max" in s.op and d not in ("float32", "float64", "float16", "bfloat16") else s.ties(d, shape)
    if "Max" in s.op and d in F + H and s.chance(0.2):   # NaN is never greater: with it TensorFlow's answer depends on the lane
        x[s.r.random(x.shape) < 0.3] = s.one([-np.inf, np.inf, -0.0])
    attrs = w.attrs(dilated=False, ksize=True)
    if s.op == "MaxPoolV2":
        size, stride = (np.array(attrs.pop(k), np.int32) for k in ("ksize", "strides"))
        return {"input": x, "ksize": size, "strides": stride}, attrs
    if s.op == "MaxPool" and n == 2 and d == "float32" and s.chance(0.05):   # over depth
        attrs = {"ksize": [1, 1, 1, x.shape[3]], "strides": [1, 1, 1, x.shape[3]], "padding": "VALID"}
    return {"value" if s.op == "AvgPool" else "input": x}, attrs, loose(d)


def pool_argmax(s):
    w = Window(s, 2, ["NHWC"], explicit=False, dilated=False)
    attrs = w.attrs(dilated=False, ksize=True)
    del attrs["data_format"]
    d, shape = s.dtype(), w.laid(s.int(1, 2), w.size, channels(s, 3))
    x = distinct(s, d, shape) if s.chance(0.6) else s.ties(d, shape, -2, 2)   # of equal ones the first
    return {"input": x}, {**attrs, "Targmax": s.one(I), "include_batch_in_index": s.chance(0.5)}


def distinct(s, d, shape):
    """Numbers that differ, so that each window has one greatest; small, so that all dtypes hold them."""
    n = int(np.prod(shape))
    values = s.r.permutation(n) - (0 if d.startswith("u") else n // 2)
    import tensorflow as tf
    return (values % 120 if n > 120 and d not in F else values).astype(tf.as_dtype(d).as_numpy_dtype).reshape(shape)


def avg_grad(s):
    n = 3 if "3D" in s.op else 2
    w = Window(s, n, ["NHWC"] if n == 2 else ["NDHWC"], explicit=False, dilated=False)
    d, batch, depth = s.dtype(), s.int(1, 2), channels(s, 3)
    return {"orig_input_shape": np.array(w.laid(batch, w.size, depth), np.int32), "grad": s.array(d, w.laid(batch, w.out, depth), -2, 2)}, \
        w.attrs(dilated=False, ksize=True), loose(d)


def fractional(s):
    """Of fixed seeds, without which nothing can be compared."""
    d = s.dtype()
    n, ratios = s.int(1, 2), [1.0] + [float(np.float32(s.r.uniform(1, 3))) if s.chance(0.8) else float(s.int(1, 3)) for _ in range(2)] + [1.0]
    if s.chance(0.04):
        ratios[s.int(0, 3)] = s.one([0.9, 2.0])
    x = s.ties(d, (n, s.int(3, 12 if s.chance(0.8) else 40), s.int(3, 12), s.int(1, 5)))
    return {"value": x}, {"pooling_ratio": ratios, "pseudo_random": s.chance(0.5), "overlapping": s.chance(0.5), "deterministic": s.chance(0.97), "seed": s.int(1, 99999), "seed2": s.int(0, 99)}


def fractional_grad(s):
    d, overlapping = s.dtype(), s.chance(0.5)
    n, c = s.int(1, 2), s.int(1, 4)

    def places():
        widths = s.r.integers(1, 4, s.int(1, 5))
        return np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    rows, columns = places(), places()
    if s.chance(0.04):
        rows = rows[:-1] if s.chance(0.5) else rows - 1
    x = s.ties(d, (n, max(int(rows[-1]), 1), int(columns[-1]), c))
    dy = s.array(d, (n, max(len(rows) - 1, 1), len(columns) - 1, c))
    given = {"out_backprop": dy, "row_pooling_sequence": rows, "col_pooling_sequence": columns}
    if s.op == "FractionalAvgPoolGrad":
        return {"orig_input_tensor_shape": np.array(x.shape, np.int64), **given}, {"overlapping": overlapping}
    y = np.zeros(dy.shape, x.dtype)
    for r in range(dy.shape[1] if len(rows) > 1 and rows[0] == 0 else 0):
        for k in range(dy.shape[2]):
            y[:, r, k] = x[:, rows[r]:rows[min(r + 1, len(rows) - 1)] + overlapping, columns[k]:columns[k + 1] + overlapping].max((1, 2))
    return {"orig_input": x, "orig_output": y, **given}, {"overlapping": overlapping}


def max_grad(s):
    """Gradients of a max pool, whose own result is among the arguments: computed here by a pool of TensorFlow's."""
    import tensorflow as tf
    n, twice = 3 if "3D" in s.op else 2, "GradGrad" in s.op
    d = s.dtype("TInput") if s.op == "MaxPool3DGrad" else s.dtype()
    explicit = s.op == "MaxPoolGrad"
    w = Window(s, n, ["NHWC"] if n == 2 else ["NDHWC"], explicit=explicit, dilated=False)
    w.edges = [[min(a, k - 1), min(b, k - 1)] for (a, b), k in zip(w.edges, w.kernel)]
    shape = w.laid(s.int(1, 2), w.size, channels(s, 2))
    x = distinct(s, d, shape) if s.chance(0.7) else s.ties(d, shape, -2, 2)
    attrs, ints = w.attrs(dilated=False, ksize=True), d not in F + H
    pad = [[0, 0]] + w.edges + [[0, 0]] if w.padding == "EXPLICIT" else w.padding
    y = tf.nn.max_pool(tf.cast(x, "float64") if n == 2 else tf.cast(x, "float32"), attrs["ksize"], attrs["strides"], pad).numpy().astype(x.dtype)
    g = s.array(d, x.shape if twice else y.shape, -2, 2)
    if s.op == "MaxPoolGradV2":
        size, stride = (np.array(attrs.pop(k), np.int32) for k in ("ksize", "strides"))
        return {"orig_input": x, "orig_output": y, "grad": g, "ksize": size, "strides": stride}, attrs, loose(d)
    return {"orig_input": x, "orig_output": y, "grad": g}, attrs, loose(d) if not ints else {}


def max_grad_argmax(s):
    import tensorflow as tf
    d = s.dtype()
    w = Window(s, 2, ["NHWC"], explicit=False, dilated=False)
    attrs = w.attrs(dilated=False, ksize=True)
    del attrs["data_format"]
    x, index, batched = distinct(s, d, w.laid(s.int(1, 2), w.size, channels(s, 2))), s.one(I), s.chance(0.5)
    _, at = tf.raw_ops.MaxPoolWithArgmax(input=tf.cast(x, "float32"), Targmax=index, include_batch_in_index=batched, **attrs)
    g = s.array(d, x.shape if "GradGrad" in s.op else at.shape, -2, 2)
    return {"input": x, "grad": g, "argmax": at.numpy()}, {**attrs, "include_batch_in_index": batched}, loose(d)


def batch_norm(s):
    d = s.dtype()
    depth, layout = channels(s, 4), s.one(["NHWC", "NHWC", "NCHW"])
    if s.op == "FusedBatchNormV3" and s.chance(0.2):
        layout = s.one(["NDHWC", "NCDHW"])
    space = [s.int(0 if s.chance(0.02) else 1, 4 if s.chance(0.9) else 12) for _ in range(len(layout) - 2)]
    batch = s.int(0 if s.chance(0.03) else 1, 3)
    x = s.array(d, [batch, depth] + space if layout[1] == "C" else [batch] + space + [depth])
    u = d if s.op == "FusedBatchNorm" else "float32"
    vector = lambda lo, hi: s.array(u, (depth,), lo, hi)
    train = s.chance(0.4)
    factor = s.one([1.0, 0.25, 0.0])
    empty = train and factor == 1.0
    given = {"x": x, "scale": vector(-2, 2), "offset": vector(-2, 2), "mean": np.zeros(0, u) if empty else vector(-1, 1), "variance": np.zeros(0, u) if empty else vector(0.1, 3)}
    private = [f"y{i}" for i in range(3, 6)] + (["y5"] if not train else [])
    options = {**loose(d), "shape_only": private if not train else ["y5"] if x.size else ["y3", "y4", "y5"]}   # of no rows TensorFlow leaves these unwritten
    return given, {"epsilon": s.one([1e-3, 1e-5, 0.1]), "exponential_avg_factor": factor, "data_format": layout, "is_training": train}, options


def batch_norm_grad(s):
    d = s.dtype()
    depth, layout = channels(s, 4), s.one(["NHWC", "NHWC", "NCHW"])
    if s.op == "FusedBatchNormGradV3" and s.chance(0.2):
        layout = s.one(["NDHWC", "NCDHW"])
    space, batch = [s.int(1, 4) for _ in range(len(layout) - 2)], s.int(1, 3)
    shape = [batch, depth] + space if layout[1] == "C" else [batch] + space + [depth]
    u = d if s.op == "FusedBatchNormGrad" else "float32"
    vector = lambda lo, hi: s.array(u, (depth,), lo, hi)
    given = {"y_backprop": s.array(d, shape, -1, 1), "x": s.array(d, shape, -2, 2), "scale": vector(0.5, 2) if u == d else s.array("float32", (depth,), 0.5, 2),
             "reserve_space_1": vector(-1, 1), "reserve_space_2": vector(0.3, 3)}
    if s.op.endswith("V3"):
        given["reserve_space_3"] = vector(0, 1)
    return given, {"epsilon": s.one([1e-3, 1e-5]), "data_format": layout, "is_training": s.chance(0.6)}, \
        {**(loose(d, 2) or {"rtol": 1e-3, "atol": 1e-3}), "shape_only": ["y3", "y4"]}


def batch_norm_global(s):
    d, depth = s.dtype(), channels(s, 4)
    vector = lambda lo, hi: s.array(d, (depth,), lo, hi)
    return {"t": s.array(d, tuple(s.int(1, 3) for _ in range(3)) + (depth,)), "m": vector(-1, 1), "v": vector(0.1, 3), "beta": vector(-1, 1), "gamma": vector(-1, 1)}, \
        {"variance_epsilon": 1e-3, "scale_after_normalization": s.chance(0.5)}


def lrn(s):
    d = s.dtype()
    shape = tuple(s.int(1, 3) for _ in range(3)) + (channels(s, 9),)
    attrs = {"depth_radius": s.int(0, 9), "bias": s.one([1.0, 2.0]), "alpha": s.one([1.0, 0.1, 1e-4]), "beta": s.one([0.5, 0.75, 1.0, 0.3])}
    a = lambda: s.array(d, shape, -2, 2)
    if s.op == "LRN":
        return {"input": a()}, attrs, loose(d)
    import tensorflow as tf
    x = a()
    return {"input_grads": a(), "input_image": x, "output_image": tf.raw_ops.LRN(input=tf.cast(x, "float32"), **attrs).numpy().astype(x.dtype)}, attrs, loose(d, 3)


def bias(s):
    d, layout = s.dtype(), s.one(["NHWC", "NHWC", "NCHW"])
    x = s.array(d, s.shape(2 if s.chance(0.97) else 0, 5))
    channels = (x.shape[1] if layout == "NCHW" and x.ndim > 2 else x.shape[-1]) if x.ndim > 1 else 1
    if s.op == "BiasAddGrad":
        return {"out_backprop": x}, {"data_format": layout}, loose(d, 2)
    if s.op == "BiasAddV1":
        return {"value": x, "bias": s.array(d, (x.shape[-1] if x.ndim else 1,))}, {}
    return {"value": x, "bias": s.array(d, (channels + s.chance(0.03),))}, {"data_format": layout}


def softmax(s):
    d = s.dtype()
    """Also of rows with infinities and NaN, and of numbers whose exponentials overflow."""
    x = s.array(d, s.shape(0 if s.chance(0.05) else 1, 4), *s.one([(-9, 9), (-9, 9), (-200, 200), (-1e4, 1e4)]))
    if s.chance(0.1):
        x = np.where(s.r.random(x.shape) < 0.2, s.one([np.inf, -np.inf, -np.inf, np.nan]), x).astype(x.dtype)
    return {"logits": x}, {}, loose(d)


def cross_entropy(s):
    d, n, k = s.dtype(), s.int(0 if s.chance(0.05) else 1, 4), s.int(1, 5) if s.chance(0.8) else s.int(6, 80)
    span = s.one([(-4, 4), (-4, 4), (-90, 90)])
    if s.op.startswith("Sparse"):
        return {"features": s.array(d, (n, k), *span), "labels": s.array(s.dtype("Tlabels"), (n,), -1 if s.chance(0.05) else 0, k - 1 + s.chance(0.05))}, {}, loose(d)
    shapes = s.one([((n, k), (n, k)), ((n, k), (n, k)), ((1, k), (n, k)), ((n, k), (1, k)), ((n, 1), (n, k)), ((n, k), (n, 1)), ((n, k), (n + 1, k)), ((k,), (k,)), ((n, k), (k,))])
    return {"features": s.array(d, shapes[0], *span), "labels": s.array(d, shapes[1], 0, 1)}, {}, loose(d)


def l2_loss(s):
    d = s.dtype()
    return {"t": s.array(d, s.shape(), -2, 2)}, {}, loose(d, 2)


def dilation(s):
    d, w = s.dtype(), Window(s, 2, ["NHWC"], explicit=False)
    depth, batch = channels(s, 3), s.int(1, 2)
    lo, hi = s.one([(-20, 20), (-20, 20), (-127, 127)])
    x, k = s.array(d, [batch] + w.size + [depth], lo, hi), s.array(d, w.kernel + [depth], -3, 3)
    attrs = {"strides": [1] + w.stride + [1], "rates": [1] + w.rate + [1], "padding": w.padding}
    if s.op == "Dilation2D":
        return {"input": x, "filter": k}, attrs
    return {"input": x, "filter": k, "out_backprop": s.array(d, [batch] + w.out + [depth])}, attrs, loose(d)


def patches(s):
    """Windows as the rows of a tensor."""
    n = 3 if "Volume" in s.op else 2
    w = Window(s, n, ["NHWC" if n == 2 else "NDHWC"], explicit=False, dilated=n == 2)
    x = s.array(s.dtype(), [s.int(1, 2)] + w.size + [channels(s, 2)])
    attrs = {"ksizes": [1] + w.kernel + [1], "strides": [1] + w.stride + [1], "padding": w.padding}
    return ({"images": x}, {**attrs, "rates": [1] + w.rate + [1]}) if n == 2 else ({"input": x}, attrs)


DRAWS = {
    **{op: conv for op in "Conv2D Conv2DBackpropInput Conv2DBackpropFilter Conv3D Conv3DBackpropInput Conv3DBackpropInputV2 Conv3DBackpropFilter Conv3DBackpropFilterV2".split()},
    "Conv": conv_any, **{op: depthwise for op in "DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput DepthwiseConv2dNativeBackpropFilter".split()},
    **{op: pool for op in "MaxPool MaxPoolV2 MaxPool3D AvgPool AvgPool3D".split()}, "MaxPoolWithArgmax": pool_argmax,
    **{op: avg_grad for op in "AvgPoolGrad AvgPool3DGrad".split()},
    **{op: max_grad for op in "MaxPoolGrad MaxPoolGradV2 MaxPoolGradGrad MaxPool3DGrad MaxPool3DGradGrad".split()},
    "FractionalMaxPool": fractional, "FractionalAvgPool": fractional, "FractionalMaxPoolGrad": fractional_grad, "FractionalAvgPoolGrad": fractional_grad,
    **{op: max_grad_argmax for op in "MaxPoolGradWithArgmax MaxPoolGradGradWithArgmax".split()},
    **{op: batch_norm for op in "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3".split()},
    **{op: batch_norm_grad for op in "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3".split()}, "BatchNormWithGlobalNormalization": batch_norm_global,
    "LRN": lrn, "LRNGrad": lrn, **{op: bias for op in "BiasAdd BiasAddV1 BiasAddGrad".split()}, "Softmax": softmax, "LogSoftmax": softmax,
    "SoftmaxCrossEntropyWithLogits": cross_entropy, "SparseSoftmaxCrossEntropyWithLogits": cross_entropy, "L2Loss": l2_loss,
    **{op: dilation for op in "Dilation2D Dilation2DBackpropInput Dilation2DBackpropFilter".split()}, "ExtractImagePatches": patches, "ExtractVolumePatches": patches,
}
KNOWN = {"FractionalMaxPoolGrad": (lambda inputs, attrs: inputs["row_pooling_sequence"].size * inputs["col_pooling_sequence"].size > inputs["orig_input"].size,
                                   "TensorFlow refuses as many windows as there are pixels, whatever they are")}
