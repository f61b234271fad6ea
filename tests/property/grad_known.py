"""What grad_draws.py leaves out or lets differ, one by one."""
import numpy as np

NONE = "TensorFlow's gradient of it is none"
LACKS = "TensorFlow has no gradient of what its gradient is made of"
SEGMENTS = [f"SparseSegment{k}{n}" for k in ("Sum", "Mean", "SqrtN") for n in ("", "WithNumSegments")]
EXEMPT = {
    "ArgMax": "its results are integers", "ArgMin": "its results are integers", "PreventGradient": "refuses to be differentiated",
    "SparseSparseMaximum": "TensorFlow's gradient function takes too few arguments", "SparseSparseMinimum": "TensorFlow's gradient function takes too few arguments",
    "SparseDenseCwiseAdd": "TensorFlow's gradient function says that there is none", "QuantizeAndDequantizeV4Grad": "TensorFlow's gradient function takes too few arguments",
    "BlockLSTMV2": "TensorFlow's gradient takes the gates in BlockLSTM's order, which is not V2's: what it answers is no gradient",
    "DebugGradientIdentity": "asks for the gradient debugger that made it", "CTCLossV2": "TensorFlow has no kernel for processors; CTCLoss is drawn",
}
PRIVATE = {"BlockLSTMV2": {0, 2, 3, 4, 5}}   # results that gradients pass by
REAL = {"Svd": {0}, "SelfAdjointEigV2": {0}}   # results that are real in a complex dtype: what an imaginary gradient of theirs does is an accident of TensorFlow's formulas
NO_SECOND = {
    **{op: NONE for op in "Ceil Floor FloorDiv Rint Round TruncateDiv NextAfter Sign".split()},
    **{op: LACKS for op in "BatchNormWithGlobalNormalization BlockLSTM BlockLSTMV2 CropAndResize CTCLoss Dilation2D Igamma Igammac LRN MaxPoolGradV2 MaxPoolWithArgmax QuantizeAndDequantizeV4 "
       "RaggedTensorFromVariant RaggedTensorToVariant RandomGamma ResizeBicubic ResizeNearestNeighbor ScaleAndTranslate Softsign SparseSegmentMeanWithNumSegments "
       "SparseSegmentSqrtN SparseSegmentSqrtNWithNumSegments SparseSlice SparseSoftmax StatelessRandomGammaV2 StatelessRandomGammaV3".split()},
    **{op: "an array of TensorFlow 1 has one gradient: the second finds it read already" for op in "TensorArrayConcatV3 TensorArrayGatherV3 TensorArrayReadV3 TensorArrayScatterV3 "
       "TensorArraySplitV3 TensorArrayWriteV3".split()},
    **{op: "TensorFlow: second-order gradients of while loops are not supported" for op in "Enter Exit LoopCond NextIteration".split()},
}


