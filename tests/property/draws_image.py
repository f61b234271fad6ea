"""Draws of ops on images: resizing and its gradients, crops, resampling, colours, boxes, non-max suppression."""
import numpy as np

HALF = {"float16": (1e-2, 1e-2), "bfloat16": (5e-2, 0.2)}


def loose(d):
    return {"rtol": HALF[d][0], "atol": HALF[d][1]} if d in HALF else {"rtol": 1e-4, "atol": 1e-3}


def image(s, d, lo=0, hi=9, most=7):
    if s.chance(0.1):
        most = 30
    return s.array(d, (s.int(0 if s.chance(0.02) else 1, 3), s.int(1, most), s.int(1, most), s.int(1, 3 if s.chance(0.8) else 20)), lo, hi)


def corners(s):
    half = s.chance(0.5)
    return {"half_pixel_centers": half, "align_corners": not half and s.chance(0.5)}


def resize(s):
    d = s.dtype()
    x, size = image(s, d, *s.one([(0, 9), (0, 9), (-100, 200)])), s.array("int32", (2 + s.chance(0.01),), -1 if s.chance(0.03) else 1, 11 if s.chance(0.85) else 40)
    if s.chance(0.1):   # as it was, or twice, or half as large
        size = (np.array(x.shape[1:3]) * s.one([1, 2, 4]) // s.one([1, 1, 2])).astype("int32")
        size = np.maximum(size, 1)
    attrs = {"align_corners": s.chance(0.4)} if s.op == "ResizeArea" else corners(s)
    return {"images": x, "size": size}, attrs, loose(d)


def resize_grad(s):
    d = s.dtype()
    n, c, most = s.int(1, 2), s.int(1, 3 if s.chance(0.8) else 20), 6 if s.chance(0.85) else 25
    if s.op == "ResizeNearestNeighborGrad":
        return {"grads": s.array(d, (n, s.int(1, most), s.int(1, most), c)), "size": s.array("int32", (2,), 1, most)}, corners(s), loose(d)
    return {"grads": s.array("float32", (n, s.int(1, most), s.int(1, most), c)), "original_image": s.array(d, (n, s.int(1, most), s.int(1, most), c))}, corners(s), loose(d)


def boxes(s, n):
    """Corners of boxes, turned around and outside at times."""
    b = s.r.uniform(0, 1, (n, 4))
    b = np.concatenate([np.minimum(b[:, :2], b[:, 2:]), np.maximum(b[:, :2], b[:, 2:])], 1)
    if n and s.chance(0.3):
        b[0] = s.r.uniform(-0.7, 1.7, 4)
    return b.astype(np.float32)


def crop(s):
    d, n = s.dtype(), s.int(0, 4)
    x = image(s, d)
    return {"image": x, "boxes": boxes(s, n), "box_ind": s.array("int32", (n,), -1 if s.chance(0.03) else 0, x.shape[0] - 1 + s.chance(0.03)),
            "crop_size": s.array("int32", (2,), 0 if s.chance(0.03) else 1, 5 if s.chance(0.8) else 20)}, {"method": s.one(["bilinear", "nearest"]), "extrapolation_value": s.one([0.0, -1.5])}, loose(d)


def crop_grad_image(s):
    n, size = s.int(0, 4), np.array([s.int(1, 2), s.int(1, 6), s.int(1, 6), s.int(1, 3)], np.int32)
    return {"grads": s.array("float32", (n, s.int(1, 4), s.int(1, 4), int(size[3]))), "boxes": boxes(s, n), "box_ind": s.array("int32", (n,), 0, int(size[0]) - 1), "image_size": size}, \
        {"T": s.dtype(), "method": s.one(["bilinear", "nearest"])}, {"rtol": 5e-2, "atol": 5e-2}


def crop_grad_boxes(s):
    d, n = s.dtype(), s.int(0, 4)
    x = image(s, d)
    return {"grads": s.array("float32", (n, s.int(1, 4), s.int(1, 4), x.shape[3])), "image": x, "boxes": boxes(s, n), "box_ind": s.array("int32", (n,), 0, x.shape[0] - 1)}, \
        {"method": "bilinear"}, {"rtol": 1e-3, "atol": 1e-2}


KERNELS = ["lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic"]


def scale_translate(s):
    given = {"scale": s.r.uniform(*s.one([(0.3, 2.5), (0.3, 2.5), (0.05, 0.4), (2, 9)]), 2).astype(np.float32), "translation": s.r.uniform(*s.one([(-2, 2), (-2, 2), (-20, 20)]), 2).astype(np.float32)}
    if s.chance(0.15):
        given = {"scale": np.float32(s.one([[1, 1], [2, 2], [0.5, 1]])), "translation": np.zeros(2, "float32")}
    attrs = {"kernel_type": s.one(KERNELS), "antialias": s.chance(0.5)}
    d = s.dtype()
    if s.op == "ScaleAndTranslate":
        return {"images": image(s, d), "size": s.array("int32", (2,), 1, 8 if s.chance(0.8) else 30), **given}, attrs, loose(d)
    x = image(s, d)
    return {"grads": s.array(d, (x.shape[0], s.int(1, 6), s.int(1, 6), x.shape[3])), "original_image": x, **given}, attrs, loose(d)


def projective(s):
    d = s.dtype("dtype")
    x = image(s, d, 1, 90)
    n = s.one([1, x.shape[0]])
    t = np.tile([1, 0, 0, 0, 1, 0, 0, 0], (n, 1)) + s.r.uniform(-0.5, 0.5, (n, 8)) * [1, 1, 4, 1, 1, 4, 0.05, 0.05]
    if s.chance(0.1):   # far outside, which reflects and wraps more than once
        t[:, [2, 5]] += s.r.uniform(-60, 60, (n, 2))
    given = {"images": x, "transforms": t.astype(np.float32), "output_shape": s.array("int32", (2,), 1, 8 if s.chance(0.8) else 30)}
    if s.op.endswith("V3"):
        given["fill_value"] = np.float32(s.one([0, 7]))
    modes = ["CONSTANT", "REFLECT", "WRAP", "NEAREST"]
    options = {"rtol": 1e-3, "atol": 2e-2} if d in ("float32", "float64") else {"rtol": 2e-2, "atol": 1}
    return given, {"interpolation": s.one(["NEAREST", "BILINEAR"]), "fill_mode": s.one(modes)}, options


def colours(s):
    d = s.dtype()
    shape = s.shape(0, 3) + (3 + s.chance(0.03),)
    x = s.array(d, shape, 0, 1)
    if s.chance(0.3):   # greys, blacks and pure colours
        x = np.rint(x * s.one([1, 2, 4])).astype(x.dtype) / np.asarray(s.one([1, 2, 4]), x.dtype)
        x = np.minimum(x, np.asarray(1, x.dtype)).astype(x.dtype)
    return {"images": x}, {}, {"rtol": 2e-2, "atol": 2e-2} if d in HALF else {"rtol": 1e-4, "atol": 1e-4}


def adjust(name, lo, hi):
    def draw(s):
        d = s.dtype()
        return {"images": s.array(d, s.shape(2 if s.chance(0.97) else 1, 4) + (3 + s.chance(0.02),), 0, 1), name: s.array("float32", () if s.chance(0.98) else (1,), lo, hi)}, {}, {"rtol": 2e-2, "atol": 2e-2} if d in HALF else {"rtol": 1e-4, "atol": 1e-4}
    return draw


def adjust_old(s):
    d = s.dtype()
    return {"images": s.array(d, s.shape(1, 2) + (2, 2, 3), 0, 99), "contrast_factor": s.array("float32", (), 0, 2), "min_value": np.float32(0), "max_value": np.float32(90)}, {}, loose(d)


def draw_boxes(s):
    d = s.dtype()
    n, k = s.int(1, 2), s.int(0, 3 if s.chance(0.8) else 15)
    given = {"images": s.array(d, (n, s.int(1, 8 if s.chance(0.8) else 30), s.int(1, 8 if s.chance(0.8) else 30), s.one([1, 3, 4])), 0, 1), "boxes": np.stack([boxes(s, k) for _ in range(n)])}
    if s.op.endswith("V2"):
        given["colors"] = s.array("float32", (s.int(0, 3), 4), 0, 1)
    return given, {}, {"rtol": 1e-2, "atol": 1e-2} if d in HALF else {}


def suppress(s):
    """Boxes that overlap here and there; scores that differ."""
    n = s.int(0, 8 if s.chance(0.8) else 60)
    d, u = (s.dtype(), s.dtype("T_threshold")) if s.op in ("NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV2") else ("float32", "float32")
    if s.op == "NonMaxSuppressionV5":
        d = u = s.dtype()
    b = (np.round(s.r.uniform(0, s.one([3, 3, 12]), (n, 4))) + s.r.uniform(0, s.one([0, 0.1, 0.4]), (n, 4))).astype("float32")
    given = {"boxes": cast(b, d), "scores": cast((s.r.permutation(n) / 10).astype("float32"), d), "max_output_size": np.int32(s.int(-1 if s.chance(0.02) else 0, 6 if s.chance(0.7) else 40))}
    if s.chance(0.15):   # equal scores: the first box wins
        given["scores"] = np.rint(given["scores"] * given["scores"].dtype.type(3)).astype(given["scores"].dtype)
    if n and s.chance(0.1):
        given["scores"][s.int(0, n - 1)] = s.one([-np.inf, np.inf, 0])
    near = lambda lo, hi: cast(np.float32(s.r.uniform(lo, hi)), u)
    if s.op == "NonMaxSuppression":
        return given, {"iou_threshold": s.one([0.1, 0.5, 0.9])}
    given["iou_threshold"] = near(0, 1) if s.chance(0.95) else cast(np.float32(s.one([0, 1, 1.5, -0.5])), u)
    if s.op != "NonMaxSuppressionV2":
        given["score_threshold"] = near(-0.2, 0.6) if s.chance(0.9) else cast(np.float32(-np.inf), u)
    if s.op == "NonMaxSuppressionV5":
        given["soft_nms_sigma"] = cast(np.float32(s.one([0, 0.5, 0.1, 2])), u)
    attrs = {"pad_to_max_output_size": s.chance(0.3)} if s.op in ("NonMaxSuppressionV4", "NonMaxSuppressionV5") else {}
    return given, attrs, {"rtol": 1e-2, "atol": 1e-2} if d in HALF else {}


def cast(x, d):
    import tensorflow as tf
    return np.asarray(x).astype(tf.as_dtype(d).as_numpy_dtype)


def suppress_overlaps(s):
    n = s.int(0, 7 if s.chance(0.8) else 40)
    o = s.r.uniform(0, 1, (n, n)).astype("float32")
    return {"overlaps": o, "scores": (s.r.permutation(n) / 10).astype("float32"), "max_output_size": np.int32(s.int(0, 6 if s.chance(0.8) else 40)),
            "overlap_threshold": np.float32(s.r.uniform(0, 1)), "score_threshold": np.float32(s.r.uniform(-0.2, 0.6))}, {}


def suppress_combined(s):
    batch, n, classes = s.int(1, 3), s.int(0 if s.chance(0.03) else 1, 6 if s.chance(0.8) else 40), s.int(1, 3 if s.chance(0.8) else 12)
    q = s.one([1, classes])
    b = (np.round(s.r.uniform(0, 3, (batch, n, q, 4))) / 3 + s.r.uniform(0, 0.1, (batch, n, q, 4))).astype("float32")
    scores = s.r.permutation(batch * n * classes).reshape(batch, n, classes).astype("float32") / 30
    return {"boxes": b, "scores": scores, "max_output_size_per_class": np.int32(s.int(0 if s.chance(0.03) else 1, 4 if s.chance(0.8) else 30)), "max_total_size": np.int32(s.int(0 if s.chance(0.03) else 1, 8 if s.chance(0.8) else 50)),
            "iou_threshold": np.float32(s.r.uniform(0, 1)), "score_threshold": np.float32(s.r.uniform(-0.2, 0.6))}, \
        {"pad_per_class": s.chance(0.3), "clip_boxes": s.chance(0.5)}


def glimpse(s):
    x = image(s, "float32")
    attrs = {"centered": s.chance(0.5), "normalized": s.chance(0.5), "noise": "zero", "uniform_noise": s.chance(0.03)}
    reach = 1.2 if attrs["normalized"] else 8
    return {"input": x, "size": s.array("int32", (2,), 0 if s.chance(0.03) else 1, 6), "offsets": s.array("float32", (len(x) + s.chance(0.03), 2), -reach, reach)}, attrs


DRAWS = {
    "ExtractGlimpse": glimpse, "ExtractGlimpseV2": glimpse,
    **{op: resize for op in "ResizeBilinear ResizeBicubic ResizeNearestNeighbor ResizeArea".split()},
    **{op: resize_grad for op in "ResizeBilinearGrad ResizeBicubicGrad ResizeNearestNeighborGrad".split()},
    "CropAndResize": crop, "CropAndResizeGradImage": crop_grad_image, "CropAndResizeGradBoxes": crop_grad_boxes, "ScaleAndTranslate": scale_translate,
    "ScaleAndTranslateGrad": scale_translate, "ImageProjectiveTransformV2": projective, "ImageProjectiveTransformV3": projective,
    "RGBToHSV": colours, "HSVToRGB": colours, "AdjustHue": adjust("delta", -1, 1), "AdjustSaturation": adjust("scale", 0, 3), "AdjustContrastv2": adjust("contrast_factor", 0, 3),
    "AdjustContrast": adjust_old, "DrawBoundingBoxes": draw_boxes, "DrawBoundingBoxesV2": draw_boxes,
    **{op: suppress for op in "NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5".split()},
    "NonMaxSuppressionWithOverlaps": suppress_overlaps, "CombinedNonMaxSuppression": suppress_combined,
}
