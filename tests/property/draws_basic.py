"""Draws of the commonest ops."""
import numpy as np

from draw_source import ANY, C, F, H, I, axes_of














def matmul(s):
    d, m, k, n, ta, tb = s.one(F + H + I + C), s.int(0, 6), s.int(0, 6), s.int(0, 6), s.chance(0.5), s.chance(0.5)
    a, b = (k, m) if ta else (m, k + s.chance(0.05)), (n, k) if tb else (k, n)
    return {"a": s.array(d, a), "b": s.array(d, b)}, {"transpose_a": ta, "transpose_b": tb}


def batch_matmul(s):
    d, m, k, n, batch = s.one(F + I + C), s.int(1, 4), s.int(1, 4), s.int(1, 4), s.shape(0, 2)
    ax, ay = s.chance(0.5), s.chance(0.5)
    return {"x": s.array(d, batch + ((k, m) if ax else (m, k))), "y": s.array(d, s.alike(batch) + ((n, k) if ay else (k, n)))}, {"adj_x": ax, "adj_y": ay}


def conv2d(s):
    groups, depth, out = s.int(1, 2), s.int(1, 3), s.int(1, 3)
    x = s.array(s.one(F), (s.int(1, 2), s.int(3, 8), s.int(3, 8), groups * depth), -1, 1)
    w = s.array(str(x.dtype), (s.int(1, 3), s.int(1, 3), depth, groups * out), -1, 1)
    rate = s.one([1, 1, 2])
    return {"input": x, "filter": w}, {"strides": [1, s.int(1, 2), s.int(1, 2), 1] if rate == 1 else [1, 1, 1, 1], "padding": s.one(["SAME", "VALID"]),
                                       "dilations": [1, rate, rate, 1]}


def depthwise(s):
    x = s.array(s.one(F), (s.int(1, 2), s.int(3, 8), s.int(3, 8), s.int(1, 4)), -1, 1)
    w, stride = s.array(str(x.dtype), (s.int(1, 3), s.int(1, 3), x.shape[3], s.int(1, 2)), -1, 1), s.int(1, 2)
    return {"input": x, "filter": w}, {"strides": [1, stride, stride, 1], "padding": s.one(["SAME", "VALID"])}


def pool(name):
    def draw(s):
        x = s.array(s.one(F), (s.int(1, 2), s.int(3, 8), s.int(3, 8), s.int(1, 3)))
        return {name: x}, {"ksize": [1, s.int(1, 3), s.int(1, 3), 1], "strides": [1, s.int(1, 3), s.int(1, 3), 1], "padding": s.one(["SAME", "VALID"])}
    return draw


def resize(s):
    half = s.chance(0.5)
    return {"images": s.array(s.one(F + ["uint8", "int32"]), (s.int(1, 2), s.int(1, 6), s.int(1, 6), s.int(1, 3)), 0, 9),
            "size": s.array("int32", (2,), 1, 9)}, {"half_pixel_centers": half, "align_corners": not half and s.chance(0.5)}





def softmax_loss(s):
    n, k = s.int(1, 4), s.int(1, 5)
    return {"features": s.array("float32", (n, k)), "labels": s.array(s.one(I), (n,), 0, k - 1)}, {}


DRAWS = {
    "MatMul": matmul, "BatchMatMulV2": batch_matmul, "Conv2D": conv2d, "DepthwiseConv2dNative": depthwise, "MaxPool": pool("input"), "AvgPool": pool("value"),
    "ResizeBilinear": resize, "ResizeNearestNeighbor": resize,
    "Softmax": lambda s: ({"logits": s.array(s.one(F), s.shape(1, 3))}, {}), "LogSoftmax": lambda s: ({"logits": s.array(s.one(F), s.shape(1, 3))}, {}),
    "SparseSoftmaxCrossEntropyWithLogits": softmax_loss,
}