def cut(half, axes):
    """Whether a transform's length is not its signal's: half, of an inverse one."""
    def known(inputs, attrs):
        lengths = [int(n) for n in inputs["fft_length"]]
        return list(inputs["input"].shape[-axes:]) != lengths[:-1] + ([lengths[-1] // 2 + 1] if half else lengths[-1:])
    return known


CUT = "of a signal that is cut, or filled, TensorFlow's gradient scales by the signal's length and fills nothing"
ALIGN = "TensorFlow's gradient takes diagonals that lie to the left for such that lie to the right"
WRONG = {
    "RFFT": (cut(False, 1), CUT), "RFFT2D": (cut(False, 2), CUT), "IRFFT": (cut(True, 1), CUT), "IRFFT2D": (cut(True, 2), CUT),
    "BlockLSTMV2": (lambda inputs, attrs: True, "TensorFlow's gradient takes its gates in the order of BlockLSTM"),
    **{op: (lambda inputs, attrs: True, ALIGN) for op in ("MatrixDiagV2", "MatrixDiagPartV2", "MatrixSetDiagV2")},
}
OUT_OF_ORDER = lambda i: any(tuple(a) > tuple(b) for a, b in zip(i, i[1:]))  # noqa: E731
COMPLEX = "complex: TensorFlow's gradient lacks a conjugate"
BAND = (lambda inputs, attrs: inputs["k"].size == 2 and inputs["k"].reshape(-1)[0] != inputs["k"].reshape(-1)[1],
        "several diagonals: TensorFlow makes it of MatrixDiagPartV3 and its like, which put the short ones at the other end")
POLE = (lambda inputs, attrs: any(a.dtype.kind == "c" and not a.all() for a in inputs.values()),
        "of a complex 1 / 0 TensorFlow makes NaN or infinity, by the element's place in its vectors")
TIES = lambda x: x.size and any(np.unique(row).size < row.size for row in x.astype(np.float64).reshape(-1, x.shape[-1] if x.ndim else 1))  # noqa: E731


def wide_windows(inputs, attrs):
    """Whether windows may begin before the input, of whose numbers some are equal."""
    return attrs["padding"] == "SAME" and max(attrs["ksize"]) > 2 and np.unique(inputs["input"]).size < inputs["input"].size


KNOWN = {
    **{f"{order}{op}": BAND for op in "MatrixDiagV2 MatrixDiagPartV2 MatrixSetDiagV2".split() for order in ("", "second_")},
    "MaxPool3D": (lambda inputs, attrs: not np.all(np.isfinite(inputs["input"].astype(np.float64))) or wide_windows(inputs, attrs),
                  "of infinite numbers TensorFlow finds none the greatest; windows that begin before the input it takes for as long again, and finds equals of the greatest beyond their end"),
    **{op: (lambda inputs, attrs: callable(attrs) and TIES(inputs["input"]), "of equal values it is not said which come first, or at all, without sorted") for op in ("TopKV2", "second_TopKV2")},
    "SparseAdd": (lambda inputs, attrs: OUT_OF_ORDER(inputs["a_indices"].tolist()) or OUT_OF_ORDER(inputs["b_indices"].tolist()), "indices out of order: TensorFlow's walks pair them by accident"),
    "Tile": (lambda inputs, attrs: inputs["input"].ndim > 6, "the gradient is made of twice as many axes where their number is not known before: more than 12"),
    **{f"second_{op}": (lambda inputs, attrs: True, "TensorFlow's first gradient, which is in the model, is wrong: WRONG") for op in ("MatrixDiagV2", "MatrixDiagPartV2", "MatrixSetDiagV2", "RFFT", "RFFT2D", "IRFFT", "IRFFT2D")},
    "Prod": (lambda inputs, attrs: inputs["input"].dtype.kind == "c" and inputs["input"].size > 200, "complex products that overflow: infinities or NaN"),
    "second_Tile": (lambda inputs, attrs: inputs["input"].ndim > 6, "TensorFlow's gradient is a graph of tensors of twice as many axes: more than 12"),
    **{op: (lambda inputs, attrs: inputs["indices"].size == 0, "of no indices TensorFlow leaves the gradient as its memory was") for op in SEGMENTS},
    **{op: POLE for op in "Inv Log Reciprocal second_Angle second_Inv second_Log second_Reciprocal".split()},
}
ROUGH = {
    **{op: "TensorFlow begins 3-D convolutions inside of the input where strides skip its end, but not their gradients" for op in ("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2")},
    **{op: "TensorFlow's gradient of an average pool gives to too many where a window is longer than the input" for op in ("AvgPoolGrad", "AvgPool3DGrad")},
    "MaxPool": "among infinite numbers", "MaxPoolV2": "among infinite numbers", "UnsortedSegmentProd": COMPLEX, "SegmentProd": COMPLEX,
    "UnsortedSegmentMin": "empty segments hold numbers that swamp all differences", "UnsortedSegmentMax": "as UnsortedSegmentMin",
    "NthElement": "equal values share the gradient, whichever of them it is that moves",
    "Sign": "complex: TensorFlow's gradient is zero", "DivNoNan": "near a division by zero", "EuclideanNorm": COMPLEX,
    "SoftmaxCrossEntropyWithLogits": "labels lack what comes through the second result",
    **{op: COMPLEX for op in "Cumprod SquaredDifference MulNoNan Xdivy Xlog1py Xlogy".split()},
    "TensorListGather": "of an element that is gathered twice TensorFlow keeps the last gradient",
    "QuantizeAndDequantizeV4": "passes through what is rounded",
    **{op: "a sample is also the choice among proposals, which jumps" for op in "StatelessRandomGammaV2 StatelessRandomGammaV3".split()},
}
